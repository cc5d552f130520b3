"""The waiting part of a program, numbered in recorded order: what every evaluation begins with.

In C (`waiting.c`) where it can be compiled; what is here says what that does, and is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from infinitensor.api.session.extensions import load_beside
from infinitensor.api.session.version import Node, Version
from infinitensor.runtime import TileTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from infinitensor.api.session.session import Session


class Walk(NamedTuple):
    """The nodes that must run for some versions, and the values that they read and make."""

    nodes: list[Node]
    leaves: list[Version]
    scalars: list[Any]
    values: list[Version | None]
    """By number: leaves as they are met, and what nodes make; None where nobody holds it."""
    reads: list[int]
    """How often these nodes read each."""
    needed: list[int]
    """Values that nodes make and that were asked for, are shown, or are read by other nodes too."""
    is_free: list[bool]
    """Of each leaf: whether nobody but these nodes will read its tiles."""
    known_by: Any
    """The work of the calls, by the identity of ops, calls, views and regions: the same when a line
    runs again. (A program is recognised by it.)"""


def waiting_nodes(roots: Iterable[Version]) -> list[Node]:
    """Nodes that must run for the roots, in recorded order. Iterative: chains may be long."""
    found: dict[int, Node] = {}
    stack = [version.node for version in roots if version.node is not None]
    while stack:
        node = stack.pop()
        if node.seq in found:
            continue
        found[node.seq] = node
        for given in node.inputs:
            if type(given) is Version:
                before = given.node
                if before is not None and before.seq not in found:
                    stack.append(before)
    return [found[seq] for seq in sorted(found)]


def in_python(roots: list[Version]) -> Walk:
    """The walk from the roots back to what is stored."""
    nodes = waiting_nodes(roots)
    leaves: list[Version] = []
    scalars: list[Any] = []
    values: list[Version | None] = []
    reads: list[int] = []
    known_by: list[int] = []
    numbers: dict[int, int] = {}
    for node in nodes:
        known_by += (id(node.op), id(node.call), id(node.region))
        for given in node.inputs:
            if type(given) is not Version:
                known_by.append(-1)
                scalars.append(given)
                continue
            number = numbers.get(id(given))
            if number is None:
                numbers[id(given)] = number = len(values)
                values.append(given)
                leaves.append(given)
                reads.append(0)
            reads[number] += 1
            known_by.append(number)
        if any(access is not None for access in node.accesses):
            known_by += map(id, node.accesses)
        for ref in node.outs:
            version = ref()
            if version is not None:
                numbers[id(version)] = len(values)
            values.append(version)
            reads.append(0)
    asked = {id(version) for version in roots}
    needed = [
        n
        for n, v in enumerate(values)
        if v is not None
        and v.node is not None
        and (v.live > 0 or v.readers > reads[n] or id(v) in asked)
    ]
    is_free = [
        v.live == 0
        and v.exported == 0
        and v.table is not None
        and v.readers == reads[numbers[id(v)]]
        for v in leaves
    ]
    return Walk(nodes, leaves, scalars, values, reads, needed, is_free, tuple(known_by))


def sight_in_python(
    roots: list[Version],
    settings: Any,
    store: Callable[[Session, Version], TileTable],
    session: Session,
) -> tuple[Any, ...]:
    """What a program that has run is found by.

    Its leaves, scalars, what is kept of it by number, which leaves are used up, their tables, and
    the key. All that is needed is kept, and what is free is used up; leaves that have no tables are
    stored.
    """
    _, leaves, scalars, values, _, needed, is_free, known_by = fields(roots)
    kept = {number: values[number] for number in needed}
    tables = [leaf.table or store(session, leaf) for leaf in leaves]
    key = trace_key(known_by, kept, is_free, tables, None, settings)
    return leaves, scalars, kept, is_free, tables, key


def trace_key(
    known_by: Any,
    kept: Iterable[int],
    donated: Iterable[bool],
    tables: Iterable[TileTable],
    limits: tuple[int, ...] | None,
    settings: Any,
) -> Any:
    """The key of a program, by which it is recognised when it is repeated.

    Leaves are in it as they are given, whatever is seen of them.
    """
    forms = tuple([table.form for table in tables])
    return (known_by, tuple(kept), tuple(donated), forms, limits, settings)


_module = load_beside(__file__)
if _module is not None:
    _module.install(Version, Node, TileTable)
fields: Callable[[list[Version]], tuple[Any, ...]] = in_python if _module is None else _module.walk
"""The walk from the roots back to what is stored: the fields of a `Walk`. (Every evaluation asks,
and to name them takes a fifth of the time.)"""
sight: Callable[..., tuple[Any, ...]] = sight_in_python if _module is None else _module.sight
"""The walk, and what a program that has run is found by: one call."""
repeat_in_c: Callable[..., Any] | None = None if _module is None else _module.repeat
"""`repeat` of `evaluate.py`, once it has said by `repeat_by` whose programs these are."""


def repeat_by(*given: Any) -> None:
    """The classes `Session` and `Trace`, and `commit`, `forget_done` and `hold_back`."""
    if _module is not None:
        _module.repeat_by(*given)
