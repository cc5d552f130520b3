"""What a call costs besides its arithmetic: python -m benchmarks.bench_overheads.

Ours and NumPy's take turns in one process and one thread, `PAIRS` times; the processor time of a
call is the median of each, with the extremes. Recorded calls are not computed here: what is timed
is the recording. The last two cases are whole: they end with the values.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import infinitensor as it
from benchmarks.harness import RESULTS
from infinitensor.config import config

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = 15
SHAPE = (300, 300)
"""More than what is computed at once, little enough that nothing starts an evaluation."""


def per_call(run: Callable[[int], Any], n: int) -> float:
    """Microseconds of processor time."""
    begun = time.process_time()
    run(n)
    return (time.process_time() - begun) / n * 1e6


def loop(body: Callable[[], Any]) -> Callable[[int], None]:
    """A function that does it n times."""

    def run(n: int) -> None:
        for _ in range(n):
            body()

    return run


def recording() -> list[tuple[str, float, Callable[[int], None], None]]:
    """Calls on large tensors: (name, bar in us, ours, no peer)."""
    x, y = (it.asarray(np.ones(SHAPE, np.float32)) for _ in range(2))

    def assign() -> None:
        x[1:-1, 1:-1] = 1.0

    return [
        ("record x + y", 5, loop(lambda: x + y), None),
        ("record x * 2.0", 5, loop(lambda: x * 2.0), None),
        ("record x.sum(axis=0)", 5, loop(lambda: x.sum(axis=0)), None),
        ("record x @ y", 5, loop(lambda: x @ y), None),
        ("record x[1:-1, 1:-1]", 8, loop(lambda: x[1:-1, 1:-1]), None),
        ("record x[1:-1, 1:-1] = 1.0", 8, loop(assign), None),
    ]


def small() -> list[tuple[str, float, Callable[[int], None], Callable[[int], None]]]:
    """Calls on 1000 elements: (name, bar in us above NumPy, ours, NumPy's)."""
    a, b = np.ones(1000, np.float32), np.ones(1000, np.float32)
    s, t = it.asarray(a), it.asarray(b)

    def ours() -> None:
        s[5] = 1.0

    def theirs() -> None:
        a[5] = 1.0

    return [
        ("1000: x + y", 3, loop(lambda: s + t), loop(lambda: a + b)),
        ("1000: x * 2.0", 3, loop(lambda: s * 2.0), loop(lambda: a * 2.0)),
        ("1000: exp(x)", 3, loop(lambda: it.exp(s)), loop(lambda: np.exp(a))),
        ("1000: x.sum()", 3, loop(lambda: s.sum()), loop(lambda: a.sum())),
        ("1000: x[1:-1]", 5, loop(lambda: s[1:-1]), loop(lambda: a[1:-1])),
        ("1000: x[5] = 1.0", 5, loop(ours), loop(theirs)),
        ("1000: float(x[5])", 5, loop(lambda: float(s[5])), loop(lambda: float(a[5]))),
    ]


def whole() -> list[tuple[str, str, Callable[[], Any], Callable[[], Any] | None]]:
    """Programs: (name, what is asked, ours, NumPy's)."""

    def writes(x: Any) -> Any:
        for i in range(100_000):
            x[i] = i * 0.5
        return x.sum()

    def chain() -> float:
        x = it.zeros(100)
        for _ in range(100_000):
            x = x + 1.0
        return float(x[0])

    return [
        (
            "100,000 element writes",
            "at most 5 times NumPy's",
            lambda: float(writes(it.zeros(100_000))),
            lambda: float(writes(np.zeros(100_000))),
        ),
        ("chain of 100,000 calls on 100 elements, strict", "at most 10 s", strictly(chain), None),
    ]


def strictly(body: Callable[[], Any]) -> Callable[[], Any]:
    """Without the small-array path: recorded, planned and run."""

    def run() -> Any:
        before = config.small_elements
        config.small_elements = 0
        try:
            return body()
        finally:
            config.small_elements = before

    return run


def cached_plan() -> tuple[float, float]:
    """Microseconds of an evaluation of ten nodes found in the plan cache, and of their ufuncs."""
    values = np.ones(100_000, np.float32)
    x = it.asarray(values)
    scratch = np.empty_like(values)

    def evaluate() -> None:
        y = x
        for _ in range(10):
            y = y * 1.0001
        it.compute(y)

    def kernels() -> None:
        np.multiply(values, np.float32(1.0001), out=scratch)
        for _ in range(9):
            np.multiply(scratch, np.float32(1.0001), out=scratch)

    def record() -> None:
        y = x
        for _ in range(10):
            y = y * 1.0001

    parts = [
        statistics.median(per_call(loop(body), 200) for _ in range(PAIRS))
        for body in (evaluate, record, kernels)
    ]
    return parts[0] - parts[1], parts[2]


def main() -> None:
    """Measure, print and store the table."""
    rows: list[dict[str, Any]] = []
    for name, bar, ours, theirs in [*recording(), *small()]:
        for warm_up in filter(None, (ours, theirs)):
            warm_up(300)
        pairs = [
            (per_call(ours, 1000), per_call(theirs, 1000) if theirs else 0.0) for _ in range(PAIRS)
        ]
        above = [a - b for a, b in pairs]
        rows.append(
            {
                "case": name,
                "us": statistics.median(a for a, _ in pairs),
                "numpy_us": statistics.median(b for _, b in pairs),
                "above_us": statistics.median(above),
                "least": min(above),
                "most": max(above),
                "bar_us": bar,
            }
        )
    print("| call | us | NumPy us | above [least, most] | bar |\n|---|---|---|---|---|")
    for row in rows:
        spread = f"{row['above_us']:.1f} [{row['least']:.1f}, {row['most']:.1f}]"
        both = f"{row['us']:.2f} | {row['numpy_us']:.2f}"
        print(f"| {row['case']} | {both} | {spread} | {row['bar_us']} |")
    run_us, kernels_us = cached_plan()
    rows.append({"case": "cached plan of 10 nodes", "us": run_us, "kernels_us": kernels_us})
    alone = f"its kernels alone {kernels_us:.0f} us (bar 60 above)"
    print(f"\ncached plan of 10 nodes: {run_us:.0f} us, {alone}")
    for name, asked, mine, other in whole():
        mine()
        seconds = [_seconds(mine) for _ in range(3)]
        peers = [_seconds(other) for _ in range(3)] if other else []
        rows.append({"case": name, "seconds": seconds, "numpy_seconds": peers, "asked": asked})
        text = ", ".join(f"{s:.3f}" for s in seconds)
        beside = f"; NumPy {', '.join(f'{s:.3f}' for s in peers)} s" if peers else ""
        print(f"{name}: {text} s{beside} ({asked})")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "overheads.json").write_text(json.dumps(rows, indent=1) + "\n")


def _seconds(body: Callable[[], Any]) -> float:
    begun = time.process_time()
    body()
    return time.process_time() - begun


if __name__ == "__main__":
    main()
