"""Distances of points to points: one tile for every metric of scikit-learn, and what tiles sum to.

`tile` computes the distances of some rows to some others. Metrics that scikit-learn takes from
SciPy, and those of its trees, are sums over the coordinates in their order, in float64;
"euclidean", "cosine" and "nan_euclidean" are products of matrices as in `sklearn.metrics.pairwise`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import float32, float64, int64, to_torch
from infinitensor.events import between_steps
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.forms.reduction import SUM
from infinitensor.ops.linalg.matmul import product
from infinitensor.ops.points import distances_triton as on_gpu
from infinitensor.ops.points.centres_triton import may_launch
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Array = Any

TEMPORARY_ELEMENTS = 1 << 16
"""Elements of the temporary arrays that plain kernels make."""
NARROW = 12
"""Coordinates up to which euclidean distances of float64 are sums of squared differences on a CPU:
what a product leaves is gone over five times, which takes longer."""
DISTANCE_COLUMNS, DISTANCE_ROWS = 512, 512
"""How many distances are made together where they are only summed up or compared."""

ALIASES = {"l1": "cityblock", "manhattan": "cityblock", "l2": "euclidean", "matching": "hamming"}
BOOLEAN = (
    "dice",
    "jaccard",
    "rogerstanimoto",
    "russellrao",
    "sokalsneath",
    "sokalmichener",
    "yule",
)
"""Metrics of sets: what is not 0 is in the set."""
BY_PRODUCTS = ("euclidean", "cosine", "nan_euclidean")
"""Metrics whose distances are float32 where the points are."""
LOOPS = (
    "sqeuclidean", "direct", "cityblock", "chebyshev", "minkowski", "seuclidean", "canberra",
    "braycurtis", "braycurtis_tree", "hamming",
)  # fmt: skip
FEW_ARRAYS = ("euclidean", "cosine", *LOOPS)
"""Metrics that make few arrays as large as the distances on the way."""
METRICS = (*BY_PRODUCTS, *LOOPS, "correlation", "mahalanobis", "haversine", *BOOLEAN)
"""Every metric of `tile`; "direct" is euclidean as scikit-learn's trees have it, "braycurtis_tree"
theirs too: over |x| + |y|, where SciPy has |x + y|."""


def metric_dtype(metric: str, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of distances."""
    is_single = metric in BY_PRODUCTS and all(dtype == float32 for dtype in dtypes)
    return float32 if is_single else float64


def tile(
    xp: Any,
    x: Array,
    y: Array,
    metric: str,
    *,
    p: float = 2.0,
    extra: Array = None,
    role: str = "",
    out: Array = None,
) -> Array:
    """The distances (rows of x, rows of y), of `metric_dtype`: in `out` if they fit, else new.

    `extra` is what `role` says: weights "w" of the coordinates, variances "V" (seuclidean), or the
    inverse covariance "VI" (mahalanobis).
    """
    check_sizes(metric, role, x.shape[1], None if extra is None else tuple(extra.shape))
    if metric in BOOLEAN:
        return _sets(xp, x, y, metric, extra)
    is_narrow = x.shape[1] <= NARROW and _dtype(x) == _dtype(y) == float64
    if xp is np and metric == "euclidean" and is_narrow:
        found = _looped("direct", x, y, p, None, out)
        if found is not None:
            return found
    if metric in _FORMS:
        return _FORMS[metric](xp, x, y, extra)
    name = "minkowski_w" if metric == "minkowski" and role == "w" else metric
    if xp is np and (role != "w" or name == "minkowski_w"):
        found = _looped(name, x, y, p, extra, out)
        if found is not None:
            return found
    return _sum_coordinates(xp, x, y, metric, p, extra)


def check_sizes(metric: str, role: str, d: int, shape: tuple[int, ...] | None) -> None:
    """ValueError where points of d numbers and `extra` of a shape (None: there is none) misfit."""
    if metric == "haversine" and d != 2:
        raise ValueError(f"Haversine distance only valid in 2 dimensions, these points have {d}")
    needed = {"seuclidean": "V", "mahalanobis": "VI"}.get(metric)
    if shape is None and needed:
        raise ValueError(f"The '{needed}' parameter is required for the {metric} metric.")
    if shape is None:
        return
    wanted = (d, d) if metric == "mahalanobis" else (d,)
    if shape != wanted:
        raise ValueError(
            f"{metric}: {role or 'extra'} has shape {shape}, points of {d} numbers need {wanted}"
        )


# --- loops in C -------------------------------------------------------------------------------


def _looped(
    name: str, x: Array, y: Array, p: float, extra: Array, out: Array = None
) -> Array | None:
    if x.dtype != y.dtype or x.dtype not in (float32, float64):
        x, y = x.astype(float64), y.astype(float64)
    pairs = loop("distances", name, x.dtype)
    if pairs is None:
        return None
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    if extra is not None:
        extra = np.ascontiguousarray(extra, float64)
    if out is None or out.dtype != float64 or not out.flags.c_contiguous:
        out = np.empty((len(x), len(y)))
    if pairs(x, len(x), y, len(y), x.shape[1], float(p), extra, out) < 0:
        raise MemoryError(f"{name}: no memory for {y.nbytes} bytes of packed rows")
    return out


# --- plain kernels, over NumPy and torch ------------------------------------------------------


def _wide(xp: Any, x: Array) -> Array:
    return x.astype(float64) if xp is np else x.to(xp.float64)


def _as(xp: Any, x: Array, dtype: np.dtype[Any]) -> Array:
    return x.astype(dtype, copy=False) if xp is np else x.to(to_torch(dtype))


def _empty_like(xp: Any, shape: tuple[int, ...], like: Array, dtype: Any = None) -> Array:
    dtype = dtype or xp.float64
    return np.empty(shape, dtype) if xp is np else xp.empty(shape, dtype=dtype, device=like.device)


def _steps(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows, so that `width` numbers a row are few at once."""
    step = max(TEMPORARY_ELEMENTS // max(width, 1), 1)
    return (slice(lo, min(lo + step, n)) for lo in range(0, n, step))


def _sum_coordinates(xp: Any, x: Array, y: Array, metric: str, p: float, w: Array) -> Array:
    """A sum over coordinates, a few rows at once."""
    x, y = _wide(xp, x), _wide(xp, y)
    w = 1.0 if w is None else _wide(xp, w)
    out = _empty_like(xp, (x.shape[0], y.shape[0]), x)
    for rows in _steps(x.shape[0], y.shape[0] * x.shape[1]):
        out[rows] = _SUMS[metric](xp, x[rows][:, None, :], y[None], w, p)
    return out


def _most(xp: Any, x: Array, w: Array) -> Array:
    """The greatest along the last axis of those that weigh something; 0 where there is none."""
    x = x * (w > 0) if hasattr(w, "shape") else x
    if x.shape[-1] == 0:
        return x.sum(-1)
    return x.max(-1) if xp is np else x.amax(-1)


def _braycurtis(xp: Any, x: Array, y: Array, w: Array, p: float) -> Array:
    with np.errstate(invalid="ignore"):
        return (w * abs(x - y)).sum(-1) / (w * abs(x + y)).sum(-1)


def _braycurtis_tree(xp: Any, x: Array, y: Array, w: Array, p: float) -> Array:
    size = (abs(x) + abs(y)).sum(-1)
    return abs(x - y).sum(-1) / (size + (size == 0))


def _canberra(xp: Any, x: Array, y: Array, w: Array, p: float) -> Array:
    size = abs(x) + abs(y)
    return (w * abs(x - y) / (size + (size == 0))).sum(-1)


def _hamming(xp: Any, x: Array, y: Array, w: Array, p: float) -> Array:
    total = w.sum() if hasattr(w, "shape") else x.shape[-1]
    return (w * _wide(xp, x != y)).sum(-1) / total


_SUMS: dict[str, Callable[..., Array]] = {
    "sqeuclidean": lambda xp, x, y, w, p: (w * (x - y) ** 2).sum(-1),
    "direct": lambda xp, x, y, w, p: (w * (x - y) ** 2).sum(-1) ** 0.5,
    "cityblock": lambda xp, x, y, w, p: (w * abs(x - y)).sum(-1),
    "chebyshev": lambda xp, x, y, w, p: _most(xp, abs(x - y), w),
    "minkowski": lambda xp, x, y, w, p: (w * abs(x - y) ** p).sum(-1) ** (1 / p),
    "seuclidean": lambda xp, x, y, w, p: ((x - y) ** 2 / w).sum(-1) ** 0.5,
    "canberra": _canberra,
    "braycurtis": _braycurtis,
    "braycurtis_tree": _braycurtis_tree,
    "hamming": _hamming,
}


def _matmul(xp: Any, x: Array, y: Array) -> Array:
    out = _empty_like(xp, (x.shape[0], y.shape[0]), x, x.dtype)
    product(xp, x, y.T, out)
    return out


def _lengths(xp: Any, x: Array) -> Array:
    """Squared lengths of rows."""
    return xp.einsum("ij,ij->i", x, x)


def _squares(xp: Any, x: Array, y: Array) -> Array:
    """Squared distances by products in float64, rounded to the points' dtype, not below 0."""
    dtype = metric_dtype("euclidean", _dtype(x), _dtype(y))
    x, y = _wide(xp, x), _wide(xp, y)
    found = _matmul(xp, x, y)
    found *= -2
    found += _lengths(xp, x)[:, None]
    found += _lengths(xp, y)
    found = _as(xp, found, dtype)
    return np.maximum(found, 0, out=found) if xp is np else found.clamp_(min=0)


def _dtype(x: Array) -> np.dtype[Any]:
    return np.dtype(str(x.dtype).removeprefix("torch."))


def _euclidean(xp: Any, x: Array, y: Array, extra: Array) -> Array:
    found = _squares(xp, x, y)
    return np.sqrt(found, out=found) if xp is np else found.sqrt_()


def _normal(xp: Any, x: Array) -> Array:
    """Rows of length 1; those of zeros as they are."""
    size = _lengths(xp, x) ** 0.5
    return x / xp.where(size == 0, 1, size)[:, None]


def _cosine(xp: Any, x: Array, y: Array, extra: Array) -> Array:
    dtype = metric_dtype("cosine", _dtype(x), _dtype(y))
    found = _matmul(xp, _normal(xp, _as(xp, x, dtype)), _normal(xp, _as(xp, y, dtype)))
    found *= -1
    found += 1
    return np.clip(found, 0, 2, out=found) if xp is np else found.clamp_(0, 2)


def _nan_euclidean(xp: Any, x: Array, y: Array, extra: Array) -> Array:
    """Distances over the coordinates both rows have, scaled up to all; NaN where they share
    none."""
    dtype = metric_dtype("nan_euclidean", _dtype(x), _dtype(y))
    there = [_wide(xp, ~xp.isnan(one)) for one in (x, y)]
    x, y = (_wide(xp, xp.where(xp.isnan(one), 0, one)) for one in (x, y))
    found = _as(xp, _squares(xp, x, y), float64)
    found -= _matmul(xp, x * x, 1 - there[1])
    found -= _matmul(xp, 1 - there[0], y * y)
    shared = _matmul(xp, *there)
    found = found.clip(min=0) * x.shape[1]
    found = (found / xp.where(shared == 0, 1, shared)) ** 0.5
    return _as(xp, xp.where(shared == 0, np.nan, found), dtype)


def _haversine(xp: Any, x: Array, y: Array, extra: Array) -> Array:
    x, y = _wide(xp, x), _wide(xp, y)
    north = xp.sin(0.5 * (x[:, 0][:, None] - y[:, 0]))
    east = xp.sin(0.5 * (x[:, 1][:, None] - y[:, 1]))
    inner = north * north + xp.cos(x[:, 0])[:, None] * xp.cos(y[:, 0]) * east * east
    return 2 * (xp.arcsin if xp is np else xp.asin)(inner**0.5)


def _mahalanobis(xp: Any, x: Array, y: Array, inverse: Array) -> Array:
    x, y, inverse = _wide(xp, x), _wide(xp, y), _wide(xp, inverse)
    out = _empty_like(xp, (x.shape[0], y.shape[0]), x)
    for rows in _steps(x.shape[0], y.shape[0] * x.shape[1]):
        apart = x[rows][:, None, :] - y[None]
        out[rows] = ((apart @ inverse.T) * apart).sum(-1) ** 0.5
    return out


def _correlation(xp: Any, x: Array, y: Array, w: Array) -> Array:
    """1 - the cosine of what is left of rows when their mean is taken off."""
    x, y = _wide(xp, x), _wide(xp, y)
    share = 1 / x.shape[1] if w is None else _wide(xp, w) / w.sum()
    x, y = (one - (one * share).sum(-1)[:, None] for one in (x, y))
    root = 1.0 if w is None else _wide(xp, w) ** 0.5
    x, y = x * root, y * root
    found = _looped("dot", x, y, 0.0, None) if xp is np else None
    found = _matmul(xp, x, y) if found is None else found
    with np.errstate(invalid="ignore", divide="ignore"):
        found = found / (_lengths(xp, x) ** 0.5)[:, None] / _lengths(xp, y) ** 0.5
    return 1 - found.clip(-1, 1)


_FORMS: dict[str, Callable[..., Array]] = {
    "euclidean": _euclidean,
    "cosine": _cosine,
    "nan_euclidean": _nan_euclidean,
    "haversine": _haversine,
    "mahalanobis": _mahalanobis,
    "correlation": _correlation,
}


def _sets(xp: Any, x: Array, y: Array, metric: str, w: Array) -> Array:
    """From how much is in both sets, in one only, in none: by products, which are sums of what is
    there and so 0 where nothing is; a difference of weights would leave their rounding."""
    x, y = _wide(xp, x != 0), _wide(xp, y != 0)
    w = xp.ones_like(x[:1])[0] if w is None else _wide(xp, w)
    both, first = _matmul(xp, x * w, y), _matmul(xp, x * w, 1 - y)
    second, neither = _matmul(xp, (1 - x) * w, y), _matmul(xp, (1 - x) * w, 1 - y)
    either, total = first + second, w.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        match metric:
            case "dice":
                return either / (2 * both + either)
            case "jaccard":
                return either / xp.where(both + either == 0, 1, both + either)
            case "rogerstanimoto" | "sokalmichener":
                return 2 * either / (both + neither + 2 * either)
            case "russellrao":
                return (total - both) / total
            case "sokalsneath":
                return 2 * either / (both + 2 * either)
            case _:
                crossed = first * second
                zero = crossed == 0
                return xp.where(zero, 0, 2 * crossed / (both * neither + crossed + zero))


# --- ops --------------------------------------------------------------------------------------
#
# Rows of x are cut, rows of y are not: who has many of these takes them some at a time.


def _grain(*, grain: int, **params: Any) -> int:
    return grain


def _scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Of `tile`: wide and packed rows, and a few arrays as large as the distances."""
    (n, d), m = ins[0].shape, ins[1].shape[0]
    rows = 64 * (n + m + 16) * (d + 2) + 32 * sum(spec.n_elements for spec in ins[2:])
    n_arrays = 3 if params["metric"] in FEW_ARRAYS else 10
    return rows + 8 * (n_arrays * n * m + 6 * max(TEMPORARY_ELEMENTS, m * d)) + 4096


def _some_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Of `tile` for a few columns at a time, and rows of y in another order."""
    few, some = (
        Spec((min(spec.shape[0], most), spec.shape[1]), spec.dtype)
        for spec, most in zip(ins, (DISTANCE_ROWS, DISTANCE_COLUMNS), strict=False)
    )
    moved = ins[1].n_bytes + 64 * ins[1].shape[0] + 128 * ins[0].shape[0]
    return _scratch((few, some, *ins[2:]), outs, params) + moved + 2 * outs[0].n_bytes


def _call(
    name: str, x: Spec, y: Spec, others: Sequence[Spec | None], outs: Any, **params: Any
) -> Call:
    """Labels: 0 rows of x, 1 rows of y, 2 coordinates, 3 coordinates too, then what outputs have.

    `others` are operands with a number for each row of x (`own`) or of y (`codes`), and `extra`.
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ValueError(f"{name}: points of shape {x.shape} and {y.shape} have no distances")
    if params["metric"] not in METRICS:
        raise ValueError(f"{name}: {params['metric']!r} is none of {', '.join(METRICS)}")
    (n, d), m = x.shape, y.shape[0]
    extra = others[2] if len(others) > 2 else None
    check_sizes(params["metric"], params["role"], d, None if extra is None else extra.shape)
    places: dict[int, tuple[int, ...]] = {0: (0,), 1: (1,), 2: (2, 3)}
    inputs = [places[k][: spec.ndim] for k, spec in enumerate(others) if spec is not None]
    sizes = (n, m, d, d, *(size for _, tail in outs for size in tail))
    outputs, at = [], 4
    for _, tail in outs:
        outputs.append((0, *range(at, at + len(tail))))
        at += len(tail)
    uncut = frozenset(range(1, len(sizes)))
    form = AxisForm(sizes, ((0, 2), (1, 2), *inputs), tuple(outputs), uncut)
    widest = max(d, 1, *(size for _, tail in outs for size in tail))
    params["grain"] = min(max(m * d // 4096, 1), max((1 << 10) // widest, 1))
    specs = tuple(Spec((n, *tail), dtype) for dtype, tail in outs)
    return Call(form, specs, tuple(params.items()))


def _distances_kernel(
    xp: Any,
    x: Array,
    y: Array,
    *others: Array,
    out: Array,
    metric: str,
    p: float,
    role: str,
    owned: bool,
    grain: int,
) -> None:
    extra = others[-1] if role else None
    found = tile(xp, x, y, metric, p=p, extra=extra, role=role, out=out)
    if found is not out:
        out[...] = found
    if owned:
        _zero(xp, out, others[0])


def _zero(xp: Any, far: Array, own: Array) -> None:
    """A point is no distance from itself: row i is column own[i], if that is there."""
    found = xp.nonzero((own >= 0) & (own < far.shape[1]))
    rows = found[0] if xp is np else found[:, 0]
    far[rows, own[rows]] = 0


def _cases(rng: np.random.Generator) -> list[Any]:
    x, y = rng.standard_normal((13, 5)), rng.standard_normal((9, 5))
    weights, square = rng.uniform(0.5, 2, 5), rng.standard_normal((5, 5))
    none, own = np.full(13, -1), np.arange(13) - 2
    plain = [m for m in METRICS if m not in ("seuclidean", "mahalanobis", "haversine")]
    found: list[Any] = [((x, y, none), {"metric": metric}) for metric in plain]
    found += [((x[:, :2].copy(), y[:, :2].copy(), none), {"metric": "haversine"})]
    found += [((x, y, none, weights), {"metric": "seuclidean", "role": "V"})]
    found += [((x, y, own, square @ square.T), {"metric": "mahalanobis", "role": "VI"})]
    found += [
        ((x, y, own, weights), {"metric": m, "role": "w"}) for m in ("minkowski", "cityblock")
    ]
    found += [
        ((x.astype("f4"), y.astype("f4"), own), {"metric": m}) for m in ("euclidean", "cosine")
    ]
    found += [((x, y, own), {"metric": m}) for m in ("euclidean", "canberra")]
    found += [((x > 0, y > 0, none), {"metric": metric}) for metric in BOOLEAN]
    found += [((x, y, none), {"metric": "minkowski", "p": 3.0})]
    return found


def _oracle(
    x: Any, y: Any, own: Any, extra: Any = None, *, metric: str, p: float = 2.0, role: str = ""
) -> Any:
    """Row by row, without the loops in C."""
    x, y = np.asarray(x), np.asarray(y)
    if metric in _SUMS:
        found = _sum_coordinates(np, x, y, metric, p, extra)
    else:
        found = tile(np, x, y, metric, p=p, extra=extra, role=role)
    _zero(np, found, own)
    return found


@op(
    "mapped",
    kernel=_distances_kernel,
    grain=_grain,
    scratch_bytes=_scratch,
    cost=3.0,
    cases=lambda rng: (
        _cases(rng)
        + [((*args[:2], None, *args[3:]), named) for args, named in _cases(rng) if len(args) > 3]
    ),
    oracle=lambda x, y, own=None, extra=None, **named: _oracle(
        x, y, np.full(len(x), -1) if own is None else own, extra, **named
    ),
)
def _distances(
    x: Spec,
    y: Spec,
    own: Spec | None = None,
    extra: Spec | None = None,
    *,
    metric: str,
    p: float = 2.0,
    role: str = "",
) -> Call:
    """The distance of every row of x to every row of y.

    With `own`, row i of x is row own[i] of y (-1: none), and their distance is 0.
    """
    outs = ((metric_dtype(metric, x.dtype, y.dtype), (y.shape[0],)),)
    params = {"metric": metric, "p": float(p), "role": role, "owned": own is not None}
    return _call("_distances", x, y, (own, None, extra), outs, **params)


# --- the nearest ------------------------------------------------------------------------------


def _nearest_kernel(
    xp: Any,
    x: Array,
    y: Array,
    *extra: Array,
    out: Array,
    metric: str,
    p: float,
    role: str,
    grain: int,
) -> None:
    out[0][...], out[1][...] = np.inf, -1
    how = {"p": p, "extra": extra[0] if extra else None, "role": role}
    for at in range(0, x.shape[0], DISTANCE_ROWS):
        rows = slice(at, at + DISTANCE_ROWS)
        _keep_nearest(xp, x[rows], y, metric, how, out[0][rows], out[1][rows])


def _keep_nearest(
    xp: Any, x: Array, y: Array, metric: str, how: Any, value: Array, where: Array
) -> None:
    take = np.take_along_axis if xp is np else xp.take_along_dim
    for lo in range(0, y.shape[0], DISTANCE_COLUMNS):
        between_steps()
        far = tile(xp, x, y[lo : lo + DISTANCE_COLUMNS], metric, **how)
        here = far.argmin(1)
        least = take(far, here[:, None], 1)[:, 0]
        # NaN first, as NumPy's argmin has it, then the less, then the first
        better = (least < value) | (where < 0) | (xp.isnan(least) & ~xp.isnan(value))
        value[...] = xp.where(better, least, value)
        where[...] = xp.where(better, here + lo, where)


def _nearest_oracle(x: Any, y: Any, extra: Any = None, **named: Any) -> Any:
    far = _wide(np, _oracle(x, y, np.full(len(x), -1), extra, **named))
    return far.min(1), far.argmin(1)


@op(
    "mapped",
    kernel=_nearest_kernel,
    grain=_grain,
    scratch_bytes=_some_scratch,
    cost=3.0,
    cases=lambda rng: [
        ((*args[:2], *args[3:]), named)
        for args, named in _cases(rng)
        if named["metric"] not in BOOLEAN
    ],
    oracle=_nearest_oracle,
)
def _nearest_by(
    x: Spec, y: Spec, extra: Spec | None = None, *, metric: str, p: float = 2.0, role: str = ""
) -> Call:
    """The distance of each row of x to the nearest row of y, and which that is: the first one."""
    params = {"metric": metric, "p": float(p), "role": role}
    outs = ((float64, ()), (int64, ()))
    return _call("_nearest_by", x, y, (None, None, extra), outs, **params)


# --- sums by label ----------------------------------------------------------------------------


def _sums_kernel(
    xp: Any,
    x: Array,
    y: Array,
    own: Array,
    codes: Array,
    *extra: Array,
    out: Array,
    metric: str,
    p: float,
    role: str,
    grain: int,
) -> None:
    """Columns in the order of their codes, so that each code is one run of them."""
    if xp is not np and metric in on_gpu.KINDS and not role and may_launch(x, y, codes):
        on_gpu.sums_by_label(xp, x, y, own, codes, metric, out)
        return
    out[...] = 0
    order = np.argsort(codes, kind="stable") if xp is np else xp.argsort(codes, stable=True)
    y, codes = y[order], codes[order]
    place = _empty_like(xp, tuple(order.shape), order, order.dtype)
    place[order] = xp.arange(len(order)) if xp is np else xp.arange(len(order), device=order.device)
    there = (own >= 0) & (own < len(order))
    mine = xp.where(there, place[xp.where(there, own, 0)], -1)
    how = {"p": p, "extra": extra[0] if extra else None, "role": role}
    for at in range(0, x.shape[0], DISTANCE_ROWS):
        rows = slice(at, at + DISTANCE_ROWS)
        for lo in range(0, len(order), DISTANCE_COLUMNS):
            between_steps()
            some = slice(lo, lo + DISTANCE_COLUMNS)
            here = xp.where(mine[rows] >= lo, mine[rows] - lo, -1)
            _add_runs(xp, x[rows], y[some], codes[some], here, metric, how, out[rows])


def _add_runs(
    xp: Any, x: Array, y: Array, codes: Array, own: Array, metric: str, how: Any, out: Array
) -> None:
    """Add the distances to columns of each code; a row is no distance from itself."""
    if xp is not np:
        far = tile(xp, x, y, metric, **how)
        _zero(xp, far, own)
        out.index_add_(1, codes, _wide(xp, far))
        return
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    if metric == "euclidean" and _add_euclidean(x, y, codes, starts, own, out):
        return
    far = tile(xp, x, y, metric, **how)
    _zero(xp, far, own)
    out[:, codes[starts]] += np.add.reduceat(far, starts, axis=1, dtype=float64)


def _add_euclidean(x: Array, y: Array, codes: Array, starts: Array, own: Array, out: Array) -> bool:
    add = loop("distances", "run_sums", float64)
    if add is None:
        return False
    is_single = metric_dtype("euclidean", x.dtype, y.dtype) == float32
    x, y = _wide(np, x), _wide(np, y)
    own = np.ascontiguousarray(np.where(own < len(y), own, -1))
    ends = np.append(starts[1:], len(y))
    made = np.ascontiguousarray(out)
    found = add(
        _matmul(np, x, y), len(x), len(y), _lengths(np, x), _lengths(np, y), ends, codes[starts],
        len(starts), own, int(is_single), made, made.shape[1],
    )  # fmt: skip
    if found < 0:
        raise MemoryError("_distance_sums: no memory for a row of distances")
    if made is not out:
        out[...] = made
    return True


def _sums_on_gpu(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Of the kernel that adds up by label, and of `tile` for the metrics that it has not."""
    if params["metric"] not in on_gpu.KINDS or params["role"]:
        return _some_scratch(ins, outs, params)
    (n, d), m, n_codes = ins[0].shape, ins[1].shape[0], outs[0].shape[1]
    return max(_some_scratch(ins, outs, params), on_gpu.scratch_of(n, m, d, n_codes))


def _sums_oracle(
    x: Any, y: Any, own: Any, codes: Any, extra: Any = None, *, n_codes: int, **named: Any
) -> Any:
    far = _wide(np, _oracle(x, y, own, extra, **named))
    return np.stack([far[:, codes == code].sum(1) for code in range(n_codes)], 1)


@op(
    "mapped",
    kernel=_sums_kernel,
    grain=_grain,
    scratch_bytes=_some_scratch,
    scratches={"cuda": _sums_on_gpu},
    cost=3.0,
    cases=lambda rng: [
        ((*args[:3], rng.integers(0, 3, len(args[1])), *args[3:]), {"n_codes": 3, **named})
        for args, named in _cases(rng)
        if named["metric"] not in ("braycurtis", "dice", "yule")
    ],
    oracle=_sums_oracle,
)
def _distance_sums(
    x: Spec,
    y: Spec,
    own: Spec,
    codes: Spec,
    extra: Spec | None = None,
    *,
    n_codes: int,
    metric: str,
    p: float = 2.0,
    role: str = "",
) -> Call:
    """For each row of x the sum of the distances to the rows of y of each code (0 to n_codes - 1).

    Row i of x is row own[i] of y (-1: none), whose distance is 0.
    """
    params = {"metric": metric, "p": float(p), "role": role}
    outs = ((float64, (n_codes,)),)
    return _call("_distance_sums", x, y, (own, codes, extra), outs, **params)


# --- sums of rows by label --------------------------------------------------------------------


def _group_kernel(xp: Any, x: Array, codes: Array, *, out: Array) -> None:
    out[...] = 0
    if xp is np:
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
        out[codes[starts]] += np.add.reduceat(x[order], starts, axis=0, dtype=float64)
    else:
        out.index_add_(0, codes, _wide(xp, x))


@op(
    "contraction",
    kernel=_group_kernel,
    combine=SUM,
    scratch_bytes=lambda ins, outs, params: (
        3 * ins[0].n_bytes + 64 * ins[1].shape[0] + 3 * outs[0].n_bytes + 4096
    ),
    cases=lambda rng: [
        ((rng.standard_normal((23, 4)).astype(kind), rng.integers(0, 5, 23), 6), {})
        for kind in ("f4", "f8")
    ],
    oracle=lambda x, codes, n_codes: np.stack(
        [x[codes == code].sum(0, dtype=float64) for code in range(n_codes)]
    ),
)
def _group_sums(x: Spec, codes: Spec, n_codes: int) -> Call:
    """The sum of the rows of each code (0 to n_codes - 1), in float64."""
    n, d = x.shape
    form = AxisForm((n, d, n_codes), ((0, 1), (0,)), ((2, 1),), frozenset((1, 2)))
    return Call(form, (Spec((n_codes, d), float64),))
