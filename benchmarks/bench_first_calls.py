"""What a first call costs where nothing was compiled: python -m benchmarks.bench_first_calls.

Each program runs in a process of its own, with an empty cache of kernels: NumPy's once, ours four
times, milliseconds. Planning is part of the first.

`--session cpu|cuda` runs the whole programs of `tests/programs`, at their tests' sizes, once each
in one process: what all of them take above NumPy's first calls, with an empty cache of kernels and
with the one the first process left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable

N_CALLS = 4
N_WORST = 8


def programs() -> dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    """Large programs of generated code, and functions that are loops of ops."""
    rng = np.random.default_rng(0)
    floats = rng.random((2048, 2048), np.float32)
    whole = rng.integers(0, 1000, (2048, 2048)).astype(np.int32)
    doubles, places = rng.random(1 << 20), rng.integers(0, 1000, 1 << 20)
    return {
        "exp(x) - x * 2": (lambda xp, x: xp.exp(x) - x * 2, (floats,)),
        "(x * 31 + 7) % 100 // 3": (lambda xp, x: (x * 31 + 7) % 100 // 3, (whole,)),
        "(x * x - x).sum(1)": (lambda xp, x: (x * x - x).sum(1), (floats,)),
        "tanh(sqrt(x * 2 + 1))": (lambda xp, x: xp.tanh(xp.sqrt(x * 2 + 1)), (doubles,)),
        "bincount": (lambda xp, x: xp.bincount(x), (places,)),
        "quantile": (lambda xp, x: xp.quantile(x, 0.3), (doubles,)),
        "sort": (lambda xp, x: xp.sort(x), (doubles,)),
        "cumsum": (lambda xp, x: xp.cumsum(x), (doubles,)),
        "unique": (lambda xp, x: xp.unique(x), (places,)),
        "histogram": (lambda xp, x: xp.histogram(x, 100)[0], (doubles,)),
    }


def seconds(name: str) -> dict[str, Any]:
    """Those of one program, in this process."""
    import infinitensor as it

    run, operands = programs()[name]
    begun = time.perf_counter()
    run(np, *operands)
    theirs = time.perf_counter() - begun
    tensors = [it.compute(it.asarray(operand)) for operand in operands]
    ours = []
    for _ in range(N_CALLS):
        begun = time.perf_counter()
        it.compute(run(it, *tensors))
        ours.append(time.perf_counter() - begun)
    return {"case": name, "numpy_s": theirs, "seconds": ours}


def session(device: str) -> dict[str, dict[str, float]]:
    """Seconds of NumPy's first call and of ours, of every whole program, in this process."""
    from tests.programs.registry import PROGRAMS

    import infinitensor as it
    from benchmarks.bench_programs import compute, flat, tensors_of

    it.init(device)
    it.compute(it.asarray(np.arange(3.0)) + 1)  # the device itself is not what is asked
    found = {}
    for one in PROGRAMS:
        if one.is_slow:
            continue
        seconds = {}
        for name, xp in (("numpy", np), ("infinitensor", it)):
            given = one.arguments(np.random.default_rng(7))
            arguments = given if xp is np else tensors_of(given)
            begun = time.perf_counter()
            with np.errstate(all="ignore"):
                made = one.run(xp, *arguments)
            if xp is it:
                compute(flat((made, arguments)))
            seconds[name] = time.perf_counter() - begun
        found[one.name] = seconds
    return found


def sessions(device: str) -> None:
    """Print what all whole programs take above NumPy, without and with a cache of kernels."""
    with tempfile.TemporaryDirectory() as cache:
        for kernels in ("an empty cache", "a filled cache"):
            found = asked("--in-session", device, cache=cache)
            above = {k: row["infinitensor"] - row["numpy"] for k, row in found.items()}
            worst = sorted(above, key=lambda k: -above[k])[:N_WORST]
            print(
                f"{len(found)} programs, {kernels}: {sum(above.values()):.2f} s above NumPy's"
                f" {sum(row['numpy'] for row in found.values()):.2f} s; most: "
                + ", ".join(f"{k} {above[k]:.2f}" for k in worst),
                flush=True,
            )


def asked(*arguments: str, cache: str) -> Any:
    """What a process of its own says, with a cache of kernels at a place of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_first_calls", *arguments],
        env={**os.environ, "XDG_CACHE_HOME": cache, "TRITON_CACHE_DIR": f"{cache}/triton"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, print and store the table."""
    rows = []
    print("| program | NumPy ms | ours: first call, and the next |\n|---|---|---|")
    for name in programs():
        with tempfile.TemporaryDirectory() as cache:
            row = asked("--program", name, cache=cache)
        rows.append(row)
        ours = ", ".join(f"{1e3 * s:.1f}" for s in row["seconds"])
        print(f"| {name} | {1e3 * row['numpy_s']:.1f} | {ours} |", flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "first_calls.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--program", name]:
            print(json.dumps(seconds(name)))
        case ["--in-session", device]:
            print(json.dumps(session(device)))
        case ["--session", device]:
            sessions(device)
        case []:
            main()
        case _:
            raise SystemExit(__doc__)
