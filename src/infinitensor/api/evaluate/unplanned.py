"""Little work that was never seen before runs call by call, on whole arrays, without a plan.

Planning takes about a millisecond a call, and pays when the plan is used again. A loop whose shapes
change with every step never uses one again. So what is little work and has one memory is planned
the second time it comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.eager.changing_places import (
    UNPLANNED_ELEMENTS,
    blank,
    elements_of,
    note_places,
    rounds_alike,
    runs_unplanned,
)
from infinitensor.api.eager.whole_array import small_kernel
from infinitensor.interrupts import without_interrupts
from infinitensor.ir.op import At
from infinitensor.ir.region import whole_box
from infinitensor.ir.view import take
from infinitensor.runtime import TileTable
from infinitensor.tasking.groups.write_group import put

if TYPE_CHECKING:
    from infinitensor.api.evaluate.bound_program import Bound
    from infinitensor.api.session.version import Node, Version


def is_little(bound: Bound) -> bool:
    """Whether a program is better run at once than planned."""
    session = bound.session
    if bound.peek or bound.lean or not runs_unplanned(session):
        return False
    work = sum(elements_of(node) for node in bound.nodes)
    room = session.engine.available_bytes(0)
    return (
        work <= UNPLANNED_ELEMENTS
        and sum(spec.n_bytes for spec in bound.numbered.specs) < room
        and all(version.host is not None for version in bound.leaves)
        and all(rounds_alike(node.op, node.call, node.shapes) for node in bound.nodes)
    )


class AtOnce:
    """The values of a program while its calls run."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.tables: dict[int, TileTable] = {}
        self.reads = bound.inside_reads.copy()
        for version in bound.leaves:
            number = bound.numbers[id(version)]
            assert version.host is not None
            self.tables[number] = version.table or TileTable.of_host(version.host)

    def run(self) -> None:
        """Run every call in recorded order; what was made stays made if one raises."""
        note_places(self.bound.nodes)
        with without_interrupts(), np.errstate(all="ignore"):
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
            made = [blank(self.bound.session, spec.shape, spec.dtype) for spec in node.call.outs]
            small_kernel(node.op, node.call)(ins, [table.whole for table in made])
            self.tables.update(zip(outs, made, strict=True))
        del ins
        for number in numbers:
            if number is not None:
                self.reads[number] -= 1
                if not self.reads[number] and number not in self.bound.kept:
                    self.tables.pop(number, None)

    def _view_of(self, number: int, access: Any, shape: tuple[int, ...]) -> Any:
        whole = self.tables[number].whole
        if access is None:
            return whole
        return take(whole, access, whole_box(shape), whole_box(whole.shape))

    def update(self, node: Node, numbers: list[int | None], ins: list[Any]) -> TileTable:
        """The next version of a base: in place where nothing else will read the one before."""
        base = numbers[0]
        assert base is not None
        table = self.tables[base]
        reads_itself = node.region is None and base in numbers[1:]
        if not self._may_use_up(base) or reads_itself or not table.whole.flags.writeable:
            fresh = blank(self.bound.session, table.whole.shape, table.dtype)
            fresh.whole[...] = table.whole
            table = fresh
        out = table.whole
        if node.region is not None:
            put(out, node.region, whole_box(node.shapes[1]), whole_box(out.shape), ins[1])
        else:
            boxes = (whole_box(out.shape), *(whole_box(np.shape(x)) for x in ins[1:]))
            kernel = node.op.kernel_for("cpu")
            kernel(np, *ins[1:], out=out, at=At(boxes[:1], boxes), **dict(node.call.params))
        return table

    def _may_use_up(self, number: int) -> bool:
        if number in self.bound.kept:
            return False
        version = self.bound.versions.get(number)
        if version is None or version.node is not None:
            return True  # made here
        if id(version) not in self.bound.used_up or version.table is None:
            return False
        version.table = version.host = None
        return True

    def results(self) -> list[tuple[Version, TileTable]]:
        """Waiting versions whose values are there."""
        versions = self.bound.versions
        found = [(versions[n], t) for n, t in self.tables.items() if n in versions]
        return [(version, table) for version, table in found if version.node is not None]
