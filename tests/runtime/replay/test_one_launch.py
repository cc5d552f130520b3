"""A launch is started again as it was, where tiles are alike and scalars the very objects."""

from __future__ import annotations

from typing import Any

from infinitensor.runtime.replay import one_launch
from infinitensor.runtime.replay.one_launch import Again


class Tile:
    """Memory at an address."""

    def __init__(self, at: int, kind: int = 0) -> None:
        self.at, self.kind = at, kind

    def data_ptr(self) -> int:
        return self.at


class Launches:
    """Finds launches and notes what was asked for and started."""

    def __init__(self) -> None:
        self.is_ready = True
        self.found: list[tuple[Any, Any]] = []
        self.started: list[tuple[Any, ...]] = []

    def launch_of(self, tiles: Any, given: Any, shape: Any) -> tuple[Any, Any]:
        self.found.append((tuple(tiles), tuple(given)))
        return self, (*given, *shape)

    def bound(self, numbers: Any) -> Any:
        return (lambda *args: self.started.append(args)), 7, ("handle",), numbers


def again(monkeypatch: Any) -> tuple[Again, Launches]:
    def kinds_of(tiles: Any) -> tuple[int, ...]:
        return tuple(tile.kind for tile in tiles)

    monkeypatch.setattr(one_launch, "kinds_of", kinds_of)
    launches = Launches()
    one: Any = launches
    return Again(one, [0, 2], [1], (5,)), launches


def test_tiles_alike_and_the_same_scalars_lead_to_the_launch_of_before(monkeypatch: Any) -> None:
    one, launches = again(monkeypatch)
    scalar = 2.5
    assert one.start([Tile(10), scalar, Tile(20)], 3)
    assert one.start([Tile(30), scalar, Tile(40)], 4)
    assert len(launches.found) == 1
    assert launches.started == [
        (7, 1, 1, 3, "handle", 10, 20, scalar, 5),
        (7, 1, 1, 4, "handle", 30, 40, scalar, 5),
    ]


def test_another_kind_of_tile_or_another_scalar_is_looked_up(monkeypatch: Any) -> None:
    one, launches = again(monkeypatch)
    assert one.start([Tile(10), 2.5, Tile(20)], 3)
    assert one.start([Tile(10), 3.5, Tile(20)], 3)
    assert launches.started[-1][-2] == 3.5
    assert one.start([Tile(10, kind=1), 3.5, Tile(20)], 3)
    assert len(launches.found) == 3


def test_what_was_never_launched_is_not_started(monkeypatch: Any) -> None:
    one, launches = again(monkeypatch)
    launches.is_ready = False
    assert not one.start([Tile(10), 2.5, Tile(20)], 3)
    assert launches.started == []
    launches.is_ready = True
    assert one.start([Tile(10), 2.5, Tile(20)], 3)
    assert len(launches.found) == 2
