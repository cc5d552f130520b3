"""k-means of a file larger than the memory it may use, beside scikit-learn on the whole of it.

python examples/cluster.py                     # 600,000 rows, 73 MiB, in 32 MiB
python examples/cluster.py --rows 5000000 --memory 256MiB
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

import numpy as np

N_COLUMNS = 16
N_GROUPS = 64
HOW = {"init": "random", "n_init": 1, "max_iter": 30, "random_state": 0}


def say(text: str) -> None:
    print(text, flush=True)


def write_points(path: str, n_rows: int) -> None:
    """Rows around some centers, written a part at a time."""
    rng = np.random.default_rng(0)
    centers = rng.normal(0, 1, (N_GROUPS, N_COLUMNS))
    shape = (n_rows, N_COLUMNS)
    table = np.lib.format.open_memmap(path, "w+", np.float64, shape)
    for lo in range(0, n_rows, 100_000):
        part = table[lo : lo + 100_000]
        part[...] = rng.standard_normal(part.shape)
        part += centers[rng.integers(0, N_GROUPS, len(part))]
    table.flush()


def ours(path: str, memory: str):
    """Our fit of the file, with its seconds and the largest number of bytes held."""
    import infinitensor as it
    from infinitensor.cluster import KMeans

    with it.init(devices="cpu", memory=memory, progress=True):
        start = time.perf_counter()
        made = KMeans(N_GROUPS, **HOW).fit(path)
        seconds = time.perf_counter() - start
        stats = it.stats()
    return made, seconds, max(stats["peak_bytes"].values()), stats["bytes_read"]


def theirs(path: str):
    """scikit-learn's fit of the file, read whole, with its seconds."""
    from sklearn.cluster import KMeans

    x = np.load(path)
    start = time.perf_counter()
    made = KMeans(N_GROUPS, **HOW).fit(x)
    return made, time.perf_counter() - start


def mebibytes(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.1f} MiB"


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--memory", default="32MiB")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "points.npy")
        write_points(path, args.rows)
        size = mebibytes(os.path.getsize(path))
        say(f"{args.rows:,} rows x {N_COLUMNS} of float64: a file of {size}; {args.memory} for it")
        made, seconds, peak, n_read = ours(path, args.memory)
        say(f"InfiniTensor  {seconds:6.1f} s, {made.n_iter_} iterations, at most {mebibytes(peak)}")
        say(f"              {mebibytes(n_read)} read from the file")
        other, other_seconds = theirs(path)
        say(f"scikit-learn  {other_seconds:6.1f} s, {other.n_iter_} iterations, all in memory")
    same = bool((made.labels_ == other.labels_).all())
    say(f"inertia       {made.inertia_:.10g} and {other.inertia_:.10g}")
    say("the labels are the same" if same else "LABELS DIFFER")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
