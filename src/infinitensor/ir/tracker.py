"""Who must wait for whom on one piece of memory: reads and writes of boxes with steps, in order.

An access depends on the visible accesses it overlaps: a read on writes, a write on both. Writes
that a later write hides are dropped, a whole write starts a new epoch, and where more than
`MANY_NODES` accesses overlap one, a *join* stands for them, so edges stay bounded at the price of
precision.
"""

from __future__ import annotations

from itertools import product
from math import gcd
from typing import TypeAlias

Region: TypeAlias = tuple[tuple[int, int, int], ...]
"""(first, end, step) per axis; `end` is one past the last element named."""

MANY_NODES = 24
_GRID_FROM = 24
_MANY_GRID_CELLS = 64


def meet(a: Region, b: Region) -> bool:
    """Whether two regions share an element: exact, since they do where they do on every axis.

    >>> meet(((0, 9, 2),), ((1, 9, 2),)), meet(((0, 9, 2),), ((3, 9, 3),))
    (False, True)
    >>> meet(((0, 5, 4),), ((3, 7, 3),))
    False
    """
    for (alo, ahi, astep), (blo, bhi, bstep) in zip(a, b, strict=True):
        if alo >= bhi or blo >= ahi:
            return False
        if (astep > 1 or bstep > 1) and not _steps_meet(alo, astep, blo, bstep, min(ahi, bhi)):
            return False
    return True


def _steps_meet(alo: int, astep: int, blo: int, bstep: int, end: int) -> bool:
    """Whether alo, alo + astep … and blo, blo + bstep … have a common element before `end`."""
    common = gcd(astep, bstep)
    apart, rest = divmod(blo - alo, common)
    if rest:
        return False
    period = bstep // common
    first = alo + astep * (apart * pow(astep // common, -1, period) % period)
    if first < blo:  # common elements come every astep * period
        first += -((first - blo) // (astep * period)) * astep * period
    return first < end


def hides(outer: Region, inner: Region) -> bool:
    """Whether every element of `inner` is in `outer` (steps: only where it is plain to see)."""
    for (olo, ohi, ostep), (ilo, ihi, istep) in zip(outer, inner, strict=True):
        if ilo < olo or ihi > ohi:
            return False
        if ostep > 1 and (istep % ostep or (ilo - olo) % ostep):
            return False
    return True


class Tracker:
    """The accesses of one buffer that later ones may still depend on."""

    __slots__ = ("_cell", "_cells", "_entries", "_large", "_new_join", "_serial", "shape")

    def __init__(self, shape: tuple[int, ...], new_join: object) -> None:
        """`new_join(nodes) -> node` makes a node that waits for the given ones."""
        self.shape = shape
        self._new_join = new_join
        self._entries: dict[int, tuple[Region, bool, int]] = {}
        self._large: set[int] = set()
        self._cells: dict[tuple[int, ...], set[int]] = {}
        self._cell: tuple[int, ...] | None = None
        self._serial = 0

    def read(self, node: int, region: Region) -> list[int]:
        """Record a read; returns the nodes it must wait for."""
        found = [e for e in self._near(region) if self._entries[e][1]]
        found = [e for e in found if meet(self._entries[e][0], region)]
        waits = self._waits(found)
        self._add(region, False, node)
        return waits

    def write(self, node: int, region: Region) -> list[int]:
        """Record a write; returns the nodes it must wait for."""
        found = [e for e in self._near(region) if meet(self._entries[e][0], region)]
        waits = self._waits(found)
        for entry in found:
            if entry in self._entries and hides(region, self._entries[entry][0]):
                self._drop(entry)
        self._add(region, True, node)
        return waits

    def _waits(self, found: list[int]) -> list[int]:
        nodes = sorted({self._entries[e][2] for e in found})
        if len(nodes) <= MANY_NODES:
            return nodes
        join: int = self._new_join(nodes)  # type: ignore[operator]
        regions, writes, _ = zip(*(self._entries[entry] for entry in found), strict=True)
        for entry in found:
            self._drop(entry)
        hull = tuple(
            (min(lo for lo, _, _ in axis), max(hi for _, hi, _ in axis), 1)
            for axis in zip(*regions, strict=True)
        )
        self._add(hull, any(writes), join)
        return [join]

    def _near(self, region: Region) -> list[int]:
        if self._cell is None:
            return list(self._entries)
        cells = self._cells_of(region)
        if cells is None:
            return list(self._entries)
        near = set(self._large)
        for cell in cells:
            near |= self._cells.get(cell, set())
        return sorted(near)

    def _cells_of(self, region: Region) -> list[tuple[int, ...]] | None:
        assert self._cell is not None
        ranges = []
        n = 1
        for (lo, hi, _), size in zip(region, self._cell, strict=True):
            first, last = lo // size, (hi - 1) // size
            n *= last - first + 1
            if n > _MANY_GRID_CELLS:
                return None
            ranges.append(range(first, last + 1))
        return list(product(*ranges))

    def _add(self, region: Region, writes: bool, node: int) -> None:
        entry = self._serial
        self._serial += 1
        self._entries[entry] = (region, writes, node)
        if self._cell is None:
            if len(self._entries) > _GRID_FROM:
                self._make_grid()
            return
        self._place(entry, region)
        if len(self._large) > 2 * MANY_NODES:
            self._join_large()

    def _place(self, entry: int, region: Region) -> None:
        cells = self._cells_of(region)
        if cells is None:
            self._large.add(entry)
            return
        for cell in cells:
            self._cells.setdefault(cell, set()).add(entry)

    def _make_grid(self) -> None:
        """Cells as large as the median access: most accesses then touch one or two cells."""
        sizes = []
        for axis in range(len(self.shape)):
            lengths = sorted(r[axis][1] - r[axis][0] for r, _, _ in self._entries.values())
            sizes.append(max(lengths[len(lengths) // 2], 1))
        self._cell = tuple(sizes)
        for entry, (region, _, _) in self._entries.items():
            self._place(entry, region)

    def _join_large(self) -> None:
        for writes in (False, True):
            same = [e for e in sorted(self._large) if self._entries[e][1] is writes]
            if len(same) > MANY_NODES:
                self._waits(same)

    def _drop(self, entry: int) -> None:
        region, _, _ = self._entries.pop(entry)
        if self._cell is None:
            return
        if entry in self._large:
            self._large.discard(entry)
            return
        for cell in self._cells_of(region) or ():
            held = self._cells.get(cell)
            if held is not None:
                held.discard(entry)
                if not held:
                    del self._cells[cell]
