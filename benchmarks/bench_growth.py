"""How time grows: python -m benchmarks.bench_growth [--plot docs/growth.svg].

Seconds an element of a chain (`((x * 2 + y) ** 2).sum()`, float32) from 1e6 elements on, and of the
same chain by NumPy; microseconds a task of a plan of 1e3 to 1e6 tasks (a chain over tiles of 64
elements); and the peak of a process that computes `x * 2 + 1` chains, seen from outside. Each
point is the best of several runs in a process of its own: what grows is asked, not what jitters.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ELEMENTS = (10**6, 10**7, 10**8, 10**9)
TASKS = (10**3, 10**4, 10**5, 10**6)
TILE = 64
"""Elements of a tile where tasks are counted."""


def chain(xp: Any, x: Any, y: Any) -> Any:
    return ((x * 2 + y) ** 2).sum()


def best(run: Any, budget_s: float) -> float:
    """The shortest of several runs, two at least."""
    taken = []
    while len(taken) < 2 or (sum(taken) < budget_s and len(taken) < 20):
        begun = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begun)
    return min(taken[1:])


def elements(n: int) -> dict[str, Any]:
    """Nanoseconds an element, ours and NumPy's."""
    import infinitensor as it

    it.init("cpu")
    x = it.ones(n, dtype="float32")
    y = it.full(n, 0.5, dtype="float32")
    it.compute(x, y)
    ours = best(lambda: float(chain(it, x, y)), 4.0)
    a, b = x.numpy() if n < 10**9 else None, y.numpy() if n < 10**9 else None
    theirs = None if a is None else best(lambda: float(chain(np, a, b)), 4.0)
    return {
        "n": n,
        "ns": ours / n * 1e9,
        "numpy_ns": None if theirs is None else theirs / n * 1e9,
    }


def tasks(n: int) -> dict[str, Any]:
    """Microseconds a task, of a plan found again and of one that is made."""
    import infinitensor as it

    it.config.tile_elements = TILE
    it.config.small_elements = 0
    with it.init("cpu"):
        x = it.ones(n * TILE // 2, dtype="float32")
        it.compute(x)
        it.stats(reset=True)

        def run() -> None:
            it.compute(it.sqrt(x)[::-1] + 1)

        begun = time.perf_counter()
        run()
        made_s = time.perf_counter() - begun
        counted = it.stats()["tasks"]
        taken = best(run, 4.0)
    return {"n": counted, "us": taken / counted * 1e6, "made_us": made_s / counted * 1e6}


def peak(n: int, kind: str) -> dict[str, Any]:
    """What a process that computes a chain grows by, in its own child, from VmHWM."""
    import infinitensor as it

    it.init("cpu")
    x = it.ones(n, dtype="float32")
    it.compute(x)
    it.compute(it.sqrt(x[: 1 << 20] * 2 + 1))  # what libraries take once
    before = rss("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    if kind == "chain":
        y = it.sqrt(x * 2 + 1) * x - 3
    elif kind == "named":
        double = x * 2
        more = double + 1
        y = it.sqrt(more) * x - 3
    else:
        y = x
        del x
        y = it.sqrt(y * 2 + 1) * y - 3
    it.compute(y)
    return {"kind": kind, "n_bytes": 4 * n, "added_bytes": rss("VmHWM") - before}


def rss(which: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(which + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(which)


def child(*given: str) -> dict[str, Any]:
    """One point, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_growth", "--point", *given],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    if done.returncode:
        return {"given": given, "failed": (done.stderr.strip().splitlines() or ["killed"])[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


# The plot -----------------------------------------------------------------------------------------


def panel(left: int, title: str, unit: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    """One plot with a logarithmic axis of numbers and a linear axis of times, as SVG."""
    width, height, top = 300, 200, 40
    points = [p for line in lines.values() for p in line]
    high = max(y for _, y in points) * 1.15
    first = min(np.log10(x) for x, _ in points)
    last = max(np.log10(x) for x, _ in points)

    def place(x: float, y: float) -> str:
        across = left + (np.log10(x) - first) / (last - first) * width
        return f"{across:.1f},{top + height * (1 - y / high):.1f}"

    parts = [
        f'<text x="{left}" y="24" font-weight="bold">{title}</text>',
        f'<path d="M{left},{top}v{height}h{width}" fill="none" stroke="#888"/>',
    ]
    for k in range(round(first), round(last) + 1):
        x, y = place(10.0**k, 0).split(",")
        parts.append(f'<text x="{x}" y="{float(y) + 16}" text-anchor="middle">1e{k}</text>')
    for k in range(1, 4):
        x, y = place(10.0**first, high * k / 4).split(",")
        text = f"{high * k / 4:.2g}"
        parts.append(f'<text x="{float(x) - 6}" y="{float(y) + 4}" text-anchor="end">{text}</text>')
    parts.append(f'<text x="{left}" y="{top - 4}">{unit}</text>')
    for k, (name, line) in enumerate(lines.items()):
        colour = ("#1b6ca8", "#c0504d", "#888888")[k]
        path = " ".join(place(x, y) for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in line:
            at = place(x, y).split(",")
            parts.append(f'<circle cx="{at[0]}" cy="{at[1]}" r="3" fill="{colour}"/>')
        end = place(*line[-1]).split(",")
        parts.append(
            f'<text x="{float(end[0]) - 4}" y="{float(end[1]) - 8}" text-anchor="end" '
            f'fill="{colour}">{name}</text>'
        )
    return "\n".join(parts)


def plot(by_element: list[dict[str, Any]], by_task: list[dict[str, Any]], path: Path) -> None:
    """Both growths beside each other."""
    left = {
        "infinitensor": [(p["n"], p["ns"]) for p in by_element],
        "NumPy": [(p["n"], p["numpy_ns"]) for p in by_element if p["numpy_ns"]],
    }
    right = {
        "found again": [(p["n"], p["us"]) for p in by_task],
        "with planning": [(p["n"], p["made_us"]) for p in by_task],
    }
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="760" height="280" '
        'font-family="sans-serif" font-size="11">\n'
        '<rect width="760" height="280" fill="white"/>\n'
        + panel(50, "Time an element", "ns", left)
        + "\n"
        + panel(430, "Time a task", "µs", right)
        + "\n</svg>\n"
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_growth")
    parser.add_argument("--plot", type=Path, help="write both growths as SVG")
    parser.add_argument("--most", type=float, default=1e9, help="elements, tasks / 1000")
    parser.add_argument("--point", nargs="+", help="one point, in this process, as JSON")
    args = parser.parse_args(argv)
    if args.point:
        kind, n, *more = args.point
        known = {"elements": elements, "tasks": tasks, "peak": peak}
        print(json.dumps(known[kind](int(n), *more)))  # type: ignore[operator]
        return 0
    by_element = [child("elements", str(n)) for n in ELEMENTS if n <= args.most]
    by_task = [child("tasks", str(n)) for n in TASKS if 1000 * n <= args.most]
    peaks = [child("peak", str(10**8), kind) for kind in ("chain", "named", "given up")]
    for point in (*by_element, *by_task, *peaks):
        print(json.dumps(point), flush=True)
    if args.plot:
        good = [p for p in by_element if "failed" not in p]
        plot(good, [p for p in by_task if "failed" not in p], args.plot)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
