"""NumPy's functions on tensors: ours run, or an error says what to do; nothing goes to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.special
from numpy.lib.stride_tricks import as_strided

import infinitensor as it

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("strict_or_default")]

X = np.arange(12.0).reshape(3, 4) - 5

CALLS: dict[str, Any] = {
    "a ufunc": lambda x: np.sin(x),
    "a ufunc with a scalar": lambda x: np.multiply(x, 2),
    "another name of a ufunc": lambda x: np.abs(x) + np.true_divide(x, 3),
    "an array on the left": lambda x: np.ones(4) - x,
    "a NumPy scalar on the left": lambda x: np.float64(3) * x,
    "an array compared": lambda x: X.__gt__(x * 2),
    "an array times a matrix": lambda x: X.T @ x,
    "a reduction": lambda x: np.sum(x, axis=1),
    "a mean by keyword": lambda x: np.mean(x, axis=0, keepdims=True),
    "a list of arrays": lambda x: np.concatenate([x, X], axis=1),
    "a submodule": lambda x: np.linalg.norm(x, axis=0),
    "a transform": lambda x: np.fft.ifft(np.fft.fft(x)).real,
    "an einsum": lambda x: np.einsum("ij,ij->i", x, x),
    "where": lambda x: np.where(x > 0, x, 0),
    "a sort": lambda x: np.sort(x, axis=0),
    "zeros like it": lambda x: np.zeros_like(x),
    "a view": lambda x: np.transpose(x),
    "a ufunc's reduce": lambda x: np.add.reduce(x, axis=1),
    "a ufunc's accumulate": lambda x: np.maximum.accumulate(x, axis=0),
    "a ufunc's outer": lambda x: np.multiply.outer(x[0], x[1]),
    "a ufunc's reduceat": lambda x: np.add.reduceat(x, [0, 2], axis=1),
    "made like it": lambda x: np.asarray([1.0, 2.0], like=x),
    "ones like it": lambda x: np.ones((2, 3), like=x) + np.arange(3, like=x),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_numpys_runs_ours(name: str) -> None:
    before = it.stats()["host_arrays"]
    found = CALLS[name](it.asarray(X))
    assert isinstance(found, it.Tensor)
    assert it.stats()["host_arrays"] == before
    expected = CALLS[name](X)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-14)


CONVERSIONS: dict[str, Any] = {
    "asked for": lambda x: np.asarray(x),
    "asked for with a dtype": lambda x: np.array(x, dtype=np.float32),
    "by a function that does not dispatch": lambda x: np.ascontiguousarray(x),
    "by an iterator": lambda x: np.nditer(x),
    "by an assignment": lambda x: np.zeros((3, 4)).__setitem__(..., x),
    "of a flat iterator": lambda x: np.asarray(x.flat),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_every_array_that_numpy_makes_of_a_tensor_is_counted(name: str) -> None:
    x = it.asarray(X) + 1
    before = it.stats()["host_arrays"]
    CONVERSIONS[name](x)
    assert it.stats()["host_arrays"] == before + 1


def test_what_looks_at_attributes_alone_takes_tensors_and_computes_nothing() -> None:
    x = it.ones((2, 3), dtype=np.dtype("complex64")) + 1
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((2, 3), 2, 6)
    assert np.iscomplexobj(x)
    assert not np.isrealobj(x)
    assert np.size(x, 1) == 3


def test_a_tensor_is_written_by_numpys_functions() -> None:
    x, target, expected = it.asarray(X), it.zeros((3, 4)), X.copy()
    assert np.add(x, 1, out=target) is target  # type: ignore[call-overload]
    np.testing.assert_array_equal(target.numpy(), X + 1)
    np.add.at(x, [0, 0, 2], 1)
    np.add.at(expected, [0, 0, 2], 1)
    np.testing.assert_array_equal(x.numpy(), expected)


def test_a_call_on_a_waiting_tensor_computes_nothing() -> None:
    x = it.asarray(np.zeros((30, 40)))
    it.stats(reset=True)
    made = np.sum(np.exp(x) + np.ones(40), axis=0)
    assert (made.shape, it.stats()["tasks"]) == ((40,), 0)


REFUSED: dict[str, tuple[Any, str]] = {
    "a function": (lambda x: np.busday_count(x, x), r"np\.busday_count does not run on tensors.*"),
    "a ufunc": (lambda x: np.isnat(x), r"np\.isnat does not run on tensors.*np\.asarray\(x\)"),
    "a ufunc of others": (lambda x: scipy.special.erf(x), r"^erf does not run on tensors"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_run_says_what_to_do(name: str) -> None:
    call, text = REFUSED[name]
    with pytest.raises(TypeError, match=text):
        call(it.asarray(X))


def test_an_array_is_changed_in_place_by_a_tensor_and_counted() -> None:
    target = same = X.copy()
    before = it.stats()["host_arrays"]
    target += it.asarray(X)
    assert target is same
    np.testing.assert_array_equal(target, X + X)
    assert it.stats()["host_arrays"] == before + 1


def test_nothing_is_counted_as_a_host_fallback() -> None:
    it.stats(reset=True)
    made: Any = np.add(np.ones(4), it.asarray(X))
    made.numpy()
    assert it.stats()["host_fallbacks"] == 0


def test_a_foreign_operand_that_knows_tensors_is_asked() -> None:
    class Other:
        __array_ufunc__ = None

        def __radd__(self, other: Any) -> str:
            return "asked"

    assert it.asarray(X) + Other() == "asked"
    with pytest.raises(TypeError, match=r"(?i)support"):
        np.add(it.asarray(X), Other())  # type: ignore[call-overload]


def test_numpy_gets_its_array_without_a_search_for_near_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import difflib

    with pytest.raises(AttributeError, match="a Tensor has no 'meen'; the nearest are mean"):
        getattr(it.ones(3), "meen")  # noqa: B009 - the stubs know that there is none

    def search(*args: Any) -> list[str]:
        raise AssertionError("NumPy asks for names we lack on every call")

    monkeypatch.setattr(difflib, "get_close_matches", search)
    assert np.array(it.ones(3)).tolist() == [1.0, 1.0, 1.0]
    assert not hasattr(it.ones(3), "__array_struct__")


@pytest.mark.parametrize("dtype", [None, np.float64, np.float32, complex])
def test_an_array_of_a_tensor_is_the_callers_own(dtype: Any) -> None:
    x = it.asarray(X)
    made = np.array(x, dtype=dtype)
    made[0, 0] = 99
    assert float(x[0, 0]) == -5
    assert made.dtype == (dtype or np.float64)
    x.numpy()[0, 0] = 99
    np.require(x, requirements="W")[0, 0] = 99
    assert float(x[0, 0]) == -5


LOST: dict[str, Any] = {
    "an item": lambda t: np.asarray(t).__setitem__((0, 0), 9),
    "an item by its dtype": lambda t: np.asarray(t, t.dtype).__setitem__((0, 0), 9),
    "an array that need not be a copy": lambda t: np.array(t, copy=None).__setitem__((0, 0), 9),
    "a filter's output": lambda t: scipy.ndimage.gaussian_filter(np.ones(t.shape), 1, output=t),
    "an iterator": lambda t: np.nditer(t, op_flags=[["readwrite"]]),
    "strides": lambda t: as_strided(t, (2, 2), t.strides).__setitem__((0, 0), 9),
    "a sort in place": lambda t: np.asarray(t).sort(),
}


def lengths(mode: str) -> tuple[int, ...]:
    """Small, and beyond the small path where tiles are not of seven elements."""
    return (12, 40_000) if mode == "default" else (12,)


@pytest.mark.parametrize("name", LOST)
def test_a_write_to_numpys_array_of_a_tensor_is_refused_where_it_would_be_lost(
    name: str, strict_or_default: str
) -> None:
    for n in lengths(strict_or_default):
        _is_refused(LOST[name], n)


def _is_refused(write: Any, n: int) -> None:
    for t in (it.asarray(np.arange(n * 2.0).reshape(n, 2)), it.arange(n * 2.0).reshape(2, n).T):
        before = t.numpy()
        with pytest.raises((ValueError, RuntimeError), match=r"read-only|not writeable"):
            write(t)
        np.testing.assert_array_equal(t.numpy(), before)


def test_strides_walk_over_the_base_of_a_view(strict_or_default: str) -> None:
    for n in lengths(strict_or_default):
        _walks(n)


def _walks(n: int) -> None:
    values = np.arange(n * 2.0)
    x = it.asarray(values)
    for part in (slice(4, None), slice(5, 1, -1), slice(4, None, 2)):
        for steps in ((-8, 8), (16, 8)):
            found = as_strided(x[part], (4, 3), steps)
            np.testing.assert_array_equal(found, as_strided(values[part], (4, 3), steps))
    z, complexes = it.asarray(values * (1 + 2j)), values * (1 + 2j)
    found = as_strided(z.imag[3:], (4, 3), (-16, 32))
    np.testing.assert_array_equal(found, as_strided(complexes.imag[3:], (4, 3), (-16, 32)))


@pytest.mark.filterwarnings("ignore:you are shuffling:UserWarning")
@pytest.mark.parametrize("rng", [np.random.default_rng(0), np.random.RandomState(0)], ids=str)
def test_numpys_shuffle_loses_no_row(rng: Any, strict_or_default: str) -> None:
    for n in lengths(strict_or_default):
        _is_shuffled(rng, n)


def _is_shuffled(rng: Any, n: int) -> None:
    x = it.asarray(np.arange(2.0 * n).reshape(n, 2))
    with pytest.raises(TypeError, match=r"swaps rows.*it\.random\.shuffle"):
        rng.shuffle(x)
    np.testing.assert_array_equal(x.numpy(), np.arange(2.0 * n).reshape(n, 2))
    it.random.shuffle(x)
    np.testing.assert_array_equal(np.sort(x.numpy(), axis=0), np.arange(2.0 * n).reshape(n, 2))


@pytest.mark.filterwarnings("ignore:you are shuffling:UserWarning")
def test_numpys_shuffle_of_numbers_is_numpys() -> None:
    x, y = it.arange(50), list(range(50))
    shuffle: Any = np.random.default_rng(3).shuffle
    shuffle(x)
    np.random.default_rng(3).shuffle(y)
    assert x.tolist() == y


def test_a_statement_writes_a_row_to_another() -> None:
    x, y = it.asarray(X), X.copy()
    for values in (x, y):
        values[0] = values[2]
        held = values[1]
        values[2] = held
        values[1], values[0] = values[0], values[1]  # the views are one row in NumPy too
    np.testing.assert_array_equal(x.numpy(), y)


def test_an_array_that_may_not_be_a_copy_looks_at_the_tile_or_is_refused() -> None:
    with it.init("cpu"):
        before = (it.config.small_elements, it.config.tile_elements)
        it.config.small_elements, it.config.tile_elements = 0, 1 << 20
        try:
            x = it.asarray(X) + 1
            seen = np.asarray(x, copy=False)
            assert not seen.flags.writeable
            with pytest.raises(ValueError, match="float32 are a copy"):
                np.asarray(x, dtype=np.float32, copy=False)
            it.config.tile_elements = 7
            with (
                it.init("cpu*2"),
                pytest.raises(ValueError, match=r"not in one piece.*local_tiles"),
            ):
                np.asarray(it.asarray(X) + 1, copy=False)
        finally:
            it.config.small_elements, it.config.tile_elements = before
        x += 1
        x.numpy()
        np.testing.assert_array_equal(seen, X + 1)


@pytest.mark.parametrize("size", [24, 17_000])
def test_an_array_can_be_borrowed(size: int) -> None:
    source = np.arange(float(size))
    x = it.asarray(source, copy=False)
    assert float((x + 1).sum()) == source.sum() + size
    x[0] = 5
    x += 1
    assert (float(x[0]), source[0]) == (6.0, 0.0)


@pytest.mark.parametrize("source", [[1, 2], 3.0, X[::2].T, X[:, ::-1]])
def test_what_cannot_be_borrowed_is_refused(source: Any) -> None:
    with pytest.raises(ValueError, match=r"copy=False.*leave copy= out"):
        it.asarray(source, copy=False)
