"""Tensor: NumPy's array over tiles. Lazy; mutable; a view shares its base's cell."""

from __future__ import annotations

import importlib
import operator
import os
import pickle
import sys
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access import (
    copies,
    getitem,
    memory_order,
    scalars,
    setitem,
    small_items,
    view_strides,
)
from infinitensor.api.evaluate.evaluate import evaluate
from infinitensor.api.evaluate.explain import plan
from infinitensor.api.record.late import call_op, late
from infinitensor.api.record.record import host_view, store_on_host
from infinitensor.api.session.array_api import check_copy, check_version
from infinitensor.api.session.cell import BaseTensor, Cell
from infinitensor.api.session.session import current_session
from infinitensor.api.small import host_values, small_calls
from infinitensor.api.small.errstate import quietly
from infinitensor.api.tensor import export, views
from infinitensor.api.tensor.flags import Flags, refused
from infinitensor.api.tensor.flat import Flat
from infinitensor.api.tensor.html import draw
from infinitensor.api.tensor.numpy_protocols import array_function, array_ufunc
from infinitensor.api.tensor.printing import represented, show
from infinitensor.config import config
from infinitensor.dtypes import as_dtype
from infinitensor.ir.view import View, c_strides, whole_view
from infinitensor.ops.create.creation import length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from infinitensor.api.methods import TableMethods
    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Version
else:  # a stub: `all_functions.py` makes operators and methods from the op table
    TableMethods = object


class Tensor(scalars.Number, BaseTensor, TableMethods):
    """A global array. Made by `it.asarray`, by functions and by operators.

    Called, as `numpy.ndarray` is, it makes one with no values yet: `it.empty` is the better name.

    Everything NumPy's `ndarray` does that is in the documentation's table works here: operators,
    methods, views, writes through views. Nothing runs until a value is needed.

    >>> import infinitensor as it
    >>> x = it.arange(6).reshape(2, 3)
    >>> x[:, 1:] *= 10
    >>> x.numpy().tolist()
    [[0, 10, 20], [3, 40, 50]]
    """

    __slots__ = ()
    __array_priority__ = 1000.0

    def __init__(self, shape: Any, dtype: Any = float) -> None:
        made = call_op("empty", shape, dtype=dtype)
        for name in ("_cell", "_view", "_dtype", "_shape", "_frozen", "_is_value"):
            setattr(self, name, getattr(made, name))
        self._seen = self._seen_of = self._owner = self._index = None
        self._lent = ()

    # inside

    @property
    def _view(self) -> View | None:
        """How it sees its base; None: all of it."""
        if self._lazy_view is host_values.UNKNOWN:
            self._lazy_view = host_values.view_of(self)
        return self._lazy_view

    @_view.setter
    def _view(self, view: View | None) -> None:
        self._lazy_view = view

    def _seen_as(self, view: View) -> Tensor:
        """Another view of the same cell; what cannot be written stays so."""
        if self._is_value:
            if not view.shape:
                return scalars.as_value(tensor_of(self._cell, view, self._version.dtype))
            # A scalar has no memory to share; it may be one element of a larger base, its copy is
            # all of its own.
            return copies.copy_tensor(self)._seen_as(View((), view.shape, 0, view.strides))
        cell = self._cell
        seen = tensor_of(cell, view, cell.version.dtype)
        seen._frozen = self._frozen or view.is_broadcast
        return seen

    # what it is

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes; may be set where NumPy would need no copy."""
        return self._shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        if self._is_value:
            raise AttributeError("the shape of a scalar is not writable; use `.reshape()`")
        wanted = (shape,) if _is_int(shape) else tuple(shape)
        try:
            seen = views.reshape(self, tuple(length(n) for n in wanted), copy=False)
        except ValueError as error:
            if "copy" not in str(error):
                raise
            raise AttributeError(
                "Incompatible shape for in-place modification. Use `.reshape()` to make a copy "
                "with the desired shape."
            ) from None
        self._cell, self._view, self._shape = seen._cell, seen._view, seen._shape
        self._seen = self._seen_of = self._index = None

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from an element to the next along each axis, in the base's C order."""
        width = int(self._version.dtype.itemsize)
        return tuple(step * width for step in self._whole().strides)

    @property
    def base(self) -> Tensor | None:
        """The tensor that this is a view of; None for one of its own."""
        if self._view is None or self._is_value:
            return None
        return tensor_of(self._cell, None, self._version.dtype)

    @property
    def flags(self) -> Flags:
        """The memory order of the elements, and whether they may be written."""
        return Flags(self)

    def local_tiles(self) -> list[tuple[Any, Any]]:
        """(box, array) of every tile in this process: NumPy on CPUs, torch on GPUs, zero-copy.

        Only of a whole tensor, not of a view. While an array lives its tile is not written: a write
        to the tensor goes to a copy.

        >>> import infinitensor as it
        >>> [(box, tile.tolist()) for box, tile in it.arange(3).local_tiles()]
        [(((0, 3),), [0, 1, 2])]
        """
        return export.tiles(self)

    def relayout(self, *pieces: int) -> Tensor:
        """The same values cut into `pieces[i]` blocks along axis i, in blocks over the devices.

        >>> import infinitensor as it
        >>> it.ones((6, 4)).relayout(3, 1).layout.grid
        (3, 1)
        """
        return copies.relayout(self, pieces)

    # values

    def _compute(self) -> None:
        version = self._version
        if version.node is not None:
            evaluate(self._session, [version])

    def numpy(self) -> np.ndarray:
        """The values as a new NumPy array; computes what is waiting."""
        if self._is_value and self._owner is not None:
            return np.array(self._seen)
        with self._session.guard():
            version = self._version
            if version.node is None and version.host is not None:
                return np.array(host_view(self._ref()))
            self._session.check_open()
            if (
                self._view is not None
                and version.node is not None
                and self.size * 4 <= prod(version.shape)
            ):
                return copies.copy_tensor(self).numpy()
            self._compute()
            version = self._version
            if version.host is not None:
                return np.array(host_view(self._ref()))
            return copies.read_view(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self._session.counts["host_arrays"] += 1
        return export.array(self, dtype, copy)

    def item(self, *index: Any) -> Any:
        """One element as a Python scalar."""
        if index:
            return views.element(self, index).item()
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self.numpy().item()

    def tolist(self) -> Any:
        """Nested lists of Python scalars."""
        return self.numpy().tolist()

    def __bool__(self) -> bool:
        if self._shape == () and self._owner is not None:
            return bool(self._seen)
        return bool(self._scalar("truth value"))

    def __int__(self) -> int:
        if self._shape == () and self._owner is not None and self._dtype.kind != "c":
            return int(self._seen)
        return int(self._scalar("int"))

    def __float__(self) -> float:
        if self._shape == () and self._owner is not None and self._dtype.kind != "c":
            return float(self._seen)
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self._scalar("index"))

    def _scalar(self, what: str) -> Any:
        if self.size != 1:
            if what == "truth value":
                raise ValueError(
                    "The truth value of an array with more than one element is ambiguous. "
                    "Use a.any() or a.all()"
                    if self.size
                    else "The truth value of an empty array is ambiguous. Use `array.size > 0` to "
                    "check that an array is not empty."
                )
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        if self.ndim and what != "truth value":
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        if self.dtype.kind == "c" and what in ("int", "float") and not self._is_value:
            raise TypeError(f"a complex number is no {what}: take .real or .imag first")
        if self._owner is not None:
            return self._seen.reshape(())[()]
        found = host_values.near(self)
        return (self.numpy() if found is None else found).reshape(())[()]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return map(self.__getitem__, range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        if self._is_value:
            raise TypeError("a scalar has no elements that something could be in")
        return bool((self == value).any())

    def __hash__(self) -> int:
        if not self._is_value:
            raise TypeError("unhashable type: 'Tensor'")
        return hash(self._scalar("hash"))

    # showing

    def __repr__(self) -> str:
        return represented(self)

    def __str__(self) -> str:
        return show(self) if self.shape else str(self._scalar("text"))  # all digits, as NumPy's

    def __format__(self, spec: str) -> str:
        if self.ndim == 0:
            return format(self.numpy()[()], spec)
        if spec:
            raise TypeError("unsupported format string passed to Tensor.__format__")
        return str(self)

    def _repr_html_(self) -> str:
        import html

        return draw(self, html.escape(repr(self)))

    # indexing

    def __getitem__(self, index: Any) -> Tensor:
        found = small_items.get_item(self, index)
        if found is not None:
            return found
        view = None
        if type(index) is not Tensor:
            items = index if type(index) is tuple else (index,)
            view = view_strides.of_integers_and_slices(self._view or whole_view(self._shape), items)
        if view is None or not view.shape:
            return getitem.get(self, index)
        return self._seen_as(view)

    def __setitem__(self, index: Any, value: Any) -> None:
        if type(value) is Tensor and type(index) is int:
            setitem.check_swap(self, value, sys._getframe(1))
        if not small_items.was_put(self, index, value):
            setitem.put(self, index, value)

    def __delitem__(self, index: Any) -> None:
        raise ValueError("cannot delete array elements")

    # views

    @property
    def T(self) -> Tensor:
        """Axes reversed; a view."""
        found = small_calls.transposed(self)
        return self.transpose() if found is None else found

    @property
    def mT(self) -> Tensor:
        """The last two axes swapped; a view."""
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return self._seen_as(view_strides.change_view(self._whole(), np.ndarray.swapaxes, -1, -2))

    @property
    def real(self) -> Tensor:
        """The real part; a view."""
        return views.part(self, "real")

    @real.setter
    def real(self, value: Any) -> None:
        if self._is_value:
            raise AttributeError("the real part of a scalar is not writable")
        if self.dtype.kind != "c" and not isinstance(value, Tensor):
            # NumPy has rules of its own here (an imaginary part is dropped without a word)
            taken = np.empty(np.shape(value), self.dtype)
            quietly(setattr, taken, "real", value)
            value = taken
        self.real[...] = value

    @property
    def imag(self) -> Tensor:
        """The imaginary part; a view of a complex tensor, zeros of a real one."""
        return views.part(self, "imag")

    @imag.setter
    def imag(self, value: Any) -> None:
        if self._is_value:
            raise AttributeError("the imaginary part of a scalar is not writable")
        if self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        self.imag[...] = value

    def conjugate(self, out: Any = None) -> Tensor:
        """The complex conjugate; a real tensor itself."""
        if out is not None:
            return call_op("conjugate", self, out=out)  # type: ignore[no-any-return]
        return call_op("conjugate", self) if self.dtype.kind == "c" else self

    conj = conjugate

    @property
    def flat(self) -> Flat[Tensor]:
        """The elements in C order: iterate, index and assign."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        Flat(self)[...] = value

    def reshape(self, *shape: Any, order: str | None = "C", copy: bool | None = None) -> Tensor:
        """Another shape: a view where NumPy would give one, else a copy."""
        if order == "C" and copy is None:
            quick: Tensor | None = small_calls.reshaped(self, shape)
            if quick is not None:
                return quick
        if not shape:
            raise TypeError("reshape() takes a shape: () is that of one element")
        wanted = shape[0] if len(shape) == 1 and not _is_int(shape[0]) else shape
        check_copy(copy)
        if order != "C":
            return memory_order.reshaped(self, tuple(length(n) for n in wanted), order, copy)
        if not copy:
            found = small_items.viewed(self, _reshaped, wanted)
            if found is None and copy is None:
                found = small_calls.reshape_copied(self, wanted)
            if found is not None:
                return found
        return views.reshape(self, tuple(length(n) for n in wanted), copy)

    def ravel(self, order: str | None = "C") -> Tensor:
        """One axis: a view of a contiguous tensor, else a copy."""
        if order != "C":
            return memory_order.read_in(self, order).ravel()
        quick: Tensor | None = small_calls.reshaped(self, (-1,))
        if quick is not None:
            return quick
        view = self._whole()
        steps = zip(view.shape, view.strides, c_strides(view.shape), strict=True)
        if all(n == 1 or ours == dense for n, ours, dense in steps) and not view.part:
            return self.reshape(-1)
        return self.flatten()

    def flatten(self, order: str | None = "C") -> Tensor:
        """One axis: always a copy."""
        quick: Tensor | None = small_calls.own_copy(self, True) if order == "C" else None
        if quick is not None:
            return quick
        read = self if order == "C" else memory_order.read_in(self, order)
        return copies.copy_tensor(read).reshape(-1)

    def transpose(self, *axes: Any) -> Tensor:
        """Axes in another order; a view."""
        found = small_items.viewed(self, np.ndarray.transpose, *axes)
        if found is not None:
            return found
        wanted = axes[0] if len(axes) == 1 and not _is_int(axes[0]) else axes
        order = wanted or None
        if order is None:
            return self._seen_as(self._whole().reversed())
        return self._seen_as(view_strides.change_view(self._whole(), np.ndarray.transpose, order))

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Two axes swapped; a view."""
        found = small_items.viewed(self, np.ndarray.swapaxes, axis1, axis2)
        if found is not None:
            return found
        return self._seen_as(
            view_strides.change_view(self._whole(), np.ndarray.swapaxes, axis1, axis2)
        )

    def squeeze(self, axis: Any = None) -> Tensor:
        """Without axes of length one; a view."""
        found = small_items.viewed(self, np.ndarray.squeeze, axis)
        if found is not None:
            return found
        return self._seen_as(view_strides.change_view(self._whole(), np.ndarray.squeeze, axis))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """A diagonal; a view (NumPy's is read-only, ours can be written)."""
        return self._seen_as(
            view_strides.change_view(self._whole(), np.ndarray.diagonal, offset, axis1, axis2)
        )

    # copies and changes

    def copy(self, order: str | None = "C") -> Tensor:
        """A tensor of its own with the same values; in another order than C's it is a view."""
        quick: Tensor | None = small_calls.own_copy(self, False) if order == "C" else None
        if quick is not None:
            return quick
        if self._is_value:
            memory_order.letter(order, "C")
            return self
        if order != "C":
            return memory_order.copy_in_order(self, order)
        made = small_calls.copy_small(self)
        return copies.copy_tensor(self) if made is None else made

    def __copy__(self) -> Tensor:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.copy()

    def __reduce__(self) -> Any:
        return (_from_pickle, (self.numpy(), self._is_value))

    def astype(
        self,
        dtype: Any,
        order: str | None = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Tensor:
        """The values as another dtype, in an order: "K" is their own."""
        if copy and order == "K" and casting == "unsafe":
            quick: Tensor | None = small_calls.cast(self, dtype)
            if quick is not None:
                return quick
        wanted = as_dtype(dtype)
        if memory_order.is_transposed(self) if order == "K" else order != "C" or not copy:
            letter = memory_order.letter(order, "K")
            ordered = memory_order.cast(self, wanted, copy, casting, letter)
            return scalars.as_value(ordered) if self._is_value else ordered
        if copy and casting == "unsafe" and self._dtype.kind != "c":
            made = small_calls.copy_small(self, wanted)
            if made is not None:
                made._is_value = self._is_value
                return made
        made = copies.cast(self, wanted, copy, casting)
        made._is_value = self._is_value
        return made

    def fill(self, value: Any) -> None:
        """Write one value everywhere."""
        setitem.check_writable(self, self._whole())
        if not isinstance(value, Tensor):
            one = np.empty(1, self.dtype)
            quietly(one.fill, value)
            value = one[0]
        elif value.ndim:
            raise ValueError("setting an array element with a sequence.")
        self[...] = value

    def sort(
        self,
        axis: int = -1,
        kind: Any = None,
        order: Any = None,
        *,
        stable: bool | None = None,
        descending: bool | None = None,
    ) -> None:
        """Sort in place."""
        how = {"stable": stable, "descending": bool(descending)}
        made = call_op("sort", self, operator.index(axis), kind, order, **how)
        setitem.replace(self, made)

    def partition(
        self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None
    ) -> None:
        """Partition in place: what has a rank in kth is in its place, smaller before it."""
        made = call_op("partition", self, kth, operator.index(axis), kind, order)
        setitem.replace(self, made)

    def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> Tensor:
        """The slices along an axis where the condition holds."""
        return call_op("compress", condition, self, axis, out=out)  # type: ignore[no-any-return]

    def view(self, dtype: Any = None, type: Any = None) -> Tensor:
        """Another view of all of it; with another dtype, its bits as they are now, read-only.

        >>> import infinitensor as it
        >>> it.asarray([1.0, -0.0]).view("u8").tolist()
        [4607182418800017408, 9223372036854775808]
        """
        if dtype is None or dtype is Tensor or as_dtype(dtype) == self.dtype:
            return self if self._is_value else self[...]
        return views.bits(self, as_dtype(dtype))

    def byteswap(self, inplace: bool = False) -> Tensor:
        """The elements with their bytes in reverse order: a copy, or itself, changed in place.

        >>> import infinitensor as it
        >>> it.asarray([1, 256], dtype=it.int16).byteswap().tolist()
        [256, 1]
        """
        swapped = views.swapped_bytes(self)
        if not inplace:
            return swapped
        self[...] = swapped
        return self

    def getfield(self, dtype: Any, offset: int = 0) -> Tensor:
        """The bytes of each element from an offset on, read as a dtype; read-only, as `view`.

        >>> import infinitensor as it
        >>> it.asarray([1 + 2j]).getfield(it.float64, 8).tolist()
        [2.0]
        """
        return views.field(self, as_dtype(dtype), operator.index(offset))

    setfield = refused(
        "setfield", "bytes of elements are not written one by one; write to x.real or x.imag"
    )

    def setflags(self, write: bool | None = None, align: Any = None, uic: Any = None) -> None:
        """Make it read-only, or say that it may be written (where it may)."""
        if uic:
            raise ValueError("cannot set WRITEBACKIFCOPY flag to True")
        if write is not None:
            self.flags.writeable = write

    resize = refused("resize", "a tensor keeps its size; use it.resize, it.pad or it.concatenate")

    def tobytes(self, order: str | None = "C") -> bytes:
        """The bytes of the values, in an order."""
        wanted = memory_order.letter(order, "C").replace("K", "C")  # to NumPy they are one here
        return memory_order.read_in(self, wanted).numpy().tobytes()

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def dumps(self) -> bytes:
        """The bytes of `pickle.dumps`; the values travel with them."""
        return pickle.dumps(self)

    def dump(self, file: Any) -> None:
        """Write what `dumps` gives to a file or a path; `it.save` is for much data."""
        if isinstance(file, str | os.PathLike):
            Path(file).write_bytes(self.dumps())
        else:
            file.write(self.dumps())

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Write the values to a file that holds nothing else, as bytes or as text."""
        self.numpy().tofile(fid, sep, format)
        self._session.counts["bytes_written"] += self.nbytes

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        check_version(api_version)
        return importlib.import_module(__name__.partition(".")[0])

    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """The same tensor: it lives on its session's devices."""
        if str(device) != self.device:
            raise ValueError(
                f"this session runs on {self.device!r}; open another with it.init({device!r})"
            )
        return self

    # other libraries

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **given: Any) -> Any:
        return array_ufunc(ufunc, method, inputs, given)

    def __array_function__(self, function: Any, types: Any, args: Any, given: Any) -> Any:
        return array_function(function, types, args, given)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return export.dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return export.dlpack_device(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return export.cuda_interface(self)

    def torch(self) -> Any:
        """The values as a torch tensor: over our memory if they are one tile, else a copy.

        torch cannot mark memory as read-only: take `.clone()` before you write to it.

        >>> import infinitensor as it
        >>> it.arange(3).torch()
        tensor([0, 1, 2])
        """
        return export.torch_tensor(self)

    if not TYPE_CHECKING:  # to a type checker a name that is not here is an error

        def __getattr__(self, name: str) -> Any:
            if name == "_cell":  # asked for the first time
                return host_values.settle_cell(self)
            if name.startswith("_"):  # NumPy asks for such names on every call: no time to look
                raise AttributeError(f"a Tensor has no {name!r}")
            import difflib

            names = [one for one in dir(type(self)) if not one.startswith("_")]
            close = difflib.get_close_matches(name, names, 3, 0.5)
            hint = f"; the nearest are {', '.join(close)}" if close else ""
            raise AttributeError(f"a Tensor has no {name!r}{hint}")

    def explain(self) -> str:
        """The plan and the dependences of what computing this would run."""
        return str(plan(self))


host_values.tensors.append(Tensor)


def tensor_of(cell: Cell, view: View | None, dtype: np.dtype[Any]) -> Tensor:
    """A tensor that shows a cell through a view."""
    tensor = object.__new__(Tensor)
    tensor._cell = cell
    if view is not None and view.is_whole:
        view = None
    tensor._lazy_view = view
    tensor._shape = cell.version.shape if view is None else view.shape
    tensor._frozen = False
    tensor._is_value = False
    tensor._lent = ()
    tensor._seen = tensor._seen_of = tensor._owner = tensor._index = None
    if view is not None and view.part and dtype.kind == "c":
        dtype = np.dtype(f"f{dtype.itemsize // 2}")
    tensor._dtype = dtype
    return tensor


def session_of(values: Iterable[Any]) -> Session:
    """The session of the first tensor among values and lists of them, else the current one."""
    for value in values:
        if isinstance(value, Tensor):
            return value._session
        if isinstance(value, list | tuple):
            for one in value:
                if isinstance(one, Tensor):
                    return one._session
    return current_session()


def fresh(session: Session, version: Version) -> Tensor:
    """A tensor with a cell of its own."""
    tensor = object.__new__(Tensor)
    tensor._cell = Cell(session, version)
    tensor._shape = version.shape
    tensor._dtype = version.dtype
    tensor._frozen = tensor._is_value = False
    tensor._lent = ()
    tensor._lazy_view = tensor._seen = tensor._seen_of = tensor._owner = tensor._index = None
    return tensor


def from_values(session: Session, values: np.ndarray) -> Tensor:
    """A tensor of an array that nobody else can change. Large ones go into tiles at once."""
    limit = config.small_elements
    if values.size > limit or (limit == 0):
        return fresh(session, copies.store_in_tiles(session, values))
    return fresh(session, store_on_host(session, values))


def _from_pickle(array: np.ndarray, is_value: bool = False) -> Tensor:
    made = from_values(current_session(), array)
    made._is_value = is_value
    return made


def _reshaped(values: np.ndarray, shape: Any) -> np.ndarray:
    return values.reshape(shape, copy=False)


def _is_int(value: Any) -> bool:
    return isinstance(value, int | np.integer) or (
        hasattr(value, "__index__") and not hasattr(value, "__len__")
    )


late.fresh = fresh
