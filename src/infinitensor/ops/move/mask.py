"""Reading by masks: a count pass makes the shape known, a fill pass the values."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import bool_, int64
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.backend.torch_bridge import as_signed
from infinitensor.ops.forms.gather import gather_form, is_empty
from infinitensor.ops.move.mask_triton import compact, count_into, pack
from infinitensor.ops.table.registry import TABLE, Array, op, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box


@lru_cache(maxsize=1024)
def _prefix(counts: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Entries before each block, the total last."""
    return np.fromiter(accumulate(counts, initial=0), np.int64, len(counts) + 1)


def _block_rows(lo: int, hi: int, counts: tuple[int, ...], block: int, n: int) -> tuple[int, int]:
    """The leading rows whose blocks hold the entries lo..hi."""
    prefix = _prefix(counts)
    first = int(np.searchsorted(prefix, lo, side="right")) - 1
    last = int(np.searchsorted(prefix, hi, side="left"))
    return first * block, min(last * block, n)


def _mask_need(
    box: Box, specs: Sequence[Spec], *, counts: tuple[int, ...], block: int
) -> tuple[Box | None, ...]:
    mask = specs[1]
    if is_empty(box):
        return (None, None)
    rows = _block_rows(*box[0], counts, block, mask.shape[0])
    inner = tuple((0, n) for n in mask.shape[1:])
    return ((rows, *inner, *box[1:]), (rows, *inner))


def _mask_kernel(
    xp: Any, x: Any, mask: Any, out: Any, at: At, counts: tuple[int, ...], block: int
) -> None:
    source = at.inputs[1]
    if mask is None or source is None:
        return
    lo, hi = at.outputs[0][0]
    before = int(_prefix(counts)[source[0][0] // block])
    if xp is not np:
        prefix = _prefix(counts)
        held = int(prefix[min(-(-source[0][1] // block), len(counts))]) - before
        if (lo, hi) == (before, before + held) and compact(as_signed(x), mask, as_signed(out)):
            return
    if xp is np and select_into(mask, x, out, lo - before):
        return
    index = xp.nonzero(mask) if xp is np else xp.nonzero(mask, as_tuple=True)
    part = tuple(i[lo - before : hi - before] for i in index)
    if xp is np:
        out[...] = x[part]
    else:
        as_signed(out)[...] = as_signed(x)[part]


def select_into(mask: np.ndarray, x: np.ndarray, out: np.ndarray, skip: int = 0) -> bool:
    """Put what a mask over leading axes of x chooses into `out`, from the entry number `skip` on.

    False, and nothing done, where there is no loop in C for it.
    """
    if not mask.flags.c_contiguous or not out.flags.c_contiguous or not out.size:
        return False
    n, count = mask.size, len(out)
    if x.shape == mask.shape:
        choose = loop("take", "choose", MOVED.get(x.dtype.str[1:], x.dtype))
        if choose is None or not x.flags.c_contiguous:
            return False
        choose(mask, n, skip, count, x, out)
        return True
    if mask.ndim > 1 or not x[0].flags.c_contiguous:
        return False
    rows = loop("take", "choose_rows", np.uint8)
    if rows is None:
        return False
    step, where = x.strides[0], int(x.__array_interface__["data"][0])
    rows(mask, n, skip, count, where, step, out.nbytes // count, out)
    return True


MOVED = {"c8": np.dtype("u8"), "c16": np.dtype("V16")}
"""The dtype that stands for elements that are only moved, by their kind."""


def _blocks(mask: Any, block: int) -> tuple[int, ...]:
    return tuple(int(np.count_nonzero(mask[i : i + block])) for i in range(0, mask.shape[0], block))


def _mask_cases(rng: Any) -> list[Any]:
    cases: list[Any] = []
    for shape, n_mask, block in (((9,), 1, 2), ((7, 3), 1, 4), ((6, 4, 2), 2, 2), ((5, 3), 2, 1)):
        x, mask = rng.standard_normal(shape), rng.random(shape[:n_mask]) < 0.4
        cases.append(((x, mask, _blocks(mask, block), block), {}))
    none = np.zeros(5, bool)
    return [*cases, ((rng.standard_normal(5), none, _blocks(none, 2), 2), {})]


@op(
    "gather",
    kernel=_mask_kernel,
    need=_mask_need,
    scratch_bytes=lambda ins, outs, params: (
        (8 * ins[1].ndim + 1) * ins[1].n_elements + outs[0].n_bytes + 64
    ),
    cases=_mask_cases,
    oracle=lambda x, mask, counts, block: x[mask],
)
def _mask_select(x: Spec, mask: Spec, counts: tuple[int, ...], block: int) -> Call:
    """x[mask]; `counts` says how many entries each block of `block` leading rows holds."""
    shape = (sum(counts), *x.shape[mask.ndim :])
    form = gather_form((x, mask), shape)
    return call(form, Spec(shape, x.dtype), counts=tuple(counts), block=block)


# --- what rows that a mask selects come to --------------------------------------------------------


FOLDED = {"any": 0, "all": 1, "max": 2, "amax": 2, "min": 3, "amin": 3}
"""Reductions of rows that are one loop in C, where all is in the dtype of the result."""
WIDE_ENOUGH = 2048
"""Elements of a row from which rows are reduced side by side, by parts of them."""
LEAST_ROWS_PER_ELEMENT = 32
"""Rows that a task reduces at least for each of its elements: so are tiles made."""
GATHERED_BYTES = 1 << 18
"""Bytes of rows that are gathered at a time where there is no such loop."""


def may_fold(op: Any, of: Call, shape: tuple[int, ...]) -> bool:
    """Whether a reduction of selected rows of a shape can be made without storing them."""
    is_plain = op.kind == "reduction" and op.combine is not None and op.combine.exact
    if not is_plain or op.finish is not None or op.located or op.random or len(of.outs) != 1:
        return False
    labels = of.form.inputs
    rows = (tuple(range(len(shape))),)
    is_first = labels == rows and of.form.contracted == (0,) and not of.tail
    return is_first and shape[0] > 0 and prod(shape[1:]) >= WIDE_ENOUGH


def _folded_need(box: Box, specs: Sequence[Spec], **_: Any) -> tuple[Box | None, ...]:
    x, mask = specs
    if is_empty(box):
        return (None, None)
    return (((0, x.shape[0]), *box[len(box) - x.ndim + 1 :]), ((0, mask.shape[0]),))


def _folded_kernel(
    xp: Any, x: Any, mask: Any, out: Any, at: At, reduction: str, options: Any, count: int
) -> None:
    if x is None:
        return
    op = TABLE[reduction]
    target = out.reshape(x.shape[1:])
    if xp is np and _folded_in_c(reduction, x, mask, target):
        return
    kernel = op.kernel_for("cpu" if xp is np else "cuda")
    assert op.combine is not None
    n = max(GATHERED_BYTES // max(prod(x.shape[1:]) * x.itemsize, 1), 1) if xp is np else len(x)
    found: tuple[Any, ...] | None = None
    for lo in range(0, len(x), n):
        rows = x[lo : lo + n][mask[lo : lo + n]]
        if len(rows):
            part = tuple(kernel(xp, rows, axes=(0,), **dict(options)))
            found = part if found is None else op.combine.merge(xp, found, part)
    assert found is not None
    target[...] = found[0].reshape(target.shape)


def _folded_in_c(reduction: str, x: Any, mask: Any, out: Any) -> bool:
    word = FOLDED.get(reduction)
    kind = x.dtype.kind
    fits = x.dtype == out.dtype and (kind == "b" if word in (0, 1) else kind in "iuf")
    if word is None or not fits:
        return False
    fold = loop("take", "fold_rows", x.dtype)
    if fold is None or not (x[0].flags.c_contiguous and out.flags.c_contiguous):
        return False
    where = int(x.__array_interface__["data"][0])
    fold(np.ascontiguousarray(mask), len(x), where, x.strides[0], out.size, word, out)
    return True


def _folded_on_gpu(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Bytes of the mask's places, of the rows, and of the result."""
    x, mask = ins
    return 2 * x.n_bytes + 24 * mask.n_elements + 16 * outs[0].n_bytes + (1 << 16)


def _folded_cases(rng: Any) -> list[Any]:
    cases: list[Any] = []
    for dtype in ("f8", "i4", "?"):
        x, mask = (rng.random((40, 6)) * 9 - 3).astype(dtype), rng.random(40) < 0.3
        mask[3] = True
        for name, shape in (("any", (6,)), ("all", (1, 6)), ("max", (6,)), ("min", (1, 6))):
            out = np.dtype(bool if name in ("any", "all") else dtype)
            options = (("dtype", out),)
            cases.append(((x, mask, name, options, Spec(shape, out), int(mask.sum())), {}))
    return cases


@op(
    "gather",
    arrays="x mask",
    kernel=_folded_kernel,
    need=_folded_need,
    grain=lambda reduction, options, count: min(count, LEAST_ROWS_PER_ELEMENT),
    scratch_bytes=lambda ins, outs, params: (
        4 * max(GATHERED_BYTES, ins[0].n_bytes // max(ins[0].shape[0], 1)) + ins[1].n_elements + 64
    ),
    scratches={"cuda": _folded_on_gpu},
    cases=_folded_cases,
    oracle=lambda x, mask, reduction, options, out, count: (
        getattr(np, reduction)(x[mask], axis=0).astype(out.dtype).reshape(out.shape)
    ),
)
def _mask_fold(x: Spec, mask: Spec, reduction: str, options: Any, out: Spec, count: int) -> Call:
    """A reduction, by name, of the `count` rows that a mask selects; they are never stored."""
    form = gather_form((x, mask), out.shape)
    return call(form, out, reduction=reduction, options=options, count=count)


def _where_need(
    box: Box, specs: Sequence[Spec], *, counts: tuple[int, ...], block: int
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,)
    mask = specs[0]
    rows = _block_rows(*box[0], counts, block, mask.shape[0])
    return ((rows, *((0, n) for n in mask.shape[1:])),)


def _where_kernel(
    xp: Any, mask: Any, out: Any, at: At, counts: tuple[int, ...], block: int
) -> None:
    source = at.inputs[0]
    if mask is None or source is None:
        return
    first = source[0][0]
    lo, hi = at.outputs[0][0]
    before = int(_prefix(counts)[first // block])
    if xp is np and mask.ndim == 1 and mask.flags.c_contiguous and out.flags.c_contiguous:
        places = loop("take", "places", out.dtype)
        if places is not None:
            places(mask, mask.size, lo - before, hi - lo, first, out)
            return
    index = xp.nonzero(mask) if xp is np else xp.nonzero(mask, as_tuple=True)
    outs = out if isinstance(out, tuple) else (out,)
    for axis, (i, target) in enumerate(zip(index, outs, strict=True)):
        target[...] = i[lo - before : hi - before]
        if axis == 0:
            target += first


@op(
    "gather",
    kernel=_where_kernel,
    need=_where_need,
    scratch_bytes=lambda ins, outs, params: (8 * ins[0].ndim + 1) * ins[0].n_elements + 64,
    cases=lambda rng: [
        ((mask, counts, block), {}) for (_, mask, counts, block), _ in _mask_cases(rng)
    ],
    oracle=lambda mask, counts, block: mask.nonzero() if mask.ndim > 1 else mask.nonzero()[0],
)
def _nonzero_fill(mask: Spec, counts: tuple[int, ...], block: int) -> Call:
    """The indices of the entries of a mask, an output for each axis; `counts` as above."""
    shape = (sum(counts),)
    form = gather_form((mask,), shape, mask.ndim)
    return call(form, *(Spec(shape, int64),) * mask.ndim, counts=tuple(counts), block=block)


def _counts_need(box: Box, specs: Sequence[Spec], *, block: int) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,)
    (lo, hi), shape = box[0], specs[0].shape
    return (((lo * block, min(hi * block, shape[0])), *((0, n) for n in shape[1:])),)


def _counts_kernel(xp: Any, mask: Any, out: Any, at: At, block: int) -> None:
    if mask is not None:
        for i in range(out.shape[0]):
            part = mask if out.shape[0] == 1 else mask[i * block : (i + 1) * block]
            if xp is np:
                out[i] = np.count_nonzero(part)
            else:
                count_into(part, out[i])


@op(
    "gather",
    kernel=_counts_kernel,
    need=_counts_need,
    grain=lambda block: block,
    scratch_bytes=lambda ins, outs, params: 4096 + ins[0].n_elements // 128,
    cases=lambda rng: [((mask, block), {}) for (_, mask, _, block), _ in _mask_cases(rng)],
    oracle=lambda mask, block: np.array(_blocks(mask, block), np.int64),
)
def _mask_counts(mask: Spec, block: int) -> Call:
    """How many entries each block of leading rows of a mask holds."""
    shape = (-(-mask.shape[0] // block),)
    return call(gather_form((mask,), shape), Spec(shape, int64), block=block)


def count_pass(xp: Any, mask: Any) -> tuple[tuple[int, ...], int]:
    """How many entries each block of leading rows holds, computed now, and the block's rows."""
    n, width = mask.shape[0], prod(mask.shape[1:])
    if not n or not width:
        return ((0,), max(n, 1))
    fit = max(xp.block(n * width) // width, 1)
    block = n if fit >= n else 1 << (fit.bit_length() - 1)
    values = xp.mask_values(mask)
    if values is not None:
        return _blocks(values, block), block
    return tuple(np.asarray(xp.force(xp._mask_counts(mask, block))).tolist()), block


# --- counted and filled in one pass ---------------------------------------------------------------


MOST_PADDING = 1 << 20
"""Bytes behind what was selected that are kept with it rather than copied away from."""


def _packed_kernel(xp: Any, x: Any, mask: Any, out: Any) -> None:
    values, count = out
    if xp is np:
        chosen = x[mask]
        values[: len(chosen)], values[len(chosen) :], count[...] = chosen, 0, len(chosen)
        return
    x, values = as_signed(x), as_signed(values)
    if not pack(x, mask, values, count):
        _pack_torch(xp, x.reshape(-1), mask.reshape(-1), values, count)


def _packed_places_kernel(xp: Any, mask: Any, out: Any) -> None:
    places, count = out
    if xp is np:
        _packed_kernel(xp, np.arange(len(mask)), mask, out)
    elif not pack(None, mask, places, count):
        _pack_torch(xp, xp.arange(len(mask), device=mask.device), mask, places, count)


def _pack_torch(xp: Any, x: Any, mask: Any, values: Any, count: Any) -> None:
    """The same without waiting for the device: what is not chosen is put behind the end."""
    ends, n = mask.cumsum(0), len(mask)
    places = xp.where(mask, ends - 1, n)
    padded = xp.zeros(n + 1, dtype=x.dtype, device=x.device)
    padded[places] = x
    values[...] = padded[:n]
    count[...] = ends[-1:]


def _packed_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """The places of all elements, and copies of what is moved."""
    return 40 * ins[-1].n_elements + 3 * outs[0].n_bytes + 4096


def _packed_oracle(x: Any, mask: Any) -> Any:
    found = np.zeros(mask.size, x.dtype)
    found[: mask.sum()] = x[mask]
    return found, np.array([mask.sum()])


def _packed_cases(rng: Any) -> list[Any]:
    found: list[Any] = []
    for shape, dtype in (((9,), "f8"), ((7, 3), "u2"), ((1,), "?"), ((2, 3, 4), "c16")):
        x = (rng.standard_normal(shape) * 9).astype("i8").astype(dtype)
        found += [((x, rng.random(shape) < share), {}) for share in (0.0, 0.4, 1.0)]
    return found


def _packed_call(dtype: np.dtype[Any], *specs: Spec) -> Call:
    shape, n = specs[-1].shape, specs[-1].n_elements
    labels = tuple(range(len(shape)))
    form = AxisForm(
        (*shape, n, 1),
        (labels,) * len(specs),
        ((len(shape),), (len(shape) + 1,)),
        frozenset(range(len(shape) + 2)),
    )
    return call(form, Spec((n,), dtype), Spec((1,), int64))


@op(
    "mapped",
    kernel=_packed_kernel,
    scratch_bytes=_packed_scratch,
    cost=0.0,
    cases=_packed_cases,
    oracle=_packed_oracle,
    same="equal",
)
def _packed(x: Spec, mask: Spec) -> Call:
    """x[mask] and zeros behind it, as many elements as the mask has; how many were selected."""
    return _packed_call(x.dtype, x, mask)


@op(
    "mapped",
    kernel=_packed_places_kernel,
    scratch_bytes=_packed_scratch,
    cost=0.0,
    cases=lambda rng: [((mask,), {}) for (_, mask), _ in _packed_cases(rng) if mask.ndim == 1],
    oracle=lambda mask: _packed_oracle(np.arange(len(mask)), mask),
    same="equal",
)
def _packed_places(mask: Spec) -> Call:
    """The indices of the entries of a line, packed likewise."""
    return _packed_call(int64, mask)


def packed(xp: Any, x: Any, mask: Any) -> Any:
    """x[mask], or the places of its entries without an x, where one pass counts and fills: None
    anywhere else. The shapes of that pass do not depend on the values, so its plan is used again.

    It is computed now, into memory for all elements; where that would be much more than needed,
    the result is a copy, made when it is needed.
    """
    is_apart = x is not None and tuple(x.shape) != tuple(mask.shape)
    if is_apart or not xp.packs(prod(mask.shape)):
        return None
    found, count = xp._packed_places(mask) if x is None else xp._packed(x, mask)
    n = int(xp.force(count)[0])
    if not n:
        return xp.zeros((0,), found.dtype)
    part, size = xp.first_of(found, n), found.dtype.itemsize
    n_padding = (found.shape[0] - n) * size
    return xp._copy(part) if n_padding > max(MOST_PADDING, 2 * n * size) else part


def as_mask(x: Any) -> Any:
    """The mask of values that count as true."""
    return x if x.dtype == bool_ else x != 0


@program(
    name="_masked",
    cases=lambda rng: [
        ((rng.standard_normal((7, 3)), rng.random((7, 3)) < 0.5), {}),
        ((rng.standard_normal((7, 3)), rng.random(7) < 0.5), {}),
        ((rng.standard_normal((7, 3)), np.bool_(True)), {}),
        ((rng.standard_normal((0, 3)), np.zeros((0, 3), bool)), {}),
        ((rng.standard_normal((7, 3, 2)), np.zeros((7, 0), bool)), {}),
    ],
    oracle=lambda x, mask: x[mask],
    same="equal",
)
def _select(xp: Any, x: Array, mask: Array) -> Any:
    """x[mask]: the mask covers the leading axes of x. Counts first, so the mask is computed now."""
    if not len(mask.shape):
        x, mask = x.reshape(1, *x.shape), mask.reshape(1)
    for axis, (n, wanted) in enumerate(zip(mask.shape, x.shape, strict=False)):
        if n not in (0, wanted):  # NumPy lets an empty mask pass
            raise IndexError(
                "boolean index did not match indexed array along axis "
                f"{axis}; size of axis is {wanted} but size of corresponding boolean axis is {n}"
            )
    if len(mask.shape) > len(x.shape):
        raise IndexError(
            f"too many indices for array: array is {len(x.shape)}-dimensional, "
            f"but {len(mask.shape)} were indexed"
        )
    if 0 in mask.shape:
        return xp.zeros((0, *x.shape[len(mask.shape) :]), x.dtype)
    found = packed(xp, x, mask)
    if found is not None:
        return found
    counts, block = count_pass(xp, mask)
    return xp._mask_select(x, mask, counts, block)


def _sparse_cases(rng: Any) -> list[Any]:
    return [((rng.integers(0, 2, shape),), {}) for shape in ((9,), (4, 5), (3, 2, 2), (0,), (2, 0))]


@program(cases=_sparse_cases, same="equal")
def nonzero(xp: Any, a: Array) -> tuple[Any, ...]:
    """The indices of the elements that are not zero, one array for each axis, in C order.

    The number of them is a shape: the array is computed and counted now, its values are filled in
    when needed.

    >>> import infinitensor as it
    >>> it.nonzero(it.asarray([0, 3, 0, 4]))[0].numpy().tolist()
    [1, 3]
    """
    if not len(a.shape):
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. "
            "Use np.atleast_1d(scalar).nonzero() instead."
        )
    mask = as_mask(a)
    places = packed(xp, None, mask) if len(a.shape) == 1 else None
    if places is not None:
        return (places,)
    found = xp._nonzero_fill(mask, *count_pass(xp, mask))
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


@program(cases=_sparse_cases, same="equal")
def flatnonzero(xp: Any, a: Array) -> Any:
    """The flat indices of the elements that are not zero.

    >>> import infinitensor as it
    >>> it.flatnonzero(it.asarray([[0, 3], [0, 4]])).numpy().tolist()
    [1, 3]
    """
    return xp.nonzero(a.reshape(-1))[0]


@program(cases=_sparse_cases, same="equal")
def argwhere(xp: Any, a: Array) -> Any:
    """The indices of the elements that are not zero, one row for each.

    >>> import infinitensor as it
    >>> it.argwhere(it.asarray([[0, 3], [0, 4]])).numpy().tolist()
    [[0, 1], [1, 1]]
    """
    if not len(a.shape):
        return xp.argwhere(a.reshape(1))[:, :0]
    return xp.stack(xp.nonzero(a), axis=1)


@program(
    method=False,
    cases=lambda rng: [
        ((rng.random(3) < 0.5, rng.standard_normal((4, 5))), {"axis": axis})
        for axis in (None, 0, 1)
    ],
    same="equal",
)
def compress(xp: Any, condition: Array, a: Array, axis: int | None = None) -> Any:
    """The slices along an axis where the condition holds; it may be shorter than the axis.

    The condition is computed and counted now.

    >>> import infinitensor as it
    >>> it.compress(it.asarray([True, False, True]), it.arange(3)).numpy().tolist()
    [0, 2]
    """
    if condition is None or len(condition.shape) != 1:
        raise ValueError("condition must be a 1-d array")
    return xp.take(a, xp.flatnonzero(condition), axis)


@program(
    cases=lambda rng: [((rng.random((4, 5)) < 0.5, rng.standard_normal((4, 5))), {})], same="equal"
)
def extract(xp: Any, condition: Array, arr: Array) -> Any:
    """The elements where the condition holds, in C order.

    >>> import infinitensor as it
    >>> it.extract(it.asarray([True, False, True]), it.arange(3)).numpy().tolist()
    [0, 2]
    """
    flat, mask = arr.reshape(-1), as_mask(condition).reshape(-1)
    n, n_asked = flat.shape[0], mask.shape[0]
    if n_asked > n and bool(xp.force(xp.any(mask[n:]))):
        last = n + int(xp.force(xp.argmax(mask[n:])))
        raise IndexError(f"index {last} is out of bounds for axis 0 with size {n}")
    return xp._masked(flat[:n_asked], mask[:n])
