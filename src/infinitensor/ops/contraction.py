"""Contractions: matrix products and einsum. A contracted label may be cut; the pieces are added."""

from __future__ import annotations

import operator
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import from_numpy, result_type
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops.blas import multiply
from infinitensor.ops.loading import loaded
from infinitensor.ops.reduction import SUM, to_dtype, wide
from infinitensor.ops.registry import op, program

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
    if x.dtype != out.dtype:
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
    """out = x @ y for tiles of one dtype with 2 axes or more; halves may become floats."""
    if xp is not np:
        _torch_product(xp, x, y, out)
        return
    if x.ndim > 2 and y.ndim == 2 and _is_one_matrix(x) and _is_one_matrix(out):
        x, out = x.reshape(-1, x.shape[-1]), out.reshape(-1, out.shape[-1])
    if _multiplied(x, y, out):
        return
    if x.dtype.kind in "fc" and out.size * x.shape[-1] > SMALL_PRODUCT:
        torch = loaded()
        if x.ndim == 2 and x.dtype == out.dtype and _is_turned(x, y):
            _gram(torch, torch_view(x), torch_view(out))
        else:
            _torch_product(torch, torch_view(x), torch_view(y), torch_view(out))
    else:
        np.matmul(x, y, out=out)


def _multiplied(x: Any, y: Any, out: Any) -> bool:
    """Whether the library has multiplied them, without torch: the small ones too, for tasks that C
    runs have no other way, and the same bits."""
    if out.ndim == 3 and len(out) == len(x) == len(y) == 1:
        x, y, out = x[0], y[0], out[0]
    return x.ndim == y.ndim == out.ndim == 2 and multiply(x, y, out)


def _is_one_matrix(x: Any) -> bool:
    """Whether the rows of several matrices are those of one, in the same memory."""
    axes = [(n, step) for n, step in zip(x.shape[:-1], x.strides, strict=False) if n != 1]
    return x.size > 0 and all(a[1] == b[0] * b[1] for a, b in pairwise(axes))


def _is_turned(x: Any, y: Any) -> bool:
    """Whether y is the transpose of x, in the same memory."""
    if x.shape != y.shape[::-1] or x.strides != y.strides[::-1]:
        return False
    return bool(x.__array_interface__["data"] == y.__array_interface__["data"])


SHORT_GRAM = 128
"""Rows whose products with each other are computed whole, both halves of them."""


def _gram(torch: Any, x: Any, out: Any) -> None:
    """out = x @ x.T: what lies below the diagonal is copied from above it."""
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


def _factors(xp: Any, x: Any, y: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Both in the dtype they are multiplied in: a CPU has no halves, a GPU adds them in float32."""
    loop = wide(dtype) if xp is np else dtype
    return to_dtype(xp, x, loop), to_dtype(xp, y, loop)


def _matmul_kernel(xp: Any, x1: Any, x2: Any, out: Any, dtype: np.dtype[Any]) -> None:
    x1, x2 = _factors(xp, x1, x2, dtype)
    target = out
    if x1.ndim == 1:
        x1, target = x1[None, :], target[..., None, :] if x2.ndim > 1 else target[..., None]
    if x2.ndim == 1:
        x2, target = x2[:, None], target[..., None]
    product(xp, x1, x2, target)


def _matmul_added(xp: Any, before: Any, x1: Any, x2: Any, out: Any, dtype: np.dtype[Any]) -> None:
    """out = before + x1 @ x2 for matrices, in a dtype that the library multiplies."""
    x1, x2 = _factors(xp, x1, x2, dtype)
    torch = loaded()
    if xp is np:
        before, x1, x2, out = (torch_view(v) for v in (before, x1, x2, out))
    if before.data_ptr() == out.data_ptr():
        out.addmm_(x1, x2)
    else:
        torch.addmm(before, x1, x2, out=out)


def _product_scratch(n_in: int, n_out: int, ins: Sequence[Spec], dtype: np.dtype[Any]) -> int:
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
    return _product_scratch(n_in, outs[0].n_elements, ins, params["dtype"])


def _matrix_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """None for two matrices that the library multiplies where they are."""
    dtype = params["dtype"]
    is_plain = dtype.kind in "fc" and dtype == wide(dtype)
    if is_plain and all(len(s.shape) == 2 and s.dtype == dtype for s in ins):
        return 0
    return _matmul_scratch(ins, outs, params)


@op(
    "matmul",
    "contraction",
    "x1 x2",
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
    return _product_call(form, Spec(tuple(sizes[label] for label in kept), dtype), dtype=dtype)


def _product_call(form: AxisForm, out: Spec, **params: Any) -> Call:
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


# --- einsum of two ----------------------------------------------------------------------------


def _einsum_kernel(
    xp: Any, x: Any, y: Any, out: Any, left: str, right: str, kept: str, dtype: np.dtype[Any]
) -> None:
    """As one batched matrix product: labels of both kept, of one kept, of both contracted."""
    x, y = _factors(xp, x, y, dtype)
    batch = [c for c in kept if c in left and c in right]
    rows = [c for c in kept if c in left and c not in right]
    columns = [c for c in kept if c in right and c not in left]
    inner = [c for c in left if c in right and c not in kept]
    size = label_sizes((x, y), (left, right))
    a = _arranged(xp, x, left, (batch, rows, inner), size)
    b = _arranged(xp, y, right, (batch, inner, columns), size)
    order = [*batch, *rows, *columns]
    shape = [prod(size[c] for c in group) for group in (batch, rows, columns)]
    direct = order == list(kept) and _is_contiguous(xp, out)
    if direct:
        target = out.reshape(shape)
    elif xp is np:
        target = np.empty(shape, x.dtype)
    else:
        target = xp.empty(shape, dtype=out.dtype, device=out.device)
    product(xp, a, b, target)
    if not direct:
        full = target.reshape([size[c] for c in order])
        axes = [order.index(c) for c in kept]
        out[...] = full.transpose(axes) if xp is np else full.permute(axes)


def _is_contiguous(xp: Any, x: Any) -> bool:
    return bool(x.flags.c_contiguous if xp is np else x.is_contiguous())


def _arranged(
    xp: Any, x: Any, labels: str, groups: Sequence[Sequence[str]], size: dict[str, int]
) -> Any:
    """The tile as three axes, one for each group of labels; size-1 axes are stretched."""
    order = [labels.index(c) for group in groups for c in group]
    x = x.transpose(order) if xp is np else x.permute(order)
    wanted = tuple(size[c] for group in groups for c in group)
    if tuple(x.shape) != wanted:
        x = np.broadcast_to(x, wanted) if xp is np else x.expand(wanted)
    return x.reshape([prod(size[c] for c in group) for group in groups])


def _einsum_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    extent: dict[str, int] = {}
    for labels, spec in zip((params["left"], params["right"]), ins, strict=True):
        for c, n in zip(labels, spec.shape, strict=True):
            extent[c] = max(extent.get(c, n), n)
    n_in = sum(prod(extent[c] for c in params[side]) for side in ("left", "right"))
    return _product_scratch(n_in, outs[0].n_elements, ins, params["dtype"])


@op(
    "_einsum",
    "contraction",
    "x y",
    kernel=_einsum_kernel,
    combine=SUM,
    scratch_bytes=_einsum_scratch,
    cost=2.0,
    cases=lambda rng: [
        ((rng.normal(size=(5, 4)), rng.normal(size=(6, 4)), "nd", "kd", "nk"), {}),
        ((rng.normal(size=(5, 4)), rng.normal(size=(6, 4)), "nd", "kd", "kn"), {}),
        ((rng.normal(size=(3, 5, 4)), rng.normal(size=(5, 3, 2)), "bij", "ibk", "jbk"), {}),
        ((rng.integers(0, 9, (5, 4)), rng.integers(0, 9, (4, 5)), "ij", "ji", ""), {}),
        ((np.ones((0, 4)), np.ones((1, 4)), "ij", "ij", "i"), {}),
        ((np.ones((3, 0)), np.ones((1, 0)), "ij", "ij", "i"), {}),
    ],
    oracle=lambda x, y, left, right, kept: np.einsum(f"{left},{right}->{kept}", x, y),
)
def _einsum(x: Spec, y: Spec, left: str, right: str, kept: str) -> Call:
    """Two operands; a label in one alone must be kept, none may be repeated in an operand."""
    sizes = label_sizes((x, y), (left, right))
    number = {c: i for i, c in enumerate(sizes)}
    inputs = tuple(
        tuple(
            None if n == 1 and sizes[c] != 1 else number[c]
            for c, n in zip(labels, spec.shape, strict=True)
        )
        for spec, labels in ((x, left), (y, right))
    )
    form = AxisForm(tuple(sizes.values()), inputs, (tuple(number[c] for c in kept),))
    dtype = result_type(x.dtype, y.dtype)
    out = Spec(tuple(sizes[c] for c in kept), dtype)
    return _product_call(form, out, left=left, right=right, kept=kept, dtype=dtype)


def label_sizes(operands: Sequence[Any], terms: Sequence[str]) -> dict[str, int]:
    """The size of each label; 1 gives way to any other."""
    sizes: dict[str, int] = {}
    for i, (x, labels) in enumerate(zip(operands, terms, strict=True)):
        if len(labels) != len(x.shape):
            raise ValueError(
                f"einsum: operand {i} has shape {tuple(x.shape)}, its subscripts {labels!r} name "
                f"{len(labels)} axes"
            )
        for c, n in zip(labels, x.shape, strict=True):
            known = sizes.setdefault(c, n)
            if known == 1:
                sizes[c] = n
            elif n not in (1, known):
                raise ValueError(
                    f"einsum: label {c!r} has size {known} in one operand and {n} in operand {i}"
                )
    return sizes


# --- einsum of many ---------------------------------------------------------------------------

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def parse_subscripts(subscripts: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """Labels of each operand and of the output, ellipses written out.

    >>> parse_subscripts("...ij,jk", [3, 2])
    (['aij', 'jk'], 'aik')
    """
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ValueError(
            f"einsum: {subscripts!r} names {len(terms)} operands, {len(ndims)} are given"
        )
    for part in (*terms, right):
        bare = part.replace("...", "", 1)
        if bare and not (bare.isalpha() and bare.isascii()):
            raise ValueError(f"einsum: {part!r} in {subscripts!r} is no list of labels")
    free = [c for c in _LETTERS if c not in subscripts]
    widths = [n - len(t) + 3 for t, n in zip(terms, ndims, strict=True) if "..." in t]
    if any(w < 0 for w in widths):
        raise ValueError(f"einsum: {subscripts!r} names more axes than an operand has")
    widest = max(widths, default=0)
    if widest > len(free):
        raise ValueError(f"einsum: {subscripts!r} needs more than {len(_LETTERS)} labels")
    dots = "".join(free[:widest])
    written = []
    for term, n in zip(terms, ndims, strict=True):
        width = n - len(term) + 3
        written.append(term.replace("...", dots[widest - width :] if "..." in term else ""))
    if arrow:
        kept = right.replace("...", dots)
    else:
        every = "".join(written)
        kept = dots + "".join(
            sorted(c for c in set(every) if every.count(c) == 1 and c not in dots)
        )
    if len(set(kept)) != len(kept):
        raise ValueError(f"einsum: the output {kept!r} of {subscripts!r} has a label twice")
    missing = set(kept) - set("".join(written))
    if missing:
        raise ValueError(
            f"einsum: output label {min(missing)!r} of {subscripts!r} is in no operand"
        )
    return written, kept


def contraction_path(
    terms: Sequence[str], kept: str, sizes: dict[str, int]
) -> list[tuple[int, ...]]:
    """Which operands to contract next, the results appended: opt_einsum's answer, or NumPy's."""
    text = f"{','.join(terms)}->{kept}"
    shapes = [tuple(sizes[c] for c in term) for term in terms]
    try:
        import opt_einsum
    except ImportError:
        ghosts = [np.broadcast_to(np.empty(()), shape) for shape in shapes]
        return list(np.einsum_path(text, *ghosts, optimize="greedy")[0][1:])
    return list(opt_einsum.contract_path(text, *shapes, shapes=True, optimize="auto")[0])


def _without_repeats(xp: Any, x: Any, labels: str) -> tuple[Any, str]:
    """A label twice in one operand means its diagonal."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ValueError(
                    f"einsum: label {c!r} has sizes {x.shape[i]} and {x.shape[j]} in one operand"
                )
            x = xp.diagonal(x, axis1=i, axis2=j)
            labels = labels[:i] + labels[i + 1 : j] + labels[j + 1 :] + c
    return x, labels


def _summed(xp: Any, x: Any, labels: str, needed: set[str], dtype: Any) -> tuple[Any, str]:
    """Without the labels that nobody else needs."""
    axes = tuple(i for i, c in enumerate(labels) if c not in needed)
    if not axes:
        return x, labels
    total = xp.any(x, axis=axes) if dtype.kind == "b" else xp.sum(x, axis=axes, dtype=dtype)
    return total, "".join(c for c in labels if c in needed)


def _from_sublists(args: Sequence[Any]) -> tuple[str, list[Any]]:
    """einsum(x, [0, 1], y, [1, 2], [0, 2]): labels as numbers."""
    operands, lists = list(args[: len(args) // 2 * 2 : 2]), list(args[1::2])
    text = ",".join(_sublist_text(labels) for labels in lists)
    if len(args) % 2:
        text += "->" + _sublist_text(args[-1])
    return text, operands


def _sublist_text(labels: Sequence[Any]) -> str:
    return "".join("..." if i is Ellipsis else _LETTERS[operator.index(i)] for i in labels)


def _einsum_cases(rng: np.random.Generator) -> list[Any]:
    x, y, z = rng.normal(size=(4, 5)), rng.normal(size=(5, 6)), rng.normal(size=(6, 4))
    b = rng.normal(size=(3, 4, 5))
    return [
        (("ij,jk->ik", x, y), {}),
        (("ij,jk,kl->il", x, y, z), {}),
        (("ij,jk,ki->", x, y, z), {}),
        (("...ij,jk", b, y), {}),
        (("ii->i", rng.normal(size=(4, 4))), {}),
        (("ii", rng.normal(size=(4, 4))), {}),
        (("ij->ji", x), {}),
        (("ij->j", x), {}),
        (("i,j->ij", x[:, 0], y[:, 0]), {}),
        (("ij,kj->", x, x), {}),
        (("bij,bij->b", b, b), {}),
        (("ij,ij->ij", x.astype(np.float32), x.astype(np.float32)), {}),
        (("ij,jk", np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2)), {}),
    ]


@program("einsum", "", cases=_einsum_cases)
def einsum(
    xp: Any, subscripts: Any, *operands: Any, dtype: Any = None, optimize: Any = True
) -> Any:
    """Sums of products over labelled axes: "ij,jk->ik" is the matrix product.

    More than two operands are contracted pair by pair, in the cheapest order that `opt_einsum`
    (or NumPy, where it is missing) finds.

    >>> import infinitensor as it
    >>> it.einsum("ij,ij->i", it.asarray([[1, 2], [3, 4]]), it.asarray([[1, 1], [1, 1]])).numpy()
    array([3, 7])
    """
    xs = list(operands)
    if not isinstance(subscripts, str):
        subscripts, xs = _from_sublists((subscripts, *operands))
    xs = [xp.asarray(x) for x in xs]
    terms, kept = parse_subscripts(subscripts, [len(x.shape) for x in xs])
    kind = result_type(*(x.dtype for x in xs)) if dtype is None else np.dtype(dtype)
    label_sizes(xs, terms)
    pairs = [_without_repeats(xp, x, labels) for x, labels in zip(xs, terms, strict=True)]
    sizes = label_sizes([x for x, _ in pairs], [labels for _, labels in pairs])
    pairs = [(x if x.dtype == kind else x.astype(kind), labels) for x, labels in pairs]
    path = contraction_path([t for _, t in pairs], kept, sizes) if len(pairs) > 2 else [(0, 1)]
    for step in path if len(pairs) > 1 else ():
        chosen = [pairs[i] for i in sorted(step)]
        rest = [pair for i, pair in enumerate(pairs) if i not in step]
        while len(chosen) > 1:
            needed = set(kept).union(*(t for _, t in (*rest, *chosen[2:])))
            chosen = [_contracted(xp, chosen[0], chosen[1], needed, kept, kind), *chosen[2:]]
        pairs = [*rest, *chosen]
    ((x, labels),) = pairs
    return _in_order(xp, *_summed(xp, x, labels, set(kept), kind), kept)


def _contracted(
    xp: Any, a: tuple[Any, str], b: tuple[Any, str], needed: set[str], last: str, kind: Any
) -> tuple[Any, str]:
    """Two operands made one; in the order of the result if it has the labels of the result.

    So the result is a tensor of its own, in C order, and no view of another.
    """
    x, left = _summed(xp, *a, needed | set(b[1]), kind)
    y, right = _summed(xp, *b, needed | set(left), kind)
    kept = "".join(c for c in dict.fromkeys(left + right) if c in needed)
    if set(kept) == set(last):
        kept = last
    inner = [c for c in left if c in right and c not in needed]
    for c in inner:  # a size-1 axis against a longer one: each side is summed for itself
        if x.shape[left.index(c)] != y.shape[right.index(c)]:
            x, left = _summed(xp, x, left, set(left) - {c}, kind)
            y, right = _summed(xp, y, right, set(right) - {c}, kind)
    if {*left, *right} == set(kept):  # nothing is summed: no product of matrices
        return xp.multiply(_along(xp, x, left, kept), _along(xp, y, right, kept)), kept
    return _product_of(xp, x, y, left, right, kept), kept


def _product_of(xp: Any, x: Any, y: Any, left: str, right: str, kept: str) -> Any:
    """Two operands with a label in common made one: matrices and vectors by `matmul`, which needs
    no copies and can run without Python, anything else by `_einsum`."""
    shared = {*left} & {*right}
    if len(shared) != 1 or shared <= {*kept} or max(len(left), len(right)) > 2:
        return xp._einsum(x, y, left, right, kept)
    (inner,) = shared
    rows, columns = left.replace(inner, ""), right.replace(inner, "")
    if kept != rows + columns:
        x, left, rows, y, right, columns = y, right, columns, x, left, rows
    return xp.matmul(_in_order(xp, x, left, rows + inner), _in_order(xp, y, right, inner + columns))


def _along(xp: Any, x: Any, labels: str, kept: str) -> Any:
    """An operand with the axes of a result, of length 1 where it has none."""
    x = _in_order(xp, x, labels, "".join(c for c in kept if c in labels))
    return x[tuple(slice(None) if c in labels else None for c in kept)]


def _in_order(xp: Any, x: Any, labels: str, kept: str) -> Any:
    if labels == kept:
        return x
    return xp.permute_dims(x, tuple(labels.index(c) for c in kept))


# --- named products ---------------------------------------------------------------------------


def _axes_of(name: str, x: Any, axes: Any) -> list[int]:
    given = [axes] if isinstance(axes, int | np.integer) else list(axes)
    ndim = len(x.shape)
    for axis in given:
        if not -ndim <= axis < ndim:
            raise np.exceptions.AxisError(
                f"{name}: axis {axis} is out of bounds for shape {tuple(x.shape)}"
            )
    return [int(axis) % ndim for axis in given]


@program(
    "tensordot",
    "a b",
    cases=lambda rng: [
        ((rng.normal(size=(3, 4, 5)), rng.normal(size=(4, 5, 2))), {}),
        ((rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), 1), {}),
        ((rng.normal(size=(3, 4)), rng.normal(size=(2, 3)), ([0], [1])), {}),
        ((rng.normal(size=3), rng.normal(size=2), 0), {}),
    ],
)
def tensordot(xp: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    """Sums of products over the last `axes` axes of a and the first of b, or over given pairs.

    >>> import infinitensor as it
    >>> int(it.tensordot(it.ones((2, 3)), it.ones((2, 3))))
    6
    """
    a, b = xp.asarray(a), xp.asarray(b)
    if isinstance(axes, int | np.integer):
        n = int(axes)
        if n > min(len(a.shape), len(b.shape)):
            raise ValueError(f"tensordot: {n} axes of shapes {tuple(a.shape)} and {tuple(b.shape)}")
        first, second = list(range(len(a.shape) - n, len(a.shape))), list(range(n))
    else:
        first, second = _axes_of("tensordot", a, axes[0]), _axes_of("tensordot", b, axes[1])
    if len(first) != len(second) or any(
        a.shape[i] != b.shape[j] for i, j in zip(first, second, strict=False)
    ):
        raise ValueError(
            f"tensordot: shape-mismatch for sum: {tuple(a.shape)} and {tuple(b.shape)} over {axes}"
        )
    return _paired(xp, a, b, first, second)


def _paired(xp: Any, a: Any, b: Any, first: Sequence[int], second: Sequence[int]) -> Any:
    """Sum of products over paired axes; the free axes of a, then of b, are kept."""
    left = _LETTERS[: len(a.shape)]
    letters = list(_LETTERS[len(a.shape) : len(a.shape) + len(b.shape)])
    for i, j in zip(first, second, strict=True):
        letters[j] = left[i]
    right = "".join(letters)
    kept = "".join(c for c in left if c not in right) + "".join(c for c in right if c not in left)
    return _product_of(xp, a, b, left, right, kept)


@program(
    "dot",
    "a b",
    cases=lambda rng: [
        ((rng.normal(size=4), rng.normal(size=4)), {}),
        ((rng.normal(size=(3, 4)), rng.normal(size=(4, 2))), {}),
        ((rng.normal(size=(2, 3, 4)), rng.normal(size=(5, 4, 2))), {}),
        ((rng.normal(size=(3, 4)), 2.0), {}),
    ],
    method=True,
)
def dot(xp: Any, a: Any, b: Any) -> Any:
    """NumPy's dot: last axis of a with the last but one of b; a scalar multiplies.

    >>> import infinitensor as it
    >>> int(it.dot(it.arange(3), it.arange(3)))
    5
    """
    a, b = xp.asarray(a), xp.asarray(b)
    if len(a.shape) == 0 or len(b.shape) == 0:
        return xp.multiply(a, b)
    i, j = len(a.shape) - 1, max(len(b.shape) - 2, 0)
    if a.shape[i] != b.shape[j]:
        raise ValueError(
            f"shapes {tuple(a.shape)} and {tuple(b.shape)} not aligned: "
            f"{a.shape[i]} (dim {i}) != {b.shape[j]} (dim {j})"
        )
    return _paired(xp, a, b, [i], [j])


@program(
    "inner",
    "a b",
    cases=lambda rng: [
        ((rng.normal(size=(3, 4)), rng.normal(size=(2, 4))), {}),
        ((np.arange(3), 2), {}),
    ],
)
def inner(xp: Any, a: Any, b: Any) -> Any:
    """Sums of products over the last axes of both.

    >>> import infinitensor as it
    >>> int(it.inner(it.arange(3), it.arange(3)))
    5
    """
    a, b = xp.asarray(a), xp.asarray(b)
    if len(a.shape) == 0 or len(b.shape) == 0:
        return xp.multiply(a, b)
    i, j = len(a.shape) - 1, len(b.shape) - 1
    if a.shape[i] != b.shape[j]:
        raise ValueError(
            f"shapes {tuple(a.shape)} and {tuple(b.shape)} not aligned: "
            f"{a.shape[i]} (dim {i}) != {b.shape[j]} (dim {j})"
        )
    return _paired(xp, a, b, [i], [j])


@program("outer", "a b", cases=lambda rng: [((rng.normal(size=(2, 3)), rng.normal(size=4)), {})])
def outer(xp: Any, a: Any, b: Any) -> Any:
    """Every product of an element of a and one of b, both flattened.

    >>> import infinitensor as it
    >>> it.outer(it.arange(2), it.arange(3)).numpy()
    array([[0, 0, 0],
           [0, 1, 2]])
    """
    return xp.multiply(xp.asarray(a).reshape((-1, 1)), xp.asarray(b).reshape((1, -1)))


@program(
    "vdot",
    "a b",
    cases=lambda rng: [((rng.normal(size=(2, 3)) + 1j, rng.normal(size=(2, 3)) - 2j), {})],
)
def vdot(xp: Any, a: Any, b: Any) -> Any:
    """The sum of conj(a) * b over all elements, both flattened.

    >>> import infinitensor as it
    >>> int(it.vdot(it.arange(3), it.arange(3)))
    5
    """
    a, b = xp.asarray(a).reshape((-1,)), xp.asarray(b).reshape((-1,))
    if a.shape != b.shape:
        raise ValueError(f"vdot: {a.shape[0]} and {b.shape[0]} elements do not pair up")
    return _paired(xp, xp.conjugate(a) if a.dtype.kind == "c" else a, b, [0], [0])


@program(
    "vecdot",
    "x1 x2",
    cases=lambda rng: [((rng.normal(size=(4, 3)) + 1j, rng.normal(size=3)), {})],
)
def vecdot(xp: Any, x1: Any, x2: Any, *, axis: int = -1) -> Any:
    """The sum of conj(x1) * x2 along one axis, the others broadcast.

    >>> import infinitensor as it
    >>> int(it.vecdot(it.arange(3), it.arange(3)))
    5
    """
    x1, x2 = xp.asarray(x1), xp.asarray(x2)
    if axis != -1:
        x1, x2 = xp.moveaxis(x1, axis, -1), xp.moveaxis(x2, axis, -1)
    if x1.shape[-1] != x2.shape[-1]:
        raise ValueError(
            f"vecdot: axis {axis} of {tuple(x1.shape)} and {tuple(x2.shape)} differ in size"
        )
    x1 = xp.conjugate(x1) if x1.dtype.kind == "c" else x1
    return xp.einsum("...i,...i->...", x1, x2)


def _matrix_and_vector(name: str, matrix: Any, vector: Any, axis: int) -> None:
    if len(matrix.shape) < 2 or not vector.shape or matrix.shape[axis] != vector.shape[-1]:
        raise ValueError(
            f"{name}: a matrix of shape {tuple(matrix.shape)} and a vector of shape "
            f"{tuple(vector.shape)} do not fit together"
        )


@program(
    "matvec",
    "x1 x2",
    cases=lambda rng: [
        ((rng.normal(size=(4, 3)), rng.normal(size=3)), {}),
        ((rng.normal(size=(2, 1, 4, 3)), rng.normal(size=(5, 3))), {}),
    ],
)
def matvec(xp: Any, x1: Any, x2: Any) -> Any:
    """Matrices times vectors, stacks of either broadcast.

    >>> import infinitensor as it
    >>> it.matvec([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    _matrix_and_vector("matvec", x1, x2, -1)
    return xp.einsum("...ij,...j->...i", x1, x2)


@program(
    "vecmat",
    "x1 x2",
    cases=lambda rng: [
        ((rng.normal(size=4) + 1j, rng.normal(size=(4, 3))), {}),
        ((rng.normal(size=(5, 4)), rng.normal(size=(2, 1, 4, 3))), {}),
    ],
)
def vecmat(xp: Any, x1: Any, x2: Any) -> Any:
    """Conjugated vectors times matrices, stacks of either broadcast.

    >>> import infinitensor as it
    >>> it.vecmat([1, 1], [[1, 2], [3, 4]]).tolist()
    [4, 6]
    """
    _matrix_and_vector("vecmat", x2, x1, -2)
    x1 = xp.conjugate(x1) if x1.dtype.kind == "c" else x1
    return xp.einsum("...i,...ij->...j", x1, x2)
