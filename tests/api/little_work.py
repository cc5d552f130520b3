"""Arrays of a size that is planned only when a call is repeated, and how often it was."""

from __future__ import annotations

import numpy as np

import infinitensor as it

N = 100_000
"""More than is small, and not much."""


def values(n: int = N) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(n)


def misses() -> int:
    return int(it.stats()["plan_misses"])
