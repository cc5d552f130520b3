"""Indices of small tensors: NumPy's rules, while other code runs too."""

import gc
from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.config import config


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are small here in strict runs too."""
    monkeypatch.setattr(config, "small_elements", 65_536)


class Changing:
    """An index that gives the tensor another version while it is asked for its value."""

    def __init__(self, tensor: it.Tensor) -> None:
        self.tensor = tensor

    def __index__(self) -> int:
        self.tensor[...] = it.zeros(200_000)[: len(self.tensor)] * 2.0
        gc.collect()
        return 2


def test_a_slice_whose_end_changes_the_tensor_is_safe() -> None:
    tensor = it.asarray(np.arange(10.0)) + 0
    assert tensor[Changing(tensor) : 5].shape == (3,)
    assert tensor.tolist() == [0.0] * 10


def test_a_new_axis_of_a_transpose_is_written_like_any_value() -> None:
    values = np.arange(9.0).reshape(3, 3)
    tensor = it.asarray(values) + 0
    tensor[None] = tensor.T
    assert np.array_equal(tensor.numpy(), values.T)


@pytest.mark.parametrize("limit", [0, 65_536])
@pytest.mark.parametrize(
    "index",
    [
        slice(None, None, 1 << 62),
        slice(None, None, -(1 << 62)),
        (slice(1, None, 1 << 70), None),
        (slice(-1, None, -(1 << 62)), ...),
    ],
    ids=str,
)
def test_steps_beyond_every_axis_are_numpys(
    index: Any, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "small_elements", limit)
    values = np.arange(6.0).reshape(2, 3)
    tensor = it.asarray(values)
    assert np.array_equal(tensor[index].numpy(), values[index])
    tensor[index] = 7.0
    values[index] = 7.0
    assert np.array_equal(tensor.numpy(), values)


@pytest.mark.parametrize("n", [4, 300])
def test_an_index_beyond_every_integer_is_out_of_bounds(n: int) -> None:
    tensor = it.zeros((n, n))
    for index in (1 << 70, -(1 << 70), (1 << 62, slice(0, 2))):
        with pytest.raises(IndexError, match=r"out of bounds|only integers"):
            tensor[index]
        with pytest.raises(IndexError, match=r"out of bounds|only integers"):
            tensor[index] = 1.0


def test_a_scalar_has_no_views() -> None:
    for xp in (np, it):
        x = xp.asarray(np.arange(5.0))
        total, element = x.sum(), x[2]
        for scalar in (total, element):
            for index in (None, (None,), (Ellipsis, None), (None, None)):
                seen = scalar[index]
                seen[...] = 7.0
                assert seen.shape == (1,) * (2 if index == (None, None) else 1)
        assert (float(total), float(element)) == (10.0, 2.0)
        array = xp.asarray(4.0)
        array[None][0] = 1.0  # an array of no axes has
        assert float(array) == 1.0


WORDS = ["add", "subtract", "maximum", "multiply", "power", "bitwise_or"]
PLACES = [
    np.array([0, -12, 3, 3, 11, 3]),
    (np.array([0, 3, 3, -1]), np.array([4, 0, 0, 2])),
    (np.array([[1], [1]]), slice(1, 4)),
    np.zeros(0, int),
]


def _ours(index: Any) -> Any:
    items = index if isinstance(index, tuple) else (index,)
    made = tuple(it.asarray(i) if isinstance(i, np.ndarray) else i for i in items)
    return made if isinstance(index, tuple) else made[0]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32, np.uint8])
@pytest.mark.parametrize("value", [2, 1.5, np.float32(3), np.array([2]), np.array([0.5])])
@pytest.mark.parametrize("index", PLACES, ids=["rows", "points", "part", "none"])
def test_at_of_small_values_is_numpys(word: str, dtype: Any, value: Any, index: Any) -> None:
    start = np.random.default_rng(3).integers(1, 9, (12, 5)).astype(dtype)
    want, found = start.copy(), it.asarray(start) + 0
    given = it.asarray(value) if isinstance(value, np.ndarray) else value
    error = None
    try:
        with np.errstate(all="ignore"):
            getattr(np, word).at(want, index, value)
    except TypeError as raised:
        error = type(raised)
    if error is None:
        before = it.stats()["ways"]["in_place"]
        getattr(it, word).at(found, _ours(index), given)
        assert it.stats()["ways"]["in_place"] > before
    else:
        with pytest.raises(TypeError):
            getattr(it, word).at(found, _ours(index), given)
    np.testing.assert_array_equal(found.numpy(), want)


def test_at_leaves_what_others_read() -> None:
    base = it.asarray(np.arange(6.0)) + 0
    old = base.copy()
    lazy = it.asarray(np.ones(200_000))[:6] + base
    it.add.at(base, it.asarray([1, 1]), 5)
    assert old.tolist() == [0, 1, 2, 3, 4, 5]
    assert base.tolist() == [0, 11, 2, 3, 4, 5]
    assert lazy.tolist() == [1, 2, 3, 4, 5, 6]


def test_at_of_its_own_memory_reads_it_first() -> None:
    values = np.arange(8)
    base = it.asarray(values) + 0
    it.add.at(base, base[::-1], base)
    np.add.at(values, values[::-1].copy(), values.copy())
    np.testing.assert_array_equal(base.numpy(), values)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "c8", "?"])
@pytest.mark.parametrize("shape", [(6,), (6, 5), (3, 30_000), (300, 400), (120_000,)])
def test_rows_are_added_at_indices_as_numpy_adds_them(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    index = rng.integers(-shape[0], shape[0], 70)
    rows = rng.integers(0, 9, (70, *shape[1:])).astype(dtype)
    base = rng.integers(0, 9, shape).astype(dtype)
    for given in (rows, rows[0], rows[::-1]):
        x, wanted = it.asarray(base), base.copy()
        made = x.copy()
        it.add.at(made, it.asarray(index), it.asarray(given))
        np.add.at(wanted, index, given)
        assert made.numpy().tobytes() == wanted.tobytes()
        assert x.numpy().tobytes() == base.tobytes()


def test_an_index_out_of_bounds_adds_nothing() -> None:
    for n in (4, 100_000):
        made = it.zeros((n, 2)).copy()
        index, rows = it.asarray([0, n]), it.ones((2, 2))
        with pytest.raises(IndexError, match=f"index {n} is out of bounds"):
            _added(made, index, rows)


def _added(made: it.Tensor, index: it.Tensor, rows: it.Tensor) -> np.ndarray:
    it.add.at(made, index, rows)
    return made.numpy()
