"""Sparse matrices: a matrix in rows times a dense one, and the same matrix written out.

The entries of a sparse matrix are two tensors, `data` and `indices` (the column of each), row after
row. Where each row's entries start is `Rows`, known on the host: so a box of result rows needs
just one box of the entries, and these ops are cut like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import HALVES, float32, result_type
from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.forms.gather import gather_form, is_empty
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box


class Rows:
    """Row i has the entries `starts[i]` up to `starts[i + 1]`. Two are equal if they are one."""

    __slots__ = ("n_columns", "starts")

    def __init__(self, starts: np.ndarray, n_columns: int) -> None:
        self.starts = np.ascontiguousarray(starts, dtype=np.int64)
        self.n_columns = n_columns

    @property
    def n_rows(self) -> int:
        """Rows of the matrix."""
        return len(self.starts) - 1

    def entries(self, lo: int, hi: int) -> tuple[int, int]:
        """The range of the entries of rows lo up to hi."""
        return int(self.starts[lo]), int(self.starts[hi])

    def within(self, lo: int, hi: int) -> Any:
        """The starts of rows lo up to hi, counted from the first of them."""
        return self.starts[lo : hi + 1] - self.starts[lo]


# --- a product --------------------------------------------------------------------------------


def _product_need(box: Box, specs: Sequence[Spec], *, rows: Rows, **_: Any) -> tuple[Box, ...]:
    span = (0, 0) if is_empty(box) else rows.entries(*box[0])
    return (span,), (span,), ((0, specs[2].shape[0]), *box[1:])


def _product_kernel(
    xp: Any, data: Any, indices: Any, x: Any, out: Any, at: At, *, rows: Rows
) -> None:
    if is_empty(at.outputs[0]):
        return
    lo, hi = at.outputs[0][0]
    starts = rows.within(lo, hi)
    if xp is np:
        _on_cpu(data, indices, starts, x, out)
    else:
        _on_gpu(xp, data, indices, starts, x, out)


def _on_cpu(data: Any, indices: Any, starts: Any, x: Any, out: Any) -> None:
    from scipy.sparse import csr_array

    dtype = float32 if out.dtype in HALVES else out.dtype  # SciPy has no halves
    shape = (len(starts) - 1, len(x))
    block = csr_array((data.astype(dtype, copy=False), indices, starts), shape=shape)
    out[...] = block @ x.astype(dtype, copy=False)


def _on_gpu(xp: Any, data: Any, indices: Any, starts: Any, x: Any, out: Any) -> None:
    """Products of all entries, then their sum over each row, in the order of the entries."""
    start = xp.as_tensor(starts, device=out.device)
    terms = x[indices].to(out.dtype)
    terms *= data.to(out.dtype).reshape(-1, *(1,) * (x.ndim - 1))
    if out.dtype.is_complex:
        sums = xp.segment_reduce(xp.view_as_real(terms), "sum", offsets=start, axis=0)
        out.copy_(xp.view_as_complex(sums))
    elif out.dtype.is_floating_point:
        out.copy_(xp.segment_reduce(terms, "sum", offsets=start, axis=0))
    else:  # integers add up exactly in any order
        wide = xp.zeros((len(terms) + 1, *terms.shape[1:]), dtype=xp.int64, device=out.device)
        xp.cumsum(terms, 0, dtype=xp.int64, out=wide[1:])
        sums = wide[start[1:]] - wide[start[:-1]]
        out.copy_(sums != 0 if out.dtype == xp.bool else sums)


def _product_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    width = outs[0].dtype.itemsize
    n_columns = outs[0].n_elements // max(outs[0].shape[0], 1)
    terms = ins[0].n_elements * n_columns * (3 * width + 8)
    copies = ins[0].n_elements * (2 * width + 24) + ins[2].n_elements * width
    return terms + copies + 4 * outs[0].n_bytes + 24 * outs[0].shape[0] + 8192


def _cases(rng: np.random.Generator) -> list[Any]:
    starts = np.array([0, 2, 2, 5, 6, 9])
    indices = np.array([1, 3, 0, 1, 2, 3, 0, 2, 3])
    rows = Rows(starts, 4)
    found: list[Any] = []
    for dtype, x in (
        ("float64", rng.standard_normal(4)),
        ("float32", rng.standard_normal((4, 3)).astype("float32")),
        ("int32", rng.integers(-3, 9, (4, 2))),
        ("complex128", rng.standard_normal((4, 2))),
    ):
        found.append(((rng.integers(-5, 6, 9).astype(dtype), indices, x, rows), {}))
    nothing = (np.zeros(0), np.zeros(0, np.int64), np.ones((4, 2)), Rows(np.zeros(4), 4))
    return [*found, (nothing, {})]


def dense(data: Any, indices: Any, rows: Rows) -> Any:
    """The matrix as a NumPy array, by SciPy."""
    from scipy.sparse import csr_array

    shape = (rows.n_rows, rows.n_columns)
    return csr_array((data, indices, rows.starts), shape=shape).toarray()


@op(
    "gather",
    kernel=_product_kernel,
    need=_product_need,
    scratch_bytes=_product_scratch,
    cases=_cases,
    oracle=lambda data, indices, x, rows: dense(data, indices, rows) @ x,
    same="close",
)
def _csr_matmul(data: Spec, indices: Spec, x: Spec, rows: Rows) -> Call:
    """The sparse matrix times a dense vector or matrix. Reads all rows of x on each device."""
    if x.ndim not in (1, 2) or x.shape[0] != rows.n_columns:
        raise ValueError(
            f"matmul: a Csr of shape ({rows.n_rows}, {rows.n_columns}) times an array of shape "
            f"{x.shape}: the right one needs {rows.n_columns} rows and one or two axes"
        )
    shape = (rows.n_rows, *x.shape[1:])
    dtype = result_type(data.dtype, x.dtype)
    return call(gather_form((data, indices, x), shape), Spec(shape, dtype), rows=rows)


# --- written out ------------------------------------------------------------------------------


def _dense_need(box: Box, specs: Sequence[Spec], *, rows: Rows) -> tuple[Box, ...]:
    span = (0, 0) if is_empty(box) else rows.entries(*box[0])
    return (span,), (span,)


def _dense_kernel(xp: Any, data: Any, indices: Any, out: Any, at: At, *, rows: Rows) -> None:
    if is_empty(at.outputs[0]):
        return
    (lo, hi), (first, end) = at.outputs[0]
    counts = np.diff(rows.within(lo, hi))
    row = np.repeat(np.arange(hi - lo), counts)
    if xp is not np:
        row = xp.as_tensor(row, device=out.device)
    inside = (indices >= first) & (indices < end)
    out[...] = 0
    out[row[inside], indices[inside] - first] = data[inside]


@op(
    "gather",
    kernel=_dense_kernel,
    need=_dense_need,
    scratch_bytes=lambda ins, outs, params: 64 * ins[0].n_elements + 16 * outs[0].shape[0] + 8192,
    cases=lambda rng: [((a[0], a[1], a[3]), kw) for a, kw in _cases(rng)],
    oracle=dense,
)
def _csr_dense(data: Spec, indices: Spec, rows: Rows) -> Call:
    """The sparse matrix with its zeros."""
    shape = (rows.n_rows, rows.n_columns)
    return call(gather_form((data, indices), shape), Spec(shape, data.dtype), rows=rows)


# --- the nearest of some points -----------------------------------------------------------------


def _nearest_need(box: Box, specs: Sequence[Spec], *, rows: Rows) -> tuple[Box, ...]:
    span = (0, 0) if is_empty(box) else rows.entries(*box[0])
    return (span,), (span,), tuple((0, n) for n in specs[2].shape)


def _nearest_kernel(
    xp: Any, data: Any, indices: Any, centers: Any, out: Any, at: At, *, rows: Rows
) -> None:
    if is_empty(at.outputs[0]):
        return
    lo, hi = at.outputs[0][0]
    starts = rows.within(lo, hi)
    find = loop("centres", "nearest_sparse", data.dtype) if xp is np else None
    if find is not None:
        wide = centers.astype(np.float64)
        transposed, norms = np.ascontiguousarray(wide.T), (wide * wide).sum(1)
        columns = np.ascontiguousarray(indices, np.int64)
        labels, k = np.empty(hi - lo, np.int32), len(centers)
        entries = np.ascontiguousarray(data), columns, np.ascontiguousarray(starts), hi - lo
        find(*entries, transposed, norms, k, np.empty(k), labels)
        out[...] = labels
        return
    wide = centers.astype(np.float64) if xp is np else centers.to(xp.float64)
    norms = (wide * wide).sum(-1)
    shape = (hi - lo, len(wide))
    if xp is np:
        found = np.empty(shape)
        _on_cpu(data.astype(np.float64), indices, starts, wide.T, found)
    else:
        found = xp.empty(shape, dtype=xp.float64, device=out.device)
        _on_gpu(xp, data.to(xp.float64), indices.long(), starts, wide.T, found)
    out[...] = (norms - 2 * found).argmin(-1)


def _nearest_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    k = ins[2].shape[0]
    terms = 8 * k * (4 * ins[0].n_elements + 4 * outs[0].n_elements)
    return terms + 40 * ins[0].n_elements + 64 * ins[2].n_elements + 32 * outs[0].n_elements + 8192


def _nearest_cases(rng: np.random.Generator) -> list[Any]:
    found = []
    for (data, indices, _, rows), kw in _cases(rng)[:2]:
        centers = rng.normal(size=(3, rows.n_columns)).astype(data.dtype)
        found.append(((data, indices, centers, rows), kw))
    return found


def _nearest_oracle(data: Any, indices: Any, centers: Any, rows: Rows) -> Any:
    far = dense(data, indices, rows).astype(float)[:, None, :] - centers
    return (far * far).sum(-1).argmin(1).astype(np.int32)


@op(
    "gather",
    kernel=_nearest_kernel,
    need=_nearest_need,
    scratch_bytes=_nearest_scratch,
    cases=_nearest_cases,
    oracle=_nearest_oracle,
)
def _csr_nearest(data: Spec, indices: Spec, centers: Spec, rows: Rows) -> Call:
    """The number of the centre that is nearest to each row of the sparse matrix."""
    shape = (rows.n_rows,)
    form = gather_form((data, indices, centers), shape)
    return call(form, Spec(shape, np.dtype(np.int32)), rows=rows)
