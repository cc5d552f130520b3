"""Large programs on a GPU against torch, torch.compile, CuPy, JAX: python -m benchmarks.bench_gpu.

Every library has a process of its own, with its own copy of the operands on the GPU, and they take
turns (in one process torch.compile alone makes all other Python slower). `--cold` measures the
first call of a fresh process with empty caches, for us and for torch.compile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks import bench_gpu
from benchmarks.harness import (
    CHECK_TOLERANCE,
    RESULTS,
    ROOT,
    Side,
    machine,
    median_ratio,
    start,
    take_warm_turns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.harness import Worker

OTHERS = ("torch", "torch.compile", "cupy", "jax")
US = "infinitensor"
FUSED = "infinitensor, fused"
"""We with `config.rounding = "fused"`, as torch.compile and JAX round: shown beside, where there is
much to round."""
PEERS: dict[str, dict[str, str]] = {
    name: {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} for name in (US, *OTHERS)
}
PEERS[FUSED] = {"INFINITENSOR_ROUNDING": "fused"}


# One program, written once for all ----------------------------------------------------------------


def chain_sum(xp: Any, x: Any, y: Any) -> Any:
    return ((x * 2 + xp.sin(y)) ** 2).sum()


def triad(xp: Any, x: Any, y: Any) -> Any:
    return x + 3 * y


def normal_cdf(xp: Any, x: Any) -> Any:
    """Abramowitz and Stegun 26.2.17: every library has what it takes."""
    k = 1 / (1 + 0.2316419 * xp.abs(x))
    poly = k * (
        0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429)))
    )
    tail = 0.3989422804 * xp.exp(-0.5 * x * x) * poly
    return xp.where(x > 0, 1 - tail, tail)


def black_scholes(xp: Any, price: Any, strike: Any, years: Any) -> Any:
    spread = 0.3 * xp.sqrt(years)
    d1 = (xp.log(price / strike) + (0.02 + 0.5 * 0.3 * 0.3) * years) / spread
    d2 = d1 - spread
    return price * normal_cdf(xp, d1) - strike * xp.exp(-0.02 * years) * normal_cdf(xp, d2)


def mean_and_variance(xp: Any, x: Any) -> Any:
    variance = x.var(0, correction=0) if xp.__name__ == "torch" else x.var(0)
    return x.mean(0), variance


def stencil(xp: Any, grid: Any) -> Any:
    inner = (
        grid[1:-1, 1:-1] + grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
    ) * 0.2
    if xp.__name__ == "jax.numpy":
        return grid.at[1:-1, 1:-1].set(inner)
    grid[1:-1, 1:-1] = inner
    return grid


def newton(xp: Any, x: Any, y: Any, b: Any) -> Any:
    p = 1 / (1 + xp.exp(-(x @ b)))
    weight = p * (1 - p)
    gradient = x.T @ (y - p)
    hessian = x.T @ (x * weight[:, None])
    return b + xp.linalg.solve(hessian, gradient)


def sort(xp: Any, x: Any) -> Any:
    return xp.sort(x).values if xp.__name__ == "torch" else xp.sort(x)


def cumsum(xp: Any, x: Any) -> Any:
    return xp.cumsum(x, 0)


def mask(xp: Any, x: Any) -> Any:
    return x[x > 0.5]


def fft(xp: Any, x: Any) -> Any:
    return xp.fft.fft(x)


def matmul(xp: Any, x: Any, y: Any) -> Any:
    return x @ y


def layers(xp: Any, x: Any, weights: Any) -> Any:
    """Many small kernels: what counts is how fast they are started."""
    zero = xp.zeros_like(x)
    for _ in range(20):
        x = xp.maximum(x @ weights, zero) * 0.5 + x
    return x


# name: (program, shapes, dtype, peers that make sense)
PROGRAMS: dict[str, tuple[Callable[..., Any], list[list[int]], str, Sequence[str]]] = {
    "chain with sum 5e8": (chain_sum, [[500_000_000]] * 2, "float32", (FUSED, *OTHERS)),
    "triad 5e8": (triad, [[500_000_000]] * 2, "float32", OTHERS),
    "Black-Scholes 2e8": (black_scholes, [[200_000_000]] * 3, "float32", (FUSED, *OTHERS)),
    "mean and variance 1e7x50": (
        mean_and_variance, [[10_000_000, 50]], "float32", ("torch", "torch.compile", "jax"),
    ),
    "stencil 16384x16384": (stencil, [[16384, 16384]], "float32", OTHERS),
    "Newton step 1e7x100": (newton, [[10_000_000, 100], [10_000_000], [100]], "float32", OTHERS),
    "sort 1e8": (sort, [[100_000_000]], "float32", ("torch", "cupy", "jax")),
    "cumsum 5e8": (cumsum, [[500_000_000]], "float32", ("torch", "cupy", "jax")),
    "mask 1e8": (mask, [[100_000_000]], "float32", ("torch", "cupy")),
    "FFT 2**28": (fft, [[1 << 28]], "complex64", ("torch", "cupy", "jax")),
    "20 layers of 256x256": (layers, [[256, 256]] * 2, "float32", OTHERS),
    "matmul 16384": (matmul, [[16384, 16384]] * 2, "float32", ("torch", "cupy", "jax")),
}  # fmt: skip


def operands(name: str) -> list[Any]:
    """torch tensors on the GPU: positive, about 1, so that every program is defined on them."""
    import torch

    _, shapes, dtype, _ = PROGRAMS[name]
    generator = torch.Generator("cuda").manual_seed(0)
    made = [
        torch.rand(shape, generator=generator, device="cuda", dtype=torch.float32).add_(0.1)
        for shape in shapes
    ]
    if name.startswith(("Newton", "FFT")):
        made[0].sub_(0.6)
    if "layers" in name:
        made[1].mul_(0.001)
    if name.startswith("Newton"):
        made[2].mul_(0.01)
    return [x.to(getattr(torch, dtype)) for x in made]


# Each library: how it takes the operands, and a call that runs a program to its end ---------------


def caller(peer: str, program: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    """`call()`: the program on its own operands, done when it returns."""
    return {
        US: with_us,
        FUSED: with_us,
        "torch": with_torch,
        "torch.compile": with_compile,
        "cupy": with_cupy,
        "jax": with_jax,
    }[peer](program, given)


def with_us(program: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    import infinitensor as it

    it.init("cuda:0")
    ours = [it.asarray(x) for x in given]
    it.compute(*ours)

    def call() -> Any:
        made = program(it, *ours)
        it.compute(*(made if isinstance(made, tuple) else (made,)))
        return made

    return call


def with_torch(program: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    import torch

    ours = [x.clone() for x in given]

    def call() -> Any:
        made = program(torch, *ours)
        torch.cuda.synchronize()
        return made

    return call


def with_compile(program: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    import torch

    return with_torch(torch.compile(program), given)


def with_cupy(program: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    import cupy

    ours = [cupy.from_dlpack(x).copy() for x in given]

    def call() -> Any:
        made = program(cupy, *ours)
        cupy.cuda.get_current_stream().synchronize()
        return made

    return call


def with_jax(program: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")  # else it is TF32
    ours = [jax.numpy.array(jax.dlpack.from_dlpack(x), copy=True) for x in given]
    donated = (0,) if program is stencil else ()
    run = jax.jit(lambda *args: program(jax.numpy, *args), donate_argnums=donated)

    def call() -> Any:
        made = jax.block_until_ready(run(*ours))
        if donated:
            ours[0] = made
        return made

    return call


def total(made: Any) -> float:
    """One number that says whether two libraries did the same work."""
    parts = made if isinstance(made, tuple) else (made,)
    return sum(float(abs(part).sum()) for part in parts)


# One library in a process -------------------------------------------------------------------------


def setup(peer: str, case: dict[str, Any], device: str) -> Any:
    """What the harness asks for: a call to time, and a number to compare."""
    import torch

    torch.set_grad_enabled(False)
    call = caller(peer, PROGRAMS[case["name"]][0], operands(case["name"]))
    made: list[Any] = []

    def run() -> None:
        made[:] = [call()]

    return run, lambda: total(made[0])


def all_in_turns(name: str, peers: Sequence[str], n_pairs: int) -> list[Side]:
    """We and the peers that work, each in its process, in turns."""
    sides = [Side(peer) for peer in (US, *peers)]
    with ExitStack() as stack, ThreadPoolExecutor(len(sides)) as threads:

        def begin(side: Side) -> Worker | None:
            try:
                return start("bench_gpu", side, bench_gpu, {"name": name}, "cuda:0")
            except RuntimeError as error:
                print(f"{side.name}: {str(error)[:300]}", file=sys.stderr)
                return None

        workers = list(threads.map(begin, sides))
        both = [(s, stack.enter_context(w)) for s, w in zip(sides, workers, strict=True) if w]
        take_warm_turns(both, n_pairs)
    return [side for side in sides if side.warm_s]


def cold(name: str, peer: str) -> float:
    """Seconds of the first call of a fresh process, with what it compiles, caches empty."""
    with tempfile.TemporaryDirectory() as folder:
        caches = ("XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.bench_gpu", "--cold-of", name, peer],
            env={**os.environ, "PYTHONPATH": path, **dict.fromkeys(caches, folder)},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout.splitlines()[-1])


HEAD = "| case | us, ms | best peer, ms | us / best [95 %] | all, ms |\n|---|---|---|---|---|"


def row(name: str, sides: Sequence[Side]) -> str:
    """One line of the table."""
    ours, *others = sides
    fused = [side for side in others if side.name == FUSED]
    texts = []
    best = None
    for side in (side for side in others if side.name != FUSED):
        took = statistics.median(side.warm_s)
        text = f"{side.name} {took * 1e3:.3g}"
        if abs(side.value - ours.value) > CHECK_TOLERANCE * abs(ours.value):
            texts.append(f"{text} (other values)")
            continue
        texts.append(text)
        if best is None or took < best[0]:
            ratio, low, high = median_ratio(ours.warm_s, side.warm_s)
            best = (took, text, f"{ratio:.2f} [{low:.2f}, {high:.2f}]")
            for one in fused:
                ratio, low, high = median_ratio(one.warm_s, side.warm_s)
                best = (took, text, f"{best[2]}; fused {ratio:.2f} [{low:.2f}, {high:.2f}]")
    texts += [f"{one.name} {statistics.median(one.warm_s) * 1e3:.3g}" for one in fused]
    mine = f"{statistics.median(ours.warm_s) * 1e3:.3g}"
    _, text, ratio_text = best or (0, "", "")
    return f"| {name} | {mine} | {text} | {ratio_text} | {', '.join(texts)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_gpu")
    parser.add_argument("--only", nargs="+", default=[""], help="cases whose name contains one")
    parser.add_argument("--peers", nargs="*", help="only these")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--cold-of", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cold_of:
        name, peer = args.cold_of
        call = caller(peer, PROGRAMS[name][0], operands(name))
        begun = time.perf_counter()
        call()
        print(time.perf_counter() - begun, flush=True)
        return 0
    RESULTS.mkdir(exist_ok=True)
    print(HEAD)
    with (RESULTS / "bench_gpu.jsonl").open("a") as lines:
        for name in (name for name in PROGRAMS if any(text in name for text in args.only)):
            peers = [p for p in PROGRAMS[name][3] if args.peers is None or p in args.peers]
            sides = all_in_turns(name, peers, args.pairs)
            fresh = {p: cold(name, p) for p in (US, "torch.compile")} if args.cold else {}
            found = {"case": name, "sides": [asdict(side) for side in sides], "fresh_s": fresh}
            lines.write(json.dumps(found | machine()) + "\n")
            print(row(name, sides), fresh or "", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
