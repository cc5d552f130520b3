"""Tasks that only copy are calls that C makes, where all is of one dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor.native import compiler
from infinitensor.tasking.groups.copy_groups import Copied

needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler")
A = np.arange(60.0).reshape(10, 6)


def copied(made: Any, compiled: str = "always") -> list[str]:
    """The ops of families that are copies in C."""
    with strict("cpu", compile=compiled) as session:
        graph = prepared(session, made()).program.graph
    return [family.op for family in graph.families if isinstance(family.in_c, Copied)]


def joined() -> Any:
    return it.concat([it.asarray(A), it.asarray(A + 1)[::2]])


def written() -> Any:
    x = it.sort(it.asarray(A), axis=1)
    x[2:9:3] = it.asarray(A)[:3]
    return x


@needs_compiler
def test_copies_joins_and_writes_are_calls_of_c() -> None:
    assert copied(lambda: it.asarray(A).copy()) == ["_copy"]
    assert copied(joined) == ["_concatenate"]
    assert len(copied(written)) == 1


def test_nothing_is_where_nothing_is_compiled() -> None:
    for made in (joined, written, lambda: it.asarray(A).copy()):
        assert copied(made, "never") == []


def test_a_scalar_is_not_copied_but_filled_in_by_a_kernel() -> None:
    def filled() -> Any:
        x = it.sort(it.asarray(A), axis=1)
        x[2:4] = 5.0
        return x

    assert copied(filled) == []


@pytest.mark.parametrize("compiled", ["always", "never"])
@pytest.mark.parametrize("tile_elements", [5, 7, 100])
def test_values_are_numpys_either_way(compiled: str, tile_elements: int) -> None:
    wanted = np.sort(A, axis=1)
    wanted[2:9:3] = A[:3]
    with strict("cpu", tile_elements, compile=compiled):
        np.testing.assert_array_equal(joined().numpy(), np.concatenate([A, (A + 1)[::2]]))
        np.testing.assert_array_equal(written().numpy(), wanted)
        np.testing.assert_array_equal(it.asarray(A)[::-1].copy().numpy(), A[::-1])
