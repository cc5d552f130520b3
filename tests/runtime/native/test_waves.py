"""Waves over the steps of stencils: NumPy's bits, a legal order, fewer bytes from memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ir.sessions import local, strict
from tests.runtime.native.test_c_program import is_stopped
from tests.runtime.run.test_run import begin

import infinitensor as it
from infinitensor import native
from infinitensor.runtime import Workers
from infinitensor.runtime.native import c_program, waves

if TYPE_CHECKING:
    from infinitensor.ir.tasks import Program

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(native.compiler() is None, reason="nothing is generated"),
]
ROW = 1024
"""Bytes of a row, and of a tile that is one."""


@pytest.fixture(autouse=True)
def bound_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_program, "BIND", 0)
    monkeypatch.setattr(c_program, "BIND_MORE", 0)


SMALL = 64 * ROW
"""A cache of 64 rows, of which waves count on 32."""


def ours(cache_bytes: int, n_workers: int = 2) -> dict[str, Any]:
    return {
        "compile": "always",
        "inline_elements": 0,
        "cache_bytes": cache_bytes,
        "workers": n_workers,
    }


def relax(xp: Any, x: Any, steps: int) -> Any:
    for _ in range(steps):
        x[1:-1, 1:-1] = 0.25 * (x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])
    return x


def leap(xp: Any, x: Any, steps: int) -> Any:
    """Two tensors by turns, of which one looks back only, and further."""
    y = x * 2
    for _ in range(steps):
        y[3:] = x[:-3] + y[3:] * 0.5
        x[1:-1] = y[:-2] - y[2:] * 0.25
    return x + y


def grid(n_rows: int) -> np.ndarray:
    values: np.ndarray = np.random.default_rng(n_rows).random((n_rows, ROW // 8))
    return values


@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("program", [relax, leap])
def test_waves_have_the_bits_of_numpy(program: Any, n_workers: int) -> None:
    values = grid(60)
    with strict("cpu", ROW // 8, **ours(SMALL, n_workers)):
        found = np.asarray(program(it, it.array(values), 13))
        counts = it.stats()
        assert counts["tasks_in_waves"] > 0.8 * counts["tasks"], counts
    np.testing.assert_array_equal(found, program(np, values.copy(), 13))


@settings(deadline=None, max_examples=25)
@given(
    n_rows=st.integers(9, 80),
    shifts=st.lists(st.integers(-4, 4), min_size=1, max_size=4),
    steps=st.integers(2, 20),
    cache=st.integers(4, 200),
    tile=st.integers(1, 5),
    n_workers=st.integers(1, 3),
)
def test_any_chain_of_writes_keeps_to_what_waits_for_what(
    n_rows: int, shifts: list[int], steps: int, cache: int, tile: int, n_workers: int
) -> None:
    def run(xp: Any, x: Any) -> Any:
        for k in range(steps):
            shift = shifts[k % len(shifts)]
            x[4:-4] = 0.5 * x[4 + shift : n_rows - 4 + shift] + x[4:-4]
        return x

    values = grid(n_rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(c_program, "BIND", 0)
        patch.setattr(c_program, "BIND_MORE", 0)
        found_waves = waves.find_waves

        def checked(program: Program, n: int) -> waves.Waves | None:
            found = found_waves(program, n)
            if found is not None:
                places = np.full(program.graph.n_tasks, -1)
                places[found.order] = np.arange(len(found.order))
                assert len(found.order) == np.count_nonzero(program.needed)
                sources = np.repeat(np.arange(len(places)), np.diff(program.borders))
                assert (places[sources] < places[program.after]).all()
            return found

        patch.setattr(c_program, "find_waves", checked)
        with strict("cpu", tile * ROW // 8, **ours(cache * ROW, n_workers)):
            found = np.asarray(run(it, it.array(values)))
    np.testing.assert_array_equal(found, run(np, values.copy()))


def missed_bytes(program: Program, order: np.ndarray, room: int) -> int:
    """Bytes that come from memory where the slots used last stay in a cache of so many bytes."""
    cache: OrderedDict[int, int] = OrderedDict()
    missed = 0
    families = [f for f in program.graph.families for _ in range(f.n)]
    for task in order.tolist():
        family = families[task]
        assert family.many is not None
        borders, sources = family.many
        i = task - family.first
        tiles = [*sources[borders[i] : borders[i + 1]].tolist(), int(family.writes[0][i])]
        for tile in tiles:
            slot = int(program.slots[tile]) if program.slots[tile] >= 0 else -1 - tile
            if slot in cache:
                cache.move_to_end(slot)
                continue
            cache[slot] = ROW
            missed += ROW
            while len(cache) * ROW > room:
                cache.popitem(last=False)
    return missed


def test_waves_bring_less_from_memory() -> None:
    with strict("cpu", ROW // 8, **ours(SMALL)) as session:
        run, _ = begin(session, relax(it, it.asarray(grid(300)), 24))
        program = run.program
        found = waves.find_waves(program, 2)
        assert found is not None
        assert len(found.members) == 24 * 300
        step_by_step = missed_bytes(program, np.arange(program.graph.n_tasks), 64 * ROW)
        in_waves = missed_bytes(program, found.order, 64 * ROW)
        assert step_by_step > 24 * 300 * ROW
        assert in_waves < step_by_step / 6
        run.release()


def test_what_is_in_cache_anyway_goes_step_by_step() -> None:
    values = grid(60)
    for n_bytes in (1 << 30, 8 * ROW, 0):  # all fits, no two steps do, there is none
        with strict("cpu", ROW // 8, **ours(n_bytes)):
            found = np.asarray(relax(it, it.array(values), 9))
            counts = it.stats()
        assert counts["tasks_in_waves"] == 0 < counts["tasks_in_c"]
        np.testing.assert_array_equal(found, relax(np, values.copy(), 9))


@pytest.mark.parametrize("n_workers", [0, 3])
def test_waves_that_are_stopped_go_on(n_workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_program, "SLICE_NS", 0)
    workers = Workers(n_workers) if n_workers else None
    values = grid(60)
    with strict("cpu", ROW // 8, **ours(SMALL)) as session:
        for _ in range(50):  # other threads may be done before this one ticks
            run, number = begin(session, relax(it, it.array(values), 9))
            if is_stopped(run, workers, 40):
                break
            run.release()
        counts, status = run.status.counts, run.status
        assert 0 < counts["tasks_in_waves"] <= counts["tasks_in_c"] == status.n_done
        assert status.n_done < status.n_tasks
        run.go(workers, lambda: None)
        found = run.table(number).read(((0, 60), (0, ROW // 8)), local(session).devices)
        np.testing.assert_array_equal(found, relax(np, values.copy(), 9))
        run.release()
    if workers is not None:
        workers.close()


def test_steps_take_two_buffers_where_there_is_room_and_less_where_there_is_not() -> None:
    values = grid(300)
    peaks = {}
    for budget in (1 << 30, 3 * values.nbytes):
        with strict("cpu", ROW // 8, compile="always", memory=budget):
            x = it.array(values)
            it.compute(x)
            it.stats(reset=True)
            relax(it, x, 24)
            found = np.asarray(x)
            peaks[budget] = max(it.stats()["peak_bytes"].values())
        np.testing.assert_array_equal(found, relax(np, values.copy(), 24))
    most, least = peaks.values()
    assert least < most < 4.2 * values.nbytes
    assert least <= 3 * values.nbytes


def test_the_last_cache_is_found_or_said_to_be_unknown(tmp_path: Any) -> None:
    for k, size in enumerate(("64K", "1024K", "32M", "what?")):
        (tmp_path / f"index{k}").mkdir()
        (tmp_path / f"index{k}" / "size").write_text(size + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waves, "CACHES", tmp_path)
        assert waves.last_cache.__wrapped__() == 32 << 20
        patch.setattr(waves, "CACHES", tmp_path / "nowhere")
        assert waves.last_cache.__wrapped__() == 0
