"""The tables of clustering in docs/benchmarks.md: `python -m benchmarks.cluster_tables`.

Ours and scikit-learn, each in a process of its own with its own threads, in turns; what counts is
the median of scikit-learn's time over ours (above 1 we are faster). Three tables: sizes at which
scikit-learn takes seconds, a grid of sizes for k-means, and few points, where the difference in
milliseconds counts. About twelve minutes on two cores; nothing else should run meanwhile.

`big`, `grid`, `small` make only these; words with `x` choose cells of the grid (`20000x64x3`),
other words the rows that have them in their names. `--busy` is for a machine that does other
things: processor time, one thread for scikit-learn and for BLAS (threads that wait for others would
count). `--write` puts the tables into the page.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.bench_cluster import PEERS, STEPS, case
from benchmarks.harness import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
MOST_PAIRS, LEAST_PAIRS = 15, 3
PAIRS_S = 2.5
"""About how long the pairs of a row take, where that leaves enough of them."""
N_ITER = 20
OTHER = 1e-3
"""Results that differ by more are marked: the two did not do the same work."""

BIG: list[tuple[dict[str, Any], float]] = [
    *(
        (case("KMeans", data, (200_000, 32), dtype, n_clusters=100, max_iter=40), 1.3)
        for data in ("groups", "even")
        for dtype in ("float32", "float64")
    ),
    (case("KMeans", "groups", (500_000, 16), "float64", n_clusters=8), 1.3),
    (case("MiniBatchKMeans", "groups", (250_000, 32), "float64", n_clusters=50, **STEPS), 2.0),
    (case("MiniBatchKMeans", "groups", (250_000, 32), "float32", n_clusters=50, **STEPS), 2.0),
    (case("BisectingKMeans", "groups", (400_000, 16), "float64", n_clusters=16), 1.3),
    (case("BisectingKMeans", "groups", (400_000, 16), "float32", n_clusters=16), 1.3),
    *(
        (case("DBSCAN", "noise", (n, d), "float64", eps=eps, n_jobs=2), 3.0)
        for n, d, eps in ((300_000, 3, 0.2), (60_000, 8, 1.6), (30_000, 16, 3.2), (25_000, 64, 9.6))
    ),
    *(
        (case("NearestNeighbors", "noise", (n, d), "float64", n_neighbors=10, n_jobs=2), 2.0)
        for n, d in ((300_000, 3), (60_000, 8), (30_000, 16), (25_000, 64))
    ),
    *(
        (case("HDBSCAN", "noise", (n, d), "float64", copy=False, n_jobs=2), 3.0)
        for n, d in ((20_000, 3), (12_000, 16))
    ),
    (case("silhouette_score", "groups", (15_000, 16), "float64", n_labels=10), 2.0),
    (case("silhouette_score", "groups", (15_000, 64), "float32", n_labels=10), 2.0),
]
"""Rows, and how much faster each has to be."""

GRID = [
    (n, d, k)
    for n in (2_000, 20_000, 100_000)
    for d in (2, 16, 64)
    for k in (3, 30, 100)
    if n * d * k <= 200_000_000
]
LEAST = 0.9
"""What no cell of the grid may be below."""

SMALL = [
    case(name, "noise", (n, 8), "float64", **parameters)
    for name, parameters in (
        ("KMeans", {"n_clusters": 8}),
        ("KMeans", {"n_clusters": 8, "n_init": 10}),
        ("MiniBatchKMeans", {"n_clusters": 8}),
        ("BisectingKMeans", {"n_clusters": 8}),
        ("DBSCAN", {"eps": 1.6}),
        ("HDBSCAN", {"copy": False}),
        ("NearestNeighbors", {"n_neighbors": 10}),
        ("silhouette_score", {"n_labels": 5}),
        ("pairwise_distances", {}),
    )
    for n in (100, 500, 1_500)
]
MOST_MS = 2.0
"""More milliseconds than this above scikit-learn no call of few points may take."""


class Turns:
    """Both libraries, asked in turns."""

    def __init__(self, *, busy: bool) -> None:
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.clock = "processor" if busy else "wall"
        peers = dict.fromkeys(PEERS, one_thread) if busy else PEERS
        self.both = [Worker("bench_cluster", peer, peers[peer], "cpu") for peer in peers]

    def __enter__(self) -> Turns:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.both:
            worker.__exit__()

    def of(self, one: dict[str, Any], least: int) -> tuple[list[tuple[float, float]], bool]:
        """Seconds of ours and of scikit-learn's, pair by pair; and whether both found the same."""
        took, found = [0.0, 0.0], []
        for i, worker in enumerate(self.both):
            worker.ask(do="setup", case={**one, "clock": self.clock})
            worker.ask(do="run", times=1)
            took[i] = worker.ask(do="run", times=1)["seconds"]
            found.append(worker.ask(do="check")["value"])
        n_pairs = min(max(int(PAIRS_S / max(sum(took), 1e-9)), least), MOST_PAIRS)
        pairs = []
        for turn in range(n_pairs):
            for i in (0, 1) if turn % 2 else (1, 0):
                took[i] = self.both[i].ask(do="run", times=1)["seconds"]
            pairs.append((took[0], took[1]))
        return pairs, abs(found[0] - found[1]) <= OTHER * max(abs(found[1]), 1e-30)


def ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """scikit-learn's time over ours."""
    return median(theirs / ours for ours, theirs in pairs)


def big_rows(turns: Turns, words: Sequence[str]) -> Iterator[str]:
    """Sizes at which scikit-learn takes seconds."""
    yield "| case | faster by | asked for | s, ours / scikit-learn |"
    yield "|---|---|---|---|"
    for one, asked in BIG:
        if words and not any(word in one["name"] for word in words):
            continue
        pairs, same = turns.of(one, LEAST_PAIRS)
        ours, theirs = (median(side) for side in zip(*pairs, strict=True))
        faster, note = ratio(pairs), "" if same else " (other results)"
        told = f"{faster:.2f}x" if faster >= asked else f"**{faster:.2f}x**"
        yield f"| {one['name']}{note} | {told} | {asked}x | {ours:.2f} / {theirs:.2f} |"


def grid_rows(turns: Turns, words: Sequence[str]) -> Iterator[str]:
    """k-means over a grid of sizes."""
    yield "| data | n | d | k | float32 | float64 |"
    yield "|---|---|---|---|---|---|"
    sizes = [word for word in words if "x" in word]
    for data, (n, d, k) in product(("groups", "even"), GRID):
        if sizes and f"{n}x{d}x{k}" not in sizes:
            continue
        cells = []
        for dtype in ("float32", "float64"):
            one = case("KMeans", data, (n, d), dtype, n_clusters=k, max_iter=N_ITER)
            pairs, same = turns.of(one, 5)
            faster = ratio(pairs)
            told = f"{faster:.2f}" + ("" if same else "*")
            cells.append(told if faster >= LEAST else f"**{told}**")
        yield f"| {data} | {n:,} | {d} | {k} | {' | '.join(cells)} |"


def small_rows(turns: Turns, words: Sequence[str]) -> Iterator[str]:
    """Few points: how many milliseconds ours take more."""
    yield "| case | ms, ours / scikit-learn | more |"
    yield "|---|---|---|"
    for one in SMALL:
        if words and not any(word in one["name"] for word in words):
            continue
        pairs, _ = turns.of(one, MOST_PAIRS)
        ours, theirs = (1e3 * median(side) for side in zip(*pairs, strict=True))
        more = 1e3 * median(ours - theirs for ours, theirs in pairs)
        told = f"{more:+.1f}" if more <= MOST_MS else f"**{more:+.1f}**"
        yield f"| {one['name']} | {ours:.1f} / {theirs:.1f} | {told} |"


TABLES = {"big": big_rows, "grid": grid_rows, "small": small_rows}


def written(page: str, name: str, rows: Sequence[str], when: str) -> str:
    """The page with one of its tables in place of what stands between its marks."""
    start, end = marks(name)
    head, found, rest = page.partition(start)
    assert found, f"the page has no {start}"
    table = "\n".join(rows)
    return f"{head}{start}\n\n{when}\n\n{table}\n\n{end}{rest.partition(end)[2]}"


def marks(name: str) -> tuple[str, str]:
    """What a table stands between."""
    of = f"clustering, {name}"
    return f"<!-- {of}: written by benchmarks/cluster_tables.py -->", f"<!-- end of {of} -->"


def main(argv: Sequence[str]) -> None:
    """Make the tables, print them as they come, and write them into the page if asked."""
    words = [word for word in argv if word[0] != "-"]
    names = [name for name in TABLES if name in words] or list(TABLES)
    words = [word for word in words if word not in TABLES]
    for name in names:
        with Turns(busy="--busy" in argv) as turns:
            load = os.getloadavg()[0]
            when = f"{time.strftime('%Y-%m-%d')}, {turns.clock} time, load before {load:.1f}:"
            print(f"\n{name}: {when}\n", flush=True)
            rows = []
            for row in TABLES[name](turns, words):
                rows.append(row)
                print(row, flush=True)
        if "--write" in argv:
            assert not words, "a part of a table does not go into the page"
            PAGE.write_text(written(PAGE.read_text("utf-8"), name, rows, when), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
