"""Lloyd's iteration: what it prints, where empty clusters go."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest
import sklearn.cluster
from tests.cluster.sets import agrees, blobs

import infinitensor as it
from infinitensor.cluster import KMeans
from infinitensor.cluster.dense_rows import DenseRows

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("algorithm", ["lloyd", "elkan"])
@pytest.mark.parametrize("tol", [0, 1e-2])
def test_what_is_printed_is_what_scikit_learn_prints(algorithm: str, tol: float) -> None:
    x = blobs(500, 4, 5, 2)
    texts = []
    for one in (KMeans, sklearn.cluster.KMeans):
        with redirect_stdout(io.StringIO()) as text:
            one(5, random_state=3, algorithm=algorithm, tol=tol, verbose=1).fit(x)
        texts.append([word[:9] for word in text.getvalue().split()])
    assert texts[0] == texts[1]


def test_empty_clusters_go_to_the_farthest_points() -> None:
    x = blobs(400, 3, 4, 8)
    init = np.concatenate([x[:3], np.full((3, 3), 1e3)])
    ours, theirs = (one(6, init=init).fit(x) for one in (KMeans, sklearn.cluster.KMeans))
    agrees(ours, theirs, "float64")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("how", [{}, {"tol": 0}, {"max_iter": 2}, {"tol": 1e-2}])
def test_a_run_in_one_task_is_that_of_many_passes(
    how: dict[str, Any], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = blobs(900, 4, 6, 3, 3.0).astype(dtype)
    weights = np.random.default_rng(0).uniform(0.5, 2, 900)
    for given in (None, weights):
        with pytest.MonkeyPatch.context() as patched:
            passes = KMeans(6, init=x[:6], **how).fit(x, sample_weight=given)
            patched.setattr(DenseRows, "is_one_task", True)
            patched.setattr(it.config, "small_elements", 0)
            one_task = KMeans(6, init=x[:6], **how).fit(x, sample_weight=given)
        agrees(one_task, passes, dtype)
        np.testing.assert_array_equal(one_task.cluster_centers_, passes.cluster_centers_)


def test_empty_clusters_are_filled_after_a_task_that_found_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = blobs(400, 3, 4, 8)
    init = np.concatenate([x[:3], np.full((3, 3), 1e3)])
    monkeypatch.setattr(DenseRows, "is_one_task", True)
    monkeypatch.setattr(it.config, "small_elements", 0)
    agrees(KMeans(6, init=init).fit(x), sklearn.cluster.KMeans(6, init=init).fit(x), "float64")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("n", "d", "k"), [(20_000, 64, 100), (30_000, 3, 2), (20_001, 20, 17)])
def test_runs_on_a_gpu_are_those_of_the_cpu(n: int, d: int, k: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    x = (rng.normal(size=(n, d)) + 3 * rng.normal(size=(k, d))[rng.integers(0, k, n)]).astype(dtype)
    weights = rng.uniform(0.5, 2, n)
    for how in ({}, {"tol": 0, "max_iter": 9}, {"sample_weight": weights}):
        found = []
        for devices in ("cpu", "cuda:0"):
            given = dict(how)
            weighing = given.pop("sample_weight", None)
            with it.init(devices), pytest.MonkeyPatch.context() as patched:
                patched.setattr(it.config, "small_elements", 0)
                made = KMeans(k, init=x[:k], **given)
                found.append(made.fit(x, sample_weight=weighing))
        cpu, gpu = found
        np.testing.assert_array_equal(gpu.labels_, cpu.labels_)
        # the mean that is taken off first may be another in its last bit
        rtol = {"float64": 1e-12, "float32": 1e-5}[dtype]
        most = np.abs(cpu.cluster_centers_).max()
        np.testing.assert_allclose(
            gpu.cluster_centers_, cpu.cluster_centers_, rtol=rtol, atol=rtol * most
        )
        assert gpu.n_iter_ == cpu.n_iter_
