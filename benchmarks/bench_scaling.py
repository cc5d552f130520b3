"""From 1 core to all: python -m benchmarks.bench_scaling [--plot docs/scaling.svg] [--cores 1 2 4].

Programs of every kind, each with so many workers and no more cores than that (the process is bound
to them), in a process of its own; a time is the median of calls of 0.3 s once it is warm. *Share of
ideal* is the time of one core / (the time of n cores * n). Where memory bounds a program, no number
of cores makes it faster than the memory: beside each stands what a copy of 512 MiB gains.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

WARM_S, MEASURED_S = 0.6, 0.3
BOUND_BY_MEMORY = ("copy", "chain of 3", "gather", "a.T + b")


def programs(it: Any) -> dict[str, Any]:
    """Each program as a function; operands are made once."""
    rng = np.random.default_rng(0)

    def floats(*shape: int) -> Any:
        return it.asarray(rng.random(shape, np.float32))

    line, other, table = floats(1 << 22), floats(1 << 22), floats(20_000, 300)
    large = floats(1 << 27)
    square, image = floats(1500, 1500), it.asarray(rng.random((512, 4096)))
    stacks, grid = floats(256, 96, 96), it.asarray(rng.random((1500, 1500)))
    small = floats(200_000)
    places = it.asarray(rng.integers(0, 1 << 22, 1 << 22))
    numbers = it.asarray(rng.integers(0, 1000, 1 << 22))

    def stencil() -> Any:
        a = grid
        for _ in range(4):
            a = (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) * 0.2
        return a

    def softmax() -> Any:
        e = it.exp(table - it.amax(table, axis=1, keepdims=True))
        return e / it.sum(e, axis=1, keepdims=True)

    return {
        "copy": lambda: large + 0,
        "chain of 3": lambda: line * 2 + other - 1,
        "functions and a sum": lambda: it.sum(it.tanh(line) * it.exp(-other)),
        "10 steps of 200,000": lambda: it.sin(small * small + it.sqrt(small)) / (1 + small * small),
        "softmax of rows": softmax,
        "columns' variances": lambda: it.var(table, axis=0),
        "product": lambda: square @ square,
        "gram": lambda: table.T @ table,
        "stack of products": lambda: stacks @ stacks,
        "sort a line": lambda: it.sort(line),
        "sort rows": lambda: it.sort(table, axis=1),
        "median of columns": lambda: it.median(table, axis=0),
        "histogram": lambda: it.histogram(line, 100, (0.0, 1.0))[0],
        "count integers": lambda: it.bincount(numbers, minlength=1000),
        "running sum": lambda: it.cumsum(line),
        "gather": lambda: line[places],
        "mask": lambda: line[line > 0.5],
        "Fourier rows": lambda: it.fft.fft(image),
        "a.T + b": lambda: square.T + square,
        "stencil, 4 steps": stencil,
    }


def point(n_cores: int) -> dict[str, float]:
    """Seconds of each program on so many cores, in this process."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n_cores])
    import infinitensor as it

    found = {}
    it.config.workers = n_cores
    with it.init("cpu"):
        for name, program in programs(it).items():
            taken: list[float] = []
            until = time.perf_counter() + WARM_S
            while time.perf_counter() < until:
                it.compute(program())
            until = time.perf_counter() + MEASURED_S
            while time.perf_counter() < until or len(taken) < 5:
                begun = time.perf_counter()
                it.compute(program())
                taken.append(time.perf_counter() - begun)
            found[name] = statistics.median(taken)
    return found


def child(n_cores: int) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench_scaling", "--point", str(n_cores)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(times: dict[int, dict[str, float]]) -> str:
    """Milliseconds on each number of cores, and the share of ideal on the most."""
    cores = sorted(times)
    lines = [
        f"| program | {' | '.join(f'{n}, ms' for n in cores)} | gain | share of ideal |",
        "|---" * (len(cores) + 3) + "|",
    ]
    for name, first in times[cores[0]].items():
        each = " | ".join(f"{times[n][name] * 1e3:.3g}" for n in cores)
        gain = first / times[cores[-1]][name]
        lines.append(f"| {name} | {each} | {gain:.1f} | {gain / cores[-1] * cores[0]:.2f} |")
    return "\n".join(lines)


def plot(times: dict[int, dict[str, float]], path: Path) -> None:
    """The gain of each program over one core against the number of cores, as SVG."""
    cores = sorted(times)
    wide, high, left, top = 420, 340, 50, 30

    def place(n: float, gain: float) -> str:
        across, up = (np.log2(x / cores[0]) / np.log2(cores[-1] / cores[0]) for x in (n, gain))
        return f"{left + across * wide:.1f},{top + high * (1 - up):.1f}"

    ideal = f"{place(cores[0], cores[0])} {place(cores[-1], cores[-1])}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 260}" '
        f'height="{top + high + 40}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="18" font-weight="bold">Times as fast as on one core</text>',
        f'<path d="M{left},{top}v{high}h{wide}" fill="none" stroke="#888"/>',
        f'<polyline points="{ideal}" fill="none" stroke="#bbb" stroke-dasharray="5"/>',
    ]
    for n in cores:
        x, y = place(n, cores[0]).split(",")
        parts.append(f'<text x="{x}" y="{float(y) + 16}" text-anchor="middle">{n} cores</text>')
        x, y = place(cores[0], n).split(",")
        parts.append(f'<text x="{left - 6}" y="{float(y) + 4}" text-anchor="end">{n}</text>')
    ends = sorted(times[cores[0]], key=lambda name: times[cores[-1]][name] / times[cores[0]][name])
    for k, name in enumerate(ends):
        gains = [max(times[cores[0]][name] / times[n][name], 0.5) for n in cores]
        points = [place(n, gain * cores[0]) for n, gain in zip(cores, gains, strict=True)]
        colour = "#888888" if name in BOUND_BY_MEMORY else f"hsl({k * 360 // len(ends)},60%,40%)"
        joined = " ".join(points)
        parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}"/>')
        parts.append(
            f'<text x="{left + wide + 12}" y="{top + 8 + k * 17}" fill="{colour}">'
            f"{gains[-1]:.1f} {name}</text>"
        )
    path.write_text("\n".join([*parts, "</svg>\n"]))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_scaling")
    parser.add_argument("--plot", type=Path, help="write the gains as SVG")
    parser.add_argument("--cores", type=int, nargs="+", help="all powers of two unless given")
    parser.add_argument("--point", type=int, help="so many cores, in this process, as JSON")
    args = parser.parse_args(argv)
    if args.point:
        print(json.dumps(point(args.point)))
        return 0
    most = len(os.sched_getaffinity(0))
    times = {n: child(n) for n in args.cores or [2**k for k in range(most.bit_length())]}
    print(table(times))
    if args.plot:
        plot(times, args.plot)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
