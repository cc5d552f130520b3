"""Random numbers that depend on the seed and the element's index, never on tiles or devices.

Element i of a tensor is a hash of (seed, i): two rounds of SplitMix64's mixer over a Weyl sequence.
All arithmetic wraps in int64, which gives the same bits in NumPy, torch and C (`counter_rng.c`).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import as_dtype
from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.create.creation import creation_form, shape_of
from infinitensor.ops.table.registry import broadcast_form, op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At


def signed(n: int) -> int:
    """The int64 with the low 64 bits of n."""
    n &= 2**64 - 1
    return n - 2**64 if n >= 2**63 else n


_WEYL = signed(0x9E3779B97F4A7C15)
_FIRST = signed(0xBF58476D1CE4E5B9)
_SECOND = signed(0x94D049BB133111EB)


def _mix_bits(n: int) -> int:
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


def flat_index(xp: Any, out: Any, at: At, shape: tuple[int, ...]) -> Any:
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


def fill_in_c(xp: Any, name: str, out: Any, at: At, shape: tuple[int, ...], *args: Any) -> bool:
    """Whether a loop in C made the tile: line by line of elements that are neighbours in the whole.

    `args` begin with the seed; what follows it is given behind the first index and the length.
    """
    fill = loop("counter_rng", name, out.dtype) if xp is np and out.flags.c_contiguous else None
    if fill is None or not out.size:
        return False
    seed, *rest = args
    box = at.outputs[0]
    first = len(shape)  # of the axes that are contiguous: whole ones, and the one before them
    while first and prod(out.shape[first:]) == prod(shape[first:]):
        first -= 1
    borders = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    start = sum(lo * border for (lo, _), border in zip(box, borders, strict=True))
    lines = out.reshape(*out.shape[:first], -1)
    for lead in np.ndindex(lines.shape[:-1]):
        line = lines[lead]
        at_first = start + sum(i * border for i, border in zip(lead, borders, strict=False))
        fill(signed(int(seed)), at_first, line.size, *rest, line)
    return True


def words(seed: Any, index: Any, stream: int) -> Any:
    """64 random bits for each index, as int64; the index array is used up."""
    key = _mix_bits(int(seed) + (stream + 1) * 0xD1B54A32D192ED03)
    index *= _WEYL
    index += signed(key)
    _mix(index)
    index += signed(_mix_bits(key))
    return _mix(index)


def _bits(xp: Any, seed: Any, out: Any, at: At, shape: tuple[int, ...], stream: int = 0) -> Any:
    """64 random bits for each element of the tile, as int64."""
    return words(seed, flat_index(xp, out, at, shape), stream)


def open_unit(xp: Any, bits: Any) -> Any:
    """Each word as a fraction in (0, 1): 52 bits and a half keep it off both ends."""
    unit = _unit(xp, bits, 52)
    unit += 2.0**-53
    return unit


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


@op("creation", kernel=_bits_kernel, **_ENTRY)
def _random_bits(seed: Spec, shape: Any) -> Call:
    """64 random bits an element, as int64."""
    form, sizes = _random_form(shape, 1)
    return call(form, Spec(sizes, np.dtype(np.int64)), shape=sizes)


def _uniform_kernel(
    xp: Any, seed: Any, low: Any, high: Any, out: Any, at: At, shape: tuple[int, ...], n_bits: int
) -> None:
    span = float(high) - float(low)
    if fill_in_c(xp, "uniform", out, at, shape, seed, n_bits, span, float(low)):
        return
    unit = _unit(xp, _bits(xp, seed, out, at, shape), n_bits)
    unit *= span
    unit += float(low)
    out[...] = unit


_FLOAT_BITS = {"float16": 11, "float32": 24, "float64": 53}


def float_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    kind = as_dtype(dtype)
    if kind.name not in _FLOAT_BITS:
        raise TypeError(f"{name}: Unsupported dtype {kind}; it makes float16, float32 and float64")
    return kind


@op("creation", kernel=_uniform_kernel, **_ENTRY)
def _random_uniform(seed: Spec, low: Spec, high: Spec, shape: Any, dtype: Any = np.float64) -> Call:
    """low + (high - low) * u, u uniform in [0, 1)."""
    form, sizes = _random_form(shape, 3)
    kind = float_dtype("random.uniform", dtype)
    return call(form, Spec(sizes, kind), shape=sizes, n_bits=_FLOAT_BITS[kind.name])


def _open_kernel(xp: Any, seed: Any, out: Any, at: At, shape: tuple[int, ...]) -> None:
    if not fill_in_c(xp, "fractions", out, at, shape, seed):
        out[...] = open_unit(xp, _bits(xp, seed, out, at, shape))


@op("creation", kernel=_open_kernel, **_ENTRY)
def _random_open(seed: Spec, shape: Any) -> Call:
    """Uniform in (0, 1), neither end included: what inverse distribution functions take."""
    form, sizes = _random_form(shape, 1)
    return call(form, Spec(sizes, np.dtype(np.float64)), shape=sizes)


def _normal_kernel(
    xp: Any, seed: Any, loc: Any, scale: Any, out: Any, at: At, shape: tuple[int, ...]
) -> None:
    """By the inverse distribution function."""
    if fill_in_c(xp, "normal", out, at, shape, seed, float(scale), float(loc)):
        return
    unit = open_unit(xp, _bits(xp, seed, out, at, shape))
    if xp is np:
        from scipy.special import ndtri

        ndtri(unit, out=unit)
    else:
        unit = xp.special.ndtri(unit)
    unit *= float(scale)
    unit += float(loc)
    out[...] = unit


@op("creation", kernel=_normal_kernel, cost=40.0, **_ENTRY)
def _random_normal(seed: Spec, loc: Spec, scale: Spec, shape: Any, dtype: Any = np.float64) -> Call:
    """Normally distributed values with this mean and deviation."""
    form, sizes = _random_form(shape, 3)
    return call(form, Spec(sizes, float_dtype("random.normal", dtype)), shape=sizes)


def _high_product(a: Any, n: Any) -> tuple[Any, Any]:
    """(high, low) words of the unsigned 128-bit product of two int64 arrays; n may be a scalar."""
    low32 = 2**32 - 1
    a_low, a_high = a & low32, (a >> 32) & low32
    n_low, n_high = n & low32, (n >> 32) & low32
    cross = a_low * n_high
    carry = ((a_low * n_low) >> 32) & low32
    middle = (cross & low32) + ((a_high * n_low) & low32) + carry
    high = a_high * n_high + ((cross >> 32) & low32) + (((a_high * n_low) >> 32) & low32)
    return high + (middle >> 32), a * n


def _integers_kernel(
    xp: Any, seed: Any, low: Any, span: Any, out: Any, at: At, shape: tuple[int, ...]
) -> None:
    """low + floor(span * u), u a fraction of 64 bits, or of 128 where the range is that long."""
    low, span = (int(x) if np.ndim(x) == 0 else x for x in (low, span))
    plain = np.ndim(low) == np.ndim(span) == 0 and 0 < span <= 2**32
    if plain and fill_in_c(xp, "integers", out, at, shape, seed, span, signed(low)):
        return
    bits = _bits(xp, seed, out, at, shape)
    word, low_word = _high_product(bits, span)
    if np.ndim(span) or not 0 < span <= 2**32:
        extra, _ = _high_product(_bits(xp, seed, out, at, shape, stream=1), span)
        flip = -(2**63)
        word += ((low_word + extra) ^ flip) < (extra ^ flip)
        word = xp.where(span == 0, bits, word) if np.ndim(span) else word if span else bits
    word += low
    out[...] = word if xp is not np else word.astype(out.dtype)


def _integers_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return 17 * 8 * outs[0].n_elements + 16 * sum(outs[0].shape)


@op("creation", kernel=_integers_kernel, random=True, scratch_bytes=_integers_scratch, cost=10.0)
def _random_integers(seed: Spec, low: Spec, span: Spec, shape: Any, dtype: Any = np.int64) -> Call:
    """Integers from low to low + span - 1; both as int64 words, a span of 0 means 2**64."""
    sizes = shape_of(shape)
    form = broadcast_form((seed, low, span), sizes)
    return call(form, Spec(sizes, as_dtype(dtype)), shape=sizes)
