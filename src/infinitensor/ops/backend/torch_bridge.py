"""Between NumPy tiles and torch: zero-copy where it can be, and what the two do not share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import from_numpy, to_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch


def tensor_of(tile: np.ndarray[Any, Any], dtype: np.dtype[Any] | None = None) -> torch.Tensor:
    """A torch tensor over the tile's memory; a copy where torch cannot share it or casts.

    torch knows no negative strides, and warns of memory that it may not write.
    """
    if dtype is not None and tile.dtype != dtype:
        return from_numpy(tile.astype(dtype))
    if not tile.flags.writeable or any(stride < 0 for stride in tile.strides):
        tile = tile.copy()
    return from_numpy(tile)


def dtype_of(tile: Any) -> np.dtype[Any]:
    """The dtype of a tile, NumPy's or torch's, as NumPy's."""
    if isinstance(tile.dtype, np.dtype):
        return tile.dtype
    return np.dtype(str(tile.dtype).rpartition(".")[2])


def as_signed(tile: torch.Tensor) -> torch.Tensor:
    """The same bits as signed integers where torch only stores the unsigned dtype."""
    import torch

    signed = {
        torch.uint16: torch.int16,
        torch.uint32: torch.int32,
        torch.uint64: torch.int64,
    }.get(tile.dtype)
    return tile if signed is None else tile.view(signed)


def strided(tile: Any, start: int, shape: Sequence[int], strides: Sequence[int], out: Any) -> None:
    """out[i] = the tile's memory at `start + i . strides`, all counted in elements."""
    if isinstance(tile, np.ndarray):
        n_bytes = tile.dtype.itemsize
        flat = _from(tile, start)
        out[...] = np.lib.stride_tricks.as_strided(
            flat, tuple(shape), tuple(s * n_bytes for s in strides), writeable=False
        )
        return
    # torch has no negative strides: read such axes forwards and flip.
    falling = [axis for axis, stride in enumerate(strides) if stride < 0]
    start += sum(strides[axis] * (shape[axis] - 1) for axis in falling)
    rising = [abs(stride) for stride in strides]
    view = as_signed(tile).as_strided(shape, rising, tile.storage_offset() + start)
    as_signed(out).copy_(view.flip(falling) if falling else view)


def _from(tile: np.ndarray[Any, Any], start: int) -> np.ndarray[Any, Any]:
    """A one-element window of the tile's memory, `start` elements after its first."""
    corner = tile[(slice(0, 1),) * tile.ndim]
    if not start:
        return corner
    shift = np.lib.stride_tricks.as_strided(
        corner.reshape(1) if not corner.ndim else corner[(0,) * (corner.ndim - 1)],
        (abs(start) + 1,),
        (tile.dtype.itemsize if start > 0 else -tile.dtype.itemsize,),
        writeable=False,
    )
    return shift[-1:]


def strides_of(tile: Any) -> tuple[int, ...]:
    """The tile's strides, counted in elements."""
    if isinstance(tile, np.ndarray):
        return tuple(stride // tile.dtype.itemsize for stride in tile.strides)
    return tuple(tile.stride())


def cast(xp: Any, tile: Any, dtype: np.dtype[Any]) -> Any:
    """The tile in another dtype; itself where it has that already."""
    return tile.astype(dtype, copy=False) if xp is np else tile.to(to_torch(dtype))
