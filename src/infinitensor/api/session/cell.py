"""Cells, and what a tensor is to the rooms that `Tensor` is made of: its fields, and who it is.

These rooms name `BaseTensor`, or `AnyTensor` where they give the same kind back.
"""

from __future__ import annotations

import functools
from math import prod
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from infinitensor.api.session import released
from infinitensor.api.session.session import Session
from infinitensor.api.session.version import Node, Version
from infinitensor.ir.view import View, whole_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from infinitensor.ir.layout import Layout


Function = TypeVar("Function", bound="Callable[..., Any]")


class Cell:
    """The variable behind a tensor and its views: it shows one version after another."""

    __slots__ = ("session", "version")

    def __init__(self, session: Session, version: Version) -> None:
        self.session = session
        self.version = version
        version.live += 1

    def show(self, version: Version) -> None:
        """Show the next version."""
        before = self.version
        version.live += 1
        self.version = version
        before.live -= 1  # last: if Ctrl-C comes between, it counts for more than it is, never less

    def __del__(self) -> None:
        version = self.version
        is_counted = version.table is not None or version.host is None  # only tiles can be used up
        if is_counted and not self.session.closed:
            self.session.dropped.append(self.version)


class Ref:
    """A tensor as recording sees it: a version through a view (None: all of it)."""

    __slots__ = ("dtype", "shape", "version", "view")

    def __init__(self, version: Version, view: View | None, dtype: np.dtype[Any]) -> None:
        self.version = version
        self.view = view
        self.shape = version.shape if view is None else view.shape
        self.dtype = dtype


if TYPE_CHECKING:

    class _Above:
        """The interface of `Tensor` that the rooms it is made of use."""

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def flags(self) -> Any: ...
        @property
        def _view(self) -> View | None: ...
        def _seen_as(self, view: View) -> Self: ...
        def _compute(self) -> None: ...
        def numpy(self) -> np.ndarray: ...
        def reshape(self, *shape: Any, copy: bool | None = None) -> Self: ...
        def ravel(self) -> Self: ...
        def transpose(self, *axes: Any) -> Self: ...
        @property
        def real(self) -> Self: ...
        @property
        def imag(self) -> Self: ...
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray: ...
        def __getitem__(self, index: Any) -> Self: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __iter__(self) -> Iterator[Any]: ...
else:
    _Above = object


class BaseTensor(_Above):
    """The fields of a tensor. `Tensor` is the only class made of it, in a room above these."""

    __slots__ = (
        "__weakref__",
        "_cell",
        "_dtype",
        "_frozen",
        "_index",
        "_is_value",
        "_lazy_view",
        "_lent",
        "_owner",
        "_seen",
        "_seen_of",
        "_shape",
    )

    _cell: Cell
    """The variable behind it; made at the first need of a tensor of its own (`host_values.py`)."""
    _owner: Session | None
    """The session of a tensor that has no cell yet."""
    _lazy_view: View | None
    _index: Any
    """The index of a base that it is, if it came from one in the host's reach."""
    _seen: Any
    """The values it shows: of a view on the host, of the array `_seen_of`; without a cell, its
    own."""
    _seen_of: np.ndarray | None
    """The array that it was seen in: valid while its version still has that one."""
    _dtype: np.dtype[Any]
    _shape: tuple[int, ...]
    _frozen: bool
    _is_value: bool
    _lent: tuple[Any, ...]

    @property
    def _session(self) -> Session:
        return self._owner or self._cell.session

    @property
    def _version(self) -> Version:
        return self._cell.version

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements in all."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def device(self) -> str:
        """The kind of device its session runs on."""
        return self._session.engine.mesh.kind

    @property
    def layout(self) -> Layout | None:
        """The layout of the base over devices; None while it waits or is small on the host."""
        table = self._version.table
        return None if table is None else table.layout

    def _ref(self) -> Ref:
        return Ref(self._cell.version, self._view, self.dtype)

    def _whole(self) -> View:
        return self._view or whole_view(self._cell.version.shape)


AnyTensor = TypeVar("AnyTensor", bound=BaseTensor)


def guard(function: Function) -> Function:
    """A function of a tensor, under the lock of the tensor's session."""

    @functools.wraps(function)
    def wrapper(tensor: BaseTensor, *args: Any, **kwargs: Any) -> Any:
        with tensor._session.guard():
            return function(tensor, *args, **kwargs)

    return cast("Function", wrapper)


released.in_c(Version, Cell, Node, Session)
