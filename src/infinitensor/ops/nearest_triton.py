"""Points and centres on a GPU: products by tensor cores, float64 where they do not decide.

`near` takes blocks of rows through all centres by products of TF32 numbers, whose error is bounded,
and marks the rows that two centres could have. Where there is much to do those go through it again,
by three products of TF32 parts each; `sure` compares what is left by direct differences in float64.
Sums are whole numbers, so atomic additions give the same bits in any order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from infinitensor.jit import Launch, Launches, has_triton

PARTIAL = 1 << 22
"""Numbers of partial sums that programs share out among them, so that few wait for each other."""
COARSE_UNIT, FINE_UNIT = 1.96e-3, 4e-6
"""What a product of TF32 numbers, and one of three parts, is off at most, of |x||c|: an operand cut
to 10 bits loses less than 2**-10 of itself, and two of them 2**-9 + 2**-20 of their product."""
COARSE_WORK = 1 << 32
"""Products from which on rows are first compared by TF32 numbers alone."""
BLOCKS = ((64, 128, 4, 1), (128, 64, 4, 2), (64, 64, 4, 1), (32, 32, 4, 1), (16, 16, 2, 1))
"""Rows, centres, warps and stages of a program of `near`, the best first."""
MOST_AT_ONCE = 128
"""Coordinates and centres up to which centres stay with a program that takes block after block."""
FEW_BLOCKS = ((64, 128, 4, 3), (64, 128, 4, 2), (64, 128, 4, 1), (32, 128, 4, 1))
"""As `BLOCKS`, of such programs."""
PROGRAMS = 2
"""Such programs for each processor of a GPU."""
SURE_ROWS, SUM_ROWS = 16, 16
"""Rows of a program of `sure`, and of one that adds up."""
MOSTLY = 0.7
"""The part of all rows from which on all are compared, without a list of them."""

_HEADER = "import triton\nimport triton.language as tl\n\n\n"

_DECIDE = """\
@triton.jit
def decide(
    first, second, best, norm, row, there, most, offset, labels, bounds, unsure, d,
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
    tl.store(unsure + row, tl.where(open_, 0, 1).to(tl.int8), mask=there)


@triton.jit
def two_least(g, CENTERS: tl.constexpr):
    least = tl.min(g, 1)
    number = tl.arange(0, CENTERS)[None, :]
    where = tl.min(tl.where(g == least[:, None], number, CENTERS), 1)
    return least, where, tl.min(tl.where(number == where[:, None], float("inf"), g), 1)


"""

_NEAR = (
    _HEADER
    + _DECIDE
    + """\
@triton.jit(do_not_specialize=["n"])
def near(
    x, shift, pivot, turned, norms, sizes, rows, labels, bounds, unsure, n: "i64", d, k,
    PICKED: tl.constexpr, COARSE: tl.constexpr, UNIT: tl.constexpr,
    ROWS: tl.constexpr, PART: tl.constexpr, CENTERS: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = at < n
    row = tl.load(rows + at, mask=there, other=0) if PICKED else at
    most, offset = tl.load(sizes).to(tl.float32), tl.load(sizes + 1).to(tl.float32)
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
            value = tl.load(
                x + row[:, None] * d + j[None, :], mask=there[:, None] & inside[None, :], other=0
            )
            value = value - tl.load(shift + j, mask=inside, other=0)[None, :]
            value = value - tl.load(pivot + j, mask=inside, other=0)[None, :]
            point = tl.where(inside[None, :], value, 0.0).to(tl.float32)
            c = tl.load(
                turned + j[:, None] * k + column[None, :],
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
        first, second, best, norm, row, there, most, offset, labels, bounds, unsure, d, UNIT
    )


run = near
"""
)

_NEAR_FEW = (
    _HEADER
    + _DECIDE
    + """\
@triton.jit(do_not_specialize=["n"])
def near_few(
    x, shift, pivot, turned, norms, sizes, rows, labels, bounds, unsure, n: "i64", d, k,
    PICKED: tl.constexpr, COARSE: tl.constexpr, UNIT: tl.constexpr,
    ROWS: tl.constexpr, PART: tl.constexpr, CENTERS: tl.constexpr,
):
    most, offset = tl.load(sizes).to(tl.float32), tl.load(sizes + 1).to(tl.float32)
    column = tl.arange(0, CENTERS)
    j = tl.arange(0, PART)
    inside = j < d
    c = tl.load(
        turned + j[:, None] * k + column[None, :],
        mask=inside[:, None] & (column < k)[None, :],
        other=0,
    )
    own = tl.load(norms + column, mask=column < k, other=float("inf"))
    less = tl.load(shift + j, mask=inside, other=0)[None, :]
    middle = tl.load(pivot + j, mask=inside, other=0)[None, :]
    for block in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        at = block * ROWS + tl.arange(0, ROWS).to(tl.int64)
        there = at < n
        row = tl.load(rows + at, mask=there, other=0) if PICKED else at
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
            first, second, best, norm, row, there, most, offset, labels, bounds, unsure, d, UNIT
        )


run = near_few
"""
)

_STAY = (
    _HEADER
    + """\
@triton.jit
def stay(before, kept, moves, labels, bounds, active, n, ROWS: tl.constexpr):
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
    tl.store(active + at, tl.where(stays, 0, 1).to(tl.int8), mask=there)


run = stay
"""
)

_INERTIA = (
    _HEADER
    + """\
@triton.jit(do_not_specialize=["n"])
def inertia(
    x, shift, centers, scale, labels, weights, partial, n: "i64", d, k,
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


run = inertia
"""
)

_SURE = (
    _HEADER
    + """\
@triton.jit(do_not_specialize=["n"])
def sure(
    x, shift, turned, rows, labels, bounds, n: "i64", d, k,
    ROWS: tl.constexpr, CENTERS: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = at < n
    row = tl.load(rows + at, mask=there, other=0)
    first = tl.full((ROWS,), float("inf"), tl.float64)
    second = tl.full((ROWS,), float("inf"), tl.float64)
    best = tl.zeros((ROWS,), tl.int32)
    for start in range(0, k, CENTERS):
        column = start + tl.arange(0, CENTERS)
        far = tl.zeros((ROWS, CENTERS), tl.float64)
        for j in range(0, d):
            value = tl.load(x + row * d + j, mask=there, other=0) - tl.load(shift + j)
            c = tl.load(turned + j * k + column, mask=column < k, other=float("inf"))
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
    tl.store(labels + row, best, mask=there)
    tl.store(bounds + 2 * row, (tl.sqrt(first) * 1.000001).to(tl.float32) + 1e-37, mask=there)
    tl.store(bounds + 2 * row + 1, (tl.sqrt(second) * 0.999999).to(tl.float32), mask=there)


run = sure
"""
)

_SUMS = (
    _HEADER
    + """\
@triton.jit(do_not_specialize=["n"])
def sums(
    x, shift, scale, now, before, weights, rows, partial, n: "i64", d, k,
    COPIES: tl.constexpr, WEIGHED: tl.constexpr, ROWS: tl.constexpr, PART: tl.constexpr,
):
    pid = tl.program_id(0).to(tl.int64)
    place = pid * ROWS + tl.arange(0, ROWS)
    moved = place < n
    at = tl.load(rows + place, mask=moved, other=0)
    new = tl.load(now + at, mask=moved, other=0).to(tl.int64)
    old = tl.load(before + at, mask=moved, other=0).to(tl.int64)
    width = d + 2
    mine = partial + (pid % COPIES) * (k + 1) * width
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


run = sums
"""
)

_CLOSER = (
    _HEADER
    + """\
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


run = closer
"""
)


def _power(n: int, least: int, most: int) -> int:
    """The power of two in a span that holds n, or the largest there is."""
    return min(max(1 << (max(n, 1) - 1).bit_length(), least), most)


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
            PART=_power(d, 16, MOST_AT_ONCE if few else 64),
            CENTERS=_power(k, 16, n_centers),
        )

    return Launches(make)


def _make_sure(shape: tuple[int, ...], tiles: Any) -> Launch:
    return Launch(_SURE, 1, shape, n_warps=4, ROWS=SURE_ROWS, CENTERS=_power(shape[1], 16, 128))


def copies(width: int) -> int:
    """Partial sums of so many numbers that there are."""
    return min(max(PARTIAL // width, 1), 256)


def _make_sums(source: str, weighed: bool) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        n_copies = tiles[-1].shape[0]
        part = _power(shape[0], 16, 64)
        how = {"COPIES": n_copies, "WEIGHED": int(weighed), "ROWS": SUM_ROWS, "PART": part}
        return Launch(source, 1, shape, n_warps=4, **how)

    return Launches(make)


def _make_stay(shape: tuple[int, ...], tiles: Any) -> Launch:
    return Launch(_STAY, -(-shape[0] // 1024), shape, n_warps=4, ROWS=1024)


def _make_closer(known: bool) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        n, d, _ = shape
        sizes = {"ROWS": 64, "PART": _power(d, 16, 64)}
        return Launch(_CLOSER, -(-n // 64), shape, n_warps=4, KNOWN=int(known), **sizes)

    return Launches(make)


_near: dict[Any, Launches] = {}
_too_large: set[Any] = set()
_sure = Launches(_make_sure)
_stay = Launches(_make_stay)
_sums = {weighed: _make_sums(_SUMS, weighed) for weighed in (False, True)}
_inertia = {weighed: _make_sums(_INERTIA, weighed) for weighed in (False, True)}
_closer = {known: _make_closer(known) for known in (False, True)}


def may_launch(*tiles: Any) -> bool:
    """Whether these torch tiles can go to the kernels here."""
    return has_triton() and all(tile.is_contiguous() and tile.numel() for tile in tiles)


def nearest(torch: Any, x: Any, shift: Any, centers: Any, rows: Any, out: Any, bounds: Any) -> None:
    """Labels and bounds of rows (all of them if `rows` is None) into `out` and `bounds`."""
    (n, d), k = x.shape, centers.shape[0]
    wide = centers.double()
    pivot = wide.mean(0).to(x.dtype)  # a difference to it is rounded once, as a cast is
    about = wide - pivot.double()
    norms = (about * about).sum(1)
    sizes = torch.stack([norms.max().sqrt(), pivot.double().norm()])
    turned = about.float().t().contiguous()
    unsure = torch.zeros(n, dtype=torch.int8, device=x.device)
    before = (x, shift, pivot, turned, norms.float(), sizes)
    after = (out, bounds, unsure)
    n_asked = n if rows is None else len(rows)
    for coarse in (True, False) if n_asked * d * k > COARSE_WORK else (False,):
        if rows is None or len(rows):
            _launch_near(coarse, before, rows, after)
        rows = unsure.nonzero()[:, 0]
    if len(rows):
        fixed = (x, shift, wide.t().contiguous(), out, bounds)
        launch = _sure.get((d, k), fixed)
        launch((*fixed[:3], rows, *fixed[3:]), (len(rows),), -(-len(rows) // SURE_ROWS))


def _launch_near(coarse: bool, before: Any, rows: Any, after: Any) -> None:
    """With the first blocks that the GPU has room for; those it has not are not tried again."""
    from triton.runtime.errors import OutOfResources

    x, turned = before[0], before[3]
    d, k = turned.shape
    n = len(x) if rows is None else len(rows)
    tiles = (*before, after[0] if rows is None else rows, *after)
    few = max(d, k) <= MOST_AT_ONCE
    for block in FEW_BLOCKS if few else BLOCKS:
        key = (few, rows is not None, coarse, block)
        tried = (key, x.dtype, _power(d, 16, 64), _power(k, 16, block[1]))
        if tried in _too_large:
            continue
        if key not in _near:
            _near[key] = _make_near(*key)
        n_programs = -(-n // block[0])
        if few:
            n_programs = min(n_programs, PROGRAMS * _n_processors(x.get_device()))
        try:
            _near[key].get((d, k), (*before, *after))(tiles, (n,), n_programs)
        except OutOfResources:
            _too_large.add(tried)
        else:
            return
    raise RuntimeError(f"no block of {FEW_BLOCKS if few else BLOCKS} fits this GPU")


@cache
def _n_processors(gpu: int) -> int:
    """Of a GPU; of none, where kernels are interpreted, one."""
    import torch

    return int(torch.cuda.get_device_properties(gpu).multi_processor_count) if gpu >= 0 else 1


def nearest_moved(
    torch: Any, x: Any, shift: Any, centers: Any, known: tuple[Any, Any, Any], out: Any, bounds: Any
) -> None:
    """As `nearest`, for the rows that bounds (before, kept, moves) do not keep where they are."""
    n = x.shape[0]
    active = torch.empty(n, dtype=torch.int8, device=x.device)
    tiles = (*known, out, bounds, active)
    _stay.get((n,), tiles)(tiles)
    rows = active.nonzero()[:, 0]
    nearest(torch, x, shift, centers, None if len(rows) > MOSTLY * n else rows, out, bounds)


def label_inertia(
    torch: Any, x: Any, shift: Any, centers: Any, scale: Any, labels: Any, weights: Any
) -> Any:
    """Weighted squared distances by label, in two whole numbers; see `ops/nearest.py`."""
    (n, d), k = x.shape, centers.shape[0]
    partial = torch.zeros((copies(2 * k), k, 2), dtype=torch.int64, device=x.device)
    given = (scale, labels, x if weights is None else weights, partial)
    tiles = (x, shift, centers, *given)
    _inertia[weights is not None].get((d, k), tiles)(tiles, (n,), -(-n // SUM_ROWS))
    return partial.sum(0)


def label_sums(
    torch: Any, x: Any, shift: Any, scale: Any, now: Any, before: Any, weights: Any, k: int
) -> Any:
    """What changes in the sums of labels; see `ops/nearest.py`."""
    d = x.shape[1]
    shape = (copies((k + 1) * (d + 2)), k + 1, d + 2)
    partial = torch.zeros(shape, dtype=torch.int64, device=x.device)
    rows = (now != before).nonzero()[:, 0]
    n = len(rows)
    if n:
        given = (x, shift, scale, now, before, x if weights is None else weights)
        launch = _sums[weights is not None].get((d, k), (*given, partial))
        launch((*given, rows, partial), (n,), -(-n // SUM_ROWS))
    sums = partial.sum(0)
    sums[k, 0] = n
    return sums


def closer(x: Any, shift: Any, points: Any, closest: Any, out: Any) -> None:
    """Squared distances to points, no more than those to the closest so far, into `out`."""
    tiles = (x, shift, points, x if closest is None else closest, out)
    _closer[closest is not None].get((*x.shape, points.shape[0]), tiles)(tiles)
