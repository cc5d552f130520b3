"""Tables with few columns: python -m benchmarks.bench_narrow [--only norms] [--pairs 15].

Points in space, pixels, measurements: millions of rows of three, eight or thirty-two numbers. What
is done with their rows and columns; a step of k-means and a gradient as one writes them in NumPy.
All takes about ten minutes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from benchmarks import libraries
from benchmarks.bench_generated import layer_norm, softmax_rows, variance_of
from benchmarks.libraries import Case, Xp, many, normal

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "Are tables with few columns as fast as others?"
PEERS = libraries.PEERS


def standardised(xp: Xp, x: Any) -> Any:
    return (x - x.mean(0)) / xp.sqrt(variance_of(xp, x, 0))


def norms(xp: Xp, x: Any) -> Any:
    return xp.sqrt((x * x).sum(1))


def nearest(xp: Xp, x: Any) -> Any:
    return (x * x + 1).argmin(1)


def scaled(xp: Xp, x: Any, centre: Any, width: Any) -> Any:
    return (x - centre) / width


def transposed(xp: Xp, x: Any, centre: Any, width: Any) -> Any:
    made = (x.T + 1) * 2
    return made.contiguous() if xp.__name__ == "torch" else made


def kmeans_step(xp: Xp, x: Any, centers: Any) -> Any:
    """Each row to its nearest centre; each centre to the mean of its rows."""
    distances = (x * x).sum(1)[:, None] - 2 * x @ centers.T + (centers * centers).sum(1)
    members = distances.argmin(1)[:, None] == xp.arange(len(centers))
    members = members.to(x.dtype) if xp.__name__ == "torch" else members.astype(x.dtype)
    return members.T @ x / members.sum(0)[:, None]


def gradient(xp: Xp, x: Any, weights: Any, wanted: Any) -> Any:
    """Of a logistic regression."""
    return x.T @ (1 / (1 + xp.exp(-(x @ weights))) - wanted)


def rows_of(n: int, columns: int) -> dict[str, Case]:
    table = normal(n, columns)
    beside = many(table, normal(columns), normal(columns))
    return {
        f"{name} of {columns}": Case(operands, program)
        for name, operands, program in (
            ("scaled columns", beside, scaled),
            ("standardised columns", normal(n, columns, dtype="f8"), standardised),
            ("norms", table, norms),
            ("places of least", table, nearest),
            ("softmax", table, softmax_rows),
            ("layer norm", table, layer_norm),
            ("transposed", beside, transposed),
        )
    }


ROWS: dict[str, Case] = (
    rows_of(8_000_000, 3)
    | rows_of(3_000_000, 8)
    | rows_of(750_000, 32)
    | {
        "k-means step": Case(many(normal(3_000_000, 16), normal(8, 16)), kmeans_step),
        "gradient": Case(many(normal(3_000_000, 16), normal(16), normal(3_000_000)), gradient),
    }
)
CASES = libraries.cases(ROWS)


def setup(
    peer: str, case: dict[str, Any], device: str
) -> tuple[Callable[[], None], Callable[[], float]]:
    return libraries.setup(ROWS[case["name"]], peer, device)


if __name__ == "__main__":
    from benchmarks.harness import main

    raise SystemExit(main("bench_narrow", sys.argv[1:], together=True))
