"""Tensors and functions of the table for files that these are made with.

The files above enter what they make when they are imported; it is looked up when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from infinitensor.api.session.version import Shown

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Cell, Version
    from infinitensor.api.tensor.tensor import Tensor
    from infinitensor.ir.view import View


class Late:
    """What files above have entered."""

    __slots__ = ("fresh", "namespace", "public", "tensor_of")

    fresh: Callable[[Session, Version], Tensor]
    tensor_of: Callable[[Cell, View | None, np.dtype[Any]], Tensor]
    namespace: Any
    """All functions of the table, internal ones too."""
    public: dict[str, Callable[..., Any]]
    """The functions that users call, by name."""


late = Late()


def named(name: str) -> Any:
    """A function of the table, internal ones too, by its name."""
    return getattr(late.namespace, name)


def call_op(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a function of the table by its name."""
    return getattr(late.namespace, name)(*args, **kwargs)


def is_tensor(value: Any) -> TypeGuard[Tensor]:
    """Whether a value is a tensor."""
    return isinstance(value, Shown)


def new_tensor(session: Session, version: Version) -> Tensor:
    """A tensor of its own that shows a version."""
    return late.fresh(session, version)
