"""Every evaluation of every test is audited; a test that measures time or memory opts out.

Settings that a test changed are put back after it. Whatever the machine has, a test that is not
marked `gpu` runs on the CPU, in child processes too.
"""

from __future__ import annotations

import os
import signal
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.audit import Audit
from tests.ir.sessions import strict
from tests.reliability.sampling import sample

import infinitensor as it
from infinitensor.config import config

if TYPE_CHECKING:
    from collections.abc import Iterator


# started in the background (nohup, `&` in a script) a process ignores Ctrl-C, which tests send
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _children_find_us() -> None:
    """Child processes import this library, wherever they are started: also one not installed."""
    spec = find_spec("infinitensor")
    assert spec is not None
    assert spec.origin is not None
    places = [str(Path(spec.origin).resolve().parents[1])]
    places += [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(places))


_children_find_us()
PINNED = not config.devices
"""Whether nobody has said what tests run on."""
if PINNED:
    config.devices = os.environ["INFINITENSOR_DEVICES"] = "cpu"


def pytest_configure(config: pytest.Config) -> None:
    """Where no test is for a GPU, torch and Triton see none either."""
    if "not gpu" in (config.option.markexpr or ""):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test that is marked `sampled(n)`, n of its cases are run; all where all of it is."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for name, every in cases.items():
        mark = every[0].get_closest_marker("sampled")
        assert mark is not None
        left_out |= set(every) - set(sample(every, mark.args[0], name))
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def gpus_are_for_those_who_ask(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A test marked `gpu` opens a session on all GPUs where it says nothing else."""
    if not request.node.get_closest_marker("gpu") or not PINNED:
        yield
        return
    monkeypatch.delenv("INFINITENSOR_DEVICES")
    monkeypatch.setattr(config, "devices", "")
    it.shutdown()
    yield
    it.shutdown()


@pytest.fixture(autouse=True)
def settings_are_put_back() -> Iterator[None]:
    """A test leaves the settings that it found, and how NumPy prints."""
    before = {field.name: getattr(config, field.name) for field in fields(config)}
    printed = np.get_printoptions()
    yield
    np.set_printoptions(**printed)
    for name, value in before.items():
        setattr(config, name, value)


@pytest.fixture(scope="module")
def in_small_tiles(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything in tiles of 7 elements on three devices, or what a module's parameters say."""
    devices, tile_elements = getattr(request, "param", ("cpu*3", 7))
    with strict(devices, tile_elements):
        yield


@pytest.fixture(autouse=True, scope="session")
def nothing_is_left_beside_the_sources() -> Iterator[None]:
    """Tests write into folders of their own."""
    here = Path(__file__).resolve().parents[1]
    before = set(here.iterdir())
    yield
    left = {path.name for path in set(here.iterdir()) - before if path.name[0] != "."}
    assert not left, f"tests have left files in the repository: {sorted(left)}"


@pytest.fixture(autouse=True)
def audit(request: pytest.FixtureRequest) -> Iterator[Audit | None]:
    """The audit of this test's evaluations; None for tests marked `unaudited`."""
    if request.node.get_closest_marker("unaudited"):
        yield None
        return
    with Audit().on() as audit:
        yield audit
