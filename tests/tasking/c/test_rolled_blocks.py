"""Loops over blocks in C: the bits of all their turns."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.tasking.recorded_loops import computed, recorded_loop

import infinitensor as it
from infinitensor.dtypes import bfloat16
from infinitensor.tasking.c.loops import C_BLOCK_ELEMENTS
from infinitensor.tasking.c.rolled_blocks import rolled_source_of
from infinitensor.tasking.kernels.c_kernel import Compiled

if TYPE_CHECKING:
    from infinitensor.tasking.triton.triton_source import Group

DTYPES = [np.dtype(name) for name in ("f4", "f8", "f2", "i4", "i8", "c8")] + [bfloat16]


def run(group: Group, given: list[Any], arrays: list[np.ndarray], source: str) -> list[np.ndarray]:
    """What a C function of its steps makes."""
    compiled = Compiled(group.parts, group.inputs, group.n_outs, (), (), (-1,), short=False)
    compiled.source = source
    inputs = iter(arrays)
    ins = [x if x is not None else next(inputs) for x in given]
    stored = {part.stored: part.dtype for part in group.parts if part.stored >= 0}
    outs = [np.empty(arrays[0].shape, stored[j]) for j in range(group.n_outs)]
    compiled(ins, outs, arrays[0].shape)
    return outs


@pytest.mark.parametrize("seed", range(24))
def test_c_computes_what_all_turns_do(seed: int) -> None:
    rng = Random(seed)
    dtype = rng.choice(DTYPES)
    words = ("add", "subtract", "multiply") if dtype.kind == "c" else None
    group, given = recorded_loop(rng, dtype, rng.choice((5, 17, 40)), seed % 2 > 0, words)
    n = rng.choice((1, 77, C_BLOCK_ELEMENTS + 5))
    random = np.random.default_rng(seed)
    arrays = [(random.random(n) * 8 - 4).astype(dtype) for x in given if x is None]
    wanted = computed(group, given, arrays)
    made = run(group, given, arrays, rolled_source_of(group.parts, group.inputs, group.n_outs))
    for out, right in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(out, right)


@pytest.mark.parametrize("n_turns", [30, 150])
def test_functions_in_a_loop_part_its_turns(n_turns: int, always: None) -> None:
    x = np.linspace(-2, 2, C_BLOCK_ELEMENTS + 9)
    made = [np.asarray(each) for each in _functions(x, n_turns)]
    it.config.compile = "never"  # `always` sets it back
    for each, right in zip(made, _functions(x, n_turns), strict=True):
        np.testing.assert_array_equal(each, np.asarray(right))


def _functions(x: np.ndarray, n_turns: int) -> tuple[Any, Any]:
    a, b = it.asarray(x), it.asarray(x[::-1].copy())
    for turn in range(n_turns):
        a, b = it.exp(a * 0.25) - b, it.tanh(b) * (0.5 + turn % 2) + a * 0.125
    return a, b
