"""Functions of a tensor under the lock of its session."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.tensor.tensor import Tensor

Made = TypeVar("Made")


def guarded(function: Callable[..., Made]) -> Callable[..., Made]:
    """A function of a tensor, under the lock of the tensor's session."""

    @functools.wraps(function)
    def locked(tensor: Tensor, *args: Any, **kwargs: Any) -> Made:
        with tensor._session.guard():
            return function(tensor, *args, **kwargs)

    return locked
