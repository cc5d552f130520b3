"""Cuts of contractions: by the layouts of operands that are used a few times, else equal pieces.

Where every kernel sees all memory, a tile of a product is a part of its operands and of its result
in place, and costs nothing but its start: there pieces are as large as balance allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isqrt, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.dtypes import HALVES
from infinitensor.ir.region import cut_evenly
from infinitensor.partition.operand_cuts import base_axis, layout_borders
from infinitensor.partition.tile_shape import (
    LEAF_ELEMENTS,
    floor_power,
    halve_until,
    tile_shape,
    wanted_pieces,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.layout import Layout
    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.op import Call, Labels
    from infinitensor.ir.region import Cuts
    from infinitensor.ir.space import Read, Space
    from infinitensor.ir.view import Access
    from infinitensor.partition.operand_cuts import Bounds, Reads

MANY_USES = 128
"""Uses of an element from which a contraction gains by pieces larger than its operands' tiles."""
GEMM_TILES = 8
"""A contraction's tiles may be this much larger than others: their work grows faster than bytes."""


LARGE_SIDES = ((1024, 1 << 33), (512, 1 << 37))
"""Lengths to which the sides of a product's pieces are cut, and the work times bytes of an element
from which they are: a tenth of a second, so that progress shows; and a whole one, within which
nobody could stop it. Shorter sides cost more: a piece packs all it reads anew."""
MOST_CAST = 1 << 24
"""Elements of a product of halves up to which it is one piece, all cast to floats at once."""
NARROW_PART = 32
"""The shortest side of the parts into which C cuts a product for its threads (`blas.c`)."""


def cut_product(space: Space, dtypes: dict[Read, np.dtype[Any]], mesh: Mesh) -> Cuts | None:
    """Cuts of a product of two matrices, or of two stacks of them, that C reads and writes in place
    and shares among its threads: one piece, or some where it takes long; never along what it sums.

    None for any other contraction, and where C would find no parts for all workers: the result is
    small, and long sums make it.
    """
    if len(space.reads) != 2 or len(space.outs) != 1 or space.uncut:
        return None
    found = _product_of(
        space.last.call,
        space.sizes,
        [read.labels for read in space.reads],
        [dtypes[read] for read in space.reads],
        [read.operand.access for read in space.reads],
    )
    lengths = found and found.lengths_of_pieces(mesh)
    if not found or not lengths:
        return None
    steps = dict(zip(found.labels, lengths, strict=True))
    return tuple(cut_evenly(n, steps.get(label, n)) for label, n in enumerate(space.sizes))


def is_in_one_piece(call: Call, operands: Sequence[Multiplied], mesh: Mesh) -> bool:
    """Whether no plan for one memory cuts a contraction of two operands, for whatever else it has.

    Asks only shapes: what is not said to be in one piece may be so too.
    """
    form = call.form
    if len(operands) != 2 or len(form.outputs) != 1 or form.uncut or not mesh.is_one_memory:
        return False
    dtypes, accesses = [x.dtype for x in operands], [x.access for x in operands]
    found = _product_of(call, form.sizes, form.inputs, dtypes, accesses)
    lengths = found and found.lengths_of_pieces(mesh)
    if found and lengths:
        return lengths == found.lengths
    x, y = operands
    if x.value is y.value and x.shape == y.shape[::-1]:  # `cuts_of_gram`
        return False
    lead = max((0, 1), key=lambda i: prod(operands[i].shape))
    uses = prod(n for label, n in enumerate(form.sizes) if label not in form.inputs[lead])
    if uses >= MANY_USES or None in form.inputs[lead]:
        return False
    largest = max(prod(operands[lead].shape), call.outs[0].n_elements)
    return largest <= min(_least_piece(uses, mesh), LEAF_ELEMENTS[mesh.kind] * GEMM_TILES)


class Multiplied(NamedTuple):
    """An operand of a contraction, before there is a graph."""

    value: object
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    access: Access | None


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of two matrices or of two stacks of them: what its stack, rows and columns are."""

    labels: tuple[int | None, int | None, int | None]
    lengths: tuple[int, int, int]
    depth: int
    dtype: np.dtype[Any]

    def lengths_of_pieces(self, mesh: Mesh) -> tuple[int, int, int] | None:
        """The longest stack, rows and columns of a piece; None where it is no task of C."""
        n, rows, columns = self.lengths
        n_parts = n * -(-rows // NARROW_PART) * -(-columns // NARROW_PART)
        if not mesh.is_one_memory:
            return None
        if n_parts < wanted_pieces(mesh) and self.depth > max(rows, columns) * n:
            return None

        def elements() -> int:
            return n * (self.depth * (rows + columns) + rows * columns)

        def work() -> int:
            points = n * rows * columns * self.depth
            return (points + MEMORY_USES * elements()) * self.dtype.itemsize

        if self.dtype in HALVES and elements() > MOST_CAST:
            return None
        for side, most in LARGE_SIDES:
            while max(n - 1, rows // side, columns // side) > 0 and work() > most:
                if n > 1:
                    n = -(-n // 2)
                elif max(rows, columns) <= side:
                    break
                elif rows >= columns:
                    rows = -(-rows // 2)
                else:
                    columns = -(-columns // 2)
        return n, rows, columns


def _product_of(
    call: Call,
    sizes: Sequence[int],
    operands: Sequence[Labels],
    dtypes: Sequence[np.dtype[Any]],
    accesses: Sequence[Access | None],
) -> _Product | None:
    """What the library multiplies without a copy of an operand; None for other contractions."""
    made, (kept,) = call.outs[0].dtype, call.form.outputs
    left, right = operands
    if (
        made.kind not in "fc"
        or len(call.form.contracted) != 1
        or any(dtype != made for dtype in dtypes)
        or any(access is not None and not access.keeps_lines for access in accesses)
    ):
        return None
    (inner,) = call.form.contracted
    stack = [label for label in kept if label in left and label in right]
    rows = [label for label in kept if label in left and label not in stack]
    columns = [label for label in kept if label in right and label not in stack]
    if inner not in left or inner not in right:
        return None
    if [*stack, *rows, *columns] != [*kept] or max(len(stack), len(rows), len(columns)) > 1:
        return None
    n, row, column = (next(iter(some), None) for some in (stack, rows, columns))
    lengths = [1 if label is None else sizes[label] for label in (n, row, column)]
    return _Product((n, row, column), (lengths[0], lengths[1], lengths[2]), sizes[inner], made)


def cut_contraction(space: Space, reads: Reads, bounds: Bounds, bound: int) -> Cuts:
    """Cuts of a contraction: by its operands' layouts, then halved until every tile is in bounds
    and there is a piece for every worker. Where its largest operand is streamed, each tile of it
    should be read once."""
    mesh, tile_elements = bounds.mesh, bounds.tile_elements
    by_size, is_streamed = reads.by_size, reads.is_streamed
    lengths = [max(n, 1) for n in space.sizes]
    limit = tile_elements or min(bound * GEMM_TILES, mesh.devices[0].tile_elements * GEMM_TILES)
    volumes = [tuple(label for label in r.labels if label is not None) for r in by_size]
    volumes += [tuple(label for label in labels if label is not None) for _, labels in space.outs]
    free = [label for label in range(len(lengths)) if label not in space.uncut]
    kept = [label for label in free if label not in space.contracted]
    lead = by_size[0]
    if is_streamed and _uses(space, lead) < MANY_USES:
        for label in free:
            borders = reads.borders(lead, label)
            if borders is not None:
                lengths[label] = min(lengths[label], int(max(np.diff(borders))))
    elif (mesh.is_one_memory or (mesh.is_one_cpu and is_streamed)) and not space.uncut:
        layout = reads.layouts[lead] if is_streamed else None
        gram = cuts_of_gram(space, layout, limit, mesh) if not tile_elements else None
        if gram:
            return gram
        steps = steps_in_memory_order(space, lead, tile_elements or limit, mesh)
        if steps and all(prod(steps[label] for label in v) <= limit for v in volumes):
            if not (tile_elements or is_streamed):
                steps = evened(space.sizes, steps, mesh.workers)
            return tuple(cut_evenly(n, max(k, 1)) for n, k in zip(space.sizes, steps, strict=True))
    if mesh.is_one_memory and not is_streamed:
        _cut_stacks(lengths, volumes, limit, kept, wanted_pieces(mesh))
    halve_until(lengths, volumes, limit, kept, free)
    while kept and _pieces(space.sizes, lengths) < wanted_pieces(mesh):
        label = max(kept, key=lambda c: (lengths[c], -c))
        smaller = lengths.copy()
        smaller[label] = -(-smaller[label] // 2)
        cut = [prod(smaller[c] for c in v) for v in volumes if label in v]
        if min(cut) < LEAF_ELEMENTS[mesh.kind] // 4:
            break
        lengths = smaller
    cuts = []
    for label, size in enumerate(space.sizes):
        borders = None
        is_by_layout = tile_elements or is_streamed or not mesh.is_one_cpu
        if label not in space.uncut and (is_by_layout or label in space.contracted):
            borders = layout_borders_within(space, reads, label, lengths[label])
        n_pieces = -(-size // lengths[label]) or 1
        cuts.append(borders or cut_evenly(size, max(-(-size // n_pieces), 1)))
    return tuple(cuts)


def _cut_stacks(
    lengths: list[int], volumes: list[tuple[int, ...]], limit: int, kept: list[int], n_pieces: int
) -> None:
    """Shorten labels that all operands and results have, until each volume is within a limit and
    there are so many pieces: no matrix of a stack is read twice, or in parts. In place."""
    common = [label for label in kept if all(label in volume for volume in volumes)]
    sizes = tuple(lengths)
    while common and max(lengths[label] for label in common) > 1:
        is_within = all(prod(lengths[label] for label in volume) <= limit for volume in volumes)
        if is_within and _pieces(sizes, lengths) >= n_pieces:
            return
        label = max(common, key=lambda c: (lengths[c], -c))
        smaller = lengths.copy()
        smaller[label] = -(-lengths[label] // 2)
        if is_within and min(prod(smaller[c] for c in v) for v in volumes) < LEAST_STACK:
            return
        lengths[label] = smaller[label]


LEAST_STACK = 1 << 14
"""Elements of an operand, or of what is made, that a piece of stacks has at least."""
LARGEST_GRAM = 1 << 20
"""Elements of x @ x.T up to which its pieces are added, not put together."""


def cuts_of_gram(space: Space, layout: Layout | None, limit: int, mesh: Mesh) -> Cuts | None:
    """Cuts of x @ x.T: along the sum only, a piece needs half of its products. Where x has to
    be read in its own tiles (`layout`), those pieces, or as many together as are worth a result.

    None for any other contraction, and where the result is too large to be made several times.
    """
    if len(space.reads) != 2 or len(space.sizes) != 3 or len(space.contracted) != 1:
        return None
    x, y = space.reads
    (inner,) = space.contracted
    n, depth = prod(n for c, n in enumerate(space.sizes) if c != inner), space.sizes[inner]
    if not 0 < n <= LARGEST_GRAM or x.operand.value != y.operand.value or x.shape != y.shape[::-1]:
        return None
    for axis, label in enumerate(x.labels):
        if (label == inner) != (y.labels[1 - axis] == inner) or _base_walk(x, axis) != _base_walk(
            y, 1 - axis
        ):
            return None
    if prod(x.shape) <= LEAF_ELEMENTS[mesh.kind]:
        return None
    borders = None if layout is None else layout_borders(x, inner, layout)
    worth = isqrt(n - 1) + 1  # a shorter piece reads less than it makes, however many work
    if borders is None:
        pieces = max(wanted_pieces(mesh), -(-max(prod(x.shape), 1) // limit))
        leaf = LEAF_ELEMENTS[mesh.kind] * depth // prod(x.shape)  # as evicted ones are read
        borders = cut_evenly(depth, max(-(-depth // pieces), worth, leaf))
    else:
        borders = join_pieces(borders, -(-depth // wanted_pieces(mesh)), worth)
    if max(np.diff(borders)) ** 2 < n or max(np.diff(borders)) * prod(x.shape) > limit * depth:
        return None
    return tuple(borders if label == inner else (0, k) for label, k in enumerate(space.sizes))


def _base_walk(read: Read, axis: int) -> Any:
    """Where an axis of an operand walks in its base, and from where."""
    access = read.operand.access
    return (axis, 0, 1) if access is None else access.axes[axis]


LEAST_WORK = 1 << 22
"""Multiplications of a piece from which it is worth a worker of its own; to read an element of
memory costs as many as MEMORY_USES."""
MEMORY_USES = 8


def steps_in_memory_order(space: Space, lead: Read, limit: int, mesh: Mesh) -> list[int] | None:
    """Piece lengths by the tile of the largest operand, where its elements are used a few times
    each: then its bytes count, read in the order they are in. None where they are used more."""
    uses = _uses(space, lead)
    if uses >= MANY_USES or None in lead.labels or 0 in lead.shape:
        return None
    n_share = max(prod(lead.shape) // wanted_pieces(mesh), 1)
    share = max(floor_power(n_share), _least_piece(uses, mesh))
    order = sorted(range(len(lead.shape)), key=lambda a: (base_axis(lead, a), a))
    tile = tile_shape(tuple(lead.shape[a] for a in order), min(share, limit))
    again = prod(  # pieces that read the other operand, or their part of it, anew
        -(-lead.shape[a] // step)
        for a, step in zip(order, tile, strict=True)
        if any(lead.labels[a] not in read.labels for read in space.reads)
    )
    others = sum(prod(read.shape) for read in space.reads if read is not lead)
    n_sums = prod(  # pieces whose results have to be added
        -(-lead.shape[a] // step)
        for a, step in zip(order, tile, strict=True)
        if lead.labels[a] in space.contracted
    )
    results = prod(n for label, n in enumerate(space.sizes) if label not in space.contracted)
    if n_sums > 1 and 4 * n_sums * results > prod(lead.shape):
        order.sort(key=lambda a: lead.labels[a] in space.contracted)
        tile = tile_shape(tuple(lead.shape[a] for a in order), min(share, limit))
    elif again > 1 and again * others > prod(lead.shape):
        order.sort(key=lambda a: lead.labels[a] not in space.contracted)
        tile = tile_shape(tuple(lead.shape[a] for a in order), min(share, limit))
    steps = list(space.sizes)
    for axis, step in zip(order, tile, strict=True):
        label = lead.labels[axis]
        assert label is not None
        steps[label] = min(steps[label], step)
    return steps


def _least_piece(uses: int, mesh: Mesh) -> int:
    """Elements of a piece's largest operand at least: fewer are done before a task is started."""
    return max(LEAF_ELEMENTS[mesh.kind], LEAST_WORK // max(uses, MEMORY_USES))


def evened(sizes: tuple[int, ...], steps: list[int], n_workers: int) -> list[int]:
    """Piece lengths so that there are as many pieces for one worker as for another, all about
    equally long, where one label is cut: what is left over would be waited for.

    >>> evened((75_000, 40), [8192, 40], 2), evened((200, 40), [128, 40], 2)
    ([7500, 40], [100, 40])
    """
    cut = [label for label, (n, k) in enumerate(zip(sizes, steps, strict=True)) if n > k]
    if len(cut) != 1:
        return steps
    (label,) = cut
    n_pieces = -(-sizes[label] // max(steps[label], 1))
    n_pieces = -(-n_pieces // n_workers) * n_workers
    return [*steps[:label], -(-sizes[label] // n_pieces), *steps[label + 1 :]]


def layout_borders_within(
    space: Space, reads: Reads, label: int, length: int
) -> tuple[int, ...] | None:
    """The borders of the operand that is cut along a label, if its pieces are within a length.

    Where each element is used many times, neighbouring pieces are taken together up to the length:
    bringing them together costs less than small products.
    """
    for read in reads.by_size:
        borders = reads.borders(read, label)
        if borders is None:
            continue
        if max(np.diff(borders)) > length:
            return None
        if _uses(space, read) < MANY_USES:
            return borders
        return join_pieces(borders, length, length)
    return None


def join_pieces(borders: tuple[int, ...], most: int, enough: int) -> tuple[int, ...]:
    """Neighbouring pieces taken together while they are not enough, up to a length.

    >>> join_pieces((0, 2, 4, 6, 7), 5, 5), join_pieces((0, 2, 4, 6, 7), 5, 1)
    ((0, 4, 7), (0, 2, 4, 6, 7))
    """
    taken = [0]
    for before, border in pairwise(borders):
        if before > taken[-1] and (border - taken[-1] > most or before - taken[-1] >= enough):
            taken.append(before)
    return (*taken, borders[-1])


def _uses(space: Space, read: Read) -> int:
    """How often each element of an operand is used."""
    return prod(n for label, n in enumerate(space.sizes) if label not in read.labels)


def _pieces(sizes: tuple[int, ...], lengths: list[int]) -> int:
    return prod(-(-n // step) for n, step in zip(sizes, lengths, strict=True))
