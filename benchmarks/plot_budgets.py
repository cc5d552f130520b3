"""The plot of docs/memory.md: python -m benchmarks.plot_budgets docs/budgets.svg.

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

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

N_LAYERS, WIDTH = 24, 8192
LINK_BYTES_PER_S = 5.5e10
SHARES = (0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.625, 0.75, 0.875, 0.95, 1.0, 1.2)
MEASURED_MS = {  # rows: {budget / weights: the median of four passes}
    2048: {1.2: 128.85, 0.75: 130.1, 0.5: 129.25, 0.25: 129.75, 0.1: 134.35},
    512: {0.75: 57.0, 0.25: 109.1, 0.1: 118.4},
}
BY_HAND_MS = {512: 117.6}
"""A loop in torch that copies one layer ahead from pinned memory; the same at every budget."""
COLOURS = {"ours": "#1b6ca8", "LRU": "#c0504d", "naive": "#888888", "roofline": "#2e8b57"}


@dataclass(frozen=True)
class Point:
    """Seconds of one pass at one budget."""

    share: float
    ours: float
    lru: float
    naive: float
    roofline: float


def network(rows: int, resident: frozenset[int] = frozenset()) -> Any:
    """The graph of one pass; weights on the host, but for those that stay on the GPU."""
    import infinitensor as it
    from infinitensor.api.evaluate import Bound
    from infinitensor.ir.layout import HOST, single

    small, it.config.small_elements = it.config.small_elements, 0
    try:
        with it.init("null", memory=1 << 50) as session:
            weights = [it.zeros((WIDTH, WIDTH), dtype=np.float32) for _ in range(N_LAYERS)]
            x = it.zeros((rows, WIDTH), dtype=np.float32)
            it.compute(x, *weights)
            y = x
            for weight in weights:
                y = it.maximum(y @ weight, 0)
            with session.guard():
                session.drain()
                graph = Bound(session, [y._version], True).detail().graph()
    finally:
        it.config.small_elements = small
    assert len(graph.leaves) == 1 + N_LAYERS
    leaves = tuple(
        replace(leaf, layout=single(graph.specs[leaf.value].shape, owner))
        for k, leaf in enumerate(graph.leaves)
        for owner in [0 if k == 0 or k in resident else HOST]
    )
    return replace(graph, leaves=leaves)


def staying(program: Any) -> frozenset[int]:
    """The leaves that a program would keep for the next run."""
    from infinitensor.memory.uses import Uses

    found = set()
    uses = Uses(program.graph)
    for tile in program.cached:
        task = int(program.producers[tile])
        family = next(f for f in program.graph.families if f.first <= task < f.first + f.n)
        assert family.many is not None
        found.add(uses.set_with(int(family.many[1][family.many[0][task - family.first]])).leaf)
    return frozenset(found)


def simulated(rows: int, share: float) -> Point:
    """One budget: all ways, in virtual time."""
    from infinitensor.ir.mesh import preset
    from infinitensor.ir.tasks import LOAD
    from infinitensor.pipeline import prepare
    from infinitensor.runtime.simulate import durations, makespan

    mesh = preset("cuda", 1, 1 << 50, 1)
    mesh = replace(mesh, host_bytes=1 << 50, host_bytes_per_s=LINK_BYTES_PER_S)
    weight = WIDTH * WIDTH * 4
    budget = int(share * N_LAYERS * weight) + 3 * rows * WIDTH * 4
    first = prepare(network(rows), mesh, 0, [budget]).program
    seconds, lanes = durations(first, mesh)
    loading = sum(s for s, lane in zip(seconds, lanes, strict=True) if lane == LOAD)
    compute = sum(seconds) - loading
    if share >= 1:  # weights that fit were never on the host
        return Point(share, compute, compute, compute, compute)
    again = prepare(network(rows, staying(first)), mesh, 0, [budget]).program
    lacking = (1 - share) * N_LAYERS * weight / LINK_BYTES_PER_S
    ours, lru = makespan(again, mesh), makespan(first, mesh)
    return Point(share, ours, lru, compute + loading, max(compute, lacking))


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
        parts.append(
            f'<path d="M{x:.1f},{y:.1f}H{end:.1f}" stroke="#b8860b" stroke-dasharray="1 3"/>'
            f'<text x="{end:.1f}" y="{y - 4:.1f}" text-anchor="end" fill="#b8860b">'
            "by hand (measured)</text>"
        )
    return "\n".join(parts)


def main() -> None:
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
