"""An order of points in which neighbours are close together, as an op: on a GPU, level by level.

What `kd_order` in pairs.c does leaf by leaf is done here for all leaves of a level at once: a sort
of all points by (leaf, widest feature of the leaf) halves every leaf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import int64
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops.points import pairs_triton
from infinitensor.ops.points.pairs import PIVOTS, neighbour_order
from infinitensor.ops.points.pairs_c import FEW_FEATURES
from infinitensor.ops.points.pairs_numpy import sorted_by
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = Any

POINTS_AT_ONCE = 1 << 18
"""Points whose pivots are looked for together."""


def _kernel(xp: Any, x: Array, out: Array) -> None:
    out[...] = neighbour_order(x) if xp is np else order_in_words(xp, x)


def order_in_words(xp: Any, x: Array) -> Array:
    """The order in the words of torch: leaves are tiles of the kernels for pairs."""
    x = x.double()
    n, d = x.shape
    size = pairs_triton.TILE
    order = xp.arange(n, device=x.device)
    segment = np.zeros(-(-n // size), np.int64)  # of each tile; few, so that the host halves them
    n_pivots = min(n // (4 * size), PIVOTS) if d > FEW_FEATURES else 0
    if n_pivots > 1:
        order, segment = _group_by_pivots(xp, x, n_pivots)
    while True:
        n_segments = int(segment[-1]) + 1 if len(segment) else 0
        if n_segments == len(segment):
            return order
        rows = x[order]
        of_tile = xp.from_numpy(segment).to(x.device, non_blocking=True)
        of_point = of_tile.repeat_interleave(size)[:n]
        axis, lowest, width = _widest(xp, rows, of_tile, n_segments)
        value = rows.gather(1, axis[of_point][:, None])[:, 0]
        del rows
        # by segment, then by value: one sort, in which values of a segment are between two numbers
        value = (value - lowest[of_point]) / width[of_point]
        order = order[xp.argsort(of_point + value * 0.9375, stable=True)]
        segment = _halved(segment)


def _widest(xp: Any, rows: Array, segment: Array, n_segments: int) -> tuple[Array, Array, Array]:
    """Of each segment the feature whose values are farthest apart, the least, and how far."""
    size, (n, d) = pairs_triton.TILE, rows.shape
    full = n // size
    of_tile = segment[:full, None].expand(full, d)
    by_tile = rows[: full * size].view(full, size, d)
    shape = (n_segments, d)
    lo = xp.full(shape, float("inf"), dtype=xp.float64, device=rows.device)
    hi = -lo
    lo.scatter_reduce_(0, of_tile, by_tile.amin(1), "amin")
    hi.scatter_reduce_(0, of_tile, by_tile.amax(1), "amax")
    if full < len(segment):
        rest = rows[full * size :]
        lo[-1] = xp.minimum(lo[-1], rest.amin(0))
        hi[-1] = xp.maximum(hi[-1], rest.amax(0))
    width, axis = (hi - lo).max(1)
    return axis, lo.gather(1, axis[:, None])[:, 0], width.clamp(min=1e-300)


def _halved(segment: Array) -> Array:
    """Each segment of several tiles in two halves."""
    lengths = np.bincount(segment)
    starts = lengths.cumsum() - lengths
    place = np.arange(len(segment)) - starts[segment]
    second = (place >= lengths[segment] // 2) & (lengths[segment] > 1)
    both = 2 * segment + second
    return (np.diff(both, prepend=both[:1]) != 0).cumsum()


def _group_by_pivots(xp: Any, x: Array, n_pivots: int) -> tuple[Array, Array]:
    """Points by the nearest of some of them, those far from it last; and the segment of each tile.

    With many features one far point makes the box of its tile useless.
    """
    n, size = len(x), pairs_triton.TILE
    pivots = x[:: n // n_pivots][:n_pivots]
    found = [xp.cdist(part, pivots).min(1) for part in x.split(POINTS_AT_ONCE)]
    far, which = xp.cat([one.values for one in found]), xp.cat([one.indices for one in found])
    order = sorted_by(xp, (far, which))
    far, which = far[order], which[order]
    sizes = xp.bincount(which, minlength=n_pivots)
    starts = sizes.cumsum(0) - sizes
    middle = (starts + sizes // 2).clamp(max=n - 1)
    near = far <= 2 * far[middle][which]  # twice as far as half of them
    n_near = xp.bincount(which[near], minlength=n_pivots) // size
    kept = xp.arange(n, device=x.device) - starts[which] < n_near[which] * size
    order = xp.cat((order[kept], order[~kept]))
    groups = xp.arange(n_pivots, device=x.device).repeat_interleave(n_near)
    left = -(-n // size) - len(groups)
    segment = xp.cat((groups, groups.new_full((left,), n_pivots)))
    return order, (segment.diff(prepend=segment[:1]) != 0).cumsum(0).cpu().numpy()


def _scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    n, d = ins[0].shape
    return 8 * n * (d + 2) + 32 * (n + 64) + 16 * d + 4096


def _cuda_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    n, d = ins[0].shape
    pivots = 16 * min(n, POINTS_AT_ONCE) * PIVOTS if d > FEW_FEATURES else 0
    return 24 * n * d + 160 * n + pivots + (1 << 20)


@op(
    "mapped",
    kernel=_kernel,
    scratch_bytes=_scratch,
    scratches={"cuda": _cuda_scratch},
    cases=lambda rng: [((rng.normal(size=(n, d)),), {}) for n, d in ((40, 2), (90, 9), (1, 3))],
    oracle=lambda x: np.arange(len(x)),
    compared=np.sort,
    same="equal",
)
def _pairs_order(x: Spec) -> Call:
    """An order of the rows of x in which near ones are close together."""
    n, d = x.shape
    form = AxisForm((n, d), ((0, 1),), ((0,),), frozenset({0, 1}))
    return Call(form, (Spec((n,), int64),))
