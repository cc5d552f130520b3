"""Kernels over pairs of tiles: exact distances, merged lists of the nearest, sizes of programs."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from tests.triton_in_numpy import triton_in_numpy

from infinitensor.ops.points import pairs_cuda, pairs_triton

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("n", "least", "most", "wanted"),
    [(0, 16, 64, 16), (17, 16, 64, 32), (32, 16, 64, 32), (100, 16, 64, 64), (5, 1, 1 << 30, 8)],
)
def test_sizes_are_powers_of_two_in_their_span(n: int, least: int, most: int, wanted: int) -> None:
    assert pairs_triton.power(n, least, most) == wanted


def test_the_text_of_every_kernel_is_python() -> None:
    for source in (pairs_triton._PAIRS, pairs_triton._APART, pairs_triton._MERGE):
        ast.parse(source)


@pytest.mark.parametrize("n", [0, 1, 256, 700])
def test_distances_of_listed_pairs_are_direct_differences_in_float64(n: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((30, 5)) + 1e8, rng.standard_normal((20, 5)) + 1e8
    a, b = rng.integers(0, 30, n).astype("i4"), rng.integers(0, 20, n).astype("i4")
    out = torch.full((n,), -1.0, dtype=torch.float64)
    with triton_in_numpy(pairs_cuda) as launches:
        given = [torch.from_numpy(one) for one in (x, y, a, b)]
        pairs_triton.launch_apart(given[0], given[1], given[2], given[3], out)
    wanted = np.zeros(n)
    for f in range(5):
        wanted += (x[a, f] - y[b, f]) ** 2
    np.testing.assert_array_equal(out.numpy(), wanted)
    assert len(launches) == bool(n), "nothing is launched for no pairs"


def test_lists_are_merged_by_distance_and_number_and_nothing_is_taken_twice() -> None:
    x = np.zeros((2, 1))
    y = np.array([[3.0], [1.0], [2.0], [1.0], [0.0]])
    number = np.array([4, 7, 1, 2, 0])
    far = np.array([[1.0, 9.0, np.inf], [0.0, 4.0, 9.0]])
    who = np.array([[7, 4, -1], [0, 1, 4]])
    held, lists = np.array([4, 0], "i4"), np.array([[1, 3, 2, 0], [4, 4, 4, 4]], "i4")
    tiles = [torch.from_numpy(v) for v in (x, y, number, held, lists, np.zeros((2, 4)), far, who)]
    with triton_in_numpy(pairs_cuda):
        pairs_triton.launch_merge(tuple(tiles), (2, 1, 3, 4))
    assert far.tolist() == [[1.0, 1.0, 4.0], [0.0, 4.0, 9.0]]
    assert who.tolist() == [[2, 7, 1], [0, 1, 4]], "a row without a list stays"


def test_launches_of_other_sizes_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_triton, "_pairs", {})
    tile = torch.zeros(4)
    monkeypatch.setattr("infinitensor.jit.Launch.__call__", lambda *given: None)
    for n_rows in range(1, 200):
        pairs_triton.launch_pairs(pairs_triton.COUNT, n_rows, 2, (1, 1, 3, 1, 1, 1, 1), (tile,))
    assert len(pairs_triton._pairs) <= 65
    [launches] = list(pairs_triton._pairs.values())[-1:]
    [launch] = launches.known.values()
    assert launch.grid[0] == 199 * 2
    assert launch.constants["ONCE"] == 1
