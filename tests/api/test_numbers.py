"""Single numbers and elements in C (`api/small/numbers.h`): NumPy's values, dtypes and errors."""

import gc
import operator
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.config import config

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.lt,
    operator.le, operator.eq, operator.ne, operator.gt, operator.ge,
]  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls are small here in strict runs too; NumPy warns of nothing, as they do."""
    monkeypatch.setattr(config, "small_elements", 65_536)
    with np.errstate(all="ignore"):
        yield


def values_of(dtype: str) -> list[Any]:
    kind = np.dtype(dtype).type
    if dtype == "bool":
        return [kind(False), kind(True)]
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        found = {info.min, info.max, info.max - 1, 0, 1, 2, 3, 7, 8, 31, 32, 63, 64, -1, -2, -7}
        return [kind(v) for v in sorted(found) if info.min <= v <= info.max]
    return [kind(v) for v in (0.0, -0.0, 1.5, -2.25, 3e38, 1e-40, 0.1, np.inf, -np.inf, np.nan)]


def outcome(call: Any, *args: Any) -> Any:
    """The bytes and dtype of a result, or what was raised."""
    try:
        made = call(*args)
    except Exception as error:
        return type(error)
    values = np.asarray(made.numpy() if isinstance(made, it.Tensor) else made)
    if not values.ndim and values.dtype.kind == "f" and np.isnan(values):  # there are many
        return values.dtype, "nan"
    return values.dtype, values.tobytes()


def wrap(value: Any) -> it.Tensor:
    """A tensor that is one number, as an element of another is."""
    return it.asarray(np.array([value]))[0]


PYTHONS = [0, 1, 2, 5, -1, 255, 256, 70_000, 1 << 40, 1 << 60, 1 << 70, 0.1, 2.0, 1e300, True]


@pytest.mark.parametrize("call", OPERATORS, ids=lambda call: call.__name__)
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, "float32", "float64"])
def test_numbers_are_numpys(dtype: str, call: Any) -> None:
    values = [(a, wrap(a)) for a in values_of(dtype)]
    for a, x in values:
        for b, y in values:
            assert outcome(call, x, y) == outcome(call, a, b), (a, b)
        for b in PYTHONS:
            assert outcome(call, x, b) == outcome(call, a, b), (a, b)
            assert outcome(call, b, x) == outcome(call, b, a), (b, a)


@pytest.mark.parametrize("call", OPERATORS, ids=lambda call: call.__name__)
def test_numbers_of_two_dtypes_are_numpys(call: Any) -> None:
    kinds = [np.int32, np.int64, np.uint8, np.uint64, np.float32, np.float64, np.bool_]
    for first in kinds:
        for second in kinds:
            a, b = first(1), second(3)
            assert outcome(call, wrap(a), wrap(b)) == outcome(call, a, b), (first, second)


@pytest.mark.parametrize("call", [operator.neg, abs, operator.invert])
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, "float32", "float64", "complex128"])
def test_one_operand_is_numpys(dtype: str, call: Any) -> None:
    for a in values_of(dtype):
        assert outcome(call, wrap(a)) == outcome(call, a), a
    row = np.array(values_of(dtype))[::-1]
    try:
        expected = call(row)
    except TypeError:
        with pytest.raises(TypeError, match=r"."):
            call(it.asarray(row))
        return
    assert np.array_equal(call(it.asarray(row)).numpy(), expected, equal_nan=dtype[0] in "fc")


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, "float32", "float64", "complex64"])
def test_elements_are_read_and_written_like_numpys(dtype: str) -> None:
    values = np.arange(60).reshape(4, 15).astype(dtype)
    looks: list[Any] = [lambda a: a, lambda a: a.T, lambda a: a[::-1, ::2], lambda a: a[1]]
    for look in looks:
        theirs, ours = values.copy(), it.asarray(values)
        seen, ours_seen = look(theirs), look(ours)
        places: list[Any] = [0, -1, 2] if seen.ndim == 1 else [(0, 0), (-1, 2), (np.int64(1), -2)]
        for at in places:
            assert outcome(operator.getitem, ours_seen, at) == outcome(operator.getitem, seen, at)
            for value in (
                seen[places[0]],
                True,
                3,
                -1,
                300,
                1 << 40,
                2.5,
                np.float32(7),
                np.int64(9),
            ):
                wrote = outcome(operator.setitem, seen, at, value)
                assert outcome(operator.setitem, ours_seen, at, value) == wrote, (at, value)
                assert np.array_equal(ours.numpy(), theirs), (at, value)
        far = 99 if seen.ndim == 1 else (0, 99)
        with pytest.raises(IndexError, match="out of bounds"):
            ours_seen[far]
        with pytest.raises(IndexError, match="out of bounds"):
            ours_seen[far] = 1


def test_a_tensor_that_is_an_integer_makes_views_and_ends_of_slices() -> None:
    values, places = np.arange(24.0).reshape(4, 6), np.array([1, 3, 2])
    for a, at in (
        (theirs := values.copy(), places),
        (ours := it.asarray(values), it.asarray(places)),
    ):
        a[at[0]][2] = -1.0
        a[at[1], at[2] :] += 10
        part = a[at[0] : at[1], at[2]]
        part += 100
        a[at[2]] = 5
        a[at[0], at[1]] = 7
        row = a[at[0]]
        row *= 2
        a[at[1]] = row
    assert np.array_equal(ours.numpy(), theirs)


def test_an_index_that_became_another_number_is_written_to() -> None:
    values = np.arange(12.0).reshape(3, 4)
    tensor, at = it.asarray(values), it.asarray([0, 2]).min()
    row = tensor[at]
    row += 1
    at += 2
    tensor[at] = row
    values[0] += 1
    values[2] = values[0]
    assert np.array_equal(tensor.numpy(), values)


@pytest.mark.parametrize("index", [[0, 2, -1], [[1, 1], [0, 3]], [4], [-5], []], ids=str)
def test_few_rows_are_gathered(index: list[Any]) -> None:
    values, at = np.arange(12.0).reshape(4, 3), np.array(index, np.int64)
    looks: list[Any] = [lambda a: a, lambda a: a[:, 1], lambda a: a.T[:1].T]
    for look in looks:
        ours = look(it.asarray(values))
        expected = outcome(operator.getitem, look(values), at)
        assert outcome(operator.getitem, ours, it.asarray(at)) == expected
        if expected is not IndexError:
            found = ours[it.asarray(at)]
            found += 1  # of its own
            assert np.array_equal(ours.numpy(), look(values))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 20, 600, 9_999, 12_000])
def test_dots_have_the_bits_of_numpys(n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal(2 * n + 1).astype(dtype) for _ in range(2))
    looks: list[Any] = [lambda a: a[:n], lambda a: a[1::2], lambda a: a[: 2 * n : 2][::-1]]
    for p in looks:
        for q in looks:
            a, b = p(x), q(y)
            ours = p(it.asarray(x)), q(it.asarray(y))
            for call in (operator.matmul, it.dot):
                expected = np.dot(a, b) if call is it.dot and n <= 512 else a @ b
                made = call(*ours)
                assert made.dtype == expected.dtype
                if n <= 10_000:
                    assert made.numpy().tobytes() == np.asarray(expected).tobytes(), (n, call)
                else:
                    assert np.allclose(made.numpy(), expected, rtol=1e-3)


def test_products_of_vectors_that_do_not_fit_raise() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        it.ones(3) @ it.ones(4)
    with pytest.raises(ValueError, match="do not fit"):
        it.ones((2, 5)) @ it.ones((2, 2))


def test_tensors_come_and_go_with_what_refers_to_them() -> None:
    values = it.asarray(np.arange(200.0))
    dropped: list[int] = []
    held = [values[i] * 2 for i in range(200)]  # more than are kept for the next ones
    references = [weakref.ref(x, lambda _: dropped.append(1)) for x in held]
    assert [float(x) for x in held] == [2.0 * i for i in range(200)]
    del held
    assert len(dropped) == 200
    assert all(reference() is None for reference in references)
    fresh = [values[i] + 1 for i in range(200)]
    assert len({id(x) for x in fresh}) == 200
    assert [float(x) for x in fresh] == [i + 1.0 for i in range(200)]
    assert all(gc.is_tracked(x) for x in fresh)


def test_a_cycle_through_a_subclass_is_collected() -> None:
    class Labelled(it.Tensor):
        """With something of its own."""

    gone: list[int] = []
    for _ in range(100):
        tensor: Any = Labelled((2,))
        tensor.itself = tensor
        weakref.finalize(tensor, gone.append, 1)
    del tensor
    gc.collect()
    assert len(gone) == 100
    assert float(it.asarray([1.0, 2.0])[1] * 3) == 6.0


def test_small_calls_count_for_their_own_session() -> None:
    with it.init("cpu") as first:
        x = it.asarray([1.0, 2.0])
        for _ in range(3):
            x[0] * 2
        with it.init("cpu") as second:
            y = it.asarray([1.0, 2.0])
            y[1] + 1
            x[0] * 2
            y[1] + 1
            assert second.stats(reset=True)["small_calls"] == 4
            y[0] + 1
            assert second.stats(reset=False)["small_calls"] == 2
        assert first.stats(reset=True)["small_calls"] == 8
        x[0] * 2
        assert first.stats(reset=False)["small_calls"] == 2
