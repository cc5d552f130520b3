"""Tensors and functions for the files that these are made with: looked up when they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from infinitensor.api.session.version import Shown

if TYPE_CHECKING:
    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Version
    from infinitensor.api.tensor.tensor import Tensor


def named(name: str) -> Any:
    """A function of the table, internal ones too, by its name."""
    from infinitensor.api.functions.namespace import namespace

    return getattr(namespace, name)


def call_op(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a function of the table by its name."""
    return named(name)(*args, **kwargs)


def is_tensor(value: Any) -> TypeGuard[Tensor]:
    """Whether a value is a tensor."""
    return isinstance(value, Shown)


def new_tensor(session: Session, version: Version) -> Tensor:
    """A tensor of its own that shows a version."""
    from infinitensor.api.tensor.tensor import fresh

    return fresh(session, version)
