"""Scratch of tasks: what their ops and steps between them work in, by the largest task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict

import infinitensor as it


def scratch(made: Any, tile_elements: int, compiled: str = "never") -> int:
    """Scratch bytes of the largest family of a program of a matrix of floats."""
    with strict("cpu", tile_elements, compile=compiled) as session:
        graph = prepared(session, made()).program.graph
    return max(family.scratch_bytes for family in graph.families)


def matrix(dtype: str = "float64") -> Any:
    return it.asarray(np.ones((64, 64), dtype))


def test_steps_that_are_not_fused_need_registers_as_large_as_tiles() -> None:
    def chain() -> Any:
        x = matrix()
        return it.sqrt(x * 2 + 1) * it.exp(x * 3)

    small, large = scratch(chain, 64), scratch(chain, 1024)
    assert small >= 64 * 8
    assert large == 16 * small


def test_half_the_width_needs_half_the_scratch() -> None:
    def chain(dtype: str) -> Any:
        x = matrix(dtype)
        return lambda: it.sqrt(x * x + x) * it.exp(x)

    wide, narrow = (scratch(lambda d=d: chain(d)(), 1024) for d in ("float64", "float32"))
    assert wide == 2 * narrow > 0


@pytest.mark.parametrize("rows", [4, 16])
def test_of_a_reduction_it_is_what_is_read_that_counts(rows: int) -> None:
    def total() -> Any:
        return it.sum(it.sqrt(matrix() + 1), axis=1)

    assert scratch(total, rows * 64) >= rows * 64 * 8


def test_a_plain_write_has_none() -> None:
    def written() -> Any:
        x = it.zeros((64, 64))
        x[3:9] = matrix()[:6]
        return x

    with strict("cpu", 128, compile="never") as session:
        graph = prepared(session, written()).program.graph
    assert any(family.updates for family in graph.families)
    assert [family.scratch_bytes for family in graph.families if family.updates] == [0] * sum(
        family.updates for family in graph.families
    )
