"""Memory given out: NumPy, torch, DLPack and CUDA arrays over a tensor's own tiles, not copied.

A version whose memory was given out is never written in place: a later write to the tensor goes to
a copy. Its buffers are not used again, and are counted until the last array over them is gone.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from infinitensor.api.access import copies
from infinitensor.api.record.record import host_view
from infinitensor.dtypes import bfloat16, from_numpy
from infinitensor.ir.region import whole_box
from infinitensor.ir.view import structure, take, whole_view
from infinitensor.lazy_torch import torch

if TYPE_CHECKING:
    from infinitensor.api.session.cell import BaseTensor

CPU, CUDA = 1, 2
"""DLPack's numbers of the kinds of devices."""


def lend(tensor: BaseTensor, values: Any, tile: int = 0) -> Any:
    """An array to give out, over `values`, which are in a tile of a tensor; NumPy's read-only."""
    version = tensor._version
    version.exported += 1
    if version.table is not None:
        version.table.lend(tile)
    if not isinstance(values, np.ndarray):
        assert version.table is not None
        owner = version.table.layout.owner(tile)
        tensor._session.engine.synchronize(owner)  # others know nothing of our stream
        return values.detach()
    seen = values.view()
    seen.flags.writeable = False
    return seen


def tiles(tensor: BaseTensor) -> list[tuple[Any, Any]]:
    """(box, array) of every tile of a whole tensor."""
    if tensor._view is not None and not tensor._view.is_whole:
        raise ValueError("local_tiles(): this is a view; take x.copy().local_tiles()")
    with tensor._session.guard():
        tensor._compute()
        version = tensor._version
        if version.table is None:
            return [(whole_box(tensor.shape), lend(tensor, version.host))]
        table = version.table
        found = table.local_tiles().items()
        return [(table.layout.tile(i), lend(tensor, values, i)) for i, values in found]


def one_piece(tensor: BaseTensor) -> Any:
    """The values over the tensor's own memory, or None where they are not in one piece of it."""
    with tensor._session.guard():
        tensor._session.check_open()
        tensor._compute()
        version = tensor._version
        if any(step < 0 for step in tensor._whole().strides):
            return None  # torch knows no such strides, and ends the process over them
        if version.host is not None:
            return None if tensor.device == "cuda" else lend(tensor, host_view(tensor._ref()))
        table = version.table
        assert table is not None
        values = table.local_tiles().get(0) if table.layout.n_tiles == 1 else None
        if values is None:
            return None
        if tensor._view is not None:
            access = structure(tensor._view)
            if access is None:
                return None
            values = take(values, access, whole_box(tensor.shape), whole_box(version.shape))
        return lend(tensor, values)


def gather_tensor(tensor: BaseTensor) -> Any:
    """The values in one piece of a device's memory: the tensor's own, or a copy in one tile."""
    found = one_piece(tensor)
    if found is not None:
        return found
    if tensor.device != "cuda":
        return tensor.numpy()
    return one_piece(copies.relayout(tensor, (1,) * tensor.ndim))


def array(tensor: BaseTensor, dtype: Any, copy: bool | None) -> np.ndarray:
    """The array that NumPy gets: its own (`copy=True`), or one that cannot be written.

    NumPy's `asarray` of an array is that array, and who writes to it means the array. Ours cannot
    be: so a write is refused, where it would be lost. As another dtype NumPy's is a copy too.
    """
    if copy is not False:
        values = _in_base(tensor) if _is_for_strides(tensor) else tensor.numpy()
        if dtype is not None and np.dtype(dtype) != values.dtype:
            return values.astype(dtype)
        if not copy:
            values.flags.writeable = False
        return values
    if dtype is not None and np.dtype(dtype) != tensor.dtype:
        raise ValueError(f"copy=False: {tensor.dtype} values as {np.dtype(dtype)} are a copy")
    found = None if tensor.device == "cuda" else one_piece(tensor)
    if found is None:
        raise ValueError(
            "copy=False: this tensor is not in one piece of host memory, an array of its "
            "values is a copy. Leave copy= out, or take the arrays of x.local_tiles()"
        )
    return np.asarray(found)


def _is_for_strides(tensor: BaseTensor) -> bool:
    """Whether NumPy's `as_strided` asks for a view, to walk over the base with other strides.

    It does not ask us by its name, as NumPy's other functions do; a copy of the view alone would
    let it walk out of the copy.
    """
    return tensor._view is not None and sys._getframe(3).f_code is as_strided.__code__


def _in_base(tensor: BaseTensor) -> np.ndarray:
    """The values as a view of a copy of all of the base."""
    base = tensor._seen_as(whole_view(tensor._version.shape))
    return copies.seen_in(base.numpy(), tensor)


def dlpack_device(tensor: BaseTensor) -> tuple[int, int]:
    """(kind, number) of the device that `dlpack` gives memory of."""
    if tensor.device != "cuda":
        return (CPU, 0)
    tensor._compute()
    table = tensor._version.table
    owner = 0 if table is None or table.layout.n_tiles != 1 else table.layout.owner(0)
    return (CUDA, tensor._session.engine.gpu_index(owner))


def dlpack(
    tensor: BaseTensor, stream: Any, max_version: Any, dl_device: Any, copy: bool | None
) -> Any:
    """A DLPack capsule: of our memory where the tensor is one tile, else of a copy in one piece."""
    here = dlpack_device(tensor)
    wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if wanted not in (here, (CPU, 0)):
        raise BufferError(
            f"this tensor is on DLPack device {here}, not {wanted}; copy it there from the host: "
            "give dl_device=(1, 0)"
        )
    if wanted != here and copy is False:
        raise BufferError("copy=False: from a GPU to the host is a copy")
    versioned = max_version is not None and tuple(max_version) >= (1, 0)
    options: dict[str, Any] = {"max_version": (1, 0)} if versioned else {}
    if wanted[0] == CPU and (copy or wanted != here):
        return _on_host(tensor.numpy(), options)
    # torch makes the capsules of bfloat16, which NumPy has not; it cannot say "read-only"
    versioned = versioned and tensor.dtype != bfloat16
    found = one_piece(tensor)
    if copy is False and (found is None or (here[0] == CPU and not versioned)):
        raise BufferError(
            "copy=False: this tensor is not in one piece; leave copy= out, or take the "
            "arrays of x.local_tiles()"
            if found is None
            else "copy=False: our memory is read-only, which only DLPack 1.0 can say (give "
            "max_version=(1, 0)), and nobody can for bfloat16; leave copy= out"
        )
    if here[0] == CPU:
        # before DLPack 1.0 nobody could say that memory is read-only: give a copy instead
        return _on_host(found if found is not None and versioned else tensor.numpy(), options)
    values = gather_tensor(tensor) if found is None else found
    values = values.clone() if copy else values
    return (
        values.__dlpack__(**options)
        if stream is None
        else values.__dlpack__(stream=stream, **options)
    )


def _on_host(values: np.ndarray, options: dict[str, Any]) -> Any:
    made: Any = from_numpy(values) if values.dtype == bfloat16 else values
    return made.__dlpack__(**options)


def cuda_interface(tensor: BaseTensor) -> dict[str, Any]:
    """The interface that Numba, CuPy and torch read, over a tile on a GPU.

    The protocol has no way to say when memory is let go, but whoever uses it keeps the tensor: so
    the tensor keeps what it gave out.
    """
    if tensor.device != "cuda":
        raise AttributeError("a tensor on the CPU has no __cuda_array_interface__")
    values = gather_tensor(tensor)
    tensor._lent = (*tensor._lent, values)
    interface: dict[str, Any] = dict(values.__cuda_array_interface__)
    return interface


def torch_tensor(tensor: BaseTensor) -> Any:
    """The values as a torch tensor."""
    return torch.utils.dlpack.from_dlpack(tensor)
