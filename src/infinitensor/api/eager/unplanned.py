"""Little work that was never seen before runs call by call, on whole arrays, without a plan.

Planning takes about a millisecond a call, and pays when the plan is used again. A loop whose shapes
change with every step never uses one again. So what is little work and has one memory is planned
the second time it comes. Only calls that a plan would not cut, or that do not round by tiles, run
so: bits do not depend on what ran before.

Places of a program whose calls ran so twice have *changing shapes*, and somebody waits for each of
their values. From then on they are not recorded, where their operands are on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.eager.whole_array import small_kernel
from infinitensor.api.session.version import Version, user_site
from infinitensor.config import config
from infinitensor.interrupts import without_interrupts
from infinitensor.ir.op import At, n_points
from infinitensor.ir.region import whole_box
from infinitensor.ir.view import take
from infinitensor.partition import canonical_layout
from infinitensor.partition.tile_shape import LEAF_ELEMENTS
from infinitensor.runtime import TileTable
from infinitensor.tasking.groups.write_group import put

if TYPE_CHECKING:
    from infinitensor.api.evaluate.bound_program import Bound
    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Node, Site
    from infinitensor.ir.op import Call, Op

UNPLANNED_ELEMENTS = 1 << 22
"""Elements of all calls together, up to which no plan is made: below what is worth compiling."""
MEDIUM = 1 << 20
"""Elements that a call at such a place may have: what more cores would not gain much on."""
LEAF = LEAF_ELEMENTS["cpu"]
UNROUNDED = ("elementwise", "creation", "update", "gather")


def runs_unplanned(session: Session) -> bool:
    """Whether a session runs anything without a plan."""
    if not config.small_elements or config.compile != "auto" or config.tile_elements:
        return False
    return session.engine.mesh.is_one_memory


def is_little(bound: Bound) -> bool:
    """Whether a program is better run at once than planned."""
    session = bound.session
    if bound.peek or bound.lean or not runs_unplanned(session):
        return False
    work = sum(_elements(node, node.shapes) for node in bound.nodes)
    room = session.engine.available_bytes(0)
    return (
        work <= UNPLANNED_ELEMENTS
        and sum(spec.n_bytes for spec in bound.numbered.specs) < room
        and all(version.host is not None for version in bound.leaves)
        and all(_rounds_alike(node.op, node.call, node.shapes) for node in bound.nodes)
    )


Shapes = Sequence[tuple[int, ...]]


def _elements(node: Node, shapes: Shapes) -> int:
    if node.op.kind == "update":
        return prod(shapes[0] if node.region is None else shapes[1])
    return max(n_points(node.op, node.call), *(spec.n_elements for spec in node.call.outs))


def _rounds_alike(op: Op, call: Call, shapes: Shapes) -> bool:
    """Whether a plan would leave the call in one piece, or its pieces do not show."""
    if op.kind in UNROUNDED or op.pairs or op.name == "_copy":
        return True
    volumes = [prod(shape) for shape in shapes] + [spec.n_elements for spec in call.outs]
    if op.kind == "contraction":
        return min(volumes) < LEAF // 4 and max(volumes) <= LEAF
    return max(prod(call.form.sizes), *volumes) <= LEAF


places: dict[Any, int] = {}
"""Places in the program whose calls ran without a plan: 1, and 1 more when there were others."""
_calls_at: dict[Any, set[int]] = {}
"""The calls of each op that ran there, by identity."""


def _note_places(nodes: Sequence[Node]) -> None:
    if len(places) > 65536:
        places.clear()
        _calls_at.clear()
    found: dict[Any, set[int]] = {}
    for node in nodes:
        found.setdefault((node.site.key(), node.op.name), set()).add(id(node.call))
    for (place, op), calls in found.items():
        known = _calls_at.setdefault((place, op), calls)
        places[place] = places.get(place, 1) + (not calls <= known)
        if len(known) < 64:
            known |= calls


def all_shapes_change(nodes: Sequence[Node]) -> bool:
    """Whether all calls are made at places of changing shapes, but for writes of what they make.

    No plan of it is worth its making then, though the same shapes may return.
    """
    return bool(places) and all(
        _elements(node, node.shapes) <= MEDIUM
        and (node.op.kind == "update" or places.get(node.site.key(), 0) > 1)
        for node in nodes
    )


def has_changing_shapes(session: Session, n_elements: int, site: Site | None = None) -> bool:
    """Whether a call of so many elements, made at this place, is better run than recorded."""
    if not places or n_elements > MEDIUM or not runs_unplanned(session):
        return False
    return places.get((site or user_site()).key(), 0) > 1


def runs_at_once(session: Session, op: Op, call: Call, shapes: Shapes, site: Site) -> bool:
    """Whether a call on host values is made at a place of changing shapes, with a plan's bits."""
    if not places or op.whole or op.kind == "update":
        return False
    most = max(n_points(op, call), *map(prod, shapes), *(s.n_elements for s in call.outs))
    if not has_changing_shapes(session, most, site) or not _rounds_alike(op, call, shapes):
        return False
    room = session.engine.available_bytes(0)
    return 2 * sum(spec.n_bytes for spec in call.outs) < room


_layout_of = lru_cache(maxsize=1024)(canonical_layout)


def blank(session: Session, shape: tuple[int, ...], dtype: np.dtype[Any]) -> TileTable:
    """Memory for a value: the ledger's, where it is not small."""
    if prod(shape) <= config.small_elements:
        return TileTable.of_host(np.empty(shape, dtype))
    if session.dropped:
        session.drain()  # what was used last is still in cache
    layout = _layout_of(shape, session.engine.mesh, config.tile_elements)
    return session.with_room(lambda: session.engine.blank(layout, shape, dtype))


def keep(session: Session, table: TileTable, name: str, site: Site) -> Version:
    """A version that has its values, which a call of this name made here, in memory of `blank`."""
    version = Version(session, table.whole.shape, table.dtype)
    if table.n_bytes:
        session.keep(version, table, name, site)
    else:
        version.host = table.whole
    return version


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
        _note_places(self.bound.nodes)
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
            given if number is None else self._seen(number, access, shape)
            for given, number, access, shape in zip(
                node.inputs, numbers, node.accesses, node.shapes, strict=True
            )
        ]
        if node.op.kind == "update":
            assert numbers[0] is not None
            self.tables[outs[0]] = self.updated(node, numbers, ins)
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

    def _seen(self, number: int, access: Any, shape: tuple[int, ...]) -> Any:
        whole = self.tables[number].whole
        if access is None:
            return whole
        return take(whole, access, whole_box(shape), whole_box(whole.shape))

    def updated(self, node: Node, numbers: list[int | None], ins: list[Any]) -> TileTable:
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

    def made(self) -> list[tuple[Version, TileTable]]:
        """Waiting versions whose values are there."""
        versions = self.bound.versions
        found = [(versions[n], t) for n, t in self.tables.items() if n in versions]
        return [(version, table) for version, table in found if version.node is not None]
