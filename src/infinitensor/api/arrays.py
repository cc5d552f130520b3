"""Values from outside as tensors, and what recording takes for an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from infinitensor.api import copying
from infinitensor.api.csr import csr
from infinitensor.api.export import CPU
from infinitensor.api.foreign import (
    borrowed,
    checked_torch,
    holds_tensors,
    is_sparse,
    is_torch,
    to_host,
)
from infinitensor.api.record import stored
from infinitensor.api.session import current_session
from infinitensor.api.standard import check_device
from infinitensor.api.tensor import Tensor, fresh, from_values
from infinitensor.dtypes import as_dtype, kind_of
from infinitensor.ir.op import Spec

if TYPE_CHECKING:
    from infinitensor.api.session import Session


def asarray(
    obj: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    copy: bool | None = None,
    order: str | None = None,
) -> Tensor:
    """A tensor with the values of an array, a nested list, a scalar, a column or a table.

    Arrays are those of NumPy, torch and whatever NumPy understands; columns and tables those of
    pandas, Arrow and Polars. A sparse matrix of SciPy becomes a `Csr`.

    The values are copied: later changes of `obj` do not reach the tensor, nor the other way round.
    With `copy=False` they are read where they are, and must not change from then on.

    >>> import infinitensor as it
    >>> it.asarray([[1, 2], [3, 4]]).sum().item()
    10
    """
    check_device(device)
    if isinstance(obj, Tensor):
        if dtype is not None and as_dtype(dtype) != obj.dtype:
            return obj.astype(dtype)
        return copying.copied(obj) if copy else obj
    if isinstance(obj, np.ma.MaskedArray):
        raise TypeError(
            "a masked array has values that are not there: fill it first, for example "
            "it.asarray(a.filled(0))"
        )
    session = current_session()
    if copy is not False and is_torch(obj) and obj.is_cuda and session.engine.mesh.kind == "cuda":
        made = fresh(session, copying.scattered(session, checked_torch(obj)))
        return made if dtype is None else made.astype(dtype, copy=False)
    if is_sparse(obj):
        return cast("Tensor", csr(obj) if dtype is None else csr(obj).astype(dtype))
    values = to_host(obj)
    wanted = as_dtype(values.dtype if dtype is None else dtype)
    if (
        dtype is not None
        and kind_of(values.dtype) in "iufcb"
        and values.size
        and not hasattr(obj, "dtype")
    ):
        values = np.array(obj if not holds_tensors(obj) else values, dtype=wanted)
    if copy is False:
        return fresh(session, stored(session, borrowed(obj, values, wanted)))
    return from_values(session, np.array(values, dtype=wanted, order="C"))


def array(obj: Any, dtype: Any = None, *, copy: bool | None = True, ndmin: int = 0) -> Tensor:
    """A new tensor with the values of an array, a nested list, a scalar or a tensor."""
    made = asarray(obj, dtype, copy=copy)
    if made.ndim < ndmin:
        made = made.reshape((1,) * (ndmin - made.ndim) + made.shape)
    return made


def copy(x: Any, /) -> Tensor:
    """A tensor of its own with the same values."""
    return copying.copied(asarray(x))


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The values as another dtype."""
    check_device(device)
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
        import torch

        return asarray(torch.utils.dlpack.from_dlpack(x), device=device, copy=copy)
    return asarray(np.from_dlpack(x), device=device, copy=copy)


def operand(session: Session, value: Any) -> tuple[Any, Spec]:
    """What recording takes for a value, and its spec: tensors, Python scalars (weak), NumPy's."""
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
