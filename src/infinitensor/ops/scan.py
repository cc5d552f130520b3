"""Running sums and products, those of any other word, and differences.

An axis within a block is scanned by one kernel. A longer one takes two passes: blocks are scanned
for themselves, then each gets what the blocks before it add up to. Bits depend on the block only.
"""

from __future__ import annotations

from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import as_dtype, bool_, int64, uint64
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.bridge import as_signed
from infinitensor.ops.fold import REORDERABLE
from infinitensor.ops.gather import along, gather_form, is_empty
from infinitensor.ops.order import pieces, run_hull
from infinitensor.ops.registry import op, program
from infinitensor.ops.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box


def scan_dtype(given: Any, wanted: Any) -> np.dtype[Any]:
    """NumPy's rule: small integers add up in the machine's word, unless a dtype is asked for."""
    if wanted is not None:
        return as_dtype(wanted)
    if given.kind in "bi" and given.itemsize < 8:
        return int64
    return uint64 if given.kind == "u" else np.dtype(given)


def _scanned(xp: Any, x: Any, out: Any, axis: int, word: str) -> None:
    """One line's running `word` into `out`, in the dtype of `out`."""
    if xp is np:
        getattr(np, word).accumulate(x, axis=axis, dtype=out.dtype, out=out)
        return
    if word not in ("add", "multiply"):
        _scanned_torch(x, out, axis, word)
        return
    out = as_signed(out)  # two's complement: the same bits as unsigned arithmetic
    scan = xp.cumsum if word == "add" else xp.cumprod
    wide = as_signed(x).to(out.dtype) if x.dtype != out.dtype else x
    out[...] = scan(wide, dim=axis)


def _scanned_torch(x: Any, out: Any, axis: int, word: str) -> None:
    """Over distances 1, 2, 4 ... where the order is free, else element by element."""
    apply = WORDS["cuda"][word]
    n, step = x.shape[axis], 1
    out[...] = x
    while step < n and word in REORDERABLE:
        tail = out[along(axis, slice(step, n))]
        tail.copy_(apply(out[along(axis, slice(0, n - step))], tail))
        step *= 2
    while step < n:
        out[along(axis, step)] = apply(out[along(axis, step - 1)], x[along(axis, step)])
        step += 1


def _scan_kernel(xp: Any, x: Any, out: Any, axis: int, word: str) -> None:
    _scanned(xp, x, out, axis, word)


def _scan_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return 2 * outs[0].n_elements * outs[0].dtype.itemsize + 2 * ins[0].n_elements * 16


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


@op(
    "_scan_axis",
    "mapped",
    "x",
    kernel=_scan_kernel,
    scratch_bytes=_scan_scratch,
    cases=_scan_cases,
    oracle=_scan_oracle,
)
def _scan_axis(x: Spec, axis: int, word: str, dtype: np.dtype[Any]) -> Call:
    """The running `word` along an axis that is not cut."""
    labels = tuple(range(x.ndim))
    form = AxisForm(x.shape, (labels,), (labels,), frozenset((axis,)))
    return call(form, Spec(x.shape, dtype), axis=axis, word=word)


def _blocks_need(
    box: Box, specs: Sequence[Spec], *, axis: int, word: str, block: int
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,)
    lo, hi = box[axis]
    return ((*box[:axis], (run_hull((lo, hi), block, hi)[0], hi), *box[axis + 1 :]),)


def _blocks_kernel(xp: Any, x: Any, out: Any, at: At, axis: int, word: str, block: int) -> None:
    source = at.inputs[0]
    if x is None or source is None:
        return
    for whole, part, where in pieces(at.outputs[0][axis], source[axis], block):
        target = out[along(axis, where)]
        if part.start == 0:
            _scanned(xp, x[along(axis, whole)], target, axis, word)
        else:
            shape = list(target.shape)
            shape[axis] = whole.stop - whole.start
            line = np.empty(shape, out.dtype) if xp is np else out.new_empty(shape)
            _scanned(xp, x[along(axis, whole)], line, axis, word)
            target[...] = line[along(axis, part)]


def _scan_blocks_oracle(x: Any, axis: int, word: str, dtype: Any, block: int) -> Any:
    parts = np.split(x, range(block, x.shape[axis], block), axis)
    return np.concatenate([_scan_oracle(p, axis, word, dtype) for p in parts], axis)


@op(
    "_scan_blocks",
    "gather",
    "x",
    kernel=_blocks_kernel,
    need=_blocks_need,
    scratch_bytes=lambda ins, outs, params: 4 * ins[0].n_elements * max(outs[0].dtype.itemsize, 16),
    cases=lambda rng: [((*args, 4), kwargs) for args, kwargs in _scan_cases(rng)],
    oracle=_scan_blocks_oracle,
)
def _scan_blocks(x: Spec, axis: int, word: str, dtype: np.dtype[Any], block: int) -> Call:
    """Each block of an axis scanned for itself."""
    out = Spec(x.shape, dtype)
    return call(gather_form((x,), x.shape), out, axis=axis, word=word, block=block)


def _carry_need(
    box: Box, specs: Sequence[Spec], *, axis: int, word: str, block: int
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None, None)
    lo, hi = box[axis]
    # Block b takes the carry of the blocks before it, entry b - 1; block 0 takes none.
    carry = (max(lo // block - 1, 0), (hi - 1) // block)
    if carry[0] >= carry[1]:
        return (box, None)
    return (box, (*box[:axis], carry, *box[axis + 1 :]))


def _carry_kernel(
    xp: Any, x: Any, carry: Any, out: Any, at: At, axis: int, word: str, block: int
) -> None:
    if x is None:
        return
    lo, hi = at.outputs[0][axis]
    first_carry = at.inputs[1][axis][0] if at.inputs[1] is not None else 0
    for start in range(lo // block * block, hi, block):
        where = along(axis, slice(max(start, lo) - lo, min(start + block, hi) - lo))
        if start == 0:
            out[where] = x[where]
            continue
        entry = start // block - 1 - first_carry
        _joined(xp, word, x[where], carry[along(axis, slice(entry, entry + 1))], out[where])


def _joined(xp: Any, word: str, x: Any, carry: Any, out: Any) -> None:
    if xp is np:  # the carry lies before: words such as `fmax` know which zero comes first
        getattr(np, word)(carry, x, out=out)
    else:
        out[...] = WORDS["cuda"][word](carry, x)


def _carry_oracle(x: Any, carry: Any, axis: int, word: str, block: int) -> Any:
    n = x.shape[axis]
    parts = np.split(x, range(block, n, block), axis)
    done = [parts[0]]
    for i, part in enumerate(parts[1:]):
        done.append(getattr(np, word)(carry[along(axis, slice(i, i + 1))], part))
    return np.concatenate(done, axis)


@op(
    "_scan_add",
    "gather",
    "x carry",
    kernel=_carry_kernel,
    need=_carry_need,
    scratch_bytes=lambda ins, outs, params: outs[0].n_bytes,
    cases=lambda rng: [
        ((rng.standard_normal((10, 3)), rng.standard_normal((2, 3)), 0, "add", 4), {}),
        ((rng.standard_normal((3, 8)), rng.standard_normal((3, 1)), 1, "multiply", 4), {}),
    ],
    oracle=_carry_oracle,
    same="equal",
)
def _scan_add(x: Spec, carry: Spec, axis: int, word: str, block: int) -> Call:
    """Scanned blocks joined with what comes before them: entry i of `carry` goes to block i + 1."""
    out = Spec(x.shape, x.dtype)
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
    "_accumulate",
    "a",
    cases=lambda rng: [
        *_scan_cases(rng),
        ((rng.normal(size=9), 0, "subtract", np.dtype("f8")), {}),
    ],
    oracle=_scan_oracle,
    wide=True,
)
def _accumulate(xp: Any, a: Any, axis: int, word: str, dtype: np.dtype[Any]) -> Any:
    """The running `word` along an axis; one whose order matters along an axis that is not cut."""
    n = a.shape[axis]
    block = xp.block(n)
    if n <= block or word not in REORDERABLE:
        return xp._scan_axis(a, axis, word, dtype)
    blocks = xp._scan_blocks(a, axis, word, dtype, block)
    totals = blocks[along(axis, slice(block - 1, n - 1, block))]
    carry = xp._accumulate(totals, axis, word, dtype)
    return xp._scan_add(blocks, carry, axis, word, block)


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


@program("cumsum", "a", cases=_running)
def cumsum(xp: Any, a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """The running sum along an axis, or of the flattened array.

    One pass where the axis is within a block, else two. The same blocks give the same bits.

    >>> import infinitensor as it
    >>> it.cumsum(it.arange(4)).numpy().tolist()
    [0, 1, 3, 6]
    """
    return _scan(xp, "cumsum", a, axis, dtype, "add")


@program("cumprod", "a", cases=_running)
def cumprod(xp: Any, a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """The running product along an axis, or of the flattened array.

    One pass where the axis is within a block, else two. The same blocks give the same bits.

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
    if not ndim:
        raise ValueError(f"{name}: a 0-d array has no axis to run along")
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


@program("cumulative_sum", "x", cases=_cumulative_cases)
def cumulative_sum(
    xp: Any, x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """`cumsum` as the Array API has it; `include_initial=True` puts a zero in front.

    >>> import infinitensor as it
    >>> it.cumulative_sum(it.arange(3), include_initial=True).numpy().tolist()
    [0, 0, 1, 3]
    """
    return _cumulative(xp, "cumulative_sum", x, axis, dtype, include_initial)


@program("cumulative_prod", "x", cases=_cumulative_cases)
def cumulative_prod(
    xp: Any, x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """`cumprod` as the Array API has it; `include_initial=True` puts a one in front.

    >>> import infinitensor as it
    >>> it.cumulative_prod(it.arange(1, 4), include_initial=True).numpy().tolist()
    [1, 1, 2, 6]
    """
    return _cumulative(xp, "cumulative_prod", x, axis, dtype, include_initial)


@program(
    "diff",
    "a prepend append",
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
    xp: Any, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
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
    """What to put before or behind: a number becomes one slice of it."""
    if given is None:
        return None
    given = xp.asarray(given)
    if len(given.shape):
        return given
    return xp.broadcast_to(given, (*a.shape[:axis], 1, *a.shape[axis + 1 :]))
