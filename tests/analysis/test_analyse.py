"""What the passes find in small programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples
from tests.ir.sessions import strict
from tests.tasking.programs import recorded

import infinitensor as it
from infinitensor.analysis import analyse
from infinitensor.api.evaluate.bound_program import Bound
from infinitensor.ir.region import box_size, whole_box

if TYPE_CHECKING:
    from infinitensor.ir.graph import Analysed


def analysed(session: it.Session, *tensors: it.Tensor) -> Analysed:
    session.drain()
    return analyse(Bound(session, [tensor._version for tensor in tensors]).detail().graph())


def leaf() -> Any:
    return it.asarray(np.ones((20, 10)))


@given(st.integers(0, 1 << 30))
@examples(40)
def test_every_node_is_in_one_group_and_after_what_it_reads(seed: int) -> None:
    with strict("null*3") as session:
        tensors = recorded(seed)
        if not tensors:
            return
        found = analysed(session, *tensors)
    graph = found.graph
    grouped = [n for group in found.groups for n in group.nodes]
    assert sorted(grouped) == list(range(len(graph.nodes)))
    made = {leaf.value for leaf in graph.leaves}
    for n in grouped:
        node = graph.nodes[n]
        assert all(o.value < 0 or o.value in made for o in node.operands), node.op.name
        made.update(node.outs)
    assert graph.kept <= made
    assert found.dependence.n_nodes == len(found.groups)
    assert 1 <= found.dependence.critical_path <= len(found.groups)
    for value, box in found.needed.items():
        assert value not in graph.kept
        assert box_size(box) < box_size(whole_box(graph.specs[value].shape))


def test_equal_nodes_are_computed_once() -> None:
    with strict("null") as session:
        x = leaf()
        found = analysed(session, it.sum(x * x, axis=0) + it.max(x * x, axis=0))
    assert [node.op.name for node in found.graph.nodes].count("multiply") == 1


def test_random_nodes_are_never_merged() -> None:
    with strict("null") as session:
        found = analysed(session, it.random.normal(size=(9,)) - it.random.normal(size=(9,)))
    assert sum(node.op.random for node in found.graph.nodes) == 2


def test_kept_tensors_do_not_share_tiles() -> None:
    with strict("null") as session:
        x = leaf()
        a, b = x * 2, x * 2
        found = analysed(session, a, b)
    assert len(found.graph.nodes) == 2


def test_a_chain_is_one_group_and_a_sum_ends_it() -> None:
    with strict("null") as session:
        x = leaf()
        found = analysed(session, it.sum(it.sqrt(x * 2 + 1), axis=0))
    assert len(found.groups) == 1
    assert len(found.groups[0].nodes) == 4


def test_a_write_goes_in_place_where_nobody_sees_the_version_before() -> None:
    with strict("null") as session:
        c = it.zeros((20, 10))
        for k in range(5):
            c[k] = k
        found = analysed(session, c)
    assert found.dependence.versions_shared == 5
    assert "_copy" not in [node.op.name for node in found.graph.nodes]
    assert len({found.roots[n.outs[0]] for n in found.graph.nodes if n.op.kind == "update"}) == 1


def test_a_write_copies_what_somebody_else_still_shows() -> None:
    with strict("null") as session:
        x = leaf() * 2
        y = it.asarray(x, copy=True)
        x[0] = 5
        found = analysed(session, x, y)
    names = [node.op.name for node in found.graph.nodes]
    assert sum(name in ("_copy", "copy", "positive") for name in names) >= 1


@pytest.mark.parametrize("n", [5, 40])
def test_independent_rows_are_one_level(n: int) -> None:
    with strict("null") as session:
        a, c = it.asarray(np.ones((n, 4))), it.zeros((n, 4))
        for k in range(n):
            c[k] = a[k]
        found = analysed(session, c)
    assert found.dependence.critical_path <= 2
    assert found.dependence.widest_level >= n


def test_only_the_slice_that_is_read_is_needed() -> None:
    with strict("null") as session:
        found = analysed(session, it.sum((leaf() * 2)[3:5], axis=0))
    assert set(found.needed.values()) == {((3, 5), (0, 10))}


def names(found: Analysed) -> list[str]:
    return [node.op.name for node in found.graph.nodes]


def test_what_is_written_over_all_of_a_tensor_is_not_copied() -> None:
    with strict("null") as session:
        x, y = leaf(), leaf()
        x[:] = it.exp(x)
        y[...] = it.cumsum(y, axis=0)
        assert "_copy" not in names(analysed(session, x, y))
        z = it.empty((20, 10))
        z[3:] = 1.0
        x[:] = z
        del z
        assert names(analysed(session, x)).count("_copy") == 0


def test_what_somebody_else_reads_or_holds_is_copied() -> None:
    with strict("null") as session:
        x = leaf()
        held = it.exp(x)
        x[:] = held
        assert names(analysed(session, x, held)).count("_copy") == 1
        y = leaf()
        made = it.exp(y)
        total = made.sum()
        y[:] = made
        y[2:4] = 0.0
        del made
        assert names(analysed(session, total, y)).count("_copy") == 1
        assert names(analysed(session, leaf().copy())) == ["_copy"]


@pytest.mark.parametrize("devices", ["cpu", "cpu*3"])
def test_values_that_took_the_place_of_their_copies_are_right(devices: str) -> None:
    a = np.random.default_rng(0).random((40, 30))
    with strict(devices):
        x, y = it.asarray(a), a.copy()
        for k in range(3):
            x[:] = it.minimum(x[:], it.add.outer(x[:, k], x[k, :]))
            y[:] = np.minimum(y[:], np.add.outer(y[:, k], y[k, :]))
            moved, other = it.empty((40, 30)), np.empty((40, 30))
            for to, of in ((moved, x), (other, y)):
                to[::-1] = of
                of[:] = to
                of[k] = 0.5
        np.testing.assert_array_equal(x.numpy(), y)
