"""Loops in generated code: the bits of all their turns."""

from __future__ import annotations

import ast
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.compiled import compiles, needs_triton
from tests.tasking.recorded_loops import computed, recorded_loop
from tests.triton_in_numpy import triton_in_numpy

from infinitensor.jit import Launch
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input
from infinitensor.tasking.c.rolled_steps import MOST_WRITTEN, loops_of
from infinitensor.tasking.triton.triton_launch import MapKernel
from infinitensor.tasking.triton.triton_source import Group, map_source

SINGLE = np.dtype(np.float32)
DTYPES = [np.dtype(name) for name in ("f4", "f8", "f2", "i4", "i8")]


def average(n_turns: int) -> Group:
    """c = c * x1 + a * x2, so many times, with numbers of each turn."""
    inputs = [Input(SINGLE, False, False)] * 2
    parts: list[GroupStep] = []
    c: Any = ("in", 0)
    for turn in range(n_turns):
        for word, other in (("multiply", 2 + 2 * turn), ("add", 3 + 2 * turn)):
            stored = 0 if turn == n_turns - 1 and word == "add" else -1
            inputs.append(Input(SINGLE, True, False))
            term = Term(word, (Arg(0), Arg(1)))
            parts.append(GroupStep(term, (SINGLE,) * 2, (c, ("in", other)), SINGLE, stored))
            c = ("step", len(parts) - 1)
    return Group(tuple(parts), tuple(inputs), 1)


def test_a_turn_is_seen_with_its_sources() -> None:
    (loop,) = loops_of(*_steps_of(average(30)))
    assert loop.repeat.length == 2
    assert loop.repeat.times >= 28
    assert {where for read in loop.sources for where, _ in read} == {"held", "ins", "turn"}
    assert all(len(every) == loop.repeat.times for every in loop.changing)


def _steps_of(group: Group) -> tuple[Any, Any]:
    return group.parts, group.inputs


def test_the_text_of_a_loop_is_as_long_whatever_its_turns() -> None:
    def lines(n_turns: int) -> int:
        group = average(n_turns)
        alike = tuple((k, 2 + k % 2) for k in range(4, len(group.inputs)))
        source = map_source(
            Group(group.parts, group.inputs, 1, alike=alike), 1, by_row=True, wide=False
        )
        ast.parse(source)
        return len(source.splitlines())

    assert lines(20) == lines(300) < 60


def test_numbers_that_change_are_chosen_by_turn_only_where_steps_are_many() -> None:
    few, many = (map_source(average(n), 1, True, False) for n in (20, MOST_WRITTEN))
    assert "for turn in" not in few
    assert f"tl.where(turn == {MOST_WRITTEN - 2}" in many


@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_triton_computes_what_all_turns_do(seed: int, changing: bool) -> None:
    import torch

    rng = Random(seed)
    dtype = rng.choice(DTYPES)
    n_turns = rng.choice((2, 3, 5, 17, 40, 60))
    group, given = recorded_loop(rng, dtype, n_turns, changing)
    n = 70
    arrays = [
        (np.random.default_rng(seed + k).random(n) * 8 - 4).astype(dtype)
        for k in range(sum(x is None for x in given))
    ]
    wanted = computed(group, given, arrays)
    tensors = iter([torch.from_numpy(array) for array in arrays])
    ins = [x if x is not None else next(tensors) for x in given]
    outs = [torch.empty(n, dtype=tensors_dtype(dtype)) for _ in wanted]
    with triton_in_numpy():
        MapKernel(group)(ins, outs, (n,))
    for out, right in zip(outs, wanted, strict=True):
        np.testing.assert_array_equal(out.numpy(), right)


@needs_triton
@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.parametrize("name", ["f4", "f8", "f2", "i4", "i8"])
def test_triton_compiles_loops(name: str, changing: bool) -> None:
    dtype = np.dtype(name)
    group, given = recorded_loop(Random(7), dtype, MOST_WRITTEN, changing)
    assert group.loops
    numbers = [x.item() for x in given if x is not None]
    launch = Launch(map_source(group, 1, True, False), 1, [100, *[1] * group.n_arrays], BLOCK=512)
    arrays = [tensors_dtype(dtype)] * group.n_arrays
    assert compiles(launch, arrays, numbers)


def tensors_dtype(dtype: np.dtype[Any]) -> Any:
    import torch

    return torch.from_numpy(np.empty(0, dtype)).dtype
