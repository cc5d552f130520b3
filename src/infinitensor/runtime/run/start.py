"""The first state of every run of a Program: found once, kept with the Program."""

from __future__ import annotations

from array import array as int_array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from infinitensor.ir.tasks import EVICT, LOAD
from infinitensor.native import begin
from infinitensor.runtime.native.c_program import Bindings
from infinitensor.runtime.replay.cuda_graphs import LEAST_TASKS, replays_of
from infinitensor.runtime.state.step import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.devices import Device
    from infinitensor.ir.tasks import Family, Program
    from infinitensor.runtime.native.pace import Pace
    from infinitensor.runtime.replay.cuda_graphs import Replays

LONG_S = 2e-4
"""Estimated seconds of a task from which it is taken alone: another worker may have the next."""


class Start(NamedTuple):
    """The first state of every run of a Program."""

    n_tasks: int
    waits: int_array[int]
    ready: list[int]
    order: int_array[int]
    """The tasks that run, in their serial order: each after all that it waits for."""
    ranks: int_array[int] | None
    """The place of each task in that order; None: by their numbers."""
    lanes: bytes | None
    """The lane of each task; None: all are computed, or the one thread does everything."""
    steps: Steps
    replays: Replays | None
    bindings: Bindings
    long: bytes
    """Whether each task takes long."""
    paces: dict[int, Pace]
    """How many of so many workers are quickest."""


def start_of(program: Program, devices: Sequence[Device]) -> Start:
    """Found once for a Program."""
    if not program.start:
        if devices[0].kind != "null":
            _begin_compiling(program)
        n_tasks = int(np.count_nonzero(program.needed))
        order, ranks, lanes = np.flatnonzero(program.needed), None, None
        if program.order is not None:
            order = program.order
            places = np.full(program.graph.n_tasks, -1, np.int64)
            places[order] = np.arange(len(order))
            ranks = int_array("q", places.tobytes())
            lanes = _marks(program, lambda f: f.lane if f.lane in (LOAD, EVICT) else 0)
        program.start.append(
            Start(
                n_tasks,
                int_array("i", program.waits.astype(np.int32).tobytes()),
                np.flatnonzero((program.waits == 0) & program.needed).tolist(),
                int_array("q", order.astype(np.int64).tobytes()),
                ranks,
                lanes,
                Steps(program, devices[0].kind == "null"),
                replays_of(program, devices) if n_tasks >= LEAST_TASKS else None,
                Bindings(program, devices[0].kind),
                _marks(program, lambda family: family.seconds >= LONG_S),
                {},
            )
        )
    start: Start = program.start[0]
    return start


def _begin_compiling(program: Program) -> None:
    """Start compilers for all that is needed at once, beside each other and the first tasks."""
    for family in program.graph.families:
        if family.sources and program.needed[family.span].any():
            for source in family.sources:
                begin(source)


def _marks(program: Program, mark: Callable[[Family], int]) -> bytes:
    """A byte for each task, by its family."""
    marks = bytearray(program.graph.n_tasks)
    for family in program.graph.families:
        marks[family.span] = bytes([mark(family)]) * family.n
    return bytes(marks)
