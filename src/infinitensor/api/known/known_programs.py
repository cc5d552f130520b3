"""Programs over other ops that were called before, for operands of the same kinds.

What such a function records depends on the kinds of its operands and on its other arguments alone,
unless it looks at values: then it evaluates something, which shows. What a second call records is
remembered as steps; later calls record these, by one call of C, and no line of the function runs.
Only of tensors whose values are not on the host: the others are mostly small, and computed at once.
"""

from __future__ import annotations

import inspect
from math import copysign
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.api.evaluate.evaluate import READ_OFTEN
from infinitensor.api.known import known_calls
from infinitensor.api.known.known_calls import Known
from infinitensor.api.record.record import MANY_FINALISED, store_on_host, wait
from infinitensor.api.record.reshaped_alias import alias_of_all, base_of
from infinitensor.api.session.session import current_session
from infinitensor.api.session.version import Version, user_site
from infinitensor.api.small.host_values import UNKNOWN, host_values
from infinitensor.api.tensor.tensor import Tensor, fresh, tensor_of
from infinitensor.config import config
from infinitensor.ir.view import View, c_strides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from infinitensor.api.session.cell import Cell
    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Node
    from infinitensor.ir.op import Op

MOST_REMEMBERED = 64
"""Calls that a function may record, to be remembered."""
MOST_GIVEN = 1 << 14
"""Elements of values of the host that a call gives, to be remembered."""
MOST_TRIES = 3
"""Calls of which nothing could be remembered, after which none is looked at any more."""
_PLAIN = frozenset((bool, int, str, type(None), type))


class Step(NamedTuple):
    """One recorded call: what it is, and where its operands are among all values."""

    op: Op
    known: Known
    places: tuple[int, ...]
    accesses: tuple[Any, ...]


class Result(NamedTuple):
    """One tensor that is given: a version, how it is seen, and what it is.

    Or values of the host, of which each call gets its own.
    """

    place: int
    view: View | None
    is_value: bool
    values: np.ndarray | None


class Steps(NamedTuple):
    """What a call of a program records.

    All its values have a place: operands, other shapes of them, what stays the same, then what the
    steps make.
    """

    shaped: tuple[tuple[int, View], ...]
    constants: tuple[Any, ...]
    held: tuple[Tensor, ...]
    """Tensors of the constants among them, so that nobody uses them up."""
    steps: tuple[Step, ...]
    n_bytes: int
    writes: bool
    """Whether some change what was there before."""
    results: tuple[Result, ...]
    kind: type | None
    """Tuple or list, where the function gives one."""


def _takes(args: Iterable[Any], key: list[Any], cells: list[Cell]) -> bool:
    """Add arguments to a key, and the cells of tensors; False if no call of such is remembered."""
    for x in args:
        kind = type(x)
        if kind is Tensor:
            if x._owner is not None:
                return False
            cell = x._cell
            version = cell.version
            if version.host is not None or (version.node and version.readers >= READ_OFTEN):
                return False
            view = x._lazy_view
            key += (x._shape, x._dtype, x._view if view is UNKNOWN else view, x._is_value)
            cells.append(cell)
        elif kind in _PLAIN:
            key += (kind, x)
        elif kind is float:
            key += (kind, x or copysign(1, x), x)
        elif kind is tuple or kind is list:
            key += (kind, len(x))
            if not _takes(x, key, cells):
                return False
        elif isinstance(x, np.dtype):
            key += (np.dtype, x)
        else:
            return False
    return True


def remembering(op: Op, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a program; what it records is remembered."""
    name = op.name

    def wrapper(*args: Any, **options: Any) -> Any:
        key: list[Any] = [name, *options]
        cells: list[Cell] = []
        given = (*args, *options.values()) if options else args
        if not takes(given, key, cells) or not cells:
            return function(*args, **options)
        session = cells[0].session
        versions = [cell.version for cell in cells]
        if len(cells) > 1:  # which of them are the same
            if any(cell.session is not session for cell in cells):
                return function(*args, **options)
            key += map(versions.index, versions)
        known_by = (*key, config.small_elements, config.key())
        found = session.programs.get(known_by, 0)
        if type(found) is Steps:
            made = _again(session, found, versions)
            return function(*args, **options) if made is None else made
        if 0 < found <= MOST_TRIES and session is current_session():
            with session.guard():
                return _remember(session, known_by, cells, lambda: function(*args, **options))
        if not found:
            session.add(session.programs, known_by, 1)
        return function(*args, **options)

    wrapper.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return wrapper


def _remember(session: Session, key: Any, cells: Sequence[Cell], call: Callable[[], Any]) -> Any:
    """What a call gives; it is remembered, unless it does more than record calls."""
    versions = [cell.version for cell in cells]
    before, seq = _state(session, cells), session.seq
    made = call()
    found = None
    if _state(session, cells) == before:
        found = _remembered(session, versions, session.seq - seq, made)
    session.add(session.programs, key, found or session.programs.get(key, 0) + 1)
    return made


def _state(session: Session, cells: Sequence[Cell]) -> tuple[Any, ...]:
    """What a call may change besides the calls it records."""
    return session.stream, dict(session.counts), [id(cell.version) for cell in cells]


def _remembered(
    session: Session, given: Sequence[Version], n_recorded: int, made: Any
) -> Steps | None:
    """The steps by which a call of some versions made what it gave; None: there is more to it."""
    kind = type(made) if type(made) in (tuple, list) else None
    results: Sequence[Any] = made if kind else (made,)
    if not 0 < n_recorded <= MOST_REMEMBERED or any(type(x) is not Tensor for x in results):
        return None
    if any(x.size > MOST_GIVEN for x in results if x._owner or x._cell.version.host is not None):
        return None
    places = {id(version): place for place, version in enumerate(given)}
    nodes = _nodes_behind([x._cell.version for x in results if x._owner is None], places)
    if len(nodes) != n_recorded or any(len(node.outs) > 1 or node.region for node in nodes):
        return None
    others = [x for node in nodes for x in node.inputs if getattr(x, "node", None) not in nodes]
    shaped: list[tuple[int, View]] = []
    for x in others:
        base = base_of(x) if type(x) is Version and id(x) not in places else None
        if base is not None and id(base) in places:
            shaped.append((places[id(base)], View(base.shape, x.shape, 0, c_strides(x.shape))))
            places[id(x)] = len(given) + len(shaped) - 1
    n = len(given) + len(shaped)
    constants = [x for x in {id(x): x for x in others if id(x) not in places}.values()]
    stay = [tensor._cell.version for tensor in session.constants.values()]
    for x in constants:
        if type(x) is Version and x.host is None and x not in stay:
            return None
        places[id(x)] = n
        n += 1
    steps: list[Step] = []
    for node in nodes:
        places[id(node.outs[0]())] = n + len(steps)
        where = tuple([places[id(x)] for x in node.inputs])
        known = Known(node.op, node.call, node.shapes)
        if node.op.kind == "update":
            known.n_bytes = 0  # goes in place: it holds no more than its base
        steps.append(Step(node.op, known, where, node.accesses))
    given_back = [found for x in results if (found := _result(x, places, n)) is not None]
    cells = {id(x._cell) for x in results if x._owner is None}
    n_own = sum(x._owner is None for x in results)
    if len(given_back) < len(results) or len(cells) < n_own:  # some are views of others
        return None
    return Steps(
        tuple(shaped),
        tuple(constants),
        tuple([fresh(session, x) for x in constants if type(x) is Version]),
        tuple(steps),
        sum(step.known.n_bytes for step in steps),
        any(step.op.kind == "update" for step in steps),
        tuple(given_back),
        kind,
    )


def _nodes_behind(shown: list[Version], given: dict[int, int]) -> list[Node]:
    """The calls that wait behind some versions up to those that were given, in their order."""
    found: dict[int, Node] = {}
    while shown and len(found) <= MOST_REMEMBERED:
        version = shown.pop()
        node = version.node
        if id(version) not in given and node is not None and node.seq not in found:
            found[node.seq] = node
            shown += [x for x in node.inputs if type(x) is Version]
    return [found[seq] for seq in sorted(found)]


def _result(x: Tensor, places: dict[int, int], n_before: int) -> Result | None:
    """How a tensor that is given is made again; None: it shows what was there before."""
    if x._owner is not None or x._cell.version.host is not None:
        return Result(-1, None, x._is_value, np.array(host_values(x)))
    place = places.get(id(x._cell.version), -1)
    if place < n_before or x._frozen:
        return None
    return Result(place, x._view, x._is_value, None)


def _again(session: Session, found: Steps, given: Sequence[Version]) -> Any:
    """What a call gives that was made before; None where the function has to say."""
    values: list[Any] = [*given]
    for place, view in found.shaped:
        shaped = alias_of_all(session, given[place], view)
        if shaped is None:
            return None
        values.append(shaped)
    values += found.constants
    if not play(session, found.steps, values, found.n_bytes):
        return None
    session.writes |= found.writes
    made = []
    for place, seen_as, is_value, kept in found.results:
        if kept is not None:
            one = fresh(session, store_on_host(session, kept.copy()))
        else:
            one = fresh(session, values[place])
            if seen_as is not None:
                one = tensor_of(one._cell, seen_as, values[place].dtype)
        one._is_value = is_value
        made.append(one)
    return made[0] if found.kind is None else found.kind(made)


def _play(session: Session, steps: Sequence[Step], values: list[Any], n_bytes: int) -> bool:
    """Record the steps and put what they make behind the values.

    False, and nothing done, where something is to be decided.
    """
    with session.guard():
        n = len(session.tape) + len(steps)
        is_much = session.waiting_bytes + n_bytes > config.max_recorded_bytes
        if session.closed or session.cut_next or is_much or n > config.max_recorded_nodes:
            return False
        if len(session.dropped) > MANY_FINALISED or len(session.graveyard) > MANY_FINALISED:
            session.drain()
        site = user_site()
        for op, known, places, accesses in steps:
            inputs = tuple([values[place] for place in places])
            values += wait(session, op, known.call, inputs, accesses, known.shapes, site)
        return True


play: Callable[[Any, Any, Any, Any], bool] = known_calls.play or _play
takes: Callable[[Any, Any, Any], bool] = known_calls.takes or _takes
"""The same in C (`known_calls.c`), where that can be compiled."""
