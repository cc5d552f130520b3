"""Calls that other projects' tests found to differ from NumPy: values, dtypes, kinds of errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import infinitensor as it

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("strict_or_default")]

HOLES = np.where(np.arange(12) % 5 == 3, np.nan, np.arange(12.0) ** 2)
HOLES[8] = np.inf
MASK = np.array([True, False, True, False])

VALUES: dict[str, Any] = {
    "slopes at even points": lambda m, a: m.gradient(a(HOLES), a(np.arange(12) * 0.5)),
    "slopes at even points, ends": lambda m, a: m.gradient(
        a(HOLES), a(np.arange(12)), edge_order=2
    ),
    "slopes at uneven points": lambda m, a: m.gradient(a(HOLES[:3]), a(np.array([1.0, 2, 4]))),
    "slopes of rows": lambda m, a: m.gradient(
        a(HOLES.reshape(3, 4)), 2.0, np.arange(4.0), axis=(0, 1)
    ),
    "an einsum that is no safe cast": lambda m, a: m.einsum("i->", a(np.array([1.5])), dtype="i8"),
    "an einsum cast unsafely": lambda m, a: m.einsum(
        "i,i", a(np.array([1.5])), a(np.array([2.5])), dtype="i8", casting="unsafe"
    ),
    "an einsum that is a view": lambda m, a: m.einsum("ij->ji", a(HOLES.reshape(3, 4)), dtype="f4"),
    "a join that is no cast": lambda m, a: m.concatenate([a(np.array([1.5])), a(MASK)], dtype="i4"),
    "a join with a number": lambda m, a: m.concatenate([a(np.array([1, 2], "i1")), 3], axis=None),
    "a join with a float": lambda m, a: m.concatenate((2.5, a(np.array([1, 2], "f4"))), axis=None),
    "a join of numbers": lambda m, a: m.concatenate((1, 2.5), axis=None),
    "an interpolation of NaN": lambda m, a: m.interp(
        a(np.array([0.5, np.nan, 9])), a(np.arange(4)), a(HOLES[:4])
    ),
    "one point for NaN": lambda m, a: m.interp(a(np.array([1, np.nan])), a(np.ones(1)), [7.0]),
    "a choice of numbers": lambda m, a: m.choose(
        a(np.array([0, 1])), [a(np.array([1, 2], "i1")), 2]
    ),
    "a choice of floats": lambda m, a: m.choose(a(np.array([0, 1])), [a(np.ones(2, "f4")), 2.5]),
    "bool.conj()": lambda m, a: a(MASK).conj(),
    "conjugate(bool)": lambda m, a: m.conjugate(a(MASK)),
    "angle(bool)": lambda m, a: m.angle(a(MASK)),
    "angle(int8)": lambda m, a: m.angle(a(np.array([1, -1], "i1"))),
    "angle(complex64)": lambda m, a: m.angle(a(np.array([1j, -1], "c8")), deg=True),
    "a polynomial of real zeros": lambda m, a: m.poly(a(np.array([[2.0, 1], [1, 3]]))),
    "a polynomial of pairs": lambda m, a: m.poly(a(np.array([1 + 1j, 1 - 1j]))),
    "real roots": lambda m, a: m.roots(a(np.array([1, -3, 2, 0]))),
    "complex roots": lambda m, a: m.roots(a(np.array([1.0, 0, 1]))),
    "real eigenvalues": lambda m, a: m.linalg.eigvals(a(np.array([[2, 1], [1, 3]]))),
    "real eigenvalues in singles": lambda m, a: m.linalg.eigvals(a(np.diag([1, 2]).astype("f4"))),
    "complex eigenvalues": lambda m, a: m.linalg.eigvals(a(np.array([[0.0, 1], [-1, 0]]))),
    "eigenvalues of a stack": lambda m, a: m.linalg.eigvals(
        a(np.array([[[2.0, 0], [0, 3]], [[0, 1], [-1, 0]]]))
    ),
    "real eigenvectors": lambda m, a: m.linalg.eig(a(np.diag([2.0, 3]))).eigenvectors,
    "a length that is not known": lambda m, a: a(HOLES).reshape(-2),
    "lengths that are not known": lambda m, a: a(HOLES).reshape(-2, -3),
    "a reshape with one": lambda m, a: m.reshape(a(HOLES), (3, -7)),
    "a reduction of a number": lambda m, a: m.min(a(np.array(3.5)), axis=0),
    "a sum of a number": lambda m, a: m.sum(a(np.array(3)), axis=-1),
    "a sum of a number by no axis": lambda m, a: m.any(a(np.array(3)), axis=1),
    "products of every pair": lambda m, a: m.multiply.outer(a(np.array([1, 2], "i1")), 300),
    "r_ of a number": lambda m, a: m.r_[a(np.array([1, 2], "i1")), 3],
    "r_ of one that does not fit": lambda m, a: m.r_[a(np.array([1, 2], "u1")), 300],
    "insert": lambda m, a: m.insert(a(np.array([1, 2], "i1")), 1, 300),
    "insert a float": lambda m, a: m.insert(a(np.array([1, 2], "i1")), 1, [2.5, 3.5]),
    "full of what is no number": lambda m, a: m.full(2, 1e300, dtype="f4"),
    "full of one that does not fit": lambda m, a: m.full_like(a(MASK.astype("i1")), 300),
}


def outcome(module: Any, call: Any) -> Any:
    """What a call makes, as NumPy's array, or the error it raises."""
    make: Any = np.array if module is np else it.asarray
    try:
        with np.errstate(all="ignore"):
            made = call(module, make)
        return made.numpy() if isinstance(made, it.Tensor) else np.asarray(made)
    except Exception as error:
        return error


def assert_same(found: Any, want: Any) -> None:
    if isinstance(want, Exception):
        assert isinstance(found, type(want)) or isinstance(want, type(found)), repr(found)
        return
    assert not isinstance(found, Exception), repr(found)
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    single = want.dtype.char in "fF"
    np.testing.assert_allclose(found, want, 1e-5 if single else 1e-10, 1e-5 if single else 1e-10)


@pytest.mark.parametrize("name", VALUES)
def test_a_call_is_numpys(name: str) -> None:
    assert_same(outcome(it, VALUES[name]), outcome(np, VALUES[name]))


def _write(x: Any, index: Any, value: Any) -> None:
    x[index] = value


WRITES: dict[str, Any] = {
    "an element": lambda m, x, v: _write(x, 0, v),
    "a slice": lambda m, x, v: _write(x, slice(1, 3), v),
    "places": lambda m, x, v: _write(x, [0, 2], v),
    "fill": lambda m, x, v: x.fill(v),
    "copyto": lambda m, x, v: m.copyto(x, v),
    "copyto, unsafe": lambda m, x, v: m.copyto(x, v, casting="unsafe"),
    "put": lambda m, x, v: m.put(x, [0, 2], v),
    "place": lambda m, x, v: m.place(x, MASK, v),
    "putmask": lambda m, x, v: m.putmask(x, MASK, v),
    "fill_diagonal": lambda m, x, v: m.fill_diagonal(x.reshape(2, 2), v),
    "put_along_axis": lambda m, x, v: m.put_along_axis(x, np.array([1]), v, 0),
    "put_along_axis of all": lambda m, x, v: m.put_along_axis(x, np.array([1]), v, None),
    "add.at": lambda m, x, v: m.add.at(x, [0, 0], v),
}
GIVEN = (300, -1, 1 << 40, 2.5, True, [300], np.int64(300), np.float64(2.5), np.array([2]))


@pytest.mark.parametrize("dtype", ["i1", "u1", "f4", "c8"])
@pytest.mark.parametrize("name", WRITES)
def test_a_number_that_does_not_fit_is_written_as_numpy_does(name: str, dtype: str) -> None:
    for value in GIVEN:
        if name == "an element" and isinstance(value, list):
            continue  # NumPy has another error for every dtype

        def written(m: Any, make: Any, value: Any = value) -> Any:
            x = make(np.array([1, 2, 3, 4]).astype(dtype))
            WRITES[name](m, x, value)
            return x

        assert_same(outcome(it, written), outcome(np, written))


@pytest.mark.parametrize("part", ["real", "imag"])
@pytest.mark.parametrize("dtype", ["c8", "c16", "f4"])
def test_parts_are_views(part: str, dtype: str) -> None:
    def written(m: Any, make: Any) -> Any:
        z = make(np.array([1 + 2j, 3j, 4] if dtype != "f4" else [1, 2, 3], dtype))
        if part == "real" or dtype != "f4":
            getattr(m, part)(z)[1:] = 9
        return z

    assert_same(outcome(it, written), outcome(np, written))


NUMBERS = (2, 2.5, True)
UFUNCS = sorted(
    {u.__name__ for u in vars(np).values() if isinstance(u, np.ufunc) and u.signature is None}
)


@pytest.mark.parametrize("name", [name for name in UFUNCS if hasattr(it, name)])
def test_a_ufunc_of_numbers_and_lists_is_numpys(name: str) -> None:
    like, ours = getattr(np, name), getattr(it, name)
    lists: list[Any] = [[1, 2, 3], [[1.0, 2.0]], [True, False]]
    for args in (*itertools.product(NUMBERS, repeat=like.nin), *([x] * like.nin for x in lists)):
        for i in range(like.nout):

            def part(m: Any, make: Any, args: Any = args, i: int = i) -> Any:
                made = (like if m is np else ours)(*args)
                return made[i] if like.nout > 1 else made

            assert_same(outcome(it, part), outcome(np, part))
