"""Waves over the steps of a stencil: python -m benchmarks.bench_waves [--only 11200] [--pairs 15].

Fifty steps over square arrays of float64, several together while their tiles are in the processor's
last cache, and the same program step by step, as where there is no such cache, in turns. On 16
cores it takes about a minute.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from benchmarks import libraries
from benchmarks.bench_generated import jacobi_step
from benchmarks.libraries import Case, uniform

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "Do several steps of a stencil take less time together than one after another?"
STEP_BY_STEP = "infinitensor, step by step"
PEERS: dict[str, dict[str, str]] = {
    libraries.US: {},
    STEP_BY_STEP: {"INFINITENSOR_CACHE_BYTES": "0"},
}
ROWS = {
    f"jacobi {n}": Case(uniform(n, n, dtype="f8"), jacobi_step, times=50, writes=True)
    for n in (2800, 5600, 11200)
}
CASES = [{"name": name, "peers": list(PEERS)} for name in ROWS]


def setup(
    peer: str, case: dict[str, Any], device: str
) -> tuple[Callable[[], None], Callable[[], float]]:
    return libraries.setup(ROWS[case["name"]], libraries.US, device)


if __name__ == "__main__":
    from benchmarks.harness import main

    raise SystemExit(main("bench_waves", sys.argv[1:], together=True))
