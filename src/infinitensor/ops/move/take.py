"""Reading and writing by index arrays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import int64, kind_of
from infinitensor.events import lane
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.torch_bridge import as_signed
from infinitensor.ops.forms.gather import c_strides, gather_form, is_empty
from infinitensor.ops.move import moved_rows, take_triton
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box


def checked_index(xp: Any, index: Any, n: int, axis: int) -> Any:
    """Non-negative indices into an axis of `n`; one outside is NumPy's IndexError.

    On CUDA this waits for the device: an error must not be lost. Who runs it may look later.
    """
    if lane.checks is not None and xp is not np and index.is_cuda and n and prod(index.shape):
        made = take_triton.wrap(index, n)
        if made is None:
            lane.checks.append(bounds_of(index, -n, n))
            made = xp.remainder(index, n)
        return made
    low = check_bounds(index, n, axis)
    return xp.where(index < 0, index + n, index) if low < 0 else index


def bounds_of(index: Any, low: int, high: int) -> Callable[[], bool]:
    """How to see, once the device is done, whether all integers were in a range."""
    ends = _Ends()
    ends.array.copy_(torch.stack(torch.aminmax(index)), non_blocking=True)
    return lambda: ends.are_within(low, high)


class _Ends:
    """Two numbers in memory that a GPU writes: those of one block, made once."""

    _free: ClassVar[list[Any]] = []
    __slots__ = ("array",)

    def __init__(self) -> None:
        if not self._free:
            self._free.extend(torch.empty((256, 2), dtype=torch.int64, pin_memory=True))
        self.array = self._free.pop()

    def are_within(self, low: int, high: int) -> bool:
        """Whether the first is at least `low` and the last below `high`."""
        least, most = self.array.tolist()
        return bool(low <= least and most < high)

    def __del__(self) -> None:
        self._free.append(self.array)


def check_bounds(index: Any, n: int, axis: int) -> int:
    """The least of the indices into an axis of `n`; one outside is NumPy's IndexError."""
    if not prod(index.shape):
        return 0
    if isinstance(index, np.ndarray | np.generic):
        low, high = int(index.min()), int(index.max())
    else:
        low, high = torch.stack(torch.aminmax(index)).tolist()  # the host waits once
    if low < -n or high >= n:
        wrong = low if low < -n else high
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {n}")
    return low


def selected_shape(
    shape: tuple[int, ...], axes: tuple[int, ...], position: int, broadcast: tuple[int, ...]
) -> tuple[int, ...]:
    """The shape of x[..., i, ...]: axes kept whole, the index's axes among them."""
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    return (*kept[:position], *broadcast, *kept[position:])


def check_selection(name: str, x: Spec, indices: Sequence[Spec], axes: Any) -> None:
    if len(indices) != len(axes) or not axes:
        raise ValueError(f"{name}: {len(indices)} index arrays for the axes {axes}")
    for spec in indices:
        if spec.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        if spec.shape != indices[0].shape:
            raise IndexError(
                f"{name}: shape mismatch: indexing arrays could not be broadcast together with "
                f"shapes {' '.join(str(i.shape) for i in indices)}"
            )


def _take_need(
    box: Box, specs: Sequence[Spec], *, axes: tuple[int, ...], position: int, **_: Any
) -> tuple[Box | None, ...]:
    x, ndim = specs[0], specs[1].ndim
    index = box[position : position + ndim]
    if is_empty(index):
        return (None,) * len(specs)
    if is_empty(box):  # nothing is read, but NumPy checks the index all the same
        return (None, *(index,) * len(axes))
    kept = iter((*box[:position], *box[position + ndim :]))
    source = tuple((0, n) if axis in axes else next(kept) for axis, n in enumerate(x.shape))
    return (source, *(index,) * len(axes))


def _take_kernel(
    xp: Any,
    x: Any,
    *index: Any,
    out: Any,
    at: At,
    axes: tuple[int, ...],
    position: int,
    sizes: tuple[int, ...],
) -> None:
    if index[0] is None:
        return
    is_axis = axes == (position,)
    if is_axis and x is not None and moved_rows.take(x, index[0], position, out):
        return
    index = tuple(map(checked_index, (xp,) * len(axes), index, sizes, axes))
    if x is None:
        return
    if is_axis and x.flags.c_contiguous:  # else `take` copies x
        if x.size:  # NumPy refuses to take from an empty axis, even nothing
            np.take(x, index[0], axis=position, out=out, mode="clip")
        return
    _take_front(xp, x, index, out, axes, position)


def _take_cuda(
    xp: Any,
    x: Any,
    *index: Any,
    out: Any,
    at: At,
    axes: tuple[int, ...],
    position: int,
    sizes: tuple[int, ...],
) -> None:
    if index[0] is None:
        return
    are_neighbours = axes == tuple(range(position, position + len(axes)))
    reads = x is not None and 0 not in (*sizes, *out.shape)
    if reads and are_neighbours and take_triton.take(x, index, sizes, position, out):
        return
    index = tuple(map(checked_index, (xp,) * len(axes), index, sizes, axes))
    if x is None:
        return
    x, out = as_signed(x), as_signed(out)
    if axes == (position,) and out.is_contiguous():
        places = index[0].reshape(-1)
        rows = out.view((*x.shape[:position], len(places), *x.shape[position + 1 :]))
        xp.index_select(x, position, places, out=rows)
    else:
        _take_front(xp, x, index, out, axes, position)


def _take_front(
    xp: Any, x: Any, index: tuple[Any, ...], out: Any, axes: tuple[int, ...], position: int
) -> None:
    """Any axes, with the indexed ones brought to the front."""
    front = xp.moveaxis(x, axes, tuple(range(len(axes))))
    ndim = index[0].ndim
    chosen = front[index]
    where = tuple(range(position, position + ndim))
    out[...] = xp.moveaxis(chosen, tuple(range(ndim)), where) if ndim else chosen


def _take_oracle(x: Any, indices: Any, axes: Any, position: int) -> Any:
    front = np.moveaxis(x, axes, range(len(axes)))[tuple(indices)]
    ndim = indices[0].ndim
    return np.moveaxis(front, range(ndim), range(position, position + ndim))


def _take_cases(rng: Any) -> list[Any]:
    x = rng.standard_normal((4, 5, 6))
    return [
        ((x, [rng.integers(-4, 4, 9)], (0,), 0), {}),
        ((x, [rng.integers(0, 5, (2, 3))], (1,), 1), {}),
        ((x, [rng.integers(0, 4, 3), rng.integers(0, 6, 3)], (0, 2), 0), {}),
        ((x, [rng.integers(0, 5, 3), rng.integers(0, 6, 3)], (1, 2), 1), {}),
        ((x, [np.int64(2)], (1,), 0), {}),
        ((x, [np.zeros(0, np.int64)], (1,), 1), {}),
    ]


@op(
    "gather",
    kernel=_take_kernel,
    kernels={"cuda": _take_cuda},
    need=_take_need,
    moves=True,
    scratch_bytes=lambda ins, outs, params: (
        32 * sum(spec.n_elements for spec in ins[1:]) + 2 * outs[0].n_bytes + 64
    ),
    cases=_take_cases,
    oracle=_take_oracle,
)
def _take(x: Spec, indices: Sequence[Spec], axes: tuple[int, ...], position: int) -> Call:
    """Advanced indexing: index arrays of one shape over `axes`, every other axis whole.

    The index's own axes start at `position` of the output. Reads whole indexed axes.
    """
    check_selection("take", x, indices, axes)
    shape = selected_shape(x.shape, axes, position, indices[0].shape)
    form = gather_form((x, *indices), shape)
    sizes = tuple(x.shape[axis] for axis in axes)
    return call(form, Spec(shape, x.dtype), axes=tuple(axes), position=position, sizes=sizes)


# --- public reads and writes ------------------------------------------------------------------


def indices_of(xp: Any, name: str, given: Any) -> Any:
    """Indices as an array of integers; floats in a list are cut off, as NumPy does."""
    indices = xp.asarray(given)
    if isinstance(given, list | tuple) and indices.dtype.kind == "f":
        return indices.astype(int64)
    _integers(name, indices)
    return indices


def _integers(name: str, indices: Any) -> None:
    if indices.dtype.kind not in "iub":
        raise TypeError(
            f"{name}: Cannot cast array data from {indices.dtype!r} to dtype('int64') "
            "according to the rule 'safe'"
        )


def _in_mode(xp: Any, indices: Any, n: int, mode: str) -> Any:
    """Indices after NumPy's `mode`; "raise" leaves them to the kernel's check."""
    if mode not in ("raise", "wrap", "clip", None):  # to NumPy None is "raise"
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if indices.dtype != int64:
        indices = indices.astype(int64)
    if mode == "wrap":
        return xp.remainder(indices, n)
    return xp.clip(indices, 0, n - 1) if mode == "clip" else indices


@program(
    cases=lambda rng: [
        ((x, i), {"axis": axis, "mode": mode})
        for x in (rng.standard_normal((4, 5)),)
        for i in (rng.integers(-4, 4, (2, 3)), np.int64(3), rng.integers(0, 4, 0))
        for axis, mode in ((None, "raise"), (0, "raise"), (1, "wrap"), (-1, "clip"))
    ],
    same="equal",
)
def take(xp: Any, a: Array, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    """The elements at the given indices of an axis, or of the flattened array.

    An index out of range raises when the result is computed (`mode="raise"`), or is wrapped or
    clipped. Each tile of the result reads the whole axis.

    >>> import infinitensor as it
    >>> it.take(it.arange(10, 15), it.asarray([3, 0, -1])).numpy().tolist()
    [13, 10, 14]
    """
    indices = indices_of(xp, "take", indices)
    if axis is None:
        a, axis = a.reshape(-1), 0
    elif not a.shape:  # to NumPy a 0-d array has one axis here
        a = a.reshape(1)
    axis = normalize_axis_index(axis, len(a.shape), "take")
    n, before, after = a.shape[axis], a.shape[:axis], a.shape[axis + 1 :]
    if not n and prod((*indices.shape, *before, *after)):
        raise IndexError("cannot do a non-empty take from an empty axes.")
    index = _in_mode(xp, indices, max(n, 1), mode)
    if 0 in before or (0 in after and mode != "raise"):  # where NumPy looks at no index
        return xp.zeros((*before, *indices.shape, *after), dtype=a.dtype)
    return xp._take(a, [index], (axis,), axis)


def _along_kernel(xp: Any, x: Any, index: Any, out: Any, axis: int, n: int) -> None:
    if 0 in out.shape:  # as NumPy, no index is looked at where nothing is taken
        return
    if xp is np and moved_rows.take_along(x, index, axis, out):
        return
    if xp is not np and take_triton.take_along(x, index, axis, out):
        return
    index = checked_index(xp, index, n, axis)
    if xp is np:
        out[...] = np.take_along_axis(x, index, axis)
    else:
        xp.take_along_dim(as_signed(x), index, axis, out=as_signed(out))


@op(
    "mapped",
    kernel=_along_kernel,
    moves=True,
    scratch_bytes=lambda ins, outs, params: (
        32 * ins[1].n_elements + outs[0].n_bytes + 8 * sum(outs[0].shape) + 64
    ),
    cases=lambda rng: [
        ((rng.standard_normal((4, 5)), rng.integers(-5, 5, (4, 2)), 1), {}),
        ((rng.standard_normal((4, 5)), rng.integers(0, 4, (7, 5)), 0), {}),
        ((rng.standard_normal((4, 5)), rng.integers(0, 4, (7, 1)), 0), {}),
    ],
    oracle=np.take_along_axis,
    same="equal",
)
def _take_along(x: Spec, indices: Spec, axis: int) -> Call:
    """`take_along_axis` with an axis that is given."""
    if indices.ndim != x.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    if indices.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    try:
        others = np.broadcast_shapes(
            (*x.shape[:axis], *x.shape[axis + 1 :]),
            (*indices.shape[:axis], *indices.shape[axis + 1 :]),
        )
    except ValueError:
        raise IndexError(
            "take_along_axis: shape mismatch: indexing arrays could not be broadcast together: "
            f"x has shape {x.shape}, the indices {indices.shape}, axis {axis}"
        ) from None
    shape = (*others[:axis], indices.shape[axis], *others[axis:])
    ndim = len(shape)
    labels = []
    for spec in (x, indices):
        labels.append(
            tuple(None if n == 1 and shape[a] != 1 else a for a, n in enumerate(spec.shape))
        )
    source = tuple(ndim if a == axis else label for a, label in enumerate(labels[0]))
    index = tuple(axis if a == axis else label for a, label in enumerate(labels[1]))
    form = AxisForm(
        (*shape, x.shape[axis]), (source, index), (tuple(range(ndim)),), frozenset((ndim,))
    )
    return call(form, Spec(shape, x.dtype), axis=axis, n=x.shape[axis])


@program(
    cases=lambda rng: [
        ((rng.standard_normal((4, 5)), rng.integers(-5, 5, (4, 2)), 1), {}),
        ((rng.standard_normal((4, 5)), rng.integers(0, 4, (1, 5)), 0), {}),
        ((rng.standard_normal((4, 5)), rng.integers(0, 20, 6), None), {}),
    ],
    same="equal",
)
def take_along_axis(xp: Any, arr: Array, indices: Array, axis: int | None = -1) -> Any:
    """For each line along the axis the elements at that line's indices, as `argsort` gives them.

    The axis is not cut, the others are.

    >>> import infinitensor as it
    >>> x = it.asarray([[3, 1, 2]])
    >>> it.take_along_axis(x, it.argsort(x, axis=1), axis=1).numpy().tolist()
    [[1, 2, 3]]
    """
    if axis is None:
        if len(indices.shape) != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        arr, axis = arr.reshape(-1), 0
    axis = normalize_axis_index(axis, len(arr.shape), "take_along_axis")
    return xp._take_along(arr, indices, axis)


@program(cases=lambda rng: [])
def put(xp: Any, a: Array, ind: Any, v: Any, mode: str = "raise") -> None:
    """Writes values at flat indices of the array, in place; values repeat where there are fewer.

    An index out of range raises when the array is computed, or is wrapped or clipped by `mode`.

    >>> import infinitensor as it
    >>> x = it.zeros(4)
    >>> it.put(x, it.asarray([1, -1]), it.asarray([5.0, 7.0]))
    >>> x.numpy().tolist()
    [0.0, 5.0, 0.0, 7.0]
    """
    ind = indices_of(xp, "put", ind)
    v = xp.asarray(v, a.dtype)
    n = prod(a.shape)
    flat = _in_mode(xp, ind.reshape(-1), max(n, 1), mode)
    count, given = flat.shape[0], prod(v.shape)
    if not count or not given:
        return
    values = v.reshape(-1)
    if given > count:
        values = values[:count]
    elif 1 < given < count:
        values = xp.tile(values, -(-count // given))[:count]
    if len(a.shape) == 1:
        a[flat] = values
    elif not len(a.shape):
        a.reshape(1)[flat] = values
    else:
        # What is out of range is so on the first axis too, where the check finds it.
        flat = xp.where(flat < 0, xp.where(flat < -n, n, flat + n), flat)
        borders = c_strides(a.shape)
        first = xp.floor_divide(flat, borders[0])
        rest = [
            xp.remainder(xp.floor_divide(flat, border), size)
            for border, size in zip(borders[1:], a.shape[1:], strict=True)
        ]
        a[(first, *rest)] = values


def _scatter_add_oracle(x: Any, indices: Any, values: Any, axis: int = 0) -> Any:
    result = x.copy()
    shape = selected_shape(x.shape, (axis,), axis, indices.shape)
    rows = np.broadcast_to(values, shape).astype(x.dtype)
    np.add.at(result, (*(slice(None),) * axis, indices), rows)
    return result


@program(
    cases=lambda rng: [
        ((rng.standard_normal((4, 5)), rng.integers(0, 4, 9), rng.standard_normal((9, 5))), {}),
        ((rng.integers(0, 9, (4, 5)), rng.integers(-5, 5, 9), 1), {"axis": 1}),
    ],
    oracle=_scatter_add_oracle,
)
def scatter_add(xp: Any, x: Array, indices: Array, values: Array, axis: int = 0) -> Any:
    """x with each value added at its index of the axis; equal indices add up.

    `values` broadcasts to the shape of `it.take(x, indices, axis)`. Entries are added in the order
    of the indices, so the same call gives the same bits. Each tile of x reads all indices.

    >>> import infinitensor as it
    >>> it.scatter_add(it.zeros(3), it.asarray([0, 2, 0]), 1.0).numpy().tolist()
    [2.0, 0.0, 1.0]
    """
    _integers("scatter_add", indices)
    axis = normalize_axis_index(axis, len(x.shape), "scatter_add")
    kinds = "buifc"  # an integer may be added to any integer, as a Python one may
    if max(kinds.index(kind_of(values.dtype)), 2) > max(kinds.index(kind_of(x.dtype)), 2):
        raise TypeError(
            f"Cannot cast ufunc 'add' output from {values.dtype!r} to {x.dtype!r} "
            "with casting rule 'same_kind'"
        )
    if indices.dtype != int64:
        indices = indices.astype(int64)
    shape = selected_shape(tuple(x.shape), (axis,), axis, tuple(indices.shape))
    rows = xp.broadcast_to(values.astype(x.dtype, copy=False), shape)
    return xp._scattered(x, [indices], rows, (axis,), axis, "add", x.dtype)
