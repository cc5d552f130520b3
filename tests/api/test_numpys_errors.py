"""What NumPy refuses is refused here, with an error of the same type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable

REFUSED: dict[str, Callable[[Any], Any]] = {
    "reduce of nothing, an empty result": lambda xp: xp.maximum.reduce(xp.zeros((0, 0)), axis=0),
    "reduce of nothing without a start": lambda xp: xp.add.reduce(xp.zeros(0), initial=None),
    "divide.reduce of nothing": lambda xp: xp.divide.reduce(xp.zeros((0, 0, 5)), axis=1),
    "a float in a slice and as an index": lambda xp: xp.zeros((2, 3))[0.0:, 0.0],
    "reshape to a bool": lambda xp: xp.reshape(xp.zeros((2, 3)), (True, -1)),
    "method reshape to a bool": lambda xp: xp.zeros((2, 3)).reshape(True, 6),
    "zeros with a bool": lambda xp: xp.zeros((True, 2)),
    "method sort of an unknown kind": lambda xp: xp.ones(3).sort(kind="ä"),
    "sort of a kind that is no text": lambda xp: xp.sort(xp.ones(3), kind=1),
    "partition of a kind that is no text": lambda xp: xp.partition(xp.ones(3), 1, kind=1),
    "can_cast to None": lambda xp: xp.can_cast("i4", None),
    "correlate in mode None": lambda xp: xp.correlate(xp.ones(3), xp.ones(2), mode=None),
    "convolve in mode 5": lambda xp: xp.convolve(xp.ones(3), xp.ones(2), mode=5),
    "tensordot over one axis twice": lambda xp: xp.tensordot(
        xp.ones((2, 2)), xp.ones((2, 2)), axes=([0, 0], [0, 1])
    ),
    "astype of a list": lambda xp: xp.astype([1, 2], float),
    "hstack of a generator": lambda xp: xp.hstack(xp.ones(2) for _ in range(2)),
    "stack of a generator": lambda xp: xp.stack(xp.ones(2) for _ in range(2)),
    "concatenate of a generator": lambda xp: xp.concatenate(xp.ones(2) for _ in range(2)),
    "sig and signature": lambda xp: xp.add(1, 2, sig="ii->i", signature="ii->i"),
    "a signature of one operand": lambda xp: xp.add(xp.ones(3), 1, sig="i", casting="unsafe"),
    "a signature that is a number": lambda xp: xp.add(1, 2, signature=123.0),
    "out=... by position": lambda xp: xp.add(1, 2, ...),
    "vecdot of a scalar": lambda xp: xp.vecdot(xp.ones((2, 3)), xp.asarray(3)),
    "outer with too many axes": lambda xp: xp.add.outer(xp.ones((1,) * 33), xp.ones((1,) * 33)),
    "einsum with a label too high": lambda xp: xp.einsum(xp.ones((2, 2)), [0, 52]),
    "einsum with a path that stops early": lambda xp: xp.einsum(
        "ij,jk,kl", *[xp.ones((2, 2))] * 3, optimize=["einsum_path", (0, 1)]
    ),
    "einsum with a path of no name": lambda xp: xp.einsum("i,i,i", [1], [1], [1], optimize="foo"),
    "array with copy as text": lambda xp: xp.array([1, 2], copy="always"),
    "array with too many axes allowed": lambda xp: xp.array([1, 2], ndmax=65),
    "flat with a new axis": lambda xp: xp.ones((3, 3)).flat[None],
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_numpy_refuses_is_refused(call: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception, match=r".") as theirs:
        call(np)
    with pytest.raises(theirs.type, match=r"."):
        call(it)


ALLOWED: dict[str, Callable[[Any], Any]] = {
    "einsum into a narrower out": lambda xp: xp.einsum(
        "ij->j", xp.ones((2, 3)), out=xp.zeros(3, "i1"), dtype="f8", casting="unsafe"
    ),
    "convolve in mode 2": lambda xp: xp.convolve(xp.arange(3.0), xp.ones(2), mode=2),
    "conjugate into out": lambda xp: xp.arange(3.0).conjugate(xp.zeros(3)),
    "isclose of a weak integer": lambda xp: xp.isclose(
        xp.asarray(1, dtype=xp.float32), 2, atol=0, rtol=(1 - 2.2e-16) / 2
    ),
    "equal flags": lambda xp: xp.asarray(xp.ones((2, 3)).flags == xp.zeros((4, 3)).flags),
    "flags of a view": lambda xp: xp.asarray(xp.ones((2, 3)).flags == xp.ones((3, 2)).T.flags),
}


@pytest.mark.filterwarnings("ignore:.*mode:DeprecationWarning")
@pytest.mark.parametrize("call", ALLOWED.values(), ids=ALLOWED)
def test_what_numpy_allows_is_allowed(call: Callable[[Any], Any]) -> None:
    ours, theirs = call(it), call(np)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_an_array_of_numpys_is_clipped_by_a_tensor() -> None:
    found = np.arange(5.0).clip(it.full(5, 1.0), it.full(5, 3.0))
    assert isinstance(found, it.Tensor)
    assert found.tolist() == [1, 1, 2, 3, 3]


def test_resolve_dtypes_of_a_ufunc_are_numpys() -> None:
    given = (np.dtype("i4"), float, None)
    assert it.add.resolve_dtypes(given) == np.add.resolve_dtypes(given)
