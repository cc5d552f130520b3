"""The tiles of a stored value: its layout, its buffers, its arrays."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from infinitensor.devices import copy_into
from infinitensor.dtypes import dtype_of
from infinitensor.errors import CorruptTileError
from infinitensor.ir.layout import DISK, HOST, Layout, single
from infinitensor.ir.region import box_shape, box_size, overlap, pick_in_tile, relative, tiles_over
from infinitensor.ir.slab import slab_bytes
from infinitensor.storage import Joined, Part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infinitensor.devices import Buffer, Device, Ledger
    from infinitensor.ir.region import Box, Cuts


class TableForm:
    """What plans know of tables that are alike, as an object: found faster than by what it is."""

    __slots__ = ("__weakref__",)


_forms: WeakValueDictionary[Any, TableForm] = WeakValueDictionary()


MOST_WINDOWS = 8
"""Parts that a table remembers."""


class TileTable:
    """Which buffer holds each tile; the one owner of those buffers.

    `partly`: its arrays are parts of what the buffers hold (a window of another table). `whole`:
    where there is one memory, all of it as one array, of which its arrays are parts.
    """

    __slots__ = (
        "_device_bytes",
        "_form",
        "_strides",
        "_windows",
        "arrays",
        "buffers",
        "dtype",
        "in_reach",
        "is_file",
        "layout",
        "lower_buffers",
        "lower_tiles",
        "made",
        "most_kept",
        "partly",
        "used_at",
        "whole",
    )

    def __init__(
        self,
        layout: Layout,
        dtype: np.dtype[Any],
        buffers: list[Buffer | None],
        arrays: list[Any] | Parts,
        partly: bool = False,
        whole: Any = None,
    ) -> None:
        self.layout = layout
        self.dtype = dtype
        self.buffers = buffers
        self.arrays = arrays
        self.partly = partly
        self.whole = whole
        self.lower_tiles: list[Any] = []
        """Of tiles that were read from lower tiers, where they can be read again; else None."""
        self.lower_buffers: list[Buffer | None] = []
        self.is_file = False
        """Whether all of it can be read from a file of the user's, wherever its tiles are."""
        self.most_kept: float | None = inf
        """Bytes that may be kept of it in device memory: as many as some program left of it that
        had no room for more; None until that program has run."""
        self.made: tuple[str, Any] = ("", "")
        """The op that made it, and the user's line."""
        self.used_at = 0
        """When it was last read: what was read long ago is evicted first."""
        self._device_bytes: dict[int, int] | None = None
        self._form: TableForm | None = None
        self._strides: Any = None
        self._windows: dict[Any, TileTable] | None = None
        """Parts of it, or other shapes, that a repeated program sees, as they were made first."""
        self.in_reach: np.ndarray | None = None if partly else whole
        """All of it as one NumPy array, where the interpreter may touch single elements."""
        if whole is None and not partly and len(arrays) == 1 and isinstance(arrays[0], np.ndarray):
            self.in_reach = arrays[0]

    @property
    def form(self) -> TableForm:
        """What a plan knows of it: the same object for tables that are alike. (Asked for at every
        evaluation, when it has changed hands for the last time.)"""
        if self._form is None:
            key = (self.layout, self.dtype, self.partly, self.whole is None, self.is_file)
            self._form = _forms.get(key) or _forms.setdefault(key, TableForm())
        return self._form

    @property
    def only_tile(self) -> Any:
        """The array of its only tile."""
        (array,) = self.arrays
        return array

    @property
    def strides(self) -> tuple[Any, ...]:
        """The strides of its arrays, as C walks them; nothing if some are in files or not as C
        reads them."""
        if self._strides is None:
            arrays = self.arrays if self.whole is None else [self.whole]
            are_read = all(type(x) is np.ndarray and x.flags.aligned for x in arrays)
            self._strides = tuple(array.strides for array in arrays) if are_read else ()
        return self._strides  # type: ignore[no-any-return]

    @classmethod
    def of_host(cls, values: np.ndarray) -> TileTable:
        """A table over a NumPy array that stays where it is."""
        return cls(single(values.shape, HOST), values.dtype, [None], [values], whole=values)

    @classmethod
    def of_file(cls, values: Any) -> TileTable:
        """A table over an array in a file, in one tile: tasks read the boxes they need."""
        table = cls(single(values.shape, DISK), values.dtype, [None], [values])
        table.is_file = True
        return table

    @classmethod
    def scatter(
        cls,
        values: Any,
        layout: Layout,
        devices: Sequence[Device],
        ledgers: Sequence[Ledger],
        is_one_memory: bool,
    ) -> TileTable:
        """Copy a NumPy array, or a torch tensor on a GPU, into tiles on the devices."""
        dtype = dtype_of(values)
        if is_one_memory:
            table = cls.in_one_piece(layout, tuple(values.shape), dtype, devices[0], ledgers[0])
            devices[0].from_host(table.whole, values)
            return table
        buffers: list[Buffer | None] = []
        arrays = []
        for index in range(layout.n_tiles):
            box = layout.tile(index)
            owner = layout.owner(index)
            buffer, array = _take(box_shape(box), dtype, devices[owner], ledgers[owner])
            devices[owner].from_host(array, values[tuple(slice(lo, hi) for lo, hi in box)])
            buffers.append(buffer)
            arrays.append(array)
        return cls(layout, dtype, buffers, arrays)

    @classmethod
    def in_one_piece(
        cls,
        layout: Layout,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        device: Device,
        ledger: Ledger,
    ) -> TileTable:
        """Tiles without values that are parts of one piece of memory."""
        piece, whole = _take(shape, dtype, device, ledger)
        return cls(layout, dtype, [piece] * layout.n_tiles, parts(whole, layout), whole=whole)

    @classmethod
    def in_one_tile(
        cls,
        layout: Layout,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        device: Device,
        ledger: Ledger,
    ) -> TileTable:
        """One tile without values, in memory of a device."""
        buffer, array = _take(shape, dtype, device, ledger)
        return cls(layout, dtype, [buffer], [array])

    def with_read(self, cuts: Cuts, tiles: dict[int, tuple[int, Any, Buffer]]) -> TileTable:
        """The same values in these tiles, some of which have been read: (device, values, slab).

        A tile that is in no lower tier stays where it is, whatever is read.
        """
        layout = Layout(cuts, (DISK,))
        found: list[tuple[Any, ...]] = []
        for k in range(layout.n_tiles):
            box = layout.tile(k)
            (index,) = tiles_over(self.layout.cuts, box)
            source, slab = None, None
            if self.lower_tiles:
                source, slab = self.lower_tiles[index], self.lower_buffers[index]
            elif self.layout.owner(index) < 0:
                source, slab = self.arrays[index], self.buffers[index]
            part = None if source is None else source[relative(box, self.layout.tile(index))]
            owner = HOST if isinstance(part, np.ndarray) else DISK
            here = (owner, part, slab)
            if part is None and self.layout.owner(index) >= 0:
                assert box == self.layout.tile(index), "a tile that is nowhere else is not cut"
                here = (self.layout.owner(index), self.arrays[index], self.buffers[index])
            found.append((*tiles.get(k, here), part, slab))
        owners, arrays, buffers, lower, slabs = map(list, zip(*found, strict=True))
        alike = owners[:1] if len(set(owners)) == 1 else owners
        table = TileTable(Layout(cuts, tuple(alike)), self.dtype, buffers, arrays)
        table.lower_tiles, table.lower_buffers = lower, slabs
        table.made, table.is_file = self.made, self.is_file
        return table

    def join(self) -> TileTable | None:
        """The same values in one tile, to be read in others than they were evicted in; None where
        not all of them are in files of ours."""
        parts = list(self.arrays)
        if self.is_file or not self.is_in_files or len(parts) < 2:
            return None
        if not all(isinstance(part, Part) for part in parts):
            return None
        shape = tuple(borders[-1] for borders in self.layout.cuts)
        stored = parts[0].stored
        if stored.shape != shape or any(part.stored is not stored for part in parts):
            stored = Joined(self.layout.cuts, parts)
        table = TileTable(single(shape, DISK), self.dtype, [None], [Part(stored)])
        table.made, table.used_at, table.most_kept = self.made, self.used_at, self.most_kept
        return table

    def without(self, gone: set[int]) -> TileTable:
        """The same values, with some tiles that were read only where they can be read again."""
        kept = {
            k: (owner, self.arrays[k], buffer)
            for k, owner in enumerate(self.layout.owner_array.tolist())
            if owner >= 0 and k not in gone and (buffer := self.buffers[k]) is not None
        }
        table = self.with_read(self.layout.cuts, kept)
        table.used_at = self.used_at
        table.most_kept = None
        return table

    def as_written(self) -> TileTable:
        """The same memory, for values of which some are written: no lower tier has them any
        more."""
        table = TileTable(self.layout, self.dtype, self.buffers, self.arrays, whole=self.whole)
        table.made, table.used_at = self.made, self.used_at
        return table

    def first(self, n: int) -> TileTable:
        """The first n elements of a line in one tile, in its memory, which is theirs from now."""
        (array,) = self.arrays
        layout = single((n,), self.layout.owner(0))
        return TileTable(layout, self.dtype, self.buffers, [array[:n]])

    def window(self, box: Box) -> TileTable:
        """A part of it, as views of its tiles: no copy. What is in memory remembers the last few.

        They go with its tiles: a program that is repeated sees the same parts of the same tables.
        """
        known = self._windows
        if known is not None and (seen := known.get(box)) is not None:
            return seen
        seen = self._window(box)
        if not self.layout.is_in_lower_tier:
            if known is None or len(known) >= MOST_WINDOWS:
                known = self._windows = {}
            known[box] = seen
        return seen

    def reshaped(self, shape: tuple[int, ...]) -> TileTable | None:
        """The values of its one tile on a GPU in another shape, over the same memory; None where
        it has others."""
        known = self._windows
        if known is not None and (seen := known.get(shape)) is not None:
            return seen
        if len(self.arrays) != 1 or self.partly or self.layout.is_in_lower_tier:
            return None
        (array,) = self.arrays
        if array is None or isinstance(array, np.ndarray) or not array.is_contiguous():
            return None  # the null device keeps none
        layout = single(shape, self.layout.owner(0))
        seen = TileTable(layout, self.dtype, self.buffers, [array.view(shape)], partly=True)
        seen.made = self.made
        if known is None or len(known) >= MOST_WINDOWS:
            known = self._windows = {}
        known[shape] = seen
        return seen

    def without_windows(self) -> None:
        """Remember no part of it: its memory is given to others."""
        self._windows = None

    def _window(self, box: Box) -> TileTable:
        layout = self.layout
        touched = tiles_over(layout.cuts, box)
        cuts = tuple(
            (0, *(at - lo for at in borders if lo < at < hi), hi - lo)
            for borders, (lo, hi) in zip(layout.cuts, box, strict=True)
        )
        owners = [layout.owner(k) for k in touched]
        arrays = [_cut_out(self.arrays[k], layout.tile(k), box) for k in touched]
        alike = owners[:1] if len(set(owners)) == 1 else owners
        buffers = [self.buffers[k] for k in touched]
        whole = None
        if self.whole is not None:
            whole = self.whole[tuple(slice(lo, hi) for lo, hi in box)]
        table = TileTable(
            Layout(cuts, tuple(alike)), self.dtype, buffers, arrays, partly=True, whole=whole
        )
        table.made, table.is_file = self.made, self.is_file
        return table

    def read(
        self, box: Box, devices: Sequence[Device], steps: tuple[int, ...] | None = None
    ) -> np.ndarray:
        """The values of a box, or of each axis of it every so many, as a new NumPy array. Of a file
        of the user's nothing else is read."""
        apart = (1,) * len(box) if steps is None else steps
        is_apart = any(step > 1 for step in apart)
        if self.whole is not None and not is_apart:
            return np.array(self.whole[tuple(slice(lo, hi) for lo, hi in box)], order="C")
        owner = self.layout.owner(0)
        is_one = len(self.arrays) == 1 and owner >= 0 and devices[owner].kind == "cuda"
        if is_one and not is_apart and tuple(self.arrays[0].shape) == box_shape(box):
            return devices[owner].to_host(self.arrays[0])  # a copy of its own
        lengths = [len(range(*ends, step)) for ends, step in zip(box, apart, strict=True)]
        out = np.empty(lengths, self.dtype)
        for index, tile in self.layout.overlaps(box):
            found = pick_in_tile(box, apart, tile)
            if found is None:
                continue
            spot: Any = (..., *found[0])  # an array, even of one element
            where = tuple(
                slice(s.start - lo, s.stop - lo, s.step)
                for s, (lo, _) in zip(found[1], tile, strict=True)
            )
            array, owner = self.arrays[index], self.layout.owner(index)
            try:
                if is_apart and isinstance(array, Part):
                    array.read_apart(out[spot], where)
                else:
                    values = devices[owner].to_host(array, where) if owner >= 0 else array[where]
                    copy_into(out[spot], values)
            except CorruptTileError as error:
                self.name_in(error)
                raise
        return out

    def local_tiles(self) -> dict[int, Any]:
        """The arrays of the tiles in this process, by number."""
        return dict(enumerate(self.arrays))

    def lend(self, index: int) -> None:
        """Somebody outside sees the memory of a tile: it is not used again when the tile goes."""
        buffer = self.buffers[index]
        if buffer is not None:
            buffer.exported = True

    def name_in(self, error: CorruptTileError) -> None:
        """Say in an error whose values are lost."""
        op, site = self.made
        error.add_note(f"infinitensor: it is of what {op!r} made at {site}; that is not kept")

    def device_bytes(self) -> dict[int, int]:
        """Bytes that its tiles take in the ledger of each device."""
        if self._device_bytes is None:
            found: dict[int, int] = {}
            for index, buffer in enumerate(self.buffers if self.whole is None else ()):
                owner = self.layout.owner(index)
                if buffer is not None and owner >= 0:
                    n_bytes = buffer.n_bytes
                    if self.partly:
                        lengths = box_size(self.layout.tile(index)) * self.dtype.itemsize
                        n_bytes = min(n_bytes, int(slab_bytes(lengths)))
                    found[owner] = found.get(owner, 0) + n_bytes
            # (beside GPUs a tile on the host is one array too, but of no device)
            if self.whole is not None and self.n_bytes and self.layout.owner(0) >= 0:
                found[0] = min(self.n_bytes, int(slab_bytes(self.whole.nbytes)))
            self._device_bytes = found
        return self._device_bytes

    @property
    def was_read(self) -> bool:
        """Whether tiles of it were read from lower tiers, where they can be read again."""
        return bool(self.lower_tiles)

    def is_spare(self, index: int) -> bool:
        """Whether a tile is in device memory only to be read less: it is in a lower tier too."""
        is_in_lower_tier = bool(self.lower_tiles) and self.lower_tiles[index] is not None
        return is_in_lower_tier and self.layout.owner(index) >= 0

    def spares(self) -> dict[int, int]:
        """The bytes of every spare tile."""
        found = ((k, b) for k, b in enumerate(self.buffers) if self.is_spare(k))
        return {k: buffer.n_bytes for k, buffer in found if buffer is not None}

    @property
    def spare_bytes(self) -> int:
        """Bytes of device memory that can be had without writing anything."""
        return sum(self.spares().values())

    @property
    def bytes_to_evict(self) -> int:
        """Bytes that are written when it goes to a lower tier: a slab of several tiles once."""
        slabs = {
            id(b): b.n_bytes
            for k, b in enumerate(self.buffers)
            if b is not None and self.layout.owner(k) >= 0 and not self.is_spare(k)
        }
        return sum(slabs.values())

    def lower_parts(self) -> list[Any]:
        """By tile: where its values can be read in a lower tier, or None."""
        if self.lower_tiles:
            return self.lower_tiles
        owners = self.layout.owner_array.tolist()
        return [self.arrays[k] if owner < 0 else None for k, owner in enumerate(owners)]

    @property
    def is_in_files(self) -> bool:
        """Whether all of it is in files, the user's or ours, and nothing has stayed in memory."""
        return self.layout.owners == (DISK,) and not self.partly

    @property
    def is_one_file(self) -> bool:
        """Whether it is in a file and not in tiles yet."""
        return self.is_in_files and self.layout.n_tiles == 1

    @property
    def is_whole(self) -> bool:
        """Whether all of it is in memory in one piece."""
        layout = self.layout
        return self.whole is not None or (layout.n_tiles == 1 and layout.owners[0] >= HOST)

    @property
    def n_bytes(self) -> int:
        """Bytes of the buffers."""
        return sum({id(b): b.n_bytes for b in self.buffers if b is not None}.values())


class BlankTable:
    """Tables that are made again and again, each of other tiles: of the same form."""

    __slots__ = ("_form", "_model", "dtype", "layout")

    def __init__(self, layout: Layout, dtype: np.dtype[Any]) -> None:
        self.layout = layout
        self.dtype = dtype
        self._form: TableForm | None = None
        self._model: TileTable | None = None
        """A table of that form without tiles, of which C makes the next."""

    def fill(self, buffers: list[Any], arrays: list[Any]) -> TileTable:
        """The table of these tiles."""
        table = TileTable(self.layout, self.dtype, buffers, arrays)
        if self._form is None:
            self._form = table.form
            self._model = TileTable(self.layout, self.dtype, [], [])
            self._model._form = self._form
        table._form = self._form
        return table


def _take(
    shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, ledger: Ledger
) -> tuple[Buffer, Any]:
    """Memory of a device for values of a shape, and the array over it."""
    buffer = ledger.take(int(slab_bytes(prod(shape) * dtype.itemsize)))
    return buffer, device.array(buffer.block, shape, dtype)


def _cut_out(array: Any, tile: Box, window: Box) -> Any:
    if array is None:  # the null device keeps none
        return None
    common = overlap(tile, window)
    assert common is not None
    return array[relative(common, tile)]


class Parts:
    """The tiles of an array, as parts of it that are made when they are asked for."""

    __slots__ = ("_layout", "_whole")

    def __init__(self, whole: Any, layout: Layout) -> None:
        self._whole = whole
        self._layout = layout

    def __len__(self) -> int:
        return self._layout.n_tiles

    def __getitem__(self, index: int) -> Any:
        return self._whole[(..., *self._layout.slices[index])]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))


def parts(whole: Any, layout: Layout) -> list[Any]:
    """The tiles of an array, as parts of it."""
    return [whole[(..., *part)] for part in layout.slices]
