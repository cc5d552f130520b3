"""Weights larger than a GPU's budget, without a GPU: python -m benchmarks.simulate_tiers.

The network of `bench_tiers` is planned for an H200 (52 TFLOP/s, a link of 55 GB/s) with its weights
and its rows on the host, and run by the scheduler in virtual time. One line for each budget, number
of rows and kind of layers: seconds of the first pass and of a pass after what can stay has stayed,
each over its bound, the slower of compute and loaded bytes over the link; a pass in fixed order;
and how many bytes are loaded beside the least there could be.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.bench_tiers import WIDTH, layer

LINK_BYTES_PER_S = 5.5e10
PASSES = 5
"""Passes after which what stays is what will stay."""


def network(rows: int, n_layers: int, varied: bool, width: int = WIDTH) -> Any:
    """The graph of one pass, with all its leaves on the host: first the rows, then the weights."""
    import infinitensor as it
    from infinitensor.api.evaluate.bound_program import Bound
    from infinitensor.ir.layout import HOST, single

    small, it.config.small_elements = it.config.small_elements, 0
    try:
        with it.init("null", memory=1 << 50) as session:
            weights = [it.zeros((width, width), dtype=np.float32) for _ in range(n_layers)]
            x = it.zeros((rows, width), dtype=np.float32)
            it.compute(x, *weights)
            y = x
            for k, weight in enumerate(weights):
                y = layer(lambda y: it.maximum(y, 0), y, weight, varied and k % 2 == 1)
            with session.guard():
                session.drain()
                graph = Bound(session, [y._version], True).detail().graph()
    finally:
        it.config.small_elements = small
    assert len(graph.leaves) == 1 + n_layers
    leaves = [
        replace(leaf, layout=single(graph.specs[leaf.value].shape, HOST)) for leaf in graph.leaves
    ]
    return replace(graph, leaves=tuple(leaves))


def h200(link_bytes_per_s: float = LINK_BYTES_PER_S) -> Any:
    """The mesh."""
    from infinitensor.ir.mesh import preset

    mesh = preset("cuda", 1, 1 << 50, 1)
    return replace(mesh, host_bytes=1 << 50, host_bytes_per_s=link_bytes_per_s)


def budget_of(share: float, rows: int, n_layers: int, width: int = WIDTH) -> int:
    """A share of the weights, and the rows three times."""
    return int(share * n_layers * width * width * 4) + 3 * rows * width * 4


def after(graph: Any, program: Any) -> Any:
    """The graph of the next pass: of its leaves on the host that is on the GPU which stayed."""
    from infinitensor.ir.layout import HOST, Layout
    from infinitensor.ir.tasks import LOAD
    from infinitensor.memory.uses import Uses

    uses, stayed = Uses(program.graph), set(program.cached)
    read: dict[int, dict[Any, bool]] = {}
    for family in program.graph.families:
        if family.lane != LOAD or family.many is None:
            continue
        borders, sources = family.many
        for i, tile in enumerate(family.writes[0].tolist()):
            leaf = uses.graph.set_with(int(sources[borders[i]])).leaf
            made = uses.graph.set_with(tile)
            box = tuple(map(tuple, made.boxes[tile - made.first].tolist()))
            read.setdefault(leaf, {})[box] = tile in stayed
    leaves = list(graph.leaves)
    for number, boxes in read.items():
        before = leaves[number].layout
        if not any(boxes.values()):
            continue
        cuts = before.cuts
        if before.n_tiles == 1:
            cuts = tuple(
                tuple(sorted({end for box in boxes for end in box[axis]}))
                for axis in range(len(cuts))
            )
        whole = Layout(cuts, (HOST,))
        owners = [
            0 if boxes.get(whole.tile(k)) or before.owner(k % before.n_tiles) >= 0 else HOST
            for k in range(whole.n_tiles)
        ]
        leaves[number] = replace(leaves[number], layout=Layout(cuts, tuple(owners)))
    return replace(graph, leaves=tuple(leaves))


@dataclass(frozen=True)
class Pass:
    """One pass in virtual time."""

    seconds: float
    fixed_seconds: float
    compute_seconds: float
    loaded_bytes: int
    evicted_bytes: int
    planning_seconds: float
    prepared: Any

    @property
    def bound_seconds(self) -> float:
        """The slower of compute and loaded bytes over the link."""
        return max(self.compute_seconds, self.loaded_bytes / LINK_BYTES_PER_S)


def passes(graph: Any, budget: int, n_passes: int = PASSES) -> list[Pass]:
    """Passes until no more stays of one than of the one before."""
    from infinitensor.ir.tasks import COMPUTE
    from infinitensor.pipeline import Limits, Prepared, prepare
    from infinitensor.runtime.simulate import durations, makespan

    mesh = h200()
    found: list[Pass] = []
    for _ in range(n_passes):
        began = time.process_time()
        prepared = prepare(graph, mesh, 0, Limits([budget], evicts=False))
        assert isinstance(prepared, Prepared), prepared
        taken = time.process_time() - began
        program = prepared.program
        seconds, lanes = (np.asarray(column) for column in durations(program, mesh))
        found.append(
            Pass(
                makespan(program, mesh),
                makespan(program, mesh, fixed_order=True),
                float(seconds[lanes == COMPUTE].sum()),
                program.traffic.loaded,
                program.traffic.evicted,
                taken,
                prepared,
            )
        )
        following = after(graph, program)
        if following == graph:
            break
        graph = following
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", nargs="+", type=int, default=[512, 2048, 4096])
    parser.add_argument("--shares", nargs="+", type=float, default=[1.0, 0.75, 0.5, 0.25, 0.1])
    parser.add_argument("--layers", type=int, default=12)
    asked = parser.parse_args()
    total = asked.layers * WIDTH * WIDTH * 4
    passes(network(64, 2, False, 256), 1 << 20, 1)  # what is loaded once is not counted
    for varied in (False, True):
        for rows in asked.rows:
            graph = network(rows, asked.layers, varied)
            for share in asked.shares:
                budget = budget_of(share, rows, asked.layers)
                found = passes(graph, budget)
                first, last = found[0], found[-1]
                print(
                    f"{'varied' if varied else 'equal '} {rows:5d} rows {share:4.0%}: "
                    f"first {1e3 * first.seconds:6.1f} ms "
                    f"({first.seconds / first.bound_seconds:.2f} of its bound), "
                    f"then {1e3 * last.seconds:6.1f} ms ({last.seconds / last.bound_seconds:.2f}), "
                    f"fixed order {1e3 * last.fixed_seconds:6.1f}; "
                    f"loads {last.loaded_bytes / 1e9:.2f} GB, "
                    f"least {max(total * (1 - share), 0) / 1e9:.2f}, evicts "
                    f"{last.evicted_bytes / 1e9:.2f}; planned in "
                    f"{max(p.planning_seconds for p in found):.2f} s, "
                    f"{last.prepared.program.graph.n_tasks} tasks",
                    flush=True,
                )


if __name__ == "__main__":
    main()
