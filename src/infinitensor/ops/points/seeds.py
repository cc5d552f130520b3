"""The rows that k-means++ takes one after another, from given draws, as one task over all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import int64
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops.points import seeds_triton as on_gpu
from infinitensor.ops.points.centres_triton import launch, may_launch
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Sequence


def even_draws(draws: Any, n: int) -> Any:
    """The rows that NumPy's `choice` takes for draws, among n that weigh the same: floor(u n).

    None where two are the same, or where rounding of the running sum of the weights could have
    moved the border that is next to one.
    """
    place = np.asarray(draws) * n
    row = np.floor(place)
    slack = 4 * (n + 8.0) ** 2 * np.finfo(float).eps
    is_sure = (place - row > slack) & (place - row < 1 - slack)
    found = bool(np.all(is_sure)) and len(np.unique(row)) == row.size
    return row.astype(np.int64) if found else None


def _kernel(xp: Any, x: Any, shift: Any, draws: Any, first: Any, *weights: Any, out: Any) -> None:
    if xp is not np and draws.shape[1] <= on_gpu.MOST_TRIALS and may_launch(x, shift, *weights):

        def run(x: Any, shift: Any, draws: Any, first: Any, *rest: Any) -> None:
            *weights, out = rest
            on_gpu.seeds(xp, x, shift, draws, first, out, *weights)

        launch(run, (x, shift, draws, first, *weights), (out,))
        return
    closest: Any = None
    seed = int(first[0])
    for step in range(len(draws)):
        out[step] = seed
        far = _far(xp, x, shift, seed)
        closest = far if closest is None else xp.minimum(closest, far)
        if step + 1 < len(draws):
            seed = _best(xp, x, shift, closest, draws[step + 1], weights)


def _far(xp: Any, x: Any, shift: Any, seed: int) -> Any:
    """Squared distances to a row, of the rows' dtype."""
    points = (x - shift).astype(np.float64) if xp is np else (x - shift).to(xp.float64)
    far = ((points - points[seed]) ** 2).sum(-1)
    return far.astype(x.dtype) if xp is np else far.to(x.dtype)


def _best(xp: Any, x: Any, shift: Any, closest: Any, draws: Any, weights: Any) -> int:
    """Of the rows that are drawn the one that leaves least; of equals the first drawn."""

    def weigh(left: Any) -> Any:
        wide = left.astype(np.float64) if xp is np else left.to(xp.float64)
        return wide * weights[0] if weights else wide

    running = xp.cumsum(weigh(closest), 0)
    tried = xp.searchsorted(running, draws * running[-1]).clip(0, len(x) - 1)
    left = [float(weigh(xp.minimum(closest, _far(xp, x, shift, int(row)))).sum()) for row in tried]
    return int(tried[int(np.argmin(left))])


def _scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Of the plain kernel: a few copies in float64."""
    (n, d), (k, n_trials) = ins[0].shape, ins[2].shape
    return 8 * n * (4 * d + 8) + 64 * (k + 1) * (n_trials + 1) + 4096


def _scratch_on_gpu(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    (n, d), (k, n_trials) = ins[0].shape, ins[2].shape
    if n_trials > on_gpu.MOST_TRIALS or not n * d * n_trials:
        return _scratch(ins, outs, params)
    copies = sum(spec.n_bytes for spec in (*ins, *outs))
    return copies + on_gpu.scratch_of(n, d, k, n_trials)


def _cases(rng: np.random.Generator) -> list[Any]:
    found: list[Any] = []
    for dtype, n, d in ((np.float64, 700, 3), (np.float32, 90, 20), (np.float64, 5, 1)):
        x = rng.normal(size=(n, d)).astype(dtype)
        draws, first = rng.uniform(size=(5, 3)), np.array([n // 2])
        weights = rng.uniform(0.5, 2, n).astype(dtype)
        found += [((x, x[0] * 0, draws, first), {}), ((x, x[0], draws, first, weights), {})]
    return found


def _oracle(x: Any, shift: Any, draws: Any, first: Any, weights: Any = None) -> Any:
    points = (x - shift).astype(np.float64)
    far = ((points[:, None] - points) ** 2).sum(-1).astype(x.dtype).astype(np.float64)
    weights = np.ones(len(x)) if weights is None else weights.astype(np.float64)
    chosen = [int(first[0])]
    for some in draws[1:]:
        left = far[:, chosen].min(1)
        running = np.cumsum(left * weights)
        tried = np.minimum(np.searchsorted(running, some * running[-1]), len(x) - 1)
        after = [np.minimum(left, far[:, row]) @ weights for row in tried]
        chosen.append(int(tried[int(np.argmin(after))]))
    return np.array(chosen)


@op(
    "mapped",
    kernel=_kernel,
    scratch_bytes=_scratch,
    scratches={"cuda": _scratch_on_gpu},
    cost=3.0,
    cases=_cases,
    oracle=_oracle,
    same="equal",
)
def _seeds(x: Spec, shift: Spec, draws: Spec, first: Spec, weights: Spec | None = None) -> Call:
    """The numbers of rows that are taken as seeds, `first` and then one for each row of draws.

    Of the rows at which the running sum of what is left (each row's squared distance to the nearest
    seed, times its weight) reaches a draw times all of it, the one that would leave least is taken.
    The first row of draws says nothing.
    """
    (n, d), (k, n_trials) = x.shape, draws.shape
    weighing = ((0,),) if weights is not None else ()
    form = AxisForm(
        (n, d, k, n_trials, 1),
        ((0, 1), (1,), (2, 3), (4,), *weighing),
        ((2,),),
        frozenset(range(5)),
    )
    return Call(form, (Spec((k,), int64),))
