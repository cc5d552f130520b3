"""What other eviction policies would move: simulated over the same tiles and the same order of use.

Runs are recorded while they start (`Recorder`): for each task the tiles it reads and writes, with
what was loaded and evicted by us left out. `traffic` then walks all of it once more with a memory
of the same size and counts bytes. Kernels, prefetch and overlap are the same for all and change no
byte, so there is no time here.

- "lru": the tile used longest ago goes. A tile that nobody reads any more is dropped, one that is
  unchanged since it was read or written below is too: as good as LRU can be.
- "write back": TURNIP's. The tile whose next use is farthest goes (nobody could choose better if
  all were alike), but a load uses up the copy below, so whatever is evicted and still of use is
  written, weights too.

Both have it easier than we have: memory is bytes, without slots of fixed sizes; inputs that we had
to evict before a program began are below for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor import events
from infinitensor.ir.slab import slab_bytes
from infinitensor.ir.tasks import EVICT, LOAD
from infinitensor.memory.uses import scratch_bytes
from infinitensor.storage import Part

if TYPE_CHECKING:
    from collections.abc import Hashable

    from infinitensor.runtime import Run

POLICIES = ("lru", "write back")


class Use(NamedTuple):
    """One task: the tiles it reads and those it makes or changes."""

    reads: tuple[Hashable, ...]
    writes: tuple[Hashable, ...]
    in_place: bool


@dataclass
class Recorded:
    """One program as it ran."""

    capacity: int
    uses: list[Use] = field(default_factory=list)
    n_bytes: dict[Hashable, int] = field(default_factory=dict)
    from_below: set[Hashable] = field(default_factory=set)
    """Tiles of leaves that are in a lower tier: the same in every program that reads them."""
    resident: list[Hashable] = field(default_factory=list)
    """Leaves that are in memory when it begins."""
    held: set[Hashable] = field(default_factory=set)


class Recorder:
    """A context in which the runs of one device are recorded."""

    def __init__(self, budget_bytes: int, n_concurrent: int) -> None:
        self.budget_bytes = budget_bytes
        self.n_concurrent = n_concurrent
        self.programs: list[Recorded] = []

    def __enter__(self) -> Recorder:
        self._hook = events.on("run_start", self._record)
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.off()

    def _record(self, run: Run) -> None:
        program = run.program
        n = program.at_once or self.n_concurrent
        (scratch,) = scratch_bytes(program.graph.families, 1, n)
        found = Recorded(self.budget_bytes - scratch)
        names = _Names(run, len(self.programs), found)
        for first, layout in program.graph.held.values():
            found.held |= {names[tile] for tile in range(first, first + layout.n_tiles)}
        for tiles in program.graph.tiles:
            if tiles.leaf >= 0:
                here = np.flatnonzero(tiles.devices >= 0) + tiles.first
                found.resident += [names[tile] for tile in here.tolist()]
        order = np.flatnonzero(program.needed) if program.order is None else program.order
        for task in order.tolist():
            step = run.steps[task]
            if step.family.lane in (LOAD, EVICT) or step.outs[0].tile in program.origins:
                continue  # others load when a tile is read, and evict when they have to
            reads = dict.fromkeys(names[tile] for tile in step.sources() if names.is_here(tile))
            writes = [names[out.tile] for out in step.outs]
            found.uses.append(Use(tuple(reads), tuple(writes), step.family.in_place))
        self.programs.append(found)


class _Names:
    """The identity of a tile: its place in a file, or its number in its run."""

    def __init__(self, run: Run, number: int, found: Recorded) -> None:
        self.run, self.number, self.found = run, number, found
        self.known: dict[int, Hashable] = {}

    def is_here(self, tile: int) -> bool:
        tiles = self.run.program.graph.set_with(tile)
        return int(tiles.devices[tile - tiles.first]) >= 0

    def __getitem__(self, tile: int) -> Hashable:
        name = self.known.get(tile)
        if name is None:
            name = self.known[tile] = self._name(self.run.program.origins.get(tile, tile))
            tiles = self.run.program.graph.set_with(tile)
            lengths = np.diff(tiles.boxes[tile - tiles.first], axis=1)
            self.found.n_bytes[name] = int(lengths.prod()) * tiles.dtype.itemsize
        return name

    def _name(self, tile: int) -> Hashable:
        leaf = self.run.program.graph.set_with(tile).leaf
        if leaf < 0:
            producer = int(self.run.program.producers[tile])
            step = self.run.steps[producer] if producer >= 0 else None
            if step is None or step.family.lane != LOAD or not step.many:
                return self.number, tile
            leaf = self.run.program.graph.set_with(step.many[0]).leaf
        source = self._source(leaf)
        if source is None:
            return self.number, tile
        name = source, self.run.program.graph.box_of(tile)
        self.found.from_below.add(name)
        return name

    def _source(self, leaf: int) -> Hashable:
        """The lower tier that a leaf was read from; None if it was not."""
        table = self.run.leaves[leaf]
        below: Any = table.lower_tiles or table.arrays
        keys = {part.stored.key for part in below if isinstance(part, Part)}
        if len(keys) == 1:
            return keys.pop()
        return (self.number, "leaf", leaf) if keys else None


def traffic(programs: list[Recorded], policy: str) -> tuple[int, int]:
    """Bytes that a policy loads and evicts, all programs after each other."""
    memory = _Memory(policy)
    for program in programs:
        memory.run(program)
    return memory.loaded, memory.evicted


class _Memory:
    def __init__(self, policy: str) -> None:
        assert policy in POLICIES
        self.is_lru = policy == "lru"
        self.loaded = self.evicted = 0
        self.here: dict[Hashable, int] = {}
        """Tile -> when it was used last (in the order of that)."""
        self.is_clean: set[Hashable] = set()
        self.used = 0

    def run(self, program: Recorded) -> None:
        self.program = program
        self.at: dict[Hashable, list[int]] = defaultdict(list)
        for k, use in enumerate(program.uses):
            for tile in dict.fromkeys((*use.reads, *use.writes)):
                self.at[tile].append(k)
        for positions in self.at.values():
            positions.reverse()  # the next one is the last of the list
        for tile in [t for t in self.here if t not in program.n_bytes]:
            self._drop(tile)  # of a program that is over: the user's by now
        for tile in program.resident:
            if tile not in program.from_below and tile not in self.here:
                self._enter(tile, frozenset())
        made: set[Hashable] = set()
        for k, use in enumerate(program.uses):
            self._step(k, use, made)

    def _step(self, k: int, use: Use, made: set[Hashable]) -> None:
        pinned = frozenset((*use.reads, *use.writes))
        for tile in use.reads:
            if tile not in self.here:
                self._enter(tile, pinned)
                self.loaded += self.program.n_bytes[tile]
                if self.is_lru:
                    self.is_clean.add(tile)
        for tile in pinned:
            positions = self.at[tile]
            while positions and positions[-1] <= k:
                positions.pop()
        over = [t for t in use.reads if self._is_over(t) and t not in use.writes]
        if use.in_place:  # an output may have the place of an input
            for tile in over:
                self._drop(tile)
        for tile in use.writes:
            if tile not in self.here:
                if tile in made:  # it is changed, not made
                    self.loaded += self.program.n_bytes[tile]
                self._enter(tile, pinned)
            made.add(tile)
            self.is_clean.discard(tile)
        for tile in pinned:
            if tile in self.here:
                self.here[tile] = self.here.pop(tile)  # used last
        for tile in (*over, *(t for t in use.writes if self._is_over(t))):
            self._drop(tile)

    def _is_over(self, tile: Hashable) -> bool:
        program = self.program
        return not self.at[tile] and tile not in program.held and tile not in program.from_below

    def _size(self, tile: Hashable) -> int:
        return int(slab_bytes(self.program.n_bytes[tile]))

    def _enter(self, tile: Hashable, pinned: frozenset[Hashable]) -> None:
        size = self._size(tile)
        while self.used + size > self.program.capacity:
            self._evict(pinned)
        self.here[tile] = size
        self.used += size

    def _evict(self, pinned: frozenset[Hashable]) -> None:
        found = [tile for tile in self.here if tile not in pinned]
        if not found:
            raise ValueError("the tiles of one task are more than the memory")
        far = len(self.program.uses)
        if not self.is_lru:
            found.sort(key=lambda t: -(self.at[t][-1] if self.at.get(t) else far))
        tile = found[0]
        if tile not in self.is_clean:
            self.evicted += self.program.n_bytes[tile]
            if self.is_lru:
                self.is_clean.add(tile)
        self._drop(tile)

    def _drop(self, tile: Hashable) -> None:
        if tile in self.here:
            self.used -= self.here.pop(tile)
