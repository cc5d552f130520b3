"""KMeans over a file of twice the budget: python -m benchmarks.bench_kmeans_file [--gb 4].

Our own estimator on a .npy file of float32 rows of 64 columns, with a budget of half the file, and
on the same rows in memory, `--iterations` passes of Lloyd's iteration from given centres. Beside
them a raw sequential read of the file. All in processes of their own, in turns, page cache dropped
before each. A rate is the bytes that all passes look at, by the seconds of `fit`; the aim is 85 %
of the slower of the disk's rate and that in memory. Prints every run, with seconds of processor,
bytes really read and the resident peak.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_out_of_core import RAW, WIDTH, drop_caches, environment, make
from benchmarks.bench_out_of_core import run as run_raw

STREAMED, IN_MEMORY = "streamed", "in memory"
AIM = 0.85


def run(how: str, k: int, path: str, budget: int, n_iterations: int) -> None:
    """One fit in this process; says what it took."""
    if how == RAW:
        run_raw(RAW, "", path, "")
        return
    import infinitensor as it
    from infinitensor.cluster import KMeans

    init = np.random.default_rng(1).random((k, WIDTH), dtype=np.float32)
    model = KMeans(k, init=init, n_init=1, max_iter=n_iterations, tol=0)
    room = budget if how == STREAMED else 4 * os.path.getsize(path)
    with it.init("cpu", memory=room):
        x = it.open(path) if how == STREAMED else np.load(path)
        began, used = time.perf_counter(), time.process_time()
        model.fit(x)
        seconds, used = time.perf_counter() - began, time.process_time() - used
        loaded = it.stats()["bytes_loaded"]
    read = int(Path("/proc/self/io").read_text().split("read_bytes: ")[1].split()[0])
    peak = 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    found = {"s": seconds, "cpu_s": used, "read": read, "peak": peak, "loaded": loaded}
    print(json.dumps({**found, "n_iter": model.n_iter_, "inertia": model.inertia_}))


def measured(how: str, k: int, path: str, given: Any) -> dict[str, Any]:
    drop_caches()
    budget = os.path.getsize(path) // 2
    command = [sys.executable, "-m", "benchmarks.bench_kmeans_file", "--iterations"]
    command += [str(given.iterations), "--one", how, str(k), path, str(budget)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def report(k: int, path: str, given: Any) -> None:
    """Runs in turns, and what they come to."""
    n_bytes = os.path.getsize(path)
    rates: dict[str, list[float]] = {RAW: [], IN_MEMORY: [], STREAMED: []}
    for _ in range(given.runs):
        for how, found in rates.items():
            one = measured(how, k, path, given)
            # ends of the coordinates and means, then iterations, then the inertia
            n_passes = 1 if how == RAW else one["n_iter"] + 2
            found.append(n_passes * n_bytes / one["s"])
            print(
                f"k = {k:3} {how:10} {one['s']:.2f} s, {n_passes} passes, {found[-1] / 1e9:.2f} "
                f"GB/s, cpu {one['cpu_s']:.2f} s, read {one['read'] / 1e9:.2f} GB, "
                f"peak {one['peak'] / 1e6:.0f} MB",
                flush=True,
            )
    raw, inside, streamed = (sorted(found)[len(found) // 2] for found in rates.values())
    share = streamed / min(raw, inside)
    print(f"k = {k:3} {share:.2f} of the slower of disk and memory (aim {AIM})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gb", type=float, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--k", type=int, nargs="+", default=[8, 100])
    parser.add_argument("--one", nargs=4)
    given = parser.parse_args()
    if given.one:
        how, k, path, budget = given.one
        run(how, int(k), path, int(budget), given.iterations)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.npy")
        make(path, int(given.gb * 1e9))
        print(f"{given.gb} GB of float32, budget half of it, caches dropped: {drop_caches()}")
        for k in given.k:
            report(k, path, given)


if __name__ == "__main__":
    main()
