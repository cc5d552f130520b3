"""Generated code on CPUs: python -m benchmarks.bench_generated [--only softmax] [--peers jax].

Programs of elementwise work, reductions and stencils, written once in NumPy's words; torch.compile
and JAX get the same functions. Operands are in memory, results are left where they are made.
`--peers numpy torch torch.compile jax --pairs 15 --together` is the whole table (7 minutes or so on
a quiet machine; a peer that is not installed is left out); `torch.compile` needs a C++ compiler.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.bench_core import with_numpy, with_torch, with_us

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "Is generated code as fast as what torch.compile makes of the same program?"

CORES = str(len(os.sched_getaffinity(0)))
PEERS: dict[str, dict[str, str]] = {
    "infinitensor": {},
    "numpy": {"OPENBLAS_NUM_THREADS": CORES, "OMP_NUM_THREADS": CORES},
    "torch": {"OMP_NUM_THREADS": CORES, "MKL_NUM_THREADS": CORES},
    "torch.compile": {"OMP_NUM_THREADS": CORES, "MKL_NUM_THREADS": CORES},
}
if importlib.util.find_spec("jax") is not None:
    PEERS["jax"] = {"JAX_PLATFORMS": "cpu"}
CASES: list[dict[str, Any]] = [
    {"name": "chain with sum", "shapes": [[100_000_000]], "dtype": "float32"},
    {"name": "Black-Scholes", "shapes": [[20_000_000]] * 3, "dtype": "float32"},
    {"name": "softmax rows", "shapes": [[20_000, 1000]], "dtype": "float32"},
    {"name": "layer norm", "shapes": [[20_000, 1000]], "dtype": "float32"},
    {"name": "mean and variance", "shapes": [[100_000_000]], "dtype": "float32"},
    {"name": "rows of length one", "shapes": [[20_000, 1000]], "dtype": "float32"},
    {"name": "nearest center", "shapes": [[200_000, 64], [100, 64]], "dtype": "float32"},
    {"name": "n-body", "shapes": [[4000, 3], [4000]], "dtype": "float32"},
    {"name": "column means", "shapes": [[200_000, 100]], "dtype": "float32"},
    {"name": "jacobi 700", "shapes": [[700, 700]], "dtype": "float64"},
    {"name": "jacobi 2800", "shapes": [[2800, 2800]], "dtype": "float64"},
]
STEPS = 100


def chain_with_sum(xp: Any, x: Any) -> Any:
    return (xp.sqrt(xp.abs(x) * 2 + 1) - x * 0.5).sum()


def normal_share(xp: Any, d: Any) -> Any:
    """The normal distribution function, by a polynomial and exp."""
    k = 1 / (1 + 0.2316419 * xp.abs(d))
    w = 1.330274429 * k - 1.821255978
    w = (((w * k + 1.781477937) * k - 0.356563782) * k + 0.319381530) * k
    tail = 0.39894228 * xp.exp(-0.5 * d * d) * w
    return xp.where(d > 0, 1 - tail, tail)


def black_scholes(xp: Any, price: Any, strike: Any, years: Any) -> Any:
    spread = 0.3 * xp.sqrt(years)
    d = (xp.log(price / strike) + 0.065 * years) / spread
    now = strike * xp.exp(-0.02 * years)
    return price * normal_share(xp, d) - now * normal_share(xp, d - spread)


def softmax_rows(xp: Any, x: Any) -> Any:
    raised = xp.exp(x - xp.amax(x, 1)[:, None])
    return raised / raised.sum(1)[:, None]


def layer_norm(xp: Any, x: Any) -> Any:
    mean, variance = x.mean(1), variance_of(xp, x, 1)
    return (x - mean[:, None]) / xp.sqrt(variance + 1e-5)[:, None]


def rows_of_length_one(xp: Any, x: Any) -> Any:
    return x / xp.sqrt((x * x).sum(1))[:, None]


def nearest_center(xp: Any, x: Any, centers: Any) -> Any:
    """The assignment of k-means, and how far it is in all."""
    far = (centers * centers).sum(1) - 2 * (x @ centers.T)
    return far.argmin(1), xp.amin(far, 1).sum()


def n_body(xp: Any, position: Any, mass: Any) -> Any:
    """The accelerations of bodies that attract each other."""
    apart = position[:, None, :] - position[None, :, :]
    pull = mass[None, :] * ((apart * apart).sum(-1) + 1e-4) ** -1.5
    return (apart * pull[:, :, None]).sum(1)


def variance_of(xp: Any, x: Any, axis: Any = None) -> Any:
    return xp.var(x, axis, correction=0) if xp.__name__ == "torch" else x.var(axis)


def mean_and_variance(xp: Any, x: Any) -> Any:
    return x.mean(), variance_of(xp, x)


def column_means(xp: Any, x: Any) -> Any:
    return (x * x + 1).mean(0)


def jacobi(xp: Any, x: Any) -> Any:
    for _ in range(STEPS):
        around = x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1]
        x[1:-1, 1:-1] = 0.25 * around
    return x


PROGRAMS: dict[str, Callable[..., Any]] = {
    "chain with sum": chain_with_sum,
    "Black-Scholes": black_scholes,
    "softmax rows": softmax_rows,
    "layer norm": layer_norm,
    "mean and variance": mean_and_variance,
    "rows of length one": rows_of_length_one,
    "nearest center": nearest_center,
    "n-body": n_body,
    "column means": column_means,
    "jacobi 700": jacobi,
    "jacobi 2800": jacobi,
}


def step(xp: Any, x: Any) -> Any:
    """One step of jacobi, for compilers: they would unroll a hundred."""
    around = x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1]
    if xp.__name__ == "jax.numpy":
        return x.at[1:-1, 1:-1].set(0.25 * around)
    x[1:-1, 1:-1] = 0.25 * around
    return x


def compiled(xp: Any, compiler: Any, program: Callable[..., Any]) -> Callable[..., Any]:
    once = compiler(lambda *arrays: (step if program is jacobi else program)(xp, *arrays))
    if program is not jacobi:
        return lambda xp, *arrays: once(*arrays)

    def steps(xp: Any, x: Any) -> Any:
        for _ in range(STEPS):
            x = once(x)
        return x

    return steps


def with_jax(arrays: list[Any], device: str) -> tuple[Any, list[Any], Callable[[Any], None]]:
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax.numpy, [jax.device_put(array) for array in arrays], jax.block_until_ready


def setup(
    peer: str, case: dict[str, Any], device: str
) -> tuple[Callable[[], None], Callable[[], float]]:
    """The operands in the peer's own arrays; one call runs the program to its end."""
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, dtype=case["dtype"]) + 0.5 for shape in case["shapes"]]
    arrays = [array.astype(case["dtype"], copy=False) for array in arrays]
    makers = {"numpy": with_numpy, "infinitensor": with_us, "jax": with_jax}
    xp, ours, finish = makers.get(peer, with_torch)(arrays, device)
    program = PROGRAMS[case["name"]]
    if peer == "torch.compile":
        program = compiled(xp, xp.compile, program)
    elif peer == "jax":
        import jax

        program = compiled(xp, jax.jit, program)
    last: list[Any] = []

    def run() -> None:
        result = program(xp, *ours)
        finish(result)
        last[:] = [result]

    def check() -> float:
        parts = last[0] if isinstance(last[0], tuple) else (last[0],)
        return sum(float((part * part).sum()) for part in parts)

    return run, check


if __name__ == "__main__":
    import sys

    from benchmarks.harness import main

    raise SystemExit(main("bench_generated", sys.argv[1:]))
