"""Ops that are not elementwise, on the CPU: python -m benchmarks.bench_ops [--only sort cumsum].

Each program is written once for NumPy's names; where another library spells it otherwise it has its
own line. A peer that has no such op says so and drops out of the row. `--peers numpy torch`,
`--pairs 15` and `--only` choose; all takes about half an hour. `--summary` prints the table of the
last run again.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import libraries
from benchmarks.libraries import (
    Case,
    Xp,
    many,
    no_operands,
    normal,
    op,
    rising,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.libraries import Maker

QUESTION = "Are ops that are not elementwise as fast as the best of all peers?"
PEERS = libraries.PEERS

N = 10_000_000


def integers(high: int, n: int = N) -> Maker:
    return libraries.integers(high, n)


def labelled(rng: Any) -> list[Any]:
    """Rows, labels and first coefficients of a logistic regression."""
    x = rng.standard_normal((2_000_000, 100), dtype="f4")
    y = (x @ rng.standard_normal(100, dtype="f4") + rng.standard_normal(len(x)) > 0).astype("f4")
    return [x, y, np.zeros(100, "f4")]


def newton(xp: Xp, x: Any, y: Any, w: Any) -> Any:
    """One step of Newton's method."""
    p = 1 / (1 + xp.exp(-(x @ w)))
    gradient = x.T @ (y - p)
    hessian = x.T @ (x * (p * (1 - p))[:, None])
    return w + xp.linalg.solve(hessian, gradient)


def matmul(n: int) -> Case:
    side = max(n // 4, 1)
    return op(
        many(normal(n, n), normal(n, n)),
        lambda xp, x, y: x @ y,
        dask=lambda xp, x, y: x.rechunk(side) @ y.rechunk(side),
    )


def chained(xp: Xp, *factors: Any) -> Any:
    return xp.linalg.multi_dot(factors)


def add_at(xp: Xp, base: Any, index: Any, values: Any) -> Any:
    xp.add.at(base, index, values)
    return base


def top_of_jax(xp: Xp, x: Any) -> Any:
    import jax

    return jax.lax.top_k(x, 10)[0]


def draw(name: str, *args: Any, torch: Callable[..., Any]) -> Case:
    """A distribution of a generator that is made once."""

    def program(xp: Xp) -> Any:
        return getattr(generator(xp), name)(*args, size=N)

    return op(no_operands, program, torch=torch, jax=None, random=True)


def generator(xp: Xp, made: dict[str, Any] = {}) -> Any:  # noqa: B006
    return made.setdefault(xp.__name__, xp.random.default_rng(1))


def put_operands(n: int) -> Maker:
    return many(normal(n, dtype="f8"), integers(n), normal(N, dtype="f8"))


ROWS: dict[str, Case] = {
    "sort": op(normal(N, dtype="f8"), lambda xp, x: xp.sort(x), dask=None),
    "sort float32": op(normal(N), lambda xp, x: xp.sort(x), dask=None),
    "sort int64": op(integers(1 << 40), lambda xp, x: xp.sort(x), dask=None),
    "sort rows": op(
        normal(10_000, 1000),
        lambda xp, x: xp.sort(x, 1),
        torch=lambda xp, x: xp.sort(x, 1).values,
        dask=lambda xp, x: x.map_blocks(np.sort),
    ),
    "argsort": op(normal(N, dtype="f8"), lambda xp, x: xp.argsort(x), dask=None),
    "unique": op(integers(1_000_000), lambda xp, x: xp.unique(x), by_value=True),
    "unique counts": op(
        integers(1000),
        lambda xp, x: xp.unique(x, return_counts=True),
        by_value=True,
        torch=lambda xp, x: xp.unique(x, return_counts=True),
    ),
    "boolean mask": op(normal(N, dtype="f8"), lambda xp, x: x[x > 0.3], by_value=True),
    "nonzero": op(
        normal(N, dtype="f8"),
        lambda xp, x: xp.nonzero(x > 0.3)[0],
        by_value=True,
        torch=lambda xp, x: xp.nonzero(x > 0.3),
    ),
    "cumsum": Case(normal(N, dtype="f8"), lambda xp, x: xp.cumsum(x, 0)),
    "cumsum float32": Case(normal(N), lambda xp, x: xp.cumsum(x, 0)),
    "cumsum rows": Case(normal(10_000, 1000), lambda xp, x: xp.cumsum(x, 1)),
    "rfft": op(
        normal(1 << 24, dtype="f8"),
        lambda xp, x: xp.fft.rfft(x),
        dask=lambda xp, x: xp.fft.rfft(x.rechunk(-1)),
    ),
    "rfft rows": op(normal(4096, 4096), lambda xp, x: xp.fft.rfft(x)),
    "fft2": op(
        normal(2048, 2048, dtype="f8"),
        lambda xp, x: xp.fft.fft2(x),
        dask=lambda xp, x: xp.fft.fft2(x.rechunk(-1)),
    ),
    "qr tall": op(normal(500_000, 64), lambda xp, x: tuple(xp.linalg.qr(x))),
    "qr tall, only R": op(normal(500_000, 64), lambda xp, x: xp.linalg.qr(x)[1]),
    "svd tall": op(
        normal(500_000, 64),
        lambda xp, x: xp.linalg.svd(x, full_matrices=False)[1],
        dask=lambda xp, x: xp.linalg.svd(x)[1],
    ),
    "matmul 4096": matmul(4096),
    "chain of matmuls": Case(
        many(normal(8000, 2000), normal(2000, 8000), normal(8000, 500), normal(500, 4000)),
        chained,
        dask=lambda xp, a, b, c, d: a @ (b @ c) @ d,
    ),
    "newton logistic": Case(labelled, newton),
    "interp": op(
        many(normal(N, dtype="f8"), rising(1000), normal(1000, dtype="f8")),
        lambda xp, x, at, values: xp.interp(x, at, values),
        torch=None,
        dask=lambda xp, x, at, values: x.map_blocks(np.interp, at.compute(), values.compute()),
    ),
    "histogram": op(
        normal(N, dtype="f8"),
        lambda xp, x: xp.histogram(x, 100)[0],
        torch=lambda xp, x: xp.histogram(x, 100)[0],
        dask=lambda xp, x: xp.histogram(x, 100, range=(x.min(), x.max()))[0],
    ),
    "histogram of a range": op(
        normal(N),
        lambda xp, x: xp.histogram(x, 64, (-4, 4))[0],
        torch=lambda xp, x: xp.histc(x, 64, -4, 4),
    ),
    "bincount": op(integers(1000), lambda xp, x: xp.bincount(x), by_value=True),
    "bincount weights": op(
        many(integers(1000), normal(N, dtype="f8")),
        lambda xp, x, w: xp.bincount(x, w),
        by_value=True,
    ),
    "median": op(
        normal(N, dtype="f8"),
        lambda xp, x: xp.median(x),
        dask=lambda xp, x: xp.median(x, axis=0),
    ),
    "quantile": op(
        normal(N, dtype="f8"),
        lambda xp, x: xp.quantile(x, (0.1, 0.5, 0.99)),
        torch=lambda xp, x: xp.stack([xp.kthvalue(x, int(q * N))[0] for q in (0.1, 0.5, 0.99)]),
        dask=lambda xp, x: xp.quantile(x, (0.1, 0.5, 0.99), axis=0),
    ),
    "median of rows": op(
        normal(10_000, 1000),
        lambda xp, x: xp.median(x, axis=1),
        torch=lambda xp, x: xp.median(x, 1).values,
    ),
    "searchsorted": op(
        many(rising(100_000), normal(N, dtype="f8")), lambda xp, a, v: xp.searchsorted(a, v)
    ),
    "digitize": op(
        many(normal(N, dtype="f8"), rising(100)),
        lambda xp, x, edges: xp.digitize(x, edges),
        torch=lambda xp, x, edges: xp.bucketize(x, edges, right=True),
        dask=lambda xp, x, edges: xp.digitize(x, edges.compute()),
    ),
    "take": op(many(normal(N, dtype="f8"), integers(N)), lambda xp, x, i: x[i]),
    "take rows": op(many(normal(100_000, 64), integers(100_000, 200_000)), lambda xp, x, i: x[i]),
    "put": op(put_operands(N), written, writes=True, dask=None),
    "scatter add": op(
        put_operands(100_000),
        add_at,
        writes=True,
        jax=lambda xp, base, i, v: base.at[i].add(v),
        torch=lambda xp, base, i, v: base.index_add_(0, i, v),
        dask=None,
    ),
    "concatenate": op(
        many(normal(N, dtype="f8"), normal(N, dtype="f8")),
        lambda xp, x, y: xp.concatenate([x, y]),
    ),
    "argmax rows": op(normal(10_000, 1000), lambda xp, x: xp.argmax(x, 1)),
    "argmax columns": op(normal(10_000, 1000), lambda xp, x: xp.argmax(x, 0)),
    "partition": op(
        normal(N, dtype="f8"),
        lambda xp, x: xp.partition(x, 1000)[:1000].max(),
        torch=lambda xp, x: xp.topk(x, 1001, largest=False).values[:1000].max(),
        dask=lambda xp, x: xp.topk(x, -1000).max(),
    ),
    "top k of rows": op(
        normal(10_000, 1000),
        lambda xp, x: xp.topk(x, 10)[0],
        numpy=lambda xp, x: np.sort(np.partition(x, -10, 1)[:, -10:], 1)[:, ::-1],
        torch=lambda xp, x: xp.topk(x, 10).values,
        jax=top_of_jax,
        dask=lambda xp, x: xp.topk(x, 10, 1),
    ),
    "random uniform": draw("random", torch=lambda xp: xp.rand(N, dtype=xp.float64)),
    "random normal": draw("standard_normal", torch=lambda xp: xp.randn(N, dtype=xp.float64)),
    "random gamma": draw(
        "standard_gamma",
        2.5,
        torch=lambda xp: xp._standard_gamma(xp.full((N,), 2.5, dtype=xp.float64)),
    ),
    "random integers": draw("integers", 0, 1000, torch=lambda xp: xp.randint(0, 1000, (N,))),
}
CASES = libraries.cases(ROWS)


def setup(
    peer: str, case: dict[str, Any], device: str
) -> tuple[Callable[[], None], Callable[[], float]]:
    return libraries.setup(ROWS[case["name"]], peer, device)


if __name__ == "__main__":
    from benchmarks.harness import main

    raise SystemExit(main("bench_ops", sys.argv[1:], together=True))
