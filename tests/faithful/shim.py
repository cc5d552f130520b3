"""A module that looks like infinitensor and is NumPy, with faults on request.

Sound, it shows that the programs and the comparison are right; with a fault it shows that the
programs find that fault.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from .program import words
from .worlds import ROUNDED, ROUNDED_IF_COMPLEX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VIEW_FUNCTIONS = frozenset(words("permute_dims expand_dims flip broadcast_to moveaxis reshape"))
VIEW_METHODS = frozenset(words("transpose swapaxes reshape ravel squeeze diagonal"))
FAULTS = (
    "slices are copies",
    "a transpose is a copy",
    "reshape always copies",
    "reshape never copies",
    "a diagonal is a copy",
    "the real part is a copy",
    "a full integer index is a view",
    "asarray borrows",
    "numpy() lends",
    "copy() is the same array",
    "overlapping writes are torn",
    "the first of equal indices wins",
    "in-place casts anything",
    "in-place makes a new array",
    "a scalar is changed in place",
    "broadcast views can be written",
    "promotes as torch",
    "a NumPy scalar is weak",
    "small sums stay small",
    "a failed write has begun",
    "a wrong shape is a RuntimeError",
    "flat is Fortran's",
    "a mask takes rows only",
    "steps below zero are off by one",
    "deleting a base clears its views",
    "nan is not the maximum",
)


class Tensor:
    """An ndarray that answers as a Tensor should."""

    __array_ufunc__ = None

    def __init__(self, array: Any, module: Shim) -> None:
        self._array: Any = array if isinstance(array, np.generic) else np.asarray(array)
        self._module = module

    def __hash__(self) -> int:
        return hash(self._array)

    def __reduce__(self) -> Any:
        return Tensor, (self._array.copy(), self._module)

    def __copy__(self) -> Tensor:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._array if self._has("numpy() lends") else np.array(self._array, dtype)

    def __del__(self) -> None:
        is_array = isinstance(self._array, np.ndarray)
        if is_array and self._has("deleting a base clears its views") and self._array.flags.owndata:
            self._array[...] = 0

    def _has(self, fault: str) -> bool:
        return self._module.fault == fault

    def _wrap(self, array: Any) -> Tensor:
        return Tensor(array, self._module)

    def numpy(self) -> Any:
        return self.__array__()

    def copy(self) -> Tensor:
        same = self._has("copy() is the same array")
        return self._wrap(self._array if same else self._array.copy())

    def __getitem__(self, key: Any) -> Tensor:
        key = unwrapped(key)
        found = self._array[key]
        if isinstance(found, np.generic) and self._has("a full integer index is a view"):
            return self._wrap(self._array[(*key, ...) if isinstance(key, tuple) else (key, ...)])
        if isinstance(found, np.ndarray) and found.size == 0:
            return self._wrap(found)
        if isinstance(found, np.generic):
            return self._wrap(found)
        if found.base is None or not np.may_share_memory(found, self._array):
            return self._wrap(np.array(found, order="C"))
        if self._has("slices are copies"):
            return self._wrap(found.copy())
        steps = [part.step or 1 for part in np.atleast_1d(key) if isinstance(part, slice)]
        if self._has("steps below zero are off by one") and min(steps, default=1) < -1:
            return self._wrap(found[..., ::-1])
        return self._wrap(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        key, value = unwrapped(key), unwrapped(value)
        array = self._array
        if isinstance(key, np.ndarray) and np.may_share_memory(key, array):
            key = key.copy()
        try:
            self._write(array, key, value)
        except ValueError as error:
            if self._has("a failed write has begun") and array.size and array.flags.writeable:
                array.flat[0] = 1
            if self._has("a wrong shape is a RuntimeError") and "broadcast" in str(error):
                raise RuntimeError("shapes do not fit") from error
            raise

    def _write(self, array: Any, key: Any, value: Any) -> None:
        is_array = isinstance(value, np.ndarray)
        if self._has("overlapping writes are torn") and is_array and np.ndim(value) == 1:
            target = array[key]
            if isinstance(target, np.ndarray) and np.shares_memory(target, value):
                for i in range(len(target)):
                    target[i] = value[i % len(value)]
                return
        kind = key.dtype.kind if isinstance(key, np.ndarray) else ""
        if self._has("the first of equal indices wins") and kind == "i" and key.ndim == 1:
            if is_array and value.shape[:1] == key.shape:
                array[key[::-1]] = value[::-1]
                return
        elif self._has("a mask takes rows only") and kind == "b" and key.ndim > 1:
            array[key.any(axis=tuple(range(1, key.ndim)))] = np.ravel(value)[0]
            return
        array[key] = value.copy() if is_array else value

    @property
    def flat(self) -> Any:
        return Flat(self)

    @property
    def T(self) -> Tensor:
        copies = self._has("a transpose is a copy")
        return self._wrap(self._array.T.copy() if copies else self._array.T)

    @property
    def mT(self) -> Tensor:
        return self._wrap(self._array.mT)

    @property
    def real(self) -> Tensor:
        copies = self._has("the real part is a copy")
        return self._wrap(self._array.real.copy() if copies else self._array.real)

    @real.setter
    def real(self, value: Any) -> None:
        self._array.real = np.array(unwrapped(value))

    @property
    def imag(self) -> Tensor:
        return self._wrap(self._array.imag)

    @imag.setter
    def imag(self, value: Any) -> None:
        self._array.imag = np.array(unwrapped(value))

    def __iter__(self) -> Iterator[Tensor]:
        return (self._wrap(row) for row in self._array)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._array, name)
        if not callable(found):
            return found

        def method(*args: Any, **kwargs: Any) -> Any:
            if name == "sort":
                return self._array.sort(*args, **kwargs)
            result = found(*map(unwrapped, args), **kwargs)
            if name in ("fill", "item", "tolist"):
                return result
            if name == "diagonal":
                result.flags.writeable = self._array.flags.writeable
            return self._module.result(name, result, self._array, VIEW_METHODS)

        return method


def reader(builtin: Callable[..., Any]) -> Callable[..., Any]:
    def read(self: Tensor, *args: Any) -> Any:
        return builtin(self._array, *args)

    return read


def binary(name: str, reflected: bool) -> Callable[[Tensor, Any], Any]:
    op = getattr(operator, f"__{name}__")

    def operate(self: Tensor, other: Any) -> Tensor:
        array, other = self._array, unwrapped(other)
        if self._has("promotes as torch") and isinstance(other, float) and array.dtype.kind in "iu":
            array = array.astype(np.float32)
        if self._has("a NumPy scalar is weak") and isinstance(other, np.number):
            other = other.item()
        result = op(other, array) if reflected else op(array, other)
        is_rounded = name in ("truediv", "pow", "matmul")
        is_rounded = is_rounded or (name == "mul" and np.iscomplexobj(result))
        return self._wrap(self._module.rounded(in_order(result), is_rounded))

    return operate


def in_place(name: str) -> Callable[[Tensor, Any], Any]:
    op = getattr(operator, f"__i{name}__")

    def operate(self: Tensor, other: Any) -> Tensor:
        other = unwrapped(other)
        if isinstance(self._array, np.generic) and not self._has("a scalar is changed in place"):
            return getattr(self, f"__{name}__")(other)  # type: ignore[no-any-return]
        if isinstance(self._array, np.generic):
            self._array = getattr(self, f"__{name}__")(other)._array
            return self
        noise = self._module.noise and name in ("truediv", "pow", "matmul", "mul")
        if noise and (name != "mul" or self._array.dtype.kind == "c"):
            op(self._array, other)
            self._array[...] = self._module.rounded(self._array, True)
        elif self._has("in-place casts anything"):
            self._array[...] = getattr(operator, f"__{name}__")(self._array, other)
        elif self._has("in-place makes a new array"):
            self._array = op(self._array.copy(), other)
        else:
            op(self._array, other)
        return self

    return operate


for _name in words("add sub mul truediv floordiv mod pow and or xor lshift rshift matmul"):
    setattr(Tensor, f"__{_name}__", binary(_name, reflected=False))
    setattr(Tensor, f"__r{_name}__", binary(_name, reflected=True))
    setattr(Tensor, f"__i{_name}__", in_place(_name))
for _name in words("lt le gt ge eq ne"):
    setattr(Tensor, f"__{_name}__", binary(_name, reflected=False))
for _builtin in (float, int, bool, complex, operator.index, len, operator.contains):
    setattr(Tensor, f"__{_builtin.__name__}__", reader(_builtin))


class Flat:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __getitem__(self, key: Any) -> Tensor:
        return self.tensor._wrap(in_order(self.tensor._array.flat[unwrapped(key)]))

    def __setitem__(self, key: Any, value: Any) -> None:
        array = self.tensor._array
        if self.tensor._has("flat is Fortran's"):
            array = array.T
        array.flat[unwrapped(key)] = unwrapped(value)


def in_order(result: Any) -> Any:
    """An array in C order; a scalar as it is."""
    return result if isinstance(result, np.generic) else np.array(result, order="C")


def unwrapped(part: Any) -> Any:
    if isinstance(part, Tensor):
        return part._array
    if isinstance(part, tuple | list) and any(isinstance(item, Tensor) for item in part):
        return type(part)(unwrapped(item) for item in part)
    return part


class Shim:
    """The module: `asarray`, `compute` and every function of NumPy over `Tensor`."""

    def __init__(self, fault: str = "", *, noise: bool = False) -> None:
        assert not fault or fault in FAULTS
        self.fault = fault
        self.noise = noise
        self.Tensor = Tensor

    def __reduce__(self) -> Any:
        return Shim, (self.fault,)

    def rounded(self, array: Any, is_rounded: bool) -> Any:
        """The array with its last bits changed, as another order of summation would."""
        if not (self.noise and is_rounded and array.dtype.kind in "fc"):
            return array
        with np.errstate(all="ignore"):
            signs = np.where(np.arange(array.size).reshape(array.shape) % 2, 1, -1)
            noise = 1 + 4 * np.finfo(array.dtype).eps * signs.astype(array.real.dtype)
            made = array * noise
            return made if isinstance(array, np.generic) else np.asarray(made)

    def compute(self, *tensors: Tensor) -> None:
        assert all(isinstance(tensor, Tensor) for tensor in tensors)

    def isscalar(self, value: Any) -> bool:
        return np.isscalar(unwrapped(value))

    def asarray(self, value: Any) -> Tensor:
        if self.fault == "asarray borrows":
            return Tensor(unwrapped(value), self)
        return Tensor(np.array(unwrapped(value), order="C"), self)

    def array(self, value: Any) -> Tensor:
        return Tensor(np.array(unwrapped(value), order="C"), self)

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            arrays = [unwrapped(arg) for arg in args]
            result = function(*arrays, **kwargs)
            if name == "nonzero":
                return tuple(Tensor(part.copy(), self) for part in result)
            return self.result(name, result, arrays[0], VIEW_FUNCTIONS)

        return call

    def result(self, name: str, result: Any, source: Any, views: frozenset[str]) -> Tensor:
        fault = self.fault
        if name == "sum" and fault == "small sums stay small" and source.dtype.kind in "iu":
            result = result.astype(source.dtype)
        if name == "max" and fault == "nan is not the maximum":
            result = np.nan_to_num(result, nan=0)
        if name not in views:
            is_rounded = name in ROUNDED or (name in ROUNDED_IF_COMPLEX and np.iscomplexobj(source))
            result = np.int64(result) if type(result) is int else result
            return Tensor(self.rounded(in_order(result), is_rounded), self)
        if name == "diagonal" and fault == "a diagonal is a copy":
            result = result.copy()
        if name == "reshape" and fault == "reshape always copies":
            result = result.copy()
        if name == "reshape" and fault == "reshape never copies":
            base = source if source.base is None else source.base
            if not np.shares_memory(result, source) and base.size == result.size:
                result = base.reshape(result.shape)
        if name == "broadcast_to" and fault == "broadcast views can be written":
            result = result.copy()
        return Tensor(result, self)
