"""Lloyd's iterations as one task over all rows: what a GPU does without going back to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import int64
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops.points import centres
from infinitensor.ops.points import lloyd_triton as on_gpu
from infinitensor.ops.points.centres_triton import launch, may_launch
from infinitensor.ops.points.lloyd_triton import GOES_ON, HAS_EMPTY, IS_OVER
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = Any


def _kernel(
    xp: Any,
    x: Array,
    shift: Array,
    scale: Array,
    centers: Array,
    tol: Array,
    *weights: Array,
    out: tuple[Array, Array, Array],
    max_iter: int,
) -> None:
    if xp is not np and may_launch(x, shift, scale, centers, tol, *weights):

        def run(
            x: Array, shift: Array, scale: Array, centers: Array, tol: Array, *rest: Array
        ) -> None:
            *weighing, labels, moved, state = rest
            made, weight = (labels, moved, state), weighing[0] if weighing else None
            on_gpu.iterate(xp, x, shift, scale, centers, tol, made, weight, max_iter=max_iter)

        launch(run, (x, shift, scale, centers, tol, *weights), out)
        return
    labels, moved, state = out
    labels[...], moved[...], state[...] = -1, centers, GOES_ON
    for step in range(1, max_iter + 1):
        new = centres._plain_nearest(xp, x, shift, moved)[0]
        n_changed = int((new != labels).sum())
        labels[...] = new
        means = _means(xp, x, shift, scale, labels, len(centers), *weights)
        state[1] = step
        if means is None:
            state[0] = HAS_EMPTY
            return
        way = float(((means - moved) ** 2).sum())
        moved[...] = means
        if n_changed == 0 or way <= float(tol[0]):
            state[0] = IS_OVER
            break
    labels[...] = centres._plain_nearest(xp, x, shift, moved)[0]


def _means(
    xp: Any, x: Array, shift: Array, scale: Array, labels: Array, k: int, *weights: Array
) -> Array | None:
    """The mean of the rows of each label; None where there is one without rows."""
    q = centres._quanta(xp, x - shift, scale, *weights)
    like = {} if xp is np else {"device": x.device}
    sums = xp.zeros((k, q.shape[1]), dtype=xp.int64, **like)
    centres._add_rows(xp, sums, centres._as(xp, labels, np.int64), q)
    weight = centres._wide(xp, sums[:, -2]) / scale[-1]
    if not bool(((sums[:, -1] != 0) & (weight > 0)).all()):
        return None
    made = centres._wide(xp, sums[:, :-2]) / scale[:-1] * (1.0 / weight)[:, None]
    return centres._as(xp, made, np.dtype(str(x.dtype).removeprefix("torch.")))


def _scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Of the plain kernel: a few copies of the rows in float64."""
    (n, d), k = ins[0].shape, ins[3].shape[0]
    centred = (ins[0], ins[1], ins[3])
    plain = centres._plain_scratch(centres.ELEMENTS_AT_ONCE_ON_GPU, centred, outs)
    return plain + 64 * n * (d + 4) + 64 * (k + 1) * (d + 4)


def _scratch_on_gpu(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    if not all(spec.n_elements for spec in ins):
        return _scratch(ins, outs, params)
    (n, d), k = ins[0].shape, ins[3].shape[0]
    x, shift, scale, centers, _, *weights = ins
    near = centres._near_on_gpu((x, shift, centers), outs, params)
    made = (Spec((k + 1, d + 2), int64),)
    sums = centres._sums_on_gpu((x, shift, scale, outs[0], outs[0], *weights), made, params)
    return near + sums + on_gpu.scratch_of(n, d, k)


def _cases(rng: np.random.Generator) -> list[Any]:
    found: list[Any] = []
    for dtype, n, d, k in (
        (np.float64, 200, 3, 4),
        (np.float32, 150, 20, 2),
        (np.float64, 90, 2, 9),
    ):
        x = (rng.normal(size=(n, d)) + 4 * rng.integers(0, k, (n, 1))).astype(dtype)
        scale, tol = np.full(d + 1, 2.0**36), np.array([0.0])
        shift = x.mean(0, dtype=dtype)
        given = (x, shift, scale, x[:k] - shift, tol)
        weights = rng.uniform(0.5, 2, n).astype(dtype)
        found += [(given, {"max_iter": 30}), ((*given, weights), {"max_iter": 30})]
        found += [(given, {"max_iter": 2}), ((*given[:4], tol + 0.5), {"max_iter": 30})]
    far = found[0][0][3].copy()
    far[1] = 1e6  # no row is nearest to it
    return [*found, ((*found[0][0][:3], far, np.array([0.0])), {"max_iter": 5})]


def _oracle(
    x: Any, shift: Any, scale: Any, centers: Any, tol: Any, weights: Any = None, *, max_iter: int
) -> Any:
    points = (x - shift).astype(np.float64)
    weighs = np.ones(len(x)) if weights is None else weights.astype(np.float64)
    labels = np.full(len(x), -1, np.int32)

    def nearest() -> Any:
        wide = centers.astype(np.float64)
        return ((points[:, None] - wide) ** 2).sum(-1).argmin(1).astype(np.int32)

    for step in range(1, max_iter + 1):
        new = nearest()
        n_changed, labels = np.count_nonzero(new != labels), new
        if len(np.unique(labels)) < len(centers):
            return labels, centers, np.array([HAS_EMPTY, step])
        whole = np.rint(weighs * scale[-1]) / scale[-1]
        hot = (labels[:, None] == np.arange(len(centers))) * whole[:, None]
        q = np.rint(points * weighs[:, None] * scale[:-1]) / scale[:-1]
        sums = (labels[:, None] == np.arange(len(centers))).T.astype(float) @ q
        means = (sums * (1 / hot.sum(0))[:, None]).astype(x.dtype)
        way, centers = float(((means - centers) ** 2).sum()), means
        if n_changed == 0 or way <= tol[0]:
            return nearest(), centers, np.array([IS_OVER, step])
    return nearest(), centers, np.array([GOES_ON, max_iter])


@op(
    "mapped",
    kernel=_kernel,
    scratch_bytes=_scratch,
    scratches={"cuda": _scratch_on_gpu},
    cost=4.0,
    cases=_cases,
    oracle=_oracle,
)
def _lloyd(
    x: Spec,
    shift: Spec,
    scale: Spec,
    centers: Spec,
    tol: Spec,
    weights: Spec | None = None,
    *,
    max_iter: int,
) -> Call:
    """Labels, centres and how it ended, with the iterations that took: Lloyd's from given centres.

    It is over when no label changes or the squared ways of all centres are at most `tol`; labels
    are then those of the last centres. Where no row has a label it ends with the centres before.
    """
    (n, d), k = x.shape, centers.shape[0]
    weighing = ((0,),) if weights is not None else ()
    form = AxisForm(
        (n, d, k, d + 1, 1, 2),
        ((0, 1), (1,), (3,), (2, 1), (4,), *weighing),
        ((0,), (2, 1), (5,)),
        frozenset(range(6)),
    )
    outs = (Spec((n,), np.dtype(np.int32)), Spec((k, d), x.dtype), Spec((2,), int64))
    return Call(form, outs, (("max_iter", int(max_iter)),))
