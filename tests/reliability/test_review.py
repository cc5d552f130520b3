"""What a critical reader broke once: each case is a few lines that went wrong."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import local

import infinitensor as it

N = 1_000_000


def boom(tile: Any) -> Any:
    raise RuntimeError("no such tile")


def test_a_sum_with_itself_beside_a_sum_of_two() -> None:
    x, y = it.asarray(np.arange(1e6)), it.asarray(np.ones(N))
    both = it.compute(x + y, x + x)
    assert [float(t[3]) for t in both] == [4.0, 6.0]


def test_a_version_whose_first_write_failed_is_not_given_out() -> None:
    x = it.zeros(N)
    x[:3] = it.arange(1e6)[it.asarray(np.array([1, 2, 10**7]))]
    x[900_000:] = 5.0
    for _ in range(2):
        with pytest.raises(IndexError, match="out of bounds"):
            x.numpy()


def test_exported_tiles_keep_their_values() -> None:
    x = it.asarray(np.arange(1e6))
    tiles = x.local_tiles()
    before = [np.array(array) for _, array in tiles]
    x += 1
    x.numpy()
    del x
    it.asarray(-np.ones(N))
    for (_, array), values in zip(tiles, before, strict=True):
        np.testing.assert_array_equal(array, values)


def test_exported_tiles_count_until_nobody_has_them() -> None:
    with it.init("cpu*2", memory="64MiB") as session:
        ledgers = local(session).ledgers
        x = it.asarray(np.arange(1e6)) + 1
        tiles = x.local_tiles()
        used = [ledger.used_bytes for ledger in ledgers]
        assert sum(used) >= 8 * N
        del x
        it.stats()
        assert [ledger.used_bytes for ledger in ledgers] == used
        part = tiles[0][1][5:9]
        n_bytes = tiles[0][1].nbytes
        del tiles
        assert sum(ledger.used_bytes for ledger in ledgers) == n_bytes
        del part
        assert sum(ledger.used_bytes for ledger in ledgers) == 0


def test_a_task_that_raised_raises_again() -> None:
    bad = it.asarray(np.arange(N)) ** it.asarray(np.full(N, -1))
    for _ in range(2):
        with pytest.raises(ValueError, match="negative integer powers"):
            bad.numpy()


def test_a_failure_that_nobody_wants_any_more_stops_nobody() -> None:
    x = it.asarray(np.zeros(N))
    wrong = it.map_tiles(boom, x, form="n->n")
    x += 1
    with pytest.raises(RuntimeError, match="no such tile"):
        it.compute(x, wrong)
    del wrong
    np.testing.assert_array_equal(x.numpy(), np.ones(N))


@pytest.mark.parametrize("inline_elements", [0, 1 << 40])
@pytest.mark.parametrize("n_tries", [1, 3])
def test_a_failed_run_is_freed_by_reference_counting(inline_elements: int, n_tries: int) -> None:
    it.config.inline_elements = inline_elements
    with it.init("cpu*2") as session:

        def used_bytes() -> int:
            it.stats()
            return sum(ledger.used_bytes for ledger in local(session).ledgers)

        x = it.asarray(np.zeros(N))
        it.compute(x + 1)
        before = used_bytes()
        gc.collect()
        gc.disable()
        try:
            y = (x + 1) * 2
            wrong = it.map_tiles(boom, y - 1, form="n->n")
            for _ in range(n_tries):
                with pytest.raises(RuntimeError, match="no such tile"):
                    it.compute(wrong, y.sum())
            assert used_bytes() > before
            del y, wrong
            assert used_bytes() == before
        finally:
            gc.enable()


@pytest.mark.timeout(60)
def test_threads_may_share_a_tensor_that_one_of_them_changes() -> None:
    x = it.asarray(np.zeros(100_000))
    errors: list[BaseException] = []

    def work(step: Any) -> None:
        try:
            for _ in range(20):
                step()
        except BaseException as error:
            errors.append(error)

    def change() -> None:
        x[:] += 1
        x.numpy()

    threads = [threading.Thread(target=work, args=(f,)) for f in (lambda: (x * 2).numpy(), change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    np.testing.assert_array_equal(x.numpy(), np.full(100_000, 20.0))


@pytest.mark.timeout(60)
def test_a_captured_tensor_in_a_task_is_an_error_not_a_deadlock() -> None:
    w = it.asarray(np.arange(1e6)) * 2
    made = it.map_tiles(lambda a: a + float(w.sum()), it.asarray(np.zeros(N)), form="n->n")
    with pytest.raises(it.InfiniTensorError, match="captured"):
        made.numpy()


def test_dropped_chains_are_freed_at_once() -> None:
    with it.init("cpu") as session:
        y = -it.asarray(np.ones(N))
        for _ in range(5):
            y = -y
        del y
        it.stats()
        assert local(session).ledgers[0].used_bytes == 0


def test_a_failing_tensor_disturbs_nothing_that_does_not_read_it() -> None:
    bad = it.arange(1e6)[it.asarray(np.array([10**7]))]
    z = it.zeros(100_000)
    limit = it.config.max_recorded_nodes
    it.config.max_recorded_nodes = 50
    try:
        for _ in range(300):
            z = z + 1
    finally:
        it.config.max_recorded_nodes = limit
    assert float(z[0]) == 300.0
    with pytest.raises(IndexError, match="out of bounds"):
        bad.numpy()


def test_shutdown_frees_what_tensors_hold() -> None:
    session = it.init("cpu")
    y = it.asarray(np.ones(N)) * 2
    y.numpy()
    it.shutdown()
    assert local(session).ledgers[0].used_bytes == 0
    with pytest.raises(it.SessionClosedError, match="shut down"):
        y.numpy()


def test_relayout_cuts_into_as_many_pieces_as_it_says() -> None:
    for shape, pieces in (((9,), (4,)), ((6, 4), (2, 3))):
        layout = it.ones(shape).relayout(*pieces).layout
        assert layout is not None
        assert layout.grid == pieces
