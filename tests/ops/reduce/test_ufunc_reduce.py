"""Folding a word: torch forms agree with NumPy's, and the ways to fold agree with each other."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.table_xp import WHOLE, TableXp

import infinitensor as it
from infinitensor.ops import TABLE
from infinitensor.ops.move.scatter import _apply_torch, _put
from infinitensor.ops.reduce.ufunc_reduce import REORDERABLE

NAMES = [name for name in TABLE if name.startswith("_reduce_")]
NAMES += ["_fold", "_reduceat", "modf", "frexp", "_scan_axis", "_scan_totals", "_scan_from"]


@pytest.mark.parametrize("name", NAMES)
def test_torch_forms_agree_with_numpy(name: str) -> None:
    op = TABLE[name]
    assert op.cases is not None
    for step in (2, WHOLE):
        for args, kwargs in op.cases(np.random.default_rng(0)):
            with np.errstate(all="ignore"):
                want = (op.oracle or getattr(np, name))(*args, **kwargs)
            got = TableXp(step, "cuda").call(name, *args, **kwargs)
            for one, other in zip(_several(got), _several(want), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def _several(made: Any) -> Any:
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_spacing_and_ldexp_of_odd_numbers_agree(kind: Any) -> None:
    with np.errstate(all="ignore"):
        x = np.array([1.5, -2.25, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-320, 1e300]).astype(kind)
        for name, *more in (
            ("spacing",),
            ("ldexp", np.arange(9) - 4),
            ("ldexp", 400 * x.argsort()),
        ):
            want = getattr(np, name)(x, *more)
            np.testing.assert_allclose(TableXp(3, "cuda").call(name, x, *more), want, rtol=1e-6)


@pytest.mark.parametrize("mode", ["maximum", "multiply", "negative", "subtract", "add", "power"])
@pytest.mark.parametrize("kind", [np.int64, np.uint16, np.float32])
def test_at_in_rounds_is_at_in_order(mode: str, kind: Any) -> None:
    rng = np.random.default_rng(3)
    base, rows = rng.integers(1, 9, (6, 3)).astype(kind), rng.integers(1, 4, (11, 3)).astype(kind)
    index = rng.integers(0, 6, 11)
    want, got = base.copy(), torch.from_numpy(base.copy())
    _put(want, (index,), rows, mode)
    where = (torch.from_numpy(index),)
    _apply_torch(got, where, torch.from_numpy(rows), mode, np.dtype(kind))
    np.testing.assert_array_equal(got.numpy(), want)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(REORDERABLE - {"logaddexp", "logaddexp2", "hypot"})),
    st.lists(st.integers(-50, 50), min_size=1, max_size=30),
    st.data(),
)
def test_the_ways_to_fold_agree(name: str, numbers: list[int], data: st.DataObject) -> None:
    if name in ("gcd", "lcm"):  # NumPy's gcd.reduce([-1]) is 1, its gcd.accumulate([-1]) is [-1]
        numbers = [abs(number) for number in numbers]
    ufunc, x = getattr(it, name), it.asarray(numbers)
    whole = ufunc.reduce(x).numpy()
    assert ufunc.accumulate(x).numpy()[-1] == whole
    cut = data.draw(st.integers(0, len(numbers) - 1))
    starts = [0, cut] if cut else [0]
    assert ufunc.reduce(ufunc.reduceat(x, starts)).numpy() == whole
    total = it.asarray(numbers[:1])
    total = total.astype(whole.dtype)
    ufunc.at(total, np.zeros(len(numbers) - 1, int), x[1:])
    assert total.numpy()[0] == whole


@pytest.mark.parametrize("word", ["power", "arctan2", "subtract", "divide", "fmod", "copysign"])
@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(19,), (1,), (5, 7), (7, 1), (3, 40, 4), (70_000,)], ids=str)
def test_words_whose_order_matters_go_step_by_step(
    word: str, kind: str, shape: tuple[int, ...]
) -> None:
    """The truth is a call for each step: NumPy's `reduce` takes several at once on some CPUs."""
    x = (0.97 + 0.06 * np.random.default_rng(4).random(shape)).astype(kind)
    ufunc = getattr(np, word)
    for axis in range(len(shape)):
        lines = list(np.moveaxis(x, axis, 0))
        near = 1e-4 if kind == "f4" else 1e-12
        made = getattr(it, word).reduce(it.asarray(x), axis=axis).numpy()
        np.testing.assert_allclose(made, functools.reduce(ufunc, lines), rtol=near)
        starts = [0, len(lines) // 2]
        halves = (lines[: starts[1]] or lines[:1], lines[starts[1] :])
        parts = [functools.reduce(ufunc, half) for half in halves]
        made = getattr(it, word).reduceat(it.asarray(x), starts, axis=axis).numpy()
        np.testing.assert_allclose(made, np.stack(parts, axis), rtol=near)
