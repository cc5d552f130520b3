"""The scheduler with virtual time: how long a program would take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict
from tests.memory.task_graphs import task_graph
from tests.tasking.programs import recorded

from infinitensor.ir.mesh import Mesh, preset
from infinitensor.ir.tasks import COMPUTE, LOAD, Program
from infinitensor.memory.uses import Uses
from infinitensor.price import tier_seconds
from infinitensor.runtime.simulate import durations, estimated, least_seconds, makespan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.memory.task_graphs import Task

CHAIN: list[Task] = [((0,), 1), ((1,), 2), ((2,), 3)]
APART: list[Task] = [((0,), 1), ((0,), 2), ((0,), 3)]


def program(tasks: Sequence[Task], seconds: Sequence[float], lanes: Sequence[int] = ()) -> Program:
    """Tasks that take so long, and wait for who makes what they read."""
    n = len(tasks)
    graph = task_graph(tasks, [100] * (n + 1), range(1, n + 1), lanes)
    families = [replace(f, seconds=s) for f, s in zip(graph.families, seconds, strict=True)]
    graph = replace(graph, families=tuple(families))
    uses = Uses(graph)
    by_source = np.argsort(graph.sources, kind="stable")
    none = np.zeros(0, np.int64)
    return Program(
        graph=graph,
        slots=np.arange(n + 1),
        slot_bytes=none,
        slot_devices=none,
        slot_leaves={},
        borders=np.searchsorted(graph.sources[by_source], np.arange(n + 1)),
        after=graph.targets[by_source],
        waits=np.bincount(graph.targets, minlength=n),
        peak_bytes={},
        last_use=uses.last_use,
        producers=uses.producers,
        needed=uses.needed,
    )


def cpu(workers: int) -> Mesh:
    return replace(preset("cpu", 1, 1 << 30, 2), workers=workers)


@pytest.mark.parametrize(("workers", "seconds"), [(1, 6.0), (2, 4.0), (3, 3.0), (9, 3.0)])
def test_tasks_apart_share_the_workers_in_their_order(workers: int, seconds: float) -> None:
    # two workers take 1 and 2 seconds; the first is free again for the third
    assert makespan(program(APART, [1.0, 2.0, 3.0]), cpu(workers)) == seconds


def test_a_chain_takes_its_sum_however_many_workers() -> None:
    chain = program(CHAIN, [1.0, 2.0, 3.0])
    assert makespan(chain, cpu(1)) == makespan(chain, cpu(8)) == 6.0


def test_loads_go_beside_kernels_and_take_as_long_as_their_tier() -> None:
    mesh = cpu(1)
    loads = program(APART, [5.0, 0.0, 0.0], [COMPUTE, LOAD, LOAD])
    each = tier_seconds(800, False, mesh)
    seconds, lanes = durations(loads, mesh)
    assert seconds == [5.0, each, each]
    assert lanes == [COMPUTE, LOAD, LOAD]
    assert makespan(loads, mesh) == pytest.approx(max(5.0, 2 * each))


def test_what_stays_of_one_run_is_not_loaded_in_the_next() -> None:
    mesh = cpu(1)
    read = replace(program(CHAIN, [0.0, 1.0, 1.0], [LOAD, COMPUTE, COMPUTE]), cached=(1,))
    first = makespan(read, mesh)
    assert makespan(read, mesh, again=True) == pytest.approx(2.0)
    assert first == pytest.approx(2.0 + tier_seconds(800, False, mesh))
    assert least_seconds(read, mesh, again=True) == pytest.approx(2.0)
    taken, is_near = estimated(read, mesh)
    assert is_near
    assert taken >= first + 3 * 2.0


def test_chance_is_as_the_seed_says_and_none_without_variation() -> None:
    mesh, chain = cpu(1), program(CHAIN, [1.0, 2.0, 3.0])
    one = makespan(chain, mesh, variation=0.5, seed=1)
    assert one == makespan(chain, mesh, variation=0.5, seed=1)
    assert one != makespan(chain, mesh, variation=0.5, seed=2)
    mean = np.mean([makespan(chain, mesh, variation=0.3, seed=k) for k in range(400)])
    assert mean == pytest.approx(6.0, rel=0.05)


@pytest.mark.parametrize("seed", range(8))
def test_no_schedule_is_shorter_than_the_busiest_lane_nor_longer_than_all_in_turn(
    seed: int,
) -> None:
    with strict("cpu*2") as session:
        tensors = recorded(seed)
        if not tensors:
            return
        found = prepared(session, *tensors).program
        mesh = session.engine.mesh_now()
    least, whole = least_seconds(found, mesh), sum(durations(found, mesh)[0])
    for fixed in (False, True):
        taken = makespan(found, mesh, fixed_order=fixed)
        assert 0 <= taken <= whole * (1 + 1e-9)
        if found.needed.all():
            assert taken >= least * (1 - 1e-9)
