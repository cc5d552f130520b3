"""Reading by index on a GPU: indices are wrapped, looked at and used in one pass.

A kernel cannot raise an error. Where an index is out of range it sets a flag in memory of the host,
which is looked at once the device is done (`lane.checks`), and reads something else meanwhile.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from infinitensor.events import lane
from infinitensor.jit import Launch, Launches, has_triton, triton_module
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.compile_beside import can_start

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_TAKEN_ELEMENTS = 1 << 10
"""Fewer are read before a kernel would be compiled."""
TAKEN_BLOCK_ELEMENTS = 1024
"""Of a program: each thread waits for eight of them at a time."""


class Flag:
    """A number in the host's memory that a GPU sets: of one block, made once."""

    _free: ClassVar[list[tuple[Any, Any]]] = []
    __slots__ = ("_seen", "tile")

    def __init__(self) -> None:
        if not self._free:
            block = torch.zeros((1024, 4), dtype=torch.int32, pin_memory=torch.cuda.is_available())
            self._free.extend(zip(block, block.numpy(), strict=True))
        self.tile, self._seen = self._free.pop()

    def is_down(self) -> bool:
        """Whether it has not been set, once the device is done; it is down again then."""
        is_set = bool(self._seen[0])
        if is_set:
            self._seen[0] = 0
        return not is_set

    def __del__(self) -> None:
        self._free.append((self.tile, self._seen))


_WRAP = """\
@triton.jit
def wrapped(index, out, flag, n_index, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n_index
    i = tl.load(index + at, mask=inside, other=0).to(tl.int64)
    i = tl.where(i < 0, i + n, i)
    is_wrong = (i < 0) | (i >= n)
    tl.store(flag + at * 0, 1, mask=is_wrong)
    tl.store(out + at, tl.where(is_wrong, 0, i), mask=inside)
"""

_TAKE = """\
@triton.jit
def taken(
    x, out, flag, {indices}, n_index, width, {sizes}, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    program = tl.program_id(0).to(tl.int64)
    across = tl.cdiv(width, COLUMNS)
    down = tl.cdiv(n_index, ROWS)
    column = program % across * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    row = program // across % down * ROWS + tl.arange(0, ROWS)[:, None]
    outer = program // across // down
    is_row = row < n_index
    place = row * 0 + outer
{places}    inside = is_row & (column < width)
    values = tl.load(x + place * width + column, mask=inside)
    tl.store(out + (outer * n_index + row) * width + column, values, mask=inside)
"""

_ALONG = """\
@triton.jit
def taken_along(
    x, out, flag, index, n_out, n_taken, inner, n, WIDE: tl.constexpr, LINES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n_out
    i = tl.load(index + at, mask=inside, other=0).to(tl.int64)
    i = tl.where(i < 0, i + n, i)
    is_wrong = (i < 0) | (i >= n)
    tl.store(flag + at * 0, 1, mask=is_wrong)
    i = tl.where(is_wrong, 0, i)
    number = at if WIDE else at.to(tl.int32)
    if LINES:
        place = (number // n_taken).to(tl.int64) * n + i
    else:
        outer = number // (n_taken * inner)
        place = (outer.to(tl.int64) * n + i) * inner + number % inner
    tl.store(out + at, tl.load(x + place, mask=inside), mask=inside)
"""

PLACE = """\
    i{k} = tl.load(index{k} + row, mask=is_row, other=0).to(tl.int64)
    i{k} = tl.where(i{k} < 0, i{k} + n{k}, i{k})
    is_wrong{k} = (i{k} < 0) | (i{k} >= n{k})
    tl.store(flag + row * 0, 1, mask=is_wrong{k})
    place = place * n{k} + tl.where(is_wrong{k}, 0, i{k})
"""


@lru_cache
def source_by_index(kernel: str, n_indices: int) -> str:
    """A kernel that reads or writes by so many index arrays of neighbouring axes."""
    ks = range(n_indices)
    return triton_module(
        kernel.format(
            indices=", ".join(f"index{k}" for k in ks),
            sizes=", ".join(f"n{k}" for k in ks),
            places="".join(PLACE.format(k=k) for k in ks),
        )
    )


def _wrap_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_programs = -(-shape[0] // TAKEN_BLOCK_ELEMENTS)
    return Launch(triton_module(_WRAP), n_programs, shape, BLOCK=TAKEN_BLOCK_ELEMENTS)


def _take_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_outer, n_index, width, *sizes = shape
    columns = min(1 << (width - 1).bit_length(), TAKEN_BLOCK_ELEMENTS)
    rows = TAKEN_BLOCK_ELEMENTS // columns
    n_programs = n_outer * -(-n_index // rows) * -(-width // columns)
    numbers = (n_index, width, *sizes)
    return Launch(
        source_by_index(_TAKE, len(sizes)), n_programs, numbers, ROWS=rows, COLUMNS=columns
    )


def _along_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_out, _, inner, _ = shape
    how = {"WIDE": int(n_out >= 1 << 31), "LINES": int(inner == 1)}
    n_programs = -(-n_out // TAKEN_BLOCK_ELEMENTS)
    return Launch(triton_module(_ALONG), n_programs, shape, BLOCK=TAKEN_BLOCK_ELEMENTS, **how)


_wrap = Launches(_wrap_launch)
_along = Launches(_along_launch)
_take = Launches(_take_launch)


def wrap(index: Any, n: int) -> Any:
    """Indices into an axis of `n` as they are from 0 to n - 1; that all were in range is seen later
    (`lane.checks`). None, and nothing done, where that is left to torch."""
    if not can_read([index]) or index.numel() < LEAST_TAKEN_ELEMENTS:
        return None
    flag, out = Flag(), torch.empty(index.shape, dtype=torch.int64, device=index.device)
    tiles = (index, out, flag.tile)
    return out if has_started(_wrap.get((index.numel(), n), tiles), tiles, flag) else None


def take(x: Any, index: Sequence[Any], sizes: Sequence[int], position: int, out: Any) -> bool:
    """x[:, ..., index, ...] into `out`, by index arrays of neighbouring axes from `position` on;
    that they were in range is seen later. False, and nothing done, where torch has to.
    """
    if out.numel() < LEAST_TAKEN_ELEMENTS or not can_read(index):
        return False
    if not (x.is_contiguous() and out.is_contiguous()):
        return False
    word = x.element_size()
    width = prod(x.shape[position + len(sizes) :]) * max(word // 8, 1)
    whole = getattr(torch, f"int{8 * min(word, 8)}")
    flag = Flag()
    tiles = (x.reshape(-1).view(whole), out.reshape(-1).view(whole), flag.tile, *index)
    kind = (prod(x.shape[:position]), index[0].numel(), width, *sizes)
    return has_started(_take.get(kind, tiles), tiles, flag)


def take_along(x: Any, index: Any, axis: int, out: Any) -> bool:
    """For each line of x along an axis the elements at the indices of the same line into `out`;
    that they were in range is seen later. False, and nothing done, where torch has to."""
    if out.numel() < LEAST_TAKEN_ELEMENTS or not can_read([index]):
        return False
    beside = [(*tile.shape[:axis], *tile.shape[axis + 1 :]) for tile in (x, index)]
    if beside[0] != beside[1] or not (x.is_contiguous() and out.is_contiguous()):
        return False
    if x.element_size() > 8 or not x.numel():
        return False
    whole = getattr(torch, f"int{8 * x.element_size()}")
    flag = Flag()
    tiles = (x.reshape(-1).view(whole), out.reshape(-1).view(whole), flag.tile, index)
    kind = (out.numel(), index.shape[axis], prod(x.shape[axis + 1 :]), x.shape[axis])
    return has_started(_along.get(kind, tiles), tiles, flag)


def can_read(index: Sequence[Any]) -> bool:
    """Whether kernels know these dtypes, and may go on before they know that indices are right."""
    if lane.checks is None or not index[0].is_cuda or not has_triton():
        return False
    kinds = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    return all(i.dtype in kinds and i.is_contiguous() for i in index)


def has_started(launch: Launch, tiles: Sequence[Any], flag: Flag) -> bool:
    """Start a kernel that raises a flag; False until it is compiled."""
    if not can_start(launch, tiles):
        return False
    launch(tiles)
    assert lane.checks is not None
    lane.checks.append(flag.is_down)
    return True
