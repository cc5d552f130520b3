"""The core against NumPy and torch: python -m benchmarks.bench_core [--gpu] [--only matmul].

Five programs over 1e7 float32 elements, operands in memory, results left where they are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import libraries
from benchmarks.libraries import Case, many, normal

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "Is a recorded and tiled program no slower than NumPy, and how far is it from torch?"

PEERS = {name: libraries.PEERS[name] for name in ("infinitensor", "numpy", "torch")}
CASES: list[dict[str, Any]] = [
    {"name": "chain with sum", "shapes": [[10_000_000], [10_000_000]]},
    {"name": "matmul", "shapes": [[3162, 3162], [3162, 3162]]},
    {"name": "mean and variance", "shapes": [[200_000, 50]]},
    {"name": "k-means step", "shapes": [[156_250, 64], [100, 64]]},
    {"name": "5-point stencil", "shapes": [[3162, 3162]]},
]


# One program, written once for the three ----------------------------------------------------------


def chain_with_sum(xp: Any, x: Any, y: Any) -> Any:
    return ((x * 2 + xp.sin(y)) ** 2).sum()


def matmul(xp: Any, x: Any, y: Any) -> Any:
    return x @ y


def mean_and_variance(xp: Any, x: Any) -> Any:
    variance = x.var(0, correction=0) if xp.__name__ == "torch" else x.var(0)
    return x.mean(0), variance


def kmeans_step(xp: Any, x: Any, centers: Any) -> Any:
    distances = (centers * centers).sum(1) - 2 * (x @ centers.T)
    labels = distances.argmin(1)
    if xp.__name__ == "torch":
        sums = xp.zeros_like(centers).index_add_(0, labels, x)
        counts = xp.bincount(labels, minlength=len(centers))
    elif xp.__name__ == "numpy":
        sums = np.zeros_like(centers)
        np.add.at(sums, labels, x)
        counts = np.bincount(labels, minlength=len(centers))
    else:
        one_hot = xp.astype(labels[:, None] == xp.arange(centers.shape[0]), x.dtype)
        sums = one_hot.T @ x
        counts = one_hot.sum(0)
    return sums, counts


def stencil(xp: Any, grid: Any) -> Any:
    inner = grid[1:-1, 1:-1]
    grid[1:-1, 1:-1] = (
        inner + grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
    ) * 0.2
    return grid


PROGRAMS: dict[str, Callable[..., Any]] = {
    "chain with sum": chain_with_sum,
    "matmul": matmul,
    "mean and variance": mean_and_variance,
    "k-means step": kmeans_step,
    "5-point stencil": stencil,
}


def setup(
    peer: str, case: dict[str, Any], device: str
) -> tuple[Callable[[], None], Callable[[], float]]:
    operands = many(*(normal(*shape) for shape in case["shapes"]))
    return libraries.setup(Case(operands, PROGRAMS[case["name"]]), peer, device)


if __name__ == "__main__":
    from benchmarks.harness import main

    raise SystemExit(main("bench_core"))
