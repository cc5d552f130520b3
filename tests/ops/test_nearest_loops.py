"""Labels by products: float64's decision, and bounds that hold, for the vectors of any machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitensor.cluster.dense_rows import _moves
from infinitensor.fixed_c import op_source
from infinitensor.native import compiler, library
from infinitensor.ops.backend.c_loops import calling

pytestmark = pytest.mark.skipif(compiler() is None, reason="loops in C need a compiler")

MACHINES: dict[str, Any] = {"this": None, "sse": (4, 6), "avx": (8, 6), "avx512": (16, 8)}
EVERY = ["this", "avx", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sse", "avx512"))]
"""Vectors that a machine has not are slow to compile for it."""
SCALES = [(1.0, 0.0), (1e-30, 0.0), (1e-20, 0.0), (1e25, 0.0), (1e-3, 1e4), (1.0, 1e6)]
N = 75


def loops(machine: Any, dtype: Any, file: str = "centres.c") -> Any:
    """The loops of a file, compiled for registers of so many float32 and so many centres."""
    head = "#include <stdint.h>\n"
    if machine:
        head += "#define LANES {}\n#define CENTRES_AT_A_TIME {}\n".format(*machine)
    name = "float" if dtype == np.float32 else "double"
    return library(f"{head}typedef {name} T;\n{op_source(file)}")


def run(function: Any, *given: Any) -> None:
    assert calling(function)(*given) >= 0


def squared(points: Any, centers: Any) -> Any:
    return ((points[:, None].astype(float) - centers.astype(float)) ** 2).sum(-1)


def check(far: Any, labels: Any, bounds: Any) -> None:
    """A label is of a nearest centre; its bound is above its distance, the other below the rest."""
    rows = np.arange(len(far))
    own = far[rows, labels]
    assert (own <= far.min(1) * (1 + 1e-14 * far.shape[1])).all()
    rest = far.copy()
    rest[rows, labels] = np.inf
    assert (bounds[:, 0] >= np.sqrt(own) * (1 - 1e-14)).all()
    assert (bounds[:, 1] <= np.sqrt(rest.min(1)) * (1 + 1e-14)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("machine", EVERY)
def test_labels_are_exact_and_bounds_hold_at_any_scale(machine: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    made = loops(MACHINES[machine], dtype)
    for d in (1, 3, 8, 33):
        for k in (1, 2, 3, 6, 7, 9, 31):
            for scale, offset in SCALES:
                tied = rng.random() < 0.3
                x = rng.integers(0, 4, (N, d)) if tied else rng.normal(size=(N, d))
                x = (x * scale + offset).astype(dtype)
                shift = x.mean(0, dtype=dtype)
                points = x - shift
                centers = (points[rng.integers(0, N, k)]).astype(dtype)
                labels, bounds = np.full(N, -1, np.int32), np.zeros((N, 2), np.float32)
                sizes = (x, N, d, shift)
                run(made.nearest, *sizes, centers, k, None, None, None, labels, bounds)
                far = squared(points, centers)
                check(far, labels, bounds)
                moved = (centers + rng.normal(size=centers.shape) * scale * 0.02).astype(dtype)
                then, kept = labels.copy(), bounds.copy()
                old = (then, kept, _moves(centers, moved, N))
                run(made.nearest, *sizes, moved, k, *old, labels, bounds)
                check(squared(points, moved), labels, bounds)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("machine", EVERY)
def test_candidates_lower_the_distances_that_they_are_nearer_by(machine: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    made = loops(MACHINES[machine], dtype, "seeds.c")
    for d in (1, 3, 8, 33):
        for m in (1, 2, 5, 6, 8):
            for scale, offset in SCALES:
                x = (rng.normal(size=(N, d)) * scale + offset).astype(dtype)
                shift = x.mean(0, dtype=dtype)
                points = x - shift
                seeds, tried = points[:3], points[rng.integers(0, N, m)].copy()
                with np.errstate(over="ignore"):  # float32 has no squares of 1e25
                    far, closer = squared(points, seeds), squared(points, tried).T.astype(dtype)
                    closest = far.min(1).astype(dtype)
                owner = far.argmin(1).astype(np.int32)
                reach = squared(tried, seeds) * (0.25 - 1e-6)
                out = np.empty((m, N), dtype)
                run(made.closer, x, N, d, shift, tried, m, closest, owner, reach, 3, out)
                np.testing.assert_allclose(out, np.minimum(closer, closest), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("machine", EVERY)
@pytest.mark.parametrize("weighs", [False, True])
def test_a_step_of_seeding_draws_rows_and_takes_the_best_before(
    machine: str, dtype: Any, weighs: bool
) -> None:
    rng = np.random.default_rng(0)
    made = loops(MACHINES[machine], dtype, "seeds.c")
    for d in (1, 3, 8, 33):
        x = rng.normal(size=(N, d)).astype(dtype)
        shift = x.mean(0, dtype=dtype)
        points, m, k = x - shift, 5, 6
        weights = rng.random(N).astype(dtype) if weighs else None
        seeds = np.zeros((k, -(-d // 8) * 8))
        seeds[0, :d] = points[0]
        closest = squared(points, points[:1])[:, 0].astype(dtype)
        owner, best = np.zeros(N, np.int32), -1
        rows, tried, out = np.empty(m, np.int64), np.empty((m, d), dtype), np.empty((m, N), dtype)
        chosen = [0]
        for c in range(1, k):
            draws = rng.random(m) * float(closest.sum()) * (1.3 if c == 1 else 0.5)
            known = (best, c, seeds, closest, owner)
            run(made.try_seeds, x, N, d, shift, weights, draws, m, *known, rows, tried, out)
            far = squared(points, points[chosen])
            np.testing.assert_array_equal(owner, far.argmin(1))
            np.testing.assert_allclose(closest, far.min(1), rtol=1e-6)
            left = closest if weights is None else weights * closest
            reached = np.minimum(np.searchsorted(np.cumsum(left), draws), N - 1)
            np.testing.assert_array_equal(rows, reached)
            np.testing.assert_array_equal(tried, points[rows])
            would = np.minimum(squared(points, tried).T, far.min(1))
            np.testing.assert_allclose(out, would, rtol=1e-6)
            best = int(out.sum(1).argmin())
            chosen.append(int(rows[best]))
