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
    "flat indices of a shape too large": lambda xp: xp.ravel_multi_index((1, 2), (1 << 40,) * 2),
    "flat indices of an empty shape": lambda xp: xp.ravel_multi_index([[0], [0]], (0, 3), "wrap"),
    "indices of a shape too large": lambda xp: xp.unravel_index(1 << 62, (1 << 40, 1 << 40)),
    "several indices of no axes": lambda xp: xp.unravel_index([0], ()),
    "a sorter of floats": lambda xp: xp.searchsorted(xp.arange(3), 1, sorter=xp.asarray([0.0, 1])),
    "bincount of no floats": lambda xp: xp.bincount(xp.zeros(0)),
    "polyval of a number": lambda xp: xp.polyval(xp.asarray(3), xp.ones(2)),
    "einsum without dots in the result": lambda xp: xp.einsum("i...->i", xp.ones((3, 2))),
    "both orders required": lambda xp: xp.require(xp.ones((3, 3)), requirements=["C", "F"]),
    "reshape to no shape": lambda xp: xp.ones(1).reshape(),
    "compress by nothing": lambda xp: xp.compress(None, xp.ones(3)),
    "nanmean into integers": lambda xp: xp.nanmean(xp.ones(3), out=xp.zeros((), int)),
    "nanvar into integers": lambda xp: xp.nanvar(xp.ones((3, 2)), axis=0, out=xp.zeros(2, int)),
    "a signature of bytes without an arrow": lambda xp: xp.add(3, 4, signature=b"ii-i"),
    "reshape with copy as text": lambda xp: xp.reshape(xp.ones(3), (3, 1), copy="x"),
    "reshape to too many axes": lambda xp: xp.ones((1,) * 64).reshape((1,) * 65),
    "repeat by unsigned counts": lambda xp: xp.repeat(xp.arange(3), xp.asarray(2, dtype="u8")),
    "digitize into complex bins": lambda xp: xp.digitize([1, 2], [1j, 2]),
    "one out for two outputs": lambda xp: xp.frexp(xp.ones(3), out=xp.ones(3)),
    "... in a tuple of outs": lambda xp: xp.negative(1, out=(...,)),
    "a signature of no dtypes": lambda xp: xp.add(3, 4, signature="%^->#"),
    "a signature too short": lambda xp: xp.add(3, 4, signature=(None, "f8")),
    "__array_ufunc__ without a ufunc": lambda xp: xp.ones(3).__array_ufunc__(1, 2),
    "method sort over no axis": lambda xp: xp.ones((2, 3)).sort(axis=None),
    "method partition over no axis": lambda xp: xp.ones((2, 3)).partition(2, axis=None),
    "fft into another shape": lambda xp: xp.fft.fft(xp.ones(4), out=xp.zeros(5)),
    "fft into a text": lambda xp: xp.fft.fft(xp.ones(4), out=""),
    "delete at no floats": lambda xp: xp.delete(xp.arange(3), xp.zeros(0)),
    "insert at floats": lambda xp: xp.insert(xp.arange(3), xp.asarray([1.0, 2.0]), [10, 20]),
    "nan_to_num of more numbers": lambda xp: xp.nan_to_num(xp.ones(2), nan=xp.zeros((2, 2))),
    "put_along_axis by too few axes": lambda xp: xp.put_along_axis(
        xp.zeros((3, 3), dtype="u1"), xp.arange(3), -99, axis=1
    ),
    "packbits without an order": lambda xp: xp.packbits(xp.asarray([1, 0]), bitorder=None),
}

UNCASTABLE: dict[str, Callable[[Any], Any]] = {
    "fft into floats": lambda xp: xp.fft.fft(xp.ones(4), out=xp.zeros(4)),
    "cov in integers": lambda xp: xp.cov(xp.ones((2, 3)), dtype=xp.int64),
    "polyfit with complex weights": lambda xp: xp.polyfit(
        xp.arange(5), xp.arange(5), 1, w=xp.ones(5) * 1j
    ),
}


@pytest.mark.parametrize("call", UNCASTABLE.values(), ids=UNCASTABLE)
@pytest.mark.parametrize("library", [np, it], ids=["numpy", "infinitensor"])
def test_what_numpy_cannot_cast_is_a_type_error(call: Callable[[Any], Any], library: Any) -> None:
    with pytest.raises(TypeError, match=r"[Cc]ast|subtracted|complex"):
        call(library)


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
    "vecdot with axes kept": lambda xp: xp.vecdot(
        xp.ones((2, 3, 4)), xp.ones((3, 4, 2)), axes=[0, 2], keepdims=True
    ),
    "interp with NaN among the points": lambda xp: xp.interp(0.5, [xp.nan, 1], [0, 10]),
    "piecewise of a number": lambda xp: xp.piecewise(xp.asarray(3), xp.asarray(3) > 3, [4, 0]),
    "ix_ of no floats": lambda xp: xp.ix_(xp.zeros(0, dtype="f4"))[0],
    "roll by a number in a text": lambda xp: xp.roll(xp.arange(3), "1"),
    "equal shapes are broadcast as they are": lambda xp: xp.asarray(
        xp.broadcast_arrays(xp.ones(3), xp.ones(3))[0].flags.writeable
    ),
    "nan_to_num with an array": lambda xp: xp.nan_to_num(
        xp.asarray([xp.nan, 1.0]), nan=xp.asarray([5.0, 2.0])
    ),
    "take nothing": lambda xp: xp.take(xp.arange(3), []),
    "take by floats in a list": lambda xp: xp.take(xp.arange(3), [1.0]),
    "repeat by floats in a list": lambda xp: xp.repeat(xp.arange(3), [1.0, 2.0, 0.0]),
    "flat indices in order None": lambda xp: xp.ravel_multi_index(
        (xp.asarray([1]), xp.asarray([1])), (2, 3), order=None
    ),
    "a percentile into an out of one": lambda xp: xp.percentile(
        xp.arange(8.0), 50, out=xp.zeros(1)
    ),
    "percentiles in C order": lambda xp: xp.asarray(
        xp.percentile(xp.arange(24.0).reshape(2, 3, 4), [10, 20], axis=-1).flags.c_contiguous
    ),
    "one real part has no gaps": lambda xp: xp.asarray(xp.asarray(1j).real.flags.c_contiguous),
    "ravel of a broadcast in order K": lambda xp: xp.broadcast_to(
        xp.arange(2).reshape(2, 1), (3, 2, 4)
    ).ravel("K"),
    "ravel of a transposed broadcast in order K": lambda xp: xp.broadcast_to(
        xp.asarray(xp.arange(6).reshape(2, 1, 3), order="F"), (2, 4, 3)
    ).ravel("K"),
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


@pytest.mark.parametrize("xp", [np, it], ids=["numpy", "infinitensor"])
def test_copyto_says_which_shapes_do_not_fit(xp: Any) -> None:
    with pytest.raises(ValueError, match=r"could not broadcast input array from shape \(2,5\)"):
        xp.copyto(xp.zeros((3, 4)), xp.ones((2, 5)))


def test_copyto_takes_axes_of_length_one_in_front() -> None:
    x = it.zeros((3, 2))
    it.copyto(x, it.ones((1, 1, 3, 2)))
    assert float(x.sum()) == 6


@pytest.mark.parametrize("xp", [np, it], ids=["numpy", "infinitensor"])
def test_flat_is_an_iterator_that_an_index_starts_again(xp: Any) -> None:
    x = xp.arange(4).reshape(2, 2)
    flat = x.flat
    assert iter(flat) is flat
    assert flat.base is x
    assert [int(next(flat)), flat.index, flat.coords] == [0, 1, (0, 1)]
    assert [int(one) for one in flat] == [1, 2, 3]
    assert list(flat) == []
    assert int(flat[2]) == 2
    assert [int(one) for one in flat] == [0, 1, 2, 3]
    assert flat.copy().tolist() == [0, 1, 2, 3]


def test_at_changes_an_array_of_numpys() -> None:
    x = np.zeros(3)
    it.add.at(x, [0, 2, 0], 1)
    assert x.tolist() == [2, 0, 1]
