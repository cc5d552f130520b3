"""Places of a program with *changing shapes*: their calls are not recorded, but run at once.

These are places whose calls ran twice without a plan, for other shapes (`evaluate/unplanned.py`):
somebody waits for each of their values, and no plan would be used again. Only calls on the host
that a plan would not cut, or that do not round by tiles, run so: bits do not depend on what ran
before. Where few sizes are repeated (a function that is called for two tables, a last batch
that is smaller) these are recorded, and planned, as elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.session.version import Version, user_site
from infinitensor.config import config
from infinitensor.ir.op import n_points
from infinitensor.partition import canonical_layout
from infinitensor.partition.tile_shape import LEAF_ELEMENTS
from infinitensor.runtime import TileTable

if TYPE_CHECKING:
    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Node, Site
    from infinitensor.ir.op import Call, Op

UNPLANNED_ELEMENTS = 1 << 22
"""Elements of all calls together, up to which no plan is made: below what is worth compiling."""
MEDIUM = 1 << 20
"""Elements that a call at such a place may have: what more cores would not gain much on."""
LEAF = LEAF_ELEMENTS["cpu"]
MOST_SIZES = 16
"""Sizes of calls at a place, of more than which none is taken for one that stays: a loop over parts
of a matrix comes round to the same sizes again, but to hundreds of them."""
TIMES_AT_ONCE = 64
"""How often it is asked at a place, for each size, whether its calls run at once, until they do no
more: a call asks once or twice. A plan takes about as long as recorded calls have saved by then."""
UNROUNDED = ("elementwise", "creation", "update", "gather")


def runs_unplanned(session: Session) -> bool:
    """Whether a session runs anything without a plan."""
    if not config.small_elements or config.compile != "auto" or config.tile_elements:
        return False
    return session.engine.mesh.is_one_memory


Shapes = Sequence[tuple[int, ...]]


def elements_of(node: Node) -> int:
    """Elements that a call computes."""
    if node.op.kind == "update":
        return prod(node.shapes[0] if node.region is None else node.shapes[1])
    return max(n_points(node.op, node.call), *(spec.n_elements for spec in node.call.outs))


def rounds_alike(op: Op, call: Call, shapes: Shapes) -> bool:
    """Whether a plan would leave the call in one piece, or its pieces do not show."""
    if op.kind in UNROUNDED or op.pairs or op.name == "_copy":
        return True
    volumes = [prod(shape) for shape in shapes] + [spec.n_elements for spec in call.outs]
    if op.kind == "contraction":
        return min(volumes) < LEAF // 4 and max(volumes) <= LEAF
    return max(prod(call.form.sizes), *volumes) <= LEAF


places: dict[Any, int] = {}
"""Places in the program whose calls ran without a plan: 1, and 1 more when there were others."""
settled: set[tuple[Any, ...]] = set()
"""Places of changing shapes, with numbers of elements that come there again and again."""
_sizes_at: dict[Any, dict[int, int]] = {}
"""How often it was asked there for numbers of elements."""
_calls_at: dict[Any, set[int]] = {}
"""The calls of each op that ran there, by identity."""


def forget_places() -> None:
    """Know of no place where calls ran without a plan."""
    for known in (places, settled, _calls_at, _sizes_at):
        known.clear()


def note_places(nodes: Sequence[Node]) -> None:
    """Remember where calls ran without a plan, and of which shapes."""
    if len(places) > 65536:
        forget_places()
    found: dict[Any, set[int]] = {}
    for node in nodes:
        place = node.site.key()
        found.setdefault((place, node.op.name), set()).add(id(node.call))
        if places.get(place, 0) > 1:
            _note_size(place, elements_of(node))
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
        elements_of(node) <= MEDIUM
        and (node.op.kind == "update" or _is_changing(node.site.key(), elements_of(node)))
        for node in nodes
    )


def _is_changing(place: tuple[Any, ...], n_elements: int) -> bool:
    return places.get(place, 0) > 1 and (*place, n_elements) not in settled


def _note_size(place: tuple[Any, ...], n_elements: int) -> None:
    """Note that calls of so many elements are made at a place of changing shapes."""
    sizes = _sizes_at.setdefault(place, {})
    if len(sizes) > MOST_SIZES:
        return
    sizes[n_elements] = times = sizes.get(n_elements, 0) + 1
    if len(sizes) > MOST_SIZES:  # none of them stays
        settled.difference_update((*place, n) for n in sizes)
    elif times >= TIMES_AT_ONCE:
        settled.add((*place, n_elements))


def has_changing_shapes(session: Session, n_elements: int, site: Site | None = None) -> bool:
    """Whether a call of so many elements, made at this place, is better run than recorded."""
    if not places or n_elements > MEDIUM or not runs_unplanned(session):
        return False
    place = (site or user_site()).key()
    if not _is_changing(place, n_elements):
        return False
    _note_size(place, n_elements)
    return True


def runs_at_once(session: Session, op: Op, call: Call, shapes: Shapes, site: Site) -> bool:
    """Whether a call on host values is made at a place of changing shapes, with a plan's bits."""
    if not places or op.whole or op.kind == "update":
        return False
    most = max(n_points(op, call), *map(prod, shapes), *(s.n_elements for s in call.outs))
    if not has_changing_shapes(session, most, site) or not rounds_alike(op, call, shapes):
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
