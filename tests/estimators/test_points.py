"""Inputs: whatever is given becomes the same points, or scikit-learn's own error."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_array_equal
from sklearn.cluster import KMeans
from sklearn.utils.validation import validate_data

import infinitensor as it
from infinitensor.estimators.points import on_host, points

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = np.random.default_rng(0).normal(size=(40, 3))
MAKERS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda x: x,
    "fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
    "list": lambda x: x.tolist(),
    "torch": torch.from_numpy,
    "pandas": lambda x: pytest.importorskip("pandas").DataFrame(x, columns=list("abc")),
    "polars": lambda x: pytest.importorskip("polars").DataFrame(x, schema=list("abc")),
    "tensor": it.asarray,
    "lazy": lambda x: it.asarray(x / 2) * 2,
}
STREAMED = ("tensor", "lazy", "path")


def given(kind: str, values: np.ndarray, folder: Path) -> Any:
    if kind != "path":
        return MAKERS[kind](values)
    np.save(folder / "x.npy", values)
    return str(folder / "x.npy")


@pytest.mark.parametrize("kind", [*MAKERS, "path"])
def test_everything_becomes_the_same_points(kind: str, tmp_path: Path) -> None:
    model = KMeans()
    found = points(given(kind, VALUES, tmp_path), model)
    assert (found.n, found.d, str(found.dtype)) == (40, 3, "float64")
    assert_array_equal(found.tensor.numpy(), VALUES)
    assert model.n_features_in_ == 3
    assert hasattr(model, "feature_names_in_") == (kind in ("pandas", "polars"))
    assert (found.host is None) == (kind in STREAMED)


@pytest.mark.parametrize("kind", ["numpy", "torch", "fortran"])
def test_host_arrays_are_not_copied(kind: str) -> None:
    found = points(MAKERS[kind](VALUES))
    assert found.host is not None
    if kind != "fortran":
        assert np.shares_memory(found.host, VALUES)
    assert np.shares_memory(found.tensor._version.host, found.host)


@pytest.mark.parametrize(
    ("dtype", "wanted"), [("f4", "f4"), ("i4", "f8"), ("f2", "f8"), ("?", "f8")]
)
@pytest.mark.parametrize("kind", ["numpy", "tensor", "path"])
def test_dtypes_are_scikit_learns(kind: str, dtype: str, wanted: str, tmp_path: Path) -> None:
    values = (VALUES > 0).astype(dtype)
    found = points(given(kind, values, tmp_path))
    assert found.dtype == found.tensor.dtype == wanted
    assert_array_equal(found.tensor.numpy(), values.astype(wanted))


def test_bfloat16_of_torch_is_read() -> None:
    assert points(torch.ones(3, 2, dtype=torch.bfloat16)).dtype == np.float32


FAULTS: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "one axis": (VALUES[0], {}),
    "three axes": (VALUES[None], {}),
    "no rows": (VALUES[:0], {}),
    "no columns": (VALUES[:, :0], {}),
    "few rows": (VALUES[:2], {"ensure_min_samples": 3}),
    "nan": (np.where(VALUES > 2, np.nan, VALUES), {}),
    "inf": (np.where(VALUES > 2, np.inf, VALUES), {}),
    "inf, nan allowed": (np.where(VALUES > 2, -np.inf, VALUES), {"ensure_all_finite": "allow-nan"}),
    "both": (np.where(VALUES > 1, np.inf, np.where(VALUES < -1, np.nan, VALUES)), {}),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("with_estimator", [True, False])
def test_errors_are_scikit_learns_wherever_the_values_are(
    fault: str, with_estimator: bool, tmp_path: Path
) -> None:
    values, checks = FAULTS[fault]
    name = type(KMeans()) if with_estimator else None
    texts = set()
    for kind in ("numpy", *STREAMED):
        with pytest.raises(ValueError, match=r"array|Input") as caught:
            points(given(kind, values, tmp_path), name() if name else None, **checks)
        texts.add(str(caught.value).split("array=")[0])  # which values it shows is its own
    assert len(texts) == 1
    if with_estimator:
        with pytest.raises(ValueError, match=r"array|Input") as caught:
            validate_data(KMeans(), values, dtype=[np.float64, np.float32], **checks)
        assert str(caught.value).split("array=")[0] in texts


def test_nan_passes_where_it_is_allowed() -> None:
    values = np.where(VALUES > 1, np.nan, VALUES)
    assert points(it.asarray(values), ensure_all_finite="allow-nan").n == 40
    assert points(it.asarray(values), ensure_all_finite=False).n == 40


@pytest.mark.parametrize("kind", ["numpy", "tensor", "path"])
def test_an_estimator_is_held_to_what_it_was_fitted_with(kind: str, tmp_path: Path) -> None:
    model = KMeans()
    points(VALUES, model)
    with pytest.raises(ValueError, match="X has 2 features, but KMeans is expecting 3 features"):
        points(given(kind, VALUES[:, :2].copy(), tmp_path), model, reset=False)
    points(MAKERS["pandas"](VALUES), model)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        points(given(kind, VALUES, tmp_path), model, reset=False)


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csc_array, it.csr])
def test_sparse_matrices_become_csr(make: Callable[[Any], Any]) -> None:
    values = np.where(VALUES > 0.5, VALUES, 0)
    given = make(scipy.sparse.csr_array(values) if make is it.csr else values)
    found = points(given, accept_sparse="csr")
    assert found.sparse.format == "csr"
    assert_array_equal(found.sparse.toarray(), values)
    assert found.dense is None
    with pytest.raises(TypeError, match="Sparse data was passed"):
        points(given)


def test_a_file_is_not_read_to_the_host(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((5000, 8)))
    it.stats(reset=True)
    found = points(tmp_path / "x.npy")
    assert it.stats()["bytes_read"] == 5000 * 8 * 8  # once, for the check of its values
    assert it.stats()["host_arrays"] == 0
    assert found.host is None


def test_values_for_scikit_learns_code_are_on_the_host(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    assert_array_equal(on_host(tmp_path / "x.npy", may_be_path=True), VALUES)
    assert_array_equal(on_host(it.asarray(VALUES)), VALUES)
    assert on_host("euclidean") == "euclidean"
    assert on_host(None) is None


def test_cut_points_are_checked_in_tiles(tmp_path: Path) -> None:
    values = VALUES.copy()
    values[17, 1] = np.nan
    with warnings.catch_warnings(), it.init("cpu*3"):
        with pytest.raises(ValueError, match=r"Input X contains NaN.\nKMeans does not accept"):
            points(it.asarray(values), KMeans())
        assert points(it.asarray(VALUES), KMeans()).n == 40


@pytest.mark.gpu
def test_arrays_on_a_gpu_stay_there() -> None:
    x = torch.from_numpy(VALUES).cuda()
    with it.init("cuda"):
        found = points(x)
        assert found.host is None
        assert it.stats()["host_arrays"] == 0
        assert_array_equal(found.tensor.numpy(), VALUES)
        with pytest.raises(ValueError, match="Input X contains infinity"):
            points(x / 0)
