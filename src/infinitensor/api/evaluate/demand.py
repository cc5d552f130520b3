"""A program that is to be planned, with what can give way to it: what `pipeline.fit` asks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infinitensor.api.evaluate.bound_program import Bound, is_in_lower_tier
from infinitensor.api.evaluate.retention import give_back, spare_leaves
from infinitensor.config import config
from infinitensor.ir.layout import DISK, Layout
from infinitensor.ops.backend.torch_loading import begin_loading
from infinitensor.pipeline import fit

if TYPE_CHECKING:
    from infinitensor.api.session.version import Version
    from infinitensor.ir.graph import Graph
    from infinitensor.ir.mesh import Mesh
    from infinitensor.pipeline import Prepared
    from infinitensor.runtime import TileTable

MUCH = 32
"""A leaf that takes more than this part of a device's budget is heavy."""


def fit_bound(bound: Bound) -> tuple[Bound, Prepared]:
    """The plan of a program, and the program as it was planned: less may be kept of it."""
    if bound.key not in bound.session.plans:
        _begin_loading_torch(bound)
    demand = SessionDemand(bound)
    prepared = fit(demand, config.tile_elements)
    plans, key = bound.session.plans, demand.bound.key
    if plans.get(key) is not prepared:
        bound.session.add(plans, key, prepared)
    return demand.bound, prepared


def _begin_loading_torch(bound: Bound) -> None:
    """Load torch while products of what is in files are planned and read: it multiplies them."""
    multiplies = any(node.op.kind == "contraction" for node in bound.nodes)
    if (
        bound.session.engine.mesh.kind == "cpu"
        and multiplies
        and any(map(is_in_lower_tier, bound.leaves))
    ):
        begin_loading()


class SessionDemand:
    """A program of a session. What gives way changes its leaves, so it is bound anew then."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.session = bound.session

    def mesh(self) -> Mesh:
        """The devices, with what the lower tiers have left."""
        return self.session.engine.mesh_now()

    def graph(self) -> Graph:
        """The graph to compute."""
        return self.bound.graph()

    def budgets(self) -> list[int]:
        """Bytes that it may use on each device."""
        return self.bound.budgets()

    def planned_before(self) -> Prepared | None:
        """The plan of an equal program from the cache, if it fits now."""
        session, key = self.session, self.bound.key
        found: Prepared | None = session.plans.get(key)
        if found is None or not self.bound.fits(found.program):
            session.counts["plan_misses"] += 1
            return None
        session.plans.move_to_end(key)
        session.counts["plan_hits"] += 1
        return found

    def spare_bytes(self) -> int:
        """Bytes of its leaves that are also in a lower tier and stay only to be read less."""
        return sum(v.table.spare_bytes for v in spare_leaves(self.bound.leaves) if v.table)

    def graph_without_spares(self) -> Graph | None:
        """The graph as if nothing stayed of those leaves; None if only parts of leaves are seen."""
        bound = self.bound
        if bound.is_windowed:
            return None
        graph = bound.graph()
        leaves = [  # no task writes in a lower tier
            replace(leaf, layout=_layout_without_spares(table), donated=False)
            if table.was_read
            else leaf
            for leaf, table in zip(graph.leaves, bound.tables, strict=True)
        ]
        return replace(graph, leaves=tuple(leaves))

    def keeps_too_much(self) -> bool:
        """Whether it would keep less if there were little room."""
        return self.bound.has_recipes()

    def heavy_bytes(self) -> int:
        """Bytes of its leaves that take much of a device and could go to a lower tier."""
        return sum(v.table.n_bytes for v in self._heavy_leaves() if v.table is not None)

    def moved_before(self) -> int:
        """Bytes that its runs have moved between tiers while its heavy leaves stayed."""
        return self.session.moved_again.get(self.bound.lean_key(), 0)

    def evict_others(self, n_bytes: int, leaves_too: bool = False) -> bool:
        """Let other tensors go to a lower tier, or also its own leaves; whether any went."""
        return self.session.make_room(n_bytes, () if leaves_too else self.bound.leaves)

    def give_back(self, n_bytes: int) -> None:
        """Let go of so many of the spare bytes."""
        bound = self.bound
        bound.let_go()
        give_back(bound.leaves, n_bytes)
        self.bound = bound.again()

    def keep_less(self) -> None:
        """Keep little beside what was asked for, now and whenever this program runs."""
        bound = self.bound
        if not (bound.peek or bound.lean):
            self.session.add(self.session.leans, bound.lean_key(), None)
        bound.let_go()
        self.bound = bound.again(lean=True)

    def evict_leaves(self) -> None:
        """Let its heavy leaves go to a lower tier, and keep less."""
        heavy = self._heavy_leaves()
        self.bound.let_go()
        for version in heavy:
            self.session.evict(version)
        self.keep_less()

    def _heavy_leaves(self) -> list[Version]:
        """Leaves that take much of the devices and outlive this evaluation.

        Once they are in a lower tier they are brought tile by tile, and what can stay will.
        """
        engine = self.session.engine
        much = min(engine.budgets()) // MUCH
        left = engine.free_lower_bytes()
        found = []
        for version, donated in zip(self.bound.leaves, self.bound.donated, strict=True):
            table = version.table
            if donated or version.exported or table is None:
                continue
            if max(table.device_bytes().values(), default=0) > much and table.n_bytes <= left:
                found.append(version)
                left -= table.n_bytes
        return found


def _layout_without_spares(table: TileTable) -> Layout:
    """Where tiles would be if nothing stayed that can be read again."""
    owners = table.layout.owner_array.tolist()
    rest = tuple(DISK if table.is_spare(k) else owner for k, owner in enumerate(owners))
    return Layout(table.layout.cuts, rest[:1] if len(set(rest)) == 1 else rest)
