"""Sorting a line that is longer than memory: runs, then parts of the result from a piece of each.

Each run is sorted for itself and computed at once, because the shapes of what follows depend on its
values: a sample of all runs says which values part the result, a search in each run where they are
in it. A part of the result is then sorted from one piece of every run, and fits into memory: three
passes over the values, of which two read what the first has written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.ir.op import Spec

PARTS_PER_RUN = 1.5
"""Parts of the result for each run: the sample only estimates their lengths."""
SAMPLED = 8
"""How many values a run gives to the sample for each run there is."""
TAKEN = 4
"""How often an element is there while it is sorted, beside the scratch of that: a part of the
result is put together from pieces first."""
MOST_RUNS = 512
"""Beyond, there are too many pieces: each part has one of each run."""
IN_MEMORY = 2.25
"""A CPU with less than this many times the bytes of a line, beside what merging works in, sorts it
in parts: merging needs a line of runs, and one of results."""


def is_long(xp: Any, a: Any, run: int) -> bool:
    """Whether a line is too long to be merged from its runs, but not to be sorted in parts."""
    if len(a.shape) != 1 or np.dtype(a.dtype).kind == "c" or not xp.tiered_bytes():
        return False
    n, itemsize = a.shape[0], np.dtype(a.dtype).itemsize
    if xp.device_kind() == "cuda":  # there a line is sorted in one go
        need = n * (2 * itemsize + _scratch(xp, a))
    else:
        need = IN_MEMORY * n * itemsize + xp.n_concurrent() * _merging(xp, a, run)
    return need > xp.tiered_bytes() and run_length(xp, a) > 0


def _scratch(xp: Any, a: Any) -> float:
    """Bytes of scratch for each element of a line that is sorted in one go."""
    line = Spec((1 << 20,), np.dtype(a.dtype))
    return float(xp.scratch_bytes("_sort_axis", line) / line.n_elements)


def _merging(xp: Any, a: Any, run: int) -> int:
    """Bytes of scratch of one kernel that merges the runs of a line into a piece of the result."""
    line, piece = (Spec((n,), np.dtype(a.dtype)) for n in (a.shape[0], run))
    return int(xp.scratch_bytes("_merge_runs", line, piece, axis=0, run=run))


def run_length(xp: Any, a: Any) -> int:
    """Elements of a run, so that as many as run at a time fit; 0: there would be too many runs."""
    taken = TAKEN * np.dtype(a.dtype).itemsize + _scratch(xp, a)
    longest = int(xp.tiered_bytes() // (taken * xp.n_concurrent()))
    n_runs = -(-a.shape[0] // max(longest, 1))
    return 0 if n_runs > MOST_RUNS else -(-a.shape[0] // n_runs)


def sort_long(xp: Any, a: Any) -> Any:
    """The sorted line."""
    n, length = a.shape[0], run_length(xp, a)
    runs = [xp._sort_axis(a[lo : lo + length], 0) for lo in range(0, n, length)]
    step = max(length // (SAMPLED * len(runs)), 1)
    samples = [run[step // 2 :: step] for run in runs]
    xp.settle(*runs, *samples)
    sample = np.sort(np.concatenate([xp.force(s) for s in samples]))
    ranks = np.linspace(0, n, int(PARTS_PER_RUN * len(runs)) + 1).astype(np.int64)[1:-1]
    values = sample[ranks * len(sample) // n]
    found = [[xp.searchsorted(run, values, side) for run in runs] for side in ("left", "right")]
    xp.settle(*found[0], *found[1])
    left, right = (np.stack([xp.force(t) for t in each]) for each in found)
    borders = split_equal(left, right, ranks)
    ends = np.asarray([[run.shape[0]] for run in runs])
    borders = np.concatenate([np.zeros_like(ends), borders, ends], axis=1)
    parts = []
    for lo, hi in zip(borders.T[:-1].tolist(), borders.T[1:].tolist(), strict=True):
        pieces = [run[a:b] for run, a, b in zip(runs, lo, hi, strict=True) if b > a]
        if pieces:
            parts.append(xp._sort_axis(xp._concatenate(pieces, 0), 0))
    return xp._concatenate(parts, 0)


def split_equal(left: np.ndarray, right: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """By run and rank, how many elements of each run come before: as near to the ranks as values
    that are equal allow, those of the first runs first.

    `left` and `right` say how many elements of each run are below a value, and not above it.

    >>> split_equal(np.array([[1], [0]]), np.array([[3], [2]]), np.array([4])).tolist()
    [[3], [1]]
    """
    equal = right - left
    lacking = np.clip(ranks - left.sum(axis=0), 0, equal.sum(axis=0))
    before = np.cumsum(equal, axis=0) - equal
    found: np.ndarray = left + np.clip(lacking - before, 0, equal)
    return found
