"""One NumPy program, run by NumPy and by InfiniTensor on three virtual devices.

The program standardises a table of measurements, finds its principal axes by power iteration and
its groups by k-means. It is written once, over a module `xp` that is NumPy or InfiniTensor.

    python examples/demo.py                 # about 3 million rows, about half a minute
    python examples/demo.py --rows 100000   # a quick look
    python examples/demo.py --numpy-only    # the reference alone
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

N_COLUMNS = 16
N_GROUPS = 8
N_AXES = 3
POWER_STEPS = 12
KMEANS_STEPS = 10


# --- the program: plain NumPy -----------------------------------------------------------------


def clean(xp, x):
    """Gaps become 0, and the last column, a noisy sensor, counts half. `x` is changed in place."""
    x[:, 1] = xp.where(x[:, 1] == x[:, 1], x[:, 1], 0)  # NaN is not equal to itself
    x[:, -1] *= 0.5
    return x


def standardise(x):
    """Columns of mean 0 and deviation 1."""
    return (x - x.mean(0)) / x.std(0)


def principal_axes(xp, x, n_axes, n_steps):
    """The first directions of largest variance, by power iteration on x.T @ x."""
    axes = xp.zeros((n_axes, x.shape[1]), dtype=x.dtype)
    for i in range(n_axes):
        axis = axes[i]
        axis[i] = 1
        for _ in range(n_steps):
            v = x.T @ (x @ axis)
            v -= axes[:i].T @ (axes[:i] @ v)
            axis[:] = v / xp.sqrt((v * v).sum())
        say(f"  axis {i}: variance {float((xp.einsum('nd,d->n', x, axis) ** 2).mean()):.4f}")
    return axes


def kmeans_step(xp, x, centers):
    """Each row goes to its nearest center; each center becomes the mean of its rows."""
    distances = (x * x).sum(1)[:, None] - 2 * x @ centers.T + (centers * centers).sum(1)
    labels = distances.argmin(1)
    members = labels[:, None] == xp.arange(len(centers))
    return members.T @ x / members.sum(0, dtype=x.dtype)[:, None], labels


def kmeans(xp, x, n_groups, n_steps):
    """Lloyd's iteration from evenly spaced rows."""
    centers = x[:: len(x) // n_groups][:n_groups].copy()
    for step in range(n_steps):
        new, labels = kmeans_step(xp, x, centers)
        shift = float(xp.sqrt(((new - centers) ** 2).sum()))
        centers = new
        say(f"  k-means step {step}: centers moved {shift:.5f}")
    return centers, labels


@dataclass(frozen=True)
class Result:
    """What the program finds; the fields that are compared."""

    mean: Any
    deviation: Any
    axes: Any
    scores: Any
    centers: Any
    labels: Any


def analyse(xp, x):
    """The whole program."""
    x = clean(xp, x)
    mean, deviation = x.mean(0), x.std(0)
    x = standardise(x)
    axes = principal_axes(xp, x, N_AXES, POWER_STEPS)
    scores = x @ axes.T
    centers, labels = kmeans(xp, x, N_GROUPS, KMEANS_STEPS)
    return Result(mean, deviation, axes, scores, centers, labels)


# --- running and comparing --------------------------------------------------------------------


def say(text: str) -> None:
    print(text, flush=True)


def measurements(n_rows: int, seed: int = 0):
    """Rows around eight centers, with gaps in one column."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(0, 2, (N_GROUPS, N_COLUMNS)).astype(np.float32)
    x = rng.standard_normal((n_rows, N_COLUMNS), dtype=np.float32)
    x *= np.linspace(0.5, 2, N_COLUMNS, dtype=np.float32)
    x += centers[rng.integers(0, N_GROUPS, n_rows)]
    x[rng.integers(0, n_rows, n_rows // 100), 1] = np.nan
    return x


def run_numpy(table):
    """The program on NumPy; returns its result and the seconds it took."""
    start = time.perf_counter()
    result = analyse(np, table.copy())
    return result, time.perf_counter() - start


def run_infinitensor(table, devices: str):
    """The program on InfiniTensor, in a session on `devices`; results come back as NumPy arrays."""
    import infinitensor as it

    with it.init(devices=devices, progress=True):
        it.stats(reset=True)
        start = time.perf_counter()
        result = analyse(it, it.asarray(table))
        it.compute(*(getattr(result, field.name) for field in fields(result)))
        seconds = time.perf_counter() - start
        stats = it.stats()
        say("\nthe plan of one k-means step, before anything of it runs:")
        centers, _ = kmeans_step(it, standardise(it.asarray(table)), result.centers)
        say(str(centers.explain()))
        say("\nwhat the run cost:")
        say(f"  moved between devices  {mebibytes(stats['bytes_moved'])}")
        for where, n_bytes in peaks(stats["peak_bytes"]):
            say(f"  peak of {where:<14} {mebibytes(n_bytes)}")
        say(f"  tasks                  {stats['tasks']:,}")
        say(f"  plans made / reused    {stats['plan_misses']:,} / {stats['plan_hits']:,}")
        result = Result(*(getattr(result, field.name).numpy() for field in fields(result)))
    return result, seconds


def peaks(peak_bytes):
    """(place, bytes) pairs of the `peak_bytes` counter."""
    if isinstance(peak_bytes, Mapping):
        return [("/".join(where), n_bytes) for where, n_bytes in peak_bytes.items()]
    return [("all memories", peak_bytes)]


def mebibytes(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:10,.1f} MiB"


def compare(ours: Result, theirs: Result, exact: Result) -> bool:
    """Print the largest differences of two float32 results and how far each is from float64."""
    say(f"\n{'':<12}{'ours - NumPy':>16}{'ours - exact':>16}{'NumPy - exact':>16}")
    agree = True
    for field in fields(Result):
        a, b, c = (np.asarray(getattr(result, field.name)) for result in (ours, theirs, exact))
        if field.name == "labels":
            gaps = [float((x != y).mean()) for x, y in ((a, b), (a, c), (b, c))]
        else:
            gaps = [float(np.abs(x - y).max()) for x, y in ((a, b), (a, c), (b, c))]
        note = "  (share that differs)" if field.name == "labels" else ""
        say(f"{field.name:<12}{gaps[0]:>16.2e}{gaps[1]:>16.2e}{gaps[2]:>16.2e}{note}")
        # Two float32 runs may differ by as much as float32 itself costs.
        agree &= gaps[1] <= max(2 * gaps[2], 1e-3)
        agree &= a.dtype == b.dtype and a.shape == b.shape
    return agree


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--devices", default="cpu*3")
    parser.add_argument("--numpy-only", action="store_true")
    args = parser.parse_args(argv)

    say(f"{args.rows:,} rows x {N_COLUMNS} columns of float32")
    table = measurements(args.rows)
    if not args.numpy_only:
        say(f"\nInfiniTensor on {args.devices}")
        ours, our_seconds = run_infinitensor(table, args.devices)
    say("\nNumPy")
    theirs, numpy_seconds = run_numpy(table)
    say(f"NumPy took {numpy_seconds:.1f} s")
    if args.numpy_only:
        return 0
    say("\nNumPy in float64, to judge both")
    exact, _ = run_numpy(table.astype(np.float64))
    agree = compare(ours, theirs, exact)
    say(f"\nInfiniTensor {our_seconds:.1f} s, NumPy {numpy_seconds:.1f} s")
    say("same values" if agree else "VALUES DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    raise SystemExit(main())
