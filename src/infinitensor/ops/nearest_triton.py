"""Points and centres on a GPU: products by tensor cores, float64 where they do not decide.

`near` takes blocks of rows through all centres (three products of TF32 parts each, whose error is
bounded) and marks the rows that two centres could have; `sure` compares those by direct differences
in float64. Sums are whole numbers, so atomic additions give the same bits in any order.
"""

from __future__ import annotations

from typing import Any

from infinitensor.jit import Launch, Launches, has_triton

PARTIAL = 1 << 22
"""Numbers of partial sums that programs share out among them, so that few wait for each other."""
BLOCKS = ((128, 128, 8, 1), (128, 64, 4, 2), (64, 64, 4, 1), (32, 32, 4, 1), (16, 16, 2, 1))
"""Rows, centres, warps and stages of a program of `near`, the best first."""
MOSTLY = 0.7
"""The part of all rows from which on all are compared, without a list of them."""

_HEADER = "import triton\nimport triton.language as tl\n\n\n"

_NEAR = (
    _HEADER
    + """\
@triton.jit
def near(
    x, shift, pivot, turned, norms, sizes, rows, labels, bounds, unsure, n, d, k,
    PICKED: tl.constexpr, ROWS: tl.constexpr, PART: tl.constexpr, CENTERS: tl.constexpr,
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
            total += tl.dot(point, c, input_precision="tf32x3")
            if start == 0:
                norm += tl.sum(point * point, 1)
        g = tl.load(norms + column, mask=column < k, other=float("inf"))[None, :] - 2 * total
        least = tl.min(g, 1)
        where = tl.argmin(g, 1).to(tl.int32)
        others = tl.where(tl.arange(0, CENTERS)[None, :] == where[:, None], float("inf"), g)
        next_ = tl.min(others, 1)
        less_now = least < first
        second = tl.minimum(tl.minimum(second, next_), tl.where(less_now, first, least))
        best = tl.where(less_now, where + start, best)
        first = tl.minimum(first, least)
    length = tl.sqrt(norm) * 1.0001
    reach = length + most
    unit = (d + 16) * 2.4e-7 + 4e-6
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


run = near
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
@triton.jit
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


run = inertia
"""
)

_SURE = (
    _HEADER
    + """\
@triton.jit
def sure(
    x, shift, turned, rows, labels, bounds, n, d, k,
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
@triton.jit
def sums(
    x, shift, scale, now, before, weights, partial, n, d, k,
    COPIES: tl.constexpr, WEIGHED: tl.constexpr, ROWS: tl.constexpr, PART: tl.constexpr,
):
    pid = tl.program_id(0).to(tl.int64)
    at = pid * ROWS + tl.arange(0, ROWS)
    there = at < n
    new = tl.load(now + at, mask=there, other=0).to(tl.int64)
    old = tl.load(before + at, mask=there, other=0).to(tl.int64)
    moved = there & (new != old)
    n_moved = tl.sum(moved.to(tl.int64), 0)
    if n_moved > 0:
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
        tl.atomic_add(mine + k * width, n_moved, sem="relaxed")


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


def _make_near(picked: bool, block: tuple[int, int, int, int]) -> Launches:
    n_rows, n_centers, n_warps, n_stages = block

    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        n, d, k = shape
        return Launch(
            _NEAR,
            -(-n // n_rows),
            shape,
            n_warps,
            n_stages,
            PICKED=int(picked),
            ROWS=n_rows,
            PART=_power(d, 16, 64),
            CENTERS=_power(k, 16, n_centers),
        )

    return Launches(make)


def _make_sure(shape: tuple[int, ...], tiles: Any) -> Launch:
    n, _, k = shape
    return Launch(_SURE, -(-n // 16), shape, n_warps=4, ROWS=16, CENTERS=_power(k, 16, 128))


def copies(width: int) -> int:
    """Partial sums of so many numbers that there are."""
    return min(max(PARTIAL // width, 1), 256)


def _make_sums(source: str, weighed: bool) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        n, d, _ = shape
        n_copies = tiles[-1].shape[0]
        part = _power(d, 16, 64)
        how = {"COPIES": n_copies, "WEIGHED": int(weighed), "ROWS": 64, "PART": part}
        return Launch(source, -(-n // 64), shape, n_warps=4, **how)

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
    picked = rows is not None
    which = rows if picked else out
    numbers = (len(rows) if picked else n, d, k)
    tiles = (x, shift, pivot, turned, norms.float(), sizes, which, out, bounds, unsure)
    if numbers[0]:
        _launch_near(picked, numbers, tiles)
    doubtful = unsure.nonzero()[:, 0]
    if len(doubtful):
        exact = (x, shift, wide.t().contiguous(), doubtful, out, bounds)
        _sure.get((len(doubtful), d, k), exact)(exact)


def _launch_near(picked: bool, numbers: tuple[int, int, int], tiles: Any) -> None:
    """With the first blocks that the GPU has room for; those it has not are not tried again."""
    from triton.runtime.errors import OutOfResources

    for block in BLOCKS:
        key = (picked, block)
        tried = (key, tiles[0].dtype, _power(numbers[1], 16, 64), _power(numbers[2], 16, block[1]))
        if tried in _too_large:
            continue
        if key not in _near:
            _near[key] = _make_near(picked, block)
        try:
            _near[key].get(numbers, tiles)(tiles)
        except OutOfResources:
            _too_large.add(tried)
        else:
            return
    raise RuntimeError(f"no block of {BLOCKS} fits this GPU")


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
    _inertia[weights is not None].get((n, d, k), tiles)(tiles)
    return partial.sum(0)


def label_sums(
    torch: Any, x: Any, shift: Any, scale: Any, now: Any, before: Any, weights: Any, k: int
) -> Any:
    """What changes in the sums of labels; see `ops/nearest.py`."""
    n, d = x.shape
    shape = (copies((k + 1) * (d + 2)), k + 1, d + 2)
    partial = torch.zeros(shape, dtype=torch.int64, device=x.device)
    tiles = (x, shift, scale, now, before, x if weights is None else weights, partial)
    _sums[weights is not None].get((n, d, k), tiles)(tiles)
    return partial.sum(0)


def closer(x: Any, shift: Any, points: Any, closest: Any, out: Any) -> None:
    """Squared distances to points, no more than those to the closest so far, into `out`."""
    tiles = (x, shift, points, x if closest is None else closest, out)
    _closer[closest is not None].get((*x.shape, points.shape[0]), tiles)(tiles)
