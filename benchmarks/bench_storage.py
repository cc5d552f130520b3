"""Files: python -m benchmarks.bench_storage [--only spill] [--pairs 6 --fresh 1].

Tiles written and read back, a .npy file read tile by tile, a tensor saved. Peers: NumPy's own files
(`np.save`, `np.load` and memory maps), and our spill through the page cache. Files are in the
folder for temporary files, which should be on a disk. Before each reading of a .npy file its pages
are dropped from memory; NumPy's files are synced where ours are. A run says the time of the part
that counts.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.storage import Spilled

QUESTION = "Are tiles and files written and read as fast as the disk allows?"
PEERS: dict[str, dict[str, str]] = {"infinitensor": {}, "page cache": {}, "numpy": {}}
MIB = 1 << 20
CASES: list[dict[str, Any]] = [
    {"name": "spill 64 tiles of 4 MiB", "what": "spill", "tile": 4 * MIB, "n_tiles": 64},
    {"name": "reload 64 tiles of 4 MiB", "what": "reload", "tile": 4 * MIB, "n_tiles": 64},
    {"name": "spill 16 tiles of 16 MiB", "what": "spill", "tile": 16 * MIB, "n_tiles": 16},
    {"name": "reload 16 tiles of 16 MiB", "what": "reload", "tile": 16 * MIB, "n_tiles": 16},
    {"name": "read .npy by rows", "what": "read", "shape": [4096, 16384], "box": [256, 16384]},
    {"name": "read .npy by columns", "what": "read", "shape": [4096, 16384], "box": [4096, 1024]},
    {"name": "save 256 MiB", "what": "save", "shape": [4096, 16384]},
]
Run = tuple["Callable[[], float]", "Callable[[], float]"]


def setup(peer: str, case: dict[str, Any], device: str) -> Run:
    del device
    folder = tempfile.mkdtemp(prefix="bench-storage-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = {"spill": tiles, "reload": tiles, "read": read, "save": save}[case["what"]]
    return made(peer, case, folder)


def timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def tiles(peer: str, case: dict[str, Any], folder: str) -> Run:
    from infinitensor.storage import Spill
    from infinitensor.storage.file_io.byte_runs import aligned_bytes
    from infinitensor.storage.spilled import spilled_tile

    values = aligned_bytes(case["tile"]).view(np.float64)
    values[:] = np.random.default_rng(0).random(values.size)
    out = aligned_bytes(case["tile"]).view(np.float64)
    if peer == "page cache":
        spilled_tile.DIRECT_BYTES = 1 << 60
    spill = Spill([folder])
    held: list[Spilled] = []
    names = [os.path.join(folder, f"{k}.npy") for k in range(case["n_tiles"])]

    def write() -> None:
        if peer == "numpy":
            for name in names:
                np.save(name, values)
            return
        held.clear()
        held.extend(spill.write(values) for _ in names)

    def drop() -> None:
        for name in names:
            with open(name, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def reload() -> None:
        if peer == "numpy":
            for name in names:
                out[:] = np.load(name)
            return
        for one in held:
            one.read(((0, out.size),), out)

    def run() -> float:
        wrote_s = timed(write)
        if case["what"] == "spill":
            return wrote_s
        names[:] = names if peer == "numpy" else [one.path for one in held]
        drop()
        return timed(reload)

    return run, lambda: float(values.sum())


def read(peer: str, case: dict[str, Any], folder: str) -> Run:
    from infinitensor.storage import NpyFile

    path = os.path.join(folder, "x.npy")
    shape, box = case["shape"], case["box"]
    np.save(path, np.random.default_rng(0).random(shape).astype("f4"))
    out = np.empty(box, "f4")
    corners = np.ndindex(*(n // step for n, step in zip(shape, box, strict=True)))
    boxes = [
        tuple((i * step, (i + 1) * step) for i, step in zip(corner, box, strict=True))
        for corner in corners
    ]

    def ours() -> None:
        file = NpyFile(path)
        for one in boxes:
            file.read(one, out)

    def theirs() -> None:
        pages = np.load(path, mmap_mode="r")
        for one in boxes:
            out[...] = pages[tuple(slice(lo, hi) for lo, hi in one)]

    def run() -> float:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return timed(theirs if peer == "numpy" else ours)

    return run, lambda: float(out.sum())


def save(peer: str, case: dict[str, Any], folder: str) -> Run:
    import infinitensor as it

    path = os.path.join(folder, "x.npy")
    values = np.random.default_rng(0).random(case["shape"]).astype("f4")
    x = it.asarray(values)
    it.compute(x)

    def theirs() -> None:
        np.save(path, values)
        with open(path, "rb") as file:
            os.fsync(file.fileno())

    def run() -> float:
        took_s = timed(theirs if peer == "numpy" else lambda: it.save(path, x))
        os.unlink(path)
        return took_s

    return run, lambda: float(values.sum())


if __name__ == "__main__":
    import sys

    from benchmarks.harness import main

    arguments = sys.argv[1:]
    if "--peers" not in arguments:
        arguments += ["--peers", "numpy", "page cache"]
    raise SystemExit(main("bench_storage", arguments))
