"""Arguments of the ops that clustering stands on: tiles of about 1e5 elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.ops.linalg.csr_matmul import Rows


def clustered(rng: np.random.Generator) -> dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """For each op its arguments, positional and by name."""
    made: dict[str, list[Any]] = {}
    for kind in ("f8", "f4"):
        for name, cases in _centered(rng, kind).items():
            made.setdefault(name, []).extend(cases)
    for d in (2, 40):
        for name, cases in _paired(rng, d).items():
            made.setdefault(name, []).extend(cases)
    x, y = rng.standard_normal((400, 30)), rng.standard_normal((300, 30))
    none, codes = np.full(400, -1), rng.integers(0, 5, 300)
    for metric in ("euclidean", "cosine", "cityblock", "minkowski", "correlation"):
        named = {"metric": metric, **({"p": 3.0} if metric == "minkowski" else {})}
        made.setdefault("_distances", []).append(((x, y, none), named))
        made.setdefault("_nearest_by", []).append(((x, y), named))
        sums = ((x, y, none, codes), {"n_codes": 5, **named})
        made.setdefault("_distance_sums", []).append(sums)
    made["_group_sums"] = [((rng.standard_normal((3000, 40)), rng.integers(0, 9, 3000), 9), {})]
    return made


def _centered(rng: np.random.Generator, kind: str) -> dict[str, list[Any]]:
    n, d, k = 3000, 40, 30
    x = rng.standard_normal((n, d)).astype(kind)
    shift, centers = x.mean(0).astype(kind), x[:k] + x.dtype.type(0.5)
    labels = rng.integers(0, k, n).astype(np.int32)
    before = rng.integers(-1, k, n).astype(np.int32)
    weights = rng.uniform(size=n).astype(kind)
    kept = np.tile(np.asarray([1.0, 2.0], np.float32), (n, 1))
    moves = np.full((k, 3), 0.1, np.float32)
    scale = np.full(d + 1, 2.0**30)
    starts = np.arange(0, n * 10 + 1, 10)
    data, indices = rng.standard_normal(n * 10).astype(kind), rng.integers(0, d, n * 10)
    closest = rng.uniform(size=n).astype(kind)
    draws = rng.uniform(size=(20, 5))
    return {
        "_columns": [((x,), {}), ((x[:, ::2],), {})],
        "_nearest": [((x, shift, centers), {})],
        "_nearest_moved": [((x, shift, centers, before, kept, moves), {})],
        "_label_sums": [((x, shift, scale, labels, before, weights), {"k": k})],
        "_label_inertia": [((x, shift, centers, scale[:1], labels, weights), {})],
        "_label_distances": [((x, shift, centers, labels), {})],
        "_distances_to": [((x, shift, centers[:8]), {"squared": one}) for one in (False, True)],
        "_closer": [
            ((x, shift, centers[:8]), {}),
            ((x, shift, centers[:8], closest, labels, np.ones((k, 8), kind)), {}),
        ],
        "_seeds": [
            ((x, shift, draws, np.array([7])), {}),
            ((x, shift, draws, np.array([7]), weights), {}),
        ],
        "_lloyd": [
            ((x, shift, scale, centers, np.zeros(1)), {"max_iter": 5}),
            ((x, shift, scale, centers, np.zeros(1), weights), {"max_iter": 5}),
        ],
        "_bisect": [
            ((x, shift, scale, draws[:5, :2], np.zeros(1)), {"max_iter": 6, "by_size": one})
            for one in (False, True)
        ],
        "_csr_nearest": [((data, indices, centers, Rows(starts, d)), {})],
    }


def _paired(rng: np.random.Generator, d: int) -> dict[str, list[Any]]:
    n = 2000
    x, y = rng.standard_normal((n, d)), rng.standard_normal((n, d))
    number, limit = np.arange(n), 0.05 if d == 2 else 40.0
    core = rng.uniform(size=n)
    x[0], x[499] = y[0], y[1]  # a tile of entries begins and ends with rows that have some
    points = (y, number, number % 7, core)
    near = ((y[None, :200] - x[:500, None]) ** 2).sum(-1) <= limit
    found = Rows(np.concatenate([[0], np.cumsum(near.sum(1))]), 200)
    return {
        "_pairs_count": [((y, x, limit), {})],
        "_pairs_weigh": [((y, core, x, limit), {})],
        "_pairs_top": [((y, number, x, 10), {})],
        "_pairs_unite": [((y, number, y, number, limit, n, True), {})],
        "_pairs_least": [((y, number, x, limit), {})],
        "_pairs_edge": [((*points, *points, 7), {})],
        "_pairs_found": [
            ((y[:200], number[:200], x[:500], limit, found, one), {}) for one in (0, 1)
        ],
        "_pairs_tree": [((x, core, number), {})],
        "_pairs_order": [((x,), {})],
    }
