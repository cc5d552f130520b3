"""Lloyd's iterations on a GPU: centres move there, the host only asks now and then if it is over.

What an iteration changes in the sums is `label_sums`; `move` makes of it the next centres, how far
each has moved, and whether that was the last iteration: from then on nothing moves, so iterations
that were started before that was known change no result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.events import between_steps
from infinitensor.jit import Launch, Launches, triton_module
from infinitensor.ops.points import centres_triton

if TYPE_CHECKING:
    from collections.abc import Iterator

ASKED_EVERY = 4
"""Iterations that are started before the host waits to know whether one was the last."""
GOES_ON, IS_OVER, HAS_EMPTY = 0, 1, 2
"""States of a run. Where a label is empty centres stay, for the host to say where it goes."""
LABELS_LOOKED_AT, COORDINATES_LOOKED_AT = 32, 64
"""Labels, and coordinates, that are looked at together."""

_MOVE = triton_module("""\
@triton.jit
def move(
    change, sums, scale, centers, moves, state, tol, k, d,
    LABELS: tl.constexpr, PART: tl.constexpr,
):
    width = d + 2
    was_over = tl.load(state) != 0
    n_changed = tl.load(change + k * width)
    unit = tl.load(scale + d)
    n_empty = 0
    for low in range(0, k, LABELS):
        c = low + tl.arange(0, LABELS)
        at = c * width + d
        weight = tl.load(sums + at, mask=c < k, other=1)
        weight += tl.load(change + at, mask=c < k, other=0)
        present = tl.load(sums + at + 1, mask=c < k, other=1)
        present += tl.load(change + at + 1, mask=c < k, other=0)
        n_empty += tl.sum(((present == 0) | (weight <= 0)).to(tl.int32), 0)
    shift = tl.zeros((1,), tl.float64)
    first = tl.zeros((1,), tl.float32)
    second = tl.zeros((1,), tl.float32)
    for low in range(0, k, LABELS):
        c = low + tl.arange(0, LABELS)
        mine = (c < k) & (was_over == 0) & (n_empty == 0)
        at = c * width
        weight = tl.load(sums + at + d, mask=mine, other=1)
        weight += tl.load(change + at + d, mask=mine, other=0)
        present = tl.load(sums + at + d + 1, mask=mine, other=0)
        present += tl.load(change + at + d + 1, mask=mine, other=0)
        tl.store(sums + at + d, weight, mask=mine)
        tl.store(sums + at + d + 1, present, mask=mine)
        inverse = 1.0 / (weight.to(tl.float64) / unit)
        far = tl.zeros((LABELS,), tl.float64)
        for part in range(0, d, PART):
            j = part + tl.arange(0, PART)
            here = mine[:, None] & (j < d)[None, :]
            place = at[:, None] + j[None, :]
            total = tl.load(sums + place, mask=here, other=0)
            total += tl.load(change + place, mask=here, other=0)
            tl.store(sums + place, total, mask=here)
            one = tl.load(scale + j, mask=j < d, other=1.0)
            mean = (total.to(tl.float64) / one[None, :]) * inverse[:, None]
            new = mean.to(centers.dtype.element_ty)
            old = tl.load(centers + c[:, None] * d + j[None, :], mask=here, other=0)
            apart = new.to(tl.float64) - old.to(tl.float64)
            far += tl.sum(tl.where(here, apart * apart, 0.0), 1)
            tl.store(centers + c[:, None] * d + j[None, :], new, mask=here)
        shift += tl.sum(far, 0)
        way = tl.where(mine, tl.sqrt(far) * 1.000001 + 1e-37, 0.0).to(tl.float32)
        tl.store(moves + 3 * c, way, mask=c < k)
        most = tl.max(way, 0)
        its = tl.min(tl.where(way == most, c, k), 0)
        others = tl.max(tl.where(c == its, 0.0, way), 0)
        second = tl.maximum(tl.maximum(second, others), tl.minimum(first, most))
        first = tl.maximum(first, most)
    tl.debug_barrier()
    for low in range(0, k, LABELS):
        c = low + tl.arange(0, LABELS)
        way = tl.load(moves + 3 * c, mask=c < k, other=0)
        tl.store(moves + 3 * c + 1, tl.where(way == first, second, first), mask=c < k)
    if was_over == 0:
        last = (n_changed == 0) | (shift <= tl.load(tol))
        now = tl.where(n_empty > 0, 2, last.to(tl.int64))
        none = tl.arange(0, 1)
        tl.store(state + none, now.to(tl.int64))
        tl.store(state + 1 + none, tl.load(state + 1 + none) + 1)
""")

_HALFWAY = triton_module("""\
@triton.jit
def halfway(centers, moves, k, d, LABELS: tl.constexpr, PART: tl.constexpr):
    c = tl.program_id(0)
    least = tl.full((LABELS,), float("inf"), tl.float64)
    for low in range(0, k, LABELS):
        other = low + tl.arange(0, LABELS)
        far = tl.zeros((LABELS,), tl.float64)
        for part in range(0, d, PART):
            j = part + tl.arange(0, PART)
            here = (other < k)[:, None] & (j < d)[None, :]
            value = tl.load(centers + other[:, None] * d + j[None, :], mask=here, other=0)
            mine = tl.load(centers + c * d + j, mask=j < d, other=0)
            apart = value.to(tl.float64) - mine.to(tl.float64)[None, :]
            far += tl.sum(tl.where(here, apart * apart, 0.0), 1)
        least = tl.minimum(least, tl.where((other < k) & (other != c), far, float("inf")))
    half = tl.sqrt(tl.min(least, 0)) * 0.499999
    tl.store(moves + 3 * c + 2, half.to(tl.float32))
""")


def _make(source: str) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        n_programs = shape[0] if source is _HALFWAY else 1
        return Launch(
            source,
            n_programs,
            shape,
            n_warps=4,
            LABELS=LABELS_LOOKED_AT,
            PART=COORDINATES_LOOKED_AT,
        )

    return Launches(make)


_move, _halfway = _make(_MOVE), _make(_HALFWAY)


def steps(state: Any, max_iter: int) -> Iterator[int]:
    """The numbers of iterations, from 1 on, until the host sees that one was the last."""
    for step in range(1, max_iter + 1):
        yield step
        if step % ASKED_EVERY == 0:
            between_steps()
            if int(state[0]) != GOES_ON:
                return


def iterate(
    torch: Any,
    x: Any,
    shift: Any,
    scale: Any,
    centers: Any,
    tol: Any,
    out: tuple[Any, Any, Any],
    weights: Any = None,
    *,
    max_iter: int,
) -> None:
    """Labels, centres, and a state with the number of iterations, into `out`."""
    (n, d), k = x.shape, centers.shape[0]
    labels, moving, state = out
    like = {"device": x.device}
    before = torch.full_like(labels, -1)
    bounds = torch.zeros((n, 2), dtype=torch.float32, **like)
    moves = torch.zeros((k, 3), dtype=torch.float32, **like)
    sums = torch.zeros((k, d + 2), dtype=torch.int64, **like)
    moving.copy_(centers)
    state.zero_()
    rows = (torch, x, shift, moving)
    for _ in steps(state, max_iter):
        centres_triton.nearest_moved(*rows, before, bounds, moves, labels, bounds)
        change = centres_triton.label_sums(torch, k, x, shift, scale, labels, before, weights)
        tiles = (change, sums, scale, moving, moves, state, tol)
        _move.get((k, d), tiles)(tiles)
        _halfway.get((k, d), (moving, moves))((moving, moves))
        before, labels = labels, before
    centres_triton.nearest_moved(*rows, before, bounds, moves, labels, bounds)
    if labels is not out[0]:
        out[0].copy_(labels)


def scratch_of(n: int, d: int, k: int) -> int:
    """Bytes that it allocates beside its results and what each pass does."""
    return 24 * n + 16 * (k + 1) * (d + 2) + 16 * k + 4096
