"""Ops that are not elementwise, on the CPU: python -m benchmarks.bench_ops [--only sort cumsum].

Each program is written once for NumPy's names; where torch or Dask spell it otherwise they have
their own line. Operands are in memory, results stay where they are made. A peer that has no such
op says so and drops out of the row. For each case every library has a fresh process of its own with
its own threads; then all take turns, so that each round is a pair for each peer. Our process starts
with empty caches: its first call, the cold one, compiles what it needs. `--peers numpy torch`,
`--pairs 15` and `--only` choose; without `--only` the longest case (`LONG`) is left out, and all
takes about a quarter of an hour. `--summary` prints the table of the last run again.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import ExitStack
from math import exp, log
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUESTION = "Are ops that are not elementwise as fast as the best of NumPy, torch and Dask?"

CORES = str(len(os.sched_getaffinity(0)))
_THREADS = {name: CORES for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
PEERS: dict[str, dict[str, str]] = {
    "infinitensor": {},
    "numpy": _THREADS,
    "torch": _THREADS,
    "dask": {"OPENBLAS_NUM_THREADS": "1"},  # as its documentation asks for: threads are its own
}

N = 10_000_000
CHUNK = 1 << 20  # elements of Dask's: its own choice, 128 MiB, would be one chunk
Xp = Any  # a namespace: infinitensor, numpy, torch or dask.array


# Operands -----------------------------------------------------------------------------------------


def normal(*shape: int, dtype: str = "f4") -> Callable[[Any], list[Any]]:
    return lambda rng: [rng.standard_normal(shape, dtype=dtype)]


def many(*makers: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    return lambda rng: [array for maker in makers for array in maker(rng)]


def integers(high: int, n: int = N) -> Callable[[Any], list[Any]]:
    return lambda rng: [rng.integers(0, high, n)]


def rising(n: int) -> Callable[[Any], list[Any]]:
    return lambda rng: [np.sort(rng.standard_normal(n))]


def no_operands(rng: Any) -> list[Any]:
    return []


def labelled(rng: Any) -> list[Any]:
    """Rows, labels and first coefficients of a logistic regression."""
    x = rng.standard_normal((2_000_000, 100), dtype="f4")
    y = (x @ rng.standard_normal(100, dtype="f4") + rng.standard_normal(len(x)) > 0).astype("f4")
    return [x, y, np.zeros(100, "f4")]


# Programs -----------------------------------------------------------------------------------------


def newton(xp: Xp, x: Any, y: Any, w: Any) -> Any:
    """One step of Newton's method."""
    p = 1 / (1 + xp.exp(-(x @ w)))
    gradient = x.T @ (y - p)
    hessian = x.T @ (x * (p * (1 - p))[:, None])
    return w + xp.linalg.solve(hessian, gradient)


def n_body(xp: Xp, position: Any, mass: Any) -> Any:
    """The accelerations of bodies that attract each other."""
    apart = position[:, None, :] - position[None, :, :]
    squared = (apart * apart).sum(-1) + 1e-4
    pull = mass[None, :] * squared**-1.5
    return (apart * pull[:, :, None]).sum(1)


def chained(xp: Xp, *factors: Any) -> Any:
    return xp.linalg.multi_dot(factors)


def put(xp: Xp, base: Any, index: Any, values: Any) -> Any:
    base[index] = values
    return base


def add_at(xp: Xp, base: Any, index: Any, values: Any) -> Any:
    xp.add.at(base, index, values)
    return base


def draw(name: str, *args: Any) -> Callable[..., Any]:
    """A distribution of a generator that is made once."""

    def program(xp: Xp) -> Any:
        return getattr(generator(xp), name)(*args, size=N)

    return program


def generator(xp: Xp, made: dict[str, Any] = {}) -> Any:  # noqa: B006
    return made.setdefault(xp.__name__, xp.random.default_rng(1))


class Case:
    """One row: how operands are made, the program, and other libraries' own spelling of it."""

    def __init__(
        self,
        operands: Callable[[Any], list[Any]],
        program: Any,
        *,
        random: bool = False,
        **own: Any,
    ) -> None:
        self.operands = operands
        self.program = program
        self.own = own
        self.random = random  # each library draws its own numbers

    def program_of(self, peer: str) -> Any:
        program = self.own.get(peer, self.program)
        if program is None:
            raise NotImplementedError(f"{peer} has no such op")
        return program


def _put_case(n: int) -> Callable[[Any], list[Any]]:
    return many(normal(n, dtype="f8"), integers(n), normal(N, dtype="f8"))


ROWS: dict[str, Case] = {
    "sort": Case(normal(N, dtype="f8"), lambda xp, x: xp.sort(x), dask=None),
    "sort float32": Case(normal(N), lambda xp, x: xp.sort(x), dask=None),
    "sort int64": Case(integers(1 << 40), lambda xp, x: xp.sort(x), dask=None),
    "sort rows": Case(
        normal(10_000, 1000),
        lambda xp, x: xp.sort(x, 1),
        torch=lambda xp, x: xp.sort(x, 1).values,
        dask=lambda xp, x: x.map_blocks(np.sort),
    ),
    "argsort": Case(normal(N, dtype="f8"), lambda xp, x: xp.argsort(x), dask=None),
    "unique": Case(integers(1_000_000), lambda xp, x: xp.unique(x)),
    "unique counts": Case(
        integers(1000),
        lambda xp, x: xp.unique(x, return_counts=True),
        torch=lambda xp, x: xp.unique(x, return_counts=True),
    ),
    "boolean mask": Case(normal(N, dtype="f8"), lambda xp, x: x[x > 0.3]),
    "nonzero": Case(
        normal(N, dtype="f8"),
        lambda xp, x: xp.nonzero(x > 0.3)[0],
        torch=lambda xp, x: xp.nonzero(x > 0.3),
    ),
    "cumsum": Case(normal(N, dtype="f8"), lambda xp, x: xp.cumsum(x, 0)),
    "cumsum float32": Case(normal(N), lambda xp, x: xp.cumsum(x, 0)),
    "cumsum rows": Case(normal(10_000, 1000), lambda xp, x: xp.cumsum(x, 1)),
    "rfft": Case(
        normal(1 << 24, dtype="f8"),
        lambda xp, x: xp.fft.rfft(x),
        dask=lambda xp, x: xp.fft.rfft(x.rechunk(-1)),
    ),
    "rfft rows": Case(normal(4096, 4096), lambda xp, x: xp.fft.rfft(x)),
    "fft2": Case(
        normal(2048, 2048, dtype="f8"),
        lambda xp, x: xp.fft.fft2(x),
        dask=lambda xp, x: xp.fft.fft2(x.rechunk(-1)),
    ),
    "qr tall": Case(normal(500_000, 64), lambda xp, x: xp.linalg.qr(x)[1] ** 2),
    "svd tall": Case(
        normal(500_000, 64),
        lambda xp, x: xp.linalg.svd(x, full_matrices=False)[1],
        dask=lambda xp, x: xp.linalg.svd(x)[1],
    ),
    "matmul 4096": Case(many(normal(4096, 4096), normal(4096, 4096)), lambda xp, x, y: x @ y),
    "matmul 8192": Case(many(normal(8192, 8192), normal(8192, 8192)), lambda xp, x, y: x @ y),
    "chain of matmuls": Case(
        many(normal(8000, 2000), normal(2000, 8000), normal(8000, 500), normal(500, 4000)),
        chained,
        dask=lambda xp, a, b, c, d: a @ (b @ c) @ d,
    ),
    "newton logistic": Case(labelled, newton),
    "n-body": Case(many(normal(4000, 3), lambda rng: [rng.random(4000, "f4")]), n_body),
    "interp": Case(
        many(normal(N, dtype="f8"), rising(1000), normal(1000, dtype="f8")),
        lambda xp, x, at, values: xp.interp(x, at, values),
        torch=None,
        dask=lambda xp, x, at, values: x.map_blocks(np.interp, at.compute(), values.compute()),
    ),
    "histogram": Case(
        normal(N, dtype="f8"),
        lambda xp, x: xp.histogram(x, 100)[0],
        torch=lambda xp, x: xp.histogram(x, 100)[0],
        dask=lambda xp, x: xp.histogram(x, 100, range=(x.min(), x.max()))[0],
    ),
    "histogram of a range": Case(
        normal(N),
        lambda xp, x: xp.histogram(x, 64, (-4, 4))[0],
        torch=lambda xp, x: xp.histc(x, 64, -4, 4),
    ),
    "bincount": Case(integers(1000), lambda xp, x: xp.bincount(x)),
    "bincount weights": Case(
        many(integers(1000), normal(N, dtype="f8")), lambda xp, x, w: xp.bincount(x, w)
    ),
    "median": Case(
        normal(N, dtype="f8"),
        lambda xp, x: xp.median(x),
        dask=lambda xp, x: xp.median(x, axis=0),
    ),
    "quantile": Case(
        normal(N, dtype="f8"),
        lambda xp, x: xp.quantile(x, (0.1, 0.5, 0.99)),
        torch=lambda xp, x: xp.stack([xp.kthvalue(x, int(q * N))[0] for q in (0.1, 0.5, 0.99)]),
        dask=lambda xp, x: xp.quantile(x, (0.1, 0.5, 0.99), axis=0),
    ),
    "median of rows": Case(
        normal(10_000, 1000),
        lambda xp, x: xp.median(x, axis=1),
        torch=lambda xp, x: xp.median(x, 1).values,
    ),
    "searchsorted": Case(
        many(rising(100_000), normal(N, dtype="f8")), lambda xp, a, v: xp.searchsorted(a, v)
    ),
    "digitize": Case(
        many(normal(N, dtype="f8"), rising(100)),
        lambda xp, x, edges: xp.digitize(x, edges),
        torch=lambda xp, x, edges: xp.bucketize(x, edges, right=True),
        dask=lambda xp, x, edges: xp.digitize(x, edges.compute()),
    ),
    "take": Case(many(normal(N, dtype="f8"), integers(N)), lambda xp, x, i: x[i]),
    "take rows": Case(many(normal(100_000, 64), integers(100_000, 200_000)), lambda xp, x, i: x[i]),
    "put": Case(_put_case(N), put, dask=None),
    "scatter add": Case(
        _put_case(100_000),
        add_at,
        torch=lambda xp, base, i, v: base.index_add_(0, i, v),
        dask=None,
    ),
    "concatenate": Case(
        many(normal(N, dtype="f8"), normal(N, dtype="f8")),
        lambda xp, x, y: xp.concatenate([x, y]),
    ),
    "argmax rows": Case(normal(10_000, 1000), lambda xp, x: xp.argmax(x, 1)),
    "argmax columns": Case(normal(10_000, 1000), lambda xp, x: xp.argmax(x, 0)),
    "partition": Case(
        normal(N, dtype="f8"),
        lambda xp, x: xp.partition(x, 1000)[:1000].max(),
        torch=lambda xp, x: xp.topk(x, 1001, largest=False).values[:1000].max(),
        dask=lambda xp, x: xp.topk(x, -1000).max(),
    ),
    "top k of rows": Case(
        normal(10_000, 1000),
        lambda xp, x: xp.topk(x, 10)[0],
        numpy=lambda xp, x: np.sort(np.partition(x, -10, 1)[:, -10:], 1)[:, ::-1],
        torch=lambda xp, x: xp.topk(x, 10).values,
        dask=lambda xp, x: xp.topk(x, 10, 1),
    ),
    "random uniform": Case(
        no_operands, draw("random"), torch=lambda xp: xp.rand(N, dtype=xp.float64), random=True
    ),
    "random normal": Case(
        no_operands,
        draw("standard_normal"),
        torch=lambda xp: xp.randn(N, dtype=xp.float64),
        random=True,
    ),
    "random gamma": Case(
        no_operands,
        draw("standard_gamma", 2.5),
        torch=lambda xp: xp._standard_gamma(xp.full((N,), 2.5, dtype=xp.float64)),
        random=True,
    ),
    "random integers": Case(
        no_operands,
        draw("integers", 0, 1000),
        torch=lambda xp: xp.randint(0, 1000, (N,)),
        random=True,
    ),
}
CASES: list[dict[str, Any]] = [{"name": name} for name in ROWS]


# Libraries ----------------------------------------------------------------------------------------


def setup(
    peer: str, case: dict[str, Any], device: str
) -> tuple[Callable[[], None], Callable[[], float]]:
    """The operands in the peer's own arrays; one call runs the program to its end."""
    row = ROWS[case["name"]]
    program = row.program_of(peer)
    xp, operands, finish = LIBRARIES[peer](row.operands(np.random.default_rng(0)))
    last: list[Any] = []

    def run() -> None:
        last[:] = []
        last[:] = [finish(program(xp, *operands))]

    def check() -> float:
        result = last[0]
        parts = result if isinstance(result, tuple | list) else (result,)
        arrays = [np.abs(np.asarray(part)).astype("f8").ravel() for part in parts]
        if row.random:  # other numbers of the same distribution
            return float(np.mean(arrays[0]) + np.std(arrays[0]))
        weight = [np.linspace(1, 2, len(array)) for array in arrays]
        return float(sum(a @ w for a, w in zip(arrays, weight, strict=True)))

    return run, check


def with_numpy(arrays: list[Any]) -> tuple[Any, list[Any], Callable[[Any], Any]]:
    return np, arrays, lambda result: result


def with_torch(arrays: list[Any]) -> tuple[Any, list[Any], Callable[[Any], Any]]:
    import torch

    torch.set_grad_enabled(False)

    def finish(result: Any) -> Any:
        named = isinstance(result, tuple) and hasattr(result, "values")
        return result.values if named else result

    return torch, [torch.from_numpy(array) for array in arrays], finish


def with_dask(arrays: list[Any]) -> tuple[Any, list[Any], Callable[[Any], Any]]:
    import dask
    import dask.array as da

    dask.config.set(scheduler="threads", num_workers=int(CORES))
    tensors = [
        da.from_array(a, chunks=(max(CHUNK * len(a) // max(a.size, 1), 1), *a.shape[1:]))
        for a in arrays
    ]

    def finish(result: Any) -> Any:
        made = dask.compute(*(result if isinstance(result, tuple | list) else (result,)))
        return made if len(made) > 1 else made[0]

    return da, tensors, finish


def with_us(arrays: list[Any]) -> tuple[Any, list[Any], Callable[[Any], Any]]:
    import infinitensor as it

    it.init(devices="cpu")
    tensors = [it.asarray(array) for array in arrays]
    it.compute(*tensors)

    def finish(result: Any) -> Any:
        it.compute(*(result if isinstance(result, tuple | list) else (result,)))
        return result

    return it, tensors, finish


LIBRARIES: dict[str, Callable[..., Any]] = {
    "numpy": with_numpy,
    "torch": with_torch,
    "dask": with_dask,
    "infinitensor": with_us,
}


# All libraries in turns ---------------------------------------------------------------------------

US = "infinitensor"
LONG = ("matmul 8192",)


def records(only: list[str], peers: list[str], n_pairs: int) -> Iterator[dict[str, Any]]:
    """One record for each case and peer, as the cases are done."""
    from benchmarks.harness import machine

    for case in CASES:
        name = case["name"]
        if any(part in name for part in only) if only else name not in LONG:
            for peer, found in one_case(case, peers, n_pairs).items():
                row = {"question": "bench_ops", "case": case, "us": US, "peer": peer}
                yield row | {"device": "cpu", "load_before": os.getloadavg()[0]} | found | machine()


def one_case(case: dict[str, Any], peers: list[str], n_pairs: int) -> dict[str, dict[str, Any]]:
    """What comes out for each peer; one that fails says why."""
    from benchmarks import harness

    found: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        caches = stack.enter_context(TemporaryDirectory())
        here = SimpleNamespace(PEERS={**PEERS, US: {"XDG_CACHE_HOME": caches}})
        sides: dict[str, Any] = {}
        for peer in (US, *peers):
            side = harness.Side(peer)
            try:
                worker = harness.start("bench_ops", side, here, case, "cpu")
            except RuntimeError as error:
                found[peer] = {"failed": str(error)}
                continue
            sides[peer] = (side, stack.enter_context(worker))
        if US not in sides:
            return found
        harness.take_warm_turns(list(sides.values()), n_pairs)
    ours = sides.pop(US)[0]
    return found | {peer: harness.outcome(ours, side) for peer, (side, _) in sides.items()}


# What people read ---------------------------------------------------------------------------------


def summary(name: str) -> str:
    """One line a case: our times, the ratio against each peer, then the geometric means."""
    from benchmarks.harness import RESULTS

    lines = (RESULTS / f"{name}.jsonl").read_text().splitlines()
    cases: dict[str, dict[str, Any]] = {}
    for record in map(json.loads, lines):
        cases.setdefault(record["case"]["name"], {})[record["peer"]] = record
    table = [
        "| case | ms | cold ms | numpy | torch | dask | best |",
        "|---|---|---|---|---|---|---|",
    ]
    best, dask = [], []
    for case, by_peer in cases.items():
        done = {peer: record for peer, record in by_peer.items() if "ratio" in record}
        ratios = {peer: record["ratio"] for peer, record in done.items()}
        worst = max((ratio for peer, ratio in ratios.items() if peer != "dask"), default=None)
        best += [worst] if worst else []
        dask += [ratios["dask"]] if "dask" in ratios else []
        ours = [
            min((r[f"us_{which}_s"] for r in done.values()), default=0)
            for which in ("warm", "cold")
        ]
        cells = [f"{1e3 * seconds:.3g}" for seconds in ours]
        for peer in ("numpy", "torch", "dask"):
            record = done.get(peer)
            interval = "–"
            if record is not None:
                interval = "{ratio:.2f} [{ratio_low:.2f}, {ratio_high:.2f}]".format(**record)
            cells.append(interval)
        table.append(f"| {case} | {' | '.join(cells)} | {f'{worst:.2f}' if worst else '–'} |")
    for label, ratios_of in (("best of NumPy and torch", best), ("Dask", dask)):
        if ratios_of:
            mean = exp(sum(map(log, ratios_of)) / len(ratios_of))
            slow = sum(ratio > 1 / 0.9 for ratio in ratios_of)
            table.append(
                f"\nAgainst {label}: geometric mean {mean:.2f} of {len(ratios_of)} cases, "
                f"{slow} of them slower than 0.9 of it."
            )
    return "\n".join(table)


def main() -> int:
    """Measure, write the results, print the table."""
    from benchmarks.harness import HEAD, report

    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_ops")
    parser.add_argument(
        "--only", nargs="+", default=[], help="cases whose names contain one of these"
    )
    parser.add_argument("--peers", nargs="+", default=["numpy", "torch", "dask"])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--name", default="bench_ops", help="of the files under results/")
    parser.add_argument("--summary", action="store_true", help="only the table of the last run")
    args = parser.parse_args()
    if not args.summary:
        print(HEAD)
        report(records(args.only, args.peers, args.pairs), "bench_ops", args.name)
    print(summary(args.name))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
