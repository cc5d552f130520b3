"""The cuts of operands' layouts, as cuts of the labels that walk along them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from infinitensor.ir.layout import Layout
    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.space import Read


class Reads(NamedTuple):
    """What a group reads, the largest first, and of what: its layouts and dtypes.

    `streamed` are reads of tiles from a lower tier, or of values made of them: how they are cut
    depends on shapes and tiles alone, not on where tiles are by now, nor whether they are
    contiguous.
    """

    by_size: list[Read]
    layouts: dict[Read, Layout]
    dtypes: dict[Read, np.dtype[Any]]
    streamed: frozenset[Read]

    @property
    def is_streamed(self) -> bool:
        """Whether the largest is."""
        return bool(self.by_size) and self.by_size[0] in self.streamed

    def borders(self, read: Read, label: int) -> tuple[int, ...] | None:
        """The borders of a label that is cut as a read's layout is; None if that cuts nothing."""
        return layout_borders(read, label, self.layouts[read])


class Bounds(NamedTuple):
    """What groups are cut for: a mesh, the elements of tiles (0: as the mesh has them), those that
    products read of one matrix at a time (0: all), the bytes that pairs may take, and the work of a
    program whose tasks are not shared by threads (0: they are), in elements."""

    mesh: Mesh
    tile_elements: int = 0
    part_elements: int = 0
    room_bytes: int = 0
    work: int = 0


def common_borders(
    by_size: list[Read], label: int, read_layouts: dict[Read, Layout]
) -> tuple[int, ...] | None:
    """The cut along a label that most of the large operands have; of equals the largest one's.

    (The reads of a stencil are shifted against each other: the cut of the middle ones moves least.)
    """
    votes: dict[tuple[int, ...], int] = {}
    for read in by_size:
        if 2 * prod(read.shape) < prod(by_size[0].shape) and votes:
            break
        borders = layout_borders(read, label, read_layouts[read])
        if borders is not None:
            votes[borders] = votes.get(borders, 0) + 1
    return max(votes, key=lambda borders: votes[borders]) if votes else None


def base_axis(read: Read, axis: int) -> int:
    """The axis of the base that an axis of an operand walks along; -1: none."""
    access = read.operand.access
    if access is None:
        return axis
    walked = access.axes[axis]
    return -1 if walked is None else walked[0]


def layout_borders(read: Read, label: int, layout: Layout) -> tuple[int, ...] | None:
    """The borders of a label that is cut as this operand's layout is; None if that cuts nothing."""
    if label not in read.labels:
        return None
    axis = read.labels.index(label)
    n = read.shape[axis]
    access = read.operand.access
    if access is None:
        borders = layout.cuts[axis]
    else:
        walked = access.axes[axis]
        if walked is None:
            return None
        base, start, step = walked
        inner = layout.cuts[base][1:-1]
        if step > 0:
            at = (-(-(c - start) // step) for c in inner)
        else:
            at = ((start - c) // -step + 1 for c in inner)
        borders = tuple(sorted({0, n, *(min(max(b, 0), n) for b in at)}))
    return borders if len(borders) > 2 else None
