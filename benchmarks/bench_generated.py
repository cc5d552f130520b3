"""Generated code on the CPU: python -m benchmarks.bench_generated [--only softmax] [--peers jax].

Programs of elementwise work, reductions and stencils, written once in NumPy's words; torch.compile
and JAX get the same functions. `torch.compile` needs a C++ compiler. All takes about ten minutes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import libraries
from benchmarks.libraries import Case, Xp, many, uniform, written

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "Is generated code as fast as what torch.compile and JAX make of the same program?"
PEERS = libraries.PEERS


def chain_with_sum(xp: Xp, x: Any) -> Any:
    return (xp.sqrt(xp.abs(x) * 2 + 1) - x * 0.5).sum()


def normal_share(xp: Xp, d: Any) -> Any:
    """The normal distribution function, by a polynomial and exp."""
    k = 1 / (1 + 0.2316419 * xp.abs(d))
    w = 1.330274429 * k - 1.821255978
    w = (((w * k + 1.781477937) * k - 0.356563782) * k + 0.319381530) * k
    tail = 0.39894228 * xp.exp(-0.5 * d * d) * w
    return xp.where(d > 0, 1 - tail, tail)


def black_scholes(xp: Xp, price: Any, strike: Any, years: Any) -> Any:
    spread = 0.3 * xp.sqrt(years)
    d = (xp.log(price / strike) + 0.065 * years) / spread
    now = strike * xp.exp(-0.02 * years)
    return price * normal_share(xp, d) - now * normal_share(xp, d - spread)


def highest(xp: Xp, x: Any, axis: int) -> Any:
    return x.max(axis) if xp.__name__ == "dask.array" else xp.amax(x, axis)


def lowest(xp: Xp, x: Any, axis: int) -> Any:
    return x.min(axis) if xp.__name__ == "dask.array" else xp.amin(x, axis)


def softmax_rows(xp: Xp, x: Any) -> Any:
    raised = xp.exp(x - highest(xp, x, 1)[:, None])
    return raised / raised.sum(1)[:, None]


def variance_of(xp: Xp, x: Any, axis: Any = None) -> Any:
    return xp.var(x, axis, correction=0) if xp.__name__ == "torch" else x.var(axis)


def layer_norm(xp: Xp, x: Any) -> Any:
    mean, variance = x.mean(1), variance_of(xp, x, 1)
    return (x - mean[:, None]) / xp.sqrt(variance + 1e-5)[:, None]


def mean_and_variance(xp: Xp, x: Any) -> Any:
    return x.mean(), variance_of(xp, x)


def rows_of_length_one(xp: Xp, x: Any) -> Any:
    return x / xp.sqrt((x * x).sum(1))[:, None]


def nearest_center(xp: Xp, x: Any, centers: Any) -> Any:
    """The assignment of k-means, and how far it is in all."""
    far = (centers * centers).sum(1) - 2 * (x @ centers.T)
    return far.argmin(1), lowest(xp, far, 1).sum()


def n_body(xp: Xp, position: Any, mass: Any) -> Any:
    """The accelerations of bodies that attract each other."""
    apart = position[:, None, :] - position[None, :, :]
    pull = mass[None, :] * ((apart * apart).sum(-1) + 1e-4) ** -1.5
    return (apart * pull[:, :, None]).sum(1)


def column_means(xp: Xp, x: Any) -> Any:
    return (x * x + 1).mean(0)


def jacobi_step(xp: Xp, x: Any) -> Any:
    around = x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1]
    return written(xp, x, (slice(1, -1), slice(1, -1)), 0.25 * around)


def jacobi_step_of_dask(xp: Xp, x: Any) -> Any:
    """Each chunk with a row of its neighbours around it."""
    return x.map_overlap(lambda block: jacobi_step(np, block.copy()), depth=1, boundary="none")


def jacobi(n: int) -> Case:
    """A hundred steps; whatever compiles gets one of them, a hundred would be unrolled."""
    return Case(
        uniform(n, n, dtype="f8"),
        jacobi_step,
        times=100,
        writes=True,
        dask=jacobi_step_of_dask,
    )


ROWS: dict[str, Case] = {
    "chain with sum": Case(uniform(100_000_000), chain_with_sum),
    "Black-Scholes": Case(many(*[uniform(20_000_000)] * 3), black_scholes),
    "softmax rows": Case(uniform(20_000, 1000), softmax_rows),
    "layer norm": Case(uniform(20_000, 1000), layer_norm),
    "mean and variance": Case(uniform(100_000_000), mean_and_variance),
    "rows of length one": Case(uniform(20_000, 1000), rows_of_length_one),
    "nearest center": Case(many(uniform(200_000, 64), uniform(100, 64)), nearest_center),
    "n-body": Case(
        many(uniform(4000, 3), uniform(4000)),
        n_body,
        dask=lambda xp, position, mass: n_body(xp, position.rechunk((500, 3)), mass.rechunk(500)),
    ),
    "column means": Case(uniform(200_000, 100), column_means),
    "jacobi 700": jacobi(700),
    "jacobi 2800": jacobi(2800),
}
CASES = libraries.cases(ROWS)


def setup(
    peer: str, case: dict[str, Any], device: str
) -> tuple[Callable[[], None], Callable[[], float]]:
    return libraries.setup(ROWS[case["name"]], peer, device)


if __name__ == "__main__":
    from benchmarks.harness import main

    raise SystemExit(main("bench_generated", sys.argv[1:], together=True))
