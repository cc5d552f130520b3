"""Joining short rows on a GPU: all parts in one pass, each program with its own block.

A copy for each part starts a kernel for each, and writes lines of memory twice where parts take
turns in them.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from infinitensor.jit import Launch, Launches, has_triton, triton_module
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.compile_beside import can_start

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_JOINED = 8
"""Of one kernel: each looks whether an element is its own."""
LEAST_JOINED_ELEMENTS = 1 << 10
"""Fewer are copied before a kernel would be compiled."""
JOIN_BLOCK_WORDS = 2048
"""Of a program: each thread waits for sixteen of them at a time."""

_JOIN = """\
@triton.jit
def joined(
    out, {parts}, n_words, width, {numbers}, ROWS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n_words
    if ROWS == 1:
        row = at * 0
        column = at
    elif WIDE:
        row = at // width
        column = at - row * width
    else:
        row = (at.to(tl.int32) // width).to(tl.int64)
        column = at - row * width
{reads}    tl.store(out + at, word, mask=inside)
"""
_READ = """\
    is{k} = inside & (column >= start{k}) & (column < start{k} + width{k})
    word{k} = tl.load(part{k} + row * step{k} + (column - start{k}), mask=is{k}, other=0)
"""


@lru_cache
def _source(n_parts: int) -> str:
    """The kernel that joins so many parts."""
    ks = range(n_parts)
    reads = [_READ.format(k=k) for k in ks]
    reads += ["    word = word0\n"]
    reads += [f"    word = tl.where(is{k}, word{k}, word)\n" for k in ks[1:]]
    return triton_module(
        _JOIN.format(
            parts=", ".join(f"part{k}" for k in ks),
            numbers=", ".join(f"start{k}, width{k}, step{k}" for k in ks),
            reads="".join(reads),
        )
    )


def _launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_words, width, *_ = shape
    how = {"ROWS": min(n_words // width, 2), "WIDE": int(n_words >= 1 << 31)}
    n_programs = -(-n_words // JOIN_BLOCK_WORDS)
    return Launch(_source(len(tiles) - 1), n_programs, shape, BLOCK=JOIN_BLOCK_WORDS, **how)


_join = Launches(_launch)


def join(parts: Sequence[Any], axis: int, out: Any) -> bool:
    """Parts of the dtype of `out` one after the other along an axis, which they fill.

    False, and nothing done, without Triton, until the kernel is compiled, for many parts, for few
    elements, and where a part is not made of rows of one distance.
    """
    if not 1 < len(parts) <= MOST_JOINED or not can_write(out):
        return False
    n_rows, size = prod(out.shape[:axis]), out.element_size()
    rows = [_as_rows(part, n_rows) for part in parts if part.dtype == out.dtype]
    if len(rows) < len(parts) or not all(rows):
        return False
    # all in words of one width, to which everything is aligned
    octets = gcd(*(size * n for row in rows if row for n in (row.width, row.step)))
    octets = gcd(octets, out.data_ptr(), *(row.first.data_ptr() for row in rows if row))
    word = min(octets & -octets, 8)
    whole = getattr(torch, f"int{8 * word}")
    tiles, numbers, start = [out.reshape(-1).view(whole)], [], 0
    for row in rows:
        assert row is not None
        n = row.step * (n_rows - 1) + row.width
        tiles.append(row.first.as_strided((n,), (1,)).view(whole))
        width, step = row.width * size // word, row.step * size // word
        numbers += [start, width, step]
        start += width
    launch = _join.get((tiles[0].numel(), start, *numbers), tiles)
    if not can_start(launch, tiles):
        return False
    launch(tiles)
    return True


def can_write(out: Any) -> bool:
    """Whether kernels are used for a result like this."""
    fits = out.is_cuda and out.is_contiguous() and out.numel() >= LEAST_JOINED_ELEMENTS
    return bool(fits and has_triton())


class Rows(NamedTuple):
    """A part as rows of one distance."""

    first: Any
    width: int
    step: int


def _as_rows(part: Any, n_rows: int) -> Rows | None:
    """The rows of a part that is not empty; None where it has none."""
    if not part.numel():
        return None
    width = part.numel() // n_rows
    try:
        rows = part.view(n_rows, width)
    except RuntimeError:  # its strides are no two
        return None
    if width > 1 and rows.stride(1) != 1:
        return None
    return Rows(rows, width, rows.stride(0) if n_rows > 1 else 0)
