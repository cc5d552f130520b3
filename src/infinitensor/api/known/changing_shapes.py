"""Ufuncs of host values at places whose shapes change: NumPy's loops, at once.

Such a place has other shapes at every step (`changing_places.py`), so nothing is known of its calls
from before: to find out what a call is, and to remember it, would take longer than the call.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.eager import changing_places, numpy_loops
from infinitensor.api.eager.changing_places import MEDIUM, blank, has_changing_shapes, keep
from infinitensor.api.session.version import user_site
from infinitensor.api.small import host_values
from infinitensor.api.small.errstate import quietly
from infinitensor.api.tensor.tensor import Tensor, fresh
from infinitensor.config import config
from infinitensor.ops.table.functions import with_our_loops

if TYPE_CHECKING:
    from infinitensor.api.session.session import Session

_resolved = lru_cache(maxsize=1024)(lambda like, given: like.resolve_dtypes((*given, None)))


def call_ufunc(like: np.ufunc, args: tuple[Any, ...]) -> Tensor | None:
    """A ufunc of one result, of tensors and plain numbers; None where the machinery has to do it.

    Nothing is small here: what is has a shorter way still.
    """
    if not changing_places.places:
        return None
    ins: list[Any] = []
    kinds: list[Any] = []
    session: Session | None = None
    for x in args:
        if type(x) is Tensor:
            home = x._owner or x._cell.session
            values = host_values.values_of(x)
            if values is None or (session or home) is not home:
                return None
            session = home
            ins.append(values)
            kinds.append(values.dtype)
        elif type(x) is float or (type(x) is int and 0 <= x < 128):  # in every dtype
            ins.append(x)
            kinds.append(type(x))
        else:
            return None
    if session is None or session.closed:
        return None
    try:
        shape = np.broadcast_shapes(*map(np.shape, ins)) if len(ins) > 1 else ins[0].shape
        loop = _resolved(like, tuple(kinds))
    except (TypeError, ValueError):  # ours has the better words
        return None
    n, dtype = int(np.prod(shape)), loop[-1]
    if not config.small_elements < n <= MEDIUM:
        return None
    site = user_site()
    if not has_changing_shapes(
        session, n, site
    ) or 2 * n * dtype.itemsize > session.engine.available_bytes(0):
        return None
    with session.guard():
        session.check_open()
        session.ways["changing_shapes"] += 1
        table = blank(session, shape, dtype)
        typed = [
            x if isinstance(x, np.ndarray | np.generic) else kind.type(x)
            for x, kind in zip(ins, loop, strict=False)
        ]
        quietly(numpy_loops.compute_into, with_our_loops(like), table.whole, *typed)
        return fresh(session, keep(session, table, like.__name__, site))
