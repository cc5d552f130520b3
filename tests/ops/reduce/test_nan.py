"""Leaving NaN out: the function of the rest, and errors where nothing is left."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


X = RNG.integers(-9, 9, (5, 12)) * 0.5
X[RNG.random((5, 12)) < 0.3] = np.nan
WORDS = ["nansum", "nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd"]


@pytest.mark.parametrize("word", WORDS)
def test_lines_are_those_without_their_nans(word: str) -> None:
    found = getattr(it, word)(it.asarray(X), axis=1).numpy()
    plain = getattr(np, word.removeprefix("nan"))
    for line, value in zip(X, found, strict=True):
        np.testing.assert_allclose(value, plain(line[~np.isnan(line)]), 1e-13)


@pytest.mark.parametrize("word", WORDS)
def test_without_nan_it_is_the_plain_function(word: str) -> None:
    for x in (np.nan_to_num(X), np.arange(12).reshape(3, 4), np.nan_to_num(X) + 1j):
        if x.dtype.kind == "c" and word in ("nanmin", "nanmax"):
            continue
        found, plain = getattr(it, word), getattr(np, word.removeprefix("nan"))
        np.testing.assert_allclose(found(it.asarray(x), axis=0).numpy(), plain(x, axis=0), 1e-13)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_where_nothing_is_left_it_is_numpys() -> None:
    x = np.stack([np.full(9, np.nan), np.arange(9.0)])
    for word in WORDS:
        agree(lambda xp, a, w=word: getattr(xp, w)(a, axis=1, keepdims=True), x, rtol=1e-14)


def test_positions_skip_nan_and_there_must_be_one() -> None:
    for word in ("nanargmin", "nanargmax"):
        agree(lambda xp, a, w=word: getattr(xp, w)(a), X)
        agree(lambda xp, a, w=word: getattr(xp, w)(a, axis=0, keepdims=True), X)
        refuse(lambda xp, a, w=word: getattr(xp, w)(a, axis=0), X * np.nan, match="All-NaN")


def test_running_sums_take_nan_as_what_changes_nothing() -> None:
    agree(lambda xp, a: xp.nancumsum(a, 1), X)
    agree(lambda xp, a: xp.nancumprod(a, 0), X)
    last = it.nancumsum(it.asarray(X), 1)[:, -1]
    np.testing.assert_array_equal(last.numpy(), it.nansum(it.asarray(X), 1).numpy())


def test_numbers_stand_in_for_nan_and_infinities() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1.5])
    for dtype in ("f4", "f8", "c8"):
        agree(lambda xp, a: xp.nan_to_num(a), x.astype(dtype))
    agree(lambda xp, a: xp.nan_to_num(a, nan=7, posinf=8, neginf=9), x)
    t = it.asarray(x.copy())
    it.nan_to_num(t, copy=False, nan=3.0)
    assert np.isfinite(t.numpy()).all()


def test_where_and_initial_are_numpys() -> None:
    mask = RNG.random(X.shape) < 0.6
    agree(lambda xp, a, m: xp.nansum(a, axis=0, where=m, initial=10.0), X, mask)
    agree(lambda xp, a, m: xp.nanmax(a, axis=1, where=m, initial=-3.0), X, mask)
    refuse(lambda xp, a: xp.nanvar(a, ddof=1, correction=0), X, match="simultaneously")
    refuse(lambda xp, a: xp.nanmean(a, dtype="i4"), X, match="dtype must be inexact")
