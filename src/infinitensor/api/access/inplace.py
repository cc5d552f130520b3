"""In-place operators: what `x += v` and its kin compute, with NumPy's casting rule and errors."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access.compute_first import compute_before_write
from infinitensor.api.access.setitem import write
from infinitensor.api.access.view_strides import tight
from infinitensor.api.evaluate.whole_ops import waits_for_more
from infinitensor.api.record.late import call_op, is_tensor
from infinitensor.api.session.cell import guard
from infinitensor.config import config

if TYPE_CHECKING:
    from infinitensor.api.session.cell import AnyTensor, BaseTensor


@guard
def in_place(tensor: AnyTensor, name: str, other: Any) -> AnyTensor:
    """`x op= y`, with NumPy's casting rule and errors."""
    _check_writable_operand(tensor)
    compute_before_write(tensor, tensor.shape, other)
    if tensor.size <= config.small_elements and not waits_for_more(
        tensor._version, tensor._session.engine.mesh.n_concurrent
    ):
        compute_before_write(tensor, tensor.shape, None)  # where the other is still much work
    if not (is_tensor(other) or isinstance(other, bool | int | float | complex)):
        other = np.asarray(other)
    if name == "matmul":
        result = call_op(name, tensor, other)
        _check_cast("add", tensor.dtype, result.dtype)
    else:
        if hasattr(other, "dtype"):
            _check_cast(name, tensor.dtype, other.dtype)
        else:
            _try(name, tensor.dtype, other)
        result = tensor**other if name == "power" else call_op(name, tensor, other)
    if result.shape != tensor.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {tight(tensor.shape)} doesn't match the "
            f"broadcast shape {tight(result.shape)}"
        )
    if _may_become(tensor, result):
        tensor._cell.show(result._version)
    else:
        write(tensor, tensor._whole(), result)
    return tensor


def _may_become(tensor: BaseTensor, result: BaseTensor) -> bool:
    """Whether a tensor can show what was just computed for it, which nobody else has, as it is.

    So it is part of one pass with what it is computed from and what is computed from it.
    """
    return (
        tensor.size > config.small_elements
        and result.dtype == tensor.dtype
        and result._version.node is not None
        and result._view is None
        and result._session is tensor._session
        and not tensor._frozen
        and tensor._whole().is_whole
    )


@functools.cache
def _check_cast(name: str, target: np.dtype[Any], given: np.dtype[Any]) -> None:
    """NumPy's error if `x op= y` cannot be cast back; what is cached is that there is none."""
    _try(name, target, np.empty(0, given))


def _try(name: str, target: np.dtype[Any], other: Any) -> None:
    ghost = np.empty(0, target)
    with np.errstate(all="ignore"):
        getattr(np, name)(ghost, other, out=ghost)


def _check_writable_operand(tensor: BaseTensor) -> None:
    if tensor._frozen:
        raise ValueError("output array is read-only")
