"""Counting on a GPU: how often each integer occurs, and the ends of the values, in one pass.

Small integers, which are often few and then many times the same, are counted in registers: programs
that add to the same number in memory wait for each other. All are exact in any order.
"""

from __future__ import annotations

from typing import Any

from infinitensor.jit import Launch, Launches, has_triton, triton_module
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.compile_beside import can_start

LEAST_COUNTED_ELEMENTS = 1 << 12
"""Fewer are counted before a kernel would be compiled."""
COUNT_BLOCK_ELEMENTS = 1024
COUNT_PROGRAMS = 1024
"""Several for each multiprocessor; each adds up its counts once."""
MOST, LEAST = (1 << 63) - 1, -(1 << 63)

_KERNEL = """\
@triton.jit
def counted(
    x, counts, ends, n_values, n, n_steps,
    LOW: tl.constexpr, MOST: tl.constexpr, BLOCK: tl.constexpr,
):
    first = tl.program_id(0).to(tl.int64) * n_steps * BLOCK + tl.arange(0, BLOCK)
    low = tl.full((BLOCK,), MOST, tl.int64)
    high = -low - 1
    few = tl.zeros((LOW,), tl.int32)
    one = tl.full((BLOCK,), 1, tl.int64)
    for step in range(n_steps):
        at = first + step * BLOCK
        inside = at < n_values
        value = tl.load(x + at, mask=inside, other=-1)
        low = tl.minimum(low, tl.where(inside, value, MOST))
        high = tl.maximum(high, tl.where(inside, value, -MOST - 1))
        is_low = (value >= 0) & (value < LOW - 1)
        few += tl.histogram(tl.where(is_low, value, LOW - 1).to(tl.int32), LOW)
        tl.atomic_add(counts + value, one, mask=(value >= LOW - 1) & (value < n), sem="relaxed")
    place = tl.arange(0, LOW)
    is_seen = (few > 0) & (place < LOW - 1) & (place < n)
    tl.atomic_add(counts + place, few.to(tl.int64), mask=is_seen, sem="relaxed")
    tl.atomic_min(ends, tl.min(low, 0), sem="relaxed")
    tl.atomic_max(ends + 1, tl.max(high, 0), sem="relaxed")
"""


def _launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_values, n = shape
    n_steps = -(-n_values // (COUNT_BLOCK_ELEMENTS * COUNT_PROGRAMS))
    n_programs = -(-n_values // (COUNT_BLOCK_ELEMENTS * n_steps))
    return Launch(
        triton_module(_KERNEL),
        n_programs,
        (n_values, n, n_steps),
        LOW=256,
        MOST=MOST,
        BLOCK=COUNT_BLOCK_ELEMENTS,
    )


_count = Launches(_launch)


def count_values(x: Any, n: int) -> tuple[Any, Any] | None:
    """How often each of 0 .. n - 1 occurs in a line of int64, and its smallest and largest value.

    None, and nothing done, without Triton, until the kernel is compiled, and for few values.
    """
    fits = x.is_cuda and x.dtype == torch.int64 and x.is_contiguous() and has_triton()
    if not fits or x.numel() < LEAST_COUNTED_ELEMENTS:
        return None
    counts = torch.zeros(n, dtype=torch.int64, device=x.device)
    ends = torch.empty(2, dtype=torch.int64, device=x.device)
    tiles = (x, counts, ends)
    launch = _count.get((x.numel(), n), tiles)
    if not can_start(launch, tiles):
        return None
    ends[0].fill_(MOST)
    ends[1].fill_(LEAST)
    launch(tiles)
    return counts, ends
