"""NumPy's index makers (`mgrid`, `r_`, `ix_` ...) and iterators, over tensors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from infinitensor.api.record.late import call_op
from infinitensor.api.tensor.tensor import Tensor, session_of
from infinitensor.dtypes import result_type

if TYPE_CHECKING:
    from collections.abc import Iterator


def ix_(*args: Any) -> tuple[Tensor, ...]:
    """Index arrays that select the rows, columns ... named by one sequence for each axis.

    >>> import infinitensor as it
    >>> x = it.arange(6).reshape(2, 3)
    >>> x[it.ix_([1, 0], [0, 2])].tolist()
    [[3, 5], [0, 2]]
    """
    made = []
    for axis, given in enumerate(args):
        is_empty_list = not hasattr(given, "dtype") and not np.size(given)
        index = call_op("asarray", np.zeros(0, np.intp) if is_empty_list else given)
        if index.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if index.dtype == np.bool_:
            (index,) = call_op("nonzero", index)
        made.append(index.reshape((1,) * axis + (-1,) + (1,) * (len(args) - axis - 1)))
    return tuple(made)


class Grid:
    """`mgrid` and `ogrid`: coordinates of the points of slices, filled out or open.

    >>> import infinitensor as it
    >>> it.mgrid[0:2, 0:3][1].tolist(), it.ogrid[0:2, 0:1:3j][1].tolist()
    ([[0, 1, 2], [0, 1, 2]], [[0.0, 0.5, 1.0]])
    """

    def __init__(self, sparse: bool) -> None:
        self._sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        axes = np.ogrid[key]
        if not isinstance(axes, tuple | list):
            return call_op("asarray", axes)
        lines = [call_op("asarray", axis) for axis in axes]
        if self._sparse:
            return tuple(lines)
        return call_op("stack", call_op("broadcast_arrays", *lines))


class Joined:
    """`r_` and `c_`: slices, numbers and arrays put together along an axis.

    >>> import infinitensor as it
    >>> it.r_[0:3, 7, it.ones(2)].tolist()
    [0.0, 1.0, 2.0, 7.0, 1.0, 1.0]
    >>> it.c_[it.arange(2), it.arange(2)].tolist()
    [[0, 0], [1, 1]]
    """

    def __init__(self, axis: int, n_axes: int, place: int) -> None:
        self._given = (axis, n_axes, place)

    def __getitem__(self, key: Any) -> Tensor:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, n_axes, place = self._given
        if isinstance(items[0], str):
            words = items.pop(0).split(",")
            if words[0] in ("r", "c"):
                raise ValueError(f"{words[0]!r} asks for a matrix, which tensors are not")
            numbers = [int(word) for word in words]
            axis, n_axes, place = (*numbers, *(axis, n_axes, place)[len(numbers) :])
        scalars = [type(item) for item in items if type(item) in (bool, int, float, complex)]
        pieces = [self._piece(item, n_axes, place) for item in items]
        strong = [p.dtype for p, i in zip(pieces, items, strict=True) if type(i) not in scalars]
        dtype = result_type(*strong, *(kind() for kind in scalars))
        for number in (i for i in items if type(i) is int):
            np.array(number, dtype)  # one that does not fit is an error
        return call_op("concatenate", [p.astype(dtype, copy=False) for p in pieces], axis=axis)  # type: ignore[no-any-return]

    def _piece(self, item: Any, n_axes: int, place: int) -> Tensor:
        made = call_op("asarray", np.r_[item] if isinstance(item, slice) else item)
        if not made.ndim:
            return made.reshape((1,) * n_axes)  # type: ignore[no-any-return]
        n_new = max(n_axes - made.ndim, 0)
        front = place + n_new + 1 if place < 0 else min(place, n_new)
        return made.reshape((1,) * front + made.shape + (1,) * (n_new - front))  # type: ignore[no-any-return]


mgrid = Grid(sparse=False)
ogrid = Grid(sparse=True)
r_ = Joined(0, 1, -1)
c_ = Joined(-1, 2, 0)
s_, index_exp = np.s_, np.index_exp


class ndindex(np.ndindex):
    """All indices of a shape, in C order.

    >>> import infinitensor as it
    >>> list(it.ndindex(1, 2))
    [(0, 0), (0, 1)]
    """


class ndenumerate:
    """Pairs of index and value, in C order; the values are computed when the first is asked for.

    >>> import infinitensor as it
    >>> [(i, int(v)) for i, v in it.ndenumerate(it.asarray([[5, 6]]))]
    [((0, 0), 5), ((0, 1), 6)]
    """

    def __init__(self, arr: Any) -> None:
        self._tensor: Tensor = call_op("asarray", arr)

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], Any]]:
        return np.ndenumerate(self._tensor.numpy())


class broadcast:
    """The shape that arrays have together, and their values side by side.

    >>> import infinitensor as it
    >>> it.broadcast(it.ones((3, 1)), it.ones(4)).shape
    (3, 4)
    """

    def __init__(self, *arrays: Any) -> None:
        self._arrays = call_op("broadcast_arrays", *arrays)
        self.shape: tuple[int, ...] = self._arrays[0].shape
        self.ndim = self.nd = len(self.shape)
        self.size = prod(self.shape)
        self.numiter = len(self._arrays)
        self.reset()

    @property
    def iters(self) -> tuple[Any, ...]:
        """The elements of each array as it was broadcast, in C order."""
        return tuple(array.flat for array in self._arrays)

    def reset(self) -> None:
        """Begin again: the next values are the first ones."""
        self.index = 0
        self._values: Iterator[tuple[Any, ...]] | None = None

    def __iter__(self) -> broadcast:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if self._values is None:
            self._values = zip(*(array.numpy().flat for array in self._arrays), strict=True)
        values = next(self._values)
        self.index += 1
        return values


class nditer:
    """Element by element, in memory order: 0-d views, so that `x[...] = v` writes where it may.

    Takes one array or several, broadcast together; the flag `multi_index`, the operand flags
    `readonly`, `readwrite` and `writeonly`, and `order` ("K" is memory order). Each step
    is a call of its own: a loop over elements is slow, a formula over tensors is not.

    >>> import infinitensor as it
    >>> x = it.arange(3)
    >>> with it.nditer(x, op_flags=["readwrite"]) as elements:
    ...     for element in elements:
    ...         element[...] = 2 * element
    >>> x.tolist()
    [0, 2, 4]
    """

    def __init__(
        self,
        op: Any,
        flags: Any = None,
        op_flags: Any = None,
        op_dtypes: Any = None,
        order: Any = "K",
        casting: Any = "safe",
        op_axes: Any = None,
        itershape: Any = None,
        buffersize: int = 0,
    ) -> None:
        for name, given in (("op_axes", op_axes), ("itershape", itershape)):
            if given is not None:
                raise ValueError(f"nditer: {name} is not known here: broadcast the arrays first")
        if op_dtypes is not None:
            raise ValueError("nditer: op_dtypes asks for buffers: cast the arrays first")
        self._order = order
        refused = set(flags or ()) - {"multi_index", "refs_ok", "zerosize_ok", "c_index"}
        if refused:
            raise ValueError(f"nditer: the flags {sorted(refused)} are not known here")
        self._single = not isinstance(op, tuple | list)
        arrays = [op] if self._single else list(op)
        wanted = [op_flags or ()] if self._single or not op_flags else op_flags
        wanted = [one if not isinstance(one, str) else [one] for one in wanted]
        self._tensors = [call_op("asarray", array) for array in arrays]
        self.shape: tuple[int, ...] = np.broadcast_shapes(*(t.shape for t in self._tensors))
        self.itersize = prod(self.shape)
        self._seen = []
        for k, tensor in enumerate(self._tensors):
            modes = wanted[k] if k < len(wanted) else []
            writes = {"readwrite", "writeonly"} & set(modes)
            if writes and tensor.shape != self.shape:
                raise ValueError(
                    "output operand requires a reduction, but reduction is not enabled"
                )
            seen = tensor[...]
            seen._frozen = seen._frozen or not writes
            self._seen.append(seen if writes else call_op("broadcast_to", seen, self.shape))
        self.multi_index: tuple[int, ...] = ()

    def __enter__(self) -> nditer:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        for index in self._indices():
            self.multi_index = index
            found = tuple(seen[(*index, ...)] for seen in self._seen)
            yield found[0] if self._single else found

    def _indices(self) -> Iterator[tuple[int, ...]]:
        """The places in NumPy's order: it is asked with arrays of the same strides."""
        if 0 in self.shape:
            return
        ghosts = [as_strided(np.empty(1, "u1"), s.shape, s._whole().strides) for s in self._seen]
        places = np.nditer(ghosts, flags=["multi_index"], order=self._order)
        while not places.finished:
            yield places.multi_index
            places.iternext()


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The results of a function of each line along an axis, put where the line was.

    The function gets tensors and may return numbers, arrays or tensors; it is called once a line.

    >>> import infinitensor as it
    >>> x = it.arange(6).reshape(2, 3)
    >>> it.apply_along_axis(lambda line: line.max() - line.min(), 1, x).tolist()
    [2, 2]
    """
    x = call_op("asarray", arr)
    lines = call_op("moveaxis", x, axis, -1)
    kept = lines.shape[:-1]
    if not prod(kept):
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    with session_of((x,)).guard():
        made = [
            call_op("asarray", func1d(lines[index], *args, **kwargs)) for index in np.ndindex(kept)
        ]
    found = call_op("stack", made).reshape(kept + made[0].shape)
    places = tuple(range(len(kept), found.ndim))
    where = tuple(range(axis % x.ndim, axis % x.ndim + len(places)))
    return call_op("moveaxis", found, places, where)  # type: ignore[no-any-return]


def apply_over_axes(func: Any, a: Any, axes: Any) -> Tensor:
    """A function `func(a, axis)` applied over one axis after the other, axes kept.

    >>> import infinitensor as it
    >>> it.apply_over_axes(it.sum, it.ones((2, 3)), [0, 1]).tolist()
    [[6.0]]
    """
    found: Tensor = call_op("asarray", a)
    for axis in np.atleast_1d(axes).tolist():
        at = axis % found.ndim
        made = func(found, at)
        found = made if made.ndim == found.ndim else call_op("expand_dims", made, at)
    return found
