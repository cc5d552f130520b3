"""Groups of one op: its kernel on the tiles of a task, given where they are if it asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor.ir.tasks import Column
from infinitensor.native import compiler
from infinitensor.tasking.graph.lowering import Lowering
from infinitensor.tasking.groups.single_op import locator, scan_in_c

A = np.random.default_rng(2).random((10, 6))


def lowering(devices: str, made: Any, **given: Any) -> Lowering:
    with strict(devices, **given) as session:
        found = prepared(session, made())
    return Lowering(found.plan, found.moves)


def test_a_place_is_the_boxes_of_outputs_and_of_what_is_seen_of_inputs() -> None:
    state = lowering("null*2", lambda: it.sort(it.asarray(A), axis=1))
    boxes = np.asarray([[[4, 6], [0, 6]], [[6, 8], [0, 6]]])
    sets: Any = [SimpleNamespace(boxes=boxes)]
    columns = [
        Column(np.asarray([0, -1], np.int32)),
        Column(np.asarray([1, 1], np.int32), np.asarray([[[0, 1], [2, 3]]] * 2)),
        Column(np.zeros(2, np.int32), scalar=True),
    ]
    at = locator(state, columns, sets, [np.asarray([1, 0])])
    assert at(0).outputs == (((6, 8), (0, 6)),)
    assert at(1).outputs == (((4, 6), (0, 6)),)
    assert at(0).inputs == (state.box_of(0), ((0, 1), (2, 3)), ())
    assert at(1).inputs[0] is None
    assert at(0) is at(0)


@pytest.mark.parametrize("devices", ["cpu", "cpu*2"])
def test_ops_that_ask_where_they_are_have_numpys_values_on_every_tile(devices: str) -> None:
    with strict(devices, compile="never"):
        x = it.asarray(A)
        np.testing.assert_array_equal(it.argmax(x, axis=0).numpy(), A.argmax(axis=0))
        np.testing.assert_array_equal(it.arange(40).numpy(), np.arange(40))
        np.testing.assert_array_equal(it.tril(x).numpy(), np.tril(A))
        np.testing.assert_array_equal(x[it.asarray([3, 9, 0])].numpy(), A[[3, 9, 0]])


def test_running_sums_alone_are_calls_of_c_and_none_where_nothing_is_compiled() -> None:
    def scans(compiled: str) -> list[bool]:
        state = lowering(
            "cpu",
            lambda: it.cumsum(it.asarray(A), axis=1) + it.cumprod(it.asarray(A), axis=1),
            tile_elements=1 << 10,
        )
        nodes = [node for node in state.graph.nodes if node.op.name == "_scan_axis"]
        before = it.config.compile
        it.config.compile = compiled
        try:
            return [scan_in_c(state, node) is not None for node in nodes]
        finally:
            it.config.compile = before

    assert scans("never") == [False, False]
    assert scans("auto") == [compiler() is not None, False]
