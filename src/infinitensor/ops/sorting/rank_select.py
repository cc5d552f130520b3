"""Values of given ranks, and the parts that they divide a line into, without a sort.

A line of less than two blocks is looked through by one kernel. Of a longer one the wanted values
are found digit by digit: how often each digit occurs among the values that agree so far is counted
tile by tile and added up, and says what the next digit of each wanted value is.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import int64, to_torch
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.backend.torch_bridge import as_signed, dtype_of
from infinitensor.ops.forms.gather import gather_form, is_empty
from infinitensor.ops.forms.reduction import plain_combine
from infinitensor.ops.sorting.select_triton import select_in_lines
from infinitensor.ops.sorting.sort import pieces, run_hull, torch_sort
from infinitensor.ops.sorting.sort_triton import sort_short_lines
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box

MOST_RANKS = 16
"""More are read from a sorted line."""
MOST_BITS = 13
"""Of a digit: its counts stay in the first cache."""


def of_ranks(xp: Any, lines: Any, ranks: Sequence[int]) -> Any:
    """The values that have the given ranks, which rise, in each line along the last axis."""
    n, dtype = lines.shape[-1], np.dtype(lines.dtype)
    if n < 2 * xp.block(n):
        return xp._select_axis(lines, tuple(ranks))
    if ranks[-1] == n - 1 and ranks[0] < n - 1:
        most = xp.max(lines, axis=-1, keepdims=True)
        others = [rank for rank in ranks if rank < n - 1]
        found = [of_ranks(xp, lines, others), *[most] * (len(ranks) - len(others))]
        return xp._concatenate(found, -1)
    if dtype.kind == "c" or len(ranks) > MOST_RANKS:
        return xp.take(xp.sort(lines, axis=-1), np.array(ranks, np.int64), axis=-1)
    wanted = np.stack([np.zeros(len(ranks), np.int64), np.array(ranks, np.int64)], -1)
    state = xp.broadcast_to(xp.asarray(wanted), (*lines.shape[:-1], *wanted.shape))
    width = 8 * dtype.itemsize
    n_steps = -(-width // MOST_BITS)
    borders = [width * step // n_steps for step in range(n_steps, -1, -1)]
    for top, shift in pairwise(borders):
        counts = xp._rank_counts(lines, state, shift, top - shift)
        state = xp._rank_digit(counts, state, shift)
    return xp._rank_values(state, dtype)


def in_parts(xp: Any, lines: Any, ranks: Sequence[int]) -> Any:
    """Each line with the values of the ranks in their places, smaller ones before, larger behind.

    Within each of these parts values keep their order.
    """
    n = lines.shape[-1]
    values = of_ranks(xp, lines, ranks)
    block = xp.block(n)
    run = max(n, 1) if n < 2 * block else block
    parted = xp._part_runs(lines, values, run)
    return parted if run >= n else xp._join_parts(parted, values, run)


# --- short lines ------------------------------------------------------------------------------


def _select_kernel(xp: Any, x: Any, out: Any, ranks: tuple[int, ...]) -> None:
    chosen = list(ranks)
    if not prod(x.shape):
        return
    select = loop("select", "select_lines", x.dtype) if xp is np else None
    if select is not None:
        x, n = np.ascontiguousarray(x), x.shape[-1]
        made = out if out.flags.c_contiguous else np.empty_like(out)
        spare = np.empty((x.dtype.itemsize + 1) * n, x.dtype)
        select(x, x.size // n, n, np.array(ranks, np.int64), len(ranks), made, spare)
        if made is not out:
            out[...] = made
    elif xp is np:
        out[...] = np.partition(x, chosen, -1)[..., chosen]
    elif len(chosen) > MOST_RANKS:
        as_signed(out)[...] = as_signed(torch_sort(x, -1))[..., chosen]
    elif chosen and not _select_generated(as_signed(x).contiguous().view(x.dtype), out, ranks):
        in_order, made = as_signed(torch_sort(x, -1)), as_signed(out)
        for k, rank in enumerate(chosen):  # a list as an index makes the GPU wait for it
            made[..., k] = in_order[..., rank]


def _select_generated(x: Any, out: Any, ranks: tuple[int, ...]) -> bool:
    """Whether a kernel has made it, of lines side by side."""
    return sort_short_lines(x, out, -1, ranks) or select_in_lines(x, out, ranks)


def _select_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """A copy of lines and of values; keys of one line for each of their digits."""
    x = ins[0]
    return (
        2 * x.n_bytes + x.dtype.itemsize * (x.dtype.itemsize + 1) * x.shape[-1] + outs[0].n_bytes
    ) + 1024


def _select_scratch_cuda(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return 4 * ins[0].n_bytes + 48 * ins[0].n_elements + 2 * outs[0].n_bytes + 1024


def _rank_cases(rng: Any) -> list[Any]:
    x = rng.integers(0, 9, (4, 40))
    holes = np.where(x == 2, np.nan, x)
    return [
        ((x, (0, 3, 3, 39)), {}),
        ((holes, (2, 20, 39)), {}),
        ((rng.standard_normal((3, 40)).astype("f4"), (5, 6)), {}),
        ((x[0].astype("u2"), (7,)), {}),
        ((x[:, :5] + 1j * holes[:, :5], (2,)), {}),
        ((x[:, :1] > 4, (0,)), {}),
    ]


def _select_oracle(x: Any, ranks: Any) -> Any:
    return np.sort(x, axis=-1)[..., list(ranks)]


@op(
    "mapped",
    kernel=_select_kernel,
    scratch_bytes=_select_scratch,
    scratches={"cuda": _select_scratch_cuda},
    cost=8.0,
    cases=_rank_cases,
    oracle=_select_oracle,
    same="equal",
    wide=True,
)
def _select_axis(x: Spec, ranks: tuple[int, ...]) -> Call:
    """The values of some ranks, which rise, along a last axis that is not cut."""
    kept = tuple(range(x.ndim - 1))
    uncut = (x.ndim - 1, x.ndim)
    form = AxisForm(
        (*x.shape, len(ranks)), ((*kept, uncut[0]),), ((*kept, uncut[1]),), frozenset(uncut)
    )
    return call(form, Spec((*x.shape[:-1], len(ranks)), x.dtype), ranks=ranks)


# --- long lines, digit by digit ---------------------------------------------------------------


def _keys(xp: Any, x: Any) -> Any:
    """Integers in int64 whose order, as unsigned ones of x's width, is that of x; NaN is last."""
    dtype = dtype_of(x)
    width = 8 * dtype.itemsize
    least = -(1 << (width - 1))
    bits: Any
    if xp is np:
        bits = np.ascontiguousarray(x).view(f"i{dtype.itemsize}")
    else:
        bits = x.contiguous().view(to_torch(np.dtype(f"i{dtype.itemsize}")))
    if dtype.kind == "f":
        bits = xp.where(x != x, -1, bits ^ ((bits >> (width - 1)) | least))
    elif dtype.kind == "i":
        bits = bits ^ least
    wide = bits.astype(np.int64) if xp is np else bits.to(xp.int64)
    return wide & ((1 << width) - 1) if width < 64 else wide


def _values(xp: Any, keys: Any, dtype: np.dtype[Any]) -> Any:
    """The values of `_keys`: its inverse."""
    width = 8 * dtype.itemsize
    least = -(1 << (width - 1))
    word = np.dtype(f"i{dtype.itemsize}")
    bits = keys.astype(word) if xp is np else keys.to(to_torch(word))
    if dtype.kind == "f":
        bits = xp.where(bits < 0, bits ^ least, ~bits)
    elif dtype.kind == "i":
        bits = bits ^ least
    return np.ascontiguousarray(bits).view(dtype) if xp is np else bits.view(to_torch(dtype))


def _counts_kernel(
    xp: Any, x: Any, state: Any, axes: Any, shift: int, bits: int
) -> tuple[Any, ...]:
    n_ranks, n_digits = state.shape[-2], 1 << bits
    shape = (*x.shape[:-1], n_ranks, n_digits)
    count = loop("select", "count_digits", x.dtype) if xp is np else None
    if count is not None:
        x, state = np.ascontiguousarray(x), np.ascontiguousarray(state)
        counts, n = np.zeros(shape, np.int64), x.shape[-1]
        count(x, x.size // max(n, 1), n, state, n_ranks, shift, bits, counts)
        return (counts,)
    lines = _keys(xp, x).reshape(-1, 1, x.shape[-1])
    prefix, top = state[..., 0].reshape(-1, n_ranks, 1), min(shift + bits, 63)
    same = (lines >> top) == (prefix >> top)
    if shift + bits == 64:
        same = same | True
    row = xp.arange(len(lines) * n_ranks, device=None if xp is np else x.device)
    digit = (lines >> shift) & (n_digits - 1)
    slot = (row.reshape(-1, n_ranks, 1) * n_digits + digit)[same]
    return (xp.bincount(slot, minlength=prod(shape)).reshape(shape),)


def _counts_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    n_ranks = ins[1].shape[-2]
    return (40 + 24 * n_ranks) * ins[0].n_elements + 8 * outs[0].n_elements + 1024


def _some_state(rng: Any, x: Any) -> Any:
    state = np.zeros((*x.shape[:-1], 2, 2), np.int64)
    state[..., 0] = _keys(np, x)[..., :2]
    return state


def _counts_cases(rng: Any) -> list[Any]:
    arrays = [x for (x, _), _ in _rank_cases(rng)[:4]]
    return [
        ((x, _some_state(rng, x), 8 * x.dtype.itemsize - bits - low, bits), {})
        for x in arrays
        for bits, low in ((8, 0), (4, 8))
    ]


def _counts_oracle(x: Any, state: Any, shift: int, bits: int) -> Any:
    keys, top = _keys(np, x), shift + bits
    wanted = state[..., :, 0]
    counts = np.zeros((*wanted.shape, 1 << bits), np.int64)
    for at in np.ndindex(wanted.shape):
        line = [int(key) % 2**64 for key in keys[at[:-1]]]
        for key in line:
            if key >> top == int(wanted[at]) % 2**64 >> top:
                counts[(*at, key >> shift & ((1 << bits) - 1))] += 1
    return counts


@op(
    "reduction",
    kernel=_counts_kernel,
    combine=plain_combine("sum", exact=True),
    scratch_bytes=_counts_scratch,
    cost=4.0,
    cases=_counts_cases,
    oracle=_counts_oracle,
    same="equal",
)
def _rank_counts(x: Spec, state: Spec, shift: int, bits: int) -> Call:
    """How often each digit occurs among the values that agree with a wanted one above it.

    `state` has the digits found so far, and the rank that is left among such values.
    """
    kept = tuple(range(x.ndim - 1))
    along, rank, two, digit = range(x.ndim - 1, x.ndim + 3)
    shape = (*state.shape[:-1], 1 << bits)
    sizes = (*x.shape, state.shape[-2], 2, 1 << bits)
    form = AxisForm(
        sizes,
        ((*kept, along), (*kept, rank, two)),
        ((*kept, rank, digit),),
        frozenset((rank, two, digit)),
    )
    params = (("shift", shift), ("bits", bits))
    return Call(form, (Spec(shape, int64),), params, (), (int64,))


def _digit_kernel(xp: Any, counts: Any, state: Any, out: Any, shift: int) -> None:
    """The digit at which the counts so far pass the rank, and the rank that is left there."""
    upto = counts.cumsum(-1)
    left = state[..., 1:]
    digit = (upto <= left).sum(-1)
    before = upto - counts
    taken = np.take_along_axis if xp is np else xp.take_along_dim
    out[..., 0] = state[..., 0] | (digit << shift)
    out[..., 1] = left[..., 0] - taken(before, digit[..., None], -1)[..., 0]


def _digit_cases(rng: Any) -> list[Any]:
    counts = rng.integers(0, 4, (3, 2, 8))
    state = np.zeros((3, 2, 2), np.int64)
    state[..., 1] = rng.integers(0, counts.sum(-1))
    return [((counts, state, 4), {})]


def _digit_oracle(counts: Any, state: Any, shift: int) -> Any:
    out = state.copy()
    for at in np.ndindex(state.shape[:-1]):
        digits = np.repeat(np.arange(counts.shape[-1]), counts[at])
        digit = digits[state[at][1]]
        out[at] = (digit << shift, state[at][1] - (digits < digit).sum())
    return out


@op(
    "mapped",
    kernel=_digit_kernel,
    scratch_bytes=lambda ins, outs, params: 4 * ins[0].n_bytes + 8 * outs[0].n_bytes + 256,
    cases=_digit_cases,
    oracle=_digit_oracle,
    same="equal",
)
def _rank_digit(counts: Spec, state: Spec, shift: int) -> Call:
    """The state with one digit more."""
    kept = tuple(range(counts.ndim - 1))
    digit, two = counts.ndim - 1, counts.ndim
    form = AxisForm(
        (*counts.shape, 2),
        ((*kept, digit), (*kept, two)),
        ((*kept, two),),
        frozenset((digit, two)),
    )
    return call(form, Spec(state.shape, int64), shift=shift)


def _rank_values_kernel(xp: Any, state: Any, out: Any, dtype: np.dtype[Any]) -> None:
    out[...] = _values(xp, state[..., 0], dtype)


@op(
    "mapped",
    kernel=_rank_values_kernel,
    scratch_bytes=lambda ins, outs, params: 8 * ins[0].n_bytes + 256,
    cases=lambda rng: [((_some_state(rng, x), x.dtype), {}) for (x, _), _ in _rank_cases(rng)[:4]],
    oracle=lambda state, dtype: _values(np, state[..., 0], dtype),
    same="equal",
)
def _rank_values(state: Spec, dtype: np.dtype[Any]) -> Call:
    """The values whose digits are all found."""
    kept = tuple(range(state.ndim - 1))
    form = AxisForm(state.shape, ((*kept, state.ndim - 1),), (kept,), frozenset((state.ndim - 1,)))
    return call(form, Spec(state.shape[:-1], dtype), dtype=dtype)


# --- parts ------------------------------------------------------------------------------------


def _part_of(xp: Any, x: Any, values: Any) -> Any:
    """Which part each value of a line is in: before the first border, equal to it, ..."""
    both = [xp.where(a == 0, 0, a) if dtype_of(a).kind == "f" else a for a in (x, values)]
    keys, borders = (_keys(xp, a) ^ -(1 << 63) for a in both)  # signed compares, unsigned order
    part = xp.zeros_like(keys)
    for j in range(values.shape[-1]):
        border = borders[..., j : j + 1]
        part += keys > border
        part += keys >= border
    return part


def _partition_values(xp: Any, x: Any, values: Any) -> Any:
    order = _part_of(xp, x, values).argsort(stable=True)  # along the last axis, in both
    if xp is np:
        return np.take_along_axis(x, order, -1)
    return as_signed(x).take_along_dim(order, -1).view(x.dtype)


def _part_need(box: Box, specs: Sequence[Spec], *, run: int) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None, None)
    hull = run_hull(box[-1], run, specs[0].shape[-1])
    return ((*box[:-1], hull), (*box[:-1], (0, specs[1].shape[-1])))


def _part_kernel(xp: Any, x: Any, values: Any, out: Any, at: At, run: int) -> None:
    source = at.inputs[0]
    if x is None or source is None:
        return
    for whole, part, where in pieces(at.outputs[0][-1], source[-1], run):
        run_of_lines = x[..., whole]
        made = _parted_by_loop(run_of_lines, values) if xp is np else None
        made = _partition_values(xp, run_of_lines, values) if made is None else made
        out[..., where] = made[..., part]


def _parted_by_loop(x: Any, values: Any) -> Any:
    part_run = loop("select", "part_run", x.dtype)
    if part_run is None:
        return None
    made, n_ranks = np.empty(x.shape, x.dtype), values.shape[-1]
    borders, places = np.empty(n_ranks, x.dtype), np.empty(2 * n_ranks + 2, np.int64)
    for lane in np.ndindex(x.shape[:-1]):
        line, found = np.ascontiguousarray(x[lane]), np.ascontiguousarray(values[lane])
        part_run(line, len(line), found, n_ranks, made[lane], borders, places)
    return made


def _parts_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Copies of lines; parts, their order and keys where there is no loop."""
    return 4 * ins[0].n_bytes + 80 * ins[0].n_elements + 64 * ins[1].n_elements + 1024


def _parts_cases(rng: Any) -> list[Any]:
    return [
        ((x, _select_oracle(x, ranks), run), {})
        for (x, ranks), _ in _rank_cases(rng)[:4]
        for run in (4, 64)
    ]


def _part_oracle(x: Any, values: Any, run: int) -> Any:
    runs = np.split(x, range(run, x.shape[-1], run), -1)
    return np.concatenate([_partition_values(np, part, values) for part in runs], -1)


@op(
    "gather",
    kernel=_part_kernel,
    need=_part_need,
    scratch_bytes=_parts_scratch,
    cost=4.0,
    cases=_parts_cases,
    oracle=_part_oracle,
)
def _part_runs(x: Spec, values: Spec, run: int) -> Call:
    """Each run along the last axis in parts: below the first value, equal to it, above it, ..."""
    return call(gather_form((x, values), x.shape), Spec(x.shape, x.dtype), run=run)


def _join_need(box: Box, specs: Sequence[Spec], *, run: int) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None, None)
    first, second = ((*box[:-1], (0, spec.shape[-1])) for spec in specs)
    return (first, second)


def _join_kernel(xp: Any, x: Any, values: Any, out: Any, at: At, run: int) -> None:
    if x is None:
        return
    lo, hi = at.outputs[0][-1]
    join = loop("select", "join_parts", x.dtype) if xp is np else None
    if join is None:
        out[...] = _partition_values(xp, x, values)[..., lo:hi]
        return
    n, n_ranks = x.shape[-1], values.shape[-1]
    borders, starts = np.empty(n_ranks, x.dtype), np.empty(-(-n // run), np.int64)
    for lane in np.ndindex(x.shape[:-1]):
        line, found = np.ascontiguousarray(x[lane]), np.ascontiguousarray(values[lane])
        target = np.ascontiguousarray(out[lane])
        join(line, n, run, found, n_ranks, lo, hi, target, borders, starts)
        if not np.shares_memory(target, out[lane]):
            out[lane] = target


def _join_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    n_runs: int = -(-ins[0].shape[-1] // params["run"])
    return _parts_scratch(ins, outs, params) + outs[0].n_bytes + 8 * n_runs


@op(
    "gather",
    kernel=_join_kernel,
    need=_join_need,
    scratch_bytes=_join_scratch,
    cases=lambda rng: [
        ((_part_oracle(*args), *args[1:]), kwargs) for args, kwargs in _parts_cases(rng)
    ],
    oracle=lambda parted, values, run: _partition_values(np, parted, values),
)
def _join_parts(parted: Spec, values: Spec, run: int) -> Call:
    """The line in parts from its runs in parts; each tile reads the whole line."""
    form = gather_form((parted, values), parted.shape)
    return call(form, Spec(parted.shape, parted.dtype), run=run)
