"""An order of points in which neighbours lie together, as an op: on a GPU, level by level.

What `kd_order` in pairs.c does leaf by leaf is done here for all leaves of a level at once: a sort
of all points by (leaf, widest feature of the leaf) halves every leaf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import int64
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops import pairs_triton
from infinitensor.ops.pairs import PIVOTS, neighbour_order
from infinitensor.ops.pairtiles import FEW_FEATURES
from infinitensor.ops.pairwords import sorted_by
from infinitensor.ops.registry import op

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = Any

AT_ONCE = 1 << 18
"""Points whose pivots are looked for together."""


def _kernel(xp: Any, x: Array, out: Array) -> None:
    out[...] = neighbour_order(x) if xp is np else order_in_words(xp, x)


def order_in_words(xp: Any, x: Array) -> Array:
    """The order in the words of torch: leaves are tiles of the kernels for pairs."""
    x = x.double()
    n, d = x.shape
    size = pairs_triton.TILE
    order = xp.arange(n, device=x.device)
    segment = xp.zeros(-(-n // size), dtype=xp.int64, device=x.device)  # of each tile
    n_pivots = min(n // (4 * size), PIVOTS) if d > FEW_FEATURES else 0
    if n_pivots > 1:
        order, segment = _grouped(xp, x, n_pivots)
    while True:
        n_segments = int(segment[-1]) + 1 if len(segment) else 0
        if n_segments == len(segment):
            return order
        rows = x[order]
        of_point = segment.repeat_interleave(size)[:n]
        widest = _widest(xp, rows, segment, n_segments)
        value = rows.gather(1, widest[of_point][:, None])[:, 0]
        del rows
        order = order[sorted_by(xp, (value, of_point))]
        segment = _halved(xp, segment, n_segments)


def _widest(xp: Any, rows: Array, segment: Array, n_segments: int) -> Array:
    """The feature of each segment whose values are farthest apart."""
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
    return (hi - lo).argmax(1)


def _halved(xp: Any, segment: Array, n_segments: int) -> Array:
    """Each segment of several tiles in two halves."""
    lengths = xp.bincount(segment, minlength=n_segments)
    starts = lengths.cumsum(0) - lengths
    place = xp.arange(len(segment), device=segment.device) - starts[segment]
    second = (place >= lengths[segment] // 2) & (lengths[segment] > 1)
    both = 2 * segment + second
    return (both.diff(prepend=both[:1]) != 0).cumsum(0)


def _grouped(xp: Any, x: Array, n_pivots: int) -> tuple[Array, Array]:
    """Points by the nearest of some of them, those far from it last; and the segment of each tile.

    With many features one far point makes the box of its tile useless.
    """
    n, size = len(x), pairs_triton.TILE
    pivots = x[:: n // n_pivots][:n_pivots]
    found = [xp.cdist(part, pivots).min(1) for part in x.split(AT_ONCE)]
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
    return order, (segment.diff(prepend=segment[:1]) != 0).cumsum(0)


def _scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    n, d = ins[0].shape
    return 8 * n * (d + 2) + 32 * (n + 64) + 16 * d + 4096


def _cuda_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    n, d = ins[0].shape
    pivots = 16 * min(n, AT_ONCE) * PIVOTS if d > FEW_FEATURES else 0
    return 24 * n * d + 128 * n + pivots + (1 << 20)


@op(
    "_pairs_order",
    "mapped",
    "x",
    kernel=_kernel,
    scratch_bytes=_scratch,
    scratches={"cuda": _cuda_scratch},
    cases=lambda rng: [((rng.normal(size=(n, d)),), {}) for n, d in ((40, 2), (90, 9), (1, 3))],
    oracle=lambda x: np.arange(len(x)),
    compared=np.sort,
    same="equal",
)
def _pairs_order(x: Spec) -> Call:
    """An order of the rows of x in which near ones lie together."""
    n, d = x.shape
    form = AxisForm((n, d), ((0, 1),), ((0,),), frozenset({0, 1}))
    return Call(form, (Spec((n,), int64),))
