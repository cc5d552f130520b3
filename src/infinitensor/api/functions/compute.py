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
    if len(tensors) == 1 and type(tensors[0]) is Tensor:
        evaluate(tensors[0]._session, [tensors[0]._version])
        return tensors[0]
    given = [t for t in tensors if isinstance(t, Tensor)]
    by_session: dict[int, list[Tensor]] = {}
    for tensor in given:
        by_session.setdefault(id(tensor._session), []).append(tensor)
    for group in by_session.values():
        evaluate(group[0]._session, [t._version for t in group])
    return tensors[0] if len(tensors) == 1 else tensors
