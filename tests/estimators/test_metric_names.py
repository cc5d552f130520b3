"""Blocks of distances are scikit-learn's, for every metric, dense, sparse and by a function."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from sklearn.metrics import DistanceMetric, pairwise_distances

import infinitensor as it
from infinitensor.estimators.metric_names import block, choose_metric
from infinitensor.ops.points.distances import BOOLEAN, METRICS

RNG = np.random.default_rng(0)
SETS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "continuous": (RNG.normal(size=(23, 6)), RNG.normal(size=(17, 6))),
    "wide": (RNG.normal(size=(9, 40)), RNG.normal(size=(21, 40))),
    "grid": (RNG.integers(0, 3, (25, 4)).astype(float), RNG.integers(0, 3, (19, 4)).astype(float)),
    "offset": (RNG.normal(size=(12, 5)) + 1e4, RNG.normal(size=(8, 5)) + 1e4),
    "single": (RNG.normal(size=(11, 7)).astype("f4"), RNG.normal(size=(13, 7)).astype("f4")),
    "one column": (RNG.normal(size=(9, 1)), RNG.normal(size=(4, 1))),
    "positive": (RNG.uniform(0, 1, (10, 2)), RNG.uniform(0, 1, (12, 2))),
}
NAMES = [
    "euclidean", "l2", "l1", "manhattan", "cityblock", "braycurtis", "canberra", "chebyshev",
    "correlation", "cosine", "dice", "hamming", "jaccard", "mahalanobis", "matching",
    "minkowski", "rogerstanimoto", "russellrao", "seuclidean", "sokalsneath", "sqeuclidean",
    "yule", "nan_euclidean", "haversine",
]  # fmt: skip
UNWEIGHTED = {"euclidean", "l1", "l2", "manhattan", "cosine", "mahalanobis", "seuclidean"}
UNWEIGHTED |= {"haversine", "nan_euclidean", "matching"}


def params_of(metric: str, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    every = np.concatenate([x, y]).astype(float)
    if metric == "seuclidean":
        return {"V": every.var(0, ddof=1) + 0.1}
    if metric == "mahalanobis":
        return {"VI": np.linalg.inv(np.atleast_2d(np.cov(every.T)) + np.eye(x.shape[1]))}
    return {"p": 1.5} if metric == "minkowski" else {}


@pytest.mark.parametrize("metric", NAMES)
@pytest.mark.parametrize("name", SETS)
def test_every_metric_is_scikit_learns(name: str, metric: str) -> None:
    x, y = SETS[name]
    if metric == "haversine":
        x, y = x[:, :2], y[:, :2]
        if x.shape[1] < 2:
            return
    if metric in BOOLEAN:
        x, y = x > 0.3, y > 0.3
    params = params_of(metric, x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 0 / 0 of empty sets, in SciPy's words
        want = pairwise_distances(x, y, metric=metric, **params)
    got = block(x, y, metric, params)
    assert got.dtype == want.dtype
    near = 1e-6 if got.dtype == np.float32 or name == "offset" else 1e-12
    # products lose digits where points are far from 0 and near to each other
    far = float(np.abs(np.asarray(x, float)).max()) ** 2 * 1e-15
    slack = far**0.5 if metric in ("euclidean", "l2", "nan_euclidean") else 1e-12
    assert_allclose(got, want, rtol=near, atol=slack)


@pytest.mark.parametrize(
    "metric", ["cityblock", "canberra", "braycurtis", "hamming", "chebyshev", "sqeuclidean"]
)
def test_sums_over_coordinates_are_the_same_bits_as_a_trees(metric: str) -> None:
    x, y = SETS["continuous"]
    if metric == "sqeuclidean":
        want = DistanceMetric.get_metric("euclidean").pairwise(x, y) ** 2
        assert_allclose(block(x, y, metric), want, rtol=1e-15)
        return
    np.testing.assert_array_equal(
        block(x, y, choose_metric(metric, is_tree=True)),
        DistanceMetric.get_metric(metric).pairwise(x, y),
    )


@pytest.mark.parametrize("metric", [m for m in NAMES if m not in UNWEIGHTED])
def test_weights_are_scipys(metric: str) -> None:
    x, y = SETS["continuous"]
    x, y = (x > 0, y > 0) if metric in BOOLEAN else (x, y)
    w = np.random.default_rng(1).uniform(0.5, 2, x.shape[1])
    from scipy.spatial.distance import cdist

    given: dict[str, Any] = {"w": w, **({"p": 3} if metric == "minkowski" else {})}
    assert_allclose(
        block(x, y, metric, given), cdist(x, y, metric, **given), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "cityblock", "l1"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sparse_points(metric: str, dtype: str) -> None:
    x, y = (np.where(one > 0.5, one, 0).astype(dtype) for one in SETS["continuous"])
    want = pairwise_distances(scipy.sparse.csr_array(x), scipy.sparse.csr_array(y), metric=metric)
    got = block(scipy.sparse.csr_array(x), scipy.sparse.csr_array(y), metric)
    assert_allclose(got, want, rtol=1e-5 if dtype == "f4" else 1e-12, atol=1e-6)
    with pytest.raises(TypeError, match="canberra: sparse points have the metrics euclidean"):
        block(scipy.sparse.csr_array(x), scipy.sparse.csr_array(y), "canberra")


def test_a_function_is_called_for_each_pair() -> None:
    x, y = SETS["continuous"]
    got = block(x, y, lambda a, b, scale: scale * abs(a - b).sum(), {"scale": 2.0})
    assert_allclose(got, 2 * block(x, y, "cityblock"))


def test_without_a_compiler_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = SETS["continuous"]
    names = [metric for metric in NAMES if metric != "haversine"]  # no loop in C, 2 numbers only
    want = {metric: block(x, y, metric, params_of(metric, x, y)) for metric in names}
    monkeypatch.setattr(it.config, "compile", "never")
    for metric in names:
        got = block(x, y, metric, params_of(metric, x, y))
        assert_allclose(got, want[metric], rtol=1e-12, atol=1e-12)


def test_what_a_name_stands_for() -> None:
    assert choose_metric("l2").name == "euclidean"
    assert choose_metric("euclidean", is_tree=True).name == "direct"
    assert choose_metric("minkowski", {"p": 1}).name == "cityblock"
    assert choose_metric("p", {"p": np.inf}).name == "chebyshev"
    assert {choose_metric(metric).name for metric in NAMES} <= set(METRICS)
    with pytest.raises(ValueError, match="Unknown Distance Metric: wminkowski"):
        choose_metric("wminkowski")
    with pytest.raises(TypeError, match=r"cityblock: unknown parameters \['q'\]"):
        choose_metric("cityblock", {"q": 1})
    with pytest.raises(ValueError, match="p must be greater than 0"):
        choose_metric("minkowski", {"p": 0})
