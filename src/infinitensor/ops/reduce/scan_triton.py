"""Running sums on a GPU: of long lines in two passes, of many short rows or columns in one.

Blocks of a line are added up, then each is scanned after those before it. (torch's scan takes one
pass and longer, its bits differ from run to run, and of several lines each is one program's.) Of
short rows a program has several: torch's has one, with most of its threads idle. Of
integers in columns it has blocks of rows, whose sums are the same in any order. Floats are added
row after row, as by torch, which reads a row when it has added the one before.
"""

from __future__ import annotations

from math import prod
from typing import Any

from infinitensor.jit import Launch, Launches, has_triton, triton_module
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.compile_beside import can_start

SCAN_BLOCK_ELEMENTS = 8192
"""Elements of a program; fewer would be more totals, which are scanned by themselves."""
N_WARPS = 16
"""With eight, 32 elements a thread, a scan takes 8 % longer."""
LEAST_SCAN_ELEMENTS = 1 << 16
"""Shorter lines are torch's, and fewer elements in rows."""
MOST_ROW_ELEMENTS = 256
"""Longer rows, if they are many, are torch's: it is as fast there."""
FEW_ROWS = 256
"""Rows that are fewer than a GPU has programs: each of the longer ones is several's."""
MOST_COLUMNS = 1 << 16
"""More columns of floats are torch's: while it waits for some it adds others."""
ROWS_AHEAD = 64
"""Rows of floats that are read before they are added."""
ROWS_BLOCK_ELEMENTS = 4096
"""Elements of a program that has several rows."""
COLUMNS_BLOCK_ELEMENTS = 4096
"""Elements of a block of columns."""
COLUMNS_AT_A_TIME = 8
"""Of a program: 64 bytes side by side, and few columns are many programs."""

_TOTAL = triton_module("""\
@triton.jit
def totals(x, sums, n, n_blocks, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    place = pid % n_blocks * BLOCK + tl.arange(0, BLOCK)
    at = pid // n_blocks * n + place
    tl.store(sums + pid, tl.sum(tl.load(x + at, mask=place < n, other=0), 0))
""")
_SCAN = triton_module("""\
@triton.jit
def scanned(x, out, ends, n, n_blocks, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    is_later = pid % n_blocks > 0
    place = pid % n_blocks * BLOCK + tl.arange(0, BLOCK)
    at = pid // n_blocks * n + place
    before = tl.load(ends + pid - 1, mask=is_later, other=0)
    line = tl.cumsum(tl.load(x + at, mask=place < n, other=0), 0)
    tl.store(out + at, tl.where(is_later, before + line, line), mask=place < n)
""")
_ROWS = triton_module("""\
@triton.jit
def rows_scanned(x, out, n_rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    at = row * n + column
    inside = (row < n_rows) & (column < n)
    lines = tl.cumsum(tl.load(x + at, mask=inside, other=0), 1)
    tl.store(out + at, lines, mask=inside)
""")

_COLUMNS = triton_module("""\
@triton.jit
def columns_scanned(x, out, n, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    across = tl.cdiv(width, COLUMNS)
    outer = tl.program_id(0).to(tl.int64) // across
    column = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    before = tl.zeros((COLUMNS,), x.dtype.element_ty)
    for first in range(0, n, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        at = (outer * n + row) * width + column[None, :]
        inside = (row < n) & (column < width)[None, :]
        values = tl.load(x + at, mask=inside, other=0)
        tl.store(out + at, tl.cumsum(values, 0) + before[None, :], mask=inside)
        before += tl.sum(values, 0)
""")
_AHEAD = triton_module(
    """\
@triton.jit
def columns_added(
    x, out, n_columns, n, width, AHEAD: tl.constexpr, COLUMNS: tl.constexpr
):
    column = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < n_columns
    at = column // width * n * width + column % width
    total = tl.zeros((COLUMNS,), x.dtype.element_ty)
    for first in range(0, n, AHEAD):
""",
    *(
        f"        is{k} = inside & (first + {k} < n)\n"
        f"        x{k} = tl.load(x + (at + {k} * width), mask=is{k}, other=0)\n"
        for k in range(ROWS_AHEAD)
    ),
    *(
        f"        total += x{k}\n        tl.store(out + (at + {k} * width), total, mask=is{k})\n"
        for k in range(ROWS_AHEAD)
    ),
    "        at += AHEAD * width\n",
)


def _launches(source: str) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        n_lines, n = shape
        n_blocks = -(-n // SCAN_BLOCK_ELEMENTS)
        return Launch(
            source,
            n_lines * n_blocks,
            (n, n_blocks),
            n_warps=N_WARPS,
            BLOCK=SCAN_BLOCK_ELEMENTS,
        )

    return Launches(make)


def _rows_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    block = 1 << (shape[1] - 1).bit_length()
    n_at_a_time = ROWS_BLOCK_ELEMENTS // block
    n_programs = -(-shape[0] // n_at_a_time)
    return Launch(_ROWS, n_programs, shape, ROWS=n_at_a_time, BLOCK=block)


def _columns_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_outer, n, width = shape
    columns = min(1 << (width - 1).bit_length(), COLUMNS_AT_A_TIME)
    rows = min(1 << (n - 1).bit_length(), COLUMNS_BLOCK_ELEMENTS // columns)
    n_programs = n_outer * -(-width // columns)
    return Launch(_COLUMNS, n_programs, (n, width), n_warps=8, ROWS=rows, COLUMNS=columns)


def _ahead_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_programs = -(-shape[0] // 32)
    return Launch(_AHEAD, n_programs, shape, n_warps=1, AHEAD=ROWS_AHEAD, COLUMNS=32)


_total, _scan, _rows = _launches(_TOTAL), _launches(_SCAN), Launches(_rows_launch)
_columns, _ahead = Launches(_columns_launch), Launches(_ahead_launch)


def running_sum(x: Any, out: Any, axis: int) -> bool:
    """The running sums along an axis into `out`; False, and nothing done, without Triton, for few
    elements, rows neither long nor short, other axes and dtypes, and what is not contiguous. Of
    integers also until it is compiled: torch's sums are the same, those of floats are not."""
    n = x.numel()
    kinds = (torch.float32, torch.float64, torch.int32, torch.int64)
    plain = x.dtype == out.dtype and x.dtype in kinds and n >= LEAST_SCAN_ELEMENTS
    if not (plain and x.is_cuda and x.is_contiguous() and out.is_contiguous() and has_triton()):
        return False
    width = x.shape[axis]
    is_last = n == width or axis % x.ndim == x.ndim - 1
    if not is_last:
        return _sum_columns(x, out, axis % x.ndim)
    if n == width or (width > SCAN_BLOCK_ELEMENTS and n // width < FEW_ROWS):
        return _sum_lines(x, out, n // width, width)
    if width > MOST_ROW_ELEMENTS:
        return False
    rows = _rows.get((n // width, width), (x, out))
    if not (x.is_floating_point() or can_start(rows, (x, out))):
        return False
    rows((x, out))
    return True


def _sum_lines(x: Any, out: Any, n_lines: int, n: int) -> bool:
    """Running sums of long lines, one after another in memory."""
    n_blocks = -(-n // SCAN_BLOCK_ELEMENTS)
    sums = torch.empty((n_lines, n_blocks), dtype=x.dtype, device=x.device)
    total = _total.get((n_lines, n), (x,))  # scratch is always alike
    scan = _scan.get((n_lines, n), (x, out))
    if not x.is_floating_point():
        both = [can_start(total, (x, sums)), can_start(scan, (x, out, sums))]
        if not all(both):
            return False
    total((x, sums))
    scan((x, out, torch.cumsum(sums, 1, dtype=x.dtype)))
    return True


def _sum_columns(x: Any, out: Any, axis: int) -> bool:
    """Running sums along an axis that is not the last; False until it is compiled, and of floats in
    many columns."""
    n_outer, n, width = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    if not x.is_floating_point():
        launch = _columns.get((n_outer, n, width), (x, out))
    elif n_outer * width <= MOST_COLUMNS:
        launch = _ahead.get((n_outer * width, n, width), (x, out))
    else:
        return False
    if not can_start(launch, (x, out)):
        return False
    launch((x, out))
    return True
