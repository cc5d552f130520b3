"""Sums of distances by label on a GPU: distances stay in registers, never a matrix of them.

A program takes a block of rows through all columns of one label, which are side by side, and
adds up what it finds: nobody else writes its sums, so they are the same bits on every run.
Distances are direct differences in float64, for float32 points too: those of equal points are 0,
and nothing is lost where points are far from the origin.
"""

from __future__ import annotations

from typing import Any

from infinitensor.jit import Launch, Launches, triton_module

ROWS, COLUMNS = 32, 64
"""Rows of a program, and columns it looks at together."""
KINDS = {"euclidean": 0, "direct": 0, "sqeuclidean": 1, "cityblock": 2, "chebyshev": 3}
"""Metrics that are summed up here, and what is made of the differences."""

_BY_LABEL = triton_module("""\
@triton.jit(do_not_specialize=["n", "m"])
def by_label(
    x, y, own, starts, out, n, m, d, n_codes,
    KIND: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    pid = tl.program_id(0)
    code = pid % n_codes
    row = (pid // n_codes).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < n
    mine = tl.load(own + row, mask=there, other=-1)
    begin, end = tl.load(starts + code), tl.load(starts + code + 1)
    total = tl.zeros((ROWS, COLUMNS), tl.float64)
    for low in range(begin, end, COLUMNS):
        column = low + tl.arange(0, COLUMNS)
        inside = column < end
        far = tl.zeros((ROWS, COLUMNS), tl.float64)
        a_at, b_at = x + row, y + column
        for _ in range(0, d):
            a = tl.load(a_at, mask=there, other=0.0)
            b = tl.load(b_at, mask=inside, other=0.0)
            apart = a[:, None] - b[None, :]
            if KIND < 2:
                far += apart * apart
            elif KIND == 2:
                far += tl.abs(apart)
            else:
                far = tl.maximum(far, tl.abs(apart))
            a_at += n
            b_at += m
        if KIND == 0:
            far = tl.sqrt(far)
        counts = inside[None, :] & (column[None, :] != mine[:, None])
        total += tl.where(counts, far, 0.0)
    tl.store(out + row * n_codes + code, tl.sum(total, 1), mask=there)
""")


def _make(kind: int) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        n, _, _, n_codes = shape
        sizes = {"KIND": kind, "ROWS": ROWS, "COLUMNS": COLUMNS}
        n_programs = -(-n // ROWS) * n_codes
        return Launch(_BY_LABEL, n_programs, shape, n_warps=4, fused=True, **sizes)

    return Launches(make)


_by_label = [_make(kind) for kind in range(4)]


def sums_by_label(torch: Any, x: Any, y: Any, own: Any, codes: Any, metric: str, out: Any) -> None:
    """For each row of x the sum of the distances to the rows of y of each code, into `out`.

    Row i of x is row own[i] of y (-1: none): that distance is 0.
    """
    (n, d), m, n_codes = x.shape, y.shape[0], out.shape[1]
    ordered, order = torch.sort(codes, stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(m, device=order.device)
    there = (own >= 0) & (own < m)
    mine = torch.where(there, place[torch.where(there, own, 0)], -1).int()
    numbers = torch.arange(n_codes + 1, dtype=codes.dtype, device=codes.device)
    starts = torch.searchsorted(ordered, numbers).int()
    sides = x.double().t().contiguous(), y[order].double().t().contiguous()
    made = (
        out if out.is_contiguous() else torch.empty_like(out, memory_format=torch.contiguous_format)
    )
    tiles = (*sides, mine, starts, made)
    _by_label[KINDS[metric]].get((n, m, d, n_codes), tiles)(tiles)
    if made is not out:
        out.copy_(made)


def scratch_of(n: int, m: int, d: int, n_codes: int) -> int:
    """Bytes that it allocates beside its result."""
    return 8 * (n + 2 * m) * d + 80 * (n + m) + 64 * n_codes + 8 * n * n_codes + 4096
