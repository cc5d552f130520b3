"""Programs that a GPU has not seen before run call by call, by torch's kernels on whole tensors.

A plan takes the host some milliseconds, a call of torch a hundredth of one. Only what has the bits
of a plan: steps that generated code has the bits of, or that are too little work for it, and in one
piece. Leaves stay as they are, so that a program that fails can be planned, which says why.
"""

from __future__ import annotations

from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.analysis.changed_products import changes_products
from infinitensor.config import config
from infinitensor.dtypes import dtype_of
from infinitensor.events import lane, watches_runs
from infinitensor.ir.op import At, Spec, n_points
from infinitensor.ir.region import whole_box
from infinitensor.ops.table.numpy_kernels import lower, lower_finish, lower_partial, namespace
from infinitensor.partition import LEAF_ELEMENTS, canonical_layout
from infinitensor.tasking.kernels.worth_compiling import have_bits_of_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from infinitensor.api.evaluate.bound_program import Bound
    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Version
    from infinitensor.ir.graph import Node
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.op import Call, Op
    from infinitensor.runtime import TileTable

SHARE_OF_ROOM = 4
"""The part of a device's free memory that all values of a program may take together: kernels need
some too, and no plan says how much."""
LEAF = LEAF_ELEMENTS["cuda"]


def may_run_on_gpu(bound: Bound) -> bool:
    """Whether a program runs without a plan as it would with one, in memory that is there."""
    engine = bound.session.engine
    if not config.small_elements or config.compile != "auto" or config.tile_elements:
        return False
    if engine.mesh.n_devices > 1 or bound.limits is not None or watches_runs():
        return False
    room = engine.available_bytes(0) // SHARE_OF_ROOM
    if not all(_is_in_one_piece(version) for version in bound.leaves):
        return False
    nodes = bound.numbered.graph_nodes()
    if _held_bytes(bound, nodes) > room:
        return False
    if not all(map(_is_uncut, nodes)) or changes_products(nodes):
        return False
    return have_bits_of_steps(nodes)


def _held_bytes(bound: Bound, nodes: Sequence[Node]) -> int:
    """What all values of a program take together: those made by writes in place, nothing."""
    passing = {value for node in nodes for value in node.outs if value not in bound.kept}
    in_place = {
        node.outs[0]
        for node in nodes
        if node.op.kind == "update" and node.operands[0].value in passing
    }
    specs = enumerate(bound.numbered.specs)
    return sum(spec.n_bytes for value, spec in specs if value not in in_place)


def _is_in_one_piece(version: Version) -> bool:
    """Whether a leaf is one tile on the device, or can be."""
    table = version.table
    if table is None:
        return version.host is not None
    is_one = table.layout.n_tiles == 1 and table.layout.owner(0) == 0
    return is_one and not table.is_file


def _is_uncut(node: Node) -> bool:
    """Whether a plan makes it as it was recorded, and cuts nothing that shows in its bits."""
    op = node.op
    if op.pairs or op.alone is not None or op.kind == "program":
        return False
    sizes = [prod(shape) for shape in node.shapes] + [out.n_elements for out in node.call.outs]
    if op.kind == "reduction":
        sizes.append(n_points(op, node.call))
    return max(sizes) <= LEAF


class OnGpu:
    """Values on a GPU, as calls that run without a plan see them: torch's tensors."""

    kind = "cuda"
    spares_leaves = True

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kernels: dict[int, Callable[[list[Any], list[Any]], None]] = {}
        """By identity of their calls, which loops repeat."""
        self._layouts: dict[tuple[int, ...], Layout] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Kernels start on our stream; none is compiled for what may not be repeated."""
        lane.in_task = lane.is_first = True
        try:
            with self._session.engine.running(), np.errstate(all="ignore"):
                yield
        finally:
            lane.in_task = lane.is_first = False

    def leaf(self, version: Version) -> TileTable:
        """The table of a leaf."""
        if version.table is not None:
            return version.table
        assert version.host is not None
        self._session.counts["bytes_loaded"] += version.host.nbytes
        return self._session.store(version.host, self._layout(version.shape))

    def array(self, table: TileTable) -> Any:
        """All of a value."""
        return table.only_tile

    def blank(self, spec: Spec) -> TileTable:
        """Memory for a value."""
        return self._session.engine.blank(self._layout(spec.shape), spec.shape, spec.dtype)

    def _layout(self, shape: tuple[int, ...]) -> Layout:
        found = self._layouts.get(shape)
        if found is None:
            found = self._layouts[shape] = canonical_layout(shape, self._session.engine.mesh, 0)
        return found

    def may_write(self, array: Any) -> bool:
        """Whether it may be changed."""
        return True

    def call(self, op: Op, call: Call, ins: list[Any], outs: list[Any]) -> None:
        """Make results of a call that is no update."""
        kernel = self._kernels.get(id(call))
        if kernel is None:
            kernel = self._kernels[id(call)] = _kernel(op, call)
        kernel(ins, outs)


def _kernel(op: Op, call: Call) -> Callable[[list[Any], list[Any]], None]:
    """The op on whole tensors, as a task of a plan runs it."""
    if op.kind == "reduction":
        return _reduction(op, call)
    kernel = lower(op, call, "cuda")
    if op.kind == "elementwise":
        return lambda ins, outs: kernel(ins, outs, None)
    is_whole = op.need is None or (op.moves and all(spec.n_elements for spec in call.outs))

    def run(ins: list[Any], outs: list[Any]) -> None:
        boxes: tuple[Any, ...] = tuple(whole_box(np.shape(x)) for x in ins)
        if not is_whole:
            assert op.need is not None
            specs = [Spec(tuple(np.shape(x)), dtype_of(x)) for x in ins]
            boxes = op.need(whole_box(call.outs[0].shape), tuple(specs), **dict(call.params))
            ins = [
                None if box is None else x[tuple(slice(lo, hi) for lo, hi in box)] if box else x
                for x, box in zip(ins, boxes, strict=True)
            ]
        kernel(ins, outs, At(tuple(whole_box(spec.shape) for spec in call.outs), boxes))

    return run


def _reduction(op: Op, call: Call) -> Callable[[list[Any], list[Any]], None]:
    partial, finish = lower_partial(op, call, "cuda"), lower_finish(op, call, "cuda")
    at_once, params = op.at_once.get("cuda"), dict(call.params)
    gone = call.form.contracted
    axes = tuple(axis for axis, label in enumerate(call.form.inputs[0]) if label in gone)

    def run(ins: list[Any], outs: list[Any]) -> None:
        tile = ins[0]
        if at_once is not None and 0 not in tile.shape:
            kept = [n for axis, n in enumerate(tile.shape) if axis not in axes]
            if at_once(namespace("cuda"), tile, axes, outs[0].reshape(kept), **params):
                return
        boxes = tuple(whole_box(np.shape(x)) for x in ins)
        finish(partial(ins, At(tuple(whole_box(spec.shape) for spec in call.outs), boxes)), outs)

    return run
