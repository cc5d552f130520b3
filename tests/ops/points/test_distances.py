"""Distances of points to points: every metric is SciPy's, in any tiles, and a metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from tests.ops.table_xp import TableXp

from infinitensor.ops.points.distances import BOOLEAN, METRICS, check_sizes, metric_dtype, tile

RNG = np.random.default_rng(24)
X, Y = RNG.normal(size=(9, 5)), RNG.normal(size=(11, 5))
OURS = ("direct", "braycurtis_tree", "nan_euclidean", "haversine", "seuclidean", "mahalanobis")
IN_SCIPY = [metric for metric in METRICS if metric not in (*BOOLEAN, *OURS)]


@pytest.mark.parametrize("metric", IN_SCIPY)
def test_distances_are_scipys_in_numpy_and_in_torch(metric: str) -> None:
    given: dict[str, Any] = {"p": 3.0} if metric == "minkowski" else {}
    want = cdist(X, Y, metric, **given)
    np.testing.assert_allclose(tile(np, X, Y, metric, **given), want, 1e-9, 1e-12)
    found = tile(torch, torch.from_numpy(X), torch.from_numpy(Y), metric, **given)
    np.testing.assert_allclose(found.numpy(), want, 1e-9, 1e-12)


def test_metrics_with_variances_or_covariances_are_scipys() -> None:
    variance, square = RNG.random(5) + 0.5, RNG.normal(size=(5, 5))
    inverse = square @ square.T + np.eye(5)
    np.testing.assert_allclose(
        tile(np, X, Y, "seuclidean", extra=variance, role="V"),
        cdist(X, Y, "seuclidean", V=variance),
        1e-12,
    )
    np.testing.assert_allclose(
        tile(np, X, Y, "mahalanobis", extra=inverse, role="VI"),
        cdist(X, Y, "mahalanobis", VI=inverse),
        1e-12,
    )
    weights = RNG.random(5)
    np.testing.assert_allclose(
        tile(np, X, Y, "minkowski", p=3.0, extra=weights, role="w"),
        cdist(X, Y, "minkowski", p=3.0, w=weights),
        1e-12,
    )


@pytest.mark.parametrize("metric", ["euclidean", "direct", "cityblock", "chebyshev", "hamming"])
def test_they_are_symmetric_and_keep_the_triangle(metric: str) -> None:
    x = RNG.integers(0, 9, (10, 4)).astype("f8")
    far = tile(np, x, x.copy(), metric)
    np.testing.assert_allclose(far, far.T, 1e-12)
    np.testing.assert_allclose(np.diag(far), 0, 0, 1e-6)
    assert (far[:, None, :] <= far[:, :, None] + far[None, :, :] + 1e-9).all()


@pytest.mark.parametrize("step", [2, 5, 1 << 40])
def test_the_nearest_is_the_first_of_the_least_distances(step: int) -> None:
    x, y = (RNG.integers(0, 3, (n, 3)).astype("f8") for n in (12, 15))
    far, which = TableXp(step).call("_nearest_by", x, y, metric="cityblock")
    want = cdist(x, y, "cityblock")
    np.testing.assert_array_equal(far, want.min(1))
    np.testing.assert_array_equal(which, want.argmin(1))


@pytest.mark.parametrize("step", [2, 1 << 40])
def test_sums_by_code_are_those_of_the_rows_of_that_code(step: int) -> None:
    codes = np.sort(RNG.integers(0, 3, 15))
    x, y = RNG.normal(size=(8, 3)), RNG.normal(size=(15, 3))
    own = np.full(8, -1)
    found = TableXp(step).call("_distance_sums", x, y, own, codes, n_codes=3, metric="cityblock")
    want = np.stack([cdist(x, y[codes == c], "cityblock").sum(1) for c in range(3)], 1)
    np.testing.assert_allclose(found, want, 1e-12)
    sums = TableXp(step).call("_group_sums", y, codes, n_codes=3)
    np.testing.assert_allclose(sums, np.stack([y[codes == c].sum(0) for c in range(3)]), 1e-12)


def test_single_precision_stays_where_products_make_the_distances() -> None:
    single, double = np.dtype("f4"), np.dtype("f8")
    assert metric_dtype("euclidean", single, single) == single
    assert metric_dtype("euclidean", single, double) == double
    assert metric_dtype("cityblock", single, single) == double
    assert tile(np, X.astype("f4"), Y.astype("f4"), "cosine").dtype == single


def test_sizes_that_do_not_belong_are_refused() -> None:
    with pytest.raises(ValueError, match="only valid in 2 dimensions"):
        check_sizes("haversine", "", 3, None)
    with pytest.raises(ValueError, match="'VI' parameter is required"):
        check_sizes("mahalanobis", "", 3, None)
    with pytest.raises(ValueError, match=r"V has shape \(2,\)"):
        check_sizes("seuclidean", "V", 3, (2,))
    with pytest.raises(ValueError, match="'taxi' is none of"):
        TableXp().call("_distances", X, Y, metric="taxi")
    with pytest.raises(ValueError, match="have no distances"):
        TableXp().call("_distances", X, Y[:, 1:], metric="euclidean")
