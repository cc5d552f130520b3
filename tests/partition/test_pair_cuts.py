"""Cuts of pairs of points: all of y for a part of x, or small tiles of y for large parts of x."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from infinitensor.ir.graph import Operand
from infinitensor.ir.layout import DISK, Layout
from infinitensor.ir.mesh import preset
from infinitensor.ir.op import Spec
from infinitensor.ir.region import grid_shape
from infinitensor.ir.space import Read, Space
from infinitensor.partition import pair_cuts
from infinitensor.partition.operand_cuts import Bounds, Reads
from infinitensor.partition.pair_cuts import (
    _largest,
    _parts,
    _Room,
    cut_pairs,
    cut_streamed_pairs,
    in_lanes,
)

GIB = 1 << 30
N_Y, N_X, D = 20_000, 9000, 16


def pairs(n_y: int = N_Y, n_x: int = N_X) -> Space:
    """Something of each point of x from all points of y."""
    reads = (
        Read(Operand(0), (0, 2), (n_y, D), place=0),
        Read(Operand(1), (1, 2), (n_x, D), place=1),
    )
    call = SimpleNamespace(outs=(Spec((n_x,), np.dtype("f8")),), params=())
    last: Any = SimpleNamespace(call=call, op=SimpleNamespace(name="pairs"))
    return Space((n_y, n_x, D), frozenset([2]), (0,), reads, ((2, (1,)),), last)


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task works in eight bytes for each of its points."""

    def need(node: Any, ins: Any, outs: Any, target: Any) -> int:
        return 8 * sum(int(spec.shape[0]) for spec in ins)

    monkeypatch.setattr(pair_cuts, "task_scratch", need)


def test_a_task_sees_all_of_y_and_there_is_a_piece_for_every_worker() -> None:
    mesh = preset("cpu", 1, GIB, 2)
    cuts = cut_pairs(pairs(), 1 << 20, mesh, 0, 4)
    assert grid_shape(cuts)[0] == grid_shape(cuts)[2] == 1
    assert grid_shape(cuts)[1] >= 8
    assert cuts[1][0] == 0
    assert cuts[1][-1] == N_X


def test_few_points_are_not_cut_for_the_sake_of_more_tasks() -> None:
    mesh = preset("cpu", 1, GIB, 2)
    cuts = cut_pairs(pairs(300, 2 * pair_cuts.FEW_ROWS - 1), 1 << 20, mesh, 0, 64)
    assert grid_shape(cuts) == (1, 1, 1)


def test_operands_are_within_the_bound() -> None:
    mesh = preset("cpu", 1, GIB, 2)
    cuts = cut_pairs(pairs(), 1 << 20, mesh, 5000 * D, 1)
    assert max(b - a for a, b in pairwise(cuts[0])) * D <= 5000 * D
    assert grid_shape(cuts)[2] == 1


def streamed(budget: int, n_devices: int = 2) -> Any:
    space = pairs()
    mesh = preset("cpu", n_devices, GIB, 2)
    borders = tuple(range(0, N_Y + 1, 1000))
    files = Layout((borders, (0, D)), (DISK,)), Layout(((0, N_X), (0, D)), (DISK,))
    layouts = dict(zip(space.reads, files, strict=True))
    dtypes = dict.fromkeys(space.reads, np.dtype("f8"))
    reads = Reads(list(space.reads), layouts, dtypes, frozenset(space.reads))
    bounds = Bounds(mesh, room_bytes=budget)
    return cut_streamed_pairs(space, reads, bounds), _Room(space, reads, mesh), mesh


@pytest.mark.parametrize("share", [0.6, 0.3, 0.1])
def test_what_a_device_holds_while_y_streams_by_fits_and_lanes_share_each_pass(
    share: float,
) -> None:
    budget = int(share * 8 * D * (N_Y + N_X))
    cuts, room, mesh = streamed(budget)
    n_y, n_x = (max(b - a for a, b in pairwise(cuts[k])) for k in (0, 1))
    assert room.of_all(n_y, n_x) <= budget
    assert (cuts[0][-1], cuts[1][-1], cuts[2]) == (N_Y, N_X, (0, D))
    n_lanes = mesh.n_devices * mesh.n_concurrent
    n_passes = -(-grid_shape(cuts)[1] // n_lanes)
    # a pass less would need larger parts than fit
    if n_passes > 1:
        larger = -(-N_X // ((n_passes - 1) * n_lanes))
        assert room.of_all(n_y, larger) > budget - budget // pair_cuts.SPARE_BUDGET_PART


def test_nothing_streams_where_most_has_room_or_nothing_fits() -> None:
    assert streamed(3 * 8 * D * (N_Y + N_X))[0] is None
    assert streamed(1000)[0] is None


def test_parts_of_x_go_round_the_lanes_of_all_devices() -> None:
    mesh = preset("cpu", 2, GIB, 2)
    cuts = ((0, 5, 10), tuple(range(7)), (0, 3))
    lanes = mesh.n_concurrent
    wanted = [k // lanes % 2 for k in range(6)]
    assert in_lanes(cuts, mesh).tolist() == wanted * 2


@pytest.mark.parametrize("seed", range(20))
def test_parts_keep_to_the_length_and_end_where_borders_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    borders = (0, *np.cumsum(rng.integers(1, 30, 6)).tolist())
    most = int(rng.integers(1, 40))
    found = _parts(borders, most)
    assert found[0] == 0
    assert found[-1] == borders[-1]
    assert all(0 < b - a <= most for a, b in pairwise(found))
    if most >= 30:
        assert set(found) <= set(borders)
    assert _largest(most, lambda n: n * n <= seed) == min(most, int(seed**0.5))
