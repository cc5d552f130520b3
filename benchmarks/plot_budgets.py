"""The plot of docs/memory.md: python -m benchmarks.plot_budgets docs/budgets.svg.

With what `bench_tiers` printed on a GPU, 512 and 2048 rows, its points are new (two minutes):
python -m benchmarks.bench_tiers 512 > 512.txt; python -m benchmarks.bench_tiers 2048 > 2048.txt
python -m benchmarks.plot_budgets docs/budgets.svg 512=512.txt 2048=2048.txt

Throughput of the network of `bench_tiers` (24 layers of 8192 x 8192 float32, weights in host
memory) against the budget, on an H200 with a link of 55 GB/s. Lines are simulated: our own plans,
made for that machine, with the scheduler in virtual time. Points are measured (docs/memory.md).

- ours: the second and later passes; what stays of the first is there
- LRU: the same plan and prefetch, but of weights larger than memory a pass finds nothing that the
  one before left: all of it is loaded
- naive: every layer is loaded, then computed; nothing overlaps, nothing stays
- roofline: the slower of compute and what cannot stay over the link
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.bench_tiers import WIDTH
from benchmarks.simulate_tiers import LINK_BYTES_PER_S, budget_of, h200, network, passes

N_LAYERS = 24
SHARES = (0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.625, 0.75, 0.875, 0.95, 1.0, 1.2)
MEASURED_MS = {  # rows: {budget / weights: the median of four passes}
    2048: {1.2: 128.4, 0.75: 130.75, 0.5: 131.15, 0.25: 132.95, 0.1: 133.1},
    512: {1.2: 32.9, 0.75: 38.7, 0.5: 63.8, 0.25: 92.35, 0.1: 109.7},
}
BY_HAND_MS = {512: 117.7, 2048: 133.1}
"""A loop in torch that copies one layer ahead from pinned memory; the same at every budget."""
COLOURS = {"ours": "#1b6ca8", "LRU": "#c0504d", "naive": "#888888", "roofline": "#2e8b57"}


def measured(text: str) -> tuple[dict[float, float], float]:
    """What `bench_tiers` printed: the median pass at each budget, and that of the loop by hand.

    >>> said = "budget  75%: [90.0, 80.0, 3.0, 2.0, 1.0, 4.0] ms, bound 1.0, loaded 2 GB"
    >>> measured(said + "\\nby hand, one layer ahead, whatever the budget: [5.0, 7.0] ms")
    ({0.75: 2.5}, 6.0)
    """
    found = {}
    for share, runs in re.findall(r"budget +([0-9]+)%: (\[.*?\]) ms", text):
        found[int(share) / 100] = median(json.loads(runs)[2:])  # the first two plan
    (by_hand,) = re.findall(r"whatever the budget: (\[.*?\]) ms", text)
    return found, median(json.loads(by_hand))


@dataclass(frozen=True)
class Point:
    """Seconds of one pass at one budget."""

    share: float
    ours: float
    lru: float
    naive: float
    roofline: float


def simulated(rows: int, share: float) -> Point:
    """One budget: all ways, in virtual time."""
    from infinitensor.ir.tasks import LOAD
    from infinitensor.runtime.simulate import durations

    weight = WIDTH * WIDTH * 4
    found = passes(network(rows, N_LAYERS, False), budget_of(share, rows, N_LAYERS))
    first, last = found[0], found[-1]
    seconds, lanes = durations(first.prepared.program, h200())
    loading = sum(s for s, lane in zip(seconds, lanes, strict=True) if lane == LOAD)
    compute = first.compute_seconds
    if share >= 1:  # weights that fit were never on the host
        return Point(share, compute, compute, compute, compute)
    lacking = (1 - share) * N_LAYERS * weight / LINK_BYTES_PER_S
    return Point(
        share, last.seconds, first.seconds, compute + loading, max(last.compute_seconds, lacking)
    )


def panel(left: int, rows: int, points: list[Point]) -> str:
    """One plot: TFLOP/s against the budget, as SVG."""
    width, height, top = 300, 200, 40
    flops = 2 * rows * WIDTH * WIDTH * N_LAYERS / 1e12
    high = 60.0

    def place(share: float, seconds: float) -> tuple[float, float]:
        return left + share / 1.2 * width, top + height * (1 - flops / seconds / high)

    parts = [
        f'<text x="{left}" y="24" font-weight="bold">{rows} rows</text>',
        f'<path d="M{left},{top}v{height}h{width}" fill="none" stroke="#888"/>',
        f'<text x="{left}" y="{top - 4}">TFLOP/s</text>',
        f'<text x="{left + width}" y="{top + height + 30}" text-anchor="end">'
        "budget / weights</text>",
    ]
    for k in range(0, 5):
        share = k * 0.25 or 0.1
        across = left + share / 1.2 * width
        parts.append(
            f'<text x="{across:.1f}" y="{top + height + 16}" text-anchor="middle">{share:g}</text>'
        )
    for value in (20, 40, 60):
        up = top + height * (1 - value / high)
        parts.append(f'<text x="{left - 6}" y="{up + 4:.1f}" text-anchor="end">{value}</text>')
    for k, (name, colour) in enumerate(COLOURS.items()):
        key = name.lower()
        path = " ".join("{:.1f},{:.1f}".format(*place(p.share, getattr(p, key))) for p in points)
        dash = ' stroke-dasharray="5 4"' if name == "roofline" else ""
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        parts.append(
            f'<text x="{left + width - 4}" y="{top + 120 + 16 * k}" text-anchor="end" '
            f'fill="{colour}">{name}</text>'
        )
    for share, ms in MEASURED_MS[rows].items():
        x, y = place(share, ms / 1e3)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#1b6ca8"/>')
    if rows in BY_HAND_MS:
        (x, y), (end, _) = (place(s, BY_HAND_MS[rows] / 1e3) for s in (0.1, 1.0))
        beside = y + 16 if y < top + height / 2 else y - 4  # away from the lines
        parts.append(
            f'<path d="M{x:.1f},{y:.1f}H{end:.1f}" stroke="#b8860b" stroke-dasharray="1 3"/>'
            f'<text x="{end:.1f}" y="{beside:.1f}" text-anchor="end" fill="#b8860b">'
            "by hand (measured)</text>"
        )
    return "\n".join(parts)


def main() -> None:
    for given in sys.argv[2:]:
        n_rows, _, path = given.partition("=")
        passes_ms, BY_HAND_MS[int(n_rows)] = measured(Path(path).read_text())
        MEASURED_MS[int(n_rows)] = passes_ms
        print(n_rows, passes_ms, BY_HAND_MS[int(n_rows)], "copy these into this file")
    panels = []
    for left, rows in ((50, 512), (430, 2048)):
        points = [simulated(rows, share) for share in SHARES]
        for point in points:
            print(rows, {k: round(v * 1e3, 1) for k, v in vars(point).items()}, flush=True)
        panels.append(panel(left, rows, points))
    Path(sys.argv[1]).write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="760" height="290" '
        'font-family="sans-serif" font-size="11">\n'
        '<rect width="760" height="290" fill="white"/>\n' + "\n".join(panels) + "\n</svg>\n"
    )


if __name__ == "__main__":
    main()
