"""Parts of a matrix that comes from a lower tier: a product works on one while the next is brought.

A GPU's tiles are as large as they come. A weight that is brought whole has to be there before its
product begins, and until it ends: two of them must fit to overlap anything. In parts, each is free
for the next one as soon as its own product is done, and small parts stay where a weight would not.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from infinitensor.ir.region import cut_evenly

if TYPE_CHECKING:
    from infinitensor.ir.space import Read, Space
    from infinitensor.partition.operand_cuts import Reads

ALIGNED_LINES = 64
"""Parts are as many lines as a multiple of this, where they are longer: kernels like that."""


def parts_of(space: Space, reads: Reads, part_elements: int) -> tuple[int, tuple[int, ...]] | None:
    """The label along which a product reads one of its matrices in parts, and the borders of these;
    None where it reads none so.

    Parts follow the order in which the matrix is stored, so that each is one run of bytes. One that
    is in parts already is read in those, wherever they are: some of them stayed.
    """
    if not is_of_two_matrices(space):
        return None
    for read in reads.by_size:
        layout = reads.layouts[read]
        label, start = _leading_label(read)
        if label is None or label in space.uncut or not all(read.shape):
            continue
        if label in space.contracted and not can_be_chained(space):
            continue
        if layout.n_tiles > 1:
            if all(len(borders) == 2 for borders in layout.cuts[1:]):
                n = space.sizes[label]
                return label, tuple(
                    sorted({0, n, *(b - start for b in layout.cuts[0] if 0 < b - start < n)})
                )
        elif min(layout.owners) < 0 and prod(read.shape) > part_elements:
            n_parts = -(-prod(read.shape) // part_elements)
            step = -(-space.sizes[label] // n_parts)
            if step > ALIGNED_LINES:
                step = -(-step // ALIGNED_LINES) * ALIGNED_LINES
            return label, cut_evenly(space.sizes[label], step)
    return None


def is_of_two_matrices(space: Space) -> bool:
    """Whether a contraction is a product of two matrices that are not the same."""
    return (
        len(space.reads) == 2
        and len({read.operand.value for read in space.reads}) == 2
        and all(len(read.shape) == 2 for read in space.reads)
        and len(space.contracted) == 1
    )


def can_be_chained(space: Space) -> bool:
    """Whether the pieces of a product of two matrices can be added where the sum is."""
    call = space.last.call
    made = call.outs[0].dtype
    # halves are added in another dtype than they are kept in
    return space.last.op.added is not None and made.kind in "fc" and call.parts == (made,)


def _leading_label(read: Read) -> tuple[int | None, int]:
    """The label that walks the first axis of the base, element by element, and from where."""
    access = read.operand.access
    if access is None:
        return read.labels[0], 0
    for label, walked in zip(read.labels, access.axes, strict=True):
        if walked is not None and walked[0] == 0 and walked[2] == 1:
            return label, walked[1]
    return None, 0
