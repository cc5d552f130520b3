"""Reductions of the same data over the same axes are one pass over it on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import prepared, strict
from tests.on_gpu import same, some

import infinitensor as it

A = np.random.default_rng(5).random((64, 48))


def ops_of(program: Any, tile_elements: int = 1 << 20, plans_triton: bool = True) -> set[str]:
    """The ops of the tasks that a program over two matrices becomes."""
    with (
        fake_gpu(plans_triton=plans_triton),
        strict("cuda:0", tile_elements, compile="always") as session,
    ):
        made = program(it.asarray(A), it.asarray(A + 1))
        return {family.op for family in prepared(session, *made).program.graph.families}


@pytest.mark.usefixtures("kernels")
def test_mean_and_variance_are_one_task(always: None) -> None:
    counts = same(lambda xp, x: [x.mean(0), x.var(0), x.max(0)], some(5000, 50))
    assert counts["tasks"] == 1


@pytest.mark.parametrize("tile_elements", [96, 1 << 20])
def test_reductions_of_rows_are_one_family_in_tiles_too(tile_elements: int) -> None:
    found = ops_of(lambda x, y: [x.max(1), x.sum(1), x.mean(1)], tile_elements)
    assert "max and sum and mean" in found


def test_other_axes_other_data_and_other_views_are_other_passes() -> None:
    found = ops_of(lambda x, y: [x.max(1), x.min(0), y.sum(1), x[1:].prod(1)])
    assert {"max", "min", "sum", "prod"} <= found


def test_rows_that_are_cut_are_combined_by_themselves() -> None:
    found = ops_of(lambda x, y: [x.max(0), x.sum(0)], 96)
    assert not any(" and " in op for op in found)


def test_without_triton_each_goes_its_way() -> None:
    found = ops_of(lambda x, y: [x.max(1), x.min(1)], plans_triton=False)
    assert {"max", "min"} <= found


def test_what_is_written_later_is_read_before() -> None:
    def program(x: Any, y: Any) -> list[Any]:
        made = [x.max(1), x.min(1)]
        x[0] = 5.0
        return [*made, x]

    assert "max and min" not in ops_of(program)
