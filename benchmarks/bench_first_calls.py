"""What a first call costs where nothing was compiled: python -m benchmarks.bench_first_calls.

Each program runs in a process of its own, with an empty cache of kernels: NumPy's once, ours four
times, milliseconds. Planning is part of the first.
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


def main() -> None:
    """Measure, print and store the table."""
    rows = []
    print("| program | NumPy ms | ours: first call, and the next |\n|---|---|---|")
    for name in programs():
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.bench_first_calls", name],
                env={**os.environ, "XDG_CACHE_HOME": cache},
                capture_output=True,
                text=True,
                check=True,
            )
        row = json.loads(done.stdout)
        rows.append(row)
        ours = ", ".join(f"{1e3 * s:.1f}" for s in row["seconds"])
        print(f"| {name} | {1e3 * row['numpy_s']:.1f} | {ours} |", flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "first_calls.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(seconds(sys.argv[1])))
    else:
        main()
