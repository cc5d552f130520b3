"""The pytest plugin of one suite's subprocess: sets the shim up, writes one line a test.

The environment names the suite, its checkout and the file of results.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.suites import shims, stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITE = os.environ["INFINITENSOR_SUITE"]
RESULTS = Path(os.environ["INFINITENSOR_SUITE_RESULTS"])
SAMPLE = int(os.environ.get("INFINITENSOR_SUITE_SAMPLE", "0"))
IDS = os.environ.get("INFINITENSOR_SUITE_IDS")
getattr(shims, SUITE)(Path(os.environ["INFINITENSOR_SUITE_ROOT"]))

swapped_modules: set[Any] = set()
outcomes: dict[str, tuple[str, str]] = {}
said: set[str] = set()


def write(name: str, outcome: str, why: str = "") -> None:
    """One more line of results; the file is whole up to a crash."""
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps([name, outcome, why]) + "\n")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> None:
    """NumPy's test modules get our names before their tests are collected."""
    module = collector.getparent(pytest.Module)
    if SUITE == "numpy" and module is not None and module.obj not in swapped_modules:
        swapped_modules.add(module.obj)
        shims.ours_for_numpys(module.obj)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """SciPy's tests run on this library."""
    if SUITE == "scipy":
        shims.backend(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only the tests that are named, where some are; so many of each function's, where asked."""
    names = {item.nodeid for item in items}
    if IDS:
        names &= set(json.loads(Path(IDS).read_text(encoding="utf-8")))
    if SAMPLE:
        functions: dict[str, list[str]] = {}
        for name in sorted(names, key=lambda name: zlib.crc32(name.encode())):
            functions.setdefault(name.partition("[")[0], []).append(name)
        names = {name for some in functions.values() for name in some[:SAMPLE]}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
    items[:] = [item for item in items if item.nodeid in names]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A module that cannot be imported is one failure."""
    if report.failed:
        write(report.nodeid, "failed", f"collection: {last_line(report)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test that dies is the last one that was begun."""
    write(item.nodeid, "begun")
    if SUITE == "numpy" and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        for name, value in item.callspec.params.items():
            item.callspec.params[name] = shims.ours_of(value)
    shims.running(True)
    try:
        return (yield)
    finally:
        absent = stand_in.used
        touched = SUITE != "numpy" or shims.Namespace.touched
        shims.running(False)
        outcome, why = outcomes.pop(item.nodeid, ("skipped", "nothing ran"))
        if outcome == "failed" and absent:  # their comparisons take the skip for an error
            outcome, why = "skipped", f"out of scope: {absent}"
        write(item.nodeid, outcome if touched else "untouched", why)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The worst of set-up, call and tear-down."""
    outcome = str(report.outcome)
    why = last_line(report) if outcome != "passed" else ""
    if hasattr(report, "wasxfail"):
        outcome = "skipped" if report.skipped else "passed"
    elif outcome == "failed" and "[XPASS(strict)]" in why:
        outcome = "passed"  # they expect a failure of their own library
    before = outcomes.get(report.nodeid, ("passed", ""))
    if before[0] == "passed":
        outcomes[report.nodeid] = (outcome, why)


def last_line(report: pytest.CollectReport | pytest.TestReport) -> str:
    """The error in one line, with the line of the test or of the library that raised it."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash is not None else str(report.longrepr)[-300:]
    lines = [line for line in message.splitlines() if line.strip()]
    # CuPy's comparisons put the traceback that they caught into the message
    error = re.compile(r"(\w+\.)*\w+(Error|Exception|Warning)\b")
    caught = [line for line in lines[1:] if error.match(line)]
    kept = " | ".join(lines[:1] + caught[:2] if caught else lines[:4])[:400]
    return f"{kept} @{Path(crash.path).name}:{crash.lineno}" if crash is not None else kept
