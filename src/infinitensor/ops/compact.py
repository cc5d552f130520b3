"""Picking by a mask on a GPU in two passes: blocks are counted, then each writes its own part."""

from __future__ import annotations

from typing import Any

from infinitensor.jit import Launch, Launches, has_triton

BLOCK = 4096
"""Elements of a program."""

_HEADER = "import triton\nimport triton.language as tl\n\n\n"
_COUNT = (
    _HEADER
    + """\
@triton.jit
def counted(mask, counts, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    chosen = tl.load(mask + at, mask=at < n, other=0).to(tl.int32)
    tl.store(counts + pid, tl.sum(chosen, 0))


run = counted
"""
)
_FILL = (
    _HEADER
    + """\
@triton.jit
def compacted(mask, x, ends, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    chosen = tl.load(mask + at, mask=at < n, other=0).to(tl.int32)
    first = tl.load(ends + pid) - tl.sum(chosen, 0)
    place = first + tl.cumsum(chosen, 0) - 1
    tl.store(out + place, tl.load(x + at, mask=chosen != 0), mask=chosen != 0)


run = compacted
"""
)


def _launches(source: str) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        return Launch(source, -(-shape[0] // BLOCK), shape, BLOCK=BLOCK)

    return Launches(make)


_count, _fill = _launches(_COUNT), _launches(_FILL)


def count_true(mask: Any) -> Any:
    """How many entries a mask has, left on the GPU: torch takes several times as long."""
    import torch

    if not (mask.is_cuda and mask.is_contiguous() and mask.numel() and has_triton()):
        return torch.count_nonzero(mask)
    return _counts(mask).sum()


def _counts(mask: Any) -> Any:
    """How many entries each block of a mask has."""
    import torch

    n = mask.numel()
    counts = torch.empty(-(-n // BLOCK), dtype=torch.int32, device=mask.device)
    _count.get((n,), (mask, counts))((mask, counts))
    return counts


def compact(x: Any, mask: Any, out: Any) -> bool:
    """`out[...] = x[mask]` for torch tensors of one shape, `out` having as many elements as there
    are; False, and nothing done, without Triton or where they do not lie side by side."""
    import torch

    plain = mask.dtype == torch.bool and not x.is_complex() and x.shape == mask.shape
    lies = x.is_contiguous() and mask.is_contiguous() and out.is_contiguous()
    if not (plain and lies and x.is_cuda and out.numel() and has_triton()):
        return False
    n = x.numel()
    ends = torch.cumsum(_counts(mask), 0)
    tiles = (mask, x, ends, out)
    _fill.get((n,), tiles)(tiles)
    return True
