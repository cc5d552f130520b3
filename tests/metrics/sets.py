"""Data sets on which scores and distances are compared with scikit-learn, and how they are cut."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs, make_moons

ALL = os.environ.get("INFINITENSOR_TEST_ALL") == "1"


RNG = np.random.default_rng(7)


def blobs(n: int, d: int, k: int, dtype: str = "f8", shift: float = 0.0) -> tuple[Any, Any]:
    x, labels = make_blobs(n, d, centers=k, cluster_std=3.0, random_state=n + d)
    return (x + shift).astype(dtype), labels


SETS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "digits": tuple(one[:400] for one in load_digits(return_X_y=True)),
    "moons": make_moons(300, noise=0.1, random_state=0),
    "blobs d=2": blobs(500, 2, 5),
    "blobs d=15": blobs(400, 15, 4),
    "blobs d=16": blobs(400, 16, 4),
    "blobs d=64": blobs(300, 64, 7),
    "float32 d=3": blobs(400, 3, 3, "f4"),
    "float32 d=40": blobs(300, 40, 6, "f4"),
    "offset": blobs(300, 6, 3, shift=100.0),
    "grid": (RNG.integers(0, 4, (300, 3)).astype(float), RNG.integers(0, 5, 300)),
    "duplicates": (np.repeat(RNG.normal(size=(40, 4)), 6, axis=0), RNG.integers(0, 3, 240)),
    "one column": (RNG.normal(size=(200, 1)), RNG.integers(0, 2, 200)),
    "constant column": (np.c_[RNG.normal(size=(200, 2)), np.ones(200)], RNG.integers(0, 3, 200)),
    "single points": (RNG.normal(size=(60, 3)), np.r_[np.zeros(55, int), 1, 2, 3, 4, 5]),
    "gaps in labels": (RNG.normal(size=(90, 3)), RNG.choice([-1, 3, 50], 90)),
    "text labels": (RNG.normal(size=(90, 3)), RNG.choice(["a", "b", "c"], 90)),
    "two labels": blobs(250, 8, 2),
    "many labels": (RNG.normal(size=(300, 5)), RNG.integers(0, 100, 300)),
    "integers": (RNG.integers(-50, 50, (200, 4)), RNG.integers(0, 4, 200)),
}


CUTS = [("cpu", 0), ("cpu*2", 60), ("cpu*3", 256)] if not ALL else [
    (devices, tile) for devices in ("cpu", "cpu*2", "cpu*3") for tile in (0, 50, 256, 5000)
]  # fmt: skip


def near(x: np.ndarray) -> float:
    return 1e-4 if x.dtype == np.float32 else 1e-7
