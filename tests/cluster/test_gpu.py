"""The k-means family on a GPU: the labels and the bits of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cluster.sets import CONTINUOUS, blobs

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.cluster import BisectingKMeans, KMeans, MiniBatchKMeans
from infinitensor.ops.points import centres_triton

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("error")]


def on(devices: str, make: Any) -> Any:
    with it.init(devices):
        return make()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["two axes", "d = 64", "d = 200", "far from the origin", "even"])
def test_fits_are_those_of_the_cpu(name: str, dtype: str) -> None:
    x = CONTINUOUS[name]().astype(dtype)
    for make in (
        lambda: KMeans(8, random_state=0).fit(x),
        lambda: BisectingKMeans(5, random_state=0).fit(x),
        lambda: MiniBatchKMeans(5, random_state=0, batch_size=100).fit(x),
    ):
        ours, theirs = on("cuda:0", make), on("cpu", make)
        np.testing.assert_array_equal(ours.labels_, theirs.labels_)
        np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-5)


@pytest.mark.parametrize("coarse_first", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("d", "k"), [(3, 2), (64, 100), (130, 257)])
def test_labels_and_sums_are_float64s_decision(
    d: int, k: int, dtype: str, coarse_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(centres_triton, "COARSE_WORK", 0 if coarse_first else 1 << 62)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, d)).astype(dtype)
    centers = x[:k].copy()
    centers[k // 2] = centers[0]  # the first of equal ones wins
    shift = x.mean(0, dtype=dtype)
    labels = {}
    sums = {}
    for devices in ("cpu", "cuda:0"):
        with it.init(devices):
            given = it.asarray(x)
            found = call_op("_nearest", given, shift, centers)
            labels[devices] = found.numpy()
            old = it.asarray(rng.integers(-1, 1, 20_000).astype(np.int32)) * 0 - 1
            scale = np.full(d + 1, 2.0**40)
            asked = (given, shift, scale, found, old)
            sums[devices] = call_op("_label_sums", *asked, k=k).numpy()
    np.testing.assert_array_equal(labels["cpu"], labels["cuda:0"])
    np.testing.assert_array_equal(sums["cpu"], sums["cuda:0"])


def test_points_on_the_gpu_stay_there() -> None:
    import torch

    x = blobs(5000, 16, 8, 0).astype(np.float32)
    with it.init("cuda:0"):
        made = KMeans(8, random_state=0).fit(torch.from_numpy(x).cuda())
        assert type(made.cluster_centers_) is np.ndarray
    np.testing.assert_array_equal(made.labels_, KMeans(8, random_state=0).fit(x).labels_)


def test_a_column_of_a_large_tensor_comes_in_parts() -> None:
    x = np.random.default_rng(0).normal(size=(6_000_000, 3)).astype(np.float32)
    with it.init("cuda:0"):
        given = it.asarray(x)
        it.compute(given)
        np.testing.assert_array_equal(given[:, 1].numpy(), x[:, 1])
        np.testing.assert_array_equal(given[5].numpy(), x[5])


@pytest.mark.parametrize("memory", ["24MiB", "8MiB"])
def test_points_larger_than_the_gpus_memory_have_the_same_labels(memory: str) -> None:
    x = blobs(200_000, 32, 20, 0).astype(np.float32)
    whole = on("cuda:0", lambda: KMeans(20, random_state=0, max_iter=12, tol=0).fit(x))
    with it.init("cuda:0", memory=memory):
        parted = KMeans(20, random_state=0, max_iter=12, tol=0).fit(x)
        assert it.stats()["bytes_loaded"] > 10 * x.nbytes
    np.testing.assert_array_equal(parted.labels_, whole.labels_)
    np.testing.assert_allclose(parted.cluster_centers_, whole.cluster_centers_, rtol=1e-5)
    assert parted.n_iter_ == whole.n_iter_


@pytest.mark.parametrize("memory", ["16MiB", "28MiB"])
def test_labels_and_bounds_that_leave_the_gpu_come_back(memory: str) -> None:
    """Few coordinates: labels and bounds are as large as points, and kernels run far ahead."""
    x = np.random.default_rng(0).normal(size=(700_000, 4)).astype(np.float32)
    whole = on("cuda:0", lambda: KMeans(64, init=x[:64], max_iter=15, tol=0).fit(x))
    with it.init("cuda:0", memory=memory):
        parted = KMeans(64, init=x[:64], max_iter=15, tol=0).fit(x)
        assert it.stats()["bytes_evicted"] > x.nbytes
    np.testing.assert_array_equal(parted.labels_, whole.labels_)
