"""Writing by index on a GPU: indices are wrapped, looked at and used in one pass or two.

Of few entries a program has one, or a part of its row, and looks at all indices: the first entry of
a place adds those behind it, one after another, and the last one sets it. Of many, each says in
memory that it is there, and the last that did is set. As in `take_triton.py`, an index that is out
of range raises a flag.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from infinitensor.jit import Launch, Launches
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.compile_beside import can_start
from infinitensor.ops.backend.torch_bridge import as_signed
from infinitensor.ops.move.take_triton import (
    TAKEN_BLOCK_ELEMENTS,
    Flag,
    can_read,
    has_started,
    source_by_index,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_WRITTEN_ELEMENTS = 1 << 8
"""Fewer are written before a kernel would be compiled."""
MOST_ENTRIES = 1 << 11
"""Which a program can look at all of; more are added by a sort."""
PLACES_OF_ENTRY = 8
"""Places, for each of many entries, up to which these are marked in memory."""

_FEW = """\
@triton.jit
def few_written(
    values, out, flag, {indices}, n_index, n_places, width, {sizes},
    ADDS: tl.constexpr, ENTRIES: tl.constexpr, COLUMNS: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    across = tl.cdiv(width, COLUMNS)
    entry = (program // across % n_index).to(tl.int32)
    outer = program // across // n_index
    column = program % across * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    row = tl.arange(0, ENTRIES)
    is_row = row < n_index
    place = row.to(tl.int64) * 0
{places}\
    mine = tl.max(tl.where(row == entry, place, -1), 0)
    is_same = is_row & (place == mine)
    at = out + ((outer * n_places + mine) * width + column)
    rows = values + (outer * n_index * width + column)
    if ADDS:
        if tl.min(tl.where(is_same, row, ENTRIES), 0) == entry:
            total = tl.load(at, mask=inside)
            following = entry
            while following < ENTRIES:
                total += tl.load(rows + following.to(tl.int64) * width, mask=inside)
                following = tl.min(tl.where(is_same & (row > following), row, ENTRIES), 0)
            tl.store(at, total, mask=inside)
    else:
        if tl.max(tl.where(is_same, row, -1), 0) == entry:
            tl.store(at, tl.load(rows + entry.to(tl.int64) * width, mask=inside), mask=inside)
"""
_MARK = """\
@triton.jit
def entries_marked(last, flag, {indices}, n_index, {sizes}, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_index
    place = row * 0
{places}\
    tl.atomic_max(last + place, row.to(tl.int32), mask=is_row, sem="relaxed")
"""
_SET = """\
@triton.jit
def last_written(
    values, out, last, flag, {indices}, n_index, n_places, width, {sizes},
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    across = tl.cdiv(width, COLUMNS)
    down = tl.cdiv(n_index, ROWS)
    column = program % across * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    row = program // across % down * ROWS + tl.arange(0, ROWS)[:, None]
    outer = program // across // down
    is_row = row < n_index
    place = row * 0
{places}\
    is_last = is_row & (tl.load(last + place, mask=is_row, other=-1) == row)
    inside = is_last & (column < width)
    found = tl.load(values + ((outer * n_index + row) * width + column), mask=inside)
    tl.store(out + ((outer * n_places + place) * width + column), found, mask=inside)
"""


def _few_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    adds, n_outer, n_index, n_places, width, *sizes = shape
    columns = min(1 << (width - 1).bit_length(), TAKEN_BLOCK_ELEMENTS)
    n_programs = n_outer * n_index * -(-width // columns)
    how = {"ADDS": adds, "ENTRIES": 1 << (n_index - 1).bit_length(), "COLUMNS": columns}
    numbers = (n_index, n_places, width, *sizes)
    return Launch(source_by_index(_FEW, len(sizes)), n_programs, numbers, **how)


def _mark_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_programs = -(-shape[0] // TAKEN_BLOCK_ELEMENTS)
    source = source_by_index(_MARK, len(shape) - 1)
    return Launch(source, n_programs, shape, BLOCK=TAKEN_BLOCK_ELEMENTS)


def _set_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_outer, n_index, n_places, width, *sizes = shape
    columns = min(1 << (width - 1).bit_length(), TAKEN_BLOCK_ELEMENTS)
    rows = TAKEN_BLOCK_ELEMENTS // columns
    n_programs = n_outer * -(-n_index // rows) * -(-width // columns)
    numbers = (n_index, n_places, width, *sizes)
    return Launch(
        source_by_index(_SET, len(sizes)), n_programs, numbers, ROWS=rows, COLUMNS=columns
    )


_few, _mark, _set = Launches(_few_launch), Launches(_mark_launch), Launches(_set_launch)


def can_write(values: Any, index: Sequence[Any], sizes: Sequence[int], out: Any, mode: str) -> bool:
    """Whether there are kernels that write, or add, such entries by index arrays of neighbouring
    axes: what is added by them has the bits of one addition after another."""
    if mode not in ("set", "add") or values.dtype != out.dtype or not can_read(index):
        return False
    if values.numel() < LEAST_WRITTEN_ELEMENTS or not (
        values.is_contiguous() and out.is_contiguous()
    ):
        return False
    n = index[0].numel()
    if mode == "add":
        return bool(n <= MOST_ENTRIES and not (out.is_complex() or out.dtype == torch.bool))
    return bool(n <= MOST_ENTRIES or prod(sizes) <= min(PLACES_OF_ENTRY * n, 1 << 31))


def write(
    values: Any, index: Sequence[Any], sizes: Sequence[int], position: int, out: Any, mode: str
) -> bool:
    """Entries set at, or added to, out[:, ..., index, ...], by index arrays of neighbouring axes
    from `position` on; that they were in range is seen later. False, and nothing done, until it is
    compiled. Only what `can_write`."""
    n_outer, n, n_places = prod(out.shape[:position]), index[0].numel(), prod(sizes)
    width = prod(out.shape[position + len(sizes) :])
    if mode == "add":
        values, out = as_signed(values), as_signed(out)
    else:
        word = out.element_size()
        width *= max(word // 8, 1)
        whole = getattr(torch, f"int{8 * min(word, 8)}")
        values, out = values.reshape(-1).view(whole), out.view(-1).view(whole)
    flag = Flag()
    if n <= MOST_ENTRIES:
        tiles = (values, out, flag.tile, *index)
        kind = (int(mode == "add"), n_outer, n, n_places, width, *sizes)
        return has_started(_few.get(kind, tiles), tiles, flag)
    last = torch.full((n_places,), -1, dtype=torch.int32, device=out.device)
    marked, tiles = (last, flag.tile, *index), (values, out, last, flag.tile, *index)
    mark = _mark.get((n, *sizes), marked)
    place = _set.get((n_outer, n, n_places, width, *sizes), tiles)
    if not all([can_start(mark, marked), can_start(place, tiles)]):  # both are asked for
        return False
    mark(marked)
    return has_started(place, tiles, flag)
