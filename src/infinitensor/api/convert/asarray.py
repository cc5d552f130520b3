"""Values from outside as tensors, and what recording takes for an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from infinitensor.api.access import copies, memory_order
from infinitensor.api.convert.csr import csr
from infinitensor.api.convert.foreign import (
    borrowed,
    checked_torch,
    holds_tensors,
    is_sparse,
    is_torch,
    to_host,
)
from infinitensor.api.record.record import store_on_host
from infinitensor.api.session.array_api import MAX_AXES, check_copy, check_device, check_like
from infinitensor.api.session.session import current_session
from infinitensor.api.tensor.export import CPU
from infinitensor.api.tensor.tensor import Tensor, fresh, from_values
from infinitensor.config import config
from infinitensor.dtypes import as_dtype, bfloat16, held_as, kind_of
from infinitensor.ir.op import Spec
from infinitensor.lazy_torch import torch
from infinitensor.storage import file_of_map

if TYPE_CHECKING:
    from infinitensor.api.session.session import Session


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    device: Any = None,
    copy: bool | None = None,
    like: Any = None,
) -> Tensor:
    """A tensor with the values of an array, a nested list, a scalar, a column or a table.

    Arrays are those of NumPy, torch and whatever NumPy understands; columns and tables those of
    pandas, Arrow and Polars. A sparse matrix of SciPy becomes a `Csr`.

    The values are copied: later changes of `a` do not reach the tensor, nor the other way round.
    But a memory map that is read-only (`np.load(path, mmap_mode="r")`) is opened as `it.open` does:
    it may be larger than memory, and its file must not change while the tensor is used.
    With `copy=False` they are read where they are, and must not change from then on.

    >>> import infinitensor as it
    >>> it.asarray([[1, 2], [3, 4]]).sum().item()
    10
    """
    if type(a) is Tensor and dtype is order is device is copy is like is None:
        return a
    check_device(device)
    check_like(like)
    if isinstance(a, Tensor):
        return _of_tensor(a, dtype, order, copy)
    if isinstance(a, np.ma.MaskedArray):
        raise TypeError(
            "a masked array has values that are not there: fill it first, for example "
            "it.asarray(a.filled(0))"
        )
    if type(a) is int and dtype is not None:
        a = np.array(float(a) if as_dtype(dtype) == bfloat16 else a, as_dtype(dtype))
    session = current_session()
    if copy is not False and is_torch(a) and a.is_cuda and session.engine.mesh.kind == "cuda":
        made = fresh(session, copies.store_in_tiles(session, checked_torch(a)))
        return made if dtype is None else made.astype(dtype, copy=False)
    if is_sparse(a):
        return cast("Tensor", csr(a) if dtype is None else csr(a).astype(dtype))
    if copy is None and isinstance(a, np.memmap) and a.size > config.small_elements:
        file = open_map(session, a) if order in (None, "C", "K", "A") else None
        if file is not None:
            return file if dtype is None else file.astype(dtype, copy=False)
    values = to_host(a)
    wanted = held_as(values.dtype) if dtype is None else as_dtype(dtype)
    if (
        dtype is not None
        and kind_of(values.dtype) in "iufcb"
        and values.size
        and not hasattr(a, "dtype")
    ):
        values = np.array(a if not holds_tensors(a) else values, dtype=wanted)
    if copy is False:
        if values.flags.fnc and memory_order.letter(order, "K") != "C":
            return fresh(session, store_on_host(session, borrowed(a, values.T, wanted))).transpose()
        return fresh(session, store_on_host(session, borrowed(a, values, wanted)))
    axes = memory_order.axes_of_array(
        values, memory_order.letter(order, "K" if values is a else "C")
    )
    if axes is None:
        return from_values(session, np.array(values, dtype=wanted, order="C"))
    transposed = np.array(values.transpose(axes), dtype=wanted, order="C")
    return memory_order.transposed_back(from_values(session, transposed), axes)


def open_map(session: Session, values: np.memmap) -> Tensor | None:
    """A tensor over the file of a memory map; None where it has to be copied."""
    if values.dtype.kind not in "biufc":
        return None
    file = file_of_map(values)
    return None if file is None else fresh(session, copies.of_file(session, file))


def _of_tensor(a: Tensor, dtype: Any, order: str | None, copy: bool | None) -> Tensor:
    wanted = a.dtype if dtype is None else as_dtype(dtype)
    if wanted == a.dtype and not copy:
        made = a if order is None else memory_order.convert_order(a, order)
    elif copy is None or copy:
        made = a.astype(wanted, "K" if order is None else order)
    else:
        made = None
    if made is None or (copy is False and made is not a):
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return made


def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: Any = None,
) -> Tensor:
    """A new tensor with the values of an array, a nested list, a scalar or a tensor."""
    if not 0 <= ndmax <= MAX_AXES:
        raise ValueError(f"ndmax must be in the range [0, {MAX_AXES}]: {ndmax}")
    if ndmin > (ndmax or ndmin):
        raise ValueError(f"ndmin must be <= ndmax: {ndmin}, {ndmax}")
    check_copy(copy)
    made = asarray(object, dtype, copy=copy, order=order, like=like)
    if ndmax and made.ndim > ndmax:
        raise ValueError(
            "setting an array element with a sequence. The requested array would exceed the "
            f"maximum number of dimension of {ndmax}."
        )
    if made.ndim < ndmin:
        made = made.reshape((1,) * (ndmin - made.ndim) + made.shape)
    return made


def copy(a: Any, order: str | None = "K", subok: bool = False) -> Tensor:
    """A tensor of its own with the same values."""
    return memory_order.copy_in_order(asarray(a), "K" if order is None else order)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The values as another dtype."""
    check_device(device)
    if not isinstance(x, Tensor | np.ndarray | np.generic):
        raise TypeError(
            f"Input should be a NumPy array or scalar, or a tensor. It is a {type(x)} instead."
        )
    return asarray(x).astype(dtype, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor with the values of any array that speaks DLPack.

    They are copied into tiles; with `copy=False` memory of the host is read where it is, and must
    not change from then on.

    >>> import infinitensor as it
    >>> it.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    if isinstance(x, Tensor) or is_torch(x):
        return asarray(x, device=device, copy=copy)
    kind, _ = x.__dlpack_device__()
    if kind != CPU or str(getattr(x, "dtype", "")).endswith("bfloat16"):  # unknown to NumPy
        return asarray(torch.utils.dlpack.from_dlpack(x), device=device, copy=copy)
    return asarray(np.from_dlpack(x), device=device, copy=copy)


def operand(session: Session, value: Any) -> tuple[Any, Spec]:
    """An operand as recording takes it, and its spec: tensors, Python scalars (weak), NumPy's."""
    if isinstance(value, Tensor):
        return value._ref(), Spec(value.shape, value.dtype)
    kind = type(value)
    if kind is int or kind is float or kind is complex:
        return value, Spec((), np.result_type(kind), kind)
    if kind is bool:
        return np.bool_(value), Spec((), np.dtype(np.bool_))
    if isinstance(value, np.generic):
        return value, Spec((), as_dtype(value.dtype))
    tensor = asarray(value)
    return tensor._ref(), Spec(tensor.shape, tensor.dtype)
