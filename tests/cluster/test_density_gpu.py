"""Neighbours, DBSCAN and HDBSCAN on a GPU: what the CPU finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.points.scales import SCALES

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.cluster import DBSCAN, HDBSCAN, KMeans
from infinitensor.neighbors import NearestNeighbors

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("error")]


def noisy(n: int, d: int, seed: int = 0) -> Any:
    """Groups with noise between them."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-10, 10, (20, d))[rng.integers(0, 20, n)] + rng.normal(size=(n, d))
    x[: n // 20] = rng.uniform(-10, 10, (n // 20, d))
    return rng.permutation(x)


def grid(n: int, d: int) -> Any:
    """Whole numbers: full of ties and copies."""
    return np.random.default_rng(0).integers(0, 4, (n, d)).astype(float)


def both(make: Any) -> tuple[Any, Any]:
    with it.init("cpu"):
        there = make()
    with it.init("cuda:0"):
        return there, make()


@pytest.mark.parametrize("d", [3, 16, 70])
@pytest.mark.parametrize("name", SCALES)
def test_counts_and_nearest_are_those_of_float64(name: str, d: int) -> None:
    scale, offset = SCALES[name]
    x = np.random.default_rng(d).standard_normal((1500, d)) * scale + offset
    gap = x[:50, None] - x[None]
    squares = np.zeros(gap.shape[:2])
    for f in range(d):
        squares += gap[..., f] * gap[..., f]
    limits = [float(np.quantile(squares, q, method="nearest")) for q in (0.01, 0.5, 1.0)]
    limits += [float(np.nextafter(limits[0], 0)), float("inf")]

    def make() -> Any:
        counts = [call_op("_pairs_count", x, x, limit).numpy() for limit in limits]
        far, who = call_op("_pairs_top", x, np.arange(1500), x, 7)
        return [*counts, far.numpy(), who.numpy()]

    for there, here in zip(*both(make), strict=True):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize(
    ("name", "k"),
    [
        ("noisy 2", 5),
        ("noisy 16", 40),
        ("noisy 9", 200),
        ("grid 3", 5),
        ("grid 20", 1),
        ("copies", 5),
    ],
)
def test_the_nearest_are_those_of_the_cpu(name: str, k: int) -> None:
    kind, _, d = name.partition(" ")
    x = {"noisy": noisy, "grid": grid}[kind](6000, int(d)) if d else np.repeat(noisy(8, 9), 700, 0)

    def make() -> Any:
        model = NearestNeighbors(n_neighbors=k).fit(x)
        return [*model.kneighbors(), *model.kneighbors(x[:300] + 0.25)]

    for there, here in zip(*both(make), strict=True):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("name", "eps"), [("noisy 3", 0.5), ("noisy 16", 3.2), ("noisy 64", 9.6), ("grid 4", 1.0)]
)
def test_dbscan_labels_are_those_of_the_cpu(name: str, eps: float, dtype: str) -> None:
    kind, _, d = name.partition(" ")
    x = {"noisy": noisy, "grid": grid}[kind](9000, int(d)).astype(dtype)
    weight = np.arange(9000) % 4 / 2
    for named in ({}, {"sample_weight": weight}):
        there, here = both(lambda named=named: DBSCAN(eps=eps).fit(x, **named))
        np.testing.assert_array_equal(there.labels_, here.labels_)
        np.testing.assert_array_equal(there.core_sample_indices_, here.core_sample_indices_)


@pytest.mark.parametrize("named", [{}, {"min_samples": 20}, {"alpha": 0.7}, {"min_samples": 1}])
@pytest.mark.parametrize("d", [2, 15, 40])
def test_hdbscan_labels_are_those_of_the_cpu(d: int, named: dict[str, Any]) -> None:
    x = noisy(6000, d)
    there, here = both(lambda: HDBSCAN(copy=False, **named).fit(x))
    np.testing.assert_array_equal(there.labels_, here.labels_)
    np.testing.assert_array_equal(there.probabilities_, here.probabilities_)


def test_the_tree_of_tied_points_has_the_weights_of_the_cpu() -> None:
    x = grid(5000, 3) + np.random.default_rng(1).integers(0, 9, (5000, 3)) * 4.0
    there, here = both(lambda: HDBSCAN(copy=False).fit(x)._single_linkage_tree_["value"])
    np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("source", ["cupy", "torch"])
def test_arrays_on_the_gpu_are_clustered_there(source: str) -> None:
    x = noisy(5000, 8)
    if source == "cupy":
        cupy = pytest.importorskip("cupy")
        given = cupy.asarray(x)
    else:
        import torch

        given = torch.from_numpy(x).cuda()
    with it.init("cpu"):
        expected = [
            DBSCAN(eps=1.6).fit(x).labels_,
            HDBSCAN(copy=False).fit(x).labels_,
            NearestNeighbors(n_neighbors=4).fit(x).kneighbors(x[:100])[1],
            KMeans(6, random_state=0).fit(x).labels_,
        ]
    with it.init("cuda:0"):
        found = [
            DBSCAN(eps=1.6).fit(given).labels_,
            HDBSCAN(copy=False).fit(given).labels_,
            NearestNeighbors(n_neighbors=4).fit(given).kneighbors(given[:100])[1],
            KMeans(6, random_state=0).fit(given).labels_,
        ]
    for there, here in zip(expected, found, strict=True):
        np.testing.assert_array_equal(there, here)
