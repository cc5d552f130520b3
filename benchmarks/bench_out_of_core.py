"""A file larger than the budget: python -m benchmarks.bench_out_of_core [--gb 8] [--budget 1GiB].

Column means, standard deviations, quadratic means, one k-means iteration (new centres), the
covariance of the columns and PCA, over a .npy file of float32 rows. Beside ours: reading the file
once in C order, NumPy over a memory map in blocks by hand, and Dask and Cubed (each in a process of
the Python that `--peer-python` names). The page cache is dropped before each run (that needs root;
else the run says so). Prints seconds of every run (all of it: imports, planning, kernels), seconds
of processor, bytes really read from the disk, and the resident peak. Runs of peers take turns.
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
N_CENTERS = 8
CASES = ("mean", "std", "quadratic mean", "k-means step", "covariance", "pca")
OURS, RAW, NUMPY = "infinitensor", "raw read", "numpy blocks"
CHUNK_ROWS = 1 << 17
"""Rows of a chunk of Dask and Cubed: 32 MiB, of which some are in memory at a time."""


def make(path: str, n_bytes: int) -> None:
    rows = n_bytes // (4 * WIDTH)
    values = np.lib.format.open_memmap(path, "w+", np.float32, (rows, WIDTH))
    rng = np.random.default_rng(0)
    for start in range(0, rows, 1 << 18):
        part = values[start : start + (1 << 18)]
        part[:] = rng.random(part.shape, dtype=np.float32)
    values.flush()


def centers() -> Any:
    return np.random.default_rng(1).random((N_CENTERS, WIDTH), dtype=np.float32)


def asked(xp: Any, x: Any, case: str) -> Any:
    """The same program for us, for Dask and for Cubed: what has to be read for it."""
    if case == "mean":
        return [x.mean(axis=0)] if hasattr(x, "mean") else [xp.mean(x, axis=0)]
    if case == "std":
        return [x.std(axis=0)] if hasattr(x, "std") else [xp.std(x, axis=0)]
    if case == "quadratic mean":
        return [xp.mean(x * x)]
    if case == "covariance":
        return [xp.matmul(x.T, x)]
    if case == "pca":
        return [xp.sum(x, axis=0), xp.matmul(x.T, x)]
    c = centers()
    distances = xp.asarray((c * c).sum(axis=1)) - 2 * xp.matmul(x, xp.asarray(c.T))
    near = xp.argmin(distances, axis=1)
    hot = xp.astype(near[:, None] == xp.asarray(np.arange(N_CENTERS)), np.float32)
    return [xp.matmul(hot.T, x), xp.sum(hot, axis=0)]


def finished(case: str, found: list[Any], n: int) -> Any:
    """What is left to do with small arrays."""
    if case == "pca":
        total, products = (np.asarray(one, np.float64) for one in found)
        mean = total / n
        return np.linalg.eigh(products / n - np.outer(mean, mean))[0][::-1][:4]
    if case == "k-means step":
        return np.asarray(found[0]) / np.asarray(found[1])[:, None]
    return np.asarray(found[0])


def by_blocks(path: str, case: str) -> list[Any]:
    """NumPy by hand: block after block of a memory map, sums in between."""
    x = np.load(path, mmap_mode="r")
    sums: list[Any] = []
    for start in range(0, len(x), CHUNK_ROWS // 4):
        part = np.asarray(x[start : start + CHUNK_ROWS // 4])
        if case in ("mean", "std"):
            found = [part.sum(axis=0, dtype=np.float64)]
            if case == "std":
                found.append((part * part).sum(axis=0, dtype=np.float64))
        elif case == "quadratic mean":
            found = [(part * part).sum(dtype=np.float64)]
        else:
            found = asked(np, part, case)
        sums = [a + b for a, b in zip(sums, found, strict=True)] if sums else found
    n = len(x)
    if case == "std":
        return [np.sqrt(sums[1] / n - (sums[0] / n) ** 2)]
    if case in ("mean", "quadratic mean"):
        return [sums[0] / (n if case == "mean" else x.size)]
    return sums


def n_bytes_of(text: str) -> int:
    """The bytes of a text such as "2GiB", where our own parser is not installed."""
    return int(float(text[:-3]) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[text[-3:]])


def run(peer: str, case: str, path: str, budget: str) -> None:
    began = time.perf_counter()
    found: Any = None
    if peer == RAW:
        buffer = bytearray(8 << 20)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    elif peer == NUMPY:
        found = finished(case, by_blocks(path, case), len(np.load(path, mmap_mode="r")))
    elif peer == "dask":
        import dask
        import dask.array as da

        x = da.from_array(np.load(path, mmap_mode="r"), chunks=(CHUNK_ROWS, WIDTH))
        da.astype = lambda values, dtype: values.astype(dtype)
        with dask.config.set(scheduler="threads", num_workers=2):
            found = finished(case, dask.compute(*asked(da, x, case)), len(x))
    elif peer == "cubed":
        import cubed
        import cubed.array_api as xp

        with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
            spec = cubed.Spec(folder, allowed_mem=n_bytes_of(budget), reserved_mem="200MB")
            kept = np.load(path, mmap_mode="r")
            x = cubed.from_array(kept, chunks=(CHUNK_ROWS, WIDTH), spec=spec)
            made = asked(_Within(xp, spec), x, case)
            executor = cubed.runtime.create.create_executor("threads")
            found = finished(case, cubed.compute(*made, executor=executor), len(kept))
    else:
        import infinitensor as it

        with it.init("cpu", memory=budget):
            x = it.open(path)
            made = it.compute(*asked(it, x, case), it.asarray(0))
            found = finished(case, list(made)[:-1], len(x))
    seconds = time.perf_counter() - began
    read = int(Path("/proc/self/io").read_text().split("read_bytes: ")[1].split()[0])
    # not getrusage: its peak begins with that of the process that started this one
    peak = 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    value = None if found is None else np.asarray(found).astype(float).ravel()[:4].tolist()
    used = time.process_time()
    print(json.dumps({"s": seconds, "cpu_s": used, "read": read, "peak": peak, "value": value}))


class _Within:
    """A namespace whose `asarray` has a specification, as Cubed wants it."""

    def __init__(self, xp: Any, spec: Any) -> None:
        self._xp, self._spec = xp, spec

    def asarray(self, values: Any) -> Any:
        return self._xp.asarray(values, spec=self._spec)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)


def drop_caches() -> bool:
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def environment() -> dict[str, str]:
    """With byte code of what is imported, as an installation has it."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def measure(peer: str, case: str, path: str, given: Any) -> dict[str, Any] | str:
    """One run in a process of its own; the last words of one that failed."""
    drop_caches()
    is_ours = peer in (OURS, RAW, NUMPY)
    python = sys.executable if is_ours else given.peer_python
    command = [python, __file__, "--one", peer, case, path, "--budget", given.budget]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=given.limit,
            env=environment(),
        )
    except subprocess.TimeoutExpired:
        return f"took more than {given.limit} s"
    if done.returncode:
        return f"failed: {done.stderr.strip()[-200:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(case: str, peer: str, found: list[Any], raw_s: float) -> None:
    fine = [one for one in found if not isinstance(one, str)]
    if not fine:
        print(f"{case:15} {peer:13} {found[-1]}", flush=True)
        return
    times = " ".join(f"{one['s']:.2f}" for one in fine)
    last = fine[-1]
    middle = sorted(one["s"] for one in fine)[len(fine) // 2]
    print(
        f"{case:15} {peer:13} {times} s ({middle / raw_s:.2f}x raw), cpu {last['cpu_s']:.2f} s, "
        f"read {last['read'] / 1e9:.2f} GB, peak {last['peak'] / 1e6:.0f} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gb", type=float, default=8)
    parser.add_argument("--budget", default="1GiB")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--peers", nargs="+", default=[OURS, NUMPY, "dask", "cubed"])
    parser.add_argument("--peer-python", default=sys.executable, help="that has dask and cubed")
    parser.add_argument("--limit", type=int, default=600, help="seconds of one run")
    parser.add_argument("--one", nargs=3)
    given = parser.parse_args()
    if given.one:
        run(*given.one, given.budget)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.npy")
        make(path, int(given.gb * 1e9))
        print(f"{given.gb} GB of float32, budget {given.budget}, caches dropped: {drop_caches()}")
        once = [sys.executable, "-c", "import infinitensor"]  # writes its byte code
        subprocess.run(once, check=True, env=environment())
        for case in given.cases:
            found: dict[str, list[Any]] = {peer: [] for peer in (RAW, *given.peers)}
            for _ in range(given.runs):
                for peer, runs in found.items():
                    if not runs or not isinstance(runs[-1], str):
                        runs.append(measure(peer, case, path, given))
            raw_s = sorted(one["s"] for one in found[RAW])[len(found[RAW]) // 2]
            for peer, runs in found.items():
                report(case, peer, runs, raw_s)
            check(case, found)


def check(case: str, found: dict[str, list[Any]]) -> None:
    """All who finished have the same values."""
    values = {
        peer: runs[0]["value"]
        for peer, runs in found.items()
        if not isinstance(runs[0], str) and runs[0]["value"] is not None
    }
    first = next(iter(values.values()), None)
    for peer, value in values.items():
        if not np.allclose(value, first, rtol=2e-3):
            print(f"{case:15} {peer} differs: {value} and {first}")


if __name__ == "__main__":
    main()
