"""Tensors and functions of the table for files that these are made with.

The files above enter what they make when they are imported; it is looked up when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from infinitensor.api.session.cell import BaseTensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session.cell import AnyTensor
    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Version


class Late:
    """Functions that higher files have entered."""

    __slots__ = ("fresh", "namespace", "public")

    fresh: Callable[[Session, Version], Any]
    """A tensor of its own that shows a version."""
    namespace: Any
    """All functions of the table, internal ones too."""
    public: dict[str, Callable[..., Any]]
    """The functions that users call, by name."""


late = Late()


def function_named(name: str) -> Any:
    """A function of the table, internal ones too, by its name."""
    return getattr(late.namespace, name)


def call_op(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a function of the table by its name."""
    return getattr(late.namespace, name)(*args, **kwargs)


def is_tensor(value: Any) -> TypeGuard[BaseTensor]:
    """Whether a value is a tensor."""
    return isinstance(value, BaseTensor)


def new_tensor(like: AnyTensor, version: Version) -> AnyTensor:
    """A tensor of its own that shows a version, in the session of another."""
    made: AnyTensor = late.fresh(like._session, version)
    return made
