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
SPREAD_COUNTS = 1 << 15
"""Places in memory over which additions of many values are spread."""
MOST_COPIES = 32
LOW_COUNTS = 256
"""Integers below it, but for one, are counted in registers."""
MOST, LEAST = (1 << 63) - 1, -(1 << 63)

_BEGIN = """\
    first = tl.program_id(0).to(tl.int64) * n_steps * BLOCK + tl.arange(0, BLOCK)
    few = tl.zeros((LOW,), tl.int32)
    one = tl.full((BLOCK,), 1, tl.int64)
    counts += tl.program_id(0) % COPIES * n
"""
_ADD = """\
        is_low = (value >= 0) & (value < LOW - 1)
        few += tl.histogram(tl.where(is_low, value, LOW - 1).to(tl.int32), LOW)
        tl.atomic_add(counts + value, one, mask=(value >= LOW - 1) & (value < n), sem="relaxed")
"""
_END = """\
    place = tl.arange(0, LOW)
    is_seen = (few > 0) & (place < LOW - 1) & (place < n)
    tl.atomic_add(counts + place, few.to(tl.int64), mask=is_seen, sem="relaxed")
"""
_VALUES = f"""\
@triton.jit
def values_counted(
    x, counts, ends, n_values, n, n_steps,
    LOW: tl.constexpr, COPIES: tl.constexpr, MOST: tl.constexpr, BLOCK: tl.constexpr,
):
{_BEGIN}\
    low = tl.full((BLOCK,), MOST, tl.int64)
    high = -low - 1
    for step in range(n_steps):
        at = first + step * BLOCK
        inside = at < n_values
        value = tl.load(x + at, mask=inside, other=-1)
        low = tl.minimum(low, tl.where(inside, value, MOST))
        high = tl.maximum(high, tl.where(inside, value, -MOST - 1))
{_ADD}{_END}\
    tl.atomic_min(ends, tl.min(low, 0), sem="relaxed")
    tl.atomic_max(ends + 1, tl.max(high, 0), sem="relaxed")
"""
_BINS = f"""\
@triton.jit
def bins_counted(
    x, edges, counts, n_values, n, n_steps,
    LOW: tl.constexpr, COPIES: tl.constexpr, HALF: tl.constexpr, HALVES: tl.constexpr,
    BLOCK: tl.constexpr,
):
{_BEGIN}\
    begin, end = tl.load(edges), tl.load(edges + n)
    for step in range(n_steps):
        at = first + step * BLOCK
        inside = at < n_values
        number = tl.load(x + at, mask=inside, other=0).to(tl.float64)
        value = at * 0
        for k in range(HALVES):
            above = value + (HALF >> k)
            edge = tl.load(edges + above, mask=above < n, other=0)
            value = tl.where((above < n) & (number >= edge), above, value)
        is_within = inside & (number >= begin) & (number <= end)
        value = tl.where(is_within, value, -1)
{_ADD}{_END}"""


def _steps_of(n_values: int) -> tuple[int, int]:
    """(programs, blocks of each)."""
    n_steps = -(-n_values // (COUNT_BLOCK_ELEMENTS * COUNT_PROGRAMS))
    return -(-n_values // (COUNT_BLOCK_ELEMENTS * n_steps)), n_steps


def _values_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_programs, n_steps = _steps_of(shape[0])
    constants = {"LOW": LOW_COUNTS, "COPIES": len(tiles[1]), "MOST": MOST}
    constants["BLOCK"] = COUNT_BLOCK_ELEMENTS
    return Launch(triton_module(_VALUES), n_programs, (*shape, n_steps), **constants)


def _bins_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_programs, n_steps = _steps_of(shape[0])
    n_halves = max((shape[1] - 1).bit_length(), 1)
    constants = {"LOW": LOW_COUNTS, "COPIES": len(tiles[2]), "HALF": 1 << (n_halves - 1)}
    constants |= {"HALVES": n_halves, "BLOCK": COUNT_BLOCK_ELEMENTS}
    return Launch(triton_module(_BINS), n_programs, (*shape, n_steps), **constants)


_count, _bin = Launches(_values_launch), Launches(_bins_launch)


def count_values(x: Any, n: int) -> tuple[Any, Any] | None:
    """How often each of 0 .. n - 1 occurs in a line of int64, and its smallest and largest value.

    None, and nothing done, without Triton, until the kernel is compiled, and for few values.
    """
    if x.dtype != torch.int64 or not _can_read(x):
        return None
    counts = _zeros(x, n)
    ends = torch.empty(2, dtype=torch.int64, device=x.device)
    tiles = (x, counts, ends)
    launch = _count.get((x.numel(), n), tiles)
    if not can_start(launch, tiles):
        return None
    ends[0].fill_(MOST)
    ends[1].fill_(LEAST)
    launch(tiles)
    return _sum_of(counts), ends


def count_bins(x: Any, edges: Any) -> Any:
    """How many values of a line are in each bin between edges of float64, the last of which has its
    right edge too. None, and nothing done, as above."""
    if x.is_complex() or not (_can_read(x) and edges.is_contiguous()):
        return None
    n = len(edges) - 1
    counts = _zeros(x, n)
    tiles = (x, edges, counts)
    launch = _bin.get((x.numel(), n), tiles)
    if not can_start(launch, tiles):
        return None
    launch(tiles)
    return _sum_of(counts)


def _zeros(x: Any, n: int) -> Any:
    """What values are counted in: copies of it, by programs, where there are few counts of many
    values, which would be added to all the time."""
    n_copies = min(SPREAD_COUNTS // max(n, 1), MOST_COPIES) if len(x) >= SPREAD_COUNTS else 1
    return torch.zeros((max(n_copies, 1), n), dtype=torch.int64, device=x.device)


def _sum_of(counts: Any) -> Any:
    return counts.sum(0) if len(counts) > 1 else counts[0]


def _can_read(x: Any) -> bool:
    fits = x.is_cuda and x.is_contiguous() and x.numel() >= LEAST_COUNTED_ELEMENTS
    return bool(fits and has_triton())
