"""Small whole programs, written once and run by NumPy and by us."""

# ruff: noqa: E501 - a table reads best with one case on a line

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Program:
    """`run(xp, *arrays)` over arrays of these shapes; `cells` scales the first axis."""

    shapes: tuple[tuple[int, ...], ...]
    run: Callable[..., Any]
    dtype: str = "float64"

    def arrays(self, rng: np.random.Generator, scale: int = 1) -> list[Array]:
        return [
            rng.uniform(-1, 1, (shape[0] * scale, *shape[1:])).astype(self.dtype)
            for shape in self.shapes
        ]


def standardise(xp: Any, x: Any) -> Any:
    return (x - xp.mean(x, axis=0)) / xp.std(x, axis=0)


def kmeans_step(xp: Any, x: Any, centers: Any) -> Any:
    distances = xp.sum(centers * centers, axis=1) - 2 * (x @ centers.T)
    labels = xp.argmin(distances, axis=1)
    one_hot = xp.astype(labels[:, None] == xp.arange(centers.shape[0]), x.dtype)
    return (one_hot.T @ x) / xp.maximum(xp.sum(one_hot, axis=0), 1)[:, None]


def stencil(xp: Any, grid: Any) -> Any:
    grid = grid + 0  # our own copy: it is written below
    for _ in range(3):
        grid[1:-1, 1:-1] = (
            grid[1:-1, 1:-1] + grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
        ) * 0.2
    return grid


def shifted_writes(xp: Any, x: Any) -> Any:
    x = x * 2
    x[1:] = x[:-1]
    x[::3] += 1
    x[x > 1] = 0
    return x


def softmax(xp: Any, x: Any) -> Any:
    shifted = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return shifted / xp.sum(shifted, axis=1, keepdims=True)


def power_iteration(xp: Any, x: Any) -> Any:
    gram = x.T @ x
    vector = xp.ones((x.shape[1],), dtype=x.dtype)
    for _ in range(4):
        vector = gram @ vector
        vector = vector / xp.sqrt(xp.sum(vector * vector))
    return vector


PROGRAMS: dict[str, Program] = {
    "chain with sum": Program(((300, 40), (300, 40)), lambda xp, x, y: xp.sum((x * 2 + xp.sin(y)) ** 2)),
    "chain": Program(((300, 40), (300, 40)), lambda xp, x, y: xp.exp(-x * x) + xp.sqrt(abs(y)) * 3 - 1),
    "live intermediate": Program(((400, 20),), lambda xp, x: (x * 2 + 1) * xp.sum(x * 2 + 1, axis=0)),
    "matmul": Program(((128, 96), (96, 80)), lambda xp, x, y: x @ y[:96]),
    "matmul of a transpose": Program(((200, 60),), lambda xp, x: x.T @ x),
    "einsum": Program(((60, 24), (50, 24)), lambda xp, x, y: xp.einsum("nd,md->nm", x, y[:50])),
    "mean and variance": Program(((500, 16),), lambda xp, x: xp.mean(x, axis=0) + xp.var(x, axis=0)),
    "standardise": Program(((500, 16),), standardise),
    "softmax": Program(((200, 30),), softmax),
    "k-means step": Program(((600, 8), (5, 8)), lambda xp, x, c: kmeans_step(xp, x, c[:5])),
    "power iteration": Program(((300, 12),), power_iteration),
    "stencil": Program(((70, 60),), stencil),
    "shifted writes": Program(((5000,),), shifted_writes),
    "cumsum": Program(((300, 20),), lambda xp, x: xp.cumsum(x, axis=0)),
    "sort": Program(((300, 20),), lambda xp, x: xp.sort(x, axis=0)),
    "argsort and take": Program(((900,),), lambda xp, x: xp.take(x, xp.argsort(x))[::-1]),
    "mask": Program(((3000,),), lambda xp, x: x[x > 0.25] * 2),
    "where and clip": Program(((300, 20),), lambda xp, x: xp.clip(xp.where(x > 0, x, -2 * x), 0, 1)),
    "concat and flip": Program(((100, 20), (80, 20)), lambda xp, x, y: xp.flip(xp.concat([x, y]), axis=0)),
    "roll and pad": Program(((200, 10),), lambda xp, x: xp.pad(xp.roll(x, 7, axis=0), ((1, 2), (0, 3)))),
    "reshape and transpose": Program(((120, 30),), lambda xp, x: xp.reshape(x, (-1, 60)).T + 1),
    "arguments of extremes": Program(((400, 9),), lambda xp, x: xp.argmax(x, axis=0) - xp.argmin(x, axis=0)),
    "outer sum": Program(((300,), (200,)), lambda xp, x, y: xp.sum(x[:, None] * y[None, :], axis=1)),
    "cast": Program(((400, 9),), lambda xp, x: xp.astype(xp.astype(x * 9, xp.int32), xp.float32) / 2),
    "float32 chain": Program(((300, 40),), lambda xp, x: xp.tanh(x) * 2 + 1, dtype="float32"),
}  # fmt: skip
"""Programs whose value does not depend on how they are cut, up to rounding."""
