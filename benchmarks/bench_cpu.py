"""The CPU against all peers: python -m benchmarks.bench_cpu [--pairs 15] [--only sort jacobi].

The cases that the CPU is judged by, from `bench_generated` and `bench_ops`: each library has a
process of its own with its own threads, with empty caches at the start, and all take turns. Then,
or with `--summary` of the last run alone: for each case the best peer, and what is asked for. All
takes about an hour and a half, half of it for the product of 8192 x 8192.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from benchmarks import bench_generated, bench_ops, libraries

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.libraries import Case

QUESTION = "Is the CPU as fast as the best of NumPy, torch, torch.compile, JAX and Dask?"
PEERS = libraries.PEERS

_KNOWN = bench_generated.ROWS | bench_ops.ROWS
ROWS: dict[str, Case] = {
    name: _KNOWN[name]
    for name in (
        "chain with sum",
        "Black-Scholes",
        "softmax rows",
        "layer norm",
        "mean and variance",
        "newton logistic",
        "chain of matmuls",
        "cumsum",
        "sort",
        "argsort",
        "unique",
        "boolean mask",
        "rfft",
        "qr tall",
        "svd tall",
        "jacobi 700",
        "jacobi 2800",
        "n-body",
    )
} | {"matmul 8192": bench_ops.matmul(8192)}
CASES = libraries.cases(ROWS)
ASKED: dict[tuple[str, str, str], float] = {
    ("chain with sum", "torch.compile", "warm"): 1.2,
    ("chain with sum", "numpy", "cold"): 0.5,
    ("matmul 8192", "torch", "warm"): 1.05,
    ("sort", "numpy", "warm"): 1.0,
    ("jacobi 700", "numpy", "warm"): 0.25,
    ("jacobi 2800", "numpy", "warm"): 0.25,
}
"""The most that our time may be of a peer's, where that is not the usual bar."""


def setup(
    peer: str, case: dict[str, Any], device: str
) -> tuple[Callable[[], None], Callable[[], float]]:
    return libraries.setup(ROWS[case["name"]], peer, device)


if __name__ == "__main__":
    from benchmarks.harness import main

    raise SystemExit(main("bench_cpu", sys.argv[1:], together=True))
