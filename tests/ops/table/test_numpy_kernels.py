"""What kernels declare to take, on a GPU as far as that is known without one; trees of merges."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from infinitensor.ir.mesh import Target
from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE
from infinitensor.ops.table.numpy_kernels import (
    add_tree,
    added_scratch,
    combine_scratch,
    merge_tree,
    scratch_bytes,
)

TILE = Spec((64, 32), np.dtype(np.float32))


def declared(name: str, *ins: Any) -> int:
    op = TABLE[name]
    return scratch_bytes(op, op.rule(*ins), ins, op.rule(*ins).outs, Target("cuda"))


@pytest.mark.parametrize("name", ["add", "maximum", "multiply"])
def test_one_torch_call_into_its_output_takes_nothing_on_a_gpu(name: str) -> None:
    assert declared(name, TILE, TILE) == 0
    assert declared(name, TILE, Spec((), TILE.dtype)) == 0


def test_casts_and_words_of_several_calls_are_counted_on_a_gpu() -> None:
    n_bytes = 8 * TILE.n_elements
    assert declared("maximum", TILE, Spec(TILE.shape, np.dtype(np.float64))) >= 2 * n_bytes
    assert declared("remainder", TILE, TILE) >= 4 * n_bytes
    whole = Spec(TILE.shape, np.dtype(np.uint64))
    assert declared("maximum", whole, whole) >= 4 * n_bytes


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 11, 16])
def test_partial_results_are_added_in_the_same_tree_whatever_adds_them(n: int) -> None:
    parts = list(np.random.default_rng(n).standard_normal((n, 10_000)))
    level = parts
    while len(level) > 1:
        pairs = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(level) & ~1 :]
    (merged,) = merge_tree(TABLE["matmul"], np, [(part,) for part in parts])
    np.testing.assert_array_equal(merged, level[0])
    by_four = parts
    while len(by_four) > 1:
        fours = [by_four[k : k + 4] for k in range(0, len(by_four), 4)]
        by_four = [np.empty_like(parts[0]) for _ in fours]
        for some, out in zip(fours, by_four, strict=True):
            add_tree(some, out)
    np.testing.assert_array_equal(by_four[0], level[0])


@pytest.mark.parametrize("n", [2, 3, 4, 6, 8])
def test_what_merging_partial_results_takes_is_declared(n: int) -> None:
    parts = [np.ones(100_000) for _ in range(n)]
    out = np.empty_like(parts[0])
    for merge, declared in (
        (lambda: add_tree(parts, out), added_scratch(n, out.nbytes)),
        (
            lambda: merge_tree(TABLE["matmul"], np, [(part,) for part in parts]),
            combine_scratch(n, out.nbytes),
        ),
    ):
        tracemalloc.start()
        merge()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= declared + 16_384
