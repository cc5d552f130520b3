"""Picking by a mask on a GPU: blocks are counted, then each writes its own part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from infinitensor.jit import Launch, Launches, has_triton, triton_module
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.compile_beside import can_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    Start: TypeAlias = tuple[Launch, Sequence[Any]]

MASK_BLOCK_ELEMENTS = 4096
"""Elements of a program."""
COUNTS = 8192
"""Counts that are added up at a time: by one program, for there are few."""

_COUNT = triton_module("""\
@triton.jit
def counted(mask, counts, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    chosen = tl.load(mask + at, mask=at < n, other=0).to(tl.int32)
    tl.store(counts + pid, tl.sum(chosen, 0).to(tl.int64))
""")
_ENDS = triton_module("""\
@triton.jit
def added(counts, total, n, BLOCK: tl.constexpr):
    before = tl.zeros((), tl.int64)
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        each = tl.load(counts + at, mask=at < n, other=0)
        tl.store(counts + n + at, before + tl.cumsum(each, 0), mask=at < n)
        before += tl.sum(each, 0)
    tl.store(total, before)
""")
_FILL = """\
@triton.jit
def compacted(mask, {x}out, counts, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    chosen = tl.load(mask + at, mask=at < n, other=0).to(tl.int32)
    n_blocks = tl.cdiv(n, BLOCK)
    first = tl.load(counts + n_blocks + pid) - tl.sum(chosen, 0)
    place = first + tl.cumsum(chosen, 0) - 1
    tl.store(out + place, {value}, mask=chosen != 0)
"""
_PADDED = """\
    total = tl.load(counts + 2 * n_blocks - 1)
    nothing = tl.zeros((BLOCK,), out.dtype.element_ty)
    tl.store(out + at, nothing, mask=(at >= total) & (at < n))
"""
_LOADED = {"x": "x, ", "value": "tl.load(x + at, mask=at < n)"}
_PLACES = {"x": "", "value": "at"}


def _launches(source: str, block: int = 0) -> Launches:
    """One program for each block of elements, or one that walks over blocks of a given size."""

    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        n_programs = 1 if block else -(-shape[0] // MASK_BLOCK_ELEMENTS)
        return Launch(
            source, n_programs, shape, n_warps=8 if block else 4, BLOCK=block or MASK_BLOCK_ELEMENTS
        )

    return Launches(make)


_count, _added = _launches(_COUNT), _launches(_ENDS, COUNTS)
_fill = _launches(triton_module(_FILL.format(**_LOADED)))
_pack = _launches(triton_module(_FILL.format(**_LOADED), _PADDED))
_pack_places = _launches(triton_module(_FILL.format(**_PLACES), _PADDED))


def count_into(mask: Any, out: Any) -> None:
    """How many entries a mask has, into an integer on the GPU; torch takes several times longer."""
    if not (_can_read(mask) and _have_started(_counting(mask, out)[1])):
        out[...] = torch.count_nonzero(mask)


def _counting(mask: Any, total: Any = None) -> tuple[Any, list[Start]]:
    """How many entries each block has, then where the part of each ends; how many there are goes
    into `total`. (Scratch is always alike: launches are known by the other tiles.)"""
    n = mask.numel()
    n_blocks = -(-n // MASK_BLOCK_ELEMENTS)
    counts = torch.empty(2 * n_blocks, dtype=torch.int64, device=mask.device)
    alike = (mask,) if total is None else (mask, total)
    target = counts if total is None else total  # the first of the counts is read by then
    count, added = _count.get((n,), (mask,)), _added.get((n_blocks,), alike)
    return counts, [(count, (mask, counts)), (added, (counts, target))]


def _have_started(starts: Sequence[Start]) -> bool:
    """Start kernels, one after another; False, and nothing done, until all are compiled."""
    if not all([can_start(launch, tiles) for launch, tiles in starts]):  # all are asked for
        return False
    for launch, tiles in starts:
        launch(tiles)
    return True


def compact(x: Any, mask: Any, out: Any) -> bool:
    """`out[...] = x[mask]` for torch tensors of one shape, `out` having as many elements as there
    are; False, and nothing done, without Triton, until it is compiled, or where they are not
    contiguous."""
    if not (_can_move(x, mask, out) and out.numel()):
        return False
    tiles = (mask, x, out)
    counts, counting = _counting(mask)
    return _have_started([*counting, (_fill.get((x.numel(),), tiles), (*tiles, counts))])


def pack(x: Any, mask: Any, out: Any, count: Any) -> bool:
    """The elements that a mask chooses at the beginning of an `out` of its shape, zeros behind
    them, and how many there are: without `x` their places. False, and nothing done, without Triton,
    until it is compiled, or where they are not contiguous."""
    if not (out.is_contiguous() and _can_read(mask) if x is None else _can_move(x, mask, out)):
        return False
    tiles = (mask, out) if x is None else (mask, x, out)
    launches = _pack_places if x is None else _pack
    counts, counting = _counting(mask, count)
    return _have_started([*counting, (launches.get((mask.numel(),), tiles), (*tiles, counts))])


def _can_read(mask: Any) -> bool:
    fits = mask.is_cuda and mask.dtype == torch.bool and mask.is_contiguous() and mask.numel()
    return bool(fits and has_triton())


def _can_move(x: Any, mask: Any, out: Any) -> bool:
    plain = not x.is_complex() and x.shape == mask.shape
    return plain and x.is_contiguous() and out.is_contiguous() and _can_read(mask)
