"""Running sums of a line on a GPU in two passes: blocks are added up, then each is scanned after
those before it. (torch's scan takes one pass and longer, and its bits differ from run to run.)
"""

from __future__ import annotations

from typing import Any

from infinitensor.jit import Launch, Launches, has_triton, triton_module
from infinitensor.lazy_torch import torch

SCAN_BLOCK_ELEMENTS = 8192
"""Elements of a program; fewer would be more totals, which are scanned by themselves."""
N_WARPS = 16
"""With eight, 32 elements a thread, a scan takes 8 % longer."""
LEAST_SCAN_ELEMENTS = 1 << 16
"""Shorter lines are torch's."""

_TOTAL = triton_module("""\
@triton.jit
def totals(x, sums, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums + pid, tl.sum(tl.load(x + at, mask=at < n, other=0), 0))
""")
_SCAN = triton_module("""\
@triton.jit
def scanned(x, out, ends, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(ends + pid - 1, mask=pid > 0, other=0)
    line = tl.cumsum(tl.load(x + at, mask=at < n, other=0), 0)
    tl.store(out + at, tl.where(pid > 0, before + line, line), mask=at < n)
""")


def _launches(source: str) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        return Launch(
            source,
            -(-shape[0] // SCAN_BLOCK_ELEMENTS),
            shape,
            n_warps=N_WARPS,
            BLOCK=SCAN_BLOCK_ELEMENTS,
        )

    return Launches(make)


_total, _scan = _launches(_TOTAL), _launches(_SCAN)


def running_sum(x: Any, out: Any) -> bool:
    """The running sum of a line into `out`; False, and nothing done, without Triton, for short
    lines, other dtypes and elements that are not contiguous."""
    n = x.numel()
    kinds = (torch.float32, torch.float64, torch.int32, torch.int64)
    plain = (
        x.dtype == out.dtype and x.dtype in kinds and n >= LEAST_SCAN_ELEMENTS and n == max(x.shape)
    )
    if not (plain and x.is_cuda and x.is_contiguous() and out.is_contiguous() and has_triton()):
        return False
    sums = torch.empty(-(-n // SCAN_BLOCK_ELEMENTS), dtype=x.dtype, device=x.device)
    _total.get((n,), (x,))((x, sums))  # scratch is always alike
    _scan.get((n,), (x, out))((x, out, torch.cumsum(sums, 0, dtype=x.dtype)))
    return True
