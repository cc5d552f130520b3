"""What a call costs by each way it can run: python -m benchmarks.bench_ways.

Microseconds of processor time for a call, the median of `ROUNDS`; each case first shows, by
`stats()["ways"]`, that its calls take the way they are listed under. NumPy's time for the same is
beside it. The table of ways in docs/architecture.md has these figures.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 15
SMALL, LARGE = 1000, 100_000


def put(x: Any, index: Any, value: Any) -> None:
    x[index] = value


def add(x: Any, y: Any) -> None:
    x += y


def cases() -> list[tuple[str, str, int, Callable[[], Any], Callable[[], Any] | None]]:
    """(way, call, calls a round, ours, NumPy's); x has `SMALL` elements, y `LARGE`."""
    a, b = np.ones(SMALL), np.ones(LARGE)
    x, y = it.asarray(a), it.asarray(b)
    lengths = itertools.count()

    def changing() -> Any:
        return it.compute(y[: -1 - next(lengths) % 7] * 1.5)

    def waiting() -> Any:
        return it.compute(it.exp(y) * 2.5)

    return [
        ("numpy", "x + x", 2000, lambda: x + x, lambda: a + a),
        ("numpy", "exp(x)", 2000, lambda: it.exp(x), lambda: np.exp(a)),
        ("numpy", "mean(x)", 2000, lambda: it.mean(x), lambda: np.mean(a)),
        ("in_place", "x += 0.0", 2000, lambda: add(x, 0.0), lambda: add(a, 0.0)),
        ("read", "x[5]", 5000, lambda: x[5], lambda: a[5]),
        ("write", "x[5] = 1.0", 5000, lambda: put(x, 5, 1.0), lambda: put(a, 5, 1.0)),
        ("kernel", "cumprod(x)", 500, lambda: it.cumprod(x), lambda: np.cumprod(a)),
        ("changing_shapes", "y[:n] * 1.5", 200, changing, lambda: b[:-9] * 1.5),
        ("recorded", "y[:n] - 2.5", 20, lambda: y[: -1 - next(lengths)] - 2.5, None),
        ("recorded_again", "y * 2.5", 50, lambda: y * 2.5, None),
        ("repeated", "compute(exp(y) * 2.5)", 50, waiting, lambda: np.exp(b) * 2.5),
    ]


def per_call(call: Callable[[], Any], n: int) -> float:
    begun = time.process_time()
    for _ in range(n):
        call()
    return (time.process_time() - begun) / n * 1e6


def measure(way: str, n: int, ours: Callable[[], Any], theirs: Any) -> dict[str, Any]:
    """Medians, and whether every call took its way."""
    per_call(ours, 10)
    it.stats(reset=True)
    per_call(ours, 10)
    ways = {name: count for name, count in it.stats()["ways"].items() if count}
    assert ways.get(way) == 10, f"{way}: {ways}"
    found = [per_call(ours, n) for _ in range(ROUNDS)]
    peer = [per_call(theirs, n) for _ in range(ROUNDS)] if theirs else [float("nan")]
    return {"us": round(statistics.median(found), 2), "numpy": round(statistics.median(peer), 2)}


def main() -> None:
    """A line of JSON for each case."""
    for way, name, n, ours, theirs in cases():
        print(json.dumps({"way": way, "call": name, **measure(way, n, ours, theirs)}), flush=True)


if __name__ == "__main__":
    main()
