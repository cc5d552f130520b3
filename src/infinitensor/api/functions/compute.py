"""`compute`: several tensors at once, now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.api.evaluate.evaluate import evaluate
from infinitensor.api.tensor.tensor import Tensor

if TYPE_CHECKING:
    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Version


def compute(*tensors: Any) -> Any:
    """Compute tensors together, now. Returns them; errors are raised here.

    >>> import infinitensor as it
    >>> a, b = it.compute(it.ones(3).sum(), it.ones(4).sum())
    >>> float(a) + float(b)
    7.0
    """
    if len(tensors) == 1 and type(tensors[0]) is Tensor:
        (tensor,) = tensors
        if tensor._owner is None:
            cell = tensor._cell
            if cell.version.node is not None:
                evaluate(cell.session, (cell.version,))
        return tensor
    by_session: dict[Session, list[Version]] = {}
    for tensor in tensors:
        # who has an owner has values of its own, and no version yet: it would be made for nothing
        if isinstance(tensor, Tensor) and tensor._owner is None:
            version = tensor._version
            if version.node is not None:
                by_session.setdefault(tensor._session, []).append(version)
    for session, versions in by_session.items():
        evaluate(session, versions)
    return tensors[0] if len(tensors) == 1 else tensors
