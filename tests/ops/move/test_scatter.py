"""Writing by index arrays: of equal places the last is set, a ufunc counts each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f4", "f8", "c16"])
def test_of_equal_places_the_last_one_stays(dtype: str) -> None:
    places = RNG.integers(-9, 9, 60)
    values = RNG.integers(0, 99, 60).astype(dtype)
    want, found = np.zeros(9, dtype), it.zeros(9, dtype=dtype)
    want[places] = values
    found[it.asarray(places)] = it.asarray(values)
    np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("word", ["add", "multiply", "maximum", "minimum", "subtract"])
def test_a_ufunc_is_applied_for_every_entry(word: str) -> None:
    places, values = RNG.integers(0, 20, 70), RNG.integers(1, 3, 70) * 1.0
    want, found = np.arange(20.0), it.arange(20.0)
    getattr(np, word).at(want, places, values)
    getattr(it, word).at(found, it.asarray(places), it.asarray(values))
    np.testing.assert_array_equal(found.numpy(), want)


def test_several_index_arrays_and_slices_name_the_places_together() -> None:
    keys: list[Any] = [
        (slice(None), [3, 0, 3]),
        ([1, 1], slice(1, 4)),
        ([0, 3], [2, 2]),
        ([[0], [2]], 1),
    ]
    for key in keys:
        want = RNG.normal(size=(4, 6))
        found = it.asarray(want.copy())
        values = RNG.normal(size=want[key].shape)
        want[key] = values
        found[key] = it.asarray(values)
        np.testing.assert_array_equal(found.numpy(), want)


def test_reading_back_what_was_written_to_distinct_places_is_the_values() -> None:
    places = RNG.permutation(50)[:30]
    x, values = it.zeros(50), RNG.normal(size=30)
    x[it.asarray(places)] = values
    np.testing.assert_array_equal(x[it.asarray(places)].numpy(), values)
    assert int((x != 0).sum()) == 30


def test_nothing_written_changes_nothing() -> None:
    x = it.arange(10.0)
    x[it.asarray(np.zeros(0, int))] = 5.0
    it.add.at(x, it.asarray(np.zeros(0, int)), 1.0)
    assert x.tolist() == list(range(10))


def test_places_outside_and_values_of_another_shape_are_refused() -> None:
    for wrong in (10, -11):
        with pytest.raises(IndexError, match=f"{wrong} is out of bounds"):
            _written(it.zeros(10), [1, wrong, 2], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="shape mismatch"):
        _written(it.zeros(10), [1, 2], [1.0, 2.0, 3.0])


def _written(x: Any, places: list[int], values: list[float]) -> Any:
    x[it.asarray(places)] = it.asarray(values)
    return x.numpy()


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f4", "c16"])
@pytest.mark.parametrize("tiles", [0, 13])
def test_entries_are_added_on_a_gpu_as_numpy_adds_them(
    dtype: str, tiles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Integers wrap; rows, several index arrays, and tiles that see a part of the entries."""
    pytest.importorskip("torch")
    monkeypatch.setattr(it.config, "small_elements", 0)
    monkeypatch.setattr(it.config, "tile_elements", tiles)
    with fake_gpu(), it.init("cuda:0", memory="64MiB"):
        for shape, axes in (((20,), 1), ((9, 5), 1), ((9, 5), 2)):
            at = tuple(RNG.integers(-n, n, 70) for n in shape[:axes])
            want = RNG.integers(0, 99, shape).astype(dtype)
            values = RNG.integers(0, 99, (70, *shape[axes:])).astype(dtype)
            found = it.asarray(want.copy())
            it.add.at(found, tuple(map(it.asarray, at)), it.asarray(values))
            np.add.at(want, at, values)
            np.testing.assert_array_equal(found.numpy(), want)
