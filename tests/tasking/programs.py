"""Small random programs, recorded through the public functions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable

Rng = random.Random
ROWS, COLUMNS = 9, 6


def span(rng: Rng, size: int) -> slice:
    lo = rng.randrange(size)
    part = slice(lo, rng.randint(lo + 1, size), rng.choice([1, 1, 1, 2, 3]))
    return part if rng.random() < 0.8 else slice(None, None, -1)


def write_row(rng: Rng, x: Any, y: Any) -> Any:
    k = rng.randrange(ROWS)
    x[k] = y[rng.randrange(ROWS)] + 1
    return x


def write_part(rng: Rng, x: Any, y: Any) -> Any:
    rows, columns = span(rng, ROWS), span(rng, COLUMNS)
    x[rows, columns] = y[rows, columns] * 2
    return x


def write_scalar(rng: Rng, x: Any, y: Any) -> Any:
    x[span(rng, ROWS)] = 3.0
    return x


def shift_rows(rng: Rng, x: Any, y: Any) -> Any:
    x[1:] = x[:-1]
    return x


def add_to_part(rng: Rng, x: Any, y: Any) -> Any:
    x[:, span(rng, COLUMNS)] += 1
    return x


def mask(rng: Rng, x: Any, y: Any) -> Any:
    x[y > 0.5] = 0
    return x


def from_square(rng: Rng, x: Any, y: Any) -> Any:
    return x @ (y.T @ x)


def from_ends(rng: Rng, x: Any, y: Any) -> Any:
    k = rng.randint(1, ROWS - 1)
    return it.concat([x[:k], y[k:]])


STEPS: list[Callable[[Rng, Any, Any], Any]] = [
    write_row,
    write_row,
    write_part,
    write_part,
    write_scalar,
    shift_rows,
    add_to_part,
    mask,
    from_square,
    from_ends,
    lambda rng, x, y: x + y * 2,
    lambda rng, x, y: it.sqrt(abs(x)) - y[::-1],
    lambda rng, x, y: x - it.sum(y, axis=0),
    lambda rng, x, y: x / (it.max(abs(y), axis=1, keepdims=True) + 1),
    lambda rng, x, y: it.cumsum(x, axis=rng.choice([0, 1])),
    lambda rng, x, y: it.sort(x, axis=rng.choice([0, 1])),
    lambda rng, x, y: x.T.reshape((ROWS, COLUMNS)) + y,
    lambda rng, x, y: it.where(x > y, x, it.mean(y)),
    lambda rng, x, y: x[it.argsort(y[:, 0])],
    lambda rng, x, y: it.ones((ROWS, COLUMNS)) * x[:, :1],
]


def recorded(seed: int, n_steps: int | None = None) -> list[Any]:
    """Waiting tensors of a program of a few steps; several of them live, some of them views."""
    rng = Rng(seed)
    values = np.random.default_rng(seed).uniform(-1, 1, (2, ROWS, COLUMNS))
    x, y = it.asarray(values[0]), it.asarray(values[1])
    pool = [x * 1, y + 0]
    for _ in range(n_steps or rng.randint(2, 9)):
        a, b = rng.choice(pool), rng.choice(pool)
        made = rng.choice(STEPS)(rng, a, b)
        if made is not a:
            pool.append(made)
        if len(pool) > 4:
            pool.pop(rng.randrange(len(pool)))
    asked = [pool[-1], it.sum(rng.choice(pool), axis=rng.choice([0, 1]))]
    return [tensor for tensor in asked if tensor._version.node is not None]
