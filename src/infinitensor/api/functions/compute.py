"""`compute`: several tensors at once, now."""

from __future__ import annotations

from typing import Any

from infinitensor.api.evaluate.evaluate import evaluate
from infinitensor.api.tensor.tensor import Tensor


def compute(*tensors: Any) -> Any:
    """Compute tensors together, now. Returns them; errors are raised here.

    >>> import infinitensor as it
    >>> a, b = it.compute(it.ones(3).sum(), it.ones(4).sum())
    >>> float(a) + float(b)
    7.0
    """
    by_session: dict[int, list[Tensor]] = {}
    for tensor in tensors:
        # who has an owner has values of its own, and no version yet: it would be made for nothing
        if isinstance(tensor, Tensor) and tensor._owner is None and tensor._version.is_waiting:
            by_session.setdefault(id(tensor._session), []).append(tensor)
    for group in by_session.values():
        evaluate(group[0]._session, [tensor._version for tensor in group])
    return tensors[0] if len(tensors) == 1 else tensors
