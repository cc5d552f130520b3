"""The ledger's measured peak is at most the planned peak, which is at most the budget."""

# ruff: noqa: E501 - a table reads best with one case on a line

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import local

import infinitensor as it
from infinitensor import events

from .programs import PROGRAMS, Program
from .sampling import WHOLE, logged_rng, sample, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [time_limit(120), pytest.mark.filterwarnings("error")]

BUDGET_BYTES = 256 << 20


def positive(xp: Any, x: Any) -> Any:
    return x.T @ x + 10 * xp.eye(x.shape[1], dtype=x.dtype)


OURS: dict[str, Program] = {
    "logsumexp": Program(((400, 50),), lambda xp, x: it.logsumexp(x, axis=1)),
    "top values": Program(((300, 40),), lambda xp, x: it.topk(x, 5)[0]),
    "unique": Program(((5000,),), lambda xp, x: it.unique(it.round(x * 50))),
    "nonzero": Program(((60, 70),), lambda xp, x: it.nonzero(x > 0.5)[0]),
    "searchsorted": Program(((900,), (500,)), lambda xp, x, y: it.searchsorted(it.sort(x), y)),
    "fast Fourier transform": Program(((64, 256),), lambda xp, x: it.abs(it.fft.fft(x))),
    "tall QR": Program(((800, 20),), lambda xp, x: it.linalg.qr(x)[1]),
    "Cholesky": Program(((300, 60),), lambda xp, x: it.linalg.cholesky(positive(it, x))),
    "solve": Program(((300, 60),), lambda xp, x: it.linalg.solve(positive(it, x), x[:60, 0])),
    "take along an axis": Program(((300, 30),), lambda xp, x: it.take_along_axis(x, it.argsort(x, axis=0), axis=0)),
    "split and stack": Program(((300, 30),), lambda xp, x: it.stack(it.split(x, 3, axis=0), axis=2)),
    "tile and repeat": Program(((100, 30),), lambda xp, x: it.tile(it.repeat(x, 2, axis=0), (1, 2))),
    "index array write": Program(((3000,),), lambda xp, x: _scattered(x)),
    "random": Program(((2,),), lambda xp, x: it.sum(it.random.normal(size=(500, 40)), axis=0)),
    "map_tiles": Program(((300, 40),), lambda xp, x: it.map_tiles(lambda tile: tile * 2, x, form="nd->nd")),
}  # fmt: skip


def _scattered(x: Any) -> Any:
    x = x * 1
    x[it.asarray(np.arange(0, 3000, 7))] = 5
    return x


ALL = {**PROGRAMS, **OURS}
# (tile_elements, scale of the first axis): a few tiles, dozens, and the default on larger arrays
CUTS = [(500, 1), (4000, 1), (20_000, 10), (0, 10)]
RUNS = [(devices, *cut) for devices, cut in itertools.product(["cpu", "cpu*3"], CUTS)]


def peaks(of: Any) -> dict[tuple[str, str], int]:
    """Bytes by (device, tier), with both written as text."""
    return {(str(device), str(tier)): int(size) for (device, tier), size in of.items()}


def fault(build: Callable[[], it.Tensor]) -> str:
    """What is broken of the promise for one evaluation, or nothing."""
    it.shutdown()
    tensor = build()
    planned = peaks(it.plan(tensor).peak_bytes)
    it.stats(reset=True)
    it.compute(tensor)
    measured = peaks(it.stats()["peak_bytes"])
    if not any(measured.values()):
        return "the ledger measured nothing"
    for key, size in measured.items():
        if size > planned.get(key, 0):
            return f"{key}: measured {size}, planned {planned.get(key, 0)}"
    for key, size in planned.items():
        if size > BUDGET_BYTES:
            return f"{key}: planned {size}, budget {BUDGET_BYTES}"
    return ""


@pytest.mark.parametrize("name", ALL)
def test_measured_peak_is_at_most_the_planned_peak(name: str) -> None:
    program = ALL[name]
    it.config.small_elements = 0
    broken = []
    for devices, tile_elements, scale in sample(RUNS, 4, name):
        arrays = program.arrays(logged_rng("promise", name), 1 if name in OURS else scale)
        it.config.tile_elements = tile_elements
        it.config.devices, it.config.memory = devices, f"{BUDGET_BYTES}"
        say = fault(lambda a=arrays: program.run(it, *map(it.asarray, a)))  # type: ignore[misc]
        if say:
            broken.append(f"{devices}, tiles of {tile_elements}, scale {scale}: {say}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("name", ALL)
def test_any_budget_is_kept_or_refused(name: str) -> None:
    """Kept: the audit looks at what every evaluation holds."""
    program = ALL[name]
    arrays = program.arrays(logged_rng("budget", name))
    found: list[Any] = []
    need = BUDGET_BYTES
    it.config.small_elements, it.config.tile_elements = 0, 500
    for share in (1.0, 1.0, 0.9, 0.7, 0.5, 0.35, 0.25) if WHOLE else (1.0, 1.0, 0.7, 0.3):
        with it.init("cpu*2", memory=int(need * share)) as session:
            try:
                found.append(np.asarray(program.run(it, *map(it.asarray, arrays))))
            except it.MemoryBudgetError:
                continue
            need = min(need, max(ledger.peak_bytes for ledger in local(session).ledgers))
    for values in found if name != "random" else ():
        np.testing.assert_allclose(values, found[0], rtol=1e-4, atol=1e-6)
    assert found


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_that_are_promised_memory_also_give_numpys_value(name: str) -> None:
    program = PROGRAMS[name]
    arrays = program.arrays(logged_rng("value", name))
    it.config.small_elements, it.config.tile_elements = 0, 500
    with it.init(devices="cpu*3"):
        got = np.asarray(program.run(it, *map(it.asarray, arrays)))
    wanted = np.asarray(program.run(np, *arrays))
    assert got.dtype == wanted.dtype
    rtol = 1e-4 if wanted.dtype == np.float32 else 1e-9
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)


def test_the_ledger_is_empty_again_after_the_tensors_die() -> None:
    it.config.small_elements = 0
    with it.init(devices="cpu*2", memory="64MiB"):
        for _ in range(40):  # 40 x 8 MB: more than the budget, were anything kept
            x = it.asarray(np.ones((1000, 1000)))
            assert float((x * 2).sum()) == 2_000_000.0
            del x


def test_bytes_allocated_from_torch_never_pass_the_planned_peak() -> None:
    it.config.small_elements, it.config.tile_elements = 0, 10_000
    with it.init(devices="cpu", memory="128MiB"):
        x = it.asarray(np.ones((1000, 400)))
        result = it.sum((x * 2 + 1) @ x.T, axis=0)
        planned = peaks(it.plan(result).peak_bytes)
        taken: list[int] = []
        with events.on("allocate", lambda *, n_bytes, **what: taken.append(int(n_bytes))):
            it.compute(result)
    assert taken == [] or max(taken) <= max(planned.values())
