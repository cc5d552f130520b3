"""Errors of tasks say where they happened: the op, the region, the line."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.memory.task_graphs import task_graph

from infinitensor.errors import CorruptTileError, DeviceOutOfMemoryError
from infinitensor.ir.tasks import COMPUTE, LOAD
from infinitensor.runtime.state.error_site import explain_failure
from infinitensor.runtime.state.step import Steps

# 1 = f(0) goes below as 2, and comes back as 3, from which 4 is made
TASKS = [((0,), 1), ((1,), 2), ((2,), 3), ((3,), 4)]


def state(leaf: int = -1) -> Any:
    graph = task_graph(TASKS, [4] * 5, [4], [COMPUTE, COMPUTE, LOAD, COMPUTE])
    graph = replace(graph, tiles=(replace(graph.tiles[0], leaf=leaf), *graph.tiles[1:]))
    program: Any = SimpleNamespace(
        graph=graph,
        slots=np.arange(5),
        producers=np.asarray([-1, 0, 1, 2, 3]),
        origins={3: 1 if leaf < 0 else 0},
    )
    named: list[BaseException] = []
    table = SimpleNamespace(name_in=named.append)
    steps = Steps(program, is_null=False)
    return SimpleNamespace(program=program, steps=steps, leaves=[table], named=named)


def notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", ()))


def test_an_error_says_its_op_tile_and_region_once() -> None:
    run, error = state(), ValueError("a kernel")
    for _ in range(2):
        explain_failure(run, error, run.program.graph.families[3], 0)
    assert notes(error) == ["infinitensor: in 'op 3', tile 0 for region ((0, 4),)"]


def test_a_load_is_explained_by_the_task_that_made_the_tile() -> None:
    run, error = state(), OSError("a disk")
    explain_failure(run, error, run.program.graph.families[2], 0)
    assert notes(error) == ["infinitensor: in 'op 0', tile 0 for region ((0, 4),)"]


def test_a_device_without_memory_names_the_op() -> None:
    run = state()
    error = DeviceOutOfMemoryError("full", 64)
    explain_failure(run, error, run.program.graph.families[1], 0)
    assert (error.op, error.tile) == ("op 1", 0)


@pytest.mark.parametrize("leaf", [-1, 0])
def test_a_damaged_tile_of_a_tensor_that_was_stored_names_that(leaf: int) -> None:
    run = state(leaf)
    error = CorruptTileError("x.tile", 0, "a wrong sum")
    explain_failure(run, error, run.program.graph.families[2], 0)
    assert run.named == ([error] if leaf == 0 else [])
    assert len(notes(error)) == 1
