"""Estimators against scikit-learn: python -m benchmarks.bench_cluster [--only KMeans] [--gpu].

Each has a process of its own with all cores. On a GPU ours runs there, scikit-learn on the CPU.
`--lloyd` times Lloyd's iterations on a GPU, and compares the labels with float64's on all rows.
`--bars` times on a GPU what has to be so many times faster than scikit-learn.
`--density` times DBSCAN, HDBSCAN and neighbours on a GPU, scikit-learn on all cores in a process of
its own, and compares what they find.
The tables in docs/benchmarks.md are made by `python -m benchmarks.cluster_tables`.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "Does each estimator find scikit-learn's result in less time?"

CORES = str(len(os.sched_getaffinity(0)))
PEERS: dict[str, dict[str, str]] = {
    "infinitensor": {},
    "scikit-learn": {"OMP_NUM_THREADS": CORES, "OPENBLAS_NUM_THREADS": CORES},
}


def case(
    estimator: str, data: str, shape: tuple[int, int], dtype: str, **parameters: Any
) -> dict[str, Any]:
    """One row: what is fitted on which points."""
    size = f"{shape[0]:,} x {shape[1]}"
    settings = " ".join(f"{name}={value}" for name, value in parameters.items())
    name = f"{estimator} {data} {size} {dtype} {settings}"
    return {
        "name": name,
        "estimator": estimator,
        "data": data,
        "shape": shape,
        "dtype": dtype,
        "parameters": parameters,
    }


STEPS = {"max_no_improvement": None, "max_iter": 2}
"""Many steps: as many as two passes over the points have."""

CASES: list[dict[str, Any]] = [
    case("silhouette_score", "groups", (20_000, 16), "float64", n_labels=10),
    case("silhouette_score", "groups", (20_000, 64), "float32", n_labels=10),
    *(
        case("KMeans", data, (200_000, 32), dtype, n_clusters=100, max_iter=40)
        for data in ("groups", "even")
        for dtype in ("float32", "float64")
    ),
    case("KMeans", "groups", (500_000, 64), "float32", n_clusters=100, max_iter=10),
    case("KMeans", "groups", (500_000, 16), "float64", n_clusters=8),
    *(
        case("KMeans", "groups", (n, d), "float64", n_clusters=k, max_iter=20)
        for n in (2_000, 20_000)
        for d in (2, 16, 64)
        for k in (3, 30)
    ),
    case("MiniBatchKMeans", "groups", (500_000, 32), "float64", n_clusters=50, **STEPS),
    case("MiniBatchKMeans", "groups", (500_000, 32), "float32", n_clusters=50),
    case("BisectingKMeans", "groups", (300_000, 16), "float64", n_clusters=16),
    case("BisectingKMeans", "groups", (300_000, 16), "float32", n_clusters=16),
    case("KMeans", "groups", (1_000_000, 64), "float32", n_clusters=100, max_iter=10),
    *(
        case("DBSCAN", "noise", (50_000, d), "float64", eps=eps, n_jobs=2)
        for d, eps in ((3, 0.35), (8, 1.6), (16, 3.2), (64, 9.6))
    ),
    *(
        case("NearestNeighbors", "noise", (50_000, d), "float64", n_neighbors=10, n_jobs=2)
        for d in (3, 8, 16, 64)
    ),
    *(case("HDBSCAN", "noise", (20_000, d), "float64", copy=False, n_jobs=2) for d in (3, 16)),
    *(case(name, "noise", (1_500, 8), "float64") for name in ("DBSCAN", "NearestNeighbors")),
]


def points(data: str, shape: tuple[int, int], dtype: str) -> Any:
    """Groups that touch each other, points that are spread evenly, or groups with noise between."""
    rng = np.random.default_rng(0)
    n, d = shape
    if data == "noise":
        x = rng.uniform(-10, 10, (20, d))[rng.integers(0, 20, n)] + rng.normal(size=(n, d))
        x[: n // 20] = rng.uniform(-10, 10, (n // 20, d))
        return rng.permutation(x).astype(dtype)
    if data == "even":
        return rng.random((n, d)).astype(dtype)
    centers = rng.normal(0, 4 / d**0.25, (64, d))
    return (centers[rng.integers(0, 64, n)] + rng.normal(size=(n, d))).astype(dtype)


def setup(
    peer: str, case: dict[str, Any], device: str
) -> tuple[Callable[[], float | None], Callable[[], float]]:
    """One call is one fit; what is compared is the inertia, the labels, or the neighbours."""
    x = points(case["data"], tuple(case["shape"]), case["dtype"])
    package = "sklearn" if peer == "scikit-learn" else "infinitensor"
    if package == "infinitensor":
        import infinitensor as it

        it.init(devices=device)
    once = called(package, x, case["estimator"], case["parameters"])
    last: list[Any] = []

    def run() -> float | None:
        begun = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            last[:] = [once()]
        return time.process_time() - begun if case.get("clock") == "processor" else None

    return run, lambda: score(last[0])


def called(package: str, x: Any, name: str, parameters: dict[str, Any]) -> Callable[[], Any]:
    """What is timed: a fit, a search for neighbours, distances, or a score of labels.

    The labels are those of the nearest of some points.
    """
    parts = {"NearestNeighbors": "neighbors", "silhouette_score": "metrics"}
    part = parts.get(name, "metrics" if name[0].islower() else "cluster")
    made = getattr(importlib.import_module(f"{package}.{part}"), name)
    if name == "silhouette_score":
        few = x[: parameters["n_labels"], :2]
        labels = ((x[:, None, :2] - few) ** 2).sum(-1).argmin(1)
        return lambda: made(x, labels)
    if name[0].islower():
        return lambda: made(x, **parameters)
    if name == "NearestNeighbors":
        return lambda: made(**parameters).fit(x).kneighbors()
    if name.endswith("KMeans"):
        parameters = {"random_state": 0, **parameters}
    return lambda: made(**parameters).fit(x)


def score(found: Any) -> float:
    """One number of a result."""
    if isinstance(found, tuple):
        return float(found[1].sum())
    if hasattr(found, "inertia_"):
        return float(found.inertia_)
    if hasattr(found, "labels_"):
        return float((found.labels_ * np.arange(len(found.labels_))).sum())
    return float(np.sum(found))


# --- Lloyd's iteration on a GPU -------------------------------------------------------------------


def lloyd_on_gpu(n: int = 10_000_000, d: int = 64, k: int = 100, n_steps: int = 8) -> None:
    """Milliseconds of each iteration, and how many labels are not float64's.

    With the blocks that are used, then a first pass over all rows with each of the others.
    """
    import torch

    import infinitensor as it
    from infinitensor.cluster.dense_rows import DenseRows
    from infinitensor.cluster.lloyd import _move_centers
    from infinitensor.ops.points import centres_triton

    generator = torch.Generator("cuda").manual_seed(0)
    for data in ("even", "groups"):
        x = torch.randn((n, d), generator=generator, device="cuda")
        if data == "groups":
            groups = torch.randn((k, d), generator=generator, device="cuda") * 1.5
            x += groups[torch.randint(k, (n,), generator=generator, device="cuda")]
        with it.init("cuda"):
            rows = DenseRows(it.asarray(x), None, np.zeros(d, np.float32), None)
            centers = x[:k].cpu().numpy()
            state = rows.start(k)
            for step in range(n_steps):
                torch.cuda.synchronize()
                start = time.perf_counter()
                n_changed = state.follow(centers)
                torch.cuda.synchronize()
                mid = time.perf_counter()
                used = centers
                centers, _ = _move_centers(rows, state, centers)
                done = time.perf_counter()
                ms = f"{1e3 * (mid - start):.2f} + {1e3 * (done - mid):.2f} ms"
                print(f"{data} {n:,} x {d}, k={k}, step {step}: {ms}, {n_changed:,} changed")
            labels = state.labels.numpy()
            print(f"{data}: {_wrong(torch, x, used, labels):,} labels are not float64's")
        _kernels(torch, centres_triton, x, torch.from_numpy(used).cuda())
        del x


def _kernels(torch: Any, kernels: Any, x: Any, centers: Any) -> None:
    """Milliseconds of one comparison of all rows, by block, and of sums over all rows."""
    n, d = x.shape
    none = torch.zeros(d, device="cuda")
    labels = torch.empty(n, dtype=torch.int32, device="cuda")
    bounds = torch.empty((n, 2), device="cuda")

    def timed(run: Callable[[], object]) -> float:
        run()
        times = []
        for _ in range(5):
            torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start))
        return sorted(times)[2]

    extra = ((64, 128, 4, 4), (64, 128, 8, 2), (128, 128, 4, 3), (128, 128, 8, 2), (128, 128, 8, 3))
    given = kernels.FEW_BLOCKS
    for block in (*given[:3], *extra):
        kernels.FEW_BLOCKS = (block,)
        try:
            ms = timed(lambda: kernels.nearest(torch, x, none, centers, labels, bounds))
            print(f"block {block}: {ms:.2f} ms")
        except Exception as error:
            print(f"block {block}: {type(error).__name__}")
    kernels.FEW_BLOCKS = given
    scale = torch.full((d + 1,), 2.0**30, dtype=torch.float64, device="cuda")
    old = torch.full_like(labels, -1)
    k = len(centers)
    ms = timed(lambda: kernels.label_sums(torch, k, x, none, scale, labels, old))
    few = torch.where(torch.rand(n, device="cuda") < 0.05, old, labels)
    changed = timed(lambda: kernels.label_sums(torch, k, x, none, scale, labels, few))
    print(f"sums of all rows {ms:.2f} ms, of 5 % {changed:.2f} ms")


def _wrong(torch: Any, x: Any, centers: Any, labels: Any) -> int:
    """Labels that direct differences in float64 decide otherwise."""
    wide = torch.from_numpy(centers).to("cuda", torch.float64)
    wrong, step = 0, 20_000
    for lo in range(0, len(x), step):
        part = x[lo : lo + step].double()
        far = torch.stack([((part - c) ** 2).sum(1) for c in wide], 1)
        given = torch.from_numpy(labels[lo : lo + step]).cuda().long()
        least = far.min(1).values
        wrong += int((far.gather(1, given[:, None])[:, 0] > least * (1 + 1e-14)).sum())
    return wrong


# --- what a GPU has to reach ----------------------------------------------------------------------

BARS: list[tuple[dict[str, Any], int]] = [
    (case("silhouette_score", "groups", (20_000, 16), "float64", n_labels=10), 40),
    (case("BisectingKMeans", "groups", (400_000, 16), "float64", n_clusters=16), 10),
    (case("KMeans", "groups", (1_000_000, 32), "float32", n_clusters=50), 40),
]
"""Rows, and how much faster than scikit-learn on all cores each has to be."""
MOST_LLOYD_MS = 3.0
"""Milliseconds that an iteration of 10,000,000 x 64 and 100 centres may take."""
N_PAIRS = 7
"""Pairs of fits of few and of more iterations: a fit varies by what several of them take."""
MORE_ITERATIONS = 40


def bars_on_gpu() -> None:
    """Seconds of a first and of five more calls on the GPU, and of one by scikit-learn."""
    for one, least in BARS:
        run, found = setup("infinitensor", one, "cuda")
        first, *ours = (_seconds(run) for _ in range(6))
        value = found()
        run, found = setup("scikit-learn", one, "cpu")
        theirs = _seconds(run)
        faster = theirs / sorted(ours)[len(ours) // 2]
        line = f"{one['name']}: {first:.3f} (first) " + " ".join(f"{s:.4f}" for s in ours)
        line += f" s; scikit-learn {theirs:.2f} s, {faster:.1f}x of {least}x asked for"
        print(line + f"; results {value!r} {found()!r}", flush=True)
    _iteration_on_gpu()


def _iteration_on_gpu(n: int = 10_000_000, d: int = 64, k: int = 100) -> None:
    """Milliseconds of an iteration: what many of them take more than 4, on a GPU's tensor."""
    import torch

    import infinitensor as it
    from infinitensor.cluster import KMeans

    generator = torch.Generator("cuda").manual_seed(0)
    for data in ("even", "groups"):
        x = torch.randn((n, d), generator=generator, device="cuda")
        if data == "groups":
            groups = torch.randn((k, d), generator=generator, device="cuda") * 1.5
            x += groups[torch.randint(k, (n,), generator=generator, device="cuda")]
        init = x[:k].cpu().numpy()

        def fit(n_iter: int, x: Any = x, init: Any = init) -> tuple[float, int]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                one = KMeans(k, init=init, n_init=1, max_iter=n_iter, tol=0)
                begun = time.perf_counter()
                one.fit(x)
                return time.perf_counter() - begun, int(one.n_iter_)

        with it.init("cuda"):
            fit(4)
            found = []
            for _ in range(N_PAIRS):
                (short, few), (long, many) = fit(4), fit(4 + MORE_ITERATIONS)
                found.append(1e3 * (long - short) / (many - few))
        found.sort()
        text = ", ".join(f"{ms:.2f}" for ms in found)
        print(
            f"Lloyd {n:,} x {d}, k={k}, {data}: {found[N_PAIRS // 2]:.2f} ms an iteration"
            f" ({text}; {many - few} more than 4); asked for: {MOST_LLOYD_MS} ms",
            flush=True,
        )
        del x


# --- density on a GPU -----------------------------------------------------------------------------

DENSITY: list[dict[str, Any]] = [
    case("NearestNeighbors", "noise", (100_000, 16), "float64", n_neighbors=10, n_jobs=-1),
    case("DBSCAN", "noise", (100_000, 16), "float64", eps=3.2, n_jobs=-1),
    case("HDBSCAN", "noise", (40_000, 15), "float64", copy=False, n_jobs=-1),
    case("DBSCAN", "noise", (1_000_000, 16), "float64", eps=3.2),
    case("HDBSCAN", "noise", (400_000, 15), "float64", copy=False),
    case("NearestNeighbors", "noise", (100_000, 64), "float64", n_neighbors=10, n_jobs=-1),
    case("DBSCAN", "noise", (100_000, 64), "float64", eps=9.6, n_jobs=-1),
    case("NearestNeighbors", "noise", (200_000, 3), "float64", n_neighbors=10, n_jobs=-1),
    case("DBSCAN", "noise", (200_000, 3), "float64", eps=0.2, n_jobs=-1),
    case("NearestNeighbors", "noise", (1_000_000, 16), "float64", n_neighbors=10),
    case("HDBSCAN", "noise", (400_000, 15), "float64", copy=False, min_samples=50),
]
"""With `n_jobs` scikit-learn is timed too."""


def density_on_gpu(only: list[str]) -> None:
    """Seconds of a first and of two more fits on the GPU, and of one by scikit-learn."""
    from subprocess import run

    for one in DENSITY:
        if only and not any(word in one["name"] for word in only):
            continue
        fit, found = setup("infinitensor", one, "cuda")
        ours = [_seconds(fit) for _ in range(3)]
        line = f"{one['name']}: " + " ".join(f"{s:.3f}" for s in ours) + " s"
        if "n_jobs" in one["parameters"]:
            code = "from benchmarks import bench_cluster as b; b.peer_alone({!r})"
            made = run(
                [sys.executable, "-c", code.format(one["name"])],
                capture_output=True,
                text=True,
                check=True,
            )
            theirs, value = map(float, made.stdout.split()[-2:])
            line += f"; scikit-learn {theirs:.2f} s, {theirs / min(ours):.0f}x, "
            line += "equal" if value == found() else f"OTHER: {found()} {value}"
        print(line, flush=True)


def peer_alone(name: str) -> None:
    """Print seconds and result of one fit by scikit-learn."""
    (one,) = (made for made in DENSITY if made["name"] == name)
    fit, found = setup("scikit-learn", one, "cpu")
    print(_seconds(fit), repr(found()))


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    if "--lloyd" in sys.argv:
        lloyd_on_gpu()
    elif "--bars" in sys.argv:
        bars_on_gpu()
    elif "--density" in sys.argv:
        density_on_gpu(sys.argv[sys.argv.index("--density") + 1 :])
    else:
        from benchmarks.harness import main

        raise SystemExit(main("bench_cluster"))
