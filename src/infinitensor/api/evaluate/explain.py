"""Explanations: the plan of waiting tensors, for programs and for people."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infinitensor.api.evaluate.bound_program import Bound
from infinitensor.api.evaluate.demand import fit_bound
from infinitensor.api.evaluate.evaluate import way_of
from infinitensor.api.evaluate.few_of_file import pick
from infinitensor.api.evaluate.waiting import waiting_nodes
from infinitensor.errors import InfiniTensorError, gib
from infinitensor.ir.graph import Dependence
from infinitensor.ir.layout import place_name
from infinitensor.ir.tasks import LOAD
from infinitensor.price import move_seconds
from infinitensor.runtime.simulate import makespan

if TYPE_CHECKING:
    from infinitensor.api.session.cell import BaseTensor
    from infinitensor.ir.tasks import Program, TileSet
    from infinitensor.runtime import TileTable

NOTHING = Dependence(0, 0, 0, 0, 0, 0)
WAYS = {
    "planned": "together by this plan",
    "repeated": "together by a plan that has run before",
    "few_kernels": "as kernels that have run before and are started again",
    "unplanned": "one after another without a plan, since shapes change here",
}
"""How the calls that wait will run (`stats()["ways"]`)."""


@dataclass(frozen=True)
class Plan:
    """The plan of an evaluation that has not been run."""

    n_tasks: int
    moves: dict[tuple[str, str], int]
    peak_bytes: dict[tuple[str, str], int]
    est_seconds: float
    layouts: dict[str, str]
    dependence: Dependence
    steps: tuple[dict[str, Any], ...]
    plan_bytes: int
    smaller_tiles: bool
    loaded_bytes: int = 0
    """Bytes that come to devices from lower tiers and from files."""
    evicted_bytes: int = 0
    """Bytes that are written to lower tiers."""
    order: str = ""
    """The serial order that memory was given in; empty where nothing is loaded or evicted."""
    stays: dict[str, int] = field(default_factory=dict)
    """Bytes of a lower tier that stay in memory for the next run: tensor -> bytes."""
    eager: tuple[str, ...] = ()
    """Steps that would run without generated code, though they are worth it: op and line."""
    way: str = ""
    """The way that the calls will run, as `stats()["ways"]` counts it; empty if none waits."""
    n_calls: int = 0
    """The calls that wait."""

    @property
    def moved_bytes(self) -> int:
        """Bytes that cross between devices."""
        return sum(self.moves.values())

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "n_tasks": self.n_tasks,
            "moved_bytes": self.moved_bytes,
            "moves": {f"{a}->{b}": n for (a, b), n in self.moves.items()},
            "peak_bytes": {f"{d}/{t}": n for (d, t), n in self.peak_bytes.items()},
            "est_seconds": self.est_seconds,
            "layouts": self.layouts,
            "steps": [{**step, "site": str(step["site"])} for step in self.steps],
            "plan_bytes": self.plan_bytes,
            "smaller_tiles": self.smaller_tiles,
            "loaded_bytes": self.loaded_bytes,
            "evicted_bytes": self.evicted_bytes,
            "order": self.order,
            "stays": self.stays,
            "eager": list(self.eager),
            "way": self.way,
            "n_calls": self.n_calls,
            "dependence": {
                name: getattr(self.dependence, name) for name in Dependence.__dataclass_fields__
            },
        }

    def __str__(self) -> str:
        if not self.n_tasks:
            return "nothing to run: every value is stored"
        d = self.dependence
        lines = [
            f"plan: {self.n_tasks} tasks in {len(self.steps)} steps, "
            f"{gib(self.moved_bytes)} moved between devices, about {self.est_seconds:.3g} s",
            f"way: {self.way}: {self.n_calls} calls run {WAYS[self.way]}",
            f"dependence: {d.n_nodes} groups, {d.n_edges} edges, critical path {d.critical_path}, "
            f"widest level {d.widest_level}, {d.versions_shared} writes in place, "
            f"{d.n_joins} joins",
            "memory: "
            + ", ".join(
                f"{device}{'' if tier == 'device' else f' {tier}'} {gib(n)}"
                for (device, tier), n in sorted(self.peak_bytes.items())
            ),
        ]
        if self.order:
            lines.append(
                f"tiers: {gib(self.loaded_bytes)} loaded, {gib(self.evicted_bytes)} evicted, "
                f"tasks in the order {self.order!r}"
            )
        lines += [f"  stays: {gib(n)} of {tensor}" for tensor, n in self.stays.items()]
        if self.smaller_tiles:
            lines.append(
                "tiles were made smaller to fit the budget: last bits of library kernels may differ"
            )
        lines += [f"  no generated code: {step}" for step in self.eager]
        width = max(len(step["op"]) for step in self.steps)
        for k, step in enumerate(self.steps):
            if k == 40:
                lines.append(
                    f"  … and {len(self.steps) - 40} more steps: it.plan(...).steps has them all"
                )
                break
            lines.append(
                f"  {step['op']:<{width}}  {step['tasks']:>6} tasks  {step['shape']:<20} "
                f"{step['layout']:<24} {step['site']}{'  in one piece' * step['whole']}"
                f"{'  in one pass over rows' * step['swept']}"
            )
        for (a, b), n in sorted(self.moves.items()):
            lines.append(f"  move {a} -> {b}: {gib(n)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


def plan(*tensors: BaseTensor, mesh: Any = None, strategy: str = "auto") -> Plan:
    """The plan of computing these tensors: tasks, bytes moved, memory peaks. Runs nothing.

    >>> import infinitensor as it
    >>> with it.init("cpu*2"):
    ...     x = it.ones((1000, 1000)) + 1
    ...     it.plan(x).moved_bytes
    0
    """
    if mesh is not None:
        raise ValueError("it.plan(mesh=...): this version plans for the session's own devices")
    if strategy != "auto":
        raise ValueError(f"it.plan(strategy={strategy!r}): this version has 'auto'")
    if not tensors:
        raise TypeError("it.plan() needs at least one tensor")
    session = tensors[0]._session
    with session.guard():
        session.check_open()
        session.drain()
        waiting = [t._version for t in tensors if t._version.node is not None]
        if not waiting:
            return Plan(0, {}, {}, 0.0, {}, NOTHING, (), 0, False)
        if any(node.is_stopped for node in waiting_nodes(waiting)):
            raise InfiniTensorError(
                "an evaluation of this was stopped and goes on at the next compute: there is no "
                "plan to make before that"
            )
        if session.has_files:
            pick(session, waiting, None)
        bound = Bound(session, waiting).detail()
        way = way_of(bound)
        bound, prepared = fit_bound(bound)
    names = [device.name for device in session.engine.mesh.devices]

    def name(device: int) -> str:
        return place_name(device) if device < 0 else names[device]

    program = prepared.program
    graph = prepared.analysed.graph
    steps: list[dict[str, Any]] = []
    layouts = {}
    alone = {(f.op, f.site) for f in program.graph.families if f.n_groups == 1}
    for group, laid in zip(prepared.analysed.groups, prepared.plan.groups, strict=True):
        node = laid.space.last
        value = node.outs[0]
        ops = [graph.nodes[n].op.name for n in group.nodes]
        layout = str(prepared.plan.layouts[value])
        layouts[f"{len(steps)}:{node.op.name}"] = layout
        steps.append(
            {
                "op": "+".join(ops) if len(ops) <= 4 else f"{ops[0]}+…+{ops[-1]} ({len(ops)})",
                "tasks": len(laid.devices),
                "shape": str(graph.specs[value].shape),
                "layout": layout,
                "site": node.site,
                "whole": node.op.whole,
                "swept": laid.sweep >= 0 and (node.op.name, node.site) not in alone,
            }
        )
    seconds = sum(f.seconds * f.n for f in program.graph.families)
    seconds /= max(
        prepared.plan.mesh.workers,
        prepared.plan.mesh.n_devices if prepared.plan.mesh.kind == "cuda" else 1,
    )
    seconds += sum(move_seconds(n, prepared.plan.mesh) for n in program.moved.values())
    traffic = program.traffic
    if traffic.order:
        seconds = makespan(program, prepared.plan.mesh)
    lower = {"host": traffic.host_peak, "disk": traffic.disk_peak}
    return Plan(
        program.graph.n_tasks,
        {(name(a), name(b)): n for (a, b), n in program.moved.items()},
        {
            (name(d), "device"): n + bound.outside_bytes.get(d, 0)
            for d, n in program.peak_bytes.items()
        }
        | {(names[0], tier): n for tier, n in lower.items() if n},
        seconds,
        layouts,
        prepared.analysed.dependence,
        tuple(steps),
        program.plan_bytes,
        prepared.tile_elements != 0 and prepared.tile_elements != bound.key[-1][0],
        traffic.loaded,
        traffic.evicted,
        traffic.order,
        _stays(program, bound),
        tuple(f"{f.op} at {f.site}" for f in program.graph.families if f.eager),
        way,
        len(bound.nodes),
    )


def name_of(table: TileTable) -> str:
    """A stored tensor for people: what made it, and where."""
    op, site = table.made
    return f"{op} at {site}"


def _stays(program: Program, bound: Bound) -> dict[str, int]:
    """Bytes of each tensor that is read from a lower tier and is in memory in the end."""
    found = {name_of(t): sum(t.device_bytes().values()) for t in bound.tables if t.was_read}
    cached = set(program.cached)
    sets = sorted(program.graph.tiles, key=lambda tiles: tiles.first)
    firsts = [tiles.first for tiles in sets]

    def set_of(tile: int) -> TileSet:
        return sets[bisect_right(firsts, tile) - 1]

    for family in program.graph.families if cached else ():
        if family.lane != LOAD or family.many is None:
            continue
        borders, sources = family.many
        for i, tile in enumerate(family.writes[0].tolist()):
            if tile in cached:
                tiles = set_of(tile)
                name = name_of(bound.tables[set_of(int(sources[borders[i]])).leaf])
                box = tiles.boxes[tile - tiles.first]
                n_bytes = int((box[:, 1] - box[:, 0]).prod()) * tiles.dtype.itemsize
                found[name] = found.get(name, 0) + n_bytes
    return found


def explain(*tensors: BaseTensor) -> Plan:
    """The plan of these tensors; print it."""
    return plan(*tensors)
