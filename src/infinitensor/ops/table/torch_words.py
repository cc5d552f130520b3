"""The words of the scalar vocabulary on torch tensors, with NumPy's results.

torch has no arithmetic for uint16/32/64, leaves integer division by zero and wide shifts undefined
and does not order complex numbers; the functions here make up for that. Each is called as
`word(*tensors, out=None)`; what torch cannot write into `out` is copied. `native`, `wrapping` and
others that take a name make such a function of the torch function of that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from infinitensor.lazy_torch import torch

if TYPE_CHECKING:
    from collections.abc import Callable

Eager: TypeAlias = "Callable[..., Any]"


def _put(result: Any, out: Any) -> Any:
    return result if out is None else out.copy_(result)


def _is_wide(x: Any) -> bool:
    """Whether torch stores but does not compute this dtype."""
    return x.dtype in (torch.uint16, torch.uint32, torch.uint64)


def _ring(x: Any) -> Any:
    """An int64 tensor with the same low bits: enough for sums, products and bit operations."""
    return x.view(torch.int64) if x.dtype == torch.uint64 else x.to(torch.int64)


def _flip(x: Any) -> Any:
    """A uint64's bits with the top one flipped: signed order is then the unsigned order."""
    return _ring(x) ^ -(2**63)


def _is_integer(x: Any) -> bool:
    return not x.dtype.is_floating_point and not x.dtype.is_complex


def _together(*args: Any) -> tuple[Any, ...]:
    """All on one device: scalars come as CPU tensors, which only 0-d ones may stay."""
    device = next((x.device for x in args if x.device.type != "cpu"), args[0].device)
    return tuple(x.to(device) for x in args)


def _select(condition: Any, x: Any, y: Any, out: Any = None) -> Any:
    """torch.where, which CUDA lacks for wide unsigned integers: signed ones have the same bits."""
    if not _is_wide(x):
        return torch.where(condition, x, y, out=out)
    signed = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.dtype.itemsize]
    made = torch.where(condition, x.view(signed), y.view(signed))
    return _put(made.view(x.dtype), out)


def native(name: str) -> Eager:
    """torch's function of this name, which takes `out`."""

    def word(*args: Any, out: Any = None) -> Any:
        return getattr(torch, name)(*args, out=out)

    return word


def without_out(name: str) -> Eager:
    """As `native`, for the few that take no `out`."""

    def word(x: Any, out: Any = None) -> Any:
        return _put(getattr(torch, name)(x), out)

    return word


def wrapping(name: str) -> Eager:
    """A sum, product or bit operation: of wide unsigned integers by way of int64."""

    def word(*args: Any, out: Any = None) -> Any:
        fn = getattr(torch, name)
        if not _is_wide(args[0]):
            return fn(*args, out=out)
        result = fn(*(_ring(x) for x in args))
        return result.to(args[0].dtype) if out is None else out.copy_(result)

    return word


def summing(name: str) -> Eager:
    """add and subtract: torch scales a complex operand by 1, which turns inf into inf + nan j."""
    plain = wrapping(name)

    def word(a: Any, b: Any, out: Any = None) -> Any:
        if not a.dtype.is_complex:
            return plain(a, b, out=out)
        made = getattr(torch, name)(
            *(torch.view_as_real(x.resolve_conj()) for x in _together(a, b))
        )
        return _put(torch.view_as_complex(made), out)

    return word


def rounding(name: str) -> Eager:
    """Rounding: integers and booleans are round already."""

    def word(x: Any, out: Any = None) -> Any:
        return _put(x, out) if _is_integer(x) else getattr(torch, name)(x, out=out)

    return word


def _would_wrap(a: Any, b: Any) -> bool:
    """Whether torch would compare wrongly: it wraps a 0-d operand into the other's dtype."""
    return _is_wide(a) or _is_wide(b) or a.dtype != b.dtype


def _less(a: Any, b: Any, or_equal: bool) -> Any:
    if a.dtype.is_complex:
        near = a.imag <= b.imag if or_equal else a.imag < b.imag
        known = ~(torch.isnan(a.imag) | torch.isnan(b.imag))
        return ((a.real < b.real) & known) | ((a.real == b.real) & near)
    if torch.uint64 in (a.dtype, b.dtype):
        sign_a, sign_b = _sign_key(a), _sign_key(b)
        fa, fb = _flip(a), _flip(b)
        return (sign_a < sign_b) | ((sign_a == sign_b) & (fa <= fb if or_equal else fa < fb))
    if _would_wrap(a, b):
        a, b = _ring(a), _ring(b)
    return a <= b if or_equal else a < b


def _sign_key(x: Any) -> Any:
    """-1 for negative integers, else 0; uint64 values have none that are negative."""
    if x.dtype == torch.uint64:
        return torch.zeros_like(x, dtype=torch.int64)
    return -(_ring(x) < 0).to(torch.int64)


def equal(a: Any, b: Any, out: Any = None) -> Any:
    if _would_wrap(a, b):
        return _put((_ring(a) == _ring(b)) & (_sign_key(a) == _sign_key(b)), out)
    return torch.eq(a, b, out=out)


def comparison(name: str, swap: bool, or_equal: bool) -> Eager:
    def word(a: Any, b: Any, out: Any = None) -> Any:
        if a.dtype.is_complex or _would_wrap(a, b):
            return _put(_less(b, a, or_equal) if swap else _less(a, b, or_equal), out)
        return getattr(torch, name)(a, b, out=out)

    return word


def not_equal(a: Any, b: Any, out: Any = None) -> Any:
    return _put(~equal(a, b), out)


def extreme(name: str, largest: bool, skip_nan: bool) -> Eager:
    def word(a: Any, b: Any, out: Any = None) -> Any:
        if not (a.dtype.is_complex or _is_wide(a)):
            return getattr(torch, name)(a, b, out=out)
        first = ~_less(a, b, or_equal=False) if largest else ~_less(b, a, or_equal=False)
        if a.dtype.is_complex:
            first = first & ~torch.isnan(b) | (torch.isnan(b) if skip_nan else torch.isnan(a))
            if skip_nan:
                first = first & ~(torch.isnan(a) & ~torch.isnan(b))
        return _select(first, a, b, out=out)

    return word


maximum = extreme("maximum", largest=True, skip_nan=False)
minimum = extreme("minimum", largest=False, skip_nan=False)


def _divide_unsigned(a: Any, b: Any) -> Any:
    """Quotient of uint64 bit patterns held as int64; `b` is not zero."""
    half = ((a >> 1) & (2**63 - 1)).div(b.clamp(min=1), rounding_mode="floor") << 1
    rest = a - half * b
    small = half + ((rest ^ -(2**63)) >= (b ^ -(2**63))).to(a.dtype)
    return torch.where(b < 0, ((a ^ -(2**63)) >= (b ^ -(2**63))).to(a.dtype), small)


def _quotient(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """(floor quotient, a, b) of integers in a dtype torch can compute; x // 0 is 0 as in NumPy."""
    unsigned64 = a.dtype == torch.uint64
    if _is_wide(a):
        a, b = _ring(a), _ring(b)
    zero = b == 0
    if unsigned64:
        quotient = _divide_unsigned(a, torch.where(zero, 1, b))
    elif a.dtype in (torch.uint8, torch.bool):
        quotient = torch.where(zero, 1, b)
        quotient = a.div(quotient, rounding_mode="floor")
    else:  # min // -1 traps on some machines and wraps in NumPy
        quotient = a.div(torch.where(zero | (b == -1), 1, b), rounding_mode="floor")
        quotient = torch.where(b == -1, -a, quotient)
    return torch.where(zero, 0, quotient), a, b


def floor_divide(a: Any, b: Any, out: Any = None) -> Any:
    if _is_integer(a):
        return _put(_quotient(a, b)[0], out)
    return torch.floor_divide(a, b, out=out)


def remainder(a: Any, b: Any, out: Any = None) -> Any:
    if _is_integer(a):
        quotient, a, b = _quotient(a, b)
        return _put(torch.where(b == 0, 0, a - quotient * b), out)
    return torch.remainder(a, b, out=out)


def fmod(a: Any, b: Any, out: Any = None) -> Any:
    if not _is_integer(a):
        return torch.fmod(a, b, out=out)
    rest = remainder(a, b)
    if a.dtype.is_signed:
        rest = torch.where((rest != 0) & ((a < 0) != (b < 0)), rest - b, rest)
    return _put(rest, out)


def power(a: Any, b: Any, out: Any = None) -> Any:
    if _is_integer(a):
        if b.dtype.is_signed and bool((b < 0).any()):
            raise ValueError("Integers to negative integer powers are not allowed.")
        if a.dtype == torch.uint64:  # the exponent is halved, so that it is not negative as int64
            x, half = _ring(a), (_ring(b) >> 1) & (2**63 - 1)
            root = torch.pow(x, half)
            return _put(root * root * torch.where((_ring(b) & 1) != 0, x, 1), out)
        if _is_wide(a):
            return _put(torch.pow(_ring(a), _ring(b)), out)
    return torch.pow(a, b, out=out) if not a.dtype.is_complex else _put(_complex_power(a, b), out)


def _complex_power(a: Any, b: Any) -> Any:
    """torch gives NaN for a base of 0; NumPy knows x**0 and 0**x."""
    result = torch.where((a == 0) & (b.real > 0) & (b.imag == 0), 0, torch.pow(a, b))
    return torch.where(b == 0, 1, torch.where(b == 1, a, result))


def shift(left: bool) -> Eager:
    def word(a: Any, b: Any, out: Any = None) -> Any:
        bits = 8 * a.dtype.itemsize
        unsigned64 = a.dtype == torch.uint64
        if _is_wide(a):
            a, b = _ring(a), _ring(b)
        far = (b < 0) | (b >= bits)
        near = torch.where(far, bits - 1, b)
        if left:
            return _put(torch.where(far, 0, a << near), out)
        if not unsigned64:
            beyond = torch.where(a < 0, -1, 0) if a.dtype.is_signed else 0
            return _put(torch.where(far, beyond, a >> near), out)
        logical = (a >> near) & ~((torch.full_like(a, -1) << (bits - 1 - near)) << 1)
        return _put(torch.where(far, 0, logical), out)

    return word


def logical(name: str) -> Eager:
    def word(*args: Any, out: Any = None) -> Any:
        return getattr(torch, name)(*(x != 0 for x in args), out=out)

    return word


def absolute(x: Any, out: Any = None) -> Any:
    return _put(x, out) if not x.dtype.is_signed else torch.abs(x, out=out)


def sign(x: Any, out: Any = None) -> Any:
    if not x.dtype.is_signed:
        return _put((x != 0).to(x.dtype), out)
    if x.dtype.is_complex:
        size = torch.abs(x)
        return _put(torch.where(torch.isfinite(size), torch.sgn(x), _sign_of_infinite(x)), out)
    return _put(torch.where(torch.isnan(x), x, torch.sign(x)), out)


def _sign_of_infinite(x: Any) -> Any:
    """NumPy: an infinite part alone counts; two of them, or a NaN, have no sign."""
    real, imag = torch.isinf(x.real), torch.isinf(x.imag)
    nan = torch.isnan(x.real) | torch.isnan(x.imag) | (real & imag)
    part = torch.complex(
        torch.where(real, torch.sign(x.real), 0.0).to(x.real.dtype),
        torch.where(imag, torch.sign(x.imag), 0.0).to(x.real.dtype),
    )
    return torch.where(nan, torch.full_like(x, complex("nan+nanj")), part)


def reciprocal(x: Any, out: Any = None) -> Any:
    if _is_integer(x):
        return _put((1.0 / x.to(torch.float64)).to(torch.int64), out)
    return torch.reciprocal(x, out=out)


def cbrt(x: Any, out: Any = None) -> Any:
    """A power and one Newton step: the power alone is off by several last places."""
    wide = x if x.dtype == torch.float64 else x.to(torch.float64)
    root = torch.copysign(torch.abs(wide) ** (1 / 3), wide)
    better = root - (root - wide / (root * root)) / 3
    return _put(torch.where(torch.isfinite(better) & (root != 0), better, root).to(x.dtype), out)


def nextafter(a: Any, b: Any, out: Any = None) -> Any:
    if a.dtype != torch.float16:
        return torch.nextafter(a, b, out=out)
    a, b = torch.broadcast_tensors(*_together(a, b))
    bits = a.contiguous().view(torch.int16)
    away = (b > a) == (a > 0)
    moved = torch.where(
        a == 0, torch.where(b > 0, 1, -32767), torch.where(away, bits + 1, bits - 1)
    )
    result = torch.where(a == b, b, moved.to(torch.int16).view(torch.float16))
    return _put(torch.where(torch.isnan(a) | torch.isnan(b), torch.nan, result), out)


def spacing(x: Any, out: Any = None) -> Any:
    """Away from zero, with the sign of x but not that of -0.0; in float16, as NumPy has it, up."""
    falls = (x < 0) & (x.dtype != torch.float16)
    step = nextafter(x, torch.where(falls, -torch.inf, torch.inf).to(x.dtype)) - x
    return _put(torch.where(torch.isinf(x), torch.nan, step), out)


def ldexp(x: Any, exponent: Any, out: Any = None) -> Any:
    """In four steps, each a power of two that float64 holds: more shifts everything out."""
    x, left = _together(x, exponent)
    found, left = x.to(torch.float64), left.clamp(-4000, 4000).to(torch.int64)
    for _ in range(4):
        step = left.clamp(-1000, 1000)
        found, left = found * torch.exp2(step.to(torch.float64)), left - step
    return _put(found.to(x.dtype), out)


def in_float32(name: str) -> Eager:
    """For functions torch lacks in float16 or bfloat16 on some devices."""

    def word(*args: Any, out: Any = None) -> Any:
        fn = getattr(torch, name)
        dtype = args[0].dtype
        if dtype not in (torch.float16, torch.bfloat16):
            return fn(*args, out=out)
        return _put(fn(*(x.to(torch.float32) for x in args)).to(dtype), out)

    return word


def _divisor(a: Any, b: Any) -> Any:
    """Euclid's algorithm for uint64, which torch.gcd lacks; integers of other dtypes as int64."""
    if a.dtype != torch.uint64:
        return torch.gcd(_ring(a), _ring(b)).abs()
    a, b = torch.broadcast_tensors(*_together(a, b))
    while bool((_ring(b) != 0).any()):
        rest = remainder(a, b).view(torch.uint64)
        done = _ring(b) == 0
        a, b = _select(done, a, b), _select(done, b, rest)
    return _ring(a)


def gcd(a: Any, b: Any, out: Any = None) -> Any:
    return _put(_divisor(a, b), out)


def lcm(a: Any, b: Any, out: Any = None) -> Any:
    divisor = _divisor(a, b)
    if a.dtype == torch.uint64:
        return _put(_ring(_quotient(a, divisor.view(torch.uint64))[0]) * _ring(b), out)
    size_a, size_b = _ring(a).abs(), _ring(b).abs()
    return _put(_quotient(size_a, divisor)[0] * size_b, out)


def heaviside(a: Any, b: Any, out: Any = None) -> Any:
    result = torch.where(a < 0, 0, torch.where(a > 0, 1, b))
    return _put(torch.where(torch.isnan(a), a, result), out)


def rint(x: Any, out: Any = None) -> Any:
    if not x.dtype.is_complex:
        return torch.round(x, out=out)
    return _put(torch.complex(torch.round(x.real), torch.round(x.imag)), out)


def log2(x: Any, out: Any = None) -> Any:
    """Complex: torch divides by a complex log(2), which turns inf into nan."""
    if not x.dtype.is_complex:
        return torch.log2(x, out=out)
    scaled = torch.view_as_real(torch.log(x)) * np.log2(np.e)
    return _put(torch.view_as_complex(scaled), out)


def bitwise_count(x: Any, out: Any = None) -> Any:
    """Ones of |x|: sums of neighbouring bit groups of 1, 2, 4 ... bits."""
    n = _ring(x)
    n = n.abs() if x.dtype.is_signed else n
    n = n - ((n >> 1) & 0x5555555555555555)
    n = (n & 0x3333333333333333) + ((n >> 2) & 0x3333333333333333)
    n = (n + (n >> 4)) & 0x0F0F0F0F0F0F0F0F
    return _put(((n * 0x0101010101010101) >> 56).to(torch.uint8), out)


def where(condition: Any, x: Any, y: Any, out: Any = None) -> Any:
    if not isinstance(y, torch.Tensor):  # a number of an expression
        y = torch.tensor(y, dtype=x.dtype)
    return _select(condition.to(torch.bool), x, y, out=out)


def clip(x: Any, low: Any, high: Any, out: Any = None) -> Any:
    return minimum(maximum(x, low), high, out=out)


def cast(x: Any, out: Any) -> Any:
    if x.dtype.is_complex and not out.dtype.is_complex and out.dtype != torch.bool:
        x = x.real
    return out.copy_(x)


def real(x: Any, out: Any = None) -> Any:
    return _put(x.real if x.dtype.is_complex else x, out)


def imag(x: Any, out: Any = None) -> Any:
    return _put(x.imag if x.dtype.is_complex else torch.zeros_like(x), out)


def expm1(x: Any, out: Any = None) -> Any:
    """As on the CPU: exp(x) - 1 for complex numbers that are not finite, and at 0."""
    if not x.dtype.is_complex:
        return torch.expm1(x, out=out)
    limits = torch.exp(x)
    limits.real -= 1
    return _put(torch.where(torch.isfinite(x) & (x != 0), torch.expm1(x), limits), out)


def conjugate(x: Any, out: Any = None) -> Any:
    return torch.conj_physical(x, out=out) if x.dtype.is_complex else _put(x, out)


def positive(x: Any, out: Any = None) -> Any:
    return _put(x, out)
