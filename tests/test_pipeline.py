"""What gives way so that a program fits, and in which order: the feedback, on scripted demands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.evaluate.bound_program import Bound
from infinitensor.ir.tasks import Misfit
from infinitensor.pipeline import Limits, Prepared, fit, prepare

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph
    from infinitensor.ir.mesh import Mesh

PLENTY = 1 << 30
DISK_BYTES = 1 << 30


def recorded() -> tuple[Graph, Mesh]:
    """A few values of 8 KiB that are needed together, on one device without memory of its own."""
    with strict("null", 64) as session:
        x = it.ones((64, 16))
        y = it.cumsum(x, axis=1) + it.cumsum(x, axis=0)
        with session.guard():
            bound = Bound(session, [y._version], True).detail()
            return bound.graph(), session.engine.mesh_now()


GRAPH, MESH = recorded()


def need_bytes() -> int:
    """What all of it in memory takes."""
    found = prepare(GRAPH, MESH, 64, Limits([PLENTY]))
    assert isinstance(found, Prepared)
    return found.program.peak_bytes[0]


NEED = need_bytes()


@dataclass
class Script:
    """A demand that notes what it is asked for, and gets another budget with each request."""

    rooms: list[int]
    """The budget before the first request, after it, and so on; the last one stays."""
    tiers: bool = True
    keeps: bool = False
    spare: int = 0
    heavy: int = 0
    moved: int = 0
    others: bool = False
    windowed: bool = False
    asked: list[str] = field(default_factory=list)

    def mesh(self) -> Mesh:
        return replace(MESH, disk_bytes=DISK_BYTES) if self.tiers else MESH

    def graph(self) -> Graph:
        return GRAPH

    def budgets(self) -> list[int]:
        return [self.rooms[0]]

    def planned_before(self) -> None:
        return None

    def spare_bytes(self) -> int:
        return self.spare

    def graph_without_spares(self) -> Graph | None:
        return None if self.windowed else GRAPH

    def keeps_too_much(self) -> bool:
        return self.keeps

    def heavy_bytes(self) -> int:
        return self.heavy

    def moved_before(self) -> int:
        return self.moved

    def note(self, request: str) -> None:
        self.asked.append(request)
        self.rooms = self.rooms[1:] or self.rooms

    def evict_others(self, n_bytes: int, leaves_too: bool = False) -> bool:
        assert n_bytes > 0
        if self.others or leaves_too:
            self.note("evict all" if leaves_too else "evict others")
        return self.others

    def give_back(self, n_bytes: int) -> None:
        assert n_bytes > 0
        self.spare = 0
        self.note("give back")

    def keep_less(self) -> None:
        self.keeps = False
        self.note("keep less")

    def evict_leaves(self) -> None:
        self.heavy = 0
        self.note("evict leaves")


def test_what_fits_asks_for_nothing() -> None:
    demand = Script([NEED], keeps=True, spare=9, heavy=9, others=True)
    assert fit(demand, 64).program.peak_bytes[0] == NEED
    assert demand.asked == []


def test_without_lower_tiers_nothing_can_give_way() -> None:
    demand = Script([NEED // 8], tiers=False, keeps=True, heavy=9)
    with pytest.raises(it.MemoryBudgetError, match="does not fit on null:0") as caught:
        fit(demand, 64)
    assert caught.value.limit_bytes == NEED // 8 < caught.value.need_bytes
    assert demand.asked == ["evict all"]


@pytest.mark.parametrize(
    ("demand", "asked"),
    [
        (Script([NEED // 4, NEED], others=True, keeps=True, heavy=9), ["evict others"]),
        (Script([NEED // 4, NEED], keeps=True, heavy=9), ["keep less"]),
        (Script([NEED // 4, NEED // 4, NEED], keeps=True, heavy=9), ["keep less", "evict leaves"]),
        (Script([NEED // 4, NEED], spare=1 << 12), ["give back"]),
        (Script([NEED // 4, NEED], spare=1 << 12, windowed=True), ["give back"]),
        (
            Script([NEED // 4, NEED // 4, NEED], spare=1 << 12, keeps=True),
            ["keep less", "give back"],
        ),
        (Script([NEED // 4, NEED], heavy=9), ["evict leaves"]),
        (Script([NEED // 4, NEED], heavy=PLENTY, moved=PLENTY), ["evict leaves"]),
    ],
)
def test_what_gives_way_first(demand: Script, asked: list[str]) -> None:
    found = fit(demand, 64)
    assert demand.asked == asked
    assert found.program.peak_bytes[0] <= demand.rooms[0]
    assert found.program.traffic.evicted == 0


def test_in_the_end_its_own_tiles_are_evicted() -> None:
    demand = Script([NEED // 2])
    found = fit(demand, 64)
    assert demand.asked == []
    assert found.program.peak_bytes[0] <= NEED // 2
    assert found.program.traffic.evicted > 0


def test_heavy_leaves_stay_while_the_program_moves_less_than_they_are() -> None:
    demand = Script([NEED // 2], heavy=PLENTY)
    found = fit(demand, 64)
    assert demand.asked == []
    assert found.in_the_way == PLENTY


def test_what_nothing_makes_fit_is_an_error_after_everything_gave_way() -> None:
    demand = Script([8], keeps=True, heavy=9, others=True)
    with pytest.raises(it.MemoryBudgetError, match="does not fit on null:0"):
        fit(demand, 64)
    assert demand.asked[-1] in ("evict leaves", "evict others")
    assert {"keep less", "evict leaves"} <= set(demand.asked)


def test_a_misfit_is_a_value_that_names_op_need_and_line() -> None:
    found = prepare(GRAPH, MESH, 64, Limits([8]))
    assert isinstance(found, Misfit)
    assert found.need_bytes > found.limit_bytes == 8
    assert "test_pipeline.py:" in str(found.site)
