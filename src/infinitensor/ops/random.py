"""Random numbers that depend on the seed and the element's index, never on tiles or devices.

Element i of a tensor is a hash of (seed, i): two rounds of SplitMix64's mixer over a Weyl sequence.
All arithmetic wraps in int64, which gives the same bits in NumPy and torch.
"""

from __future__ import annotations

import operator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import as_dtype
from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.creation import creation_form, shape_of
from infinitensor.ops.registry import op, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At


def _signed(n: int) -> int:
    """The int64 with the low 64 bits of n."""
    n &= 2**64 - 1
    return n - 2**64 if n >= 2**63 else n


_WEYL = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


def _mixed(n: int) -> int:
    """SplitMix64's finaliser on a Python int."""
    n &= 2**64 - 1
    n = ((n ^ (n >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    n = ((n ^ (n >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return n ^ (n >> 31)


def _mix(z: Any) -> Any:
    """The same on an int64 array, in place."""
    if isinstance(z, np.ndarray):
        words = z.view(np.uint64)
        shifted = np.empty_like(words)
        for shift, factor in ((30, _FIRST), (27, _SECOND), (31, None)):
            np.right_shift(words, np.uint64(shift), out=shifted)
            words ^= shifted
            if factor is not None:
                z *= factor
        return z
    # torch shifts int64 only, and arithmetically: a mask makes the shift logical.
    for shift, factor in ((30, _FIRST), (27, _SECOND), (31, None)):
        z ^= (z >> shift) & (2 ** (64 - shift) - 1)
        if factor is not None:
            z *= factor
    return z


def _flat_index(xp: Any, out: Any, at: At, shape: tuple[int, ...]) -> Any:
    """The C-order index in the whole tensor of each element of the tile."""
    box = at.outputs[0]
    if xp is np:
        index = np.zeros(tuple(hi - lo for lo, hi in box), np.int64)
    else:
        index = xp.zeros(tuple(hi - lo for lo, hi in box), dtype=xp.int64, device=out.device)
    for axis, (lo, hi) in enumerate(box):
        stride = prod(shape[axis + 1 :])
        along = np.arange(lo, hi) if xp is np else xp.arange(lo, hi, device=out.device)
        index += (along * stride).reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return index


def _bits(xp: Any, seed: Any, out: Any, at: At, shape: tuple[int, ...], stream: int = 0) -> Any:
    """64 random bits for each element of the tile, as int64."""
    key = _mixed(int(seed) + (stream + 1) * 0xD1B54A32D192ED03)
    z = _flat_index(xp, out, at, shape)
    z *= _WEYL
    z += _signed(key)
    _mix(z)
    z += _signed(_mixed(key))
    return _mix(z)


def _unit(xp: Any, bits: Any, n_bits: int) -> Any:
    """n_bits of each word as a fraction in [0, 1)."""
    top = (bits >> (64 - n_bits)) & (2**n_bits - 1)
    wide = np.asarray(top, np.float64) if xp is np else top.to(xp.float64)
    wide *= 2.0**-n_bits
    return wide


def _scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """The words, a shifted copy, the fractions, and what the last step makes."""
    return 6 * 8 * outs[0].n_elements + 16 * sum(outs[0].shape)


_ENTRY: dict[str, Any] = {"random": True, "scratch_bytes": _scratch, "same": "close"}


def _random_form(shape: Any, n_scalars: int) -> tuple[Any, tuple[int, ...]]:
    sizes = shape_of(shape)
    return creation_form(sizes, n_scalars), sizes


def _bits_kernel(xp: Any, seed: Any, out: Any, at: At, shape: tuple[int, ...]) -> None:
    out[...] = _bits(xp, seed, out, at, shape)


@op("_random_bits", "creation", "seed", kernel=_bits_kernel, **_ENTRY)
def _random_bits(seed: Spec, shape: Any) -> Call:
    """64 random bits an element, as int64."""
    form, sizes = _random_form(shape, 1)
    return call(form, Spec(sizes, np.dtype(np.int64)), shape=sizes)


def _uniform_kernel(
    xp: Any, seed: Any, low: Any, high: Any, out: Any, at: At, shape: tuple[int, ...], n_bits: int
) -> None:
    unit = _unit(xp, _bits(xp, seed, out, at, shape), n_bits)
    unit *= float(high) - float(low)
    unit += float(low)
    out[...] = unit


_FLOAT_BITS = {"float16": 11, "float32": 24, "float64": 53}


def _float_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    kind = as_dtype(dtype)
    if kind.name not in _FLOAT_BITS:
        raise TypeError(f"{name}: Unsupported dtype {kind}; it makes float16, float32 and float64")
    return kind


@op("_random_uniform", "creation", "seed low high", kernel=_uniform_kernel, **_ENTRY)
def _random_uniform(seed: Spec, low: Spec, high: Spec, shape: Any, dtype: Any = np.float64) -> Call:
    """low + (high - low) * u, u uniform in [0, 1)."""
    form, sizes = _random_form(shape, 3)
    kind = _float_dtype("random.uniform", dtype)
    return call(form, Spec(sizes, kind), shape=sizes, n_bits=_FLOAT_BITS[kind.name])


def _normal_kernel(
    xp: Any, seed: Any, loc: Any, scale: Any, out: Any, at: At, shape: tuple[int, ...]
) -> None:
    """By the inverse distribution function; 52 bits and a half keep the argument inside (0, 1)."""
    unit = _unit(xp, _bits(xp, seed, out, at, shape), 52)
    unit += 2.0**-53
    if xp is np:
        from scipy.special import ndtri

        ndtri(unit, out=unit)
    else:
        unit = xp.special.ndtri(unit)
    unit *= float(scale)
    unit += float(loc)
    out[...] = unit


@op("_random_normal", "creation", "seed loc scale", kernel=_normal_kernel, cost=40.0, **_ENTRY)
def _random_normal(seed: Spec, loc: Spec, scale: Spec, shape: Any, dtype: Any = np.float64) -> Call:
    """Normally distributed values with this mean and deviation."""
    form, sizes = _random_form(shape, 3)
    return call(form, Spec(sizes, _float_dtype("random.normal", dtype)), shape=sizes)


def _high_product(a: Any, n: int) -> tuple[Any, Any]:
    """(high, low) words of the unsigned 128-bit product of an int64 array and n < 2**64."""
    low32 = 2**32 - 1
    a_low, a_high = a & low32, (a >> 32) & low32
    n_low, n_high = n & low32, n >> 32
    cross = a_low * n_high
    carry = ((a_low * n_low) >> 32) & low32
    middle = (cross & low32) + ((a_high * n_low) & low32) + carry
    high = a_high * n_high + ((cross >> 32) & low32) + (((a_high * n_low) >> 32) & low32)
    return high + (middle >> 32), a * _signed(n)


def _integers_kernel(
    xp: Any, seed: Any, low: Any, span: Any, out: Any, at: At, shape: tuple[int, ...]
) -> None:
    """low + floor(span * u) with a 128-bit fraction u, so that no range is biased visibly."""
    n = int(span) & (2**64 - 1)
    word = _bits(xp, seed, out, at, shape)
    if n:  # 0 stands for 2**64
        word, low_word = _high_product(word, n)
        extra, _ = _high_product(_bits(xp, seed, out, at, shape, stream=1), n)
        flip = -(2**63)
        word += ((low_word + extra) ^ flip) < (extra ^ flip)
    word += _signed(int(low))
    out[...] = word if xp is not np else word.astype(out.dtype)


def _integers_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return 14 * 8 * outs[0].n_elements + 16 * sum(outs[0].shape)


@op(
    "_random_integers",
    "creation",
    "seed low span",
    kernel=_integers_kernel,
    random=True,
    scratch_bytes=_integers_scratch,
    cost=10.0,
)
def _random_integers(seed: Spec, low: Spec, span: Spec, shape: Any, dtype: Any = np.int64) -> Call:
    """Integers from low to low + span - 1; both as int64 words, a span of 0 means 2**64."""
    form, sizes = _random_form(shape, 3)
    return call(form, Spec(sizes, as_dtype(dtype)), shape=sizes)


# --- public functions -------------------------------------------------------------------------


def _size(size: Any, *parameters: Any) -> tuple[int, ...]:
    shape = np.broadcast_shapes(*(np.shape(p) for p in parameters)) if parameters else ()
    if size is None:
        return shape
    sizes = shape_of(size)
    if np.broadcast_shapes(sizes, shape) != sizes:
        raise ValueError(f"Output size {sizes} is not compatible with broadcast dimensions {shape}")
    return sizes


def _is_scalar(*values: Any) -> bool:
    return all(np.ndim(v) == 0 for v in values)


@program("random.uniform", "")
def uniform(
    xp: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None, *, dtype: Any = np.float64
) -> Any:
    """Numbers spread evenly over [low, high); each depends on seed, call and index alone.

    >>> import infinitensor as it
    >>> it.random.uniform(size=(2, 3)).shape
    (2, 3)
    """
    shape = _size(size, low, high)
    if _is_scalar(low, high):
        return xp._random_uniform(xp.next_seed(), low, high, shape, dtype)
    return low + (high - low) * xp._random_uniform(xp.next_seed(), 0.0, 1.0, shape, dtype)


@program("random.random", "")
def random(xp: Any, size: Any = None, dtype: Any = np.float64) -> Any:
    """Numbers spread evenly over [0, 1).

    >>> import infinitensor as it
    >>> it.random.random(3).shape
    (3,)
    """
    return xp._random_uniform(xp.next_seed(), 0.0, 1.0, _size(size), dtype)


@program("random.normal", "")
def normal(
    xp: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, *, dtype: Any = np.float64
) -> Any:
    """Normally distributed numbers with mean `loc` and deviation `scale`.

    >>> import infinitensor as it
    >>> it.random.normal(size=4).shape
    (4,)
    """
    shape = _size(size, loc, scale)
    if isinstance(scale, int | float) and scale < 0:
        raise ValueError("scale < 0")
    if _is_scalar(loc, scale):
        return xp._random_normal(xp.next_seed(), loc, scale, shape, dtype)
    return loc + scale * xp._random_normal(xp.next_seed(), 0.0, 1.0, shape, dtype)


@program("random.standard_normal", "")
def standard_normal(xp: Any, size: Any = None, dtype: Any = np.float64) -> Any:
    """Normally distributed numbers with mean 0 and deviation 1.

    >>> import infinitensor as it
    >>> it.random.standard_normal(4).shape
    (4,)
    """
    return xp._random_normal(xp.next_seed(), 0.0, 1.0, _size(size), dtype)


@program("random.integers", "")
def integers(
    xp: Any,
    low: int,
    high: int | None = None,
    size: Any = None,
    dtype: Any = np.int64,
    endpoint: bool = False,
) -> Any:
    """Integers from low up to high (included where `endpoint`), each equally likely.

    >>> import infinitensor as it
    >>> it.random.integers(5, size=3).dtype
    dtype('int64')
    """
    first, last = (
        (0, operator.index(low)) if high is None else (operator.index(low), operator.index(high))
    )
    last = last if endpoint else last - 1
    kind = as_dtype(dtype)
    if kind.kind not in "iub":
        raise TypeError(f"Unsupported dtype {kind} for integers")
    lowest, highest = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    if first < lowest:
        raise ValueError(f"low is out of bounds for {kind}")
    if last > highest:
        raise ValueError(f"high is out of bounds for {kind}")
    if first > last:
        raise ValueError("low > high" if endpoint else "low >= high")
    span = np.int64(_signed(last - first + 1))
    return xp._random_integers(xp.next_seed(), np.int64(_signed(first)), span, _size(size), kind)


@program("random.permutation", "")
def permutation(xp: Any, x: Any, axis: int = 0) -> Any:
    """0 ... x-1 in random order, or a copy of x with its slices along an axis in random order.

    Sorts one 64-bit key for each index.

    >>> import infinitensor as it
    >>> sorted(it.random.permutation(4).numpy().tolist())
    [0, 1, 2, 3]
    """
    rows = None if _is_scalar(x) else xp.asarray(x)
    n = operator.index(x) if rows is None else rows.shape[axis]
    order = xp.argsort(xp._random_bits(xp.next_seed(), (n,)))
    return order if rows is None else xp.take(rows, order, axis=axis)
