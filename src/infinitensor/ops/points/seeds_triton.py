"""Greedy k-means++ on a GPU: all steps are started at once, and nothing waits for the host.

A step is two kernels. `pick` takes the best candidate of the step before, which leaves the least,
and finds the rows at which the running sum of what that leaves reaches the next draws. `attempt`
goes over all rows once: it brings their squared distance to the nearest seed up to date, and adds
up block by block what each new candidate would leave. Sums are in float64 and in a fixed order.
"""

from __future__ import annotations

from typing import Any

from infinitensor.jit import Launch, Launches, triton_module
from infinitensor.ops.points.pairs_triton import power

SUM_BLOCK_ROWS, ROWS_LOOKED_AT = 512, 64
"""Rows whose sum is kept, those of a program, and rows that it looks at together."""
SUMS_LOOKED_AT = 4096
"""Sums of blocks, of all candidates, that are looked at together."""
MOST_TRIALS = 16
"""Candidates of a step, at most: their sums stay in registers."""

_FAR = """\
@triton.jit
def far_from(x, shift, row, there, seed, d, ROWS: tl.constexpr, PART: tl.constexpr):
    far = tl.zeros((ROWS,), tl.float64)
    for low in range(0, d, PART):
        j = low + tl.arange(0, PART)
        inside = j < d
        here = there[:, None] & inside[None, :]
        less = tl.load(shift + j, mask=inside, other=0)
        value = tl.load(x + row[:, None] * d + j[None, :], mask=here, other=0) - less[None, :]
        c = tl.load(x + seed * d + j, mask=inside, other=0) - less
        apart = value.to(tl.float64) - c.to(tl.float64)[None, :]
        far += tl.sum(tl.where(here, apart * apart, 0.0), 1)
    return far


"""

_ATTEMPT = triton_module(
    _FAR,
    """\
@triton.jit(do_not_specialize=["step", "n"])
def attempt(
    x, shift, weights, closest, chosen, tried, partial, step, n, d, n_trials,
    WEIGHED: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    PART: tl.constexpr,
):
    pid = tl.program_id(0)
    latest = tl.load(chosen + tl.maximum(step - 1, 0)).to(tl.int64)
    p = tl.arange(0, PADDED)
    sums = tl.zeros((PADDED,), tl.float64)
    for low in range(0, BLOCK, ROWS):
        row = pid.to(tl.int64) * BLOCK + low + tl.arange(0, ROWS)
        there = row < n
        nearest = tl.load(closest + row, mask=there, other=0)
        far = far_from(x, shift, row, there, latest, d, ROWS, PART)
        nearest = tl.minimum(nearest, far.to(closest.dtype.element_ty))
        tl.store(closest + row, nearest, mask=there)
        if WEIGHED:
            weight = tl.load(weights + row, mask=there, other=0).to(tl.float64)
        for trial in range(0, n_trials):
            seed = tl.load(tried + step * n_trials + trial).to(tl.int64)
            far = far_from(x, shift, row, there, seed, d, ROWS, PART)
            left = tl.minimum(nearest, far.to(closest.dtype.element_ty)).to(tl.float64)
            if WEIGHED:
                left = left * weight
            sums += tl.where(p == trial, tl.sum(tl.where(there, left, 0.0), 0), 0.0)
    tl.store(partial + p * tl.num_programs(0) + pid, sums, mask=p < n_trials)
""",
)

_PICK = triton_module(
    _FAR,
    """\
@triton.jit(do_not_specialize=["step", "n"])
def pick(
    x, shift, weights, closest, draws, chosen, tried, partial, step, n, d, n_trials, n_blocks,
    WEIGHED: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    PART: tl.constexpr, LOOK: tl.constexpr,
):
    trial = tl.program_id(0)
    p = tl.arange(0, PADDED)
    sums = tl.zeros((PADDED,), tl.float64)
    for low in range(0, n_blocks, LOOK):
        at = low + tl.arange(0, LOOK)
        inside = (p < n_trials)[:, None] & (at < n_blocks)[None, :]
        sums += tl.sum(
            tl.load(partial + p[:, None] * n_blocks + at[None, :], mask=inside, other=0.0), 1
        )
    sums = tl.where(p < n_trials, sums, float("inf"))
    potential = tl.min(sums, 0)
    best = tl.min(tl.where(sums == potential, p, n_trials - 1), 0)
    seed = tl.load(tried + (step - 1) * n_trials + best)
    if trial == 0:
        tl.store(chosen + step - 1, seed)
    seed = seed.to(tl.int64)
    draw = tl.load(draws + step * n_trials + trial) * potential

    # the block in which the running sum reaches the draw, and what is before it
    ended = tl.zeros((1,), tl.float64)
    before = tl.zeros((1,), tl.float64)
    block = tl.full((1,), n_blocks, tl.int32)
    for low in range(0, n_blocks, LOOK):
        at = low + tl.arange(0, LOOK)
        value = tl.load(partial + best * n_blocks + at, mask=at < n_blocks, other=0.0)
        running = ended + tl.cumsum(value, 0)
        reached = (running >= draw) & (at < n_blocks)
        first = tl.min(tl.where(reached, at, n_blocks), 0)
        starts = tl.sum(tl.where(at == first, running - value, 0.0), 0)
        before = tl.where((block == n_blocks) & (first < n_blocks), starts, before)
        block = tl.minimum(block, first)
        ended += tl.sum(value, 0)

    # the row in it
    found = tl.full((1,), 2147483647, tl.int64)
    place = tl.max(block, 0).to(tl.int64) * BLOCK
    for low in range(0, BLOCK, ROWS):
        row = place + low + tl.arange(0, ROWS)
        there = row < n
        left = tl.load(closest + row, mask=there, other=0)
        far = far_from(x, shift, row, there, seed, d, ROWS, PART)
        left = tl.minimum(left, far.to(closest.dtype.element_ty)).to(tl.float64)
        if WEIGHED:
            left = left * tl.load(weights + row, mask=there, other=0).to(tl.float64)
        left = tl.where(there, left, 0.0)
        running = before + tl.cumsum(left, 0)
        found = tl.minimum(found, tl.min(tl.where(running >= draw, row, 2147483647), 0))
        before += tl.sum(left, 0)
    found = tl.minimum(tl.minimum(found, place + BLOCK), (n - 1).to(tl.int64))
    tl.store(tried + step * n_trials + trial + tl.zeros((1,), tl.int32), found.to(tl.int32))
""",
)


def _make(source: str, weighed: bool) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        d, n_trials = shape[:2]
        sizes = {"WEIGHED": int(weighed), "PADDED": power(n_trials, 1, MOST_TRIALS)}
        sizes |= {"BLOCK": SUM_BLOCK_ROWS, "ROWS": ROWS_LOOKED_AT, "PART": power(d, 16, 64)}
        looked_at = {"LOOK": SUMS_LOOKED_AT // sizes["PADDED"]} if source is _PICK else {}
        return Launch(source, n_trials, shape, n_warps=4, **sizes, **looked_at)

    return Launches(make)


_attempt = {weighed: _make(_ATTEMPT, weighed) for weighed in (False, True)}
_pick = {weighed: _make(_PICK, weighed) for weighed in (False, True)}


def seeds(
    torch: Any, x: Any, shift: Any, draws: Any, first: Any, out: Any, weights: Any = None
) -> None:
    """The numbers of the rows that are taken one after another, into `out`; `first` is one."""
    (n, d), (k, n_trials), n_blocks = x.shape, draws.shape, -(-x.shape[0] // SUM_BLOCK_ROWS)
    like = {"device": x.device}
    closest = torch.full((n,), float("inf"), dtype=x.dtype, **like)
    chosen = first.int().expand(k).contiguous()
    tried = first.int().expand(k + 1, n_trials).contiguous()
    partial = torch.empty((n_trials, n_blocks), dtype=torch.float64, **like)
    more = torch.cat([draws, torch.zeros_like(draws[:1])])
    rows = (x, shift, x if weights is None else weights, closest)
    is_weighed = weights is not None
    after = (*rows, chosen, tried, partial)
    before = (*rows, more, chosen, tried, partial)
    attempt = _attempt[is_weighed].get((d, n_trials), after)
    pick = _pick[is_weighed].get((d, n_trials, n_blocks), before)
    for step in range(k):
        if step:
            pick(before, (step, n))
        attempt(after, (step, n), n_blocks)
    pick(before, (k, n))
    out.copy_(chosen)


def scratch_of(n: int, d: int, k: int, n_trials: int) -> int:
    """Bytes that it allocates beside its result."""
    return 8 * n + 8 * n_trials * (n // SUM_BLOCK_ROWS + 1) + 24 * (k + 2) * (n_trials + 1) + 4096
