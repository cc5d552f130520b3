"""Products of small tensors: NumPy's where its library keeps to one core, else by ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.small import numpy_table
from infinitensor.config import config
from infinitensor.ops.backend import blas


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are small here in strict runs too."""
    monkeypatch.setattr(config, "small_elements", 65_536)


@pytest.fixture
def multiplied_by_us(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who asked our library: Python or C."""
    asked: list[str] = []
    before, found = blas.multiply, numpy_table._stack_address()

    def noted(x: Any, y: Any, out: Any) -> bool:
        asked.append("Python")
        return before(x, y, out)

    def address() -> int:
        asked.append("C")
        return found

    monkeypatch.setattr(blas, "multiply", noted)
    monkeypatch.setattr(numpy_table, "_stack_address", address)
    return asked


@pytest.mark.parametrize(("n", "k"), [(20, 30), (40, 300), (64, 64), (65, 100)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
def test_product_is_numpys_whoever_multiplies(
    n: int, k: int, dtype: str, multiplied_by_us: list[Any]
) -> None:
    rng = np.random.default_rng(3)
    a = (rng.normal(size=(k, n)) * 9).astype(dtype)
    x = it.asarray(a)
    it.stats(reset=True)
    found = (x.T @ x, it.dot(x.T, x))
    assert it.stats()["small_calls"] == 2
    for made in found:
        np.testing.assert_allclose(made, a.T @ a, rtol=1e-4)
    is_float = dtype.startswith("float")
    least = numpy_table.LEAST_OF_OURS if is_float else numpy_table.ONE_CORE + 1
    assert len(multiplied_by_us) == 2 * (n * n * k >= least)


@pytest.mark.parametrize("shape", [(170, 200, 256), (256, 256, 256), (3, 300, 200)], ids=str)
def test_a_product_with_a_small_result_is_made_at_once(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    x, y = it.asarray(a), it.asarray(b)
    it.stats(reset=True)
    made = x @ y
    assert it.stats()["small_calls"] == 1
    np.testing.assert_allclose(made, a @ b, atol=1e-9)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize("shape", [(300, 300), (3, 80_000), (80_000, 3), (512, 513)], ids=str)
def test_a_matrix_of_some_size_times_a_vector_is_what_numpy_makes(
    dtype: str, shape: tuple[int, int]
) -> None:
    rng = np.random.default_rng(6)
    a = (rng.normal(size=shape) * 9).astype(dtype)
    left, right = (rng.integers(-9, 9, n).astype(dtype) for n in shape)
    x, u, v = map(it.asarray, (a, left, right))
    it.compute(x, u, v)
    found = (x @ v, u @ x, v @ x.T, x.T @ u, x[:, ::2] @ v[::2], x[1:].T @ u[1:])
    even, rest = a[:, ::2] @ right[::2], a[1:].T @ left[1:]
    wanted = (a @ right, left @ a, right @ a.T, a.T @ left, even, rest)
    for made, numpys in zip(found, wanted, strict=True):
        np.testing.assert_allclose(made, numpys, rtol=1e-4, atol=0.05)
    with pytest.raises(ValueError, match="matmul"):
        x @ v[1:]
    with pytest.raises(ValueError, match="matmul"):
        x @ it.asarray(np.zeros(0, dtype))


def test_a_matrix_of_some_size_times_a_vector_is_made_at_once() -> None:
    x, v = it.asarray(np.ones((300, 300), np.float32)), it.asarray(np.ones(300, np.float32))
    it.stats(reset=True)
    transposed = x.T
    made = (x @ v, v @ x, transposed @ v)
    assert it.stats()["small_calls"] == 3
    assert all((one.numpy() == 300).all() for one in made)
    x[0] = 2  # a view that has shown its values shows the new ones
    assert ((transposed @ v).numpy() == 301).all()


@pytest.mark.parametrize("n", [100, 10_000, 10_001, 60_000])
@pytest.mark.parametrize("step", [1, -1])
def test_long_vectors_do_not_wake_threads_of_numpys(
    n: int, step: int, multiplied_by_us: list[Any]
) -> None:
    a = np.random.default_rng(4).normal(size=n)
    x = it.asarray(a)
    it.stats(reset=True)
    found = (x[::step] @ x, it.dot(x, x[::step]), x @ x[::step])
    assert it.stats()["small_calls"] == 3
    for made in found:
        assert float(made) == pytest.approx(float(a[::step] @ a))
    assert len(multiplied_by_us) == 3 * (n > numpy_table.ONE_CORE_DOT)


def test_vectors_of_unlike_dtypes_are_numpys() -> None:
    a, b = np.arange(20_000), np.linspace(0, 1, 20_000)
    assert float(it.asarray(a) @ it.asarray(b)) == pytest.approx(float(a @ b))
    assert int(it.asarray(a) @ it.asarray(a)) == int(a @ a)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((112, 53), (53, 3)),
        ((4, 4), (4, 4)),
        ((2000,), (2000,)),
        ((60, 50), (50,)),
        ((50,), (50, 60)),
    ],
    ids=str,
)
def test_products_of_halves_are_rounded_once(left: Any, right: Any) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=shape).astype(np.float16) for shape in (left, right))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    for multiply in (lambda x, y: x @ y, it.matmul, it.dot):
        found = multiply(it.asarray(a), it.asarray(b)).numpy()
        assert found.dtype == np.float16
        np.testing.assert_allclose(found.astype(float), wanted, 1e-3, 1e-3)


@pytest.mark.parametrize(("shape", "axis"), [((4, 97), 1), ((30, 20), 0), ((50,), -1)], ids=str)
def test_entries_along_an_axis_are_numpys(shape: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(size=shape)
    index = rng.integers(-3, 3, shape)[..., :1] if axis == 1 else rng.integers(-3, 3, shape)
    x, i = it.asarray(values), it.asarray(index)
    before = it.stats()["ways"]["numpy"]
    np.testing.assert_array_equal(
        it.take_along_axis(x, i, axis).numpy(), np.take_along_axis(values, index, axis)
    )
    assert it.stats()["ways"]["numpy"] > before
    with pytest.raises(IndexError, match="out of bounds"):
        it.take_along_axis(x, i + 1000, axis)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "u1", "?", "c8"])
@pytest.mark.parametrize("shape", [(0,), (1,), (9, 7), (40, 1), (3, 0)])
def test_unique_rolls_and_elements_along_an_axis_are_numpys(
    dtype: str, shape: tuple[int, ...]
) -> None:
    a = np.random.default_rng(0).integers(-3, 3, shape).astype(dtype)
    if a.size > 3 and a.dtype.kind in "fc":
        a.flat[[0, 3]] = np.nan
        a.flat[1] = -0.0
    for given in (a, a.T, a[::-1]):
        x = it.asarray(given)
        assert np.array_equal(it.unique(x).numpy(), np.unique(given), equal_nan=dtype != "?")
        for axis in (None, *range(-a.ndim, a.ndim)):
            for shift in (0, 1, -2, 13):
                made = it.roll(x, shift, axis)
                assert np.array_equal(
                    made.numpy(), np.roll(given, shift, axis), equal_nan=dtype != "?"
                )
        for axis in range(-a.ndim, a.ndim):
            index = np.zeros_like(given, np.int64) - (given.shape[axis] > 1)
            if given.size:
                made = it.take_along_axis(x, it.asarray(index), axis)
                wanted = np.take_along_axis(given, index, axis)
                assert np.array_equal(made.numpy(), wanted, equal_nan=dtype != "?")


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i8", "u2", "f2"])
@pytest.mark.parametrize("shape", [(1,), (7, 5), (82, 82), (3, 4, 5)], ids=str)
def test_quantiles_have_the_bits_of_what_is_not_small(
    dtype: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.random.default_rng(1).uniform(0, 100, shape).astype(dtype)
    holes = a.copy()
    if a.dtype.kind == "f" and a.size > 3:
        holes.flat[:4] = np.nan, np.inf, -0.0, -np.inf
    for given, name, q, axis in [
        (one, name, q, axis)
        for one in (a, holes, a.T)
        for name, each in (("quantile", (0.9, 0.5, 0, 1)), ("percentile", (33.3, 90, 100)))
        for q in each
        for axis in (None, 0, -1)
    ]:
        found = []
        for limit in (65_536, 0):
            monkeypatch.setattr(config, "small_elements", limit)
            found.append(getattr(it, name)(it.asarray(given), q, axis=axis).numpy())
        np.testing.assert_array_equal(*found)
        assert found[0].dtype == found[1].dtype
        with np.errstate(invalid="ignore"):
            wanted = getattr(np, name)(given, q, axis=axis)
        np.testing.assert_allclose(found[0], wanted, rtol=0 if dtype != "f2" else 1e-3)


def test_quantiles_of_small_tensors_are_numpys_own_call() -> None:
    x = it.asarray(np.arange(6.0).reshape(2, 3))
    before = it.stats()["ways"]["numpy"]
    assert it.quantile(x, 0.5, axis=1, keepdims=True).tolist() == [[1.0], [4.0]]
    assert float(it.percentile(x, 50)) == 2.5
    assert it.stats()["ways"]["numpy"] == before + 2
    with pytest.raises(ValueError, match="range"):
        it.quantile(x, 1.5)


@pytest.mark.parametrize("dtype", ["i8", "i4", "u1", "?"])
@pytest.mark.parametrize("weight", ["f4", "f8", "f2", "i4", "?"])
def test_counts_and_sums_of_weights_are_numpys(
    dtype: str, weight: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    a = rng.integers(0, 2 if dtype == "?" else 50, 1000).astype(dtype)
    weights = (rng.normal(size=1000) * 9).astype(weight)
    for given, w in ((a, weights), (a[::-3], weights[::-3]), (a[:0], weights[:0])):
        x, y = it.asarray(given), it.asarray(w)
        for n in (0, 7, 80):
            for limit in (65_536, 0):
                monkeypatch.setattr(config, "small_elements", limit)
                for found, wanted in (
                    (it.bincount(x, y, n), np.bincount(given, w, n)),
                    (it.bincount(x, weights=y, minlength=n), np.bincount(given, w, n)),
                    (it.bincount(x, None, n), np.bincount(given, None, n)),
                    (it.bincount(x, minlength=n), np.bincount(given, minlength=n)),
                ):
                    assert found.dtype == wanted.dtype
                    np.testing.assert_array_equal(found.numpy(), wanted)


def test_counts_that_are_many_or_of_what_cannot_be_counted_are_ours() -> None:
    x = it.asarray([3, 70_000])
    before = it.stats()["ways"]["numpy"]
    assert it.bincount(x).shape == (70_001,)
    assert it.bincount(it.asarray([1]), minlength=70_000).shape == (70_000,)
    assert it.stats()["ways"]["numpy"] == before
    with pytest.raises(ValueError, match="negative"):
        it.bincount(it.asarray([1, -1]))
    with pytest.raises(ValueError, match="same length"):
        it.bincount(it.asarray([1, 1]), weights=it.asarray([1.0]))
    with pytest.raises(TypeError, match="complex"):
        it.bincount(it.asarray([1, 1]), it.asarray([1j, 1.0]))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize(
    "shape",
    [(0,), (1,), (3000,), (60, 70), (2, 1100), (1100, 2), (9, 20, 30)],
)
@pytest.mark.parametrize("n_values", [3, 1 << 30])
def test_an_argsort_is_stable(dtype: str, shape: tuple[int, ...], n_values: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(-n_values, n_values, shape).astype(dtype)
    if x.dtype.kind == "f" and x.size > 100:
        x.flat[::97], x.flat[5:60:9], x.flat[3], x.flat[4] = np.nan, -0.0, np.inf, -np.inf
        x.flat[1::97] = -np.float32(np.nan)
        x.flat[6:60:9] = 0.0
    for given in (x, x.T):
        a = it.asarray(np.ascontiguousarray(given))
        for axis in range(x.ndim):
            wanted = np.argsort(given, axis, "stable")
            made = it.argsort(a, axis=axis).numpy()
            assert made.dtype == wanted.dtype
            np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize(
    ("name", "index", "axis", "way"),
    [
        ("take", (9,), 0, "numpy"),
        ("take", (9,), None, "numpy"),
        ("take", (9,), 1, "moved"),  # of each of many rows
        ("take_along_axis", (40_000, 1), 1, "numpy"),
        ("take_along_axis", (9, 6), 0, "numpy"),
        ("take_along_axis", (1, 3), 1, "moved"),  # the same for many rows
    ],
)
def test_few_elements_of_a_large_tensor_are_read_at_once(
    name: str, index: tuple[int, ...], axis: int | None, way: str
) -> None:
    rng = np.random.default_rng(0)
    with it.init("cpu"):
        values, places = rng.standard_normal((40_000, 6)), rng.integers(-6, 6, index)
        x, at = it.asarray(values), it.asarray(places)
        it.compute(x)
        it.stats(reset=True)
        made = getattr(it, name)(x, at, axis)
        it.compute(made)
        assert it.stats()["ways"][way] == 1
        np.testing.assert_array_equal(made.numpy(), getattr(np, name)(values, places, axis))
        with pytest.raises(IndexError, match="index 6 is out of bounds for axis 1 with size 6"):
            it.compute(it.take(x[:9], at * 0 + 6, 1))


@pytest.mark.parametrize("dtype", ["bool", "i1", "f2", "i4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(0,), (7,), (3, 5)])
def test_elements_of_a_vector_at_indices_are_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    values, places = rng.integers(0, 99, 50).astype(dtype), rng.integers(-50, 50, shape)
    x = it.asarray(values)
    np.testing.assert_array_equal(x[it.asarray(places)].numpy(), values[places])
    for wrong in (50, -51):
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0"):
            it.compute(x[it.asarray(places * 0 + wrong)] if places.size else x[it.asarray([wrong])])


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "u4", "i8", "?", "c8"])
@pytest.mark.parametrize("shape", [(), (0,), (3000,), (60, 70), (3, 4, 5), (2, 0)], ids=str)
def test_running_products_have_the_bits_of_what_is_not_small(
    dtype: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.asarray(np.random.default_rng(1).uniform(0.6, 1.5, shape) * 2).astype(dtype)
    for given in (a, a.T, a[..., ::-1] if a.ndim else a):
        for axis in (None, *range(-a.ndim, a.ndim)):
            found = []
            for limit in (65_536, 0):
                monkeypatch.setattr(config, "small_elements", limit)
                found.append(it.cumprod(it.asarray(given), axis).numpy())
            assert found[0].dtype == found[1].dtype
            assert found[0].tobytes() == found[1].tobytes()
    with pytest.raises(ValueError, match="axis 9"):
        it.cumprod(it.asarray(a), 9)
