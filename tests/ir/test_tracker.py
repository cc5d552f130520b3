"""Whoever overlaps must wait: the tracker against every pair of accesses."""

from __future__ import annotations

from itertools import product
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infinitensor.ir.tracker import MANY_NODES, Region, Tracker, hides, meet

from .budget import examples

Touch: TypeAlias = tuple[bool, Region]
"""Whether it writes, and where."""


@st.composite
def spans(draw: st.DrawFn, size: int, longest: int) -> tuple[int, int, int]:
    step = draw(st.sampled_from([1, 1, 1, 2, 3, 4]))
    first = draw(st.integers(0, size - 1))
    n = draw(st.integers(1, min(longest, (size - 1 - first) // step + 1)))
    return (first, first + (n - 1) * step + 1, step)


def regions(shape: tuple[int, ...], longest: int) -> st.SearchStrategy[Region]:
    return st.tuples(*(spans(size, longest) for size in shape))


@st.composite
def histories(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Touch]]:
    shape = draw(st.sampled_from([(60,), (9, 9), (200,), (4, 5, 4)]))
    longest = draw(st.sampled_from([2, 4, 60]))
    touch = st.tuples(st.booleans(), regions(shape, longest))
    return shape, draw(st.lists(touch, min_size=1, max_size=90))


def elements(region: Region) -> set[tuple[int, ...]]:
    return set(product(*(range(*span) for span in region)))


class Edges:
    """What a tracker says, with the ancestors of every node."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.tracker = Tracker(shape, self.new_join)
        self.ancestors: dict[int, set[int]] = {}
        self.n_edges = 0
        self.n_joins = 0

    def new_join(self, nodes: list[int]) -> int:
        self.n_joins += 1
        return self.add(-self.n_joins, nodes)

    def add(self, node: int, waits: list[int]) -> int:
        self.n_edges += len(waits)
        above = set(waits)
        for wait in waits:
            above |= self.ancestors[wait]
        self.ancestors[node] = above
        return node

    def touch(self, node: int, writes: bool, region: Region) -> None:
        waits = self.tracker.write(node, region) if writes else self.tracker.read(node, region)
        assert len(waits) <= MANY_NODES
        self.add(node, waits)


@given(histories())
@examples(60)
def test_accesses_that_overlap_are_ordered_unless_both_read(
    history: tuple[tuple[int, ...], list[Touch]],
) -> None:
    shape, touches = history
    edges = Edges(shape)
    sets = [elements(region) for _, region in touches]
    for node, (writes, region) in enumerate(touches):
        edges.touch(node, writes, region)
        for before in range(node):
            if (writes or touches[before][0]) and sets[before] & sets[node]:
                assert before in edges.ancestors[node], (before, node)


@given(st.data())
@examples(20)
def test_many_small_accesses_are_ordered_through_grid_and_joins(data: st.DataObject) -> None:
    shape = (40, 40)
    edges = Edges(shape)
    random = data.draw(st.randoms(use_true_random=False))
    touches: list[tuple[bool, set[tuple[int, ...]]]] = []
    for node in range(150):
        row, length = random.randrange(40), random.choice([1, 3, 40])
        across = ((row, row + 1, 1), (40 - length, 40, 1))
        region: Region = across if random.random() < 0.5 else (across[1], across[0])
        writes = random.random() < 0.6
        edges.touch(node, writes, region)
        mine = elements(region)
        for before, (wrote, theirs) in enumerate(touches):
            if (writes or wrote) and mine & theirs:
                assert before in edges.ancestors[node]
        touches.append((writes, mine))


@pytest.mark.parametrize("n", [50, 5000])
def test_alternating_rows_and_columns_cost_a_bounded_number_of_edges(n: int) -> None:
    edges_n = 0
    joins = 0

    def new_join(nodes: list[int]) -> int:
        nonlocal edges_n, joins
        edges_n += len(nodes)
        joins += 1
        return -joins

    tracker = Tracker((n, n), new_join)
    for k in range(5000):
        line = ((k // 2) % n, (k // 2) % n + 1, 1)
        every = (0, n, 1)
        edges_n += len(tracker.write(k, (line, every) if k % 2 else (every, line)))
    assert edges_n / 5000 <= 2 * MANY_NODES


def test_disjoint_writes_wait_for_nothing() -> None:
    edges = Edges((1000,))
    for k in range(1000):
        edges.touch(k, True, ((k, k + 1, 1),))
    assert edges.n_edges == 0


def test_a_whole_write_hides_what_was_there() -> None:
    edges = Edges((100,))
    for k in range(20):
        edges.touch(k, True, ((k, k + 1, 1),))
    edges.touch(20, True, ((0, 100, 1),))
    assert edges.tracker.read(21, ((3, 9, 1),)) == [20]


def test_reads_do_not_wait_for_reads() -> None:
    edges = Edges((10,))
    for k in range(50):
        edges.touch(k, False, ((0, 10, 1),))
    assert edges.n_edges == edges.n_joins * (MANY_NODES + 1) or edges.n_joins == 0
    assert edges.tracker.write(50, ((0, 1, 1),))


@given(
    st.sampled_from([(12,), (7, 9)]).flatmap(lambda s: st.tuples(regions(s, 12), regions(s, 12)))
)
@examples(150)
def test_regions_meet_exactly_where_they_share_an_element(pair: tuple[Region, Region]) -> None:
    a, b = pair
    assert meet(a, b) == meet(b, a) == bool(elements(a) & elements(b))


def test_spans_of_all_steps_meet_exactly_where_they_share_an_element() -> None:
    all_spans = [
        (first, first + (n - 1) * step + 1, step)
        for step in (1, 2, 3, 4, 6)
        for first in (0, 1, 2, 5)
        for n in (1, 2, 3, 5)
    ]
    for a, b in product(all_spans, repeat=2):
        assert meet((a,), (b,)) == bool({*range(*a)} & {*range(*b)}), (a, b)


@given(
    st.sampled_from([(12,), (7, 9)]).flatmap(lambda s: st.tuples(regions(s, 12), regions(s, 12)))
)
@examples(150)
def test_what_is_hidden_is_inside(pair: tuple[Region, Region]) -> None:
    outer, inner = pair
    if hides(outer, inner):
        assert elements(inner) <= elements(outer)
    assert hides(outer, outer)
