"""Large programs on a GPU against torch, torch.compile, CuPy, JAX: python -m benchmarks.bench_gpu.

Each case and peer is a process of its own, in which we and the peer take turns on the same
operands, made on the GPU. (With all libraries in one process every one of them gets slower, those
with most Python the most.) `--cold` measures the first call of a fresh process with empty caches,
for us and for torch.compile.
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
from typing import TYPE_CHECKING, Any

from benchmarks.harness import CHECK_TOLERANCE, RESULTS, ROOT, machine, median_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PEERS = ("torch", "torch.compile", "cupy", "jax")
US = "infinitensor"


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
CASES: dict[str, tuple[Callable[..., Any], list[list[int]], str, Sequence[str]]] = {
    "chain with sum 5e8": (chain_sum, [[500_000_000]] * 2, "float32", PEERS),
    "triad 5e8": (triad, [[500_000_000]] * 2, "float32", PEERS),
    "Black-Scholes 2e8": (black_scholes, [[200_000_000]] * 3, "float32", PEERS),
    "mean and variance 1e7x50": (
        mean_and_variance, [[10_000_000, 50]], "float32", ("torch", "torch.compile", "jax"),
    ),
    "stencil 16384x16384": (stencil, [[16384, 16384]], "float32", PEERS),
    "Newton step 1e7x100": (newton, [[10_000_000, 100], [10_000_000], [100]], "float32", PEERS),
    "sort 1e8": (sort, [[100_000_000]], "float32", ("torch", "cupy", "jax")),
    "cumsum 5e8": (cumsum, [[500_000_000]], "float32", ("torch", "cupy", "jax")),
    "mask 1e8": (mask, [[100_000_000]], "float32", ("torch", "cupy")),
    "FFT 2**28": (fft, [[1 << 28]], "complex64", ("torch", "cupy", "jax")),
    "20 layers of 256x256": (layers, [[256, 256]] * 2, "float32", PEERS),
    "matmul 16384": (matmul, [[16384, 16384]] * 2, "float32", ("torch", "cupy", "jax")),
}  # fmt: skip


def operands(name: str) -> list[Any]:
    """torch tensors on the GPU: positive, about 1, so that every program is defined on them."""
    import torch

    _, shapes, dtype, _ = CASES[name]
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


# One case in a process ----------------------------------------------------------------------------


def work(name: str, peer: str, n_pairs: int) -> dict[str, Any]:
    """We and a peer in turns: warm seconds of each turn, by library."""
    import torch

    torch.set_grad_enabled(False)
    program = CASES[name][0]
    given = operands(name)
    calls: dict[str, Callable[[], Any]] = {}
    record: dict[str, Any] = {"cold_s": {}, "value": {}, "bytes": {}, "warm_s": {}}
    for one in (US, peer):
        calls[one] = caller(one, program, given)
        begun = time.perf_counter()
        made = calls[one]()
        record["cold_s"][one] = time.perf_counter() - begun
        record["value"][one] = total(made)
        del made
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        calls[one]()
        record["bytes"][one] = torch.cuda.max_memory_allocated() - held
        record["warm_s"][one] = []
    order = list(calls)
    for turn in range(n_pairs):
        for one in order if turn % 2 == 0 else order[::-1]:
            begun = time.perf_counter()
            calls[one]()
            record["warm_s"][one].append(time.perf_counter() - begun)
    return record


def cold(name: str, peer: str) -> float:
    """Seconds of the first call of a fresh process, with what it compiles, caches empty."""
    with tempfile.TemporaryDirectory() as folder:
        caches = ("XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
        found = _child(["--cold-of", name, peer], dict.fromkeys(caches, folder))
    return float(found["seconds"])


def _child(arguments: list[str], environment: dict[str, str]) -> dict[str, Any]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_gpu", *arguments],
        env={
            **os.environ, "PYTHONPATH": path, "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"failed": done.stderr[-600:]}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


HEAD = "| case | us, ms | best peer, ms | us / best [95 %] | all, ms |\n|---|---|---|---|---|"


def row(name: str, records: dict[str, dict[str, Any]]) -> str:
    """One line of the table: by peer, what we and it took in turns."""
    texts = []
    best = None
    for peer, record in records.items():
        if "failed" in record:
            texts.append(f"{peer} failed")
            continue
        ours, theirs = record["warm_s"][US], record["warm_s"][peer]
        text = f"{peer} {statistics.median(theirs) * 1e3:.3g}"
        same = record["value"]
        if abs(same[peer] - same[US]) > CHECK_TOLERANCE * abs(same[US]):
            texts.append(f"{text} (other values)")
            continue
        ratio, low, high = median_ratio(ours, theirs)
        texts.append(f"{text}: {ratio:.2f} [{low:.2f}, {high:.2f}]")
        if best is None or statistics.median(theirs) < statistics.median(best[1]):
            best = (ours, theirs, text, f"{ratio:.2f} [{low:.2f}, {high:.2f}]")
    if best is None:
        return f"| {name} | | | | {', '.join(texts)} |"
    ours, _, text, ratio_text = best
    took = f"{statistics.median(ours) * 1e3:.3g}"
    return f"| {name} | {took} | {text} | {ratio_text} | {', '.join(texts)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_gpu")
    parser.add_argument("--only", nargs="+", default=[""], help="cases whose name contains one")
    parser.add_argument("--peers", nargs="*", help="only these")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--cold-of", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(work(args.case, args.peers[0], args.pairs)), flush=True)
        return 0
    if args.cold_of:
        name, peer = args.cold_of
        call = caller(peer, CASES[name][0], operands(name))
        begun = time.perf_counter()
        call()
        print(json.dumps({"seconds": time.perf_counter() - begun}), flush=True)
        return 0
    RESULTS.mkdir(exist_ok=True)
    names = [name for name in CASES if any(text in name for text in args.only)]
    print(HEAD)
    with (RESULTS / "bench_gpu.jsonl").open("a") as lines:
        for name in names:
            peers = [p for p in CASES[name][3] if args.peers is None or p in args.peers]
            records = {
                p: _child(["--case", name, "--pairs", str(args.pairs), "--peers", p], {})
                for p in peers
            }
            fresh = {p: cold(name, p) for p in (US, "torch.compile")} if args.cold else {}
            found = {"case": name, "peers": records, "fresh_s": fresh, **machine()}
            lines.write(json.dumps(found) + "\n")
            print(row(name, records), fresh or "", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
