"""Running sums and products, those of any other word, and differences.

An axis of less than two blocks is scanned by one kernel. A longer one takes two passes: the totals
of blocks, then each block is scanned after what those before it add up to. Lines in one memory are
walked block by block, so that memory is read once: few of them by all workers in one task, many cut
over tasks. Bits depend on the block only.
"""

from __future__ import annotations

from math import prod
from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import as_dtype, bool_, int64, uint64
from infinitensor.events import lane
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.backend.torch_bridge import as_signed
from infinitensor.ops.forms.gather import along, gather_form, is_empty
from infinitensor.ops.reduce.scan_triton import running_sum
from infinitensor.ops.reduce.ufunc_reduce import REORDERABLE
from infinitensor.ops.sorting.sort import pieces, run_hull
from infinitensor.ops.table.registry import Array, op, program
from infinitensor.ops.table.words import EAGER
from infinitensor.threads import n_sharing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box


BLOCKS_AT_A_TIME = 4
"""Blocks that a kernel takes at a time, of lines that are not short: an addition waits for the one
before it, but not for those of another block."""
SHORT_BLOCK_ELEMENTS = 1 << 13
"""A block of fewer elements is not divided: starting its calls would cost more than it gains."""


SHARED_ELEMENTS = 1 << 15
"""Elements for each of the threads that share running sums: they take longer than to wake one."""
LINES_EACH = 2
"""Long lines for each of the threads from which on lines are cut over tasks, not blocks."""


def scan_dtype(given: Any, wanted: Any) -> np.dtype[Any]:
    """NumPy's rule: small integers add up in the machine's word, unless a dtype is asked for."""
    if wanted is not None:
        return as_dtype(wanted)
    if given.kind in "bi" and given.itemsize < 8:
        return int64
    return uint64 if given.kind == "u" else np.dtype(given)


def _scanned(xp: Any, x: Any, out: Any, axis: int, word: str, carry: Any = None) -> None:
    """One line's running `word` into `out`, in the dtype of `out`, after what comes before it."""
    scan = _loop_over("scan", xp, word, _signed(xp, out))
    if scan is not None:
        x, out = _signed(xp, x), _signed(xp, out)
        if x.dtype != out.dtype or not x.flags.c_contiguous:
            np.copyto(out, x, casting="unsafe")
            x = out
        n_threads = 1 if lane.is_worker else min(n_sharing(), x.size // SHARED_ELEMENTS)
        if n_threads > 1 and carry is None:
            _scan_shared(x, out, axis, n_threads)
        else:
            scan(x, *_around(x.shape, axis), carry, out)
    elif xp is np:
        getattr(np, word).accumulate(x, axis=axis, dtype=out.dtype, out=out)
    elif word not in ("add", "multiply"):
        _scanned_torch(x, out, axis, word)
    else:
        signed = as_signed(out)  # two's complement: the same bits as unsigned arithmetic
        cumulate = xp.cumsum if word == "add" else xp.cumprod
        wide = as_signed(x).to(signed.dtype) if x.dtype != out.dtype else as_signed(x)
        if word != "add" or not running_sum(wide, signed, axis):
            cumulate(wide, dim=axis, out=signed)
    if carry is None or scan is not None:
        return
    if xp is np:  # the carry comes first: words such as `fmax` know which zero comes first
        getattr(np, word)(carry, out, out=out)
    else:
        out[...] = EAGER["cuda"][word](carry, out)


def _loop_over(name: str, xp: Any, word: str, *arrays: Any) -> Any:
    """The loop in C, where arrays are contiguous and have one dtype."""
    if xp is not np or word != "add" or any(a.dtype != arrays[0].dtype for a in arrays):
        return None
    if arrays[0].dtype == bool_ or not all(a.flags.c_contiguous for a in arrays):
        return None
    return loop("scan", name, arrays[0].dtype)


def _signed(xp: Any, x: Any) -> Any:
    """An array of unsigned words as signed ones, whose sums have the same bits."""
    return x.view(int64) if xp is np and x.dtype == uint64 else x


def _scan_shared(x: Any, out: Any, axis: int, n_threads: int) -> None:
    """Running sums by so many threads: a line is taken by one, so that bits are the same."""
    scan = _loop_over("scan_shared", np, "add", x, out)
    scan(x, *_around(x.shape, axis), n_threads, out)


def running_sums(a: np.ndarray, axis: int) -> np.ndarray:
    """The running sums of an array along an axis, at once and uncut.

    Few are a loop in place, without what many are looked at for.
    """
    dtype, axis = scan_dtype(a.dtype, None), axis % a.ndim
    if a.size < 2 * SHARED_ELEMENTS and dtype.kind in "if":
        scan = loop("scan", "scan", dtype)
        if scan is not None:
            out = a.astype(dtype, "C")
            scan(out, *_around(a.shape, axis), None, out)
            return out
    out = np.empty(a.shape, dtype)
    _scanned(np, a, out, axis, "add")
    return out


def _around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Elements before an axis, in it, and behind it."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _scanned_torch(x: Any, out: Any, axis: int, word: str) -> None:
    """Over distances 1, 2, 4 ... where the order is free, else element by element."""
    apply = EAGER["cuda"][word]
    n, step = x.shape[axis], 1
    out[...] = x
    while step < n and word in REORDERABLE:
        tail = out[along(axis, slice(step, n))]
        tail.copy_(apply(out[along(axis, slice(0, n - step))], tail))
        step *= 2
    while step < n:
        out[along(axis, step)] = apply(out[along(axis, step - 1)], x[along(axis, step)])
        step += 1


def _scan_cases(rng: Any) -> list[Any]:
    return [
        ((rng.standard_normal((4, 6)), 1, "add", np.dtype("f8")), {}),
        ((rng.integers(-3, 4, (4, 6)), 0, "multiply", np.dtype("i8")), {}),
        ((rng.random((4, 6)) < 0.5, 0, "add", np.dtype("i8")), {}),
        ((rng.standard_normal((4, 6)), 1, "maximum", np.dtype("f8")), {}),
        ((rng.integers(0, 9, (4, 6)), 0, "bitwise_xor", np.dtype("i8")), {}),
    ]


def _scan_oracle(x: Any, axis: int, word: str, dtype: Any) -> Any:
    return getattr(np, word).accumulate(x, axis=axis, dtype=dtype)


def _scan_kernel(xp: Any, x: Any, out: Any, axis: int, word: str, behind: bool) -> None:
    _scanned(xp, x, out, axis, word)


@op(
    "mapped",
    kernel=_scan_kernel,
    moves=True,
    scratch_bytes=lambda ins, outs, params: (
        2 * outs[0].n_elements * outs[0].dtype.itemsize + 2 * ins[0].n_elements * 16
    ),
    cases=_scan_cases,
    oracle=_scan_oracle,
)
def _scan_axis(x: Spec, axis: int, word: str, dtype: np.dtype[Any], behind: bool = False) -> Call:
    """The running `word` along an axis that is not cut, nor are those `behind` it if said so: in
    one memory such lines are a loop's, which threads share, and no tile is copied."""
    labels = tuple(range(x.ndim))
    uncut = frozenset(labels[axis:] if behind else (axis,))
    form = AxisForm(x.shape, (labels,), (labels,), uncut)
    return call(form, Spec(x.shape, dtype), axis=axis, word=word, behind=behind)


def _lines_kernel(xp: Any, x: Any, out: Any, axis: int, block: int, n_threads: int) -> None:
    walk = _loop_over("long_lines", xp, "add", x, out)
    if walk is not None:
        if x.size:
            walk(x, *_around(x.shape, axis), block, n_threads, out)
        return
    before: Any = None
    for lo in range(0, x.shape[axis], block):
        here = along(axis, slice(lo, lo + block))
        part = out[here]
        _scanned(xp, x[here], part, axis, "add")
        total = part[along(axis, slice(part.shape[axis] - 1, None))] + 0
        if before is not None:
            part[...] = before + part
            total = before + total
        before = total


@op(
    "mapped",
    kernel=_lines_kernel,
    moves=True,
    scratch_bytes=lambda ins, outs, params: (
        8
        * ins[0].dtype.itemsize
        * (ins[0].n_elements // max(ins[0].shape[params["axis"]], 1))
        * (params["block"] + 8)
    ),
    cases=lambda rng: [
        ((rng.standard_normal(50), 0, 8, 2), {}),
        ((rng.integers(-9, 9, 32), 0, 8, 3), {}),
        ((rng.standard_normal((3, 7)).astype("f4"), 1, 8, 1), {}),
        ((rng.standard_normal((5, 2, 21)), 2, 8, 1), {}),
        ((rng.standard_normal((3, 40)), 1, 8, 4), {}),
        ((rng.standard_normal((40, 3)), 0, 8, 4), {}),
        ((rng.standard_normal((2, 17, 5)).astype("f4"), 1, 4, 1), {}),
    ],
    oracle=lambda x, axis, block, n_threads: np.cumsum(x, axis),
)
def _scan_lines(x: Spec, axis: int, block: int, n_threads: int) -> Call:
    """The running sums of lines that are not cut, nor what is behind their axis; by several threads
    they are all one task's."""
    labels = tuple(range(x.ndim))
    uncut = frozenset(labels if n_threads > 1 else labels[axis:])
    form = AxisForm(x.shape, (labels,), (labels,), uncut)
    return call(form, Spec(x.shape, x.dtype), axis=axis, block=block, n_threads=n_threads)


def _totals_need(
    box: Box, specs: Sequence[Spec], *, axis: int, word: str, block: int
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,)
    lo, hi = box[axis]
    return ((*box[:axis], (lo * block, hi * block), *box[axis + 1 :]),)


def _totals_kernel(xp: Any, x: Any, out: Any, at: At, axis: int, word: str, block: int) -> None:
    if x is None:
        return
    total = _loop_over("total", xp, word, x, out)
    if total is not None and x.size == x.shape[axis]:
        total(x, out.shape[axis], block, 1, out)
        return
    for i in range(out.shape[axis]):
        part = x[along(axis, slice(i * block, (i + 1) * block))]
        target = out[along(axis, slice(i, i + 1))]
        line = np.empty(part.shape, out.dtype) if xp is np else out.new_empty(part.shape)
        _scanned(xp, part, line, axis, word)
        target[...] = line[along(axis, slice(block - 1, block))]


def _totals_oracle(x: Any, axis: int, word: str, dtype: Any, block: int) -> Any:
    ends = np.arange(block, x.shape[axis], block)
    parts = np.split(x, ends, axis)[: len(ends)]
    made = [_scan_oracle(p, axis, word, dtype).take([-1], axis) for p in parts]
    return np.concatenate([*made, x.take([], axis).astype(dtype)], axis)


@op(
    "gather",
    kernel=_totals_kernel,
    need=_totals_need,
    grain=lambda axis, word, block: block,
    scratch_bytes=lambda ins, outs, params: 4 * ins[0].n_elements * max(outs[0].dtype.itemsize, 16),
    cases=lambda rng: [((*args, 4), kwargs) for args, kwargs in _scan_cases(rng)],
    oracle=_totals_oracle,
    same="close",
)
def _scan_totals(x: Spec, axis: int, word: str, dtype: np.dtype[Any], block: int) -> Call:
    """The `word` over each block of an axis that has another one behind it."""
    n_blocks = max(-(-x.shape[axis] // block) - 1, 0)
    shape = (*x.shape[:axis], n_blocks, *x.shape[axis + 1 :])
    return call(gather_form((x,), shape), Spec(shape, dtype), axis=axis, word=word, block=block)


def _from_need(
    box: Box, specs: Sequence[Spec], *, axis: int, word: str, block: int
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None, None)
    lo, hi = box[axis]
    source = (*box[:axis], (run_hull((lo, hi), block, hi)[0], hi), *box[axis + 1 :])
    # Block b takes the carry of the blocks before it, entry b - 1; block 0 takes none.
    carry = (max(lo // block - 1, 0), (hi - 1) // block)
    if carry[0] >= carry[1]:
        return (source, None)
    return (source, (*box[:axis], carry, *box[axis + 1 :]))


def _from_kernel(
    xp: Any, x: Any, carry: Any, out: Any, at: At, axis: int, word: str, block: int
) -> None:
    source = at.inputs[0]
    if x is None or source is None:
        return
    first_carry = at.inputs[1][axis][0] if at.inputs[1] is not None else 0
    scan = _loop_over("scan", xp, word, x, out)
    if scan is not None and x.size == x.shape[axis] == out.shape[axis]:
        _scan_blocks(scan, x.reshape(-1), carry, out.reshape(-1), source[axis][0] == 0, block)
        return
    for whole, part, where in pieces(at.outputs[0][axis], source[axis], block):
        line = target = out[along(axis, where)]
        if part.start:  # the tile begins within a block: elements before it are scanned again
            shape = list(target.shape)
            shape[axis] = whole.stop - whole.start
            line = np.empty(shape, out.dtype) if xp is np else out.new_empty(shape)
        entry = (source[axis][0] + whole.start) // block - 1
        before = None
        if entry >= 0:
            before = carry[along(axis, slice(entry - first_carry, entry - first_carry + 1))]
            before = np.ascontiguousarray(before) if xp is np else before
        _scanned(xp, x[along(axis, whole)], line, axis, word, before)
        if part.start:
            target[...] = line[along(axis, part)]


def _scan_blocks(scan: Any, x: Any, carry: Any, out: Any, is_first: bool, block: int) -> None:
    """A line of blocks, all whole ones at once; before the first of all comes a zero that changes
    nothing, not even the sign of another."""
    zero = np.full(int(is_first), -0.0 if x.dtype.kind == "f" else 0, x.dtype)
    before = zero if carry is None else np.concatenate([zero, carry.reshape(-1)])
    n_whole = len(x) // block
    end = n_whole * block
    scan(x, n_whole, block, 1, before, out)
    if end < len(x):
        scan(x[end:], 1, len(x) - end, 1, before[n_whole:], out[end:])


def _from_oracle(x: Any, carry: Any, axis: int, word: str, dtype: Any, block: int) -> Any:
    parts = np.split(x, range(block, x.shape[axis], block), axis)
    done = [_scan_oracle(part, axis, word, dtype) for part in parts]
    for i in range(1, len(done)):
        done[i] = getattr(np, word)(carry[along(axis, slice(i - 1, i))], done[i])
    return np.concatenate(done, axis)


@op(
    "gather",
    kernel=_from_kernel,
    need=_from_need,
    scratch_bytes=lambda ins, outs, params: 4 * ins[0].n_elements * max(outs[0].dtype.itemsize, 16),
    cases=lambda rng: [
        ((rng.normal(size=(10, 3)), rng.normal(size=(2, 3)), 0, "add", np.dtype("f8"), 4), {}),
        ((rng.normal(size=(3, 8)), rng.normal(size=(3, 1)), 1, "multiply", np.dtype("f8"), 4), {}),
    ],
    oracle=_from_oracle,
)
def _scan_from(
    x: Spec, carry: Spec, axis: int, word: str, dtype: np.dtype[Any], block: int
) -> Call:
    """Blocks scanned, each after what comes before it: entry i of `carry` goes to block i + 1."""
    out = Spec(x.shape, dtype)
    return call(gather_form((x, carry), x.shape), out, axis=axis, word=word, block=block)


def _scan(xp: Any, name: str, a: Any, axis: int | None, dtype: Any, word: str) -> Any:
    if axis is None:
        a, axis = a.reshape(-1), 0
    if not len(a.shape):
        normalize_axis_index(axis, 1, name)  # NumPy takes 0-d arrays here as one element
        a, axis = a.reshape(1), 0
    axis = normalize_axis_index(axis, len(a.shape), name)
    return xp._accumulate(a, axis, word, scan_dtype(np.dtype(a.dtype), dtype))


@program(
    cases=lambda rng: [
        *_scan_cases(rng),
        ((rng.normal(size=9), 0, "subtract", np.dtype("f8")), {}),
    ],
    oracle=_scan_oracle,
    wide=True,
)
def _accumulate(xp: Any, a: Array, axis: int, word: str, dtype: np.dtype[Any]) -> Any:
    """The running `word` along an axis; one whose order matters along an axis that is not cut.

    That of floating-point products does: a block may overflow by itself that follows a zero.
    """
    n = a.shape[axis]
    is_ordered = word not in REORDERABLE or (word == "multiply" and dtype.kind in "fcV")
    block = xp.block(n)
    if BLOCKS_AT_A_TIME * SHORT_BLOCK_ELEMENTS <= block < n:
        block //= BLOCKS_AT_A_TIME
    if n < 2 * block or is_ordered:
        behind = word == "add" and xp.n_hands(2 * prod(a.shape) * dtype.itemsize) > 0
        return xp._scan_axis(a, axis, word, dtype, behind)
    is_word = dtype.kind in "iuf" and dtype.itemsize >= 4
    if word == "add" and is_word and n < 2 * block * block:
        n_hands = xp.n_hands(2 * prod(a.shape) * dtype.itemsize)
        if n_hands:
            n_threads = n_hands if prod(a.shape[:axis]) < LINES_EACH * n_hands else 1
            lines = a if a.dtype == dtype else a.astype(dtype)
            return xp._scan_lines(lines, axis, block, n_threads)
    totals = xp._scan_totals(a, axis, word, dtype, block)
    carry = xp._accumulate(totals, axis, word, dtype)
    return xp._scan_from(a, carry, axis, word, dtype, block)


def _running(rng: Any) -> list[Any]:
    x = rng.standard_normal((5, 9))
    return [
        ((rng.standard_normal(50),), {}),
        ((x,), {"axis": 0}),
        ((x,), {}),
        ((rng.integers(0, 3, (5, 9)).astype("i2"),), {"axis": -1}),
        ((rng.integers(0, 3, (5, 9)).astype("u1"),), {"axis": 1}),
        ((x.astype("f4"),), {"axis": 1, "dtype": "f8"}),
        ((x > 0,), {}),
        ((np.zeros((3, 0)),), {"axis": 1}),
        ((np.float32(3),), {}),
    ]


@program(cases=_running)
def cumsum(xp: Any, a: Array, axis: int | None = None, dtype: Any = None) -> Any:
    """The running sum along an axis, or of the flattened array.

    One pass where the axis has less than two blocks, else two. The same blocks give the same bits.

    >>> import infinitensor as it
    >>> it.cumsum(it.arange(4)).numpy().tolist()
    [0, 1, 3, 6]
    """
    return _scan(xp, "cumsum", a, axis, dtype, "add")


@program(cases=_running)
def cumprod(xp: Any, a: Array, axis: int | None = None, dtype: Any = None) -> Any:
    """The running product along an axis, or of the flattened array.

    Integers: one pass where the axis has less than two blocks, else two. Others: an axis is not
    cut, as the order of products matters where they overflow.

    >>> import infinitensor as it
    >>> it.cumprod(it.arange(1, 5)).numpy().tolist()
    [1, 2, 6, 24]
    """
    return _scan(xp, "cumprod", a, axis, dtype, "multiply")


def _cumulative(
    xp: Any, name: str, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Any:
    ndim = len(x.shape)
    if axis is None:
        if ndim > 1:
            raise ValueError(
                "For arrays which have more than one dimension ``axis`` argument is required."
            )
        axis = 0
    if not ndim:  # as `cumsum` has it
        x, ndim = x.reshape(1), 1
    axis = normalize_axis_index(axis, ndim, name)
    word = "add" if name == "cumulative_sum" else "multiply"
    result = _scan(xp, name, x, axis, dtype, word)
    if not include_initial:
        return result
    before = tuple((1, 0) if i == axis else (0, 0) for i in range(ndim))
    return xp._pad(result, 0 if word == "add" else 1, before)


def _cumulative_cases(rng: Any) -> list[Any]:
    x = rng.standard_normal((5, 9))
    return [
        ((x[0],), {}),
        ((x,), {"axis": 1, "include_initial": True}),
        ((x,), {"axis": 0, "dtype": "f4"}),
    ]


@program(cases=_cumulative_cases)
def cumulative_sum(
    xp: Any, x: Array, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """`cumsum` as the Array API has it; `include_initial=True` puts a zero in front.

    >>> import infinitensor as it
    >>> it.cumulative_sum(it.arange(3), include_initial=True).numpy().tolist()
    [0, 0, 1, 3]
    """
    return _cumulative(xp, "cumulative_sum", x, axis, dtype, include_initial)


@program(cases=_cumulative_cases)
def cumulative_prod(
    xp: Any, x: Array, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """`cumprod` as the Array API has it; `include_initial=True` puts a one in front.

    >>> import infinitensor as it
    >>> it.cumulative_prod(it.arange(1, 4), include_initial=True).numpy().tolist()
    [1, 1, 2, 6]
    """
    return _cumulative(xp, "cumulative_prod", x, axis, dtype, include_initial)


@program(
    cases=lambda rng: [
        ((rng.standard_normal((4, 6)),), {}),
        ((rng.standard_normal((4, 6)), 2, 0), {}),
        ((rng.standard_normal((4, 6)) > 0,), {}),
        ((rng.integers(0, 9, 5),), {"prepend": 0, "append": np.array([7, 8])}),
        ((rng.integers(0, 9, 3), 5), {}),
    ],
    same="equal",
)
def diff(
    xp: Any, a: Array, n: int = 1, axis: int = -1, prepend: Array = None, append: Array = None
) -> Any:
    """Differences of neighbours along an axis, `n` times over.

    >>> import infinitensor as it
    >>> it.diff(it.asarray([1, 4, 9])).numpy().tolist()
    [3, 5]
    """
    times = as_int(n)
    if times < 0:
        raise ValueError(f"order must be non-negative but got {times!r}")
    if not len(a.shape):
        raise ValueError("diff requires input that is at least one dimensional")
    axis = normalize_axis_index(axis, len(a.shape), "diff")
    if not times:
        return a
    ends = [_end(xp, a, axis, prepend), a, _end(xp, a, axis, append)]
    given = [end for end in ends if end is not None]
    if len(given) > 1:
        a = xp._concatenate(given, axis)
    subtract = xp.not_equal if a.dtype == bool_ else xp.subtract
    for _ in range(times):
        a = subtract(a[along(axis, slice(1, None))], a[along(axis, slice(None, -1))])
    return a


def _end(xp: Any, a: Any, axis: int, given: Any) -> Any:
    """The array to prepend or append: a number becomes one slice of it."""
    if given is None:
        return None
    given = xp.asarray(given)
    if len(given.shape):
        return given
    return xp.broadcast_to(given, (*a.shape[:axis], 1, *a.shape[axis + 1 :]))
