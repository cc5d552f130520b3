"""A file larger than the budget: python -m benchmarks.bench_out_of_core [--gb 8] [--budget 1GiB].

Column means, standard deviations, quadratic means, one k-means iteration and the covariance that
PCA needs, over a .npy file of float32 rows. Beside ours: reading the file once in C order, and Dask
where it is installed. Each run is a process of its own; the page cache is dropped before it (that
needs root; else the run says so). Prints seconds, bytes really read, and the resident peak.
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

WIDTH = 64
CASES = ("mean", "std", "quadratic mean", "k-means step", "covariance")


def make(path: str, n_bytes: int) -> None:
    rows = n_bytes // (4 * WIDTH)
    values = np.lib.format.open_memmap(path, "w+", np.float32, (rows, WIDTH))
    rng = np.random.default_rng(0)
    for start in range(0, rows, 1 << 18):
        part = values[start : start + (1 << 18)]
        part[:] = rng.random(part.shape, dtype=np.float32)
    values.flush()


def asked(xp: Any, x: Any, case: str) -> Any:
    """The same program for us and for Dask."""
    if case == "mean":
        return x.mean(axis=0)
    if case == "std":
        return x.std(axis=0)
    if case == "quadratic mean":
        return (x * x).mean()
    if case == "covariance":
        return x.T @ x
    centers = np.random.default_rng(1).random((8, WIDTH), dtype=np.float32)
    near = (2 * (x @ xp.asarray(centers.T)) - xp.asarray((centers * centers).sum(1))).argmax(axis=1)
    return xp.bincount(near, minlength=8)


def run(peer: str, case: str, path: str, budget: str) -> None:
    began = time.perf_counter()
    if peer == "raw read":
        buffer = bytearray(8 << 20)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    elif peer == "dask":
        import dask
        import dask.array as da

        x = da.from_array(np.load(path, mmap_mode="r"), chunks=(1 << 18, WIDTH))
        with dask.config.set(scheduler="threads", num_workers=2):
            np.asarray(asked(da, x, case).compute())
    else:
        import infinitensor as it

        with it.init("cpu", memory=budget):
            np.asarray(asked(it, it.open(path), case).numpy())
    seconds = time.perf_counter() - began
    read = int(Path("/proc/self/io").read_text().split("read_bytes: ")[1].split()[0])
    # not getrusage: its peak begins with that of the process that started this one
    peak = 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    print(json.dumps({"seconds": seconds, "read": read, "peak": peak}))


def drop_caches() -> bool:
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gb", type=float, default=8)
    parser.add_argument("--budget", default="1GiB")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers", nargs="+", default=["infinitensor", "raw read", "dask"])
    parser.add_argument("--one", nargs=3)
    given = parser.parse_args()
    if given.one:
        run(*given.one, given.budget)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.npy")
        make(path, int(given.gb * 1e9))
        print(f"{given.gb} GB of float32, budget {given.budget}, caches dropped: {drop_caches()}")
        for case in CASES:
            for peer in given.peers:
                found = []
                for _ in range(given.runs):
                    drop_caches()
                    command = [sys.executable, "-m", "benchmarks.bench_out_of_core", "--one"]
                    command += [peer, case, path, "--budget", given.budget]
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    if done.returncode:
                        print(f"{case:15} {peer:13} failed: {done.stderr.strip()[-200:]}")
                        break
                    found.append(json.loads(done.stdout))
                if found:
                    times = " ".join(f"{one['seconds']:.2f}" for one in found)
                    last = found[-1]
                    print(
                        f"{case:15} {peer:13} {times} s, read {last['read'] / 1e9:.2f} GB, "
                        f"peak {last['peak'] / 1e6:.0f} MB",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
