"""Rows that two centres part by one product: float64's decision, for the vectors of any machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.test_nearest_loops import EVERY, MACHINES, SCALES, loops, run, squared

from infinitensor.native import compiler
from infinitensor.ops.backend.c_loops import calling

pytestmark = pytest.mark.skipif(compiler() is None, reason="loops in C need a compiler")
N = 300


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("machine", EVERY)
@pytest.mark.parametrize("picked", [False, True])
def test_rows_follow_two_centres_exactly(machine: str, dtype: Any, picked: bool) -> None:
    rng = np.random.default_rng(0)
    made = loops(MACHINES[machine], dtype, "halves.c")
    n_compared = []
    for d in (1, 2, 5, 16, 33):
        for scale, offset in SCALES:
            tied = rng.random() < 0.3
            x = rng.integers(0, 4, (2 * N, d)) if tied else rng.normal(size=(2 * N, d))
            x = (x * scale + offset).astype(dtype)
            where = np.sort(rng.permutation(2 * N)[:N]) if picked else None
            shift = x.mean(0, dtype=dtype)
            points = (x[:N] if where is None else x[where]) - shift
            middle = points.mean(0, dtype=dtype)
            centers = points[rng.integers(0, N, 2)].copy()
            weights = rng.random(N).astype(dtype) if tied else None
            unit = np.full(d + 1, 2.0**50 / max(float(np.abs(points).max()), 1))
            labels, sums = np.empty(N, np.int32), np.zeros((3, d + 2), np.int64)
            room, away = np.empty((2, N), np.float32)
            drift = np.zeros(2)
            for step in range(6):
                kept = (labels, room, away, sums)
                about = (centers, middle, drift, unit, weights)
                then = labels.copy()
                sums[2] = 0
                given = (x, d, shift, where, N, *about, int(step == 0), 1, *kept)
                n_compared.append(calling(made.halve)(*given))
                far = squared(points, centers)
                own = far[np.arange(N), labels]
                assert (own <= far.min(1) * (1 + 1e-14 * d)).all()
                n_changed = int(np.count_nonzero(labels != then)) if step else N
                assert sums[2, 0] == n_changed
                w = np.ones(N) if weights is None else weights.astype(float)
                whole = np.rint(points.astype(float) * w[:, None] * unit[0])
                for label in (0, 1):
                    assert sums[label, d + 1] == np.count_nonzero(labels == label)
                    added = whole[labels == label].sum(0)
                    np.testing.assert_allclose(sums[label, :d], added, atol=N, rtol=1e-9)
                old = centers.astype(float)
                centers = (centers + rng.normal(size=(2, d)) * scale * 0.01).astype(dtype)
                new = centers.astype(float)
                beside = [
                    ((one[0] + one[1]) / 2 - middle) @ (one[1] - one[0]) for one in (old, new)
                ]
                drift[0] += np.linalg.norm((new[1] - new[0]) - (old[1] - old[0]))
                drift[1] += abs(beside[1] - beside[0]) * (1 + 1e-12)
    n_passes = len(n_compared)
    assert sum(n_compared) < 0.8 * n_passes * N, "rows that stay at their centre are left out"


def test_a_row_between_two_centres_has_the_first() -> None:
    made = loops(None, np.float32, "halves.c")
    x = np.array([[0.0, 1], [0, 2], [0, 3]], np.float32)
    centers = np.array([[-1.0, 0], [1, 0]], np.float32)
    labels, sums = np.full(3, 7, np.int32), np.zeros((3, 4), np.int64)
    room, away = np.empty((2, 3), np.float32)
    none = np.zeros(2, np.float32)
    about = (centers, none, np.zeros(2), np.ones(3), None)
    run(made.halve, x, 2, none, None, 3, *about, 1, 1, labels, room, away, sums)
    np.testing.assert_array_equal(labels, 0)
    np.testing.assert_array_equal(sums, [[0, 6, 3, 3], [0, 0, 0, 0], [3, 0, 0, 0]])
