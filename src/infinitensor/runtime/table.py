"""The tiles of a stored value: its layout, its buffers, its arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import dtype_of
from infinitensor.ir.layout import HOST, single
from infinitensor.ir.region import box_shape, overlap, relative

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.devices import Buffer, Device, Ledger
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.region import Box


class TileTable:
    """Which buffer holds each tile; the one owner of those buffers."""

    __slots__ = ("arrays", "buffers", "dtype", "layout")

    def __init__(
        self, layout: Layout, dtype: np.dtype[Any], buffers: list[Buffer | None], arrays: list[Any]
    ) -> None:
        self.layout = layout
        self.dtype = dtype
        self.buffers = buffers
        self.arrays = arrays

    @classmethod
    def of_host(cls, values: np.ndarray) -> TileTable:
        """A table over a NumPy array that stays where it is."""
        return cls(single(values.shape, HOST), values.dtype, [None], [values])

    @classmethod
    def scatter(
        cls,
        values: Any,
        layout: Layout,
        devices: Sequence[Device],
        ledgers: Sequence[Ledger],
    ) -> TileTable:
        """Copy a NumPy array, or a torch tensor on a GPU, into tiles on the devices."""
        from infinitensor.ir.slab import slab_bytes

        dtype = dtype_of(values)
        buffers: list[Buffer | None] = []
        arrays = []
        for index in range(layout.n_tiles):
            box = layout.tile(index)
            owner = layout.owner(index)
            shape = box_shape(box)
            n_bytes = int(slab_bytes(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize))
            buffer = ledgers[owner].take(n_bytes)
            array = devices[owner].array(buffer.block, shape, dtype)
            devices[owner].from_host(array, values[tuple(slice(lo, hi) for lo, hi in box)])
            buffers.append(buffer)
            arrays.append(array)
        return cls(layout, dtype, buffers, arrays)

    def read(self, box: Box, devices: Sequence[Device]) -> np.ndarray:
        """The values of a box as a new NumPy array."""
        out = np.empty(box_shape(box), self.dtype)
        for index, tile in self.layout.overlaps(box):
            common = overlap(tile, box)
            if common is None:
                continue
            owner = self.layout.owner(index)
            array = self.arrays[index]
            if owner != HOST:
                array = devices[owner].to_host(array)
            out[relative(common, box)] = array[relative(common, tile)]
        return out

    @property
    def n_bytes(self) -> int:
        """Bytes of the buffers."""
        return sum(b.n_bytes for b in self.buffers if b is not None)
