"""The Array API standard, as far as it can be checked without its suite: names, calls, inspection.

`tools/array_api.py` runs the suite itself on a checkout of it.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import infinitensor as it

UNARY = """
abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
isfinite isinf isnan log log10 log1p log2 logical_not negative positive real reciprocal round sign
signbit sin sinh sqrt square tan tanh trunc
matrix_transpose nonzero unique_all unique_counts unique_inverse unique_values finfo iinfo
"""
BINARY = """
add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide
equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or
logical_xor matmul maximum minimum multiply nextafter not_equal pow remainder subtract tile can_cast
"""
CALLS = """
all(x, /, *, axis, keepdims)
any(x, /, *, axis, keepdims)
arange(start, /, stop, step, *, dtype, device)
argmax(x, /, *, axis, keepdims)
argmin(x, /, *, axis, keepdims)
argsort(x, /, *, axis, descending, stable)
asarray(obj, /, *, dtype, device, copy)
astype(x, dtype, /, *, copy, device)
broadcast_arrays(x1, x2, /)
broadcast_shapes(x1, x2, /)
broadcast_to(x, /, shape)
clip(x, /, min, max)
concat(arrays, /, *, axis)
count_nonzero(x, /, *, axis, keepdims)
cumulative_prod(x, /, *, axis, dtype, include_initial)
cumulative_sum(x, /, *, axis, dtype, include_initial)
diff(x, /, *, axis, n, prepend, append)
empty(shape, *, dtype, device)
empty_like(x, /, *, dtype, device)
expand_dims(x, /, axis)
eye(n_rows, n_cols, /, *, k, dtype, device)
flip(x, /, *, axis)
from_dlpack(x, /, *, device, copy)
full(shape, fill_value, *, dtype, device)
full_like(x, /, fill_value, *, dtype, device)
isdtype(dtype, kind)
isin(x1, x2, /, *, invert)
linspace(start, stop, /, num, *, dtype, device, endpoint)
max(x, /, *, axis, keepdims)
mean(x, /, *, axis, keepdims)
meshgrid(x1, x2, /, *, indexing)
min(x, /, *, axis, keepdims)
moveaxis(x, source, destination, /)
ones(shape, *, dtype, device)
ones_like(x, /, *, dtype, device)
permute_dims(x, /, axes)
prod(x, /, *, axis, dtype, keepdims)
repeat(x, repeats, /, *, axis)
reshape(x, /, shape, *, copy)
result_type(x1, x2, /)
roll(x, /, shift, *, axis)
searchsorted(x1, x2, /, *, side, sorter)
sort(x, /, *, axis, descending, stable)
squeeze(x, /, axis)
stack(arrays, /, *, axis)
std(x, /, *, axis, correction, keepdims)
sum(x, /, *, axis, dtype, keepdims)
take(x, indices, /, *, axis)
take_along_axis(x, indices, /, *, axis)
tensordot(x1, x2, /, *, axes)
tril(x, /, *, k)
triu(x, /, *, k)
unstack(x, /, *, axis)
var(x, /, *, axis, correction, keepdims)
vecdot(x1, x2, /, *, axis)
where(condition, x1, x2, /)
zeros(shape, *, dtype, device)
zeros_like(x, /, *, dtype, device)
"""
EXTENSIONS = """
fft.fft(x, /, *, n, axis, norm)
fft.fftfreq(n, /, *, d, dtype, device)
fft.fftn(x, /, *, s, axes, norm)
fft.fftshift(x, /, *, axes)
fft.hfft(x, /, *, n, axis, norm)
fft.ifft(x, /, *, n, axis, norm)
fft.ifftn(x, /, *, s, axes, norm)
fft.ifftshift(x, /, *, axes)
fft.ihfft(x, /, *, n, axis, norm)
fft.irfft(x, /, *, n, axis, norm)
fft.irfftn(x, /, *, s, axes, norm)
fft.rfft(x, /, *, n, axis, norm)
fft.rfftfreq(n, /, *, d, dtype, device)
fft.rfftn(x, /, *, s, axes, norm)
linalg.cholesky(x, /, *, upper)
linalg.cross(x1, x2, /, *, axis)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset)
linalg.eig(x, /)
linalg.eigh(x, /)
linalg.eigvals(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims, ord)
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol)
linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol)
linalg.qr(x, /, *, mode)
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes)
linalg.trace(x, /, *, offset, dtype)
linalg.vecdot(x1, x2, /, *, axis)
linalg.vector_norm(x, /, *, axis, keepdims, ord)
"""
DTYPES = """
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
"""
TENSOR = """
T device dtype mT ndim shape size to_device
__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__
__float__ __floordiv__ __ge__ __getitem__ __gt__ __iadd__ __iand__ __ifloordiv__ __ilshift__
__imatmul__ __imod__ __imul__ __index__ __int__ __invert__ __ior__ __ipow__ __irshift__ __isub__
__itruediv__ __ixor__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__
__pos__ __pow__ __radd__ __rand__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__
__rpow__ __rrshift__ __rshift__ __rsub__ __rtruediv__ __rxor__ __setitem__ __sub__ __truediv__
__xor__
"""


def standard_calls() -> list[str]:
    """How the standard writes every function of its namespace."""
    unary = [f"{name}(x, /)" for name in UNARY.split()]
    binary = [f"{name}(x1, x2, /)" for name in BINARY.split()]
    return [*unary, *binary, *filter(None, (CALLS + EXTENSIONS).splitlines())]


def named(path: str) -> Any:
    """A function of the namespace or of an extension."""
    found: Any = it
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("call", standard_calls())
def test_every_function_of_the_standard_takes_its_arguments(call: str) -> None:
    """By position as far as the standard allows it, then all that can be named by name."""
    found = re.fullmatch(r"([\w.]+)\((.*)\)", call)
    assert found is not None
    words = [word.strip() for word in found[2].split(",")]
    split = words.index("/") if "/" in words else 0
    leading = [word for word in words[:split] if word != "/"]
    in_order = [w for w in words[: words.index("*") if "*" in words else None] if w != "/"]
    by_name = [word for word in words[split:] if word not in "/*"]
    keyword_only = [word for word in by_name if word not in in_order]
    signature = inspect.signature(named(found[1]))
    signature.bind(*leading, **dict.fromkeys(by_name))
    signature.bind(*in_order, **dict.fromkeys(keyword_only))


@pytest.mark.parametrize("name", TENSOR.split())
def test_every_member_of_the_standards_array_is_there(name: str) -> None:
    assert hasattr(it.Tensor, name)


def test_constants_and_dtypes_are_there() -> None:
    assert (it.e, it.pi, it.inf, it.newaxis) == (np.e, np.pi, np.inf, None)
    assert np.isnan(it.nan)
    for name in DTYPES.split():
        assert getattr(it, name) == np.dtype(name)


def test_a_tensor_knows_its_namespace_in_every_version() -> None:
    x = it.ones(3)
    assert x.__array_namespace__() is it
    assert x.__array_namespace__(api_version="2021.12") is it
    assert it.__array_api_version__ == "2025.12"
    with pytest.raises(ValueError, match=r"Array API '2020\.01': the versions here are 2021\.12"):
        x.__array_namespace__(api_version="2020.01")


def test_the_namespace_says_what_it_can_do() -> None:
    about = it.__array_namespace_info__()
    assert about.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    assert it.ones((1,) * 64).ndim == 64
    with pytest.raises(ValueError, match="65 axes; the most is 64"):
        it.ones((1,) * 65)
    assert about.default_device() in about.devices()
    assert set(about.dtypes()) == set(DTYPES.split())
    assert set(about.dtypes(kind=("bool", "complex floating"))) == {
        "bool",
        "complex64",
        "complex128",
    }


@pytest.mark.parametrize("kind", ["real floating", "complex floating", "integral", "indexing"])
def test_default_dtypes_are_what_functions_give(kind: str) -> None:
    made = {
        "real floating": it.zeros(1),
        "complex floating": it.fft.fft(it.zeros(2)),
        "integral": it.arange(3),
        "indexing": it.argmax(it.zeros(2)),
    }
    assert it.__array_namespace_info__().default_dtypes()[kind] == made[kind].dtype


def test_a_device_of_another_session_is_refused() -> None:
    here = it.ones(1).device
    assert it.zeros(3, device=here).device == here
    assert it.zeros_like(it.ones(3), device=None).to_device(here).device == here
    for make in (it.zeros, it.arange, it.asarray):
        with pytest.raises(ValueError, match=r"device 'elsewhere:7': this session runs on"):
            make(3, device="elsewhere:7")


def test_limits_are_python_numbers() -> None:
    for dtype in (it.float16, it.float32, it.float64):
        ours, numpys = it.finfo(dtype), np.finfo(dtype)
        for name in ("eps", "max", "min", "smallest_normal", "tiny", "resolution"):
            assert type(getattr(ours, name)) is float
            assert getattr(ours, name) == getattr(numpys, name)
        assert (ours.bits, ours.dtype) == (numpys.bits, numpys.dtype)
    assert it.finfo(it.ones(2, dtype=it.complex64)).dtype == it.float32
    assert it.iinfo(it.ones(2, dtype=it.uint8)).max == 255


def test_promotion_is_numpys() -> None:
    x = it.ones(2, dtype=it.float32)
    assert it.result_type(x, it.int16, 2.0) == it.float32
    assert it.result_type(x, it.int64) == it.float64
    assert it.can_cast(x, it.float64)
    assert not it.can_cast(x, it.int64)
    assert it.promote_types("i1", "u1") == it.int16
    with pytest.raises(TypeError, match="kind"):
        it.isdtype(it.float32, 3)


def test_shapes_are_answered_without_values() -> None:
    x = it.ones((2, 3))
    for module in (it, np):
        assert (module.shape(x), module.ndim(x), module.size(x)) == ((2, 3), 2, 6)
        assert module.size(x, -1) == module.size([[1, 2, 3]], 1) == 3
    with pytest.raises(np.exceptions.AxisError, match="axis 2 is out of bounds"):
        it.size(x, 2)


def test_a_tensor_fills_a_tensor() -> None:
    filled = it.full((2, 2), it.asarray(2.5))
    np.testing.assert_array_equal(filled, np.full((2, 2), 2.5))


def test_dtype_names_make_scalars_as_numpys_do() -> None:
    assert type(it.float32(1.5)) is np.float32
    assert (it.asarray([1, 2], dtype=it.int8) + it.int8(3)).dtype == np.int8
    assert it.zeros(2, dtype=it.double).dtype == it.dtype("f8")
    assert isinstance(it.ones(1, dtype=it.uint16).dtype.type(3), it.unsignedinteger)
