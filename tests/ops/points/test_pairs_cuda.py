"""Searches over pairs on a GPU: what float64 decides, in one list or in halves of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.triton_in_numpy import triton_in_numpy

from infinitensor.ops.points import pairs_cuda, pairs_numpy, pairs_triton
from infinitensor.ops.points.pairs import exact
from infinitensor.ops.points.pairs_c import MOST_FEATURES

if TYPE_CHECKING:
    from collections.abc import Iterator

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tiles of 16 points, so that few points are several."""
    monkeypatch.setattr(pairs_triton, "TILE", 16)
    with triton_in_numpy(pairs_cuda):
        yield


def points(kind: str, n: int, d: int = 3, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 3, (n, d)) if kind == "grid" else rng.standard_normal((n, d))
    return made.astype(float) + (1e6 if kind == "far away" else 0)


def searches(x: Any, y: Any) -> pairs_cuda.Pairs:
    found = pairs_cuda.searches(torch, torch.from_numpy(x), torch.from_numpy(y))
    assert found is not None
    return found


KINDS = ("noisy", "grid", "far away")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("room", [pairs_cuda.OPEN, 300])
def test_counts_within_a_radius_that_is_a_distance(
    kind: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_cuda, "OPEN", room)  # too short a list is made in halves
    x, y = points(kind, 37), points(kind, 50, seed=1)
    squares = exact(x, y)
    limit = float(np.quantile(squares, 0.3, method="nearest"))
    for at in (limit, float(np.nextafter(limit, 0)), float("inf")):
        found = searches(x, y).count(at, float("inf"))
        np.testing.assert_array_equal(found.numpy(), (squares <= at).sum(1))


def test_counting_ends_where_there_are_enough() -> None:
    x = points("noisy", 64)
    squares = exact(x, x)
    found = searches(x, x).count(2.0, 5).numpy()
    wanted = (squares <= 2.0).sum(1)
    np.testing.assert_array_equal(found >= 5, wanted >= 5)
    np.testing.assert_array_equal(found[wanted < 5], wanted[wanted < 5])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 6])
def test_the_nearest_come_by_distance_and_then_by_number(kind: str, k: int) -> None:
    x, y = points(kind, 20), points(kind, 40, seed=1)
    number = np.random.default_rng(0).permutation(40)
    far, who = searches(x, y).nearest(torch.from_numpy(number), k)
    squares = exact(x, y)
    order = np.stack([np.lexsort((number, line))[:k] for line in squares])
    np.testing.assert_array_equal(far.numpy(), np.take_along_axis(squares, order, 1))
    np.testing.assert_array_equal(who.numpy(), number[order])


@pytest.mark.parametrize("kind", KINDS)
def test_labels_forests_and_edges_are_those_of_plain_words(kind: str) -> None:
    x, y = points(kind, 33), points(kind, 40, seed=1)
    limit = float(np.quantile(exact(x, y), 0.1, method="nearest"))
    number, pairs = np.arange(40), searches(x, y)
    t = torch.from_numpy
    found = pairs.least_label(t(number * 7 % 40), limit, 99)
    wanted = pairs_numpy.least_label(np, x, y, number * 7 % 40, limit, 99)
    np.testing.assert_array_equal(found.numpy(), wanted)
    forest = pairs.united(t(np.arange(33)), t(number), limit, 40).numpy()
    other = pairs_numpy.united(np, x, np.arange(33), y, number, limit, np.arange(40))
    np.testing.assert_array_equal(roots(forest), roots(other))
    rows = (np.arange(33), np.arange(33) % 5, np.arange(33) % 7 / 7)
    columns = (number, number % 5, number % 7 / 7)
    edges = pairs.lightest(tensors(rows), tensors(columns), 5)
    plain = pairs_numpy.lightest_edges(np, x, y, rows, columns, 5)
    for one, another in zip(edges, plain, strict=True):
        np.testing.assert_array_equal(one.numpy(), another)


def tensors(side: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    numbers, groups, cores = side
    return torch.from_numpy(numbers), torch.from_numpy(groups), torch.from_numpy(cores)


def roots(parent: Any) -> Any:
    while not np.array_equal(parent[parent], parent):
        parent = parent[parent]
    return parent


@pytest.mark.parametrize(
    "x",
    [
        np.ones((5, 2)),  # no width: no bound holds
        np.array([[0.0], [1e200]]),
        np.array([[0.0], [np.nan]]),
        np.ones((0, 2)),
        np.ones((3, 0)),
        np.ones((2, MOST_FEATURES + 1)),
    ],
    ids=["one place", "too wide", "nan", "no points", "no features", "too many features"],
)
def test_points_that_no_bound_is_for_are_left_to_words(x: Any) -> None:
    given = torch.from_numpy(x)
    assert pairs_cuda.searches(torch, given, given) is None


def test_tiles_have_the_boxes_of_their_points() -> None:
    x = points("noisy", 37)
    side = pairs_cuda.Side(torch, torch.from_numpy(x))
    assert side.n_tiles == 3
    for number, part in enumerate(np.array_split(x, [16, 32])):
        np.testing.assert_array_equal(side.lo[number].numpy(), part.min(0))
        np.testing.assert_array_equal(side.hi[number].numpy(), part.max(0))
    by_tile = side.by_tile(torch, torch.arange(37), -1)
    assert by_tile.shape == (3, 16)
    assert by_tile[2, 4:].tolist() == [36] + [-1] * 11


def test_a_square_matrix_is_not_its_transpose() -> None:
    x = torch.arange(9.0).reshape(3, 3)
    pairs = pairs_cuda.Pairs(torch, x, x.T)
    assert pairs.cols.x.tolist() == x.T.tolist()
    pairs = pairs_cuda.Pairs(torch, x, x)
    assert pairs.cols is pairs.rows


def test_scratch_grows_with_points_and_with_the_nearest_asked_for() -> None:
    scratch = pairs_cuda.scratch_of
    assert scratch(100, 100, 3, 0) < scratch(200, 100, 3, 0) < scratch(200, 100, 30, 0)
    assert scratch(100, 100, 3, 0) < scratch(100, 100, 3, 1) < scratch(100, 100, 3, 40)
    assert pairs_cuda.room_for(1) == pairs_triton.TILE
    assert pairs_cuda.room_for(40) == 256
