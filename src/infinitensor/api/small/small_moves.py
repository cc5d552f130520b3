"""Functions that put elements of small tensors elsewhere, made at once by NumPy's own.

They take lists, tuples and words beside tensors and numbers, which those of `numpy_table.py` do
not. As programs over other ops they take several times as long as what they do. What they make is
arrays of their own, of the same bits as ours; what is not plain here is recorded.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.session.session import current_session
from infinitensor.api.small.errstate import SILENT, restore, silence
from infinitensor.api.small.host_values import NUMBERS, small_tensor, tensors, values_of
from infinitensor.api.small.numpy_table import too_large
from infinitensor.config import config

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session.session import Session

PLAIN = frozenset((*NUMBERS, type(None), str, slice))
"""The types of arguments that are NumPy's as they are."""


class _OursError(ValueError):
    """A call that is not for NumPy."""


def move_now(like: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What NumPy's function makes of small tensors, in lists or not; None: record it."""
    if not config.small_elements:
        return None
    taken: list[tuple[Session, int]] = []
    token = silence(SILENT)
    try:
        given = _values(args, taken)
        options = {name: _values((x,), taken)[0] for name, x in kwargs.items()}
        session = taken[0][0] if taken else current_session() if like in NEW else None
        if session is None or not _are_small(session, taken):
            return None
        made = like(*given, **options)
    except Exception:  # ours has the better words
        return None
    finally:
        restore(token)
    found = [_own(session, one) for one in (made if type(made) is tuple else (made,))]
    if any([one is None for one in found]):
        return None
    session.ways["numpy"] += 1
    return tuple(found) if type(made) is tuple else found[0]


def _values(given: Any, taken: list[tuple[Session, int]]) -> list[Any]:
    """Arguments with the values of their tensors, whose sessions and sizes are noted."""
    found: list[Any] = []
    for x in given:
        kind = type(x)
        if kind is tensors[0]:
            home, x = x._owner or x._cell.session, values_of(x)
            if x is None:
                raise _OursError
            taken.append((home, x.size))
        elif kind is list or kind is tuple:
            x = kind(_values(x, taken))
        elif kind not in PLAIN:
            raise _OursError
        found.append(x)
    return found


def _are_small(session: Session, taken: list[tuple[Session, int]]) -> bool:
    """Whether tensors are all of one session, and small together."""
    n_elements = 0
    for home, size in taken:
        if home is not session:
            return False
        n_elements += size
    return n_elements <= config.small_elements


def _own(session: Session, made: Any) -> Any:
    """A result as a tensor; None where it has become large, or is of words."""
    if made.dtype.kind not in "biufc" or made.size > config.small_elements:
        return None
    return small_tensor(session, made)


def _check(n_elements: int) -> None:
    """Leave a larger result to us before it takes memory."""
    if n_elements > config.small_elements:
        raise _OursError


ELSEWHERE = ("constant", "edge", "reflect", "symmetric", "wrap")
"""Borders that only have elements of the array, or one number."""


def _pad(a: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    if mode not in ELSEWHERE or not {"constant_values"}.issuperset(options):
        raise _OursError
    most = pad_width if type(pad_width) is int else max(np.ravel(pad_width).tolist())
    _check(prod([n + 2 * most for n in a.shape]))
    return np.pad(a, pad_width, mode, **options)


def _tile(a: Any, reps: Any) -> Any:
    _check(a.size * prod(reps))
    return np.tile(a, reps)


def _insert(a: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    n = a.size if axis is None else a.shape[axis]
    n_new = max(n if type(obj) is slice else np.size(obj), np.size(values))
    _check(a.size + a.size // max(n, 1) * n_new)
    return np.insert(a, obj, values, axis)


def _choose(a: Any, choices: Any, *, mode: Any = "raise") -> Any:
    if too_large(*map(np.shape, (a, *choices))):
        raise _OursError
    return np.choose(a, choices, mode=mode)


def _meshgrid(*lines: Any, sparse: Any = False, indexing: Any = "xy") -> Any:
    _check(prod(map(np.size, lines)))
    return tuple(np.meshgrid(*lines, sparse=sparse, indexing=indexing))


def _indices(dimensions: Any) -> Any:
    _check(prod(dimensions) * len(dimensions))
    return np.indices(dimensions)


NEW = (_indices,)
"""Those of plain numbers alone."""
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "append": np.append,
    "block": np.block,
    "choose": _choose,
    "delete": np.delete,
    "hstack": np.hstack,
    "indices": _indices,
    "insert": _insert,
    "lexsort": np.lexsort,
    "meshgrid": _meshgrid,
    "pad": _pad,
    "tile": _tile,
    "vstack": np.vstack,
}
AT_ONCE: dict[str, Callable[[Any, Any], Any]] = {
    name: partial(move_now, like) for name, like in _FUNCTIONS.items()
}
"""Functions that ask one of these first."""
