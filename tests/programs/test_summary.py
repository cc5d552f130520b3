"""The table of several peers that `benchmarks.bench_cpu` ends with, and the cases it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks import bench_cpu, libraries
from benchmarks.libraries import Case, uniform, written
from benchmarks.summary import summary


def record(case: str, peer: str, ratio: float) -> dict[str, Any]:
    times = {"us_warm_s": ratio, "us_cold_s": 3.0, "peer_warm_s": 1.0, "peer_cold_s": 4.0}
    return {
        "case": {"name": case},
        "peer": peer,
        "ratio": ratio,
        "ratio_low": ratio - 0.1,
        "ratio_high": ratio + 0.1,
        **times,
    }


def test_the_best_peer_is_the_one_that_we_are_slowest_against() -> None:
    said = summary(
        [
            record("sort", "numpy", 0.5),
            record("sort", "jax", 2.0),
            record("fft", "numpy", 0.5),
            {"case": {"name": "fft"}, "peer": "jax", "failed": "not the same work"},
        ],
        {("sort", "jax", "warm"): 1.5, ("sort", "numpy", "cold"): 0.75},
    )
    assert "| sort | 2e+03 | 3e+03 | jax | 2.00 [1.90, 2.10] | 0.50 | 2.00 |" in said
    assert "| fft | 500 | 3e+03 | numpy | 0.50 [0.40, 0.60] | 0.50 | – |" in said
    assert "Against the best peer: geometric mean 1.00 (1.00x) of 2 cases." in said
    assert "Against numpy: geometric mean 0.50 (2.00x) of 2 cases." in said
    assert "Above 1.11 of the best peer: sort 2.00." in said
    assert "sort, warm: 2.00 of jax, asked 1.50: not met." in said
    assert "sort, cold: 0.75 of numpy, asked 0.75: met." in said
    assert said.endswith("fft: jax: not the same work")


def test_a_library_without_the_op_is_not_asked() -> None:
    found = {case["name"]: case["peers"] for case in bench_cpu.CASES}
    assert "dask" not in found["sort"]
    assert "torch.compile" not in found["sort"]
    assert found["layer norm"] == list(libraries.PEERS)


@pytest.mark.parametrize("peer", ["infinitensor", "numpy", "torch"])
def test_steps_go_on_from_what_was_written(peer: str) -> None:
    case = Case(uniform(10), lambda xp, x: written(xp, x, slice(1, None), 2 * x[1:]), times=3)
    run, check = libraries.setup(case, peer)
    run()
    x = uniform(10)(np.random.default_rng(0))[0]
    x[1:] *= 8
    assert check() == pytest.approx(x @ np.linspace(1, 2, 10), rel=1e-6)
