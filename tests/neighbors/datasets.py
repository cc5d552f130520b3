"""Data sets on which searches among points differ: continuous, tied, far away, wide, tiny."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs, make_circles, make_moons

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = os.environ.get("INFINITENSOR_TEST_ALL") == "1"
N = 700 if ALL else 260


def blobs(d: int, dtype: Any = float, offset: float = 0.0) -> Callable[[], Any]:
    """Blobs with noise between them."""

    def made() -> Any:
        x, _ = make_blobs(N, d, centers=5, random_state=d)
        x[::17] = np.random.default_rng(d).uniform(-12, 12, (len(x[::17]), d))
        return (x + offset).astype(dtype)

    return made


def grid() -> Any:
    a, b = np.meshgrid(np.arange(17.0), np.arange(15.0))
    return np.stack((a.ravel(), b.ravel()), 1)


def cube() -> Any:
    return np.stack([v.ravel() for v in np.meshgrid(*(np.arange(6.0),) * 3)], 1)


def duplicates() -> Any:
    x, _ = make_blobs(N // 4, 3, centers=3, random_state=1)
    return np.repeat(x, 4, axis=0)


def constant_feature() -> Any:
    x = blobs(4)()
    x[:, 2] = 7
    return x


CONTINUOUS: dict[str, Callable[[], Any]] = {
    "moons": lambda: make_moons(N, noise=0.08, random_state=0)[0],
    "circles": lambda: make_circles(N, noise=0.04, factor=0.5, random_state=0)[0],
    "line": blobs(1),
    "d3": blobs(3),
    "d8": blobs(8),
    "d15": blobs(15),
    "d16": blobs(16),
    "d64": blobs(64),
    "d3 float32": blobs(3, np.float32),
    "d16 float32": blobs(16, np.float32),
    "d2 far away": blobs(2, offset=1e5),
    "d8 far away": blobs(8, offset=1e5),
    "d16 far away": blobs(16, offset=1e5),
    "d3 Fortran order": lambda: np.asfortranarray(blobs(3)()),
    "uniform": lambda: np.random.default_rng(0).uniform(size=(N, 5)),
    "one feature is constant": constant_feature,
    "wine": lambda: load_wine().data,
}
TIED: dict[str, Callable[[], Any]] = {
    "grid": grid,
    "cube": cube,
    "duplicates": duplicates,
    "iris": lambda: load_iris().data,
    "digits": lambda: load_digits().data[:N],
    "integers": lambda: np.random.default_rng(0).integers(0, 4, (N, 9)),
    "all equal": lambda: np.ones((40, 3)),
    "binary": lambda: np.random.default_rng(0).integers(0, 2, (N, 20)).astype(float),
}
SETS = CONTINUOUS | TIED
FEW = ("moons", "d15", "d16 float32", "d8 far away", "duplicates", "cube", "binary")
"""Those that a sample has, of matrices that are run whole with INFINITENSOR_TEST_ALL=1."""


def sample(names: Any) -> list[str]:
    """All names, or a few in continuous integration."""
    return [name for name in names if ALL or name in FEW]


def thinned(name: str) -> Any:
    """A set as a sparse matrix: some values are left out, of a few rows all of them."""
    x = np.asarray(SETS[name]())
    x = x if x.dtype.kind == "f" else x.astype(float)
    kept = np.random.default_rng(1).uniform(size=x.shape) < 0.5
    kept[::29] = False
    return scipy.sparse.csr_array(np.where(kept, x, 0))


def with_missing(name: str) -> Any:
    """A set with rows that have NaN, infinity, or both."""
    x = np.array(SETS[name](), np.result_type(SETS[name]().dtype, np.float32))
    x[5::37, 0] = np.nan
    x[9::41, -1] = np.inf
    x[30, 0], x[30, -1] = np.inf, np.nan
    return x


EVERY_CUT = [("cpu", 0, 65_536), ("cpu", 900, 0), ("cpu*2", 5000, 0), ("cpu*3", 2000, 0)]
"""Devices, `tile_elements`, `small_elements`."""
CUTS = EVERY_CUT if ALL else EVERY_CUT[:1] + EVERY_CUT[-1:]


def radius_of(x: Any, share: float) -> float:
    """A radius that is exactly the distance of two points, with that share of pairs within."""
    x = np.asarray(x, float)
    apart = np.sqrt(((x[:100, None] - x[None]) ** 2).sum(-1))
    return float(np.quantile(apart[apart > 0], share, method="nearest")) if apart.any() else 0.5


def assert_same_rows(ours: Any, exact: Any) -> None:
    for mine, true in zip(ours, exact, strict=True):
        np.testing.assert_array_equal(mine, true)
