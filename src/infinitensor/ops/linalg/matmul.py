"""Products of two matrices: the kernel of tiles, and matmul. A cut sum is added up by pieces."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import HALVES, float32, from_numpy, result_type
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops.backend.blas import multiply
from infinitensor.ops.backend.torch_loading import wait_for_torch
from infinitensor.ops.forms.reduction import SUM, to_dtype, wide
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import Labels

# --- products of tiles ------------------------------------------------------------------------


class _Writable:
    """Lets torch see a read-only array without a warning; nobody writes through it."""

    def __init__(self, array: Any) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def torch_view(array: Any) -> Any:
    """A NumPy tile as a torch tensor, without a copy unless a stride is negative or odd."""
    size = array.itemsize
    if any(s < 0 or s % size for s in array.strides):
        array = array.copy()
    if not array.flags.writeable:
        array = np.asarray(_Writable(array)).view(array.dtype)
    return from_numpy(array)


def _integer_product(torch: Any, x: Any, y: Any) -> Any:
    """x @ y of integers, wrapped as in NumPy, from exact float64 products of 16-bit pieces.

    CUDA has no integer matmul. A piece's product is below 2**32, so 2**20 of them add up exactly.
    """
    bits = 8 * x.dtype.itemsize
    n_pieces = max(bits // 16, 1)
    x, y = (v.view(torch.int64) if v.dtype == torch.uint64 else v.to(torch.int64) for v in (x, y))
    total = 0
    for start in range(0, max(x.shape[-1], 1), 2**20):
        a, b = x[..., start : start + 2**20], y[..., start : start + 2**20, :]
        for i in range(n_pieces):
            left = ((a >> 16 * i) & 0xFFFF).to(torch.float64)
            for j in range(n_pieces - i):
                right = ((b >> 16 * j) & 0xFFFF).to(torch.float64)
                total = total + (torch.matmul(left, right).to(torch.int64) << 16 * (i + j))
    return total


def _torch_product(torch: Any, x: Any, y: Any, out: Any) -> None:
    """out = x @ y for torch tensors of 2 axes or more and any dtype."""
    # with one matrix for many torch makes one product, which it cannot put apart (an error)
    if x.dtype != out.dtype or (x.ndim != y.ndim and not out.is_contiguous()):
        out.copy_(torch.matmul(x, y))
    elif x.dtype.is_floating_point or x.dtype.is_complex:
        torch.matmul(x, y, out=out)
    elif x.dtype == torch.bool:
        out.copy_(torch.matmul(x.to(torch.float32), y.to(torch.float32)) != 0)
    else:
        out.copy_(_integer_product(torch, x, y))


SMALL_PRODUCT = 4096
"""Multiplications below which handing tiles to torch costs more than it gains."""


def product(xp: Any, x: Any, y: Any, out: Any) -> None:
    """out = x @ y for tiles of one dtype with 2 axes or more; on a CPU halves may be among floats,
    and be made of them."""
    if xp is not np:
        _torch_product(xp, x, y, out)
        return
    if x.ndim > 2 and y.ndim == 2 and _is_one_matrix(x) and _is_one_matrix(out):
        x, out = x.reshape(-1, x.shape[-1]), out.reshape(-1, out.shape[-1])
    if _multiplied(x, y, out):
        return
    x, y = (to_dtype(np, a, wide(a.dtype)) for a in (x, y))
    if x.dtype.kind in "fc" and out.size * x.shape[-1] > SMALL_PRODUCT:
        torch = wait_for_torch()
        if x.ndim == 2 and x.dtype == out.dtype and _is_transposed(x, y):
            _gram(torch, torch_view(x), torch_view(out))
        else:
            _torch_product(torch, torch_view(x), torch_view(y), torch_view(out))
    else:
        np.matmul(x, y, out=out)


def _multiplied(x: Any, y: Any, out: Any) -> bool:
    """Whether the library has multiplied them, without torch: the small ones too, for tasks that C
    runs have no other way, and the same bits."""
    if out.ndim == 3 and len(out) == 1:
        x, y, out = (a[0] if a.ndim == 3 else a for a in (x, y, out))
    if out.ndim == 2:
        return x.ndim == y.ndim == 2 and multiply(x, y, out)
    if not x.shape[:-2] == y.shape[:-2] == out.shape[:-2]:
        x, y = (np.broadcast_to(a, (*out.shape[:-2], *a.shape[-2:])) for a in (x, y))
    if out.ndim == 3:
        return multiply(x, y, out)
    return all(_multiplied(*parts) for parts in zip(x, y, out, strict=True))


def _is_one_matrix(x: Any) -> bool:
    """Whether the rows of several matrices are those of one, in the same memory."""
    axes = [(n, step) for n, step in zip(x.shape[:-1], x.strides, strict=False) if n != 1]
    return x.size > 0 and all(a[1] == b[0] * b[1] for a, b in pairwise(axes))


def _is_transposed(x: Any, y: Any) -> bool:
    """Whether y is the transpose of x, in the same memory."""
    if x.shape != y.shape[::-1] or x.strides != y.strides[::-1]:
        return False
    return bool(x.__array_interface__["data"] == y.__array_interface__["data"])


SHORT_GRAM = 128
"""Rows whose products with each other are computed whole, both halves of them."""


def _gram(torch: Any, x: Any, out: Any) -> None:
    """out = x @ x.T: the part below the diagonal is copied from above it."""
    n = x.shape[0]
    if n <= SHORT_GRAM:
        torch.matmul(x, x.T, out=out)
        upper = torch.ones((n, n), dtype=torch.bool).triu()
        out.copy_(torch.where(upper, out, out.T))
        return
    half = n // 2
    torch.matmul(x[:half], x[half:].T, out=out[:half, half:])
    out[half:, :half] = out[:half, half:].T
    _gram(torch, x[:half], out[:half, :half])
    _gram(torch, x[half:], out[half:, half:])


def factors(xp: Any, x: Any, y: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Both in the dtype they are multiplied in. A GPU adds up halves in float32; on a CPU they are
    multiplied as float32, by `product`, and stay what they are until then."""
    loop = wide(dtype) if xp is np else dtype
    is_cast = xp is np and loop == float32
    return tuple(a if is_cast and a.dtype in HALVES else to_dtype(xp, a, loop) for a in (x, y))


def _matmul_kernel(xp: Any, x1: Any, x2: Any, out: Any, dtype: np.dtype[Any]) -> None:
    x1, x2 = factors(xp, x1, x2, dtype)
    target = out
    if x1.ndim == 1:
        x1, target = x1[None, :], target[..., None, :] if x2.ndim > 1 else target[..., None]
    if x2.ndim == 1:
        x2, target = x2[:, None], target[..., None]
    product(xp, x1, x2, target)


def _matmul_added(xp: Any, before: Any, x1: Any, x2: Any, out: Any, dtype: np.dtype[Any]) -> None:
    """out = before + x1 @ x2 for matrices, in a dtype that the library multiplies."""
    x1, x2 = (to_dtype(xp, x, dtype) for x in (x1, x2))
    torch = wait_for_torch()
    if xp is np:
        before, x1, x2, out = (torch_view(v) for v in (before, x1, x2, out))
    if before.data_ptr() == out.data_ptr():
        out.addmm_(x1, x2)
    else:
        torch.addmm(before, x1, x2, out=out)


def product_scratch(n_in: int, n_out: int, ins: Sequence[Spec], dtype: np.dtype[Any]) -> int:
    """Copies that make operands of n_in elements fit a matrix product, and a strided result.

    Integers cost more: torch multiplies them in pieces (`_integer_product`).
    """
    if dtype.kind in "iu":
        return 32 * (n_in + n_out)
    dtype = wide(dtype)
    casts = sum(spec.n_elements for spec in ins if spec.dtype != dtype)
    return int(dtype.itemsize) * (n_in + n_out + casts) + (5 * (n_in + n_out) * (dtype.kind == "b"))


def _matmul_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    batch = prod(np.broadcast_shapes(*(spec.shape[:-2] for spec in ins)))
    n_in = batch * sum(prod(spec.shape[-2:]) for spec in ins)
    return product_scratch(n_in, outs[0].n_elements, ins, params["dtype"])


def _matrix_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """None for two matrices that the library multiplies where they are."""
    dtype = params["dtype"]
    is_plain = dtype.kind in "fc" and dtype == wide(dtype)
    if is_plain and all(len(s.shape) == 2 and s.dtype == dtype for s in ins):
        return 0
    return _matmul_scratch(ins, outs, params)


@op(
    "contraction",
    kernel=_matmul_kernel,
    combine=SUM,
    scratch_bytes=_matmul_scratch,
    plain_scratch=_matrix_scratch,
    added=_matmul_added,
    cost=2.0,
    cases=lambda rng: [
        ((rng.normal(size=(5, 4)), rng.normal(size=(4, 6))), {}),
        ((rng.normal(size=4), rng.normal(size=(4, 6))), {}),
        ((rng.normal(size=(5, 4)), rng.normal(size=4)), {}),
        ((rng.normal(size=9), rng.normal(size=9)), {}),
        ((rng.normal(size=(2, 1, 5, 4)), rng.normal(size=(3, 4, 2))), {}),
        ((rng.normal(size=(8, 9, 1, 20)), rng.normal(size=(20, 17))), {}),
        ((rng.normal(size=(2, 5, 4)).astype(np.float32), rng.normal(size=4)), {}),
        ((rng.integers(-9, 9, (5, 4)), rng.integers(0, 99, (4, 3)).astype(np.int16)), {}),
        ((rng.integers(0, 2, (5, 4)) > 0, rng.integers(0, 2, (4, 3)) > 0), {}),
        ((np.ones((3, 0)), np.ones((0, 2))), {}),
    ],
)
def matmul(x1: Spec, x2: Spec) -> Call:
    """The matrix product over the last axis of x1 and the last but one of x2.

    Earlier axes are batches. Costs 2 n m k operations; an operand is read once for every tile of
    the other's free axis.

    >>> import infinitensor as it
    >>> it.matmul(it.asarray([[1, 2]]), it.asarray([[3], [4]])).numpy()
    array([[11]])
    """
    for i, spec in enumerate((x1, x2)):
        if spec.ndim == 0:
            raise ValueError(
                f"matmul: Input operand {i} does not have enough dimensions: "
                f"shapes {x1.shape} and {x2.shape}"
            )
    k1, k2 = x1.shape[-1], x2.shape[-2 if x2.ndim > 1 else -1]
    if k1 != k2:
        raise ValueError(
            f"matmul: shapes {x1.shape} and {x2.shape} do not fit: axis {x1.ndim - 1} of the first "
            f"has size {k1}, axis {max(x2.ndim - 2, 0)} of the second {k2}"
        )
    try:
        batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    except ValueError:
        raise ValueError(
            f"matmul: the batch axes of {x1.shape} and {x2.shape} cannot be broadcast together"
        ) from None
    dtype = result_type(x1.dtype, x2.dtype)
    n = len(batch)
    row, column, inner = n, n + 1, n + 2
    rows = x1.shape[-2] if x1.ndim > 1 else 1
    columns = x2.shape[-1] if x2.ndim > 1 else 1
    left = (*batch_labels(x1.shape[:-2], batch), *((row,) if x1.ndim > 1 else ()), inner)
    right = (*batch_labels(x2.shape[:-2], batch), inner, *((column,) if x2.ndim > 1 else ()))
    kept = (*range(n), *((row,) if x1.ndim > 1 else ()), *((column,) if x2.ndim > 1 else ()))
    sizes = (*batch, rows, columns, k1)
    form = _compact(sizes, (left, right), kept)
    return product_call(form, Spec(tuple(sizes[label] for label in kept), dtype), dtype=dtype)


def product_call(form: AxisForm, out: Spec, **params: Any) -> Call:
    """The call of a product, whose pieces are added in the dtype that sums are accumulated in."""
    return Call(form, (out,), tuple(params.items()), (), (wide(out.dtype),))


def batch_labels(shape: tuple[int, ...], batch: tuple[int, ...]) -> Labels:
    """Labels of the axes in front of a matrix that are broadcast to `batch`."""
    lead = len(batch) - len(shape)
    return tuple(None if n == 1 and batch[lead + i] != 1 else lead + i for i, n in enumerate(shape))


def _compact(sizes: Sequence[int], inputs: Sequence[Labels], kept: Sequence[int]) -> AxisForm:
    """The form without the labels that no operand has."""
    used = sorted({label for labels in (*inputs, kept) for label in labels if label is not None})
    number = {label: i for i, label in enumerate(used)}
    renamed = tuple(
        tuple(None if label is None else number[label] for label in labels) for labels in inputs
    )
    out = tuple(number[label] for label in kept)
    return AxisForm(tuple(sizes[label] for label in used), renamed, (out,))
