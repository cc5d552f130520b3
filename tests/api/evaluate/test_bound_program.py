"""Waiting calls, bound to their leaves: what is kept, used up, known again and allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.evaluate.bound_program import Bound, FirstSight, stored_table
from infinitensor.api.evaluate.demand import fit_bound
from infinitensor.errors import MemoryBudgetError

A = np.arange(40.0).reshape(5, 8)


def bound(session: it.Session, *tensors: Any, **options: Any) -> Bound:
    with session.guard():
        session.drain()
        return Bound(session, [tensor._version for tensor in tensors], **options)


def test_what_was_asked_for_and_what_tensors_show_is_kept() -> None:
    with strict("cpu") as session:
        x = it.asarray(A)
        shown = x + 1
        made = (shown * 2).sum(0)  # the product is nobody's
        found = bound(session, made)
        assert {id(v) for v in found.kept.values()} == {id(made._version), id(shown._version)}
        peeked = bound(session, made, peek=True)
        assert {id(v) for v in peeked.kept.values()} == {id(made._version)}


def test_leaves_that_nobody_else_reads_are_used_up() -> None:
    with strict("cpu") as session:
        x = it.compute(it.asarray(A) + 0)
        y = x * 2
        assert bound(session, y).donated == [False]
        del x
        assert bound(session, y).donated == [True]
        assert bound(session, y, peek=True).donated == [False]


@pytest.mark.parametrize("shape", [(40,), (5, 8), (0, 3), ()])
@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
def test_at_first_sight_a_program_is_what_it_is_bound_as(
    shape: tuple[int, ...], dtype: str
) -> None:
    with strict("cpu") as session:
        x = it.compute(it.asarray(np.ones(shape, dtype)) + 0)
        for is_shown, is_spare in [(False, False), (True, False), (False, True)]:
            used = it.compute(x + 0)
            shown = used * 2
            made = [shown.sum() * 3, shown + x]
            if not is_shown:
                del shown
            if is_spare:
                del used
            waiting = [tensor._version for tensor in made]
            whole = bound(session, *made)
            found = FirstSight(session, waiting)
            assert found.trace_key == whole.trace_key
            assert (found.kept, found.donated) == (whole.kept, whole.donated)
            assert (found.scalars, found.leaves) == (whole.scalars, whole.leaves)
            assert True in found.donated or not is_spare or 0 in shape


def test_what_is_only_peeked_at_is_not_known_by_first_sight() -> None:
    with strict("cpu") as session:
        x = it.compute(it.asarray(A) + 0)
        shown = x + 1
        made = shown * 2
        found = FirstSight(session, [made._version])
        assert found.trace_key != bound(session, made, peek=True).trace_key
        del x, shown


def test_a_program_that_is_repeated_has_the_same_key_and_another_has_not() -> None:
    with strict("cpu") as session:
        x = it.compute(it.asarray(A) + 0)
        keys = []
        programs: list[Any] = [
            lambda: x * 2 + 1,
            lambda: x * 3 + 1,
            lambda: x * 2 - 1,
            lambda: x[1:] * 2,
        ]
        for program in programs:
            made = program()
            keys.append(bound(session, made).trace_key)
            del made
        assert keys[0] == keys[1], "numbers are bound, not known"
        assert len(set(keys)) == 3
        it.config.rounding = "fused"
        assert bound(session, x * 2 + 1).trace_key != keys[0]


def test_limits_and_little_room_are_part_of_what_a_program_is_known_by() -> None:
    with strict("cpu", memory=1 << 20) as session:
        x = it.compute(it.asarray(A) + 0)
        made = x * 2
        plain = bound(session, made)
        limited = bound(session, made, limits=(1000,))
        assert plain.trace_key != limited.trace_key
        assert limited.budgets()[0] < plain.budgets()[0]
        assert plain.lean_key() == bound(session, made).lean_key()


def test_a_plan_that_needs_more_than_is_free_does_not_fit() -> None:
    with strict("cpu", memory=1 << 20) as session:
        x = it.compute(it.asarray(A) + 0)
        made = x * 2
        program = it.plan(made)
        assert program is not None
        found = bound(session, made)
        found, ready = fit_bound(found.detail())
        assert found.fits(ready.program)
        assert not bound(session, made, limits=(1,)).fits(ready.program)


def test_the_graph_has_the_leaves_nodes_and_kept_values_of_the_program() -> None:
    with strict("cpu") as session:
        x, y = it.asarray(A), it.asarray(A[0])
        made = (x + y).max(1)
        graph = bound(session, made).detail().graph()
        assert [node.op.name for node in graph.nodes] == ["add", "max"]
        assert len(graph.leaves) == 2
        assert graph.kept == {graph.nodes[-1].outs[0]}


def test_only_the_window_that_is_touched_is_bound() -> None:
    with strict("cpu", 8) as session:
        x = it.compute(it.asarray(A) + 0)
        made = x[1:2] * 2
        found = bound(session, made).detail()
        assert found.is_windowed
        assert found.tables[0].layout.n_tiles < x._version.table.layout.n_tiles
        np.testing.assert_array_equal(made.numpy(), A[1:2] * 2)


def test_values_on_the_host_are_used_where_they_are_or_stored_in_tiles() -> None:
    with it.init("cpu") as session:
        x = it.asarray(np.arange(10.0))
        table = stored_table(session, x._version)
        assert table.whole is x._version.host
    with strict("cpu*2", 4) as session:
        y = it.asarray(np.arange(10.0))
        assert stored_table(session, y._version).layout.n_tiles == 3


def test_what_does_not_fit_names_the_op_and_a_remedy() -> None:
    with strict("cpu", 1 << 20, memory=100_000), pytest.raises(MemoryBudgetError, match="remedy"):
        (it.ones((100, 100)) @ it.ones((100, 100)) + it.ones((100, 100))).sum().numpy()
