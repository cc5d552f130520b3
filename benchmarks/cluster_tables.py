"""The tables of clustering in docs/benchmarks.md: `python -m benchmarks.cluster_tables`.

Ours and scikit-learn, each in a process of its own with its own threads, in turns; what counts is
the median of scikit-learn's time over ours (above 1 we are faster). Three tables: sizes at which
scikit-learn takes seconds (`big`), a `grid` of sizes for k-means, and few points (`small`), where
the difference in milliseconds counts. About nine minutes on two cores, 4 + 4 + 1; nothing else
should run meanwhile.

`big`, `grid`, `small` make only these; words with `x` choose cells of the grid (`20000x64x3`),
other words the rows that have them in their names. `--busy` is for a machine that does other
things: processor time, one thread for scikit-learn and for BLAS (threads that wait for others would
count). `--write` puts rows into the page as they come, in place of those of the same name: a run
may be stopped, and a part of a table made again.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.bench_cluster import PEERS, STEPS, case
from benchmarks.harness import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
MISSING = "rows are missing."
MOST_PAIRS, LEAST_PAIRS = 15, 3
PAIRS_S = {"big": 2.5, "grid": 1.0, "small": 1.0}
"""About how long the pairs of a row take, where that leaves enough of them."""
N_ITER = 20
OTHER = 1e-3
"""Results that differ by more are marked: the two did not do the same work."""

BIG: list[tuple[dict[str, Any], float]] = [
    *(
        (case("KMeans", data, (200_000, 32), dtype, n_clusters=100, max_iter=20), 1.3)
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

    def of(
        self, one: dict[str, Any], least: int, pairs_s: float
    ) -> tuple[list[tuple[float, float]], bool]:
        """Seconds of ours and of scikit-learn's, pair by pair; and whether both found the same."""
        took, found = [0.0, 0.0], []
        pairs: list[tuple[float, float]] = []
        for i, worker in enumerate(self.both):
            worker.ask(do="setup", case={**one, "clock": self.clock})
            took[i] = worker.ask(do="run", times=1)["seconds"]
            if i == 0 or took[i] < pairs_s / least:  # the first of ours makes plans and kernels
                took[i] = worker.ask(do="run", times=1)["seconds"]
            else:  # scikit-learn has nothing to make, and takes seconds
                pairs.append((took[0], took[1]))
            found.append(worker.ask(do="check")["value"])
        n_pairs = min(max(int(pairs_s / max(sum(took), 1e-9)), least), MOST_PAIRS)
        for turn in range(n_pairs - len(pairs)):
            for i in (0, 1) if turn % 2 else (1, 0):
                took[i] = self.both[i].ask(do="run", times=1)["seconds"]
            pairs.append((took[0], took[1]))
        return pairs, abs(found[0] - found[1]) <= OTHER * max(abs(found[1]), 1e-30)


def ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """scikit-learn's time over ours."""
    return median(theirs / ours for ours, theirs in pairs)


BIG_HEAD = ("| case | faster by | asked for | s, ours / scikit-learn |", "|---|---|---|---|")
GRID_HEAD = ("| data | n | d | k | float32 | float64 |", "|---|---|---|---|---|---|")
SMALL_HEAD = ("| case | ms, ours / scikit-learn | more |", "|---|---|---|")


def big_rows(words: Sequence[str]) -> Iterator[tuple[str, Callable[[Turns], str]]]:
    """Sizes at which scikit-learn takes seconds."""

    def cells(turns: Turns, one: dict[str, Any], asked: float) -> str:
        pairs, same = turns.of(one, LEAST_PAIRS, PAIRS_S["big"])
        ours, theirs = (median(side) for side in zip(*pairs, strict=True))
        faster, note = ratio(pairs), "" if same else ", other results"
        text = f"{faster:.2f}x" if faster >= asked else f"**{faster:.2f}x**"
        return f" {text}{note} | {asked}x | {ours:.2f} / {theirs:.2f} |"

    for one, asked in BIG:
        if not words or any(word in one["name"] for word in words):
            yield f"| {one['name']} |", partial(cells, one=one, asked=asked)


def grid_rows(words: Sequence[str]) -> Iterator[tuple[str, Callable[[Turns], str]]]:
    """k-means over a grid of sizes."""

    def cells(turns: Turns, data: str, n: int, d: int, k: int) -> str:
        found = []
        for dtype in ("float32", "float64"):
            one = case("KMeans", data, (n, d), dtype, n_clusters=k, max_iter=N_ITER)
            pairs, same = turns.of(one, 5, PAIRS_S["grid"])
            faster = ratio(pairs)
            text = f"{faster:.2f}" + ("" if same else "*")
            found.append(text if faster >= LEAST else f"**{text}**")
        return f" {' | '.join(found)} |"

    sizes = [word for word in words if "x" in word]
    for data, (n, d, k) in product(("groups", "even"), GRID):
        if not sizes or f"{n}x{d}x{k}" in sizes:
            yield f"| {data} | {n:,} | {d} | {k} |", partial(cells, data=data, n=n, d=d, k=k)


def small_rows(words: Sequence[str]) -> Iterator[tuple[str, Callable[[Turns], str]]]:
    """Few points: how many milliseconds ours take more."""

    def cells(turns: Turns, one: dict[str, Any]) -> str:
        pairs, _ = turns.of(one, MOST_PAIRS, PAIRS_S["small"])
        ours, theirs = (1e3 * median(side) for side in zip(*pairs, strict=True))
        more = 1e3 * median(ours - theirs for ours, theirs in pairs)
        text = f"{more:+.1f}" if more <= MOST_MS else f"**{more:+.1f}**"
        return f" {ours:.1f} / {theirs:.1f} | {text} |"

    for one in SMALL:
        if not words or any(word in one["name"] for word in words):
            yield f"| {one['name']} |", partial(cells, one=one)


TABLES = {
    "big": (BIG_HEAD, big_rows),
    "grid": (GRID_HEAD, grid_rows),
    "small": (SMALL_HEAD, small_rows),
}


def written(page: str, name: str, made: dict[str, str], when: str) -> str:
    """The page with rows of one of its tables in place of those of the same beginning."""
    start, end = marks(name)
    head, found, rest = page.partition(start)
    assert found, f"the page has no {start}"
    before, _, rest = rest.partition(end)
    titles, rows = TABLES[name]
    lines = before.strip().splitlines()
    prose = [line for line in lines if line and line[0] != "|" and MISSING not in line]
    table, n_old = list(titles), 0
    for key, _ in rows(()):
        old = next((line for line in lines if line.startswith(key)), None)
        n_old += key not in made and old is not None
        if key in made or old is not None:
            table.append(made.get(key) or str(old))
    missing = sum(1 for _ in rows(())) + len(titles) - len(table)
    texts = dict.fromkeys([when, *(prose if n_old else [])])
    body = "\n".join([*texts, *([f"{missing} {MISSING}"] if missing else []), "", *table])
    return f"{head}{start}\n\n{body}\n\n{end}{rest}"


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
        begun = time.perf_counter()
        titles, rows = TABLES[name]
        made: dict[str, str] = {}
        with Turns(busy="--busy" in argv) as turns:
            load = os.getloadavg()[0]
            day = time.strftime("%Y-%m-%d")
            chosen = f" ({' '.join(words)})" if words else ""
            when = f"{day}, {turns.clock} time, load before {load:.1f}{chosen}:"
            print("", f"{name}: {when}", "", *titles, sep="\n", flush=True)
            for key, cells in rows(words):
                made[key] = key + cells(turns)
                print(made[key], flush=True)
                if "--write" in argv:
                    PAGE.write_text(written(PAGE.read_text("utf-8"), name, made, when), "utf-8")
        print(f"\n{name}: {time.perf_counter() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
