"""Whole NumPy programs: python -m benchmarks.bench_programs [--only jacobi] [--pairs 16].

The programs of `tests/programs`, unchanged, at sizes where NumPy needs 0.1 s or more, ours against
NumPy. Arguments are made anew for every run, outside of its time; results and changed arguments are
computed inside of it. `median op`: elements that the median NumPy call of the program touches (the
largest of what it reads and makes). Programs with fewer than 10,000 are listed one by one below the
table and do not count in the geometric mean. The shares say where our time went in one warm run:
planning (analysis to memory), running tasks, reading values on the host, and the rest, which is
recording.

`--quick` surveys all programs in some ten minutes: one pair each, both sides in one process.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from math import exp, log
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from tests.programs import test_programs  # noqa: F401 - fills the registry
from tests.programs.factorizations import dominant, positive
from tests.programs.networks import floats
from tests.programs.physics import _complex
from tests.programs.products import matrices
from tests.programs.registry import PROGRAMS as REGISTERED

from benchmarks.harness import PAUSE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUESTION = "Are whole NumPy programs twice as fast here, and which are not?"

CORES = str(len(os.sched_getaffinity(0)))
PEERS: dict[str, dict[str, str]] = {
    "infinitensor": {},
    "numpy": {"OPENBLAS_NUM_THREADS": CORES, "OMP_NUM_THREADS": CORES},
}
PROGRAMS = {p.name: p for p in REGISTERED}


def csr(rng: Any, n: int, a_row: int) -> tuple[Any, ...]:
    """A sparse matrix with `a_row` values in each of its n rows, and a vector."""
    starts = np.arange(0, n * a_row + 1, a_row)
    return starts, rng.integers(0, n, n * a_row), rng.random(n * a_row), rng.random(n)


def vectors(n: int, count: int) -> Callable[[Any], tuple[Any, ...]]:
    made: Callable[[Any], tuple[Any, ...]] = matrices(*[(n,)] * count)
    return made


SIZED: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    # scalar loops: each step touches an element, a row or a column
    "cholesky_by_elements": lambda rng: (positive(rng, 350),),
    "cholesky_by_columns": lambda rng: (positive(rng, 400),),
    "lu_by_elements": lambda rng: (dominant(rng, 250),),
    "elimination_with_pivots": lambda rng: (rng.random((500, 500)), rng.random(500)),
    "lu_and_two_solves": lambda rng: (dominant(rng, 250), rng.random(250)),
    "forward_substitution": lambda rng: (dominant(rng, 9000), rng.random(9000)),
    "gram_schmidt": lambda rng: (rng.random((600, 300)),),
    "levinson_durbin": lambda rng: (rng.random(8000) / 8000,),
    "tridiagonal_solve": vectors(100_000, 4),
    "trace_of_tanh": lambda rng: (rng.random((7500, 7500)),),
    "symmetric_product": matrices((150, 200), (150, 150), (150, 200)),
    "symmetric_rank_k": matrices((250, 250), (250, 200)),
    "symmetric_rank_2k": matrices((200, 200), (200, 150), (200, 150)),
    "triangular_product": matrices((300, 300), (300, 250)),
    "nussinov": lambda rng: (rng.integers(0, 4, 120),),
    "crc16": lambda rng: (rng.integers(0, 256, 40_000, dtype="uint8"),),
    "crc16_by_table": lambda rng: (rng.integers(0, 256, 500_000, dtype="uint8"),),
    "sparse_product": lambda rng: csr(rng, 50_000, 20),
    "edit_distance": lambda rng: (rng.integers(0, 3, 400), rng.integers(0, 3, 500)),
    "gauss_seidel": lambda rng: (rng.random((300, 300)), 3),
    "self_energies": lambda rng: (
        rng.integers(0, 8, (8, 4)),
        _complex(rng, 8, 4, 3, 12, 12),
        _complex(rng, 3, 8, 8, 12, 12),
        _complex(rng, 4, 8, 4, 3, 3),
        _complex(rng, 3, 8, 8, 12, 12) * 0,
    ),
    # rows, columns and planes of larger arrays
    "cholesky_of_the_library": lambda rng: (positive(rng, 1600),),
    "lu_by_outer_products": lambda rng: (dominant(rng, 700) / 700,),
    "householder": lambda rng: (rng.random((600, 120)),),
    "conjugate_gradients": lambda rng: (positive(rng, 4000), rng.random(4000)),
    "deriche": lambda rng: (rng.random((2000, 2000)), 0.25),
    "correlation": lambda rng: (rng.random((2000, 400)),),
    "covariance": lambda rng: (rng.random((2000, 400)),),
    "convolution_with_bias": floats((8, 64, 64, 3), (5, 5, 3, 16), (16,)),
    "le_net": floats((64, 36, 36, 1), (5, 5, 1, 6), (6,), (5, 5, 6, 16), (16,), (576, 120), (120,)),
    "residual_block": floats((8, 28, 28, 32), (1, 1, 32, 16), (3, 3, 16, 16), (1, 1, 16, 32)),
    "alternating_directions": lambda rng: (rng.random((1000, 1000)), 5),
    "vertical_advection": lambda rng: (
        rng.random((256, 256, 80)),
        rng.random((257, 256, 80)),
        rng.random((256, 256, 80)),
    ),
    "cloud_scheme": lambda rng: (
        rng.random((30_000, 40)) * 40 + 250,
        rng.random((30_000, 40)) / 50,
        2,
    ),
    "floyd_warshall": lambda rng: (rng.integers(1, 90, (500, 500)),),
    "knapsack": lambda rng: (rng.integers(1, 900, 300), rng.integers(1, 900, 300), 300_000),
    "recurrent_cell": floats((40, 64, 256), (256, 1024), (256, 1024), (1024,)),
    # whole arrays
    "mandelbrot_by_masks": lambda rng: (600, 500, 50),
    "mandelbrot_by_compaction": lambda rng: (800, 700, 50),
    "stockham_fft": lambda rng: (rng.random(2**20) + 1j * rng.random(2**20), 2, 20),
    "arc_distance": vectors(4_000_000, 4),
    "clip_and_combine": lambda rng: (
        rng.integers(0, 1000, (4000, 4000)),
        rng.integers(0, 1000, (4000, 4000)),
        4,
        3,
        9,
    ),
    "sobel_edges": lambda rng: (rng.integers(0, 256, (2000, 3000), dtype="uint8"),),
    "equalised_histogram": lambda rng: (rng.integers(0, 8, (3000, 4000)),),
    "bilinear_rotation": lambda rng: (rng.random((1500, 1500)), 0.3),
    "low_pass_by_fft": lambda rng: (rng.standard_normal(3_000_000), 3000.0),
    "softmax": floats((64, 16, 512 * 16)),
    "perceptron": floats((4000, 512), (512, 2048), (2048,), (2048, 512), (512,)),
    "causal_attention": floats((16, 1024, 64), (16, 1024, 64), (16, 1024, 64)),
    "gradient_steps": floats((10_000, 256), (256, 256), (256, 32), (10_000, 32)),
    "n_body": lambda rng: (
        rng.random((800, 1)),
        rng.random((800, 3)),
        rng.random((800, 3)),
        8,
        0.05,
    ),
    "cavity_flow": lambda rng: (*(rng.random((700, 700)) / 10 for _ in range(3)), 5, 10),
    "channel_flow_until_steady": lambda rng: (
        rng.random((700, 800)),
        rng.random((700, 800)),
        0.01,
    ),
    "horizontal_diffusion": lambda rng: (
        rng.random((260, 260, 80)),
        rng.random((256, 256, 80)),
        rng.random((256, 256, 80)),
    ),
    "contour_integral": lambda rng: (
        _complex(rng, 3, 300, 300),
        _complex(rng, 10) * 2,
        rng.random((300, 100)),
    ),
    "a_transposed_a_x": matrices((10_000, 8000), (8000,)),
    "biconjugate_kernel": matrices((10_000, 8000), (8000,), (10_000,)),
    "general_product": matrices((1500, 1700), (1500, 1600), (1600, 1700)),
    "two_products": matrices((1300, 1500), (1300, 1400), (1400, 1200), (1200, 1500)),
    "three_products": matrices((1200, 800), (800, 1000), (1000, 1100), (1100, 700)),
    "product_and_transposed": matrices((8000, 8000), *[(8000,)] * 4),
    "rank_two_update_and_products": matrices((6000, 6000), *[(6000,)] * 8),
    "sum_of_products": matrices((8000, 8000), (8000, 8000), (8000,)),
    "product_along_the_last_axis": matrices((150, 150, 200), (200, 200)),
    "power_iteration": lambda rng: (rng.random((5000, 5000)) + rng.random((5000, 5000)).T, 20),
    "candecomp_step": matrices((200, 250, 300), (250, 40), (300, 40)),
    "sparse_product_at_once": lambda rng: csr(rng, 300_000, 20),
    "breadth_first": lambda rng: (rng.random((18_000, 18_000), dtype="float32") < 0.0003,),
    "page_rank": lambda rng: ((rng.random((5000, 5000)) < 0.4).astype(float), 10),
    "radix_sort": lambda rng: (rng.integers(0, 1000, 1_000_000),),
    "sieve": lambda rng: (20_000_000,),
    "covariance_of_the_library": lambda rng: (rng.random((15_000, 600)),),
    "azimuthal_integration_by_histogram": lambda rng: (
        rng.random(3_000_000),
        rng.random(3_000_000),
        500,
    ),
    "azimuthal_integration_by_masks": lambda rng: (
        rng.random(1_000_000),
        rng.random(1_000_000),
        50,
    ),
    "frequencies": lambda rng: (rng.integers(0, 1000, 5_000_000),),
    "k_means": lambda rng: (rng.random((50_000, 8)), rng.random((16, 8)), 4),
    "logistic_regression": lambda rng: (rng.random((400_000, 40)), rng.random(400_000) < 0.5, 10),
    "ranks_and_trimmed_means": lambda rng: (rng.random((100_000, 12)),),
    "moving_averages": lambda rng: (rng.random(4_000_000), 8),
    "black_scholes": lambda rng: (rng.random(500_000), rng.random(500_000) + 1),
    "jacobi_1d": lambda rng: (rng.random(2_000_000), rng.random(2_000_000), 20),
    "jacobi_2d": lambda rng: (rng.random((1400, 1400)), rng.random((1400, 1400)), 20),
    "heat_3d": lambda rng: (rng.random((120, 120, 120)), 20),
    "red_black": lambda rng: (rng.random((1401, 1401)), 20),
    "maxwell_2d": lambda rng: (*(rng.random((1000, 1200)) for _ in range(3)), rng.random(40)),
    "game_of_life": lambda rng: ((rng.random((1000, 1000)) < 0.4).astype("int64"), 10),
    "advection_by_upwind_and_wave_by_leapfrog": lambda rng: (rng.random(1_000_000), 0.4, 20),
    "sandpile": lambda rng: (rng.integers(0, 9, (1000, 1000)), 20),
}
FEW = 10_000
"""Elements of the median call below which a program is about calls, not about elements."""
WATCHED_S = 6.0
SURVEYED_S = 90
CASES: list[dict[str, Any]] = [{"name": name} for name in PROGRAMS]


# One program on either side -----------------------------------------------------------------------


def setup(
    peer: str, case: dict[str, Any], device: str
) -> tuple[Callable[[], float], Callable[[], float]]:
    """`run()` says how long the program took: its arguments are made outside of that."""
    timed, check = prepared(peer, case, device)
    return lambda: timed()[0], check


def prepared(
    peer: str, case: dict[str, Any], device: str
) -> tuple[Callable[[], tuple[float, float]], Callable[[], float]]:
    """A run that says its seconds by the clock and of the processor, and a check of its results."""
    program = PROGRAMS[case["name"]]
    given = SIZED[program.name](np.random.default_rng(7))
    xp: Any = np
    taken: Callable[[Any], Any] = copy.deepcopy
    if peer == "infinitensor":
        import infinitensor as it

        it.init(device)
        xp, taken = it, tensors_of
    last: list[Any] = []

    def run() -> tuple[float, float]:
        last.clear()  # or the results of the run before would take its memory
        arguments = taken(given)
        begun, busy = time.perf_counter(), time.process_time()
        with np.errstate(all="ignore"):
            result = program.run(xp, *arguments)
        last[:] = flat((result, arguments))
        if xp is not np:
            compute(last)
        return time.perf_counter() - begun, time.process_time() - busy

    def check() -> float:
        """A number that is another one if the results are."""
        arrays = [
            np.asarray(x)
            for x in last
            if np.ndim(x) or isinstance(x, float | complex) or hasattr(x, "dtype")
        ]
        return float(
            sum(
                np.nansum(abs(a.astype(complex) if a.dtype.kind == "c" else a.astype(float)))
                for a in arrays
            )
        )

    return run, check


def tensors_of(given: tuple[Any, ...]) -> list[Any]:
    import infinitensor as it

    return [it.asarray(a) if isinstance(a, np.ndarray) else a for a in given]


def compute(results: list[Any]) -> None:
    import infinitensor as it

    it.compute(*(x for x in results if isinstance(x, it.Tensor)))


def flat(result: Any) -> list[Any]:
    if isinstance(result, tuple | list):
        return [x for part in result for x in flat(part)]
    return [] if result is None else [result]


# What a program is like ---------------------------------------------------------------------------


class Counted(np.ndarray):
    """NumPy's array, which notes how many elements each call touches."""

    touched: ClassVar[Counter[int]] = Counter()

    def __array_ufunc__(
        self, ufunc: Any, method: str, *ins: Any, out: Any = (), **options: Any
    ) -> Any:
        plain = tuple(x.view(np.ndarray) if isinstance(x, Counted) else x for x in out)
        if plain:
            options["out"] = plain
        made = getattr(ufunc, method)(*map(bare, ins), **options)
        note(*ins, made)
        return out[0] if plain else dressed(made)

    def __array_function__(self, call: Any, types: Any, ins: Any, options: Any) -> Any:
        made = call(*bare(ins), **bare(options))
        note(*flat(list(ins)), made)
        return dressed(made)

    def __getitem__(self, index: Any) -> Any:
        plain = self.view(np.ndarray)
        found = plain[bare(index)]
        if not np.ndim(found) or not np.may_share_memory(found, plain):
            note(found)
        return dressed(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        target = self.view(np.ndarray)
        target[bare(index)] = bare(value)
        Counted.touched[int(np.size(target[bare(index)]))] += 1


def note(*arrays: Any) -> None:
    Counted.touched[max([int(getattr(x, "size", 1)) for x in flat(list(arrays))], default=0)] += 1


def bare(x: Any) -> Any:
    if isinstance(x, Counted):
        return x.view(np.ndarray)
    if isinstance(x, tuple | list):
        return type(x)(map(bare, x))
    return {k: bare(v) for k, v in x.items()} if isinstance(x, dict) else x


def dressed(x: Any) -> Any:
    if isinstance(x, tuple | list):
        return type(x)(map(dressed, x)) if type(x) in (tuple, list) else x
    return x.view(Counted) if isinstance(x, np.ndarray) else x


class Watched:
    """NumPy, whose new arrays are counted too."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if not callable(found) or isinstance(found, np.ufunc | type):
            return found
        return lambda *args, **options: dressed(found(*args, **options))


class EnoughError(Exception):
    """A program was watched for long enough."""


def median_touched(name: str) -> int:
    """Elements that the median call of a program touches, in its first `WATCHED_S` seconds."""
    given = [dressed(x) for x in SIZED[name](np.random.default_rng(7))]

    def stop(*_: Any) -> None:
        raise EnoughError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, WATCHED_S)
    with contextlib.suppress(EnoughError), np.errstate(all="ignore"):
        PROGRAMS[name].run(Watched(), *given)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return int(statistics.median_low(Counted.touched.elements()))


def profile(name: str) -> dict[str, Any]:
    """Counts, and where the time goes in a warm run of ours."""
    import infinitensor as it
    from infinitensor.api.evaluate import evaluate
    from infinitensor.engines import LocalEngine
    from infinitensor.runtime import TileTable

    spent: Counter[str] = Counter()
    inside: list[str] = []

    def timed(owner: Any, attribute: str, kind: str) -> None:
        call = getattr(owner, attribute)

        def wrapped(*args: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            inside.append(kind)
            try:
                return call(*args, **options)
            finally:
                inside.pop()
                taken = time.perf_counter() - begun
                spent[kind] += taken  # type: ignore[assignment]
                if inside:
                    spent[inside[-1]] -= taken  # type: ignore[assignment]

        setattr(owner, attribute, wrapped)

    run, _ = setup("infinitensor", {"name": name}, "cpu")
    cold = run()
    run()
    timed(evaluate, "_run", "bind")
    timed(evaluate, "prepare", "plan")
    timed(LocalEngine, "finish", "run")
    timed(TileTable, "read", "host")
    it.stats(reset=True)
    seconds = run()
    counts = it.stats()
    spent["record"] = seconds - sum(spent.values())  # type: ignore[assignment]
    found = {f"{kind}_s": round(s, 6) for kind, s in spent.items()}
    return found | {
        "seconds": seconds,
        "cold_s": cold,
        "plans": counts["plan_misses"],
        "evaluations": counts["evaluations"],
        "tasks": counts["tasks"],
        "small_calls": counts["small_calls"],
    }


def surveyed(name: str, n_pairs: int) -> dict[str, Any]:
    """Both sides in turns in this one process: a survey, not a measurement."""
    ours, check = prepared("infinitensor", {"name": name}, "cpu")
    theirs, check_theirs = prepared("numpy", {"name": name}, "cpu")
    theirs()
    cold_s, _ = ours()
    a, b = check(), check_theirs()
    import infinitensor as it

    pairs = []
    for turn in range(n_pairs):
        it.stats(reset=True)
        pair = []
        for run in (ours, theirs) if turn % 2 else (theirs, ours):
            time.sleep(PAUSE_S)
            pair.append(run())
        pairs.append(pair if turn % 2 else pair[::-1])
    counts = it.stats()
    ratios = [us / them for (us, _), (them, _) in pairs]
    record = {
        "case": {"name": name},
        "ratio": statistics.median(ratios),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "us_warm_s": min(us for (us, _), _ in pairs),
        "peer_warm_s": min(them for _, (them, _) in pairs),
        "us_busy_s": min(us for (_, us), _ in pairs),
        "peer_busy_s": min(them for _, (_, them) in pairs),
        "us_cold_s": cold_s,
        "pairs": pairs,
    }
    if not abs(a - b) <= 1e-3 * max(abs(a), abs(b), 1e-30):
        record["failed"] = f"not the same work: {a!r} and {b!r}"
    counted = {key: counts[key] for key in ("evaluations", "tasks", "small_calls")}
    return record | {"like": {"plans": counts["plan_misses"], **counted}}


def asked(what: str, name: str, *more: str) -> dict[str, Any]:
    """What a process of its own says of a program."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.bench_programs", f"--{what}", name, *more],
            capture_output=True,
            text=True,
            check=False,
            timeout=SURVEYED_S,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"{what}: more than {SURVEYED_S} s"}
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def described(name: str) -> dict[str, Any]:
    """Both, each in a process of its own."""
    return asked("touched", name) | asked("profile", name)


# The table ----------------------------------------------------------------------------------------

HEAD = (
    "| program | NumPy / us [95 %] | ms, us / NumPy | median op | plans | evaluations | tasks | "
    "small | record, plan, run, host % |\n|---|---|---|---|---|---|---|---|---|"
)


def row(record: dict[str, Any]) -> str:
    name = record["case"]["name"].replace("_", " ")
    if "failed" in record:
        return f"| {name} | failed: {record['failed']} | | | | | | | |"
    cells = [
        name,
        "{:.2f} [{:.2f}, {:.2f}]".format(
            *(1 / record[key] for key in ("ratio", "ratio_high", "ratio_low"))
        ),
        f"{record['us_warm_s'] * 1e3:.4g} / {record['peer_warm_s'] * 1e3:.4g}",
    ]
    like = record.get("like", {})
    cells += [
        f"{like.get(k, '')}" for k in ("touched", "plans", "evaluations", "tasks", "small_calls")
    ]
    shares = [like.get("record_s", 0) + like.get("bind_s", 0)]
    shares += [like.get(f"{k}_s", 0) for k in ("plan", "run", "host")]
    total = like.get("seconds", 1)
    cells.append(", ".join(f"{100 * s / total:.0f}" for s in shares))
    return "| " + " | ".join(cells) + " |"


def measured(pairs: int, fresh: int, only: list[str], quick: bool) -> Iterator[dict[str, Any]]:
    from benchmarks.harness import one_record

    for case in CASES:
        name = case["name"]
        if only and not any(part in name for part in only):
            continue
        if quick:
            record = {"case": case} | asked("survey", name, "--pairs", str(pairs))
            yield record | {"like": record.get("like", {}) | asked("touched", name)}
        else:
            record = one_record(
                "bench_programs", case, "infinitensor", "numpy", "cpu", pairs, fresh
            )
            yield record | {"like": described(name)}


def geomean(ratios: list[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def summary(records: list[dict[str, Any]]) -> str:
    """The geometric mean of programs over many elements, and the others one by one."""
    done = [
        (r["case"]["name"].replace("_", " "), 1 / r["ratio"], r) for r in records if "ratio" in r
    ]
    few = [r for r in done if r[2]["like"].get("touched", FEW) < FEW]
    many = [r for r in done if r not in few]
    lines = []
    if many:
        lines.append(
            f"geomean {geomean([ratio for _, ratio, _ in many]):.2f} over {len(many)} programs "
            f"whose median op touches {FEW} elements or more; slower than 0.8: "
            + (", ".join(f"{name} {ratio:.2f}" for name, ratio, _ in many if ratio < 0.8) or "none")
        )
    if few:
        lines.append(f"\n{len(few)} programs with a smaller median op, NumPy's time times:\n")
        lines += [
            f"- {name}: {1 / ratio:.2f} (median op {r['like']['touched']})"
            for name, ratio, r in sorted(few, key=lambda row: row[1])
        ]
    failed = [r["case"]["name"] for r in records if "ratio" not in r]
    return "\n".join(lines + ([f"\nwithout a figure: {', '.join(failed)}"] if failed else []))


def main(argv: list[str] | None = None) -> int:
    import argparse

    from benchmarks.harness import RESULTS

    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_programs")
    parser.add_argument("--pairs", type=int, help="16; 1 in a survey")
    parser.add_argument("--fresh", type=int, default=2, help="processes a side")
    parser.add_argument("--only", nargs="+", default=[], help="programs with this in their names")
    parser.add_argument("--name", default="bench_programs", help="of the files under results/")
    parser.add_argument("--touched", help="count elements only, of this program, and print JSON")
    parser.add_argument("--profile", help="profile only this program, and print JSON")
    parser.add_argument("--quick", action="store_true", help="survey: 1 pair, in one process each")
    parser.add_argument("--survey", help="survey only this program, in this process, print JSON")
    args = parser.parse_args(argv)
    pairs = args.pairs or (1 if args.quick or args.survey else 16)
    if args.touched:
        print(json.dumps({"touched": median_touched(args.touched)}))
        return 0
    if args.survey:
        print(json.dumps(surveyed(args.survey, pairs)))
        return 0
    if args.profile:
        print(json.dumps(profile(args.profile)))
        return 0
    RESULTS.mkdir(exist_ok=True)
    print(HEAD, flush=True)
    done = []
    with (RESULTS / f"{args.name}.jsonl").open("w") as lines:
        for record in measured(pairs, args.fresh, args.only, args.quick):
            print(row(record), flush=True)
            lines.write(json.dumps(record) + "\n")
            lines.flush()
            done.append(record)
    print("\n" + summary(done))
    return int(any("failed" in record for record in done))


if __name__ == "__main__":
    raise SystemExit(main())
