"""Recording: a call becomes a node that waits, or, where it is small, a value at once."""

from __future__ import annotations

import weakref
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.eager.changing_places import blank, keep, runs_at_once
from infinitensor.api.eager.moved import is_moved
from infinitensor.api.eager.whole_array import small_kernel
from infinitensor.api.evaluate.evaluate import compute_if_read_often, evaluate_all, forget_done
from infinitensor.api.record.reshaped_alias import alias, alias_of_all
from infinitensor.api.session.call_cache import cached_rule
from infinitensor.api.session.cell import Ref
from infinitensor.api.session.version import Node, Site, Version, user_site
from infinitensor.config import config
from infinitensor.errors import InfiniTensorError
from infinitensor.ir.op import Spec, n_points
from infinitensor.ir.view import structure, whole_view
from infinitensor.ops.table.registry import TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.api.session.session import Session
    from infinitensor.ir.op import Call, Op
    from infinitensor.ir.view import View


FEW_WAITING_CALLS = 128
"""Waiting calls below which their bytes start no evaluation: they may still be fused."""


MANY_FINALISED = 64
"""Finalised objects that wait until somebody counts them down; an evaluation does at any rate."""


def host_view(ref: Ref) -> np.ndarray:
    """The values of a reference to a small host value, without a copy."""
    base = ref.version.host
    assert base is not None
    view = ref.view
    if view is None:
        return base
    width = base.dtype.itemsize
    if 0 in view.shape:
        return np.empty(view.shape, ref.dtype)
    found = np.ndarray(
        view.shape,
        base.dtype,
        buffer=base,
        offset=view.offset * width,
        strides=tuple(s * width for s in view.strides),
    )
    if view.part:
        found = found.real if view.part == "real" else found.imag
    return found


def is_small(op: Op, call: Call, operands: Sequence[Any]) -> bool:
    """Whether a call may run at once: everything it reads is on the host, and little."""
    limit = config.small_elements
    if not limit:
        return False
    for operand in operands:
        if isinstance(operand, Ref) and (
            operand.version.host is None or prod(operand.shape) > limit
        ):
            return False
    return all(prod(spec.shape) <= limit for spec in call.outs) and n_points(op, call) <= 16 * limit


def record(session: Session, op: Op, call: Call, operands: Sequence[Any]) -> list[Version]:
    """Apply an op: operands are `Ref`s and, in their places, scalars.

    Small calls on host values run now. Others wait as a node; when too much waits, the live tensors
    are evaluated, at a program point seen before if there is one.
    """
    if is_small(op, call, operands):
        ins = [host_view(o) if isinstance(o, Ref) else o for o in operands]
        session.ways["kernel"] += 1
        with np.errstate(all="ignore"):
            outs = small_kernel(op, call)(ins)
        return [store_on_host(session, values) for values in outs]
    with session.guard():
        session.check_open()
        if len(session.dropped) > MANY_FINALISED or len(session.graveyard) > MANY_FINALISED:
            session.drain()
        reads = [(o.version, prod(o.shape)) for o in operands if isinstance(o, Ref)]
        if compute_if_read_often(session, reads):
            return record(session, op, call, operands)
        site = user_site()
        if not any(o.version.host is None for o in operands if isinstance(o, Ref)):
            made = _made_at_once(session, op, call, operands, site)
            if made is not None:
                return made
        readable = [_readable(session, o) if isinstance(o, Ref) else o for o in operands]
        session.ways["recorded"] += 1
        return wait(session, op, call, *_read(readable), site)


def _made_at_once(
    session: Session, op: Op, call: Call, operands: Sequence[Any], site: Site
) -> list[Version] | None:
    """The values now of a call on host values that is not small; None: it waits."""
    if is_moved(session, op, call):
        try:
            return _at_once(session, op, call, operands, site, "moved")
        except IndexError:  # is said when it is computed
            return None
    if runs_at_once(session, op, call, [np.shape(o) for o in operands], site):
        return _at_once(session, op, call, operands, site, "changing_shapes")
    return None


def _at_once(
    session: Session, op: Op, call: Call, operands: Sequence[Any], site: Site, way: str
) -> list[Version]:
    """The values of a call now, in memory of the ledger."""
    tables = [blank(session, spec.shape, spec.dtype) for spec in call.outs]
    ins = [host_view(o) if isinstance(o, Ref) else o for o in operands]
    with np.errstate(all="ignore"):
        small_kernel(op, call)(ins, [table.whole for table in tables])
    session.ways[way] += 1
    return [keep(session, table, op.name, site) for table in tables]


def _readable(session: Session, ref: Ref) -> Ref:
    """A reference whose view is structured; any other is gathered first."""
    if ref.version.session is not session:
        ref = _from_other(session, ref)
    if ref.view is None or structure(ref.view) is not None:
        return ref
    view = ref.view
    if not view.part:
        if ref.version.host is not None:
            shaped = alias(session, ref.version, host_view(ref))
        else:
            shaped = alias_of_all(session, ref.version, view)
        if shaped is not None:
            return Ref(shaped, None, ref.dtype)
    op = TABLE["_strided"]
    base = Ref(ref.version, None, ref.version.dtype)
    spec = Spec(ref.version.shape, ref.version.dtype)
    call = cached_rule(op, (spec,), view.shape, view.offset, view.strides)
    gathered = record(session, op, call, [base])[0]
    found = Ref(gathered, None, gathered.dtype)
    if view.part:
        whole = whole_view(view.shape)
        part = type(whole)(whole.base_shape, whole.shape, 0, whole.strides, view.part)
        found = Ref(gathered, part, ref.dtype)
    return found


def _from_other(session: Session, ref: Ref) -> Ref:
    """A small value of another session is copied over; anything else stays where it is."""
    if ref.version.host is None or ref.version.table is not None:
        ref.version.session.check_open()
        raise InfiniTensorError(
            "a tensor of another session cannot be used here: sessions share no devices. "
            "Take its values with .numpy()"
        )
    return Ref(store_on_host(session, host_view(ref).copy()), None, ref.dtype)


def _read(operands: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """The operands of a node: versions and scalars, accesses, shapes."""
    inputs = []
    accesses = []
    shapes: list[tuple[int, ...]] = []
    for operand in operands:
        if isinstance(operand, Ref):
            inputs.append(operand.version)
            accesses.append(None if operand.view is None else structure(operand.view))
            shapes.append(operand.shape)
        else:
            inputs.append(operand)
            accesses.append(None)
            shapes.append(np.shape(operand))
    return tuple(inputs), tuple(accesses), tuple(shapes)


def wait(
    session: Session,
    op: Op,
    call: Call,
    inputs: tuple[Any, ...],
    accesses: tuple[Any, ...],
    shapes: tuple[tuple[int, ...], ...],
    site: Site,
    region: Any = None,
) -> list[Version]:
    """The versions that a call will make, once somebody needs them: it waits as a node."""
    for given in inputs:
        if type(given) is Version:
            given.readers += 1
    session.seq += 1
    node = Node(op, call, inputs, accesses, shapes, site, session.seq, region)
    versions = []
    is_write = op.kind == "update"
    session.writes |= is_write
    for k, spec in enumerate(call.outs):
        version = Version(session, spec.shape, spec.dtype)
        version.node = node
        version.out = k
        versions.append(version)
        if not is_write:  # goes in place: it holds no more than its base
            session.waiting_bytes += spec.n_bytes
    node.alive = len(versions)
    node.outs = tuple(weakref.ref(version) for version in versions)
    _put_on_tape(session, node, versions)
    return versions


def _put_on_tape(session: Session, node: Node, versions: list[Version]) -> None:
    """Let a node's versions wait; live ones are evaluated if too much waits."""
    if session.cut_next:
        session.cut_next = False
        evaluate_all(session)
    session.tape += node.outs
    n = len(session.tape)
    limit = config.max_recorded_nodes
    if n > limit or (session.waiting_bytes > config.max_recorded_bytes and n >= FEW_WAITING_CALLS):
        if n <= limit:
            forget_done(session)  # what an evaluation held to its end was counted too
            if session.waiting_bytes <= config.max_recorded_bytes:
                return
        _cut(session, (node.site.key(), node.op.kind == "update"), versions, n > 2 * limit)


def _cut(session: Session, here: tuple[Any, bool], fresh: list[Version], overdue: bool) -> None:
    """Evaluate what is live, here if a loop was cut here before, or if it cannot wait longer.

    Behind a write nothing is left that was computed only to be written.
    """
    far = overdue or session.waiting_bytes > 2 * config.max_recorded_bytes
    known = session.cut_site
    if not far and (known != here if known is not None else session.writes and not here[1]):
        return
    session.cut_site = here if here[1] or not session.writes else None
    if here[1] and not far:
        session.cut_next = True
        return
    for version in fresh:
        version.live += 1
    try:
        evaluate_all(session)
    finally:
        for version in fresh:
            version.live -= 1


def store_on_host(session: Session, values: np.ndarray) -> Version:
    """A version that has its values, on the host: in C order, which views of it count in."""
    if not values.flags.c_contiguous:
        values = np.ascontiguousarray(values)
    version = Version(session, values.shape, values.dtype)
    version.host = values
    return version


WRITE = "_write"
_writes: dict[Any, Any] = {}
"""The calls of writes by base, dtype and shape: looked up at every assignment."""


def record_write(session: Session, base: Version, view: View, value: Any, site: Site) -> Version:
    """The next version of `base`, with `value` written through a structured view.

    `value` is a `Ref` of the view's shape, or a scalar.
    """
    op = TABLE[WRITE]
    shape = view.shape
    given, access = value, None
    if isinstance(value, Ref):
        shape, given = value.shape, value.version
        access = None if value.view is None else structure(value.view)
    key = (base.shape, base.dtype, shape)
    call = _writes.get(key)
    if call is None:
        call = cached_rule(op, (Spec(base.shape, base.dtype), Spec(shape, base.dtype)))
        if len(_writes) > 4096:
            _writes.clear()
        _writes[key] = call
    with session.guard():
        session.check_open()
        if len(session.dropped) > MANY_FINALISED or len(session.graveyard) > MANY_FINALISED:
            session.drain()
        session.ways["recorded"] += 1
        ins, shapes = (base, given), (base.shape, view.shape)
        return wait(session, op, call, ins, (None, access), shapes, site, structure(view))[0]
