"""Tensors on the host joined at once: in one call of C where they have one dtype.

What is small is NumPy's array, as every small result; what is more has memory of the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.eager.moved import move
from infinitensor.api.record.late import late
from infinitensor.api.small.host_values import small_tensor, tensors, values_of
from infinitensor.config import config
from infinitensor.ir.op import Spec
from infinitensor.ops.move import moved_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session.session import Session


def join_now(like: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """`concatenate` or `stack` of tensors on the host along an axis that is given; None: wait."""
    if not config.small_elements or not 1 <= len(args) <= 2 or type(args[0]) not in (list, tuple):
        return None
    axis = args[1] if len(args) == 2 else kwargs.get("axis", 0)
    if type(axis) is not int or len(kwargs) != ("axis" in kwargs) or len(args) + len(kwargs) > 2:
        return None
    session, arrays = _values_of(args[0])
    if session is None:
        return None
    limit = config.small_elements
    made = moved_rows.join(arrays, axis, like is np.stack, limit)
    if type(made) is tuple:
        return _join_more(session, arrays, axis, made)
    if made is None:
        if sum([x.size for x in arrays]) > limit:
            return None
        try:
            made = like(arrays, axis)
        except Exception:  # ours has the better words
            return None
    session.ways["numpy"] += 1
    return small_tensor(session, made)


def _join_more(session: Session, arrays: list[Any], axis: int, shape: tuple[int, ...]) -> Any:
    """In memory of the ledger; None: wait."""
    axis = axis % len(shape)
    version = move(
        session,
        Spec(shape, arrays[0].dtype),
        "_concatenate",
        lambda out: moved_rows.join_into(arrays, axis, out),
    )
    return None if version is None else late.fresh(session, version)


def _values_of(given: Any) -> tuple[Session | None, list[Any]]:
    """The values of tensors, all on the host, and their session; None for any others."""
    session = None
    arrays: list[Any] = []
    for x in given:
        if type(x) is not tensors[0]:
            return None, arrays
        home = x._owner or x._cell.session
        values = values_of(x)
        if values is None or (session or home) is not home:
            return None, arrays
        session = home
        arrays.append(values)
    return session, arrays
