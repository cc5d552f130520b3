"""Rows that are shared out among workers: every part once, results as of one, errors too."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.eager.row_parts import in_parts, parts_of, share
from infinitensor.api.eager.whole_array import at_once


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_parts_cover_the_rows_once(workers: int) -> None:
    it.shutdown()
    it.config.workers = workers
    for n, least in ((1, 1), (10, 3), (1000, 7), (5, 100)):
        parts = parts_of(n, least)
        assert [row for part in parts for row in range(*part)] == list(range(n))
        assert len(parts) == 1 or min(end - begin for begin, end in parts) >= least
        assert len(parts) == 1 or workers > 1


def test_parts_run_in_workers_and_their_errors_come_back() -> None:
    it.shutdown()
    it.config.workers = 3
    parts, seen = parts_of(100, 1), []
    share(parts, lambda begin, end: seen.append((begin, end, threading.current_thread().name)))
    assert sorted(one[:2] for one in seen) == parts
    assert all(name.startswith("infinitensor-") for *_, name in seen)

    def fails(begin: int, end: int) -> None:
        if begin:
            raise ValueError(f"rows from {begin}")

    with pytest.raises(ValueError, match="rows from"):
        share(parts, fails)
    share(parts, lambda begin, end: seen.append((begin, end, "")))
    assert len(seen) == 2 * len(parts)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_op_in_parts_gives_what_it_gives_at_once(dtype: str) -> None:
    it.shutdown()
    it.config.workers = 2
    rng = np.random.default_rng(0)
    x, centers = rng.normal(size=(500, 6)).astype(dtype), rng.normal(size=(4, 6)).astype(dtype)
    shift = x.mean(0)
    labels = at_once("_nearest", x, shift, centers)
    np.testing.assert_array_equal(in_parts("_nearest", 10, x, shift, centers), labels)
    far = in_parts("_closer", 10, x, shift, centers)  # rows are its second axis
    np.testing.assert_array_equal(far, at_once("_closer", x, shift, centers))
    operands = (x, shift, centers, np.array([2.0**30]), labels)
    inertia = in_parts("_label_inertia", 10, *operands)
    np.testing.assert_array_equal(inertia, at_once("_label_inertia", *operands))
    moves, old = np.zeros((4, 3), np.float32), np.full(500, -1, np.int32)
    given = (x, shift, centers, old, np.zeros((500, 2), np.float32), moves)
    both = in_parts("_nearest_moved", 10, *given), at_once("_nearest_moved", *given)
    for mine, whole in zip(*both, strict=True):
        np.testing.assert_array_equal(mine, whole)
