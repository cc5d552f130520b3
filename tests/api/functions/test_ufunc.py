"""Ufuncs take NumPy's options and have NumPy's methods, with its values, dtypes and errors."""

from __future__ import annotations

import functools
import inspect
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from tests.api.outcomes import assert_same, outcome, tensors

import infinitensor as it
from infinitensor.api.functions.all_functions import PUBLIC

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")

RNG = np.random.default_rng(0)
X = RNG.integers(1, 9, (4, 5)).astype(float)
Y = RNG.integers(1, 9, (4, 5)).astype(float)
MASK = RNG.random((4, 5)) < 0.6
UFUNCS = sorted(
    {f.__name__ for f in PUBLIC.values() if isinstance(f, it.ufunc)}
    - {"matmul", "vecdot", "matvec", "vecmat"}
)
BINARY = [n for n in UFUNCS if getattr(it, n).nin == 2 and getattr(it, n).nout == 1]
BINARY.remove("ldexp")  # NumPy reduces with its loop of two dtypes, ours refuses


def truly(name: str, method: str) -> Any:
    """NumPy's method, but for those that it has wrong on processors with AVX-512."""
    ufunc = getattr(np, name)
    if name not in ("power", "arctan2") or method not in ("reduce", "reduceat"):
        return getattr(ufunc, method)

    def reduce(x: np.ndarray, axis: int = 0, keepdims: bool = False) -> np.ndarray:
        made = folded(x, axis)
        return np.expand_dims(made, axis) if keepdims else made

    def folded(x: np.ndarray, axis: int) -> np.ndarray:
        return functools.reduce(ufunc, np.moveaxis(x, axis, 0))

    def reduceat(x: np.ndarray, starts: list[int], axis: int = 0) -> np.ndarray:
        ends = [*starts[1:], x.shape[axis]]
        parts = [range(lo, max(lo + 1, hi)) for lo, hi in zip(starts, ends, strict=True)]
        return np.stack([folded(np.take(x, part, axis), axis) for part in parts], axis)

    return reduce if method == "reduce" else reduceat


def assert_alike(name: str, method: str, *args: Any, **kwargs: Any) -> None:
    """Ours gives what NumPy gives, and leaves the same in the arguments."""
    theirs, their_options = _copied(args), {k: _copied(v) for k, v in kwargs.items()}
    ours, our_options = tensors(args), {k: tensors(v) for k, v in kwargs.items()}
    want = outcome(truly(name, method), theirs, their_options)
    got = outcome(getattr(getattr(it, name), method), ours, our_options)
    assert_same(got, want, f"{name}.{method}")


def _copied(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_copied(one) for one in value)
    return np.array(value) if isinstance(value, np.ndarray) else value


def operands(name: str) -> tuple[Any, ...]:
    """Arrays that a ufunc has a loop for."""
    ufunc = getattr(np, name)
    floats = any(loop.startswith("d" * ufunc.nin + "->") for loop in ufunc.types)
    made = (X, Y) if floats else (X.astype(int), Y.astype(int))
    return made[: ufunc.nin]


# --- calls ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UFUNCS)
def test_out_where_and_dtype_are_numpys(name: str) -> None:
    args = operands(name)
    with np.errstate(all="ignore"):
        made = getattr(np, name)(*args)
    out = tuple(np.full(X.shape, 3, one.dtype) for one in (made if type(made) is tuple else [made]))
    assert_alike(name, "__call__", *args, out=out)
    if name not in ("maximum", "minimum"):  # there NumPy warns
        assert_alike(name, "__call__", *args, *out)
    assert_alike(name, "__call__", *args, out=out, where=MASK)
    assert_alike(name, "__call__", *args, dtype=np.float32)
    assert_alike(name, "__call__", *args, dtype=np.int16, casting="unsafe")
    assert_alike(name, "__call__", *args, out=tuple(one.astype(np.int8) for one in out))


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((X, Y), {"out": np.zeros((4, 5), np.float32)}),
        ((X, Y), {"out": np.zeros((4, 5), int)}),
        ((X, Y), {"out": np.zeros((4, 5), int), "casting": "unsafe"}),
        ((X, Y), {"casting": "no"}),
        ((X, Y.astype(int)), {"casting": "no"}),
        ((X, 2), {"dtype": int}),
        ((X, 2), {"dtype": int, "casting": "unsafe"}),
        ((X.astype(np.int8), 300), {"dtype": np.int8, "casting": "unsafe"}),
        ((X, 2.5), {"signature": "dd->d"}),
        ((X, 2.5), {"sig": (None, None, np.complex128)}),
        ((X, 2.5), {"signature": "dd->d", "dtype": float}),
        ((X, Y), {"out": np.zeros(5)}),
        ((X[0], Y[0]), {"out": np.zeros((4, 5))}),
        ((X[0], Y), {"out": np.zeros((2, 4, 5)), "where": MASK[0]}),
        ((X[0], Y[0]), {"out": np.zeros(5), "where": MASK}),
        ((X, Y), {"out": np.zeros((4, 5)), "where": MASK.astype(int)}),
        ((X, Y, np.zeros((4, 5))), {"out": np.zeros((4, 5))}),
        ((X, Y), {"out": (np.zeros((4, 5)), np.zeros(2))}),
        ((X, Y), {"out": (np.zeros((4, 5)),)}),
        ((X, Y), {"out": None, "order": "C", "subok": False}),
        ((X, Y), {"out": 3}),
        ((X,), {}),
        ((X, Y, None), {}),
        ((X, Y, None, None), {}),
        ((X, Y), {"nonsense": 3}),
        ((3, 4.5), {"dtype": np.float32}),
    ],
)
def test_options_of_add_are_numpys(args: Any, options: dict[str, Any]) -> None:
    assert_alike("add", "__call__", *args, **options)


def test_out_is_the_object_that_was_given_and_may_be_a_view() -> None:
    x = it.asarray(X)
    column = x[:, 1]
    assert it.multiply(column, 10, out=column) is column
    want = X.copy()
    want[:, 1] *= 10
    np.testing.assert_array_equal(x.numpy(), want)


def test_out_may_overlap_what_is_read() -> None:
    x, y = it.asarray(X[0]), X[0].copy()
    it.add(x[:-1], x[1:], out=x[1:])
    np.add(y[:-1], y[1:].copy(), out=y[1:])
    np.testing.assert_array_equal(x.numpy(), [X[0, 0], *(X[0, :-1] + X[0, 1:])])


def test_a_mask_without_out_leaves_zeros() -> None:
    np.testing.assert_array_equal(it.add(X, Y, where=MASK).numpy(), np.where(MASK, X + Y, 0))


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(ValueError, match="output array is read-only"):
        it.add(1, 2, out=it.broadcast_to(it.zeros(1), (3,)))


def test_matmul_takes_out_and_dtype() -> None:
    assert_alike("matmul", "__call__", X, Y.T, out=np.zeros((4, 4)))
    assert_alike("matmul", "__call__", X, Y.T, np.zeros((3, 4, 4)))
    assert_alike("matmul", "__call__", X, Y.T, dtype=np.float32)
    assert_alike("matmul", "__call__", X, Y.T, out=np.zeros((4, 4), int))
    assert_alike("matmul", "__call__", X, Y.T, out=np.zeros((4, 3)))
    assert_alike("matmul", "reduce", X)
    assert_alike("matmul", "outer", X, Y)


# --- methods ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BINARY)
def test_methods_of_every_binary_ufunc_are_numpys(name: str) -> None:
    x, y = operands(name)
    assert_alike(name, "reduce", x)
    assert_alike(name, "reduce", x[:3, :3], axis=1, keepdims=True)
    assert_alike(name, "accumulate", x, axis=1)
    assert_alike(name, "reduceat", x, [0, 2, 1], axis=0)
    assert_alike(name, "outer", x[0, :2], y)
    assert_alike(name, "at", x[0], [1, 3, 1, 0], y[0, :4])


REDUCED = ["add", "multiply", "maximum", "logical_or", "logical_and", "bitwise_or", "fmin"]
REDUCED += ["subtract", "hypot", "logaddexp", "gcd", "lcm", "logical_xor", "bitwise_and"]


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((4, 5), {"axis": None}),
        ((4, 5), {"axis": (0, 1)}),
        ((4, 5), {"axis": ()}),
        ((4, 5), {"axis": 2}),
        ((4, 5), {"axis": 1, "initial": 3}),
        ((4, 5), {"axis": 0, "where": MASK}),
        ((4, 5), {"axis": 0, "where": MASK, "initial": 2}),
        ((4, 5), {"axis": 1, "where": MASK[0]}),
        ((4, 5), {"axis": 1, "out": np.zeros(4)}),
        ((4, 5), {"axis": 1, "out": np.zeros(5)}),
        ((4, 5), {"axis": 1, "out": (np.zeros((4, 1), np.int8),), "keepdims": True}),
        ((4, 5), {"axis": 1, "dtype": np.int16}),
        ((0, 5), {"axis": 0}),
        ((0, 5), {"axis": 0, "initial": 1}),
        ((0, 5), {"axis": 1}),
        ((), {}),
        ((), {"axis": 1}),
    ],
)
def test_reduce_is_numpys(name: str, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    x = np.array(3) if not shape else X[: shape[0]].astype(int)
    assert_alike(name, "reduce", x, **options)


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((X, 2), {}),
        ((np.array(3.0),), {}),
        ((X.astype(np.int8),), {"axis": -1}),
        ((X,), {"dtype": int}),
        ((X,), {"out": np.zeros((4, 5), int)}),
        ((X,), {"out": np.zeros((4, 4))}),
        ((np.zeros((0, 3)),), {}),
        ((RNG.normal(size=50),), {}),
    ],
)
def test_accumulate_is_numpys(args: Any, options: dict[str, Any]) -> None:
    for name in ("add", "maximum", "subtract", "logical_or"):
        assert_alike(name, "accumulate", *args, **options)


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((X, [0, 4]), {}),
        ((X, [-1]), {}),
        ((X, []), {}),
        ((X, np.array([3, 0, 0, 2])), {"axis": 0}),
        ((X, [4, 0]), {"axis": 1, "dtype": int}),
        ((X, [1, 3]), {"out": np.zeros((2, 5))}),
        ((RNG.normal(size=40), np.array([0, 5, 5, 9, 39])), {}),
    ],
)
def test_reduceat_is_numpys(args: Any, options: dict[str, Any]) -> None:
    for name in ("add", "minimum", "divide"):
        assert_alike(name, "reduceat", *args, **options)


@pytest.mark.parametrize(
    ("target", "index", "value"),
    [
        (X, np.array([0, 2, 0]), 1.5),
        (X, (np.array([0, 2, 0]), np.array([1, 1, 1])), np.array([1.0, 2.0, 4.0])),
        (X, (slice(None), np.array([0, 0])), Y[:, :2]),
        (X, slice(1, 3), Y[0]),
        (X, 2, 7),
        (X, (1, 2), 7),
        (X, MASK, 2.0),
        (X, MASK[:, 0], 2.0),
        (X, ..., Y),
        (X.astype(int), np.array([3, 3]), 1.5),
        (X.astype(np.float32), np.array([3, 3]), np.array([[1e-9], [2]])),
        (X, np.array([9]), 1),
        (X, np.array([0]), np.zeros(3)),
    ],
)
def test_at_changes_what_numpys_changes(target: Any, index: Any, value: Any) -> None:
    for name in ("add", "multiply", "maximum", "subtract"):
        assert_alike(name, "at", target, index, value)


def test_at_of_one_operand_repeats() -> None:
    assert_alike("negative", "at", X, np.array([0, 0, 1]))
    assert_alike("negative", "at", X, np.array([0, 0, 1]), 3)
    assert_alike("add", "at", X, np.array([0]))
    assert_alike("negative", "reduce", X)
    assert_alike("negative", "outer", X, X)
    assert_alike("divmod", "accumulate", X)
    assert_alike("divmod", "at", X, np.array([0]), 1)


def test_at_goes_through_views_to_their_base() -> None:
    x, y = it.asarray(X), X.copy()
    it.add.at(x[::2].T, it.asarray([4, 4]), 1)
    np.add.at(y[::2].T, [4, 4], 1)
    np.testing.assert_array_equal(x.numpy(), y)


# --- what it is -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["add", "maximum", "exp", "divmod", "matmul"])
def test_a_ufunc_says_what_numpys_says(name: str) -> None:
    ours, theirs = getattr(it, name), getattr(np, name)
    for attribute in ("nin", "nout", "nargs", "identity", "signature", "__name__"):
        assert getattr(ours, attribute) == getattr(theirs, attribute)
    assert set(ours.types) <= set(theirs.types)
    assert len(ours.types) == ours.ntypes
    assert repr(ours) == f"<ufunc '{name}'>"
    assert ours.__doc__
    assert "out" in inspect.signature(ours).parameters
    assert pickle.loads(pickle.dumps(ours)) is ours


def test_names_of_one_ufunc_are_one_object() -> None:
    assert it.pow is it.power
    assert it.abs is it.absolute
    assert it.conj is it.conjugate


def test_a_plain_call_records_what_it_did_before() -> None:
    it.config.small_elements = 0
    x = it.asarray(X)
    it.compute(x)
    it.stats(reset=True)
    (it.add(x, 1)).numpy()
    assert it.stats()["host_fallbacks"] == it.stats()["whole_ops"] == 0


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind"])
@pytest.mark.parametrize("dtype", [None, "f4", "i8"])
def test_numbers_are_cast_by_numpys_rules(casting: Any, dtype: Any) -> None:
    """NumPy's own resolution of dtypes ends the process with "no" and "equiv"."""
    for a, b in itertools.product((3, 3.5, True, 2j, "f4", "f8", "i2"), repeat=2):
        said = []
        for xp in (np, it):
            ins = [xp.ones(2, v) if isinstance(v, str) else v for v in (a, b)]
            try:
                said.append(str(xp.add(*ins, dtype=dtype, casting=casting).dtype))
            except TypeError:
                said.append("refused")
        assert said[0] == said[1], (a, b)
