"""The dtypes of tensors are NumPy's; this file says which, and what torch calls them.

bfloat16 comes from ml_dtypes, an extension of NumPy: to NumPy it is of kind "V" (anything), and has
no place in its promotion. Here it has the rules of float16, the two together those of float32: ask
this file, not NumPy, for kinds, result types and casts (docs/decisions/0011-bfloat16.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    Dtype = np.dtype[Any]

bool_ = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
bfloat16 = np.dtype(ml_dtypes.bfloat16)
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

NAMES = """
bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64
complex128 byte ubyte short ushort intc uintc int_ uint long ulong longlong ulonglong intp uintp
half single double csingle cdouble dtype generic number integer signedinteger unsignedinteger
inexact floating complexfloating
"""
TYPES: dict[str, Any] = {name: getattr(np, name) for name in NAMES.split()}
TYPES["bfloat16"] = ml_dtypes.bfloat16
"""Public names of dtypes: NumPy's own types, which also make scalars, and their families."""

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
INTEGERS = SIGNED + UNSIGNED
HALVES = (float16, bfloat16)
REAL_FLOATING = (*HALVES, float32, float64)
COMPLEX = (complex64, complex128)
FLOATING = REAL_FLOATING + COMPLEX
NUMERIC = INTEGERS + FLOATING
ALL = (bool_, *NUMERIC)
NUMPYS = tuple(dtype for dtype in ALL if dtype != bfloat16)
"""The dtypes that NumPy has itself, with rules that can be asked for."""
_KNOWN = {dtype: dtype for dtype in ALL}
"""Each dtype as NumPy's own object: some of NumPy's short ways ask whether it is that one."""


def as_dtype(name: Any) -> np.dtype[Any]:
    """The dtype a user means; anything we do not hold is a TypeError that says so.

    >>> as_dtype("f4"), as_dtype(float)
    (dtype('float32'), dtype('float64'))
    """
    dtype: np.dtype[Any] = np.dtype(name)
    known = _KNOWN.get(dtype)
    if known is None:
        if dtype.newbyteorder("=") in _KNOWN:
            raise TypeError(
                f"tensors have the byte order of this machine, not that of {dtype}: leave it out, "
                f"and change the order of the bytes of an array: x.numpy().astype({dtype.str!r})"
            )
        raise TypeError(
            f"infinitensor holds no {dtype} values; it holds bool, integers, "
            "float16/32/64, bfloat16 and complex64/128"
        )
    return known


def held_as(dtype: Any) -> Dtype:
    """The dtype in which we hold values from outside: theirs, in the byte order of this machine.

    >>> held_as(np.dtype(">f4"))
    dtype('float32')
    """
    return as_dtype(np.dtype(dtype).newbyteorder("="))


def read_as(name: Any) -> Dtype:
    """The dtype that a user says numbers outside have, in any byte order.

    >>> read_as(">f4")
    dtype('>f4')
    """
    dtype: Dtype = np.dtype(name)
    held_as(dtype)
    return dtype


# --- kinds, promotion, casts ------------------------------------------------------------------


def kind_of(dtype: Dtype) -> str:
    """`dtype.kind`, and "f" for bfloat16.

    >>> kind_of(bfloat16), kind_of(int8)
    ('f', 'i')
    """
    return "f" if dtype == bfloat16 else str(dtype.kind)


def _one_half(given: Sequence[Any]) -> tuple[Dtype, Dtype]:
    """The dtype that stands for a half where NumPy is asked, and what its float16 then means."""
    halves = {x for x in given if isinstance(x, np.dtype) and x in HALVES}
    return (float16, halves.pop()) if len(halves) == 1 else (float32, float16)


def _stands_for(half: Dtype, given: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(half if isinstance(x, np.dtype) and x in HALVES else x for x in given)


def _plain(value: Any) -> Any:
    """The dtype of what has or names one; a Python number, which is weak, as it is."""
    if isinstance(value, int | float | complex) and not isinstance(value, np.generic):
        return value
    if hasattr(value, "dtype") and not isinstance(value, type):
        return value.dtype
    return np.dtype(value)


def result_type(*given: Any) -> Dtype:
    """NumPy's result type of dtypes, arrays and (weak) Python numbers.

    >>> result_type(bfloat16, 1.5), result_type(bfloat16, float16), result_type(bfloat16, int32)
    (dtype(bfloat16), dtype('float32'), dtype('float64'))
    """
    plain = [_plain(x) for x in given]
    if bfloat16 not in plain:
        return np.result_type(*given)
    half, meant = _one_half(plain)
    found: Dtype = np.result_type(*_stands_for(half, plain))
    return meant if found == float16 else found


def can_cast(source: Any, target: Any, casting: Any = "safe") -> bool:
    """NumPy's answer; between the two halves values change, so it is a cast of the same kind.

    >>> can_cast(int8, bfloat16), can_cast(float16, bfloat16), can_cast(bfloat16, float32)
    (True, False, True)
    """
    if source is None or target is None:
        raise TypeError("did not understand one of the types; 'None' not accepted")
    source, target = np.dtype(source), np.dtype(target)
    if source != target and source in HALVES and target in HALVES:
        return casting in ("same_kind", "unsafe")
    source, target = _stands_for(float16, (source, target))
    return np.can_cast(source, target, casting)


def _without_numbers(
    ufunc: np.ufunc, given: Sequence[Any], asked: Sequence[Any], casting: str, **options: Any
) -> Sequence[Any]:
    """Dtypes in the place of Python's number types, with which NumPy's own resolution crashes here.

    "equiv" takes a number only as what NumPy makes of it alone; "no" is what "same_kind" is.
    """
    if not any(x in (bool, int, float, complex) for x in given if isinstance(x, type)):
        return given
    loop = resolve_dtypes(ufunc, given, signature=asked, casting="unsafe", **options)
    found, rule = list(given), "same_kind" if casting == "no" else casting
    for i, (kind, dtype) in enumerate(zip(given, loop, strict=False)):
        if not isinstance(kind, type):
            continue
        if not can_cast(kind, dtype, rule):
            raise TypeError(
                f"cannot cast Python {kind.__name__} to {dtype} under the casting rule {casting!r}"
            )
        found[i] = dtype
    return found


def resolve_dtypes(
    ufunc: np.ufunc, given: Sequence[Any], *, signature: Sequence[Any] | None = None, **options: Any
) -> tuple[Dtype, ...]:
    """The loop that a ufunc of NumPy takes for dtypes; Python's number types are weak.

    >>> resolve_dtypes(np.add, (bfloat16, float, None))
    (dtype(bfloat16), dtype(bfloat16), dtype(bfloat16))
    """
    asked = signature or (None,) * ufunc.nargs
    if options.get("casting") in ("no", "equiv"):
        given = _without_numbers(ufunc, given, asked, **options)
    if bfloat16 not in (*given, *asked):
        return tuple(ufunc.resolve_dtypes(tuple(given), signature=tuple(asked), **options))
    named = [x for x in asked if x is not None and x in HALVES]
    half, meant = _one_half(named or given[: ufunc.nin])
    try:
        found = ufunc.resolve_dtypes(
            _stands_for(half, given), signature=_stands_for(half, asked), **options
        )
    except TypeError as error:
        text = str(error).replace("<class 'numpy.dtypes.Float16DType'>", str(meant))
        raise TypeError(text.replace("dtype('float16')", str(meant))) from None
    return tuple(meant if dtype == float16 else dtype for dtype in found)


def finfo(dtype: Any) -> Any:
    """NumPy's `finfo`, for bfloat16 that of ml_dtypes.

    >>> float(finfo(bfloat16).eps), float(finfo(float32).eps)
    (0.0078125, 1.1920928955078125e-07)
    """
    info: Any = ml_dtypes.finfo if dtype == bfloat16 else np.finfo
    return info(dtype)


# --- torch ------------------------------------------------------------------------------------


_TORCH: dict[np.dtype[Any], torch.dtype] = {}


def to_torch(dtype: np.dtype[Any]) -> torch.dtype:
    """torch's name of a dtype (torch is imported at the first call)."""
    if not _TORCH:
        import torch

        for ours in ALL:
            _TORCH[ours] = getattr(torch, ours.name)
    return _TORCH[dtype]


def dtype_of(values: Any) -> np.dtype[Any]:
    """The dtype of a NumPy array or a torch tensor; a TypeError if we do not hold it.

    >>> import torch
    >>> dtype_of(torch.ones(2)), dtype_of(np.ones(2))
    (dtype('float32'), dtype('float64'))
    """
    if isinstance(values, np.ndarray):
        return held_as(values.dtype)
    name = str(values.dtype).removeprefix("torch.")
    found = {ours.name: ours for ours in ALL}.get(name)
    if found is None:
        raise TypeError(
            f"infinitensor holds no {name} values; convert them first, for example x.float()"
        )
    return found


def from_numpy(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """A torch tensor over an array's memory, of any of our dtypes.

    That of an array that may not be written must not be written either: torch has no such tensors,
    and would warn.

    >>> from_numpy(np.ones(2, bfloat16))
    tensor([1., 1.], dtype=torch.bfloat16)
    """
    import torch

    plain = array if array.dtype != bfloat16 else array.view(np.uint16)
    if not plain.flags.writeable:
        plain = np.asarray(_Unlocked(plain))
    made = torch.from_numpy(plain)
    return made if array.dtype != bfloat16 else made.view(torch.bfloat16)


class _Unlocked:
    """An array's memory, as if it could be written."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array  # it is kept alive
        about = array.__array_interface__
        self.__array_interface__ = {**about, "data": (about["data"][0], False)}


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A NumPy array over the memory of a torch tensor on the host, of any of our dtypes.

    >>> import torch
    >>> to_numpy(torch.ones(2, dtype=torch.bfloat16))
    array([1, 1], dtype=bfloat16)
    """
    import torch

    if tensor.dtype != torch.bfloat16:
        return tensor.numpy()
    return tensor.view(torch.uint16).numpy().view(bfloat16)
