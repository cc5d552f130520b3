"""Values in other memory: copies, casts, tensors in tiles from outside, other tiles, and back."""

from __future__ import annotations

import warnings
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access.compute_first import compute_parts_read_often
from infinitensor.api.record.late import call_op, new_tensor
from infinitensor.api.record.record import host_view, store_on_host
from infinitensor.api.session.cell import Ref, guard
from infinitensor.api.session.version import Version
from infinitensor.config import config
from infinitensor.dtypes import can_cast, dtype_of
from infinitensor.errors import LayoutError
from infinitensor.ir.layout import Layout
from infinitensor.ir.region import grid_shape, whole_box
from infinitensor.ir.view import of_picked, structure, take
from infinitensor.partition import canonical_layout
from infinitensor.runtime import TileTable
from infinitensor.storage import Part

if TYPE_CHECKING:
    from infinitensor.api.session.cell import AnyTensor, BaseTensor
    from infinitensor.api.session.session import Session
    from infinitensor.storage import Stored


@guard
def copy_tensor(tensor: AnyTensor) -> AnyTensor:
    """A tensor of its own with the same values."""
    values = _copy_few(tensor)
    if values is None and compute_parts_read_often(tensor._session, (tensor,)):
        values = _copy_few(tensor)
    if values is not None:
        tensor._session.ways["numpy"] += 1
        return new_tensor(tensor, store_on_host(tensor._session, values))
    made: AnyTensor = call_op("_copy", tensor)
    return _as_array(made)


def _copy_few(tensor: BaseTensor) -> np.ndarray | None:
    """A copy of few values that are stored where NumPy can read them; None for any others."""
    version = tensor._version
    if tensor.size > config.small_elements or not config.small_elements:
        return None
    if version.host is not None:
        return np.array(host_view(tensor._ref()), order="C")
    if version.table is None or tensor._session.engine.mesh.kind != "cpu":
        return None
    if tensor._view is not None and structure(tensor._view) is None:
        return None
    return read_view(tensor)


@guard
def cast(tensor: AnyTensor, dtype: np.dtype[Any], copy: bool, casting: str) -> AnyTensor:
    """The values as another dtype."""
    if not can_cast(tensor.dtype, dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {tensor.dtype!r} to {dtype!r} "
            f"according to the rule {casting!r}"
        )
    if dtype == tensor.dtype:
        return copy_tensor(tensor) if copy else tensor
    if tensor.dtype.kind == "c" and dtype.kind not in "cb":
        warnings.warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
            stacklevel=3,
        )
    made: AnyTensor = call_op("_cast", tensor, dtype=dtype)
    return _as_array(made)


def _as_array(made: AnyTensor) -> AnyTensor:
    """A tensor that nobody else has, as an array though it may have no axes."""
    made._is_value = False
    return made


def store_in_tiles(session: Session, values: Any) -> Version:
    """A version in tiles on the session's devices, with a copy of the values (NumPy or torch)."""
    with session.guard():
        session.check_open()
        session.drain()
        engine = session.engine
        layout = canonical_layout(tuple(values.shape), engine.mesh, config.tile_elements)
        return _into(session, values, layout)


def of_file(session: Session, stored: Stored) -> Version:
    """A version over an array in a file."""
    version = Version(session, stored.shape, stored.dtype)
    with session.guard():
        session.check_open()
        session.keep(version, TileTable.of_file(Part(stored)), "open")
        session.has_files = True
    return version


def _into(session: Session, values: Any, layout: Layout) -> Version:
    version = Version(session, tuple(values.shape), dtype_of(values))
    session.keep(version, session.store(values, layout), "asarray")
    return version


def relayout(tensor: AnyTensor, pieces: tuple[int, ...]) -> AnyTensor:
    """The same values in other tiles."""
    if len(pieces) != tensor.ndim or any(p < 1 for p in pieces):
        raise LayoutError(
            f"relayout{pieces}: a tensor of shape {tensor.shape} needs {tensor.ndim} counts >= 1"
        )
    session = tensor._session
    cuts = tuple(
        tuple(n * k // p for k in range(p + 1)) for n, p in zip(tensor.shape, pieces, strict=True)
    )
    n_tiles = prod(grid_shape(cuts))
    n_devices = session.engine.mesh.n_devices
    owners = tuple(i * n_devices // n_tiles for i in range(n_tiles))
    with session.guard():
        return new_tensor(tensor, _into(session, tensor.numpy(), Layout(cuts, owners)))


def read_view(tensor: BaseTensor) -> np.ndarray:
    """The values of a stored tensor, from its tiles."""
    session = tensor._session
    version = tensor._version
    table = version.table
    assert table is not None
    read = partial(session.engine.read, table)
    view = tensor._view
    if view is None:
        return read(whole_box(version.shape))
    if 0 in view.shape:
        return np.empty(view.shape, tensor.dtype)
    access = structure(view)
    if access is not None:
        box = whole_box(view.shape)
        region = access.base_region(box)
        hull = tuple((lo, hi) for lo, hi, _ in region)
        values = read(hull, tuple(step for _, _, step in region))
        if table.is_file:
            session.counts["bytes_read"] += values.nbytes
        return np.array(take(values, of_picked(access, view.shape), box, whole_box(values.shape)))
    if table.is_file:
        return copy_tensor(tensor).numpy()
    return np.array(seen_in(read(whole_box(version.shape)), tensor))


def seen_in(base: np.ndarray, tensor: BaseTensor) -> np.ndarray:
    """The part of its base's values that a tensor shows."""
    whole = Version(tensor._session, base.shape, base.dtype)
    whole.host = base
    return host_view(Ref(whole, tensor._view, tensor.dtype))
