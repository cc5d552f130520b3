"""Calls that were made before, for operands of the same kinds, without the objects in between.

What `record` does step by step, in one function: nearly every line of a NumPy program is such a
call, and it has to cost microseconds. Small values are computed at once, others wait as a node.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from infinitensor.api.access import setitem
from infinitensor.api.access.compute_first import compute_parts_read_often
from infinitensor.api.access.scalars import as_value, gives_values
from infinitensor.api.convert.foreign import holds_tensors
from infinitensor.api.eager import changing_places
from infinitensor.api.eager.changing_places import has_changing_shapes
from infinitensor.api.eager.moved import is_medium, is_moved, move
from infinitensor.api.eager.whole_array import small_kernel
from infinitensor.api.evaluate.evaluate import READ_OFTEN
from infinitensor.api.record.record import FEW_WAITING_CALLS, MANY_FINALISED, WRITE, wait
from infinitensor.api.record.reshaped_alias import alias_of_all
from infinitensor.api.session import version
from infinitensor.api.session.call_cache import cached_rule
from infinitensor.api.session.cell import Cell
from infinitensor.api.session.extensions import load_beside
from infinitensor.api.session.lock import locking
from infinitensor.api.session.session import Session
from infinitensor.api.session.version import Node, Site, Version, generation, user_site
from infinitensor.api.small.errstate import quietly
from infinitensor.api.small.host_values import UNKNOWN, host_values, kernel_input, small_tensor
from infinitensor.api.tensor.tensor import Tensor, fresh
from infinitensor.config import config
from infinitensor.dtypes import bfloat16
from infinitensor.events import lane
from infinitensor.ir.op import Spec, n_points
from infinitensor.ir.view import structure
from infinitensor.ops.table.registry import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from infinitensor.ir.op import Call, Op
    from infinitensor.ir.view import View

_WRITE = TABLE[WRITE]
_NO_VIEWS: tuple[tuple[None, ...], ...] = tuple((None,) * n for n in range(33))


def _bfloat16(number: float) -> Any:
    """A Python number as bfloat16; ml_dtypes takes integers of 64 bits only."""
    return bfloat16.type(float(number))


class Known:
    """A call for operands of given shapes and dtypes, and what its results are."""

    __slots__ = (
        "call",
        "dtype",
        "is_value",
        "largest",
        "makers",
        "moves",
        "n_bytes",
        "outs",
        "shape",
        "shapes",
    )

    def __init__(self, op: Op, call: Call, shapes: tuple[tuple[int, ...], ...]) -> None:
        self.call = call
        self.shapes = shapes
        self.n_bytes = sum(spec.n_bytes for spec in call.outs)
        self.shape = call.outs[0].shape if len(call.outs) == 1 else None
        self.dtype = call.outs[0].dtype if len(call.outs) == 1 else None
        """Of the result, where there is one."""
        self.outs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...] | None = None
        """Of the results, where there are several."""
        if len(call.outs) > 1:
            self.outs = tuple([(spec.shape, spec.dtype) for spec in call.outs])
        self.is_value = self.shape == () and gives_values(op)
        self.makers = tuple(_bfloat16 if d is bfloat16 else d.type for d in call.loop)
        out = max((prod(spec.shape) for spec in call.outs), default=0)
        self.largest = max(out, -(-n_points(op, call) // 16))
        """Compared with the limit of what is small."""
        self.moves = is_medium(op, call)
        """Whether it runs at once, of host values, though it is not small."""

    def give(self, made: list[Tensor]) -> Tensor | tuple[Tensor, ...]:
        """The result of the call, of the tensors that it made."""
        if len(made) > 1:
            return tuple(map(as_value, made))
        made[0]._is_value = self.is_value
        return made[0]


def unpacked(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with the tensors of lists and tuples among them, behind how many they are."""
    found: list[Any] = []
    for x in args:
        if type(x) in _SEQUENCES and x and all(type(one) is Tensor for one in x):
            found.append((type(x), len(x)))
            found += x
        else:
            found.append(x)
    return tuple(found)


_SEQUENCES = (list, tuple)


class Quick:
    """The calls of one op that are known, by the kinds of their operands and the other arguments.

    An operand is a tensor or, of an elementwise op (`takes_scalars`), a number; tensors in a
    list or tuple are operands as if they stood alone.
    """

    __slots__ = ("changes", "known", "op", "takes_scalars", "unknown")

    def __init__(self, op: Op) -> None:
        self.op = op
        self.changes = op.kind == "update"
        """Whether its result takes the place of the first operand."""
        self.takes_scalars = op.kind == "elementwise"
        self.known: dict[Any, Known] = {}
        self.unknown: Callable[..., Any] | None = None
        """The function for a call of a ufunc that C has looked up here and not found."""

    def _key(self, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Session | None]:
        """The key of a call, and the session of its first tensor."""
        key: list[Any] = []
        session = None
        for x in args:
            kind = type(x)
            if kind is Tensor:
                key += (x._shape, x._dtype)
                if session is None:
                    session = x._owner or x._cell.session
            elif self.takes_scalars:
                key.append(kind)
            else:
                key += (kind, x)
        for name, value in options.items():
            key += (name, type(value), value)
        return tuple(key), session

    def learn(self, args: tuple[Any, ...], options: dict[str, Any], call: Call) -> None:
        """Remember a call; only of tensors given by position, and numbers.

        Those are Python's, or NumPy's of the dtype that is computed in.
        """
        args = unpacked(args)
        shapes: list[tuple[int, ...]] = []
        for i, x in enumerate(args):
            kind = type(x)
            if kind is Tensor:
                shapes.append(x._shape)
            elif self.takes_scalars:
                if kind is not int and kind is not float and kind is not call.loop[i].type:
                    return
                shapes.append(())
        if (
            not 0 < len(shapes) < len(_NO_VIEWS)
            or len(shapes) != len(call.form.inputs)
            or holds_tensors(tuple(options.values()))
        ):
            return
        if len(self.known) > 4096:
            self.known.clear()
        known = Known(self.op, call, tuple(shapes))
        if self.changes:
            known.shape = known.outs = None  # C records what makes something new
        try:
            self.known[self._key(args, options)[0]] = known
        except TypeError:  # an argument that cannot be looked up
            return

    def call_many_again(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """`call_again`, where some tensors are in lists or tuples."""
        return self.call_again(unpacked(args), options)

    def call_again(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The result of a known call; None for any other."""
        if options and Tensor in map(type, options.values()):
            return None  # to look it up would compute it
        key, session = self._key(args, options)
        try:
            found = self.known.get(key)
        except TypeError:  # an argument that cannot be looked up
            return None
        return None if found is None or session is None else self.run(session, found, args)

    def run(self, session: Session, found: Known, args: tuple[Any, ...]) -> Any:
        """The result of a call that was looked up; None where it has to be recorded anew."""
        if self.changes:
            with session.guard():
                return self._waiting(session, found, args) if _is_in_place(args[0]) else None
        if found.largest <= config.small_elements:
            made = self._at_once(session, found, args)
            if made is None and compute_parts_read_often(session, args):
                made = self._at_once(session, found, args)
            if made is not None:
                return made
        made = self._move_now(session, found, args) if found.moves else None
        return self._waiting(session, found, args) if made is None else made

    def _at_once(self, session: Session, found: Known, args: tuple[Any, ...]) -> Any:
        values: list[Any] = []
        for i, x in enumerate(args):
            if type(x) is Tensor:
                seen = kernel_input(x)
                if seen is None or (x._owner or x._cell.session) is not session:
                    return None
                values.append(seen)
            elif self.takes_scalars:
                values.append(found.makers[i](x))
        session.ways["kernel"] += 1
        outs = quietly(small_kernel(self.op, found.call), values)
        return found.give([small_tensor(session, out) for out in outs])

    def _move_now(self, session: Session, found: Known, args: tuple[Any, ...]) -> Any:
        given = [x for x in args if type(x) is Tensor]
        with session.guard():
            for x in given:
                if x._cell.version.host is None or x._cell.session is not session:
                    return None
            if session.closed or not is_moved(session, self.op, found.call):
                return None
            fill = partial(
                quietly, small_kernel(self.op, found.call), [host_values(x) for x in given]
            )
            if self.op.kind == "reduction":  # its results are few
                session.ways["moved"] += 1
                return found.give([small_tensor(session, out) for out in fill()])
            try:
                made = move(session, found.call.outs[0], self.op.name, lambda out: fill([out]))
            except IndexError:  # is said when it is computed
                return None
            return None if made is None else found.give([fresh(session, made)])

    def _waiting(self, session: Session, found: Known, args: Sequence[Any]) -> Any:
        with session.guard():
            inputs: list[Any] = []
            accesses: list[Any] | None = None
            is_large = found.largest > config.small_elements
            for i, x in enumerate(args):
                if type(x) is not Tensor:
                    if self.takes_scalars:
                        inputs.append(found.makers[i](x))
                    continue
                version = x._cell.version
                if version.session is not session:
                    return None
                if version.table is not None or version.host is None:
                    is_large = True
                view = x._lazy_view
                if view is UNKNOWN:
                    view = x._view
                if view is not None:
                    access = structure(view)
                    if access is None:
                        shaped = alias_of_all(session, version, view)
                        if shaped is None:
                            return None
                        version = shaped
                    else:
                        if accesses is None:
                            accesses = [None] * len(found.shapes)
                        accesses[len(inputs)] = access
                inputs.append(version)
            if not is_large or session.closed:
                return None
            site = user_site()
            if has_changing_shapes(session, found.largest, site):
                return None
            if len(session.dropped) > MANY_FINALISED or len(session.graveyard) > MANY_FINALISED:
                session.drain()
            seen = _NO_VIEWS[len(inputs)] if accesses is None else tuple(accesses)
            versions = wait(session, self.op, found.call, tuple(inputs), seen, found.shapes, site)
            return found.give([fresh(session, version) for version in versions])


def _is_in_place(base: Any) -> bool:
    """Whether a tensor itself is changed, and not a copy (`update_version`)."""
    if type(base) is not Tensor or base._view is not None:
        return False
    version = base._cell.version
    return version.host is None or prod(version.shape) > config.small_elements


_views: dict[View, tuple[Any, Any, Known, Any, int]] = {}
"""Views that are written through: of which dtype, what makes its scalars of plain numbers, by which
call, where, and how many elements."""


def fill(tensor: Tensor, view: View | None, value: Any) -> bool:
    """As `setitem.fill`; the C form knows a view that was written through before."""
    if view is not None:
        _learn(view, tensor._dtype)
    return setitem.fill(tensor, view, value)


def _learn(view: View, dtype: np.dtype[Any]) -> None:
    """Remember what a write through a view is, unless there are questions to be asked each time."""
    found = _views.get(view)
    if found is not None and found[0] is dtype:
        return
    if view.is_whole or view.is_broadcast or view.part or 0 in view.shape:
        return
    region = structure(view)
    if region is None:
        return
    call = cached_rule(_WRITE, (Spec(view.base_shape, dtype), Spec(view.shape, dtype)))
    known = Known(_WRITE, call, (view.base_shape, view.shape))
    known.n_bytes = 0  # goes in place: it holds no more than its base
    if len(_views) > 4096:
        _views.clear()
    scalar = dtype.type if dtype.kind == "f" and dtype.itemsize > 2 else None
    _views[view] = (dtype, scalar, known, region, prod(view.shape))


calls_in_c: Callable[[type], None] | None = None
"""Lets the calls of a class of ufuncs, with `_n_inputs` and `_quick` as slots, begin in C; None
without C."""

recorded: Any = None
"""A pointer to the C function that records an operator; None without C."""

play: Callable[[Any, Any, Any, Any], bool] | None = None
"""Records the steps of a program (`known_programs.py`); None without C."""

takes: Callable[[Any, Any, Any], bool] | None = None
"""What a call of a program is known by, likewise."""


def _in_c() -> None:
    """Put the C form of the plain case (`known_calls.c`) before them, if it can be compiled."""
    global calls_in_c, fill, play, recorded, takes
    module = load_beside(__file__)
    if module is None:
        return
    types = (Tensor, Version, Cell, Node, Site, Quick, Known, Session)
    at_once = changing_places.places, changing_places.settled
    shared = (structure, alias_of_all, *at_once, lane, generation, _NO_VIEWS)
    limits = (FEW_WAITING_CALLS, MANY_FINALISED, changing_places.MEDIUM, READ_OFTEN)
    slow = (Quick.call_again, Quick.run, fill, _views, _WRITE, locking)
    module.install(types, config, UNKNOWN, *shared, *slow, *limits, version._PACKAGE[:-1])
    calls_in_c, fill, recorded = module.install_ufunc, module.fill, module.recorded
    play, takes = module.play, module.takes


_in_c()
