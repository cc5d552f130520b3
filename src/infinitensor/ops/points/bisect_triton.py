"""Rows parted in two on a GPU: labels of two centres and what changes in their sums, in one pass.

Two centres are few enough to compare every row with both in float64, as fast as rows are
read; no bounds are kept. Rows that are as near to both as rounding can tell are compared again,
with coordinates added in their order.
"""

from __future__ import annotations

from typing import Any

from infinitensor.jit import Launch, triton_module
from infinitensor.ops.points import centres_triton, lloyd_triton
from infinitensor.ops.points.pairs_triton import power

MOST_COORDINATES = 128
"""Coordinates up to which a block of rows stays in registers; for more of them bounds are kept."""
HALVED_ELEMENTS, MOST_HALVED_ROWS = 2048, 64
"""Elements of a block of rows that a program looks at together, and rows of it, at most."""
MOST_KNOWN = 64
"""Launches that are kept."""
HALVERS_PER_PROCESSOR = 6
"""Programs for each processor of a GPU: each takes block after block."""

_HALVE = triton_module("""\
@triton.jit(do_not_specialize=["n"])
def halve(
    x, shift, scale, centers, labels, change, n, d, ROWS: tl.constexpr, PART: tl.constexpr
):
    j = tl.arange(0, PART)
    inside = j < d
    less = tl.load(shift + j, mask=inside, other=0)
    unit = tl.load(scale + j, mask=inside, other=0.0)
    first = tl.load(centers + j, mask=inside, other=0).to(tl.float64)
    second = tl.load(centers + d + j, mask=inside, other=0).to(tl.float64)
    sums0 = tl.zeros((PART,), tl.int64)
    sums1 = tl.zeros((PART,), tl.int64)
    n0 = tl.zeros((ROWS,), tl.int64)
    n1 = tl.zeros((ROWS,), tl.int64)
    n_changed = tl.zeros((ROWS,), tl.int64)
    for block in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        row = block * ROWS + tl.arange(0, ROWS).to(tl.int64)
        there = row < n
        here = there[:, None] & inside[None, :]
        value = tl.load(x + row[:, None] * d + j[None, :], mask=here, other=0) - less[None, :]
        wide = tl.where(here, value, 0).to(tl.float64)
        apart = wide - first[None, :]
        far0 = tl.sum(tl.where(here, apart * apart, 0.0), 1)
        apart = wide - second[None, :]
        far1 = tl.sum(tl.where(here, apart * apart, 0.0), 1)
        is_second = far1 < far0
        near = there & (tl.abs(far1 - far0) <= (far0 + far1) * ((d + 8) * 4.5e-16))
        if tl.max(near.to(tl.int32), 0) > 0:
            far0 = tl.zeros((ROWS,), tl.float64)
            far1 = tl.zeros((ROWS,), tl.float64)
            for i in range(0, d):
                one = tl.load(x + row * d + i, mask=near, other=0) - tl.load(shift + i)
                gap = one.to(tl.float64) - tl.load(centers + i).to(tl.float64)
                far0 += gap * gap
                gap = one.to(tl.float64) - tl.load(centers + d + i).to(tl.float64)
                far1 += gap * gap
            is_second = tl.where(near, far1 < far0, is_second)
        new = is_second.to(tl.int32)
        old = tl.load(labels + row, mask=there, other=0)
        tl.store(labels + row, new, mask=there)
        scaled = wide * unit[None, :]
        q = scaled.to(tl.int64)
        left = scaled - q.to(tl.float64)
        q += (left >= 0.5).to(tl.int64) - (left <= -0.5).to(tl.int64)
        to0 = tl.where(there, (new == 0).to(tl.int64) - (old == 0).to(tl.int64), 0)
        to1 = tl.where(there, (new == 1).to(tl.int64) - (old == 1).to(tl.int64), 0)
        sums0 += tl.sum(q * to0[:, None], 0)
        sums1 += tl.sum(q * to1[:, None], 0)
        n0 += to0
        n1 += to1
        n_changed += (there & (new != old)).to(tl.int64)
    width = d + 2
    tl.atomic_add(change + j, sums0, mask=inside, sem="relaxed")
    tl.atomic_add(change + width + j, sums1, mask=inside, sem="relaxed")
    heavy = tl.load(scale + d)
    whole = heavy.to(tl.int64)
    over = heavy - whole.to(tl.float64)
    whole += (over >= 0.5).to(tl.int64) - (over <= -0.5).to(tl.int64)
    none = tl.arange(0, 1)
    all0, all1 = tl.sum(n0, 0), tl.sum(n1, 0)
    tl.atomic_add(change + d + none, all0 * whole + none, sem="relaxed")
    tl.atomic_add(change + d + 1 + none, all0 + none, sem="relaxed")
    tl.atomic_add(change + width + d + none, all1 * whole + none, sem="relaxed")
    tl.atomic_add(change + width + d + 1 + none, all1 + none, sem="relaxed")
    tl.atomic_add(change + 2 * width + none, tl.sum(n_changed, 0) + none, sem="relaxed")
""")


_known: dict[Any, Launch] = {}


def _launch_of(tiles: Any, d: int) -> Launch:
    """One launch for any number of rows: those of a tree are all different."""
    x = tiles[0]
    key = (d, x.dtype, x.get_device(), *(tile.data_ptr() & 15 for tile in tiles))
    found = _known.get(key)
    if found is None:
        if len(_known) > MOST_KNOWN:
            _known.clear()
        part = power(d, 2)
        rows = min(HALVED_ELEMENTS // part, MOST_HALVED_ROWS)
        found = _known[key] = Launch(_HALVE, 1, (d,), n_warps=4, ROWS=rows, PART=part)
    return found


def part_in_two(
    torch: Any,
    x: Any,
    shift: Any,
    scale: Any,
    centers: Any,
    tol: Any,
    out: tuple[Any, Any, Any],
    *,
    max_iter: int,
) -> None:
    """As `lloyd_triton.iterate`, of two centres, and rows that all weigh one."""
    (n, d), (labels, moving, state) = x.shape, out
    if d > MOST_COORDINATES:
        lloyd_triton.iterate(torch, x, shift, scale, centers, tol, out, max_iter=max_iter)
        return
    like = {"device": x.device}
    change = torch.zeros((3, d + 2), dtype=torch.int64, **like)
    sums = torch.zeros((2, d + 2), dtype=torch.int64, **like)
    moves = torch.zeros((2, 3), dtype=torch.float32, **like)
    labels.fill_(-1)
    moving.copy_(centers)
    state.zero_()
    given = (x, shift, scale, moving, labels, change)
    halve = _launch_of(given, d)
    n_programs = centres_triton._n_programs(x, int(halve.constants["ROWS"]), HALVERS_PER_PROCESSOR)
    tiles = (change, sums, scale, moving, moves, state, tol)
    move = lloyd_triton._move.get((2, d), tiles)
    for _ in lloyd_triton.steps(state, max_iter):
        halve(given, (n,), n_programs)
        move(tiles)
        change.zero_()
    halve(given, (n,), n_programs)
