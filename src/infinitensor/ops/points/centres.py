"""Points and centres: the nearest centre of each point, and sums over the points of each label.

Points are rows `x`, less a `shift` that is rounded to their dtype. Labels are float64's decision by
direct differences, the first of equal ones wins; sums are whole numbers of a small unit, so they
are the same bits for every tiling, device and order.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import float32, int64, to_torch
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.backend.c_loops import is_for, loop
from infinitensor.ops.forms.reduction import plain_combine
from infinitensor.ops.points import centres_triton as on_gpu
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

int32 = np.dtype(np.int32)
ELEMENTS_AT_ONCE, ELEMENTS_AT_ONCE_ON_GPU = 1 << 14, 1 << 21
"""Elements of a temporary array that the plain kernels make at once."""
SECOND_UNIT_RATIO = float(1 << 40)
"""The first unit of an inertia over the second: sums are two integers of 64 bits, exact in any
order."""


# --- plain kernels, over NumPy and torch --------------------------------------------------------


def _steps(xp: Any, n: int, width: int) -> Iterator[slice]:
    """Slices of n rows, so that `width` numbers a row are few at once."""
    step = max((ELEMENTS_AT_ONCE if xp is np else ELEMENTS_AT_ONCE_ON_GPU) // max(width, 1), 1)
    return (slice(lo, min(lo + step, n)) for lo in range(0, n, step))


def _wide(xp: Any, x: Any) -> Any:
    return x.astype(np.float64) if xp is np else x.to(xp.float64)


def _as(xp: Any, x: Any, dtype: Any) -> Any:
    return x.astype(dtype) if xp is np else x.to(to_torch(np.dtype(dtype)))


def _far(xp: Any, x: Any, shift: Any, points: Any) -> Any:
    """Squared distances (rows, points) by direct differences in float64, a few rows at once."""
    made = np.empty if xp is np else xp.empty
    like = {} if xp is np else {"device": x.device}
    out = made((x.shape[0], points.shape[0]), dtype=xp.float64, **like)
    points = _wide(xp, points)
    for rows in _steps(xp, x.shape[0], points.shape[0] * points.shape[1]):
        difference = _wide(xp, x[rows] - shift)[:, None, :] - points
        difference *= difference
        out[rows] = difference.sum(-1)
    return out


def _plain_nearest(xp: Any, x: Any, shift: Any, centers: Any) -> tuple[Any, Any, Any]:
    """Labels, and the distances to the nearest centre and to the next."""
    n, k = x.shape[0], centers.shape[0]
    like = {} if xp is np else {"device": x.device}
    labels = xp.empty((n,), dtype=xp.int32, **like)
    bounds = xp.empty((n, 2), dtype=xp.float64, **like)
    wide = _wide(xp, centers)
    norms = (wide * wide).sum(-1)
    most = float(norms.max()) ** 0.5
    for rows in _steps(xp, n, k + 2 * centers.shape[1]):
        points = _wide(xp, x[rows] - shift)
        own = (points * points).sum(-1)
        found = norms - 2 * (points @ wide.T)
        least, at, second = _two_least(xp, found)
        reach = own**0.5 + most
        error = (4 * centers.shape[1] + 32) * 2.0**-52 * reach * reach
        labels[rows] = at
        bounds[rows, 0], bounds[rows, 1] = least + own + error, second + own - error
        near = ~(second - least > 2 * error)
        if near.any():
            where = xp.nonzero(near)
            where = (where[0] if xp is np else where[:, 0]) + rows.start
            least, at, second = _two_least(xp, _far(xp, x[where], shift, centers))
            labels[where] = _as(xp, at, np.int32)
            bounds[where, 0], bounds[where, 1] = least, second
    clipped = xp.clip(bounds, 0, None) if xp is np else bounds.clamp_(min=0)
    clipped[:, 0] = clipped[:, 0] ** 0.5 * 1.000001 + 1e-37
    clipped[:, 1] = clipped[:, 1] ** 0.5 * 0.999999 - 1e-37
    return labels, _as(xp, clipped, np.float32), None


def _two_least(xp: Any, values: Any) -> tuple[Any, Any, Any]:
    """The least of each row, where it stands first, and the least of the others."""
    at = values.argmin(-1)
    take = np.take_along_axis if xp is np else xp.take_along_dim
    least = take(values, at[:, None], -1)[:, 0]
    if values.shape[1] == 1:
        return least, at, least + np.inf
    rest = values.copy() if xp is np else values.clone()
    rest[xp.arange(len(at), **({} if xp is np else {"device": at.device})), at] = np.inf
    return least, at, rest.min(-1) if xp is np else rest.amin(-1)


def _whole(xp: Any, v: Any) -> Any:
    """The nearest whole numbers, of two as near the one farther from zero."""
    q = _as(xp, v, np.int64)
    rest = v - _wide(xp, q)
    return q + _as(xp, rest >= 0.5, np.int64) - _as(xp, rest <= -0.5, np.int64)


def _check_code(code: int) -> None:
    """Raise MemoryError if a compiled loop found no memory for its own copies (a negative code)."""
    if code < 0:
        raise MemoryError("no memory for the centres that a loop over points packs")


# --- labels -------------------------------------------------------------------------------------

_rows: Any = np.ascontiguousarray


@contextmanager
def _in_one_piece(*outs: Any) -> Iterator[list[Any]]:
    """Arrays that a loop may write to: the results' own memory where it is contiguous."""
    made = [out if out.flags.c_contiguous else np.empty(out.shape, out.dtype) for out in outs]
    yield made
    for out, one in zip(outs, made, strict=True):
        if one is not out:
            out[...] = one


def _nearest_kernel(xp: Any, x: Any, shift: Any, centers: Any, out: Any) -> None:
    if xp is not np and on_gpu.may_launch(x, shift, centers):
        bounds = xp.empty((len(x), 2), dtype=xp.float32, device=x.device)
        run = partial(on_gpu.nearest, xp)
        on_gpu.launch(run, (x, shift, centers), (out, bounds))
        return
    find = loop("centres", "nearest", x.dtype) if xp is np else None
    if find is None:
        out[...] = _plain_nearest(xp, x, shift, centers)[0]
        return
    given = (_rows(x), *x.shape, _rows(shift), _rows(centers), len(centers), None, None, None)
    with _in_one_piece(out) as (labels,):
        _check_code(find(*given, labels, None))


def _moved_kernel(
    xp: Any, x: Any, shift: Any, centers: Any, before: Any, kept: Any, moves: Any, out: Any
) -> None:
    if xp is not np and on_gpu.may_launch(x, shift, centers, before, kept, moves):
        run = partial(on_gpu.nearest_moved, xp)
        on_gpu.launch(run, (x, shift, centers, before, kept, moves), out)
        return
    find = loop("centres", "nearest", x.dtype) if xp is np else None
    if find is None:
        out[0][...], out[1][...], _ = _plain_nearest(xp, x, shift, centers)
        return
    old = [_rows(one) for one in (before, kept, moves)]
    given = (_rows(x), *x.shape, _rows(shift), _rows(centers), len(centers), *old)
    with _in_one_piece(*out) as made:
        _check_code(find(*given, *made))


def _copies(ins: Sequence[Spec], outs: Sequence[Spec]) -> int:
    """Of operands that are not contiguous, and of results."""
    return sum(spec.n_bytes for spec in (*ins, *outs)) + 4096


def _near_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Copies and packed centres."""
    if not is_for(ins[0].dtype):
        return _numpy_scratch(ins, outs, params)
    return _copies(ins, outs) + 32 * ins[2].n_elements + 320 * (sum(ins[2].shape) + 64)


def _numpy_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """The result of the plain kernel, a few rows at once."""
    return _plain_scratch(ELEMENTS_AT_ONCE, ins, outs)


def _plain_scratch(at_once: int, ins: Sequence[Spec], outs: Sequence[Spec]) -> int:
    (n, d), k = ins[0].shape, ins[2].shape[0]
    part = min(max(at_once, 4 * (k + d) * d), 8 * n * (k + d) * d + 64)
    return _copies(ins, outs) + 8 * (24 * part + 16 * n + 8 * ins[2].n_elements)


def _torch_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    lists = 32 * ins[0].shape[0] + 64 * ins[2].n_elements
    return _plain_scratch(ELEMENTS_AT_ONCE_ON_GPU, ins, outs) + lists


def _near_on_gpu(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Copies, two lists of rows, their bounds and what is made of the centres."""
    if not all(spec.n_elements for spec in ins):
        return _torch_scratch(ins, outs, params)
    return _copies(ins, outs) + 16 * ins[0].shape[0] + 64 * ins[2].n_elements + 4096


def _form(x: Spec, k: int, *others: tuple[int, ...], outputs: Any, extra: Any = ()) -> AxisForm:
    """Labels: 0 points, 1 coordinates, 2 centres, then `extra` sizes; only points are cut."""
    sizes = (*x.shape, k, *extra)
    uncut = frozenset(range(1, len(sizes)))
    return AxisForm(sizes, ((0, 1), (1,), *others), outputs, uncut)


def _pairs(rng: np.random.Generator, n: int = 37, d: int = 5, k: int = 4) -> list[Any]:
    """x, shift and centres of some dtypes and shapes."""
    found = []
    for dtype in (np.float32, np.float64):
        x = rng.normal(size=(n, d)).astype(dtype)
        found.append((x, x.mean(0, dtype=dtype), rng.normal(size=(k, d)).astype(dtype)))
    grid = rng.integers(0, 3, (n, 2)).astype(float)
    return [*found, (grid, np.zeros(2), grid[:k].copy()), (x[:3], x[0], x[:1].copy())]


def _all_far(x: Any, shift: Any, points: Any) -> Any:
    difference = (x - shift).astype(np.float64)[:, None, :] - points.astype(np.float64)
    return (difference * difference).sum(-1)


def _first_nearest(x: Any, shift: Any, centers: Any) -> Any:
    return _all_far(x, shift, centers).argmin(1).astype(np.int32)


@op(
    "mapped",
    kernel=_nearest_kernel,
    scratch_bytes=_near_scratch,
    scratches={"cuda": _near_on_gpu, "torch": _torch_scratch, "numpy": _numpy_scratch},
    cost=2.0,
    cases=lambda rng: [(pair, {}) for pair in _pairs(rng)],
    oracle=_first_nearest,
    same="equal",
)
def _nearest(x: Spec, shift: Spec, centers: Spec) -> Call:
    """The number of the centre that is nearest to each row of x - shift."""
    form = _form(x, centers.shape[0], (2, 1), outputs=((0,),))
    return call(form, Spec(x.shape[:1], int32))


def _moved_cases(rng: np.random.Generator) -> list[Any]:
    """Labels and bounds of other centres, or none yet, and how far those are from these."""
    found: list[Any] = []
    for x, shift, centers in _pairs(rng):
        n, k = len(x), len(centers)
        far = np.sqrt(_all_far(x, shift, centers + 0.1))
        ordered = np.sort(np.concatenate([far, np.full((n, 1), np.inf)], 1), 1)[:, :2]
        kept = (ordered * [1.001, 0.999]).astype(np.float32)
        moves = np.full((k, 3), 0.11 * x.shape[1] ** 0.5, np.float32)
        moves[:, 2] = 0
        labels = far.argmin(1).astype(np.int32)
        found += [((x, shift, centers, labels, kept, moves), {})]
        found += [((x, shift, centers, np.full_like(labels, -1), kept, moves), {})]
    return found


@op(
    "mapped",
    kernel=_moved_kernel,
    scratch_bytes=_near_scratch,
    scratches={"cuda": _near_on_gpu, "torch": _torch_scratch, "numpy": _numpy_scratch},
    cost=2.0,
    cases=_moved_cases,
    oracle=lambda x, shift, centers, *rest: (_first_nearest(x, shift, centers), None),
    compared=lambda result: result[0],
    same="equal",
)
def _nearest_moved(
    x: Spec, shift: Spec, centers: Spec, before: Spec, kept: Spec, moves: Spec
) -> Call:
    """As `_nearest`, of centres that have moved since `before`; and bounds for the next time.

    `kept` has for each row how far its centre is at most and every other one at least; `moves` has
    for each centre how far it has moved, how far any other one has, and half the way to the next. A
    row that these keep at its centre is not compared with others. A label of -1: not known yet.
    """
    form = _form(
        x, centers.shape[0], (2, 1), (0,), (0, 3), (2, 4), outputs=((0,), (0, 3)), extra=(2, 3)
    )
    return call(form, Spec(x.shape[:1], int32), Spec((x.shape[0], 2), float32))


# --- sums over labels -----------------------------------------------------------------------------


def _sums_kernel(
    xp: Any,
    x: Any,
    shift: Any,
    scale: Any,
    now: Any,
    before: Any,
    *weights: Any,
    axes: Any,
    k: int,
) -> tuple[Any]:
    d = x.shape[1]
    if xp is not np and on_gpu.may_launch(x, shift, scale, now, before, *weights):
        tiles = (x, shift, scale, now, before, *weights)
        return (on_gpu.launch(partial(on_gpu.label_sums, xp, k), tiles),)
    add = loop("centres", "label_sums", x.dtype) if xp is np else None
    if add is not None:
        sums = np.zeros((k + 1, d + 2), np.int64)
        given = [_rows(one) for one in (now, before, *weights)] + [None] * (not weights)
        _check_code(add(_rows(x), *x.shape, _rows(shift), _rows(scale), *given, k, sums))
        return (sums,)
    like = {} if xp is np else {"device": x.device}
    sums = xp.zeros((k + 1, d + 2), dtype=xp.int64, **like)
    moved = now != before
    sums[k, 0] = moved.sum()
    for rows in _steps(xp, len(x), 8 * d):
        here = xp.nonzero(moved[rows])
        here = (here[0] if xp is np else here[:, 0]) + rows.start
        q = _quanta(xp, x[here] - shift, scale, *(w[here] for w in weights))
        new, old = _as(xp, now[here], np.int64), _as(xp, before[here], np.int64)
        _add_rows(xp, sums, new, q)
        _add_rows(xp, sums, old[old >= 0], -q[old >= 0])
    return (sums,)


def _quanta(xp: Any, points: Any, scale: Any, *weights: Any) -> Any:
    """Coordinates, weight and presence of rows, in whole numbers."""
    like = {} if xp is np else {"device": points.device}
    q = xp.empty((points.shape[0], points.shape[1] + 2), dtype=xp.int64, **like)
    w = _wide(xp, weights[0]) if weights else xp.ones(len(points), dtype=xp.float64, **like)
    q[:, :-2] = _whole(xp, _wide(xp, points) * w[:, None] * scale[:-1])
    q[:, -2] = _whole(xp, w * scale[-1])
    q[:, -1] = w != 0
    return q


def _add_rows(xp: Any, sums: Any, labels: Any, rows: Any) -> None:
    if xp is np:
        np.add.at(sums, labels, rows)
    else:
        sums.index_add_(0, labels, rows)


def _sums_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    if not is_for(ins[0].dtype):
        return _numpy_sums(ins, outs, params)
    wide = 8 * ins[2].n_elements + 64 * (sum(ins[2].shape) + 16)
    return _copies(ins, outs) + 2 * outs[0].n_bytes + wide


def _numpy_sums(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    wide = 8 * ins[2].n_elements + 64 * (sum(ins[2].shape) + 16)
    plain = 96 * ELEMENTS_AT_ONCE + 64 * ins[0].shape[0]
    return _copies(ins, outs) + 2 * outs[0].n_bytes + plain + wide


def _torch_sums(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    part = min(ELEMENTS_AT_ONCE_ON_GPU, 16 * ins[0].n_elements)
    shared = on_gpu.copies(max(outs[0].n_elements, 1)) * outs[0].n_bytes
    made = _copies(ins, outs) + 2 * outs[0].n_bytes + shared
    return made + 96 * part + 64 * ins[0].shape[0]


def _sums_on_gpu(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Copies, two lists of rows and the sums of parts."""
    if not all(spec.n_elements for spec in ins):
        return _torch_sums(ins, outs, params)
    n_shared = on_gpu.copies(max(outs[0].n_elements, 1)) + 2
    return _copies(ins, outs) + n_shared * outs[0].n_bytes + 8 * ins[0].shape[0] + 4096


def _sums_oracle(
    x: Any, shift: Any, scale: Any, now: Any, before: Any, weights: Any = None, *, k: int
) -> Any:
    sums = np.zeros((k + 1, x.shape[1] + 2), np.int64)
    q = _quanta(np, x - shift, scale, *([] if weights is None else [weights]))
    for i in np.flatnonzero(now != before):
        sums[now[i]] += q[i]
        if before[i] >= 0:
            sums[before[i]] -= q[i]
    sums[k, 0] = np.count_nonzero(now != before)
    return sums


def _sums_cases(rng: np.random.Generator) -> list[Any]:
    found: list[Any] = []
    for x, shift, centers in _pairs(rng):
        n, k = len(x), len(centers)
        scale = np.full(x.shape[1] + 1, 2.0**40)
        now = rng.integers(0, k, n).astype(np.int32)
        before = rng.integers(-1, k, n).astype(np.int32)
        found.append(((x, shift, scale, now, before), {"k": k}))
        weights = rng.uniform(size=n).astype(x.dtype)
        found.append(((x, shift, scale, now, before, weights), {"k": k}))
    return found


@op(
    "reduction",
    kernel=_sums_kernel,
    combine=plain_combine("sum", exact=True),
    scratch_bytes=_sums_scratch,
    scratches={"cuda": _sums_on_gpu, "torch": _torch_sums, "numpy": _numpy_sums},
    cost=2.0,
    cases=_sums_cases,
    oracle=_sums_oracle,
    same="equal",
)
def _label_sums(
    x: Spec,
    shift: Spec,
    scale: Spec,
    now: Spec,
    before: Spec,
    weights: Spec | None = None,
    *,
    k: int,
) -> Call:
    """The changes of the labels' sums by rows with another label than before.

    For each label: the weighted sum of coordinates times `scale`, rounded to whole numbers, then
    the weights times the last of `scale`, then how many rows weigh something. A row more: how many
    labels changed. A label of -1 has no sum.
    """
    shape = (k + 1, x.shape[1] + 2)
    others = ((2,), (0,), (0,), *(((0,),) if weights is not None else ()))
    form = _form(x, scale.shape[0], *others, outputs=((3, 4),), extra=shape)
    return Call(form, (Spec(shape, int64),), (("k", k),), (), (int64,))


def _inertia_kernel(
    xp: Any,
    x: Any,
    shift: Any,
    centers: Any,
    scale: Any,
    labels: Any,
    *weights: Any,
    axes: Any,
) -> tuple[Any]:
    k = centers.shape[0]
    if xp is not np and on_gpu.may_launch(x, shift, centers, scale, labels, *weights):
        tiles = (x, shift, centers, scale, labels, *weights)
        return (on_gpu.launch(partial(on_gpu.label_inertia, xp), tiles),)
    add = loop("centres", "label_inertia", x.dtype) if xp is np else None
    if add is not None:
        sums = np.zeros((k, 2), np.int64)
        given = [_rows(one) for one in (labels, *weights)] + [None] * (not weights)
        unit = float(scale.reshape(-1)[0])
        _check_code(
            add(_rows(x), None, *x.shape, _rows(shift), _rows(centers), k, *given, unit, sums)
        )
        return (sums,)
    like = {} if xp is np else {"device": x.device}
    sums = xp.zeros((k, 2), dtype=xp.int64, **like)
    for rows in _steps(xp, len(x), 4 * x.shape[1]):
        at = _as(xp, labels[rows], np.int64)
        value = _own_far(xp, x[rows], shift, centers, at) * scale
        if weights:
            value = value * _wide(xp, weights[0][rows])
        whole = _whole(xp, value)
        rest = _whole(xp, (value - _wide(xp, whole)) * SECOND_UNIT_RATIO)
        _add_rows(xp, sums, at, xp.stack([whole, rest], 1))
    return (sums,)


def _own_far(xp: Any, x: Any, shift: Any, centers: Any, labels: Any) -> Any:
    difference = _wide(xp, x - shift) - _wide(xp, centers)[labels]
    difference *= difference
    return difference.sum(-1)


def _inertia_oracle(
    x: Any, shift: Any, centers: Any, scale: Any, labels: Any, weights: Any = None
) -> Any:
    value = _own_far(np, x, shift, centers, labels) * scale
    value = value if weights is None else value * weights
    sums = np.zeros((len(centers), 2), np.int64)
    whole = np.rint(value).astype(np.int64)
    np.add.at(
        sums,
        labels,
        np.stack([whole, np.rint((value - whole) * SECOND_UNIT_RATIO).astype(np.int64)], 1),
    )
    return sums


def _inertia_cases(rng: np.random.Generator) -> list[Any]:
    found: list[Any] = []
    for x, shift, centers in _pairs(rng):
        labels = rng.integers(0, len(centers), len(x)).astype(np.int32)
        weights = rng.uniform(size=len(x)).astype(x.dtype)
        found += [((x, shift, centers, np.array([2.0**30]), labels), {})]
        found += [((x, shift, centers, np.array([2.0**30]), labels, weights), {})]
    return found


@op(
    "reduction",
    kernel=_inertia_kernel,
    combine=plain_combine("sum", exact=True),
    scratch_bytes=_sums_scratch,
    scratches={"cuda": _sums_on_gpu, "torch": _torch_sums, "numpy": _numpy_sums},
    cost=2.0,
    cases=_inertia_cases,
    oracle=_inertia_oracle,
    compared=lambda sums: np.asarray(sums)[:, 0] + np.asarray(sums)[:, 1] / SECOND_UNIT_RATIO,
)
def _label_inertia(
    x: Spec, shift: Spec, centers: Spec, scale: Spec, labels: Spec, weights: Spec | None = None
) -> Call:
    """For each label the weighted squared distances of its rows to its centre, times `scale`.

    In whole numbers, and what these leave in 2**-40 of them.
    """
    others = ((2, 1), (3,), (0,), *(((0,),) if weights is not None else ()))
    form = _form(x, centers.shape[0], *others, outputs=((2, 4),), extra=(1, 2))
    return Call(form, (Spec((centers.shape[0], 2), int64),), (), (), (int64,))


# --- distances ------------------------------------------------------------------------------------


def _own_kernel(xp: Any, x: Any, shift: Any, centers: Any, labels: Any, out: Any) -> None:
    measure = loop("centres", "label_distances", x.dtype) if xp is np else None
    if measure is not None:
        given = (_rows(x), *x.shape, _rows(shift), _rows(centers), len(centers), _rows(labels))
        with _in_one_piece(out) as (made,):
            _check_code(measure(*given, made))
        return
    for rows in _steps(xp, len(x), 4 * x.shape[1]):
        at = _as(xp, labels[rows], np.int64)
        out[rows] = _as(xp, _own_far(xp, x[rows], shift, centers, at), np.float64)


@op(
    "mapped",
    kernel=_own_kernel,
    scratch_bytes=_sums_scratch,
    scratches={"cuda": _torch_sums, "numpy": _numpy_sums},
    cost=2.0,
    cases=lambda rng: [
        ((*pair, rng.integers(0, len(pair[2]), len(pair[0])).astype(np.int32)), {})
        for pair in _pairs(rng)
    ],
    oracle=lambda x, shift, centers, labels: _own_far(np, x, shift, centers, labels).astype(
        x.dtype
    ),
)
def _label_distances(x: Spec, shift: Spec, centers: Spec, labels: Spec) -> Call:
    """The squared distance of each row to the centre of its label."""
    form = _form(x, centers.shape[0], (2, 1), (0,), outputs=((0,),))
    return call(form, Spec(x.shape[:1], x.dtype))


def _distances_kernel(
    xp: Any, x: Any, shift: Any, points: Any, out: Any, squared: bool = False
) -> None:
    measure = loop("seeds", "distances", x.dtype) if xp is np else None
    if measure is not None:
        given = (_rows(x), *x.shape, _rows(shift), _rows(points), len(points), int(squared))
        with _in_one_piece(out) as (made,):
            _check_code(measure(*given, made))
        return
    for rows in _steps(xp, len(x), points.shape[0]):
        far = _far(xp, x[rows], shift, points)
        out[rows] = far if squared else far**0.5


def _distances_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    if not is_for(ins[0].dtype):
        return _numpy_distances(ins, outs, params)
    return _copies(ins, outs) + 8 * ins[2].n_elements + 64 * (sum(ins[2].shape) + 16)


def _numpy_distances(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return _plain_scratch(ELEMENTS_AT_ONCE, ins, outs) + 16 * outs[0].n_elements


@op(
    "mapped",
    kernel=_distances_kernel,
    scratch_bytes=_distances_scratch,
    scratches={"cuda": _torch_scratch, "numpy": _numpy_distances},
    cost=3.0,
    cases=lambda rng: [
        (pair, {"squared": squared}) for pair in _pairs(rng) for squared in (False, True)
    ],
    oracle=lambda x, shift, points, squared=False: (
        _all_far(x, shift, points) ** (1 if squared else 0.5)
    ).astype(x.dtype),
)
def _distances_to(x: Spec, shift: Spec, points: Spec, squared: bool = False) -> Call:
    """The distances of the rows of x - shift to points, by direct differences in float64."""
    form = _form(x, points.shape[0], (2, 1), outputs=((0, 2),))
    shape = (x.shape[0], points.shape[0])
    return call(form, Spec(shape, x.dtype), squared=bool(squared))


def _closer_kernel(xp: Any, x: Any, shift: Any, points: Any, *known: Any, out: Any) -> None:
    if xp is not np and on_gpu.may_launch(x, shift, points, *known):
        on_gpu.launch(on_gpu.closer, (x, shift, points, *known[:1]), (out,))
        return
    measure = loop("seeds", "closer", x.dtype) if xp is np else None
    if measure is not None:
        before = [_rows(one) for one in known] or [None] * 3
        given = (_rows(x), *x.shape, _rows(shift), _rows(points), len(points), *before)
        with _in_one_piece(out) as (made,):
            _check_code(measure(*given, known[2].shape[1] if known else 0, made))
        return
    for rows in _steps(xp, len(x), points.shape[0]):
        far = _far(xp, x[rows], shift, points).T
        out[:, rows] = far
        if known:
            out[:, rows] = xp.minimum(out[:, rows], known[0][rows])


def _closer_cases(rng: np.random.Generator) -> list[Any]:
    found: list[Any] = []
    for x, shift, points in _pairs(rng):
        seeds = x[:2] - shift
        far = _all_far(x, shift, seeds)
        reach = ((points[:, None] - seeds).astype(float) ** 2).sum(-1) / 4 * 0.999
        known = (far.min(1).astype(x.dtype), far.argmin(1).astype(np.int32), reach)
        found += [((x, shift, points), {}), ((x, shift, points, *known), {})]
    return found


def _closer_oracle(
    x: Any, shift: Any, points: Any, closest: Any = None, owner: Any = None, reach: Any = None
) -> Any:
    far = _all_far(x, shift, points).T.astype(x.dtype)
    return far if closest is None else np.minimum(far, closest)


@op(
    "mapped",
    kernel=_closer_kernel,
    scratch_bytes=_distances_scratch,
    scratches={"cuda": _near_on_gpu, "torch": _torch_scratch, "numpy": _numpy_distances},
    cost=3.0,
    cases=_closer_cases,
    oracle=_closer_oracle,
)
def _closer(
    x: Spec,
    shift: Spec,
    points: Spec,
    closest: Spec | None = None,
    owner: Spec | None = None,
    reach: Spec | None = None,
) -> Call:
    """For each candidate point, each row's squared distance to the nearest seed, were it one too.

    `closest` is that distance so far and `owner` the seed it is of. Rows nearer to their seed than
    `reach[candidate, seed]` are known to stay there.
    """
    known = ((0,), (0,), (2, 3)) if reach is not None else ()
    extra = reach.shape[1:] if reach is not None else ()
    form = _form(x, points.shape[0], (2, 1), *known, outputs=((2, 0),), extra=extra)
    return call(form, Spec((points.shape[0], x.shape[0]), x.dtype))
