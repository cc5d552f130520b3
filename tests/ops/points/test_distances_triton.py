"""Sums of distances by label as a kernel: those of the oracle, and of equal points exactly 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from tests.ops.table_xp import WHOLE, TableXp
from tests.triton_in_numpy import triton_in_numpy

from infinitensor.ops import TABLE
from infinitensor.ops.points import centres_triton, distances_triton

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("step", [7, WHOLE])
def test_every_case_is_the_oracles(step: int) -> None:
    op = TABLE["_distance_sums"]
    assert op.cases is not None
    assert op.oracle is not None
    n_here = 0
    with triton_in_numpy(centres_triton) as launches:
        for args, kwargs in op.cases(np.random.default_rng(2)):
            n_here += kwargs["metric"] in distances_triton.KINDS and "role" not in kwargs
            found = TableXp(step, "cuda").call("_distance_sums", *args, **kwargs)
            near = 1e-5 if args[0].dtype == np.float32 else 1e-9
            np.testing.assert_allclose(found, op.oracle(*args, **kwargs), near, near)
    assert len(launches) >= n_here > 0


def sums_of(x: Any, y: Any, own: Any, codes: Any, n_codes: int, metric: str) -> Any:
    out = torch.full((len(x), n_codes), -1.0, dtype=torch.float64)
    first, second, mine, kinds = (
        torch.from_numpy(np.ascontiguousarray(one)) for one in (x, y, own, codes)
    )
    with triton_in_numpy(centres_triton):
        distances_triton.sums_by_label(torch, first, second, mine, kinds, metric, out)
    return out.numpy()


@pytest.mark.parametrize("metric", distances_triton.KINDS)
@pytest.mark.parametrize(("n", "m", "d"), [(70, 200, 3), (1, 1, 1), (33, 65, 20)])
def test_sums_are_those_of_a_matrix_of_distances(n: int, m: int, d: int, metric: str) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    codes = rng.choice([0, 2, 3], m)  # no column has code 1
    far = cdist(x, y, "euclidean" if metric == "direct" else metric)
    wanted = np.stack([far[:, codes == code].sum(1) for code in range(4)], 1)
    found = sums_of(x, y, np.full(n, -1), codes, 4, metric)
    np.testing.assert_allclose(found, wanted, 1e-12)


def test_a_row_is_no_distance_from_itself_and_equal_points_far_away_none_from_each_other() -> None:
    x = np.repeat(1e8 + np.arange(4.0)[:, None], 3, 0)
    codes = np.repeat(np.arange(4), 3)
    found = sums_of(x, x, np.arange(12), codes, 4, "euclidean")
    np.testing.assert_array_equal(found, 3 * np.abs(codes[:, None] - np.arange(4)))
    other = sums_of(x, x, np.where(np.arange(12) == 0, 11, 99), codes, 4, "sqeuclidean")
    assert other[0].tolist() == [0, 3, 12, 18], "the column that a row is counts nothing"
    assert other[1].tolist() == [0, 3, 12, 27], "a number that is no column is none"


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cityblock", "chebyshev"])
def test_silhouettes_on_a_gpu_are_scikit_learns(metric: str, dtype: str) -> None:
    import sklearn.metrics as theirs

    import infinitensor as it
    from infinitensor import metrics as ours

    rng = np.random.default_rng(0)
    x = (rng.normal(size=(3000, 17)) + 5 * rng.integers(0, 3, (3000, 1))).astype(dtype)
    labels = rng.integers(-1, 9, 3000)
    near = 1e-4 if dtype == "f4" else 1e-7
    with it.init("cuda:0"):
        first, second = (ours.silhouette_samples(x, labels, metric=metric) for _ in range(2))
        on_gpu = ours.silhouette_samples(
            it.asarray(torch.from_numpy(x).cuda()), labels, metric=metric
        )
        assert it.stats()["sklearn_fallbacks"] == 0
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, on_gpu)
    np.testing.assert_allclose(
        first, theirs.silhouette_samples(x, labels, metric=metric), near, near
    )
