"""Values from outside: what other libraries' arrays, columns and tables are as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.api.convert.dataframes import frame_values, is_frame
from infinitensor.api.tensor.tensor import Tensor
from infinitensor.dtypes import dtype_of, kind_of, to_numpy


def holds_tensors(obj: Any) -> bool:
    """Whether a nested list has tensors in it."""
    return isinstance(obj, list | tuple) and any(
        isinstance(o, Tensor) or holds_tensors(o) for o in obj
    )


def is_torch(obj: Any) -> bool:
    """Whether this is a torch tensor; torch is not imported to find out."""
    return type(obj).__module__.startswith("torch") and hasattr(obj, "detach")


def is_sparse(obj: Any) -> bool:
    """Whether this is a sparse matrix of SciPy."""
    return type(obj).__module__.startswith("scipy.sparse") and hasattr(obj, "tocsr")


def to_host(obj: Any) -> np.ndarray:
    """The values of an object as a NumPy array; not copied where they are one already."""
    if holds_tensors(obj):
        return np.array([to_host(o) if not isinstance(o, Tensor) else o.numpy() for o in obj])
    if is_torch(obj):
        return to_numpy(checked_torch(obj).cpu())
    if is_frame(obj):
        return frame_values(obj)
    values = np.asarray(obj)
    if kind_of(values.dtype) in "OSUmMV":
        raise TypeError(
            f"infinitensor holds numbers: an array of dtype {values.dtype} cannot become a tensor; "
            "convert it first, for example a.astype(float)"
        )
    return values


def checked_torch(obj: Any) -> Any:
    """A torch tensor whose values can be taken."""
    if obj.device.type == "meta":
        raise TypeError("a torch tensor on the meta device has no values to make a tensor of")
    if obj.requires_grad:
        raise RuntimeError(
            "this torch tensor requires grad, and tensors record no gradients: give x.detach()"
        )
    if obj.is_sparse or obj.layout != obj.new_empty(()).layout:
        raise TypeError(f"a torch tensor of layout {obj.layout} is not dense: give x.to_dense()")
    dtype_of(obj)
    return obj.resolve_conj().resolve_neg()


def borrowed(obj: Any, values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The values as a read-only array over the object's own memory; a ValueError if they are not.

    Nothing of ours writes to it: a version with such a host value is copied before it is changed.
    """
    foreign = isinstance(obj, np.ndarray) or is_torch(obj) or hasattr(obj, "__array_interface__")
    if not foreign or values.dtype != dtype or not values.flags.c_contiguous:
        raise ValueError(
            f"copy=False: {type(obj).__name__} values as {dtype} in C order are a copy; leave "
            "copy= out"
        )
    if is_torch(obj) and obj.device.type != "cpu":
        raise ValueError("copy=False: from a GPU to the host is a copy; leave copy= out")
    seen = values.view()
    seen.flags.writeable = False
    return seen
