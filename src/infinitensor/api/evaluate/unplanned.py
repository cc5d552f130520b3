"""What was never seen before runs call by call, on whole arrays, without a plan.

Planning takes about a millisecond a call, and pays when the plan is used again. A loop whose shapes
change with every step never uses one again. So what is little work and has one memory is planned
the second time it comes, or the eighth, if it is long (`runs_to_plan`); and on one GPU whatever a
plan would run by the same kernels of torch, or by kernels of the same bits, which it would have
compiled beside these (`unplanned_on_gpu.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.analysis.changed_products import changes_products
from infinitensor.api.eager.changing_places import (
    UNPLANNED_ELEMENTS,
    blank,
    elements_of,
    note_places,
    rounds_alike,
    runs_unplanned,
)
from infinitensor.api.eager.whole_array import small_kernel
from infinitensor.api.evaluate.unplanned_on_gpu import OnGpu, may_run_on_gpu
from infinitensor.api.session.version import Version
from infinitensor.interrupts import without_interrupts
from infinitensor.ir.op import At, Spec
from infinitensor.ir.region import whole_box
from infinitensor.ir.view import take
from infinitensor.ops.table.numpy_kernels import namespace
from infinitensor.partition import Multiplied, is_in_one_piece
from infinitensor.runtime import TileTable
from infinitensor.tasking.groups.write_group import put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.api.evaluate.bound_program import Bound
    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Node
    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.op import Call, Op


LONG_PROGRAM = 256
"""Different calls from which planning a program takes so long that its user waits for it."""
LITTLE_CALLS = 16
"""Different calls that `UNPLANNED_ELEMENTS` are for; of more, each may have as many again."""
POINTS_OF_AN_ELEMENT = 16
"""Multiplications of a product that take as long as an element of other calls."""


def n_different(nodes: Sequence[Node]) -> int:
    """Calls of a program that are not alike: planning takes as long as these; the others gain."""
    return len({id(node.call) for node in nodes})


def runs_to_plan(bound: Bound) -> int:
    """How often a program runs without a plan before it gets one.

    A plan takes as long as seven runs without one, whatever is planned. One second is waited for,
    and few programs of so many different calls are run as often.
    """
    return 7 if n_different(bound.nodes) >= LONG_PROGRAM else 1


def is_little(bound: Bound) -> bool:
    """Whether a program is better run at once than planned."""
    session = bound.session
    if bound.peek or bound.lean:
        return False
    if session.engine.mesh.kind == "cuda":
        return may_run_on_gpu(bound)
    return is_short_work(bound) and not cut_calls(bound)


def is_short_work(bound: Bound) -> bool:
    """Whether planning a program on the host takes longer than its calls do one by one."""
    session, nodes = bound.session, bound.nodes
    if not runs_unplanned(session):
        return False
    room = session.engine.available_bytes(0)
    most = UNPLANNED_ELEMENTS * max(n_different(nodes), LITTLE_CALLS) // LITTLE_CALLS
    return (
        sum(map(_work_of, nodes)) <= most
        and sum(spec.n_bytes for spec in bound.numbered.specs) < room
        and all(version.host is not None for version in bound.leaves)
    )


def _work_of(node: Node) -> int:
    """Elements that take as long as a call."""
    n = elements_of(node)
    if node.op.kind != "contraction":
        return n
    return max(n // POINTS_OF_AN_ELEMENT, *(spec.n_elements for spec in node.call.outs))


def cut_calls(bound: Bound) -> list[Node]:
    """Calls that a plan may cut, which shows in their bits."""
    found = [node for node in bound.nodes if not rounds_alike(node.op, node.call, node.shapes)]
    uncut = {id(node) for node in found if _is_uncut_product(node, bound.session.engine.mesh)}
    if uncut and not changes_products(bound.numbered.graph_nodes()):
        found = [node for node in found if id(node) not in uncut]
    return found


def _is_uncut_product(node: Node, mesh: Mesh) -> bool:
    """Whether a call multiplies what no plan cuts."""
    if node.op.kind != "contraction" or elements_of(node) > MOST_MULTIPLIED:
        return False
    operands = [
        Multiplied(x, shape, x.dtype, access)
        for x, shape, access in zip(node.inputs, node.shapes, node.accesses, strict=True)
        if isinstance(x, Version)
    ]
    return is_in_one_piece(node.call, operands, mesh)


MOST_MULTIPLIED = 1 << 24
"""Multiplications of a product that runs without a plan: below what a plan's tasks share."""


def to_make_first(bound: Bound) -> list[Version]:
    """The few values of a long program that get a plan of their own, so that the rest needs none.

    They are those that a plan cuts: the sums of a large table, before a loop of short calls.
    """
    nodes = bound.nodes
    if bound.peek or bound.lean or bound.session.engine.mesh.kind != "cpu":
        return []
    if n_different(nodes) < LONG_PROGRAM or not is_short_work(bound):
        return []
    cut = cut_calls(bound)
    if len(cut) > len(nodes) // CALLS_OF_A_PLAN:
        return []
    versions = (ref() for node in cut for ref in node.outs)
    return [version for version in versions if version is not None and version.node is not None]


CALLS_OF_A_PLAN = 64
"""Calls that run without a plan for one that is planned alone."""


class OnHost:
    """Values in host memory, as calls that run without a plan see them: NumPy's arrays."""

    kind = "cpu"
    spares_leaves = False

    def __init__(self, session: Session) -> None:
        self._session = session

    def running(self) -> Any:
        """Nothing has to be set."""
        return np.errstate(all="ignore")

    def leaf(self, version: Version) -> TileTable:
        """The table of a leaf."""
        assert version.host is not None
        return version.table or TileTable.of_host(version.host)

    def array(self, table: TileTable) -> Any:
        """All of a value."""
        return table.whole

    def blank(self, spec: Spec) -> TileTable:
        """Memory for a value."""
        return blank(self._session, spec.shape, spec.dtype)

    def may_write(self, array: Any) -> bool:
        """Whether it may be changed."""
        return bool(array.flags.writeable)

    def call(self, op: Op, call: Call, ins: list[Any], outs: list[Any]) -> None:
        """Make results of a call that is no update."""
        small_kernel(op, call)(ins, outs)


class AtOnce:
    """The values of a program while its calls run."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        session = bound.session
        is_on_gpu = session.engine.mesh.kind == "cuda"
        self.where: OnHost | OnGpu = OnGpu(session) if is_on_gpu else OnHost(session)
        self.tables: dict[int, TileTable] = {}
        self.reads = bound.inside_reads.copy()
        for version in bound.leaves:
            self.tables[bound.numbers[id(version)]] = self.where.leaf(version)

    def run(self) -> None:
        """Run every call in recorded order; what was made stays made if one raises."""
        if self.where.kind == "cpu":
            note_places(self.bound.nodes)
        with without_interrupts(), self.where.running():
            for node, outs in zip(self.bound.nodes, self.bound.numbered.outs, strict=True):
                try:
                    self._call(node, outs)
                except Exception as error:
                    error.add_note(f"infinitensor: in {node.op.name!r}, recorded at {node.site}")
                    raise

    def _call(self, node: Node, outs: tuple[int, ...]) -> None:
        numbers = [
            self.bound.numbers[id(v)] if hasattr(v, "readers") else None for v in node.inputs
        ]
        ins = [
            given if number is None else self._view_of(number, access, shape)
            for given, number, access, shape in zip(
                node.inputs, numbers, node.accesses, node.shapes, strict=True
            )
        ]
        if node.op.kind == "update":
            assert numbers[0] is not None
            self.tables[outs[0]] = self.update(node, numbers, ins)
        else:
            made = [self.where.blank(spec) for spec in node.call.outs]
            self.where.call(node.op, node.call, ins, [self.where.array(table) for table in made])
            self.tables.update(zip(outs, made, strict=True))
        del ins
        for number in numbers:
            if number is not None:
                self.reads[number] -= 1
                if not self.reads[number] and number not in self.bound.kept:
                    self.tables.pop(number, None)

    def _view_of(self, number: int, access: Any, shape: tuple[int, ...]) -> Any:
        whole = self.where.array(self.tables[number])
        if access is None:
            return whole
        return take(whole, access, whole_box(shape), whole_box(whole.shape))

    def update(self, node: Node, numbers: list[int | None], ins: list[Any]) -> TileTable:
        """The next version of a base: in place where nothing else will read the one before."""
        base = numbers[0]
        assert base is not None
        where, table = self.where, self.tables[base]
        out = where.array(table)
        reads_itself = node.region is None and base in numbers[1:]
        if not self._may_use_up(base) or reads_itself or not where.may_write(out):
            table = where.blank(Spec(tuple(out.shape), table.dtype))
            before, out = out, where.array(table)
            out[...] = before
        if node.region is not None:
            put(out, node.region, whole_box(node.shapes[1]), whole_box(out.shape), ins[1])
        else:
            boxes = (whole_box(out.shape), *(whole_box(np.shape(x)) for x in ins[1:]))
            kernel, xp = node.op.kernel_for(where.kind), namespace(where.kind)
            kernel(xp, *ins[1:], out=out, at=At(boxes[:1], boxes), **dict(node.call.params))
        return table

    def _may_use_up(self, number: int) -> bool:
        if number in self.bound.kept:
            return False
        version = self.bound.versions.get(number)
        if version is None or version.node is not None:
            return True  # made here
        if id(version) not in self.bound.used_up or version.table is None:
            return False
        if self.where.spares_leaves:
            return False
        version.table = version.host = None
        return True

    def results(self) -> list[tuple[Version, TileTable]]:
        """Waiting versions whose values are there."""
        versions = self.bound.versions
        found = [(versions[n], t) for n, t in self.tables.items() if n in versions]
        return [(version, table) for version, table in found if version.node is not None]
