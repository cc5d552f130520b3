"""Random programs against the best of the libraries: python -m benchmarks.bench_survey --seed 1.

`--programs N` programs of a seed (`survey_programs`), each under every library that can express it,
one process each, in turns, values compared. `--device cpu|cuda`. First every library runs every
program once (with what it compiles: its cold time), processes side by side; then, alone on the
machine, they take turns. Prints the distribution of our time / the best peer's and / torch's, each
kind, the worst twenty with the reason (on a GPU how long it worked and with which kernels, on CPUs
how many cores worked and which ways the calls went; what share of the memory's speed that is), and
the ten with the worst first call. `--listed` takes the programs of `survey_listed` instead.
`results/survey_….jsonl` has every program.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.harness import RESULTS, Worker, calls_of_a_sample, machine, package_path
from benchmarks.survey_libraries import PEERS, US, digest, environment, prepare
from benchmarks.survey_listed import LISTED, listed
from benchmarks.survey_programs import Program
from benchmarks.survey_programs import program as drawn_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_S = 20.0
"""A library that takes longer for one call is left out of a program."""
TOLERANCE = {"float16": 3e-2, "bfloat16": 1e-1, "float64": 1e-6}
PEAK = {"cpu": 2.0e10, "cuda": 4.0e12}
"""Bytes a second of the memory: of two cores, and of an H200."""
TIMES = 5
_compiled: dict[Any, Any] = {}


def program(seed: int, number: int, device: str) -> Program:
    """The program of a number: drawn, or listed."""
    return listed()[number] if seed == LISTED else drawn_program(seed, number, device)


# One library in a process -------------------------------------------------------------------------


def setup(peer: str, case: dict[str, Any], device: str) -> tuple[Callable[[], None], Any]:
    """What the harness asks for: a call to time, and a number to compare."""
    drawn = program(case["seed"], case["number"], device)
    call = prepare(peer, drawn, device, _compiled)
    made: list[Any] = []

    def run() -> None:
        made[:] = [call()]

    return run, lambda: digest(made[0])


def _look_at_cpu(run: Callable[[], None]) -> float:
    """Seconds of all cores in one call of ours; the ways it went are said on standard error."""
    import infinitensor as it

    for _ in range(9):
        run()
        time.sleep(0.05)  # what is compiled beside it
    it.stats(reset=True)
    worked, begun = time.process_time(), time.perf_counter()
    for _ in range(TIMES):
        run()
    worked, took = time.process_time() - worked, time.perf_counter() - begun
    seen = it.stats()
    counts = {"tasks": seen["tasks"], "tasks in C": seen["tasks_in_c"], **seen["ways"]}
    text = ", ".join(f"{n / TIMES:g} {name}" for name, n in counts.items() if n)
    print(f"REASON {worked / took:.1f} cores; {text}", file=sys.stderr, flush=True)
    return worked / TIMES


def _look_at_gpu(run: Callable[[], None]) -> float:
    """Seconds of the GPU in one call of ours; its kernels are said on standard error."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    for _ in range(4):
        run()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        run()
        torch.cuda.synchronize()
    rows = [(e.device_time_total, e.count, e.key) for e in seen.key_averages()]
    rows = sorted((row for row in rows if row[0] > 0), reverse=True)
    text = ", ".join(f"{key[:40]} {took:.0f} us x{n}" for took, n, key in rows[:5])
    print(f"REASON {text}", file=sys.stderr, flush=True)
    return sum(row[0] for row in rows) / 1e6


# All of them --------------------------------------------------------------------------------------


@dataclass
class Found:
    """What was measured of one program."""

    number: int
    kind: str
    body: str
    shapes: str
    bytes: int
    dtype: str
    cold_s: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    warm_s: dict[str, list[float]] = field(default_factory=dict)
    worked_s: float | None = None
    reason: str = ""

    def median(self, peer: str) -> float:
        return statistics.median(self.warm_s[peer])

    def agrees(self, peer: str) -> bool:
        ours, theirs = self.values[US], self.values[peer]
        tolerance = TOLERANCE.get(self.dtype, 1e-3)
        return abs(ours - theirs) <= tolerance * max(abs(ours), abs(theirs), 1e-9)

    def peers(self) -> list[str]:
        """Those that did the same work, the fastest first."""
        able = [p for p in self.warm_s if p != US and self.agrees(p)]
        return sorted(able, key=self.median)

    def ratio(self, peer: str) -> float:
        pairs = zip(self.warm_s[US], self.warm_s[peer], strict=True)
        return statistics.median(a / b for a, b in pairs)

    @property
    def best(self) -> float:
        return self.ratio(self.peers()[0])


def drawn_programs(seed: int, numbers: Sequence[int], device: str) -> list[Found]:
    found = []
    for number in numbers:
        one = program(seed, number, device)
        sizes = [math.prod(x.shape) * _itemsize(x.dtype) for x in one.operands]
        found.append(
            Found(number, one.kind, one.body, one.shapes, sum(sizes), one.operands[0].dtype)
        )
    return found


def _itemsize(dtype: str) -> int:
    return int("".join(c for c in dtype if c.isdigit())) // 8


def run_cold(worker: Worker, peer: str, seed: int, found: Sequence[Found], until: float) -> None:
    """Each program once: how long it takes with all it compiles, and what it gives."""
    for one in found:
        if time.monotonic() > until:
            one.errors[peer] = "no time left"
            continue
        try:
            worker.ask(do="setup", case={"seed": seed, "number": one.number})
            one.cold_s[peer] = worker.ask(do="run", times=1)["seconds"]
            one.values[peer] = worker.ask(do="check")["value"]
            worker.ask(do="run", times=2)  # some compile beside what is repeated
        except RuntimeError as error:
            one.errors[peer] = str(error)[:300]
            if worker.process.poll() is not None:
                return


def run_warm(workers: dict[str, Worker], seed: int, one: Found, n_turns: int) -> None:
    """All libraries in turns."""
    able = {
        peer: w for peer, w in workers.items() if peer in one.values and w.process.poll() is None
    }
    times = {}
    for peer, worker in list(able.items()):
        try:
            worker.ask(do="setup", case={"seed": seed, "number": one.number})
            times[peer] = calls_of_a_sample(worker)
            one.warm_s[peer] = []
        except RuntimeError as error:
            one.errors[peer] = str(error)[:300]
            del able[peer]
    for turn in range(n_turns):
        for peer in list(able) if turn % 2 == 0 else list(able)[::-1]:
            one.warm_s[peer].append(able[peer].ask(do="run", times=times[peer])["seconds"])


def measure(args: argparse.Namespace) -> list[Found]:
    """Cold side by side, then warm in turns."""
    numbers = args.only or list(range(args.first, args.first + args.programs))
    found = drawn_programs(args.seed, numbers, args.device)
    peers = [US, *(args.peers or PEERS[args.device])]
    shards = [found[k :: args.jobs] for k in range(args.jobs)]
    until = time.monotonic() + args.cold_seconds
    with ExitStack() as stack:
        workers: list[dict[str, Worker]] = []
        for _ in shards:
            made = {
                p: Worker("bench_survey", p, environment(p, args.device), args.device)
                for p in peers
            }
            workers.append({p: stack.enter_context(w) for p, w in made.items()})
        with ThreadPoolExecutor(len(shards) * len(peers)) as threads:
            for _ in threads.map(
                lambda job: run_cold(
                    workers[job[0]][job[1]], job[1], args.seed, shards[job[0]], until
                ),
                [(k, p) for k in range(len(shards)) for p in peers],
            ):
                pass
        for one in found:
            if US in one.values:
                run_warm(workers[found.index(one) % args.jobs], args.seed, one, args.turns)
                print(line(one), flush=True)
            else:
                print(f"{one.number} {one.kind}: FAILED {one.errors.get(US)}", flush=True)
    return found


def look(found: Sequence[Found], args: argparse.Namespace) -> None:
    """What the GPU, or the cores, did in the worst ones."""
    for one in found:
        number = ["--seed", str(args.seed), "--look", str(one.number), "--device", args.device]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.bench_survey", *number],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "PYTHONPATH": package_path()},
        )
        if done.returncode:
            one.reason = f"could not be looked at: {done.stderr.strip().splitlines()[-1]}"
            continue
        for text in done.stderr.splitlines():
            if text.startswith("REASON"):
                one.reason = text.removeprefix("REASON ")
        for text in done.stdout.splitlines():
            if text.startswith("WORKED"):
                one.worked_s = float(text.split()[1])


# What people read ---------------------------------------------------------------------------------


def line(one: Found) -> str:
    if not one.peers():
        return f"{one.number:4} {one.kind}: nobody else did this: {one.errors} {one.values}"
    times = ", ".join(f"{p} {one.median(p) * 1e3:.3g}" for p in one.peers())
    wrong = [p for p in one.warm_s if p != US and not one.agrees(p)]
    other = f" OTHER VALUES {wrong} {one.values}" if wrong else ""
    return (
        f"{one.number:4} {one.best:6.2f} {one.kind:22} us {one.median(US) * 1e3:.3g} ms, {times}"
        f" | {one.body[:110]} | {one.shapes}{other}"
    )


def geometric(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan


def distribution(name: str, ratios: Sequence[float], bar: float) -> str:
    if not ratios:
        return f"{name}: none"
    low, middle, high = (sorted(ratios)[int(q * (len(ratios) - 1))] for q in (0.1, 0.5, 0.9))
    within = sum(r <= bar for r in ratios) / len(ratios)
    return (
        f"{name}: {len(ratios)} programs, geometric mean {geometric(ratios):.2f}, 10 % {low:.2f},"
        f" median {middle:.2f}, 90 % {high:.2f}, most {max(ratios):.2f}; {within:.0%} at most {bar}"
    )


def summary(found: Sequence[Found]) -> str:
    judged = [one for one in found if US in one.warm_s and one.peers()]
    lines = [distribution("ours / best peer", [one.best for one in judged], 1.2)]
    for peer in ("torch", "numpy"):
        ratios = [one.ratio(peer) for one in judged if peer in one.warm_s and one.agrees(peer)]
        if ratios:
            lines.append(distribution(f"ours / {peer}", ratios, 1.1))
    cold = [one.cold_s[US] / one.cold_s["torch"] for one in judged if "torch" in one.cold_s]
    lines.append(distribution("cold, ours / torch", cold, 1.5))
    kinds = defaultdict(list)
    for one in judged:
        kinds[one.kind.split(":")[0]].append(one.best)
    rows = sorted(kinds.items(), key=lambda row: -geometric(row[1]))
    lines += [f"  {kind:12} {len(r):3} {geometric(r):.2f}, most {max(r):.2f}" for kind, r in rows]
    failed = [one for one in found if US not in one.warm_s]
    lines += [f"failed: {one.number} {one.kind} {one.errors.get(US)}" for one in failed]
    return "\n".join(lines)


def worst(found: Sequence[Found], device: str, peak: float) -> str:
    lines = ["worst:"]
    for one in found:
        lines.append(line(one))
        if one.worked_s is None:
            lines.append(f"       {one.reason}")
        else:
            worked = f"all cores {one.worked_s * 1e3:.3g} ms"
            if device == "cuda":
                host = one.median(US) - one.worked_s
                worked = f"GPU {one.worked_s * 1e3:.3g} ms, host {host * 1e3:.3g} ms"
            share = one.bytes / peak / one.median(US)
            lines.append(
                f"       {worked}, reading its operands once would be {share:.0%} of it;"
                f" {one.reason}"
            )
    return "\n".join(lines)


def worst_cold(found: Sequence[Found], n: int) -> str:
    """First calls against torch's, in milliseconds: what is loaded and compiled is in them."""
    both = [one for one in found if {US, "torch"} <= one.cold_s.keys()]
    both.sort(key=lambda one: one.cold_s["torch"] / one.cold_s[US])
    rows = [(one.cold_s[US], one.cold_s["torch"], one) for one in both[:n]]
    return "\n".join(
        ["worst first calls:"]
        + [
            f"{one.number:4} {ours / theirs:6.2f} {one.kind:22} us {ours * 1e3:.3g} ms, torch"
            f" {theirs * 1e3:.3g} | {one.body[:110]} | {one.shapes}"
            for ours, theirs, one in rows
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_survey")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="*", help="these numbers")
    parser.add_argument("--listed", action="store_true", help="those of survey_listed instead")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--peers", nargs="*")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=1, help="processes a library, for cold runs")
    parser.add_argument("--cold-seconds", type=float, default=1e9, help="for all cold runs")
    parser.add_argument("--peak", type=float, help="bytes a second of the memory")
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--look", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.look is not None:
        run, _ = setup(US, {"seed": args.seed, "number": args.look}, args.device)
        print("WORKED", (_look_at_gpu if args.device == "cuda" else _look_at_cpu)(run))
        return 0
    if args.listed:
        args.seed, args.programs = LISTED, min(args.programs, len(listed()))
    found = measure(args)
    judged = sorted((o for o in found if US in o.warm_s and o.peers()), key=lambda o: -o.best)
    look(judged[: args.worst], args)
    RESULTS.mkdir(exist_ok=True)
    name = f"survey_{args.device}_{args.seed}_{args.first}.jsonl"
    with (RESULTS / name).open("w") as lines:
        for one in found:
            lines.write(json.dumps(asdict(one) | {"seed": args.seed} | machine()) + "\n")
    print(worst(judged[: args.worst], args.device, args.peak or PEAK[args.device]))
    print(worst_cold(found, args.worst // 2))
    print(summary(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
