"""Values of given ranks in the lines of a GPU, which a program has in registers, without a sort.

A wanted value is found bit by bit, as an integer whose order is the values': how many are less than
what is known of it with the next bit set says whether that bit is. torch's selection reads the line
for every two bits, a sort moves it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from infinitensor.jit import Launch, Launches, has_triton, triton_module
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.compile_beside import can_start
from infinitensor.ops.sorting.sort_triton import LEAST_SORTED_ELEMENTS, order_of

MOST_LINE_BYTES = 1 << 16
"""What the registers of a program hold."""
THREAD_ELEMENTS = 16

_KERNEL = """\
@triton.jit
def ranks_selected(
    x, out, n{ranks},
    BITS: tl.constexpr, INFINITY: tl.constexpr, FLIPPED: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):
    line = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    inside = place < n
    keys = tl.load(x + line * n + place, mask=inside, other=0)
    keys = keys.to(tl.int64) if WIDE else keys.to(tl.int32)
    MOST: tl.constexpr = (1 << (BITS - 1)) - 1
    if INFINITY > 0:
        is_nan = (keys & MOST) > INFINITY
        keys = tl.where(is_nan, MOST, tl.where(keys < 0, keys ^ MOST, keys))
    keys = tl.where(inside, keys ^ FLIPPED, MOST)
{found}"""

_SEARCH = """\
    found = tl.where(tl.sum((keys < 0).to(tl.int32), 0) <= rank{k}, 0, -MOST - 1).to(keys.dtype)
    step = tl.full((), (MOST + 1) // 2, keys.dtype)
    for _ in range(BITS - 1):
        n_less = tl.sum((keys < found + step).to(tl.int32), 0)
        found = tl.where(n_less <= rank{k}, found + step, found)
        step = step >> 1
"""
_NEXT = """\
    n_less = tl.sum((keys <= found).to(tl.int32), 0)
    found = tl.where(n_less > rank{k}, found, tl.min(tl.where(keys > found, keys, MOST), 0))
"""
_LAST = "    found = tl.max(tl.where(inside, keys, -MOST - 1), 0)\n"
_STORE = """\
    made = found ^ FLIPPED
    if INFINITY > 0:
        made = tl.where(made < 0, made ^ MOST, made)
    tl.store(out + line * {n_ranks} + {k}, made.to(out.dtype.element_ty))
"""


@lru_cache
def _source(steps: tuple[str, ...]) -> str:
    """The kernel that finds one rank after another by these steps."""
    found = "".join((step + _STORE).format(k=k, n_ranks=len(steps)) for k, step in enumerate(steps))
    ranks = "".join(f", rank{k}" for k in range(len(steps)))
    return triton_module(_KERNEL.format(ranks=ranks, found=found))


def _launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_lines, n, infinity, flipped, *ranks = shape
    before = [None, *ranks[:-1]]
    steps = [
        _LAST if rank == n - 1 else _NEXT if last in (rank, rank - 1) else _SEARCH
        for last, rank in zip(before, ranks, strict=True)
    ]
    block, bits = 1 << (n - 1).bit_length(), 8 * tiles[0].element_size()
    return Launch(
        _source(tuple(steps)),
        n_lines,
        (n, *ranks),
        n_warps=min(max(block // (32 * THREAD_ELEMENTS), 4), 16),
        BITS=bits,
        INFINITY=infinity,
        FLIPPED=flipped,
        WIDE=int(bits == 64),
        BLOCK=block,
    )


_select = Launches(_launch)


def select_in_lines(x: Any, out: Any, ranks: tuple[int, ...]) -> bool:
    """The values of some ranks, which rise, of each line along the last axis into `out`.

    False, and nothing done, without Triton, until the kernel is compiled, for lines that are too
    long, few elements, complex numbers, and what is not contiguous.
    """
    n = x.shape[-1]
    fits = n * max(x.element_size(), 4) <= MOST_LINE_BYTES and x.numel() >= LEAST_SORTED_ELEMENTS
    if not fits or x.is_complex() or not (x.is_cuda and has_triton()):
        return False
    if not (x.is_contiguous() and out.is_contiguous()):
        return False
    whole = getattr(torch, f"int{8 * x.element_size()}")
    tiles = (x.view(whole), out.view(whole))
    launch = _select.get((x.numel() // n, n, *order_of(x.dtype), *ranks), tiles)
    if not can_start(launch, tiles):
        return False
    launch(tiles)
    return True
