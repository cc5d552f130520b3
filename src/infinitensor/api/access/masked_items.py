"""`x[mask] = f(x[mask], y[mask])` as `where(mask, f(x, y), x)`: nothing is gathered or scattered.

What was selected by a mask and only changed element by element on its way back to the same mask
may as well be computed in place: one fused pass, in place of a list of indices, a gather for
each operand and a scatter. It costs the calls for elements that are not selected, so it is left
where few are.
"""

from __future__ import annotations

import weakref
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.api.eager import numpy_loops
from infinitensor.api.eager.changing_places import (
    UNPLANNED_ELEMENTS,
    blank,
    has_changing_shapes,
    keep,
    runs_unplanned,
)
from infinitensor.api.eager.moved import move
from infinitensor.api.evaluate.evaluate import evaluate
from infinitensor.api.record.late import call_op, is_tensor, late, new_tensor
from infinitensor.api.record.record import wait
from infinitensor.api.session.call_cache import cached_rule
from infinitensor.api.session.version import Version, user_site
from infinitensor.api.small import host_values
from infinitensor.ir.op import Call, Spec
from infinitensor.ir.view import structure
from infinitensor.ops.move.mask import packed, select_into
from infinitensor.ops.table.registry import TABLE, broadcast_form

if TYPE_CHECKING:
    from infinitensor.api.session.cell import AnyTensor, BaseTensor
    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Node
    from infinitensor.ir.op import Op
    from infinitensor.ir.view import Access

SELECT = "_mask_select"
MOST_TABLE_ELEMENTS = 1 << 18
"""Elements of a tensor of which rows are selected at once: to copy them takes less than a plan,
which would read them where they are. (Single elements may go back to where they are from.)"""
MOST_CALLS = 32
GATHERED_TIMES = 16
"""Elements for each selected one, from which more than two calls are better gathered."""


class Read(NamedTuple):
    """An input of a call: all of a version, or a view of it."""

    version: Version
    access: Access | None
    shape: tuple[int, ...]


# --- selecting ------------------------------------------------------------------------------------


class Selection(NamedTuple):
    """A selection by a mask: of the first input, by the second; inputs and views as of a node."""

    inputs: tuple[Version, Version | None]
    accesses: tuple[Access | None, ...]
    shapes: tuple[tuple[int, ...], ...]
    recorded: Recorded | None
    """How the mask had been recorded; it may be gone."""


class Packed(NamedTuple):
    """A selection that was made at once, of what may have been written or freed since."""

    sources: tuple[weakref.ref[Version], weakref.ref[Version]]
    accesses: tuple[Access | None, ...]
    shapes: tuple[tuple[int, ...], ...]
    recorded: Recorded | None


_made_by: weakref.WeakKeyDictionary[Version, Any] = weakref.WeakKeyDictionary()
"""How masks that were counted had been recorded: counting lets go of their nodes."""
_packed: weakref.WeakKeyDictionary[Version, Packed] = weakref.WeakKeyDictionary()
"""Selections that were made at once, by the versions that hold them."""
_last: list[weakref.ref[Version]] = []
"""The last selections by one mask."""


def select(tensor: AnyTensor, mask: Any) -> AnyTensor:
    """`tensor[mask]`: the mask is computed and counted now, unless the last selection did that."""
    if not is_tensor(mask):
        return call_op("_masked", tensor, mask)  # type: ignore[no-any-return]
    seen = mask
    compute_masks(tensor)
    found = _selected_now(tensor, seen)
    if found is not None:
        return new_tensor(tensor, found)
    node = _same_selected(tensor, seen)
    if node is not None:
        if seen._version is not node.inputs[1]:
            seen = new_tensor(seen, node.inputs[1])
        made = call_op("_mask_select", tensor, seen, **dict(node.call.params))
    else:
        version = seen._version
        recorded = None if seen._view is not None else _record_of(version, 4)
        made = packed(late.namespace, tensor, seen)
        if made is None:
            made = call_op("_masked", tensor, seen)
        else:
            _note_packed(made, tensor, seen, recorded)
        if recorded is not None:
            _made_by[version] = recorded
        _last.clear()
    if made._owner is None and is_selection(made._version):
        _last.append(weakref.ref(made._version))
    return made  # type: ignore[no-any-return]


def _note_packed(
    made: BaseTensor, tensor: BaseTensor, mask: BaseTensor, recorded: Recorded | None
) -> None:
    """Remember what was selected at once: it may be changed and go back to where it is from."""
    held = made._version
    if held.node is not None:  # it is copied from there
        (held,) = held.node.inputs
    if all(x._view is None or structure(x._view) is not None for x in (tensor, mask)):
        sources = (weakref.ref(tensor._version), weakref.ref(mask._version))
        accesses = (_access_of(tensor), _access_of(mask))
        _packed[held] = Packed(sources, accesses, (tensor.shape, mask.shape), recorded)


def _access_of(tensor: BaseTensor) -> Access | None:
    return None if tensor._view is None else structure(tensor._view)


def _packed_in(version: Version) -> Selection | None:
    """The selection that a version is, while what it was selected from is shown."""
    found = _packed.get(version)
    if found is None:
        return None
    source, mask = (ref() for ref in found.sources)
    if source is None or not source.live:
        return None
    return Selection((source, mask), found.accesses, found.shapes, found.recorded)


def compute_masks(*given: Any) -> bool:
    """Compute what was selected by a mask before another selects from it, or it goes elsewhere.

    A loop that goes on with what is left has other shapes at every step: no plan is used again,
    and each of its calls runs at once where its operands are on the host. False: there is no such.
    """
    tensors = [x for x in given if is_tensor(x) and x._owner is None and is_selection(x._version)]
    waiting = [x._version for x in tensors]
    if not waiting or sum(prod(version.shape) for version in waiting) > UNPLANNED_ELEMENTS:
        return False
    session = tensors[0]._session
    if not runs_unplanned(session) or any(version.session is not session for version in waiting):
        return False
    evaluate(session, waiting)
    return True


def _selected_now(tensor: BaseTensor, mask: BaseTensor) -> Version | None:
    """The elements that a mask selects, now, where both are on the host and shapes change.

    Or rows of a tensor that is not large; None anywhere else.
    """
    values, where = host_values.values_of(tensor), host_values.values_of(mask)
    if type(values) is not np.ndarray or type(where) is not np.ndarray:
        return None
    session, site = tensor._session, user_site()
    fits = where.ndim and where.shape == values.shape[: where.ndim] and session is mask._session
    if not fits:
        return None

    def selected_shape() -> tuple[int, ...]:
        n = numpy_loops.count(where)
        return (int(np.count_nonzero(where)) if n < 0 else n, *values.shape[where.ndim :])

    def fill(out: np.ndarray) -> None:
        if not numpy_loops.choose(where, values, out) and not select_into(where, values, out):
            out[...] = values[where]

    if where.ndim < values.ndim and values.size <= MOST_TABLE_ELEMENTS:
        return move(session, Spec(selected_shape(), values.dtype), SELECT, fill)
    if not has_changing_shapes(session, values.size, site):
        return None
    with session.guard():
        session.check_open()
        session.ways["changing_shapes"] += 1
        table = blank(session, selected_shape(), values.dtype)
        fill(table.whole)
        return keep(session, table, SELECT, site)


def _same_selected(tensor: BaseTensor, mask: BaseTensor) -> Node | None:
    """A selection by the same mask that still waits, and of which no run has used the mask up."""
    found = [v.node for ref in _last if (v := ref()) is not None]
    waiting = [node for node in found if node is not None and node.stopped is None]
    if not waiting or not mask.shape == waiting[0].shapes[1] == tensor.shape[: mask.ndim]:
        return None
    by = _selection_of(waiting[0])
    return waiting[0] if _is_same(mask, by, {id(node.inputs[0]) for node in waiting}) else None


def _selection_of(node: Node) -> Selection:
    """What a node selects that waits."""
    recorded = _made_by.get(node.inputs[1])
    return Selection(node.inputs[:2], node.accesses, node.shapes, recorded)


class Recorded(NamedTuple):
    """How a version was made, by what it was made from."""

    version: int
    node: tuple[Any, ...]
    inputs: tuple[Any, ...]


def _record_of(version: Version, depth: int) -> Recorded:
    node = version.node
    if node is None or node.op.kind != "elementwise" or not depth:
        return Recorded(id(version), (), ())
    parts = tuple(
        _record_of(given, depth - 1) if type(given) is Version else _bits(given)
        for given in node.inputs
    )
    return Recorded(id(version), (node.op, node.call, node.accesses), parts)


def _bits(scalar: Any) -> Any:
    return (type(scalar), np.asarray(scalar).tobytes())


def _is_made_so(version: Version, recorded: Recorded, read: set[int]) -> bool:
    """Whether a version waits for the calls that made another, on the same versions.

    These are what they were if what was selected with the other reads them: so nobody wrote them.
    """
    if id(version) == recorded.version and id(version) in read:
        return True  # it has lived since: no other version has its identity
    node = version.node
    if node is None or (node.op, node.call, node.accesses) != recorded.node:
        return False
    return all(
        _is_made_so(given, part, read) if type(given) is Version else _bits(given) == part
        for given, part in zip(node.inputs, recorded.inputs, strict=True)
    )


def _is_same(mask: BaseTensor, by: Selection, read: set[int]) -> bool:
    """Whether a mask is the one that was selected by, or is recorded by the same calls again."""
    if mask._version is by.inputs[1]:
        return _access_of(mask) == by.accesses[1]
    if by.recorded is None or mask._view is not None or by.accesses[1] is not None:
        return False
    return _is_made_so(mask._version, by.recorded, read)


def is_selection(version: Version) -> bool:
    """Whether a version waits to be selected by a mask: it may go back where it is from."""
    return version.node is not None and version.node.op.name == SELECT


# --- values that were selected --------------------------------------------------------------------


class _GatheredError(Exception):
    """A value is more than elements of a selection."""


class _Calls:
    """The calls between selections and a value."""

    def __init__(self, shape: tuple[int, ...], rest: tuple[int, ...]) -> None:
        self.shape = shape
        """Of the value: how many are selected, and axes behind the mask."""
        self.n_rest = len(rest)
        self.selects: dict[int, Selection] = {}
        self.nodes: dict[int, Node] = {}
        """In their order, by the identity of what they make."""

    def find(self, version: Version) -> None:
        node = version.node
        if id(version) in self.nodes or id(version) in self.selects:
            return
        selection = _packed_in(version) if node is None else None
        if selection is not None:
            self.selects[id(version)] = selection
            return
        # what a run that was stopped reads may be used up
        if node is None or node.stopped is not None or version.shape != self.shape:
            raise _GatheredError
        if len(self.nodes) > MOST_CALLS:
            raise _GatheredError
        if is_selection(version):
            self.selects[id(version)] = _selection_of(node)
            return
        if not _may_spread(node):
            raise _GatheredError
        for given, access, shape in zip(node.inputs, node.accesses, node.shapes, strict=True):
            if len(shape) > self.n_rest:  # shorter ones broadcast as they did
                if access is not None:
                    raise _GatheredError
                self.find(given)
        self.nodes[id(version)] = node


def _may_spread(node: Node) -> bool:
    """Whether a call is element by element, and never raises for what is not selected."""
    if node.op.name == "_copy":
        return node.accesses[0] is None
    raises = node.op.name in ("power", "pow") and node.call.outs[0].dtype.kind in "iu"
    return node.op.kind == "elementwise" and not raises


Shape = tuple[int, ...]


def _call(op: Op, of: Call, shape: Shape, shapes: tuple[Shape, ...]) -> Call:
    """The same call over other shapes: one object, however many were selected."""
    return _call_over(op.name, of.params, of.loop, of.outs[0].dtype, shape, shapes)


@lru_cache(maxsize=4096)
def _call_over(
    op: str, params: Any, loop: tuple[Any, ...], dtype: Any, shape: Shape, shapes: tuple[Shape, ...]
) -> Call:
    specs = [Spec(given, kind) for given, kind in zip(shapes, loop, strict=True)]
    return Call(broadcast_form(specs, shape), (Spec(shape, dtype),), params, loop)


def spread(
    tensor: BaseTensor, mask: BaseTensor, value: BaseTensor
) -> tuple[Version, Version] | None:
    """A mask, and values of the tensor's shape of which `value` is what the mask selects.

    None where the value is not made by elementwise calls on such selections.
    """
    session, rest = tensor._session, tensor.shape[mask.ndim :]
    if value._view is not None or value._session is not session or value.shape[1:] != rest:
        return None
    calls = _Calls(value.shape, rest)
    try:
        calls.find(value._version)
    except _GatheredError:
        return None
    if not calls.selects or (tensor.size > GATHERED_TIMES * value.size and len(calls.nodes) > 2):
        return None
    selects = list(calls.selects.values())
    read = {id(select.inputs[0]) for select in selects}
    for select in selects:
        if select.shapes[0] != tensor.shape or not _is_same(mask, select, read):
            return None
    whole = {
        made: Read(select.inputs[0], select.accesses[0], select.shapes[0])
        for made, select in calls.selects.items()
    }
    for made, node in calls.nodes.items():
        whole[made] = _recorded(session, node, tensor.shape, whole)
    found = whole[id(value._version)]
    if found.access is not None:
        op = TABLE["_copy"]
        call = cached_rule(op, (Spec(found.shape, found.version.dtype),))
        found = _waits(session, op, call, [found], found.shape)
    by = selects[0].inputs[1]
    return mask._version if by is None else by, found.version


def _recorded(session: Session, node: Node, shape: tuple[int, ...], whole: dict[int, Read]) -> Read:
    """A call on selections again, on what they were selected from."""
    ins = [
        given if type(given) is not Version else whole.get(id(given)) or Read(given, access, shape)
        for given, access, shape in zip(node.inputs, node.accesses, node.shapes, strict=True)
    ]
    if node.op.name == "_copy":
        return ins[0]
    shapes = tuple(x.shape if type(x) is Read else () for x in ins)
    return _waits(session, node.op, _call(node.op, node.call, shape, shapes), ins, shape)


def _waits(session: Session, op: Op, call: Call, ins: list[Any], shape: tuple[int, ...]) -> Read:
    inputs, accesses, shapes = zip(
        *(x if type(x) is Read else (x, None, ()) for x in ins), strict=True
    )
    session.ways["recorded"] += 1
    made = wait(session, op, call, inputs, accesses, shapes, user_site())
    return Read(made[0], None, shape)
