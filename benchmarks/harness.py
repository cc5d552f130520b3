"""Compare two libraries fairly on one machine: `measure` a question, `report` the answers.

Each library runs in a process of its own, with its own threads, driven over a pipe, so that
neither its thread pools nor its memory touch the other's. The two take turns (ours first, then
the peer's first), so that a slow minute of the machine hits both; what counts is the median of
the ratios of the pairs, with a 95 % bootstrap interval. Cold is the first call of each process
after the operands are made; warm is after that. Peak bytes are read from outside, from
`/proc/<pid>/status`, with the peak reset once the operands are there.

A question is a module with

    QUESTION: str                                    what the numbers are to decide
    CASES: list[dict]                                each with a "name"; "peers": who has it, or all
    PEERS: dict[str, dict[str, str]]                 name -> environment of its process
    def setup(peer, case, device) -> (run, check)    run() is timed, check() -> float is not;
                                                     if run() says seconds, those count

Both are asked for `check()` after the first run; where it differs there is no ratio to report.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.summary import summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
LEAST_SAMPLE_S = 0.02
LONG_S = 1.0
"""A run that takes as long has warmed up after one."""
WARM_S = 0.2
"""A library has warmed up once it was called so long, and more calls take no shorter each."""
MOST_CALLS = 100_000
PAUSE_S = 0.05
"""Between two turns: threads of a library may go on looking for work for up to 30 ms after it has
returned (NumPy's OpenBLAS), on a core that whoever comes next would have."""
CHECK_TOLERANCE = 1e-3
CACHES = ("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR")
"""Where we and torch.compile look for code that was compiled before; JAX keeps none."""


# One library in its own process -------------------------------------------------------------------


def package_path() -> str:
    """Where a process finds the benchmarks, and the package as it is here."""
    return os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])


class Worker:
    """The process of one library; a context manager that ends it."""

    def __init__(self, question: str, peer: str, environment: dict[str, str], device: str) -> None:
        self.peer = peer
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.harness", "--work", question, peer, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": package_path(), **environment},
        )

    def ask(self, **command: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                if "error" in answer:
                    raise RuntimeError(f"{self.peer}: {answer['error']}")
                return answer
        raise RuntimeError(f"{self.peer}: ended with {self.process.wait()} at {command}")

    def rss_bytes(self, which: str) -> int:
        """`VmRSS` (now) or `VmHWM` (the most since the last reset)."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(which + ":"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"no {which} of process {self.process.pid}")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def work(question: str, peer: str, device: str) -> None:
    """The loop of a worker: one JSON command a line in, one JSON answer a line out."""
    module = importlib.import_module(f"benchmarks.{question}")
    run = check = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            match command["do"]:
                case "setup":
                    run, check = module.setup(peer, command["case"], device)
                    answer: dict[str, Any] = {}
                case "run":
                    assert run is not None
                    begun = time.perf_counter()
                    said = [run() for _ in range(command["times"])]
                    taken = time.perf_counter() - begun if said[0] is None else sum(said)
                    answer = {"seconds": taken / command["times"]}
                case "check":
                    assert check is not None
                    answer = {"value": float(check()), "device_bytes": device_peak_bytes(device)}
                case _:
                    answer = {"error": f"no command {command['do']!r}"}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def device_peak_bytes(device: str) -> int | None:
    """What torch took from the card at most, as the process itself says; None on a CPU."""
    if device == "cpu":
        return None
    import torch

    return int(torch.cuda.max_memory_reserved())


# Two libraries in turns ---------------------------------------------------------------------------


@dataclass
class Side:
    """What was measured of one library."""

    name: str
    cold_s: list[float] = field(default_factory=list)
    warm_s: list[float] = field(default_factory=list)
    process: list[int] = field(default_factory=list)  # which process each warm sample is of
    added_bytes: int = 0  # by cold and warm runs, above the operands
    peak_bytes: int = 0  # of the whole process
    device_bytes: int | None = None
    value: float = float("nan")


def start(
    question: str,
    side: Side,
    module: Any,
    case: dict[str, Any],
    device: str,
    caches: str | None = None,
) -> Worker:
    """A fresh process that has its operands and has made its first, cold run; what it compiles goes
    to a folder for caches."""
    environment = module.PEERS[side.name]
    if caches is not None:
        environment = environment | {name: caches for name in CACHES}
    worker = Worker(question, side.name, environment, device)
    try:
        worker.ask(do="setup", case=case)
        before = worker.rss_bytes("VmRSS")
        worker.forget_peak()
        side.cold_s.append(worker.ask(do="run", times=1)["seconds"])
        side.added_bytes = max(side.added_bytes, worker.rss_bytes("VmHWM") - before)
        checked = worker.ask(do="check")
        side.value, side.device_bytes = checked["value"], checked["device_bytes"]
    except BaseException:
        worker.__exit__()
        raise
    return worker


def take_turns(
    question: str, case: dict[str, Any], us: str, peer: str, device: str, n_pairs: int, n_fresh: int
) -> tuple[Side, Side]:
    """Both sides of one case: `n_pairs` pairs in all, spread over `n_fresh` pairs of processes.

    Fresh ones, because where a process happens to get its pages can be worth several percent for
    as long as it lives.
    """
    module = importlib.import_module(f"benchmarks.{question}")
    ours, theirs = Side(us), Side(peer)
    for round_ in range(n_fresh):
        sides = [ours, theirs] if round_ % 2 == 0 else [theirs, ours]
        with (
            start(question, sides[0], module, case, device) as first,
            start(question, sides[1], module, case, device) as second,
        ):
            n_here = n_pairs * (round_ + 1) // n_fresh - n_pairs * round_ // n_fresh
            take_warm_turns([(sides[0], first), (sides[1], second)], n_here)
    return ours, theirs


def take_turns_together(
    question: str, case: dict[str, Any], us: str, peers: Sequence[str], device: str, n_pairs: int
) -> tuple[Side, dict[str, Side | str]]:
    """Us and all peers in turns, one process each, with empty caches: the samples of us are a pair
    with those of every peer. A peer that cannot begin is left out; why is said instead."""
    module = importlib.import_module(f"benchmarks.{question}")
    ours = Side(us)
    found: dict[str, Side | str] = {}
    with contextlib.ExitStack() as processes:

        def begin(side: Side) -> Worker:
            caches = processes.enter_context(tempfile.TemporaryDirectory())
            worker = start(question, side, module, case, device, caches)
            return processes.enter_context(worker)

        running = [(ours, begin(ours))]
        for peer in peers:
            side = Side(peer)
            try:
                running.append((side, begin(side)))
            except RuntimeError as error:
                found[peer] = str(error)
            else:
                found[peer] = side
        take_warm_turns(running, n_pairs)
    return ours, found


def calls_of_a_sample(worker: Worker) -> int:
    """Calls that take `LEAST_SAMPLE_S` once a library has warmed up.

    First calls compile, choose or record, and a sample of few calls has the switch from one process
    to the next in it.
    """
    times: int = 1
    spent = 0.0
    while True:
        each_s = worker.ask(do="run", times=times)["seconds"]
        spent += times * each_s
        wanted = max(1, min(MOST_CALLS, int(LEAST_SAMPLE_S / max(each_s, 1e-7))))
        if each_s >= LONG_S or (spent >= WARM_S and wanted <= 1.2 * times):
            return wanted
        times = wanted


def take_warm_turns(both: list[tuple[Side, Worker]], n_pairs: int) -> None:
    """`n_pairs` samples of each of two or more sides, in turns, each long enough for the clock."""
    times = {}
    before = {}
    for side, worker in both:
        times[side.name, worker] = calls_of_a_sample(worker)
        before[worker] = worker.rss_bytes("VmRSS")
        worker.forget_peak()
    for turn in range(n_pairs):
        for side, worker in both if turn % 2 == 0 else both[::-1]:
            time.sleep(PAUSE_S)
            answer = worker.ask(do="run", times=times[side.name, worker])
            side.warm_s.append(answer["seconds"])
            side.process.append(len(side.cold_s))
    for side, worker in both:
        peak = worker.rss_bytes("VmHWM")
        side.peak_bytes = max(side.peak_bytes, peak)
        side.added_bytes = max(side.added_bytes, peak - before[worker])


def median_ratio(
    ours: Sequence[float],
    theirs: Sequence[float],
    process: Sequence[int] | None = None,
    n_resamples: int = 4000,
) -> tuple[float, float, float]:
    """Median of the pairs' ratios, and its 95 % bootstrap interval (seeded).

    The bootstrap draws processes first and then pairs within them: pairs of one process are alike.

    >>> median_ratio([1.0] * 15, [2.0] * 15)
    (0.5, 0.5, 0.5)
    """
    groups: dict[int, list[float]] = {}
    for a, b, which in zip(ours, theirs, process or [0] * len(ours), strict=True):
        groups.setdefault(which, []).append(a / b)
    rng = random.Random(0)
    pools = list(groups.values())
    medians = sorted(
        statistics.median(
            ratio
            for pool in rng.choices(pools, k=len(pools))
            for ratio in rng.choices(pool, k=len(pool))
        )
        for _ in range(n_resamples)
    )
    low, high = medians[int(0.025 * n_resamples)], medians[int(0.975 * n_resamples) - 1]
    return statistics.median(ratio for pool in pools for ratio in pool), low, high


def measure(
    question: str,
    *,
    us: str,
    peers: Sequence[str],
    device: str = "cpu",
    n_pairs: int = 16,
    n_fresh: int = 4,
    only: Sequence[str] = (),
    together: bool = False,
) -> Iterator[dict[str, Any]]:
    """One record for each case and peer, as they are done."""
    module = importlib.import_module(f"benchmarks.{question}")
    for peer in peers:
        if peer not in module.PEERS:
            print(f"{peer} is not installed", file=sys.stderr)
    peers = [peer for peer in peers if peer in module.PEERS]
    for case in module.CASES:
        if only and not any(part in case["name"] for part in only):
            continue
        able = [peer for peer in peers if peer in case.get("peers", peers)]
        if together:
            yield from records_together(question, case, us, able, device, n_pairs)
            continue
        for peer in able:
            yield one_record(question, case, us, peer, device, n_pairs, n_fresh)


def records_together(
    question: str, case: dict[str, Any], us: str, peers: Sequence[str], device: str, n_pairs: int
) -> Iterator[dict[str, Any]]:
    """A record for each peer of a case that all ran in turns."""
    record: dict[str, Any] = {"question": question, "case": case, "us": us}
    record |= {"device": device, "load_before": os.getloadavg()[0]}
    try:
        ours, found = take_turns_together(question, case, us, peers, device, n_pairs)
    except RuntimeError as error:
        yield record | {"peer": ", ".join(peers), "failed": str(error)} | machine()
        return
    for peer, side in found.items():
        said = {"failed": side} if isinstance(side, str) else outcome(ours, side)
        yield record | {"peer": peer} | said | machine()


def one_record(
    question: str, case: dict[str, Any], us: str, peer: str, device: str, n_pairs: int, n_fresh: int
) -> dict[str, Any]:
    record: dict[str, Any] = {"question": question, "case": case, "us": us, "peer": peer}
    record |= {"device": device, "load_before": os.getloadavg()[0]}
    try:
        ours, theirs = take_turns(question, case, us, peer, device, n_pairs, n_fresh)
    except RuntimeError as error:
        return record | {"failed": str(error)} | machine()
    return record | outcome(ours, theirs) | machine()


def outcome(ours: Side, theirs: Side) -> dict[str, Any]:
    """What the samples of two sides say, or why they say nothing."""
    scale = max(abs(ours.value), abs(theirs.value), 1e-30)
    if not abs(ours.value - theirs.value) <= CHECK_TOLERANCE * scale:
        return {"failed": f"not the same work: {ours.value!r} and {theirs.value!r}"}
    ratio, low, high = median_ratio(ours.warm_s, theirs.warm_s, ours.process)
    record: dict[str, Any] = {"ratio": ratio, "ratio_low": low, "ratio_high": high}
    record["n_pairs"] = len(ours.warm_s)
    for role, side in (("us", ours), ("peer", theirs)):
        record |= {
            f"{role}_warm_s": statistics.median(side.warm_s),
            f"{role}_spread_s": max(side.warm_s) - min(side.warm_s),
            f"{role}_cold_s": statistics.median(side.cold_s),
            f"{role}_added_bytes": side.added_bytes,
            f"{role}_peak_bytes": side.peak_bytes,
            f"{role}_device_bytes": side.device_bytes,
        }
    return record | {"samples": [asdict(ours), asdict(theirs)]}


def machine() -> dict[str, Any]:
    """Where and on what the numbers were made."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "commit": commit.stdout.strip() or None,
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "python": platform.python_version(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


# What people read ---------------------------------------------------------------------------------


def report(records: Iterable[dict[str, Any]], question: str, name: str) -> str:
    """Write `results/<name>.jsonl` and `results/<name>.md` and give back the table."""
    RESULTS.mkdir(exist_ok=True)
    module = importlib.import_module(f"benchmarks.{question}")
    done = []
    with (RESULTS / f"{name}.jsonl").open("w") as lines:
        for record in records:
            lines.write(json.dumps(record) + "\n")
            lines.flush()
            done.append(record)
            print(row(record), flush=True)
    table = "\n".join([HEAD, *map(row, done)])
    where = f"{done[0]['machine']}, Python {done[0]['python']}, {done[0]['at']}" if done else ""
    (RESULTS / f"{name}.md").write_text(
        f"# {module.QUESTION}\n\n{table}\n\n"
        "Ratio: our time / the peer's, median of alternating pairs with its 95 % bootstrap\n"
        "interval; below 1 we are faster. Cold: first call of a fresh process. MB: the most the\n"
        "process grew above its operands, seen from outside.\n\n"
        f"{where}; commit {done[0]['commit'] if done else None}.\n"
    )
    return table


HEAD = (
    "| case | us / peer | ratio [95 %] | warm ms, us / peer | cold ms, us / peer | "
    "MB, us / peer |\n|---|---|---|---|---|---|"
)


def row(record: dict[str, Any]) -> str:
    """One line of the table."""
    names = f"{record['us']} / {record['peer']}"
    if record["device"] != "cpu":
        names += f" on {record['device']}"
    if "failed" in record:
        return f"| {record['case']['name']} | {names} | failed: {record['failed']} | | | |"
    added = "device_bytes" if record["us_device_bytes"] is not None else "added_bytes"
    cells = [
        record["case"]["name"],
        names,
        f"{record['ratio']:.2f} [{record['ratio_low']:.2f}, {record['ratio_high']:.2f}]",
        f"{record['us_warm_s'] * 1e3:.3g} / {record['peer_warm_s'] * 1e3:.3g}",
        f"{record['us_cold_s'] * 1e3:.3g} / {record['peer_cold_s'] * 1e3:.3g}",
        f"{record[f'us_{added}'] / 1e6:.0f} / {record[f'peer_{added}'] / 1e6:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def main(question: str, argv: Sequence[str] | None = None, together: bool = False) -> int:
    """The command line that every question has; `together`: all peers in turns by default."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{question}")
    parser.add_argument("--us", default="infinitensor")
    parser.add_argument("--peers", nargs="+")
    parser.add_argument("--gpu", action="store_true", help="on cuda; the peer is torch there")
    parser.add_argument("--pairs", type=int, default=15 if together else 16)
    parser.add_argument("--fresh", type=int, default=4, help="processes a side")
    parser.add_argument("--only", nargs="+", default=(), help="cases whose name contains one")
    parser.add_argument(
        "--together",
        action=argparse.BooleanOptionalAction,
        default=together,
        help="all peers in turns, one process each: takes less",
    )
    parser.add_argument("--summary", action="store_true", help="only that of the last run")
    parser.add_argument("--name", help="of the files under results/")
    args = parser.parse_args(argv)
    device = "cuda" if args.gpu else "cpu"
    module = importlib.import_module(f"benchmarks.{question}")
    others = [peer for peer in module.PEERS if peer != args.us]
    usual = ["torch"] if args.gpu else others if args.together else ["numpy", "torch"]
    peers = args.peers or [peer for peer in usual if peer in others] or others
    name = args.name or (f"{question}_gpu" if args.gpu else question)
    if args.summary:
        print(summary_of(name, module))
        return 0
    records = measure(
        question,
        us=args.us,
        peers=peers,
        device=device,
        n_pairs=args.pairs,
        n_fresh=args.fresh,
        only=args.only,
        together=args.together,
    )
    print(HEAD)
    report(records, question, name)
    if args.together:
        print("\n" + summary_of(name, module))
    return 0


def summary_of(name: str, module: Any) -> str:
    """What the records of a run with several peers say."""
    records = map(json.loads, (RESULTS / f"{name}.jsonl").read_text().splitlines())
    return summary(records, getattr(module, "ASKED", None))


if __name__ == "__main__":
    _, flag, *worker_arguments = sys.argv
    assert flag == "--work", "run a question, for example python -m benchmarks.bench_core"
    work(*worker_arguments)
