"""Points and centres on a GPU: products by tensor cores, float64 where they do not decide.

`near` takes blocks of rows through all centres by products of TF32 numbers, whose error is bounded,
and marks the rows that two centres could have. Where there is much to do those go through it again,
by three products of TF32 parts each; `sure` compares what is left by direct differences in float64.
Sums are whole numbers, so atomic additions give the same bits in any order.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from infinitensor.jit import Launch, Launches, has_triton, triton_module
from infinitensor.lazy_torch import torch
from infinitensor.native import missed
from infinitensor.ops.points.pairs_triton import power

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PARTIAL = 1 << 22
"""Numbers of partial sums that programs share out among them, so that few wait for each other."""
COARSE_UNIT, FINE_UNIT = 1.96e-3, 4e-6
"""The largest error of a product of TF32 numbers, and of one of three parts, of |x||c|: an operand
cut to 10 bits loses less than 2**-10 of itself, and two of them 2**-9 + 2**-20 of their product."""
COARSE_WORK = 1 << 32
"""Products from which on rows are first compared by TF32 numbers alone."""
BLOCKS = ((64, 128, 4, 1), (128, 64, 4, 2), (64, 64, 4, 1), (32, 32, 4, 1), (16, 16, 2, 1))
"""Rows, centres, warps and stages of a program of `near`, the best first."""
MOST_AT_ONCE = 128
"""Coordinates and centres up to which centres stay with a program that takes block after block."""
FEW_BLOCKS = ((64, 128, 4, 3), (64, 128, 4, 2), (64, 128, 4, 1), (32, 128, 4, 1))
"""As `BLOCKS`, of such programs."""
PROGRAMS_PER_PROCESSOR, MANY_PROGRAMS_PER_PROCESSOR = 2, 16
"""Such programs for each processor of a GPU, and those of other kernels over lists of rows."""
MOST_TILE_ROWS = (1 << 31) - 1024
"""Rows of a tile, whose numbers take 32 bits in lists and in what runs beyond their end."""
SURE_ROWS, SUM_ROWS = 16, 16
"""Rows of a program of `sure`, and of one that adds up."""


_APPEND = """\
@triton.jit
def append(rows, count, row, wanted):
    ones = wanted.to(tl.int32)
    place = tl.cumsum(ones, 0) - ones
    n_wanted = tl.sum(ones, 0)
    if n_wanted > 0:
        start = tl.atomic_add(count, n_wanted, sem="relaxed")
        tl.store(rows + start + place, row.to(tl.int32), mask=wanted)


"""
"""Rows go to the end of a list: in any order, for each is looked at alone. Its length stays on the
GPU, so that nothing waits for it."""

_DECIDE = """\
@triton.jit
def decide(
    first, second, best, norm, row, there, most, offset, labels, bounds, left, n_left, d,
    UNIT: tl.constexpr,
):
    length = tl.sqrt(norm) * 1.0001
    reach = length + most
    unit = (d + 16) * 2.4e-7 + UNIT
    error = 2.02 * unit * length * most + 2.5e-7 * most * most
    error += 9e-16 * (length + offset) * reach + (d + 8) * 2.3e-16 * reach * reach + d * 1e-37
    open_ = (second - first > 2 * error) & (error < 1e30)
    wide = error + (d + 8) * 1.2e-7 * norm
    upper = tl.sqrt(tl.maximum(first + norm + wide, 0.0)) * 1.000001 + 1e-37
    lower = tl.sqrt(tl.maximum(second + norm - wide, 0.0)) * 0.999999 - 1e-37
    tl.store(labels + row, best, mask=there)
    tl.store(bounds + 2 * row, upper, mask=there)
    tl.store(bounds + 2 * row + 1, lower, mask=there)
    append(left, n_left, row, there & (open_ == 0))


@triton.jit
def two_least(g, CENTERS: tl.constexpr):
    least = tl.min(g, 1)
    number = tl.arange(0, CENTERS)[None, :]
    where = tl.min(tl.where(g == least[:, None], number, CENTERS), 1)
    return least, where, tl.min(tl.where(number == where[:, None], float("inf"), g), 1)


"""

_NEAR = triton_module(
    _APPEND,
    _DECIDE,
    """\
@triton.jit(do_not_specialize=["n"])
def near(
    x, shift, pivot, transposed, norms, sizes, rows, n_rows, labels, bounds, left, n_left,
    n, d, k,
    PICKED: tl.constexpr, COARSE: tl.constexpr, UNIT: tl.constexpr,
    ROWS: tl.constexpr, PART: tl.constexpr, CENTERS: tl.constexpr,
):
    most, offset = tl.load(sizes).to(tl.float32), tl.load(sizes + 1).to(tl.float32)
    if PICKED:
        n = tl.load(n_rows).to(tl.int64)
    if tl.program_id(0).to(tl.int64) * ROWS >= n:
        return  # a pipelined loop must have something to do
    for block in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        at = block * ROWS + tl.arange(0, ROWS).to(tl.int64)
        there = at < n
        row = tl.load(rows + at, mask=there, other=0).to(tl.int64) if PICKED else at
        first = tl.full((ROWS,), float("inf"), tl.float32)
        second = tl.full((ROWS,), float("inf"), tl.float32)
        best = tl.zeros((ROWS,), tl.int32)
        norm = tl.zeros((ROWS,), tl.float32)
        for start in range(0, k, CENTERS):
            column = start + tl.arange(0, CENTERS)
            total = tl.zeros((ROWS, CENTERS), tl.float32)
            for low in range(0, d, PART):
                j = low + tl.arange(0, PART)
                inside = j < d
                here = there[:, None] & inside[None, :]
                value = tl.load(x + row[:, None] * d + j[None, :], mask=here, other=0)
                value = value - tl.load(shift + j, mask=inside, other=0)[None, :]
                value = value - tl.load(pivot + j, mask=inside, other=0)[None, :]
                point = tl.where(inside[None, :], value, 0.0).to(tl.float32)
                c = tl.load(
                    transposed + j[:, None] * k + column[None, :],
                    mask=inside[:, None] & (column < k)[None, :],
                    other=0,
                )
                if COARSE:
                    total += tl.dot(point, c, input_precision="tf32")
                else:
                    total += tl.dot(point, c, input_precision="tf32x3")
                if start == 0:
                    norm += tl.sum(point * point, 1)
            g = tl.load(norms + column, mask=column < k, other=float("inf"))[None, :] - 2 * total
            least, where, next_ = two_least(g, CENTERS)
            less_now = least < first
            second = tl.minimum(tl.minimum(second, next_), tl.where(less_now, first, least))
            best = tl.where(less_now, where + start, best)
            first = tl.minimum(first, least)
        decide(
            first, second, best, norm, row, there, most, offset, labels, bounds, left, n_left, d,
            UNIT,
        )
""",
)

_NEAR_FEW = triton_module(
    _APPEND,
    _DECIDE,
    """\
@triton.jit(do_not_specialize=["n"])
def near_few(
    x, shift, pivot, transposed, norms, sizes, rows, n_rows, labels, bounds, left, n_left,
    n, d, k,
    PICKED: tl.constexpr, COARSE: tl.constexpr, UNIT: tl.constexpr,
    ROWS: tl.constexpr, PART: tl.constexpr, CENTERS: tl.constexpr,
):
    most, offset = tl.load(sizes).to(tl.float32), tl.load(sizes + 1).to(tl.float32)
    column = tl.arange(0, CENTERS)
    j = tl.arange(0, PART)
    inside = j < d
    c = tl.load(
        transposed + j[:, None] * k + column[None, :],
        mask=inside[:, None] & (column < k)[None, :],
        other=0,
    )
    own = tl.load(norms + column, mask=column < k, other=float("inf"))
    less = tl.load(shift + j, mask=inside, other=0)[None, :]
    middle = tl.load(pivot + j, mask=inside, other=0)[None, :]
    if PICKED:
        n = tl.load(n_rows).to(tl.int64)
    if tl.program_id(0).to(tl.int64) * ROWS >= n:
        return  # a pipelined loop must have something to do
    for block in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        at = block * ROWS + tl.arange(0, ROWS).to(tl.int64)
        there = at < n
        row = tl.load(rows + at, mask=there, other=0).to(tl.int64) if PICKED else at
        value = tl.load(
            x + row[:, None] * d + j[None, :], mask=there[:, None] & inside[None, :], other=0
        )
        value = value - less
        value = value - middle
        point = tl.where(inside[None, :], value, 0.0).to(tl.float32)
        if COARSE:
            total = tl.dot(point, c, input_precision="tf32")
        else:
            total = tl.dot(point, c, input_precision="tf32x3")
        norm = tl.sum(point * point, 1)
        first, best, second = two_least(own[None, :] - 2 * total, CENTERS)
        decide(
            first, second, best, norm, row, there, most, offset, labels, bounds, left, n_left, d,
            UNIT,
        )
""",
)

_STAY = triton_module(
    _APPEND,
    """\
@triton.jit
def stay(before, kept, moves, labels, bounds, active, n_active, n, ROWS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = at < n
    label = tl.load(before + at, mask=there, other=-1)
    known = there & (label >= 0)
    center = tl.maximum(label, 0)
    upper = tl.load(kept + 2 * at, mask=known, other=0)
    upper = (upper + tl.load(moves + 3 * center, mask=known, other=0)) * 1.000001
    lower = tl.load(kept + 2 * at + 1, mask=known, other=0)
    lower = lower - tl.load(moves + 3 * center + 1, mask=known, other=0)
    lower = tl.where(lower > 0, lower * 0.999999, -1e-37)
    room = tl.maximum(lower, tl.load(moves + 3 * center + 2, mask=known, other=0))
    stays = known & (upper < room)
    tl.store(labels + at, label, mask=stays)
    tl.store(bounds + 2 * at, upper, mask=stays)
    tl.store(bounds + 2 * at + 1, lower, mask=stays)
    append(active, n_active, at, there & (stays == 0))
""",
)

_INERTIA = triton_module("""\
@triton.jit(do_not_specialize=["n"])
def inertia(
    x, shift, centers, scale, labels, weights, partial, n, d, k,
    COPIES: tl.constexpr, WEIGHED: tl.constexpr, ROWS: tl.constexpr, PART: tl.constexpr,
):
    pid = tl.program_id(0).to(tl.int64)
    at = pid * ROWS + tl.arange(0, ROWS)
    there = at < n
    label = tl.load(labels + at, mask=there, other=0).to(tl.int64)
    far = tl.zeros((ROWS,), tl.float64)
    for low in range(0, d, PART):
        j = low + tl.arange(0, PART)
        inside = j < d
        here = there[:, None] & inside[None, :]
        value = tl.load(x + at[:, None] * d + j[None, :], mask=here, other=0)
        value = value - tl.load(shift + j, mask=inside, other=0)[None, :]
        c = tl.load(centers + label[:, None] * d + j[None, :], mask=here, other=0)
        apart = tl.where(here, value.to(tl.float64) - c.to(tl.float64), 0.0)
        far += tl.sum(apart * apart, 1)
    if WEIGHED:
        far = far * tl.load(weights + at, mask=there, other=0).to(tl.float64)
    far = far * tl.load(scale)
    whole = far.to(tl.int64)
    left = far - whole.to(tl.float64)
    whole += (left >= 0.5).to(tl.int64) - (left <= -0.5).to(tl.int64)
    fine = (far - whole.to(tl.float64)) * 1099511627776.0
    rest = fine.to(tl.int64)
    left = fine - rest.to(tl.float64)
    rest += (left >= 0.5).to(tl.int64) - (left <= -0.5).to(tl.int64)
    to = partial + ((pid % COPIES) * k + label) * 2
    tl.atomic_add(to, whole, mask=there, sem="relaxed")
    tl.atomic_add(to + 1, rest, mask=there, sem="relaxed")
""")

_SURE = triton_module("""\
@triton.jit
def sure(
    x, shift, transposed, rows, n_rows, labels, bounds, d, k,
    ROWS: tl.constexpr, CENTERS: tl.constexpr,
):
    n = tl.load(n_rows)
    if tl.program_id(0) * ROWS >= n:
        return
    for block in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        at = block * ROWS + tl.arange(0, ROWS)
        there = at < n
        row = tl.load(rows + at, mask=there, other=0).to(tl.int64)
        first = tl.full((ROWS,), float("inf"), tl.float64)
        second = tl.full((ROWS,), float("inf"), tl.float64)
        best = tl.zeros((ROWS,), tl.int32)
        for start in range(0, k, CENTERS):
            column = start + tl.arange(0, CENTERS)
            far = tl.zeros((ROWS, CENTERS), tl.float64)
            for j in range(0, d):
                value = tl.load(x + row * d + j, mask=there, other=0) - tl.load(shift + j)
                c = tl.load(transposed + j * k + column, mask=column < k, other=float("inf"))
                apart = value.to(tl.float64)[:, None] - c[None, :]
                far += apart * apart
            least = tl.min(far, 1)
            where = tl.argmin(far, 1).to(tl.int32)
            others = tl.where(tl.arange(0, CENTERS)[None, :] == where[:, None], float("inf"), far)
            next_ = tl.min(others, 1)
            less_now = least < first
            second = tl.minimum(tl.minimum(second, next_), tl.where(less_now, first, least))
            best = tl.where(less_now, where + start, best)
            first = tl.minimum(first, least)
        upper, lower = tl.sqrt(first) * 1.000001, tl.sqrt(second) * 0.999999
        tl.store(labels + row, best, mask=there)
        tl.store(bounds + 2 * row, upper.to(tl.float32) + 1e-37, mask=there)
        tl.store(bounds + 2 * row + 1, lower.to(tl.float32), mask=there)
""")

_CHANGED = triton_module(
    _APPEND,
    """\
@triton.jit
def changed(now, before, rows, n_rows, n, ROWS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = at < n
    new = tl.load(now + at, mask=there, other=0)
    append(rows, n_rows, at, there & (new != tl.load(before + at, mask=there, other=0)))
""",
)

_SUMS = triton_module("""\
@triton.jit
def sums(
    x, shift, scale, now, before, weights, rows, n_rows, partial, d, k,
    COPIES: tl.constexpr, WEIGHED: tl.constexpr, ROWS: tl.constexpr, PART: tl.constexpr,
):
    pid = tl.program_id(0)
    n = tl.load(n_rows)
    width = d + 2
    mine = partial + (pid % COPIES).to(tl.int64) * (k + 1) * width
    for block in range(pid, tl.cdiv(n, ROWS), tl.num_programs(0)):
        place = block * ROWS + tl.arange(0, ROWS)
        moved = place < n
        at = tl.load(rows + place, mask=moved, other=0).to(tl.int64)
        new = tl.load(now + at, mask=moved, other=0).to(tl.int64)
        old = tl.load(before + at, mask=moved, other=0).to(tl.int64)
        had = moved & (old >= 0)
        if WEIGHED:
            weight = tl.load(weights + at, mask=moved, other=0).to(tl.float64)
        else:
            weight = tl.full((ROWS,), 1.0, tl.float64)
        to, out = mine + new * width, mine + tl.maximum(old, 0) * width
        for low in range(0, d, PART):
            j = low + tl.arange(0, PART)
            inside = j < d
            here = moved[:, None] & inside[None, :]
            value = tl.load(x + at[:, None] * d + j[None, :], mask=here, other=0)
            value = value - tl.load(shift + j, mask=inside, other=0)[None, :]
            unit = tl.load(scale + j, mask=inside, other=0)
            scaled = value.to(tl.float64) * weight[:, None] * unit[None, :]
            q = scaled.to(tl.int64)
            left = scaled - q.to(tl.float64)
            q += (left >= 0.5).to(tl.int64) - (left <= -0.5).to(tl.int64)
            tl.atomic_add(to[:, None] + j[None, :], q, mask=here, sem="relaxed")
            gone = had[:, None] & inside[None, :]
            tl.atomic_add(out[:, None] + j[None, :], -q, mask=gone, sem="relaxed")
        weighs = weight * tl.load(scale + d)
        heavy = weighs.to(tl.int64)
        over = weighs - heavy.to(tl.float64)
        heavy += (over >= 0.5).to(tl.int64) - (over <= -0.5).to(tl.int64)
        counted = tl.where(weight != 0, 1, 0).to(tl.int64)
        tl.atomic_add(to + d, heavy, mask=moved, sem="relaxed")
        tl.atomic_add(to + d + 1, counted, mask=moved, sem="relaxed")
        tl.atomic_add(out + d, -heavy, mask=had, sem="relaxed")
        tl.atomic_add(out + d + 1, -counted, mask=had, sem="relaxed")
    if pid == 0:
        tl.store(partial + k * width, n.to(tl.int64))
""")

_CLOSER = triton_module("""\
@triton.jit
def closer(
    x, shift, points, closest, out, n, d, m,
    KNOWN: tl.constexpr, ROWS: tl.constexpr, PART: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = at < n
    for p in range(0, m):
        far = tl.zeros((ROWS,), tl.float64)
        for low in range(0, d, PART):
            j = low + tl.arange(0, PART)
            inside = j < d
            here = there[:, None] & inside[None, :]
            value = tl.load(x + at[:, None] * d + j[None, :], mask=here, other=0)
            value = value - tl.load(shift + j, mask=inside, other=0)[None, :]
            c = tl.load(points + p * d + j, mask=inside, other=0)[None, :]
            apart = value.to(tl.float64) - c.to(tl.float64)
            far += tl.sum(tl.where(inside[None, :], apart * apart, 0.0), 1)
        made = far.to(out.dtype.element_ty)
        if KNOWN:
            old = tl.load(closest + at, mask=there, other=0)
            made = tl.minimum(made, old)
        tl.store(out + p * n + at, made, mask=there)
""")


def _make_near(few: bool, picked: bool, coarse: bool, block: tuple[int, int, int, int]) -> Launches:
    n_rows, n_centers, n_warps, n_stages = block

    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        d, k = shape
        return Launch(
            _NEAR_FEW if few else _NEAR,
            1,
            shape,
            n_warps,
            n_stages,
            PICKED=int(picked),
            COARSE=int(coarse),
            UNIT=COARSE_UNIT if coarse else FINE_UNIT,
            ROWS=n_rows,
            PART=power(d, 16, MOST_AT_ONCE if few else 64),
            CENTERS=power(k, 16, n_centers),
        )

    return Launches(make)


def _make_sure(shape: tuple[int, ...], tiles: Any) -> Launch:
    return Launch(_SURE, 1, shape, n_warps=4, ROWS=SURE_ROWS, CENTERS=power(shape[1], 16, 128))


def copies(width: int) -> int:
    """Partial sums of so many numbers that there are."""
    return min(max(PARTIAL // width, 1), 256)


def _make_sums(source: str, weighed: bool) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        n_copies = tiles[-1].shape[0]
        part = power(shape[0], 16, 64)
        how = {"COPIES": n_copies, "WEIGHED": int(weighed), "ROWS": SUM_ROWS, "PART": part}
        return Launch(source, 1, shape, n_warps=4, **how)

    return Launches(make)


def _make_listing(source: str) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        return Launch(source, -(-shape[0] // 1024), shape, n_warps=4, ROWS=1024)

    return Launches(make)


def _make_closer(known: bool) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        n, d, _ = shape
        sizes = {"ROWS": 64, "PART": power(d, 16, 64)}
        return Launch(_CLOSER, -(-n // 64), shape, n_warps=4, KNOWN=int(known), **sizes)

    return Launches(make)


_near: dict[Any, Launches] = {}
_too_large: set[Any] = set()
_sure = Launches(_make_sure)
_stay, _changed = _make_listing(_STAY), _make_listing(_CHANGED)
_sums = {weighed: _make_sums(_SUMS, weighed) for weighed in (False, True)}
_inertia = {weighed: _make_sums(_INERTIA, weighed) for weighed in (False, True)}
_closer = {known: _make_closer(known) for known in (False, True)}


def may_launch(*tiles: Any) -> bool:
    """Whether these torch tiles can go to the kernels here; it is counted where they cannot."""
    if not all(tile.numel() for tile in tiles):
        return False
    able = has_triton() and all(len(tile) < MOST_TILE_ROWS for tile in tiles)
    missed[0] += not able
    return able


def launch(run: Callable[..., Any], ins: Sequence[Any], outs: Sequence[Any] = ()) -> Any:
    """`run(*ins, *outs)` with tiles that are contiguous; copies of those that are not."""
    made = [out if out.is_contiguous() else out.contiguous() for out in outs]
    found = run(*[tile.contiguous() for tile in ins], *made)
    for out, tile in zip(outs, made, strict=True):
        if out is not tile:
            out.copy_(tile)
    return found


class Lists:
    """Lists of rows that kernels make, with their lengths: memory for two, used in turns."""

    def __init__(self, torch: Any, n: int, device: Any, n_lengths: int = 3) -> None:
        self.rows = torch.empty((2, n), dtype=torch.int32, device=device)
        self.lengths = torch.zeros((n_lengths, 4), dtype=torch.int32, device=device)
        self.n_made = 0

    def new(self) -> tuple[Any, Any]:
        """An empty list: its rows and its length. It takes the place of the one before the last."""
        self.n_made += 1
        return self.rows[self.n_made % 2], self.lengths[self.n_made - 1]


def nearest(
    torch: Any,
    x: Any,
    shift: Any,
    centers: Any,
    out: Any,
    bounds: Any,
    lists: Lists | None = None,
    asked: tuple[Any, Any] | None = None,
) -> None:
    """Labels and bounds of the rows of a list (None: of all) into `out` and `bounds`."""
    (n, d), k = x.shape, centers.shape[0]
    lists = Lists(torch, n, x.device) if lists is None else lists
    wide = centers.double()
    pivot = wide.mean(0).to(x.dtype)  # a difference to it is rounded once, as a cast is
    about = wide - pivot.double()
    norms = (about * about).sum(1)
    sizes = torch.stack([norms.max().sqrt(), pivot.double().norm()])
    transposed = about.float().t().contiguous()
    given = (x, shift, pivot, transposed, norms.float(), sizes)
    for coarse in (True, False) if n * d * k > COARSE_WORK else (False,):
        left = lists.new()
        _launch_near(coarse, given, asked, (out, bounds), left)
        asked = left
    tiles = (x, shift, wide.t().contiguous(), *left, out, bounds)
    _sure.get((d, k), tiles)(tiles, (), _n_programs(x, SURE_ROWS, MANY_PROGRAMS_PER_PROCESSOR))


def _launch_near(coarse: bool, given: Any, asked: Any, made: Any, left: Any) -> None:
    """With the first blocks that the GPU has room for; those it has not are not tried again."""
    from triton.runtime.errors import OutOfResources

    x, transposed = given[0], given[3]
    d, k = transposed.shape
    tiles = (*given, *(left if asked is None else asked), *made, *left)
    few = max(d, k) <= MOST_AT_ONCE
    for block in FEW_BLOCKS if few else BLOCKS:
        key = (few, asked is not None, coarse, block)
        tried = (key, x.dtype, power(d, 16, 64), power(k, 16, block[1]))
        if tried in _too_large:
            continue
        if key not in _near:
            _near[key] = _make_near(*key)
        n_programs = _n_programs(
            x, block[0], PROGRAMS_PER_PROCESSOR if few else MANY_PROGRAMS_PER_PROCESSOR
        )
        try:
            _near[key].get((d, k), tiles)(tiles, (len(x),), n_programs)
        except OutOfResources:
            _too_large.add(tried)
        else:
            return
    raise RuntimeError(f"no block of {FEW_BLOCKS if few else BLOCKS} fits this GPU")


def _n_programs(x: Any, n_rows: int, each: int) -> int:
    """Programs that take block after block of rows: so many for each processor of the GPU."""
    return min(-(-len(x) // n_rows), each * _n_processors(x.get_device()))


@cache
def _n_processors(gpu: int) -> int:
    """Of a GPU; of none, where kernels are interpreted, one."""
    return int(torch.cuda.get_device_properties(gpu).multi_processor_count) if gpu >= 0 else 1


def nearest_moved(
    torch: Any,
    x: Any,
    shift: Any,
    centers: Any,
    before: Any,
    kept: Any,
    moves: Any,
    out: Any,
    bounds: Any,
) -> None:
    """As `nearest`, for the rows that bounds (before, kept, moves) do not keep where they are."""
    n = x.shape[0]
    lists = Lists(torch, n, x.device)
    active = lists.new()
    tiles = (before, kept, moves, out, bounds, *active)
    _stay.get((n,), tiles)(tiles)
    nearest(torch, x, shift, centers, out, bounds, lists, active)


def label_inertia(
    torch: Any, x: Any, shift: Any, centers: Any, scale: Any, labels: Any, weights: Any = None
) -> Any:
    """Weighted squared distances by label, in two whole numbers; see `ops/points/centres.py`."""
    (n, d), k = x.shape, centers.shape[0]
    partial = torch.zeros((copies(2 * k), k, 2), dtype=torch.int64, device=x.device)
    given = (scale, labels, x if weights is None else weights, partial)
    tiles = (x, shift, centers, *given)
    _inertia[weights is not None].get((d, k), tiles)(tiles, (n,), -(-n // SUM_ROWS))
    return partial.sum(0)


def label_sums(
    torch: Any, k: int, x: Any, shift: Any, scale: Any, now: Any, before: Any, weights: Any = None
) -> Any:
    """The changes of the labels' sums; see `ops/points/centres.py`."""
    d = x.shape[1]
    shape = (copies((k + 1) * (d + 2)), k + 1, d + 2)
    partial = torch.zeros(shape, dtype=torch.int64, device=x.device)
    moved = Lists(torch, len(x), x.device).new()
    compared = (now, before, *moved)
    _changed.get((len(x),), compared)(compared)
    tiles = (x, shift, scale, now, before, x if weights is None else weights, *moved, partial)
    launch = _sums[weights is not None].get((d, k), tiles)
    launch(tiles, (), _n_programs(x, SUM_ROWS, MANY_PROGRAMS_PER_PROCESSOR))
    return partial.sum(0)


def closer(x: Any, shift: Any, points: Any, *known: Any) -> None:
    """Squared distances to points, no more than the `closest` so far if given, into `out`."""
    *closest, out = known
    tiles = (x, shift, points, closest[0] if closest else x, out)
    _closer[bool(closest)].get((*x.shape, points.shape[0]), tiles)(tiles)
