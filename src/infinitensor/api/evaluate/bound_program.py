"""Waiting calls, bound to their leaves: numbered, with the memory they may use and what is kept."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from infinitensor.api.evaluate.file_cuts import cut_files
from infinitensor.api.evaluate.numbered_calls import NumberedCalls
from infinitensor.api.evaluate.retention import (
    bytes_of,
    comes_from_lower_tier,
    worth_keeping,
)
from infinitensor.api.evaluate.waiting import fields, sight, trace_key
from infinitensor.config import config
from infinitensor.ir.graph import Graph, Leaf
from infinitensor.partition import canonical_layout
from infinitensor.runtime import TileTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Version
    from infinitensor.ir.region import Box
    from infinitensor.ir.tasks import Program


FEW_ON_HOST = 1024
"""Elements of a host value that a GPU gets anew at each use; larger ones move there and stay."""
TO_COMPUTE_IN = 4
"""The part of a budget that is left for tiles on the way, when it is asked what can stay."""


class FirstSight:
    """The waiting part of a program where all that is needed is kept and what is free is used up.

    So it is unless something is only peeked at, left out for want of room, or read from a lower
    tier, which a `Bound` finds out. Programs that have run are found by it before they are bound.
    """

    __slots__ = ("donated", "kept", "leaves", "recipes", "scalars", "tables", "trace_key")

    def __init__(self, session: Session, roots: list[Version]) -> None:
        found = sight(roots, config.key(), stored_table, session)
        self.leaves, self.scalars, self.kept, self.donated, self.tables, self.trace_key = found
        self.recipes: Sequence[Version] = ()


class Bound:
    """The waiting part of a program, numbered: everything a plan is keyed by and bound to.

    To recognise a program that has run before takes the numbers alone; `detail` adds the rest.
    """

    def __init__(
        self,
        session: Session,
        roots: Iterable[Version],
        peek: bool = False,
        lean: bool = False,
        limits: tuple[int, ...] | None = None,
    ) -> None:
        self.session = session
        self.peek = peek
        self.lean = lean
        """Whether of what was not asked for only little things are kept: there is no more room."""
        self.limits = limits
        """Bytes that it may use on each device, where budgets are more than a device gave."""
        self.spares_leaves = peek
        self.roots = list(roots)
        (
            self.nodes,
            self.leaves,
            self.scalars,
            self.values,
            self.inside_reads,
            needed,
            is_free,
            self.known_by,
        ) = fields(self.roots)
        self.whole: dict[int, TileTable] = {}
        """Versions of which only a window is written: all of their tiles."""
        self.recipes: list[Version] = []
        """Versions that are held, but computed again when they are asked for."""
        self.kept = self._versions_to_keep(needed)
        self.donated = [False] * len(self.leaves)
        self.used_up: set[int] = set()
        """Leaves that nobody else will read: their tiles may be used up."""
        if True in is_free and not self.spares_leaves:
            for k, leaf in enumerate(self.leaves):
                if is_free[k] and not is_in_lower_tier(leaf):
                    self.donated[k] = True
                    self.used_up.add(id(leaf))
        if True in map(comes_from_lower_tier, self.leaves):
            cut_files(self.nodes, self.leaves, session.engine.mesh)
        self.tables = [v.table or stored_table(session, v) for v in self.leaves]
        for table in self.tables:
            table.used_at = session.seq

    @cached_property
    def versions(self) -> dict[int, Version]:
        """Versions that have a number and are held."""
        return {n: version for n, version in enumerate(self.values) if version is not None}

    @cached_property
    def numbers(self) -> dict[int, int]:
        """The numbers of versions, by identity."""
        return {id(version): n for n, version in self.versions.items()}

    def _versions_to_keep(self, needed: Sequence[int]) -> dict[int, Version]:
        """Versions that must outlive the evaluation.

        That is what was asked for, what a tensor shows, and what waiting nodes outside of it read.
        """
        asked = {id(version) for version in self.roots if version.node is not None}
        if len(needed) == len(asked):
            return {number: self.values[number] for number in needed}
        kept = {}
        worth: set[int] | None = None
        for number in needed:
            version = self.values[number]
            assert version is not None
            if id(version) in asked:
                kept[number] = version
            elif not self.peek:
                if self.lean and worth is None:
                    worth = self._worth_keeping(needed)
                room = sum(self.session.engine.budgets())
                if bytes_of(version) <= room and (worth is None or id(version) in worth):
                    kept[number] = version
                else:  # it stays a recipe, and what it is made from stays too
                    self.spares_leaves = True
                    self.recipes.append(version)
        return kept

    def _worth_keeping(self, numbers: Iterable[int]) -> set[int]:
        """Values that were not asked for and are kept though there is little room."""
        asked = {id(version) for version in self.roots}
        held = [v for n in numbers if (v := self.values[n]) is not None and id(v) not in asked]
        budget = min(self.session.engine.budgets())
        again = self.session.made_before
        return worth_keeping(self.nodes, self.leaves, held, budget, again)

    def is_read_by(self) -> bool:
        """Whether more is read from lower tiers than can stay beside all that would be kept.

        Then what is held but was not asked for would take the room of what is read again.
        """
        if self.peek or True not in map(comes_from_lower_tier, self.leaves):
            return False
        streamed = sum(bytes_of(leaf) for leaf in self.leaves if comes_from_lower_tier(leaf))
        budget = min(self.session.engine.budgets())
        kept = sum(bytes_of(version) for version in self.kept.values())
        return streamed + kept > budget - budget // TO_COMPUTE_IN

    def has_recipes(self) -> bool:
        """Whether less would be kept if there were little room."""
        if self.peek or self.lean or len(self.kept) == len(self.roots):
            return False
        return len(self._worth_keeping(self.kept)) < len(self.kept) - len(self.roots)

    @cached_property
    def trace_key(self) -> Any:
        """The key of a program, by which it is recognised when it is repeated."""
        settings = config.key()
        return trace_key(self.known_by, self.kept, self.donated, self.tables, self.limits, settings)

    def lean_key(self) -> Any:
        """The key of a program that has little room, whatever stays of its leaves."""
        shapes = [(leaf.shape, leaf.dtype) for leaf in self.leaves]
        return (self.known_by, tuple(self.kept), tuple(shapes), config.key())

    def let_go(self) -> None:
        """Hold no tiles any more, so that leaves can leave their memory; then bind it `again`."""
        self.tables, self.whole = [], {}

    def again(self, lean: bool = False) -> Bound:
        """The same program as it is now, in detail: tensors have come or gone, or less is kept."""
        found = Bound(self.session, self.roots, self.peek, lean or self.lean, self.limits)
        return found.detail()

    def _free(self, device: int) -> int:
        """Bytes of a device that nothing holds, within the limits."""
        engine = self.session.engine
        free = engine.available_bytes(device)
        if self.limits is None:
            return free
        return free - max(engine.budgets()[device] - self.limits[device], 0)

    def budgets(self) -> list[int]:
        """Bytes that this evaluation may use: the budget less what others hold."""
        budgets = [self._free(d) for d in range(self.session.engine.mesh.n_devices)]
        for table in self.tables:
            for device, n_bytes in table.device_bytes().items():
                budgets[device] += n_bytes
        return budgets

    def fits(self, program: Program) -> bool:
        """Whether what a plan needs is free."""
        engine, peaks = self.session.engine, program.peak_bytes
        if program.order is not None:
            mesh, traffic = engine.mesh_now(), program.traffic
            if traffic.host_peak > mesh.host_bytes or traffic.disk_peak > mesh.disk_bytes:
                return False
        for device, need in peaks.items():
            if need > self._free(device):
                break
        else:
            return True
        budgets = self.budgets()
        return all(need <= budgets[device] for device, need in peaks.items())

    def detail(self) -> Bound:
        """Add what a plan is made of: specs, operands, windows, and the key it is found by."""
        _ = self.trace_key  # before windows stand for leaves
        self.numbered = NumberedCalls(self.nodes, self.numbers)
        self.windows: dict[int, Box] = {}
        """Parts of leaves that stand for them."""
        self.outside_bytes: dict[int, int] = {}
        """Per device, what leaves hold around their windows: no part of the plan, but there."""
        self._look_through_windows()
        leaves = [self._leaf(k) for k in range(len(self.leaves))]
        specs = [self.numbered.specs[leaf.value] for leaf in leaves]
        kept = tuple(sorted(self.kept))
        leaf_key = tuple(zip(specs, leaves, strict=True))
        self.key = (*self.numbered.key(), leaf_key, kept, self.limits, config.key())
        return self

    def _look_through_windows(self) -> None:
        """Let the part of a leaf that is touched stand for it, and for its next versions."""
        numbers = [self.numbers[id(v)] for v in self.leaves]
        used_up = {n for n, donated in zip(numbers, self.donated, strict=True) if donated}
        shapes = {n: v.shape for n, v in zip(numbers, self.leaves, strict=True)}
        hulls = self.numbered.hulls
        windows = hulls.windows(shapes, used_up, set(self.kept))
        if not windows:
            return
        for k, number in enumerate(numbers):
            if number in windows:
                self.windows[k] = windows[number]
                table = self.tables[k]
                chain = hulls.chains.get(number)
                if chain:
                    self.whole[chain[-1]] = table.as_written() if table.was_read else table
                self.donated[k] = bool(chain)
                self.tables[k] = table.window(windows[number])
                seen = self.tables[k].device_bytes()
                for device, n_bytes in table.device_bytes().items():
                    outside = self.outside_bytes.get(device, 0) + n_bytes - seen.get(device, 0)
                    self.outside_bytes[device] = outside
        self.numbered.look_through(windows)

    @property
    def is_windowed(self) -> bool:
        """Whether only parts of some leaves are seen."""
        return bool(self.windows)

    def _leaf(self, k: int) -> Leaf:
        """One leaf of the graph."""
        table = self.tables[k]
        number = self.numbers[id(self.leaves[k])]
        return Leaf(
            number, table.layout, self.donated[k], table.partly, table.is_whole, table.is_file
        )

    def graph(self) -> Graph:
        """The frozen graph."""
        leaves = tuple(map(self._leaf, range(len(self.leaves))))
        nodes = self.numbered.graph_nodes()
        return Graph(tuple(self.numbered.specs), nodes, leaves, frozenset(self.kept))


def look_through(bound: Bound | FirstSight, windows: dict[int, Box]) -> None:
    """Let parts of leaves that are only read stand for them, as when this was planned."""
    for k, box in windows.items():
        bound.donated[k] = False
        bound.tables[k] = bound.tables[k].window(box)


def is_in_lower_tier(version: Version) -> bool:
    """Whether some of it is on the host or in a file, where no task writes."""
    return version.table is not None and version.table.layout.is_in_lower_tier


def stored_table(session: Session, version: Version) -> TileTable:
    """The tiles of a stored version; a small host value is used where it is."""
    if version.table is not None:
        return version.table
    kind = session.engine.mesh.kind
    assert version.host is not None
    at_home = version.host.size <= FEW_ON_HOST  # or it would be copied at every use
    if (kind == "cuda" and not at_home) or (config.small_elements == 0 and kind != "null"):
        layout = canonical_layout(version.shape, session.engine.mesh, config.tile_elements)
        table = session.store(version.host, layout)
        session.keep(version, table, "asarray")
        return table
    seen: TileTable | None = getattr(version, "host_table", None)
    if seen is None or seen.whole is not version.host:
        version.host_table = seen = TileTable.of_host(version.host)
    return seen
