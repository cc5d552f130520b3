"""Joining arrays and splitting them."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import prod
from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import as_dtype, can_cast, result_type
from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.backend.torch_bridge import as_signed
from infinitensor.ops.forms.gather import along, gather_form, is_empty
from infinitensor.ops.move import join_triton, moved_rows
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box

    Axes = int | tuple[int, ...] | None


def _joined_need(
    box: Box, specs: Sequence[Spec], *, axis: int, starts: tuple[int, ...]
) -> tuple[Box | None, ...]:
    boxes: list[Box | None] = []
    lo, hi = box[axis]
    for spec, start in zip(specs, starts, strict=True):
        span = (max(lo - start, 0), min(hi - start, spec.shape[axis]))
        part = (*box[:axis], span, *box[axis + 1 :])
        boxes.append(None if is_empty(part) else part)
    return tuple(boxes)


def _joined_kernel(
    xp: Any, *tiles: Any, out: Any, at: At, axis: int, starts: tuple[int, ...]
) -> None:
    if xp is np and moved_rows.join_into([x for x in tiles if x is not None], axis, out):
        return
    first = at.outputs[0][axis][0]
    before = (slice(None),) * axis
    for tile, box, start in zip(tiles, at.inputs, starts, strict=True):
        if tile is not None and box is not None:
            lo, hi = box[axis]
            out[(*before, slice(start + lo - first, start + hi - first))] = tile


def _concatenate_call(
    name: str, arrays: Sequence[Spec], axis: int, dtype: Any = None, casting: str = "same_kind"
) -> Call:
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    if any(not spec.ndim for spec in arrays):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    shape = arrays[0].shape
    axis = normalize_axis_index(axis, len(shape), name)
    for i, spec in enumerate(arrays):
        if spec.ndim != len(shape):
            raise ValueError(
                f"{name}: all the input arrays must have same number of dimensions, but the array "
                f"at index 0 has {len(shape)} dimension(s) and the array at index {i} has "
                f"{spec.ndim} dimension(s)"
            )
        for other, (n, wanted) in enumerate(zip(spec.shape, shape, strict=True)):
            if other != axis and n != wanted:
                raise ValueError(
                    f"{name}: all the input array dimensions except for the concatenation axis "
                    f"must match exactly, but along dimension {other}, the array at index 0 has "
                    f"size {wanted} and the array at index {i} has size {n}"
                )
    *starts, total = accumulate((spec.shape[axis] for spec in arrays), initial=0)
    joined = (*shape[:axis], total, *shape[axis + 1 :])
    found = result_type(*(spec.dtype for spec in arrays)) if dtype is None else as_dtype(dtype)
    for spec in arrays:
        if not can_cast(spec.dtype, found, casting):
            raise TypeError(
                f"Cannot cast array data from {spec.dtype!r} to {found!r} "
                f"according to the rule {casting!r}"
            )
    return call(gather_form(arrays, joined), Spec(joined, found), axis=axis, starts=tuple(starts))


def _joined_cuda(
    xp: Any, *tiles: Any, out: Any, at: At, axis: int, starts: tuple[int, ...]
) -> None:
    parts = [x for x in tiles if x is not None]
    if _are_long_rows(parts, axis, out):
        xp.cat([as_signed(x) for x in parts], axis, out=as_signed(out))
    elif not join_triton.join(parts, axis, out):
        _joined_kernel(xp, *tiles, out=out, at=at, axis=axis, starts=starts)


LONG_ROW_BYTES = 512
"""Of a part, from which torch joins as fast as memory: all parts by one kernel. Of shorter ones it
writes lines of memory several times."""


def _are_long_rows(parts: Sequence[Any], axis: int, out: Any) -> bool:
    """Whether parts that fill `out`, in its dtype, each have all their rows one after the other."""
    if len(parts) < 2 or not out.is_contiguous():
        return False
    row = prod(out.shape[axis + 1 :]) * out.element_size()
    return all(
        x.dtype == out.dtype and x.is_contiguous() and x.shape[axis] * row >= LONG_ROW_BYTES
        for x in parts
    )


_JOIN: dict[str, Any] = {
    "kernel": _joined_kernel,
    "kernels": {"cuda": _joined_cuda},
    "need": _joined_need,
    "moves": True,
}


@op(
    "gather",
    cases=lambda rng: [
        (([rng.standard_normal((2, 3)), rng.standard_normal((0, 3)), np.ones((4, 3), "i4")],), {}),
        (([rng.standard_normal((2, 3)), rng.standard_normal((2, 9))], 1), {}),
    ],
    oracle=np.concatenate,
    **_JOIN,
)
def _concatenate(
    arrays: Sequence[Spec], axis: int = 0, dtype: Any = None, casting: str = "same_kind"
) -> Call:
    """`concatenate` along an axis that is given."""
    return _concatenate_call("concatenate", arrays, axis, dtype, casting)


def _join_cases(rng: Any) -> list[Any]:
    x, y = rng.standard_normal((2, 3)), rng.integers(0, 9, (4, 3))
    return [(([x, y],), {}), (([x, x], 1), {}), (([x, y], -2), {}), (([x, y], None), {})]


def joined_dtype(given: Sequence[Any], arrays: Sequence[Any]) -> np.dtype[Any]:
    """The dtype of what is made of arrays, and of Python numbers that have not much to say."""
    pairs = zip(given, arrays, strict=True)
    return result_type(*(x if type(x) in (int, float, complex) else a.dtype for x, a in pairs))


@program(cases=_join_cases, same="equal")
def concatenate(
    xp: Any,
    arrays: Any,
    axis: int | None = 0,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """Arrays joined along an axis that exists; `axis=None` joins them flattened.

    Reads each element once and writes it once; only the inputs under a tile are moved to it.

    >>> import infinitensor as it
    >>> it.concatenate([it.arange(3), it.arange(2)]).numpy().tolist()
    [0, 1, 2, 0, 1]
    """
    if not hasattr(arrays, "__getitem__"):
        raise TypeError("concatenate: the arrays to join need to be a sequence")
    made = [xp.asarray(x) for x in arrays]
    if axis is not None:
        return xp._concatenate(made, axis, dtype, casting)
    if dtype is None and made:
        kind = joined_dtype(list(arrays), made)
        made = [x.astype(kind) for x in made]
    return xp._concatenate([x.reshape(-1) for x in made], 0, dtype, casting)


@program(cases=_join_cases, same="equal", oracle=np.concatenate)
def concat(
    xp: Any,
    arrays: Any,
    axis: int | None = 0,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """The Array API's name of `concatenate`.

    >>> import infinitensor as it
    >>> it.concat([it.arange(2), it.arange(2)]).numpy().tolist()
    [0, 1, 0, 1]
    """
    return xp.concatenate(arrays, axis, dtype=dtype, casting=casting)


def _stack_cases(rng: Any) -> list[Any]:
    x, y = rng.standard_normal((2, 3)), rng.integers(0, 9, (2, 3))
    return [(([x, y],), {}), (([x, y], 1), {}), (([x, y, x], -1), {}), (([x[0, 0], x[0, 1]],), {})]


@program(cases=_stack_cases, same="equal")
def stack(
    xp: Any,
    arrays: Sequence[Array],
    axis: int = 0,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """Arrays of one shape joined along a new axis.

    Costs what `concatenate` costs.

    >>> import infinitensor as it
    >>> it.stack([it.arange(2), it.arange(2)], axis=1).numpy().tolist()
    [[0, 0], [1, 1]]
    """
    if not arrays:
        raise ValueError("need at least one array to stack")
    shape = tuple(arrays[0].shape)
    for i, x in enumerate(arrays):
        if tuple(x.shape) != shape:
            raise ValueError(
                "stack: all input arrays must have the same shape, but the array at index 0 has "
                f"shape {shape} and the array at index {i} has shape {tuple(x.shape)}"
            )
    axis = normalize_axis_index(axis, len(shape) + 1, "stack")
    new = (*shape[:axis], 1, *shape[axis:])
    return xp._concatenate([x.reshape(new) for x in arrays], axis, dtype, casting)


def _rows(x: Any) -> Any:
    return x.reshape(1, -1) if len(x.shape) < 2 else x


def _line(x: Any) -> Any:
    return x.reshape(1) if not len(x.shape) else x


def _columns(x: Any) -> Any:
    return x.reshape(-1, 1) if len(x.shape) < 2 else x


def _deep(x: Any) -> Any:
    if len(x.shape) < 2:
        return x.reshape(1, -1, 1)
    return x.reshape(*x.shape, 1) if len(x.shape) == 2 else x


def _some_columns(rng: Any) -> list[Any]:
    x = rng.standard_normal((3, 2))
    return [(([x, x],), {}), (([x[:, 0], x[:, 1]],), {})]


@program(cases=_some_columns, same="equal")
def vstack(xp: Any, tup: Sequence[Array], *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays joined as rows: along axis 0, one-dimensional ones as one row each.

    >>> import infinitensor as it
    >>> it.vstack([it.arange(2), it.arange(2)]).numpy().tolist()
    [[0, 1], [0, 1]]
    """
    return xp.concatenate([_rows(x) for x in tup], 0, dtype=dtype, casting=casting)


@program(cases=_some_columns, same="equal")
def hstack(xp: Any, tup: Sequence[Array], *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays joined side by side: along axis 1, one-dimensional ones along axis 0.

    >>> import infinitensor as it
    >>> it.hstack([it.arange(2), it.arange(2)]).numpy().tolist()
    [0, 1, 0, 1]
    """
    lines = [_line(x) for x in tup]
    axis = 0 if lines and len(lines[0].shape) == 1 else 1
    return xp.concatenate(lines, axis, dtype=dtype, casting=casting)


@program(cases=_some_columns, same="equal")
def column_stack(xp: Any, tup: Sequence[Array]) -> Any:
    """Arrays joined as columns: one-dimensional ones become one column each.

    >>> import infinitensor as it
    >>> it.column_stack([it.arange(2), it.arange(2)]).numpy().tolist()
    [[0, 0], [1, 1]]
    """
    return xp.concatenate([_columns(x) for x in tup], 1)


@program(cases=_some_columns, same="equal")
def dstack(xp: Any, tup: Sequence[Array]) -> Any:
    """Arrays joined along the third axis.

    >>> import infinitensor as it
    >>> it.dstack([it.arange(2), it.arange(2)]).numpy().tolist()
    [[[0, 0], [1, 1]]]
    """
    return xp.concatenate([_deep(x) for x in tup], 2)


# --- splits -----------------------------------------------------------------------------------


def _split_points(n: int, sections: Any, *, even: bool) -> list[int]:
    if isinstance(sections, (int, np.integer)) or np.shape(sections) == ():
        count = int(sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0.")
        if even and n % sections:
            raise ValueError("array split does not result in an equal division")
        size, extra = divmod(n, count)
        return [i * size + min(i, extra) for i in range(count + 1)]
    return [0, *(as_int(i) for i in sections), n]


def split_views(name: str, ary: Any, sections: Any, axis: int, *, even: bool) -> list[Any]:
    """Views of the pieces of an axis."""
    axis = normalize_axis_index(axis, len(ary.shape), name)
    points = _split_points(ary.shape[axis], sections, even=even)
    return [ary[along(axis, slice(lo, hi))] for lo, hi in pairwise(points)]


def _split_cases(rng: Any) -> list[Any]:
    x = rng.standard_normal((4, 6))
    return [((x, 2), {}), ((x, [1, 3]), {}), ((x, [2, 1, 9]), {})]


@program(cases=_split_cases, same="equal")
def split(xp: Any, ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Views of equal pieces of an axis, or of the pieces between the given indices.

    Moves nothing: writing to a piece writes to the array.

    >>> import infinitensor as it
    >>> [part.numpy().tolist() for part in it.split(it.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    return split_views("split", ary, indices_or_sections, axis, even=True)


@program(
    cases=lambda rng: [((rng.standard_normal((3, 2, 4)),), {"axis": axis}) for axis in (0, 1, -1)],
    same="equal",
)
def unstack(xp: Any, x: Array, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Views of the entries of an axis, which is gone in each: the inverse of `stack`.

    >>> import infinitensor as it
    >>> [part.numpy().tolist() for part in it.unstack(it.eye(2))]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not x.shape:
        raise ValueError("Input array must be at least 1-d.")
    axis = normalize_axis_index(axis, len(x.shape), "unstack")
    return tuple(x[along(axis, i)] for i in range(x.shape[axis]))


@program(cases=_split_cases, same="equal")
def array_split(xp: Any, ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """As `split`, but the pieces may differ in length by one.

    >>> import infinitensor as it
    >>> [part.numpy().tolist() for part in it.array_split(it.arange(3), 2)]
    [[0, 1], [2]]
    """
    return split_views("array_split", ary, indices_or_sections, axis, even=False)


@program(cases=_split_cases, same="equal")
def vsplit(xp: Any, ary: Array, indices_or_sections: Any) -> list[Any]:
    """Views of pieces of the rows.

    >>> import infinitensor as it
    >>> [part.shape for part in it.vsplit(it.zeros((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    if len(ary.shape) < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split_views("vsplit", ary, indices_or_sections, 0, even=True)


@program(cases=_split_cases, same="equal")
def hsplit(xp: Any, ary: Array, indices_or_sections: Any) -> list[Any]:
    """Views of pieces of the columns, or of a one-dimensional array.

    >>> import infinitensor as it
    >>> [part.shape for part in it.hsplit(it.zeros((4, 2)), 2)]
    [(4, 1), (4, 1)]
    """
    if not len(ary.shape):
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    axis = 1 if len(ary.shape) > 1 else 0
    return split_views("hsplit", ary, indices_or_sections, axis, even=True)
