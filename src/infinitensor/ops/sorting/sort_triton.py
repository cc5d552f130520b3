"""Short lines sorted on a GPU: a program has several of them in registers.

Values are sorted as integers whose order is theirs, NaN last; elements that fill a line up to a
power of two are as large, so that they stay behind. The libraries' sorts move every element once
for each of its digits, and torch's its index too.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from infinitensor.jit import Launch, Launches, has_triton, triton_module
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.compile_beside import can_start

MOST_LINE_ELEMENTS = 512
"""Longer lines are torch's: it is as fast there."""
LEAST_SORTED_ELEMENTS = 1 << 12
"""Fewer are sorted before a kernel would be compiled."""
PROGRAM_ELEMENTS = 1024
"""With twice as many, 300 in a line take 1.7 times as long."""
SORT_WARPS = 8
"""With four, they take 1.3 times as long."""

_KERNEL = """\
@triton.jit
def lines_sorted(
    x, out, n_lines, n, inner{ranks},
    BITS: tl.constexpr, INFINITY: tl.constexpr, FLIPPED: tl.constexpr,
    WIDE: tl.constexpr, LINES: tl.constexpr, BLOCK: tl.constexpr,
):
    line = tl.program_id(0).to(tl.int64) * LINES + tl.arange(0, LINES)[:, None]
    place = tl.arange(0, BLOCK)[None, :]
    outer, lane = line // inner, line % inner
    inside = (line < n_lines) & (place < n)
    at = (outer * n + place) * inner + lane
    keys = tl.load(x + at, mask=inside, other=0)
    keys = keys.to(tl.int64) if WIDE else keys.to(tl.int32)
    MOST: tl.constexpr = (1 << (BITS - 1)) - 1
    if INFINITY > 0:
        is_nan = (keys & MOST) > INFINITY
        keys = tl.where(is_nan, MOST, tl.where(keys < 0, keys ^ MOST, keys))
    keys = keys ^ FLIPPED
    keys = tl.sort(tl.where(inside, keys, MOST), 1)
    keys = keys ^ FLIPPED
    if INFINITY > 0:
        keys = tl.where(keys < 0, keys ^ MOST, keys)
    made = keys.to(out.dtype.element_ty)
{stores}"""


@lru_cache
def _source(n_ranks: int) -> str:
    """The kernel that stores so many ranks of each line; 0: all of it."""
    if not n_ranks:
        stores = ["    tl.store(out + at, made, mask=inside)\n"]
    else:
        stores = [
            f"    tl.store(out + (outer * {n_ranks} + {k}) * inner + lane + place * 0, made, "
            f"mask=inside & (place == rank{k}))\n"
            for k in range(n_ranks)
        ]
    ranks = "".join(f", rank{k}" for k in range(n_ranks))
    return triton_module(_KERNEL.format(ranks=ranks, stores="".join(stores)))


def _launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_lines, n, inner, infinity, flipped, *ranks = shape
    block = max(1 << (n - 1).bit_length(), 2)
    n_at_a_time = max(PROGRAM_ELEMENTS // block, 1)
    bits = 8 * tiles[0].element_size()
    return Launch(
        _source(len(ranks)),
        -(-n_lines // n_at_a_time),
        (n_lines, n, inner, *ranks),
        n_warps=SORT_WARPS,
        BITS=bits,
        INFINITY=infinity,
        FLIPPED=flipped,
        WIDE=int(bits == 64),
        LINES=n_at_a_time,
        BLOCK=block,
    )


_sort = Launches(_launch)


@lru_cache
def order_of(dtype: Any) -> tuple[int, int]:
    """The bits of infinity, of a float, and those that are flipped in an unsigned integer."""
    bits = 8 * dtype.itemsize
    if dtype.is_floating_point:
        return int(torch.tensor(torch.inf, dtype=dtype).view(getattr(torch, f"int{bits}"))), 0
    return 0, 0 if dtype.is_signed or dtype == torch.bool else -(1 << (bits - 1))


def sort_short_lines(x: Any, out: Any, axis: int, ranks: tuple[int, ...] = ()) -> bool:
    """Lines along an axis sorted into `out`, or what has some ranks in each of them.

    False, and nothing done, without Triton, until the kernel is compiled, for long lines, few
    elements, complex numbers, and what is not contiguous.
    """
    n = x.shape[axis]
    fits = n <= MOST_LINE_ELEMENTS and x.numel() >= LEAST_SORTED_ELEMENTS and not x.is_complex()
    if not (fits and x.is_cuda and x.is_contiguous() and out.is_contiguous() and has_triton()):
        return False
    whole = getattr(torch, f"int{8 * x.element_size()}")
    tiles = (x.view(whole), out.view(whole))
    kind = (x.numel() // n, n, prod(x.shape[axis:][1:]), *order_of(x.dtype), *ranks)
    launch = _sort.get(kind, tiles)
    if not can_start(launch, tiles):
        return False
    launch(tiles)
    return True
