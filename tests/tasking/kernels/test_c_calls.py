"""Families whose tasks C calls: the arrays, strides and numbers of every call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor import native
from infinitensor.native import address
from infinitensor.tasking.kernels import c_calls
from infinitensor.tasking.kernels.c_calls import kinds, stand_ins

in_c = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")


@pytest.mark.parametrize("n", [0, 1, 50])
def test_every_row_is_of_the_kind_of_an_equal_one(n: int) -> None:
    rows = np.random.default_rng(n).integers(0, 2, (n, 3))
    first, kind = kinds(rows)
    np.testing.assert_array_equal(rows[first][kind], rows)
    assert len(first) == len(np.unique(rows, axis=0)) if n else not len(first)


def test_rows_whose_sums_are_equal_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ones:
        def integers(self, low: int, high: int, n: int) -> Any:
            return np.ones(n, np.int64)

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Ones())
    rows = np.array([[1, 2], [2, 1], [0, 3], [1, 2]])
    first, kind = kinds(rows)
    np.testing.assert_array_equal(rows[first][kind], rows)
    assert len(first) == 3


def test_stand_ins_have_the_strides_asked_for_and_do_not_overlap() -> None:
    strided: list[Any] = [((3, 4), (32, 8)), ((5,), (-16,)), ((), ()), ((2, 2), (0, 8))]
    stands, ends = stand_ins(strided, [np.dtype("f8")] * 4)
    assert [(x.shape, x.strides) for x in stands] == strided
    begins = [address(x) for x in stands]
    begins[1] -= 4 * 16  # its first element is its last in memory
    for k, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        assert begin < end
        assert k == 0 or ends[k - 1] <= begin
    stands[1][...] = np.arange(5)
    assert stands[1].tolist() == [0, 1, 2, 3, 4]


@in_c
@pytest.mark.parametrize("tile", [3, 7])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u8", "c16"])
def test_tasks_that_c_calls_give_numpys_values(dtype: str, tile: int) -> None:
    """Scalars of one part and of two, operands of every stride, tiles at borders, and none."""
    x = (np.arange(90) % 11).reshape(9, 10).astype(dtype)
    number = np.dtype(dtype).type(3)
    with strict("cpu*2", tile, compile="always"):
        t = it.asarray(x)
        it.stats(reset=True)
        made = [t * number + t[0], (t.T - t.T[:1]) * number, t[::2, ::-3] * number + number]
        made.append(t[:0] * number + number)
        it.compute(*made)
        wanted = [x * number + x[0], (x.T - x.T[:1]) * number, x[::2, ::-3] * number + number]
        for mine, theirs in zip(made, [*wanted, x[:0]], strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs)
        assert it.stats()["tasks_in_c"] > 0


@in_c
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_a_chain_that_reads_an_operand_often_is_one_call_with_that_once(dtype: str) -> None:
    """More numbers and reads than a call has arrays; views of the operand are others."""
    x = (np.arange(70) % 7).astype(dtype)

    def chain(x: Any) -> Any:
        made = x + x[::-1]
        for k in range(70):
            made = made * np.dtype(dtype).type(k % 3) + x
        return made + x[1:2]

    with strict("cpu", 0, compile="always"):
        t = it.asarray(x)
        it.stats(reset=True)
        for _ in range(40):  # until C has all of it
            np.testing.assert_array_equal(chain(t).numpy(), chain(x))
        assert it.stats()["tasks_in_c"] > 0


@in_c
def test_reductions_of_an_operand_that_steps_read_twice_see_its_values() -> None:
    x = np.random.default_rng(0).standard_normal((40, 70))
    with strict("cpu", 0, compile="always"):
        t = it.asarray(x)
        y, first = x[:1], t[:1]
        np.testing.assert_array_equal((t * t + t).max(1).numpy(), (x * x + x).max(1))
        np.testing.assert_array_equal((t * first + first).max(0).numpy(), (x * y + y).max(0))


@in_c
def test_rows_that_are_reduced_go_straight_into_their_results() -> None:
    x = np.random.default_rng(0).integers(-50, 50, (40, 64)).astype("f8")
    with strict("cpu", 64, compile="always"):
        t = it.asarray(x)
        it.stats(reset=True)
        made = [(t * 2).max(1), (t + 1).argmin(1), (t * 3).sum(1)]
        it.compute(*made)
        for mine, theirs in zip(made, [(x * 2).max(1), x.argmin(1), (x * 3).sum(1)], strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs)
        assert it.stats()["tasks_in_c"] > 0


@in_c
@pytest.mark.parametrize("tile", [0, 300])
@pytest.mark.parametrize("axis", [None, 0, (0, 2), (1, 2), 1])
@pytest.mark.parametrize("order", ["C", "F"])
def test_reductions_over_any_axes_are_calls_of_c(tile: int, axis: Any, order: Any) -> None:
    """Alone, several of one operand, and after steps; to results, and to parts of them."""
    x = np.asarray(np.random.default_rng(0).integers(-50, 50, (30, 4, 20)), "f8", order)

    def program(x: Any) -> list[Any]:
        plain = [x.sum(axis), x.min(axis), x.max(axis), x.var(axis)]
        return [*plain, (x * 2 + 1).sum(axis, keepdims=True)]

    with strict("cpu", tile, compile="always"):
        t = it.asarray(x)
        it.stats(reset=True)
        for _ in range(12):
            made = program(t)
            it.compute(*made)
        for mine, theirs in zip(made, program(x), strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-13)
        if order == "C":
            assert it.stats()["tasks_in_c"] > 0


@in_c
def test_calls_of_more_arrays_than_c_takes_are_left_to_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.arange(60.0)
    for most, some_in_c in ((64, True), (2, False)):
        monkeypatch.setattr(c_calls, "MOST_CALL_ARRAYS", most)
        with strict("cpu", 20, compile="always") as session:
            t, other = it.asarray(x), it.asarray(x[::-1].copy())
            made = t * 2 + other
            families = prepared(session, made).program.graph.families
            called = [f.in_c for f in families if f.in_c is not None]
            assert any(one.is_due(3) for one in called) == some_in_c
            np.testing.assert_array_equal(made.numpy(), x * 2 + x[::-1])
