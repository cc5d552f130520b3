"""DBSCAN's labels are scikit-learn's: on ties, on borders, under every cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sklearn.cluster as theirs
from tests.ir.sessions import strict
from tests.neighbors.datasets import CUTS, SETS, radius_of, sample, thinned

import infinitensor as it
from infinitensor.cluster import DBSCAN, dbscan


def rule(x: Any, eps: float, least: float, weight: Any = None) -> tuple[Any, Any]:
    """Labels and core points by the definition, from all squared distances."""
    x = np.asarray(x, float)
    squares = np.zeros((len(x), len(x)))
    for feature in x.T:
        squares += (feature[:, None] - feature) ** 2
    near = squares <= eps * eps
    core = (near.sum(1) if weight is None else near @ weight) >= least
    graph = scipy.sparse.csr_array(near & core & core[:, None])
    _, component = scipy.sparse.csgraph.connected_components(graph)
    labels = np.full(len(x), -1)
    for i in np.flatnonzero(core):
        if labels[i] < 0:
            labels[core & (component == component[i])] = labels.max() + 1
    for i in np.flatnonzero(~core):
        reached = labels[near[i] & core]
        labels[i] = reached.min() if len(reached) else -1
    return labels, np.flatnonzero(core)


@pytest.mark.parametrize(("devices", "tile", "small"), CUTS)
@pytest.mark.parametrize("name", SETS)
def test_labels_are_those_of_the_rule_and_of_scikit_learn(
    name: str, devices: str, tile: int, small: int
) -> None:
    x = SETS[name]()
    for share in (0.01, 0.1):
        eps = radius_of(x, share)
        labels, core = rule(x, eps, 5)
        exact = theirs.DBSCAN(eps=eps, algorithm="kd_tree").fit(x)
        with strict(devices, tile, small_elements=small):
            ours = DBSCAN(eps=eps).fit(x)
        np.testing.assert_array_equal(ours.labels_, labels)
        np.testing.assert_array_equal(ours.core_sample_indices_, core)
        np.testing.assert_array_equal(ours.labels_, exact.labels_)
        np.testing.assert_array_equal(ours.components_, exact.components_)
        assert ours.labels_.dtype == exact.labels_.dtype


@pytest.mark.parametrize("name", ["d3", "d16", "grid"])
def test_weights_decide_who_is_core(name: str) -> None:
    x = SETS[name]()
    weight = np.random.default_rng(0).integers(-2, 5, len(x)).astype(float)
    eps = radius_of(x, 0.03)
    ours = DBSCAN(eps=eps, min_samples=6).fit(x, sample_weight=weight)
    exact = theirs.DBSCAN(eps=eps, min_samples=6, algorithm="kd_tree").fit(x, sample_weight=weight)
    np.testing.assert_array_equal(ours.labels_, exact.labels_)
    np.testing.assert_array_equal(ours.core_sample_indices_, exact.core_sample_indices_)


@pytest.mark.parametrize("name", ["moons", "duplicates"])
def test_given_distances_dense_and_sparse(name: str) -> None:
    x = SETS[name]()
    apart = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
    eps = radius_of(x, 0.04)
    graph = scipy.sparse.csr_array(np.where(apart <= 2 * eps, apart, 0))
    for given in (apart, graph):
        ours = DBSCAN(eps=eps, metric="precomputed").fit(given)
        exact = theirs.DBSCAN(eps=eps, metric="precomputed").fit(given)
        np.testing.assert_array_equal(ours.labels_, exact.labels_)
        np.testing.assert_array_equal(ours.core_sample_indices_, exact.core_sample_indices_)


@pytest.mark.parametrize("name", sample(SETS))
def test_sparse_points(name: str) -> None:
    x = thinned(name)
    for share in (0.01, 0.1):
        eps = radius_of(x.toarray(), share) * (1 + 1e-6)  # no distance is on it
        ours, exact = DBSCAN(eps=eps).fit(x), theirs.DBSCAN(eps=eps).fit(x)
        np.testing.assert_array_equal(ours.labels_, exact.labels_)
        np.testing.assert_array_equal(ours.core_sample_indices_, exact.core_sample_indices_)
        assert abs(ours.components_ - exact.components_).sum() == 0


def test_a_tensor_and_a_file_are_clustered_where_they_are(tmp_path: Any) -> None:
    x = SETS["d8"]()
    np.save(tmp_path / "x.npy", x)
    exact = DBSCAN(eps=3.0).fit(x)
    for given in (it.asarray(x), tmp_path / "x.npy"):
        ours = DBSCAN(eps=3.0).fit(given)
        np.testing.assert_array_equal(ours.labels_, exact.labels_)
        np.testing.assert_array_equal(ours.components_, exact.components_)


def test_the_function_gives_what_the_class_learns() -> None:
    x = SETS["moons"]()
    core, labels = dbscan(x, eps=0.15)
    model = DBSCAN(eps=0.15).fit(x)
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(core, model.core_sample_indices_)


def test_memory_does_not_grow_with_pairs() -> None:
    x = np.random.default_rng(0).standard_normal((20_000, 2))
    with it.init("cpu", memory="16MiB"):
        labels = DBSCAN(eps=1.0).fit_predict(x)  # most pairs are within the radius
        assert max(it.stats()["peak_bytes"].values()) < 16 << 20
    assert (labels == 0).mean() > 0.99
