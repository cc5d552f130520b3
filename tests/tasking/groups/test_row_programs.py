"""Rows that are reduced and used again on a GPU: one kernel, NumPy's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.on_gpu import same, some
from tests.tasking.groups.test_row_reuse import PROGRAMS, softmax

import infinitensor as it
from infinitensor.tasking.groups.row_reuse import MOST_ROW
from infinitensor.tasking.triton.triton_rows import RowsKernel

SHAPES = [(50, 40), (7, 5, 33), (2, 3, 2, 25), (3, 300), (3, 4096), (513, 2)]


@pytest.mark.usefixtures("kernels", "always")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", ["f4", "f8", "f2"])
def test_rows_are_numpys_in_one_task(program: Any, shape: tuple[int, ...], kind: str) -> None:
    rtol = {"f4": 1e-5, "f8": 1e-13, "f2": 2e-2}[kind]
    found = same(lambda xp, x: [program(xp, x)], some(*shape, kind=kind), rtol=rtol)
    assert found["tasks"] == 1
    assert found["eager_fallbacks"] == 0


@pytest.mark.usefixtures("kernels", "always")
def test_what_is_kept_of_the_way_is_stored() -> None:
    def f(xp: Any, x: Any, scale: Any, of_row: Any) -> list[Any]:
        top = x.max(axis=-1)
        raised = xp.exp(x - top[..., None]) * scale
        total = raised.sum(axis=-1, keepdims=True)
        root = xp.sqrt(total) + 1
        return [top, raised, total, root, raised / root * of_row, top * of_row[..., 0]]

    x = some(6, 9, 50)
    found = same(f, x, some(50), np.abs(some(6, 9, 1)))
    assert found["tasks"] == 1


@pytest.mark.usefixtures("kernels", "always")
def test_what_is_broadcast_to_rows_is_read_where_it_is() -> None:
    def f(xp: Any, x: Any, of_rows: Any, few: Any) -> list[Any]:
        scaled = x[:, ::-1] * of_rows[:, None] + few[None]
        mean = scaled.mean(axis=1)
        factor = mean * of_rows + few[0]
        return [scaled - mean[:, None], (x * factor[:, None]).var(axis=1), factor]

    same(f, some(40, 33), some(40) + 3, some(33))


@pytest.mark.usefixtures("kernels", "always")
@pytest.mark.parametrize("kind", ["i4", "i8", "u1", "?"])
def test_rows_of_integers(kind: str) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        return [x * 2 - x.max(axis=1, keepdims=True), xp.where(x.any(axis=1)[:, None], x, 1)]

    def means(xp: Any, x: Any) -> list[Any]:
        return [(x - x.mean(axis=1, keepdims=True)) * 2, x / (x.sum(axis=1, keepdims=True) + 1)]

    x = np.random.default_rng(1).integers(0, 2 if kind == "?" else 100, (40, 70)).astype(kind)
    same(means, x)
    if kind != "?":
        same(f, x)


@pytest.mark.usefixtures("kernels", "always")
def test_nan_and_infinities_are_numpys() -> None:
    x = some(12, 30)
    x[0, 3], x[1, 2], x[2, 5], x[3] = np.nan, np.inf, -np.inf, -0.0
    for program in PROGRAMS:
        same(lambda xp, x, program=program: [program(xp, x)], x)


@pytest.mark.usefixtures("kernels", "always")
def test_bits_are_those_of_a_row_whatever_comes_before_it() -> None:
    x = some(64, 40)
    with it.init("cuda:0"):
        for program in PROGRAMS:
            whole = program(it, it.asarray(x)).numpy()
            part = program(it, it.asarray(x)[5:]).numpy()
            np.testing.assert_array_equal(whole[5:], part)


@pytest.mark.usefixtures("kernels", "always")
def test_longer_rows_and_other_axes_are_done_group_by_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(MOST_ROW, "cuda", 32)
    assert same(lambda xp, x: [softmax(xp, x)], some(40, 33))["tasks"] > 1
    assert same(lambda xp, x: [softmax(xp, x.T)], some(33, 32))["tasks"] >= 1


@pytest.mark.usefixtures("kernels", "always")
def test_it_runs_group_by_group_where_triton_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Exception):
        __module__ = "triton.errors"

    def broken(self: Any, *given: Any) -> None:
        raise Broken("no room")

    monkeypatch.setattr(RowsKernel, "__call__", broken)
    for program in PROGRAMS:
        with pytest.warns(RuntimeWarning, match="no room; the group runs step by step"):
            same(lambda xp, x, program=program: [program(xp, x)], some(4, 9, 20))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(200_000, 25), (20_000, 257), (3000, 4096)], ids=str)
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_many_rows_on_a_gpu(shape: tuple[int, int], kind: str) -> None:
    for program in PROGRAMS:
        rtol = {"f4": 1e-4, "f8": 1e-12}[kind]
        found = same(lambda xp, x, p=program: [p(xp, x)], some(*shape, kind=kind), rtol=rtol)
        assert found["tasks"] <= 2  # pieces of rows; never one for each reduction
