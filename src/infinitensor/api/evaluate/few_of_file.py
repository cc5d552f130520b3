"""Few elements of a large file, asked for by steps or by index: they become a file of their own.

A tile of what is read by steps or by index would be made of a box that holds everything between its
first element and its last: of a file as large as the disk, all of it. So before a program is bound,
its reads of that kind are changed to reads of what they pick.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.evaluate.waiting import waiting_nodes
from infinitensor.api.session.call_cache import cached_rule
from infinitensor.api.session.version import Site, Version
from infinitensor.ir.layout import DISK
from infinitensor.ir.op import Spec
from infinitensor.ir.region import whole_box
from infinitensor.ir.view import Access, of_picked, take
from infinitensor.ops.move.take import check_bounds
from infinitensor.ops.table.registry import TABLE
from infinitensor.runtime import TileTable
from infinitensor.storage import Part, Picked, Points

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.api.session.cell import BaseTensor
    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Node
    from infinitensor.storage import File

STEPPED_TIMES = 8
"""How many times more than it picks a read by steps has to span."""
PAGE_BYTES = 4096
"""Bytes that a disk reads of a file at least."""
WHOLE_AXIS_MEMORY_PART = 8
"""An index may read an axis of a file whole that takes up to this part of the memory."""


def pick(
    session: Session, roots: Sequence[Version], compute: Callable[[list[Version]], None] | None
) -> None:
    """Change what waits for the roots: of files, only what is asked for is read.

    `compute` computes indices that wait; without it these reads are left as they are.
    """
    for node in waiting_nodes(roots):
        if node.is_stopped:
            continue
        for k, given in enumerate(node.inputs):
            if type(given) is not Version or given.table is None or not given.table.is_file:
                continue
            if node.op.name == "_take" and k == 0:
                _pick_points(session, node, given, compute)
                break
            if node.accesses[k] is not None and not (k == 0 and node.region is not None):
                _pick_steps(session, node, k, given)


def file_of(table: TileTable) -> File | None:
    """The file that all of a table can be read from, as it was opened."""
    if not table.is_file:
        return None
    shape = tuple(borders[-1] for borders in table.layout.cuts)
    parts = table.lower_parts()
    stored: Any = parts[0].stored if parts and isinstance(parts[0], Part) else None
    return stored if stored is not None and stored.shape == shape else None


def stored_rows(tensor: BaseTensor, indices: np.ndarray) -> np.ndarray | None:
    """Some rows of a tensor that is a file as it was opened; None of any other."""
    table = tensor._cell.version.table
    stored = None if table is None or tensor._view is not None else file_of(table)
    if stored is None:
        return None
    rest = tensor.shape[1:]
    out = np.empty((len(indices), *rest), tensor.dtype)
    if out.size:
        wanted = Points((0,), (indices,), whole_box(rest), (1,) * len(rest))
        stored.read_points(wanted, out)
    return out


def _pick_steps(session: Session, node: Node, k: int, version: Version) -> None:
    """Let a node read what its view picks of a file, where that is little of what it spans."""
    access, shape = node.accesses[k], node.shapes[k]
    assert access is not None
    if 0 in shape:
        return
    ranges = access.base_region(whole_box(shape))
    n_spanned = prod(hi - lo for lo, hi, _ in ranges)
    if n_spanned < STEPPED_TIMES * prod(len(range(*one)) for one in ranges):
        return
    found = _version(session, version, node.site, (), (), ranges)
    if found is None:
        return
    seen = of_picked(access, shape)
    node.inputs = (*node.inputs[:k], found, *node.inputs[k + 1 :])
    node.accesses = (*node.accesses[:k], seen, *node.accesses[k + 1 :])
    found.readers += 1
    version.readers -= 1


def _pick_points(
    session: Session,
    node: Node,
    version: Version,
    compute: Callable[[list[Version]], None] | None,
) -> None:
    """Let a node read the elements of a file that indices name, where that is better than all."""
    given = dict(node.call.params)
    axes, position = given["axes"], given["position"]
    access, shape = node.accesses[0] or _all(version.shape), node.shapes[0]
    if access.part or any(access.axes[axis] is None for axis in axes):
        return
    if not _is_worth_it(session, shape, axes, node):
        return
    waiting = [v for v in node.inputs[1:] if type(v) is Version and v.node is not None]
    if waiting:
        if compute is None:
            return
        compute(waiting)
    points = []
    walked = [access.axes[axis] for axis in axes]
    for k, axis in enumerate(axes):
        at = _values(session, node, k + 1)
        low = check_bounds(at, shape[axis], axis)
        base = walked[k]
        assert base is not None
        points.append(
            (np.where(at < 0, at + shape[axis], at) if low < 0 else at) * base[2] + base[1]
        )
    indexed = {one[0] for one in walked if one is not None}
    region = access.base_region(whole_box(shape))
    ranges = tuple(one for base, one in enumerate(region) if base not in indexed)
    named = tuple(one[0] for one in walked if one is not None)
    found = _version(session, version, node.site, named, tuple(points), ranges)
    if found is None:
        return
    seen = _as_taken(access, shape, axes, position, node.shapes[1])
    copy = TABLE["_copy"]
    (out,) = node.call.outs
    for given in node.inputs:
        if type(given) is Version:
            given.readers -= 1
    found.readers += 1
    node.op, node.call = copy, cached_rule(copy, (Spec(out.shape, out.dtype),))
    node.inputs, node.accesses, node.shapes = (found,), (seen,), (out.shape,)


def _is_worth_it(session: Session, shape: tuple[int, ...], axes: Any, node: Node) -> bool:
    """Whether to read points costs less than all, or all of their axes is too much to hold."""
    (out,) = node.call.outs
    n_points, width = prod(node.shapes[1]), out.dtype.itemsize
    if not out.n_elements:
        return False
    last = max(axes)
    apart = prod(n for axis, n in enumerate(shape[:last]) if axis not in axes)
    n_bytes = n_points * apart * max(prod(shape[last + 1 :]) * width, PAGE_BYTES)
    room = min(session.engine.budgets())
    held = prod(shape[axis] for axis in axes) * width
    is_less = 2 * n_bytes <= prod(shape) * width
    return 32 * n_points <= room and (is_less or WHOLE_AXIS_MEMORY_PART * held > room)


def _values(session: Session, node: Node, k: int) -> np.ndarray:
    """The values of an operand that is stored."""
    given, access, shape = node.inputs[k], node.accesses[k], node.shapes[k]
    if type(given) is not Version:
        return np.asarray(given)
    whole = whole_box(given.shape)
    values = given.host
    if values is None:
        assert given.table is not None
        values = session.engine.read(given.table, whole)
    seen = values if access is None else take(values, access, whole_box(shape), whole)
    return np.asarray(seen)


def _version(
    session: Session,
    version: Version,
    site: Site,
    axes: tuple[int, ...],
    points: tuple[np.ndarray, ...],
    ranges: tuple[tuple[int, int, int], ...],
) -> Version | None:
    """A version over what is picked of a file; None where it is all in memory already."""
    assert version.table is not None
    stored = file_of(version.table)
    if stored is None or DISK not in version.table.layout.owners:
        return None
    picked = Picked(stored, axes, points, ranges)
    made = Version(session, picked.shape, version.dtype)
    session.ways["read_few"] += 1
    session.keep(made, TileTable.of_file(Part(picked)), "open", site)
    return made


@lru_cache(maxsize=1024)
def _all(shape: tuple[int, ...]) -> Access:
    """The access that reads an array as it is."""
    return Access(tuple((axis, 0, 1) for axis in range(len(shape))), (-1,) * len(shape))


@lru_cache(maxsize=4096)
def _as_taken(
    access: Access,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    position: int,
    index: tuple[int, ...],
) -> Access:
    """How a result sees what its index picks: the index's axes are the first of it."""
    seen = of_picked(access, shape)
    indexed = {one[0] for axis in axes if (one := access.axes[axis]) is not None}
    bases = [base for base in range(len(access.fixed)) if base not in indexed]
    kept = [
        one and (len(index) + bases.index(one[0]), *one[1:])
        for axis, one in enumerate(seen.axes)
        if axis not in axes
    ]
    walks = [(axis, 0, 1) for axis in range(len(index))]
    walked = [*kept[:position], *walks, *kept[position:]]
    fixed = [-1] * len(index) + [seen.fixed[base] for base in bases]
    return Access(tuple(walked), tuple(fixed))
