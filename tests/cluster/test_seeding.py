"""Seeds of k-means are scikit-learn's, in few rows and in blocks of many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn.cluster
from tests.cluster.sets import blobs

import infinitensor as it
from infinitensor.api.session.session import current_session
from infinitensor.cluster import KMeans, kmeans_plusplus
from infinitensor.cluster.dense_rows import DenseRows
from infinitensor.cluster.seeding import _product, draw_rows

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_seeds_of_few_rows_are_found_without_waking_workers(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(2).random((2000, 16)).astype(dtype)
    it.shutdown()
    it.config.workers = 2
    engine = current_session().engine
    n_shared, share = [0], engine.share

    def counted(job: Any, n: int) -> None:
        n_shared[0] += 1
        share(job, n)

    monkeypatch.setattr(engine, "share", counted)
    kmeans_plusplus(x, 100, random_state=0)
    assert n_shared[0] == 0  # or 100, each of which would take longer than a step
    KMeans(100, random_state=0, max_iter=9, n_init=1).fit(x)
    assert n_shared[0] >= 9  # an iteration is long enough


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_long_product_has_the_bits_that_blas_gives_it(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for n in (9_000, 10_001, 33_334):
        values, weights = rng.random((1, n)).astype(dtype), rng.random((n, 1)).astype(dtype)
        np.testing.assert_array_equal(_product(values, weights), values @ weights)


def test_seeds_are_scikit_learns() -> None:
    x = blobs(2000, 6, 9, 4)
    for dtype in ("float64", "float32"):
        for seed in range(8):
            given = x.astype(dtype)
            ours = kmeans_plusplus(given, 12, random_state=seed)
            theirs = sklearn.cluster.kmeans_plusplus(given, 12, random_state=seed)
            np.testing.assert_array_equal(ours[1], theirs[1])
            np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("much", [4, 1 << 40], ids=["kept", "made again"])
@pytest.mark.parametrize("block", [64, 999, 1 << 16])
def test_seeds_of_many_points_are_found_in_blocks(
    block: int, much: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = blobs(2000, 6, 9, 4)
    plain = kmeans_plusplus(x, 12, random_state=0)[1]
    monkeypatch.setattr("infinitensor.cluster.seeding.ON_HOST", 256)
    monkeypatch.setattr("infinitensor.cluster.seeding.BLOCK_ROWS", block)
    monkeypatch.setattr("infinitensor.cluster.seeding.KEPT_MEMORY_PART", much)
    np.testing.assert_array_equal(kmeans_plusplus(x, 12, random_state=0)[1], plain)


@pytest.mark.parametrize("n", [1, 7, 1000, 30_011])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_that_weigh_the_same_are_drawn_as_choice_draws_them(n: int, dtype: str) -> None:
    p = (np.ones(n, dtype) / np.ones(n, dtype).sum()).astype(dtype)
    for size in (None, 1, 2, 5):
        for seed in range(40):
            if size is not None and size > n:
                continue
            ours, theirs = np.random.RandomState(seed), np.random.RandomState(seed)
            rows: Any = SimpleNamespace(n=n, dtype=np.dtype(dtype), weights=None)
            found = draw_rows(rows, ours, size)
            wanted = theirs.choice(n, size=size, replace=size is None, p=p)
            np.testing.assert_array_equal(found, wanted)
            assert ours.random_sample() == theirs.random_sample(), "the same draws were taken"


def test_a_draw_next_to_a_border_is_left_to_choice() -> None:
    class OnBorders(np.random.RandomState):
        def random_sample(self, size: Any = None) -> Any:
            super().random_sample(size)
            return 0.5

    rows: Any = SimpleNamespace(n=1000, dtype=np.dtype("f8"), weights=None)
    state = OnBorders(3)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(OnBorders, "choice", lambda self, *given, **named: "asked")
        assert draw_rows(rows, state) == "asked"
    assert state.tomaxint() == np.random.RandomState(3).tomaxint(), "no draw was taken"


@pytest.mark.parametrize("weighed", [False, True])
def test_seeds_of_one_task_are_those_of_many_passes(
    weighed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = blobs(2000, 6, 9, 4)
    weights = np.random.default_rng(0).uniform(0.5, 2, 2000) if weighed else None
    given: dict[str, Any] = {"sample_weight": weights, "random_state": 1}
    passes = kmeans_plusplus(x, 12, **given)
    monkeypatch.setattr(DenseRows, "is_one_task", True)
    monkeypatch.setattr(it.config, "small_elements", 0)
    one_task = kmeans_plusplus(x, 12, **given)
    np.testing.assert_array_equal(one_task[1], passes[1])
    np.testing.assert_array_equal(one_task[0], passes[0])
    assert it.stats()["sklearn_fallbacks"] == 0


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "dtype"), [(20_000, "f8"), (700_000, "f4"), (1025, "f8")])
@pytest.mark.parametrize("weighed", [False, True])
def test_seeds_of_one_task_on_a_gpu_are_those_of_float64(n: int, dtype: str, weighed: bool) -> None:
    rng = np.random.default_rng(n)
    x = (rng.normal(size=(n, 9)) + 6 * rng.integers(0, 4, (n, 1))).astype(dtype)
    weights = rng.uniform(0.5, 2, n).astype(dtype) if weighed else None
    found = []
    given: dict[str, Any] = {"sample_weight": weights, "random_state": 2}
    with it.init("cpu"):  # scikit-learn adds up many rows of float32 in float32
        _, wanted = kmeans_plusplus(x.astype("f8"), 17, **given)
    for _ in range(2):
        with it.init("cuda:0"), pytest.MonkeyPatch.context() as patched:
            patched.setattr(it.config, "small_elements", 0)
            found.append(kmeans_plusplus(x, 17, **given))
    for centers, chosen in found:
        np.testing.assert_array_equal(chosen, wanted)
        np.testing.assert_array_equal(centers, x[wanted])
