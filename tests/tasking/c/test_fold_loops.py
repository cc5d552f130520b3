"""Reductions in generated code: NumPy's values, and the same bits at every tile size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor import native
from infinitensor.dtypes import bfloat16

pytestmark = [
    pytest.mark.usefixtures("always"),
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(native.compiler() is None, reason="no C compiler here"),
]
AXES: list[Any] = [None, 0, -1, (0, 1), (1, 2), (0, 2), 1]


def reductions(np_: Any, x: Any, y: Any, axis: Any) -> list[Any]:
    return [
        np_.sum(x * y + 1, axis=axis),
        np_.mean(x - y, axis=axis, keepdims=True),
        np_.max(np_.abs(x) * 2, axis=axis),
        np_.min(x * 3 - 1, axis=axis),
        np_.any(x * 0.5 > 1.2, axis=axis),
        np_.all(x + 3 > 0.1, axis=axis),
        np_.var(x * 2 + y, axis=axis),
        np_.std(x + 100, axis=axis, ddof=1),
        np_.count_nonzero(np_.maximum(x, 0) * 2, axis=axis),
        np_.sum((x * 100).astype(np.int32) * 2, axis=axis),
    ]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_reductions_of_computed_values_are_numpys(kind: Any, axis: Any) -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal(s).astype(kind) for s in ((5, 40, 33), (33,)))
    with it.init("cpu"):
        got = reductions(it, it.asarray(x), it.asarray(y), axis)
        it.compute(*got)
        for mine, wanted in zip(got, reductions(np, x, y, axis), strict=True):
            assert mine.dtype == wanted.dtype
            near = 100 * float(np.finfo(kind).eps)
            np.testing.assert_allclose(mine.numpy(), wanted, near, 20 * near)
        assert it.stats()["eager_fallbacks"] == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("tile", [0, 50, 1000])
@pytest.mark.parametrize("shape", [(40, 50, 3), (30, 2, 5), (2, 70, 3, 2), (400, 3)], ids=str)
def test_a_short_last_axis_is_reduced_or_kept_around_a_longer_one(
    shape: tuple[int, ...], tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", tile)
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal(shape), rng.standard_normal(shape[-1])
    axes = [None, *range(len(shape)), tuple(range(1, len(shape)))]
    with it.init("cpu"):
        for axis in axes:
            got = reductions(it, it.asarray(x), it.asarray(y), axis)
            it.compute(*got)
            for mine, wanted in zip(got, reductions(np, x, y, axis), strict=True):
                assert mine.shape == wanted.shape
                np.testing.assert_allclose(mine.numpy(), wanted, 1e-11, 1e-12)
        kept = it.asarray(x) * 2 + it.asarray(y)
        np.testing.assert_array_equal(kept.numpy(), x * 2 + y)


@pytest.mark.parametrize("tile", [0, 300])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint64"])
def test_places_of_extremes_are_numpys(
    dtype: str, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", tile)
    x = np.random.default_rng(9).integers(0, 9, (7, 2500)).astype(dtype)
    if x.dtype.kind == "f":
        x[1, 1200], x[2, [70, 2100]], x[3] = np.nan, np.inf, 0.0
        x[3, 5::2], x[4, [3, 1500]] = -0.0, np.nan
    with it.init("cpu"):
        t = it.asarray(x)
        for name in ("argmin", "argmax"):
            found = getattr(it, name)
            made = [found(t + t, axis=1), found(t + t, axis=1, keepdims=True), found(t + t, axis=0)]
            made += [found(t + t), found(t, axis=1), it.max(t, axis=1), it.min(t, axis=1)]
            it.compute(*made)
            wanted = getattr(np, name)
            given = [wanted(x + x, axis=1), wanted(x + x, axis=1, keepdims=True)]
            given += [wanted(x + x, axis=0), wanted(x + x), wanted(x, axis=1)]
            given += [np.max(x, axis=1), np.min(x, axis=1)]
            for mine, value in zip(made, given, strict=True):
                assert mine.dtype == value.dtype
                np.testing.assert_array_equal(mine.numpy(), value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_odd_value_shows_in_every_reduction_as_in_numpy(value: float) -> None:
    x = np.linspace(-1, 1, 5000)
    x[3777] = value
    with it.init("cpu"), np.errstate(invalid="ignore"):
        for name in ("sum", "max", "min", "var", "any"):
            wanted = getattr(np, name)(x * 2)
            np.testing.assert_equal(getattr(it, name)(it.asarray(x) * 2).numpy(), wanted)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_bits_do_not_depend_on_the_tile(axis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(6).standard_normal((700, 1500)).astype(np.float32)
    found = []
    for elements in (1 << 17, 1 << 18, 1 << 20):
        monkeypatch.setattr(it.config, "tile_elements", elements)
        with it.init("cpu"):
            t = it.asarray(x)
            made = [
                it.sum(t * 2 + 1, axis=axis), it.var(t * t, axis=axis),
                it.mean(t - t[0], axis=axis), it.sum(t.T * 2 - 1, axis=axis),
                it.sum(it.reshape(t, (70_000, 5, 3)) * 2 + 1, axis=axis),
            ]  # fmt: skip
            it.compute(*made)
            found.append([m.numpy().tobytes() for m in made])
    assert found[0] == found[1] == found[2]


def test_nothing_to_reduce_is_as_in_numpy() -> None:
    with it.init("cpu"):
        x = it.asarray(np.zeros((0, 20)))
        np.testing.assert_array_equal(it.sum(x * 2, axis=0).numpy(), np.zeros(20))
        np.testing.assert_array_equal(it.sum(x.T * 2, axis=0).numpy(), np.zeros(0))
        assert float(it.sum(it.asarray(2.0), axis=())) == 2


def test_an_element_of_an_array_is_read_where_it_is() -> None:
    with it.init("cpu"):
        x = it.asarray(np.arange(12.0).reshape(3, 4))
        assert float((x[1, 2] - x[0, 1]) / x[2, 3]) == (6 - 1) / 11


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("tile", [0, 300])
def test_reductions_of_the_same_data_are_one_pass(
    axis: Any, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", tile)
    x = np.random.default_rng(8).standard_normal((60, 40))
    with it.init("cpu*2"):
        t = it.asarray(x)
        it.stats(reset=True)
        alone = it.mean(t, axis=axis)
        it.compute(alone)
        n_alone = it.stats(reset=True)["tasks"]
        made = [it.mean(t, axis=axis), it.var(t, axis=axis), it.max(t, axis=axis)]
        it.compute(*made)
        wanted = [np.mean(x, axis=axis), np.var(x, axis=axis), np.max(x, axis=axis)]
        for mine, value in zip(made, wanted, strict=True):
            np.testing.assert_allclose(mine.numpy(), value, rtol=1e-12)
        assert made[0].numpy().tobytes() == alone.numpy().tobytes()
        if tile == 0:
            assert it.stats()["tasks"] <= n_alone + 4


HALF_KINDS = [np.dtype(np.float16), bfloat16]
PLACES = [*HALF_KINDS, *map(np.dtype, ("f4", "f8", "i1", "u1", "u2", "i8"))]


def numbers(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Any:
    """Many are equal; floats have some NaN. And as NumPy compares them."""
    x = rng.integers(0, 40, shape).astype("f4")
    if dtype in HALF_KINDS or dtype.kind == "f":
        x[rng.random(shape) < 0.005] = np.nan
        return x.astype(dtype), x.astype("f8")
    return x.astype(dtype), x.astype(dtype)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("tile", [0, 700])
@pytest.mark.parametrize("dtype", PLACES, ids=str)
@pytest.mark.parametrize("shape", [(300, 33), (20, 13, 17), (2, 1100), (1, 40), (140, 16)], ids=str)
def test_places_over_other_axes_are_the_first(
    shape: tuple[int, ...], dtype: Any, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", tile)
    given, wanted = numbers(shape, dtype, np.random.default_rng(3))
    with it.init("cpu*2" if tile else "cpu"):
        for axis in range(len(shape)):
            for x in (it.asarray(given), it.asarray(np.asarray(given).T.copy()).T):
                least, most = it.argmin(x, axis=axis), it.argmax(x, axis=axis)
                back = it.argmax(x[::-1], axis=axis, keepdims=True)
                made = it.argmin(it.maximum(x, 5), axis=axis)
                it.compute(least, most, back, made)
                np.testing.assert_array_equal(least.numpy(), wanted.argmin(axis))
                np.testing.assert_array_equal(most.numpy(), wanted.argmax(axis))
                np.testing.assert_array_equal(
                    back.numpy(), wanted[::-1].argmax(axis, keepdims=True)
                )
                np.testing.assert_array_equal(made.numpy(), np.maximum(wanted, 5).argmin(axis))


@pytest.mark.parametrize("shape", [(300, 40), (20, 3000), (30000, 20), (3, 200, 30)], ids=str)
def test_places_are_found_beside_sums(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(4).standard_normal(shape)
    with it.init("cpu"):
        t = it.asarray(x)
        for axis in range(len(shape)):
            total, most, spread = t.sum(axis), t.argmax(axis), t.var(axis)
            it.compute(total, most, spread)
            np.testing.assert_array_equal(most.numpy(), x.argmax(axis))
            np.testing.assert_allclose(total.numpy(), x.sum(axis), 1e-9, 1e-9)
            np.testing.assert_allclose(spread.numpy(), x.var(axis), 1e-9, 1e-9)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [*HALF_KINDS, *map(np.dtype, ("f4", "f8", "i4"))], ids=str)
@pytest.mark.parametrize("n", [16, 17, 31, 70, 1023, 1024, 1025, 2800])
def test_sums_have_the_same_bits_alone_and_beside_each_other(n: int, dtype: Any) -> None:
    rng = np.random.default_rng(n)
    given = [(rng.standard_normal((9, n)) * 30).astype("f4").astype(dtype) for _ in "ab"]
    with it.init("cpu"):
        a, b = map(it.asarray, given)
        both = [it.sum(a * b, axis=1), it.sum(a * a, axis=1), it.sum(abs(b), axis=1)]
        both += [it.count_nonzero(a > b, axis=1), it.var(a, axis=1)]
        it.compute(*both)
        alone = [it.sum(a * b, axis=1), it.sum(a * a, axis=1), it.sum(abs(b), axis=1)]
        alone += [it.count_nonzero(a > b, axis=1), it.var(a, axis=1)]
        for mine, other in zip(both, alone, strict=True):
            np.testing.assert_array_equal(mine.numpy(), other.numpy())
        np.testing.assert_array_equal(alone[3].numpy(), np.count_nonzero(given[0] > given[1], 1))


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "u4"])
def test_sums_of_short_integers_do_not_wrap(dtype: str) -> None:
    most = True if dtype == "?" else np.iinfo(dtype).max
    least = False if dtype == "?" else np.iinfo(dtype).min
    with it.init("cpu"):
        for value in (most, least):
            x = np.full((2, 70_001), value, dtype)
            t = it.asarray(x)
            assert t.sum().item() == x.sum()
            np.testing.assert_array_equal(t.sum(1).numpy(), x.sum(1))
            np.testing.assert_array_equal(t.sum(0).numpy(), x.sum(0))
            assert it.count_nonzero(t).item() == np.count_nonzero(x)
