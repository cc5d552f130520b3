"""Random programs on large arrays, beside NumPy: `python -m tools.random_programs --help`.

Programs run in processes of their own, some after another in each, so that one that ends its
process or never ends is found too; every evaluation is audited, as in tests. The first of each kind
of failure is made small and printed as a program that stands alone. Run from the root of the
repository, with `src` on the path.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import multiprocessing
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from tests.audit import Audit, BrokenPromise
from tests.large.disturbing import DISTURBANCES
from tests.large.kinds import program_of
from tests.large.program import reproduction
from tests.large.replay import (
    MOST_ELEMENTS,
    SETTINGS,
    Outcome,
    opening,
    played,
    reduced,
    without_disturbance,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

    from tests.large.program import Program

PROGRAMS_EACH = 25
"""Programs that one process runs before a fresh one goes on: some fail only behind others."""
fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Limits:
    """What a program may take: seconds by the clock, and times NumPy's from some seconds on."""

    wall_s: float
    times_numpys: float
    slow_s: float

    def judged(self, outcome: Outcome) -> Outcome:
        """A program that gives NumPy's values may still be slow."""
        slow = max(self.slow_s, self.times_numpys * outcome.numpys)
        if outcome.kind == "same" and outcome.seconds > slow:
            said = f"{outcome.seconds:.1f} s, NumPy {outcome.numpys:.3f} s"
            return replace(outcome, kind="slow", said=said)
        return outcome


def _load() -> None:
    """Import here what every process would import again."""
    importlib.import_module("infinitensor")
    with contextlib.suppress(ImportError):
        importlib.import_module("torch")


def program_for(seed: int, setting: str, scalars: bool) -> Program:
    """The program of a seed, of a size for the setting's memory."""
    most = MOST_ELEMENTS.get(without_disturbance(setting))
    return (
        program_of(seed, scalars=scalars)
        if most is None
        else program_of(seed, most, scalars=scalars)
    )


def audited(program: Program, setting: str) -> Outcome:
    """The outcome of a program; that memory is not as it should be is one too."""
    try:
        with Audit().on():
            return played(program, setting)
    except BrokenPromise as error:  # at the end of it: what is found before, a program raises
        return Outcome("raises", f"{type(error).__name__}: {error}")


def _play_all(seeds: Sequence[int], setting: str, scalars: bool, out: Connection) -> None:
    for seed in seeds:
        out.send((seed, audited(program_for(seed, setting, scalars), setting)))
    out.close()


def _play_one(program: Program, setting: str, out: Connection) -> None:
    out.send((0, audited(program, setting)))
    out.close()


@dataclass
class Batch:
    """Programs that run one after another in a process."""

    seeds: list[int]
    process: Any
    results: Connection
    since: float = field(default_factory=time.monotonic)
    last: int = -1
    """The program that ended last."""

    @classmethod
    def started(cls, seeds: list[int], target: Any, *args: Any) -> Batch:
        """A process that runs them."""
        results, out = fork.Pipe(duplex=False)
        process = fork.Process(target=target, args=(*args, out))
        process.start()
        out.close()
        return cls(seeds, process, results)

    def news(self, wall_s: float) -> Iterator[tuple[int, Outcome]]:
        """What has ended since; a process that died or hangs ends with the program it was at."""
        try:
            while self.results.poll():
                seed, outcome = self.results.recv()
                self.seeds.remove(seed)
                self.last = seed
                self.since = time.monotonic()
                yield seed, outcome
        except EOFError:
            self.process.join(wall_s)
            if self.process.exitcode is None:
                self.process.kill()
                self.process.join()
                yield self.last, Outcome("hangs", f"at the end of its process, for {wall_s:.0f} s")
            elif self.seeds:
                yield self.seeds.pop(0), Outcome("died", f"exit code {self.process.exitcode}")
            self.results.close()
            return
        if time.monotonic() - self.since > wall_s:
            self.process.kill()
            self.process.join()
            yield self.seeds.pop(0), Outcome("hangs", f"for {wall_s:.0f} s")
            self.results.close()


def campaign(
    seeds: Sequence[int], setting: str, scalars: bool, n_jobs: int, limits: Limits
) -> Iterator[tuple[int, Outcome]]:
    """Every seed with its outcome."""
    left = [list(seeds[k : k + PROGRAMS_EACH]) for k in range(0, len(seeds), PROGRAMS_EACH)]
    running: list[Batch] = []
    while left or running:
        while left and len(running) < n_jobs:
            some = left.pop(0)
            running.append(Batch.started(some, _play_all, list(some), setting, scalars))
        wait([batch.results for batch in running], timeout=1)
        for batch in list(running):
            for seed, outcome in batch.news(limits.wall_s):
                yield seed, limits.judged(outcome)
            if batch.results.closed:
                running.remove(batch)
                if batch.seeds:
                    left.append(batch.seeds)


def alone(program: Program, setting: str, limits: Limits) -> Outcome:
    """The outcome of one program in a process of its own."""
    batch = Batch.started([0], _play_one, program, setting)
    while True:
        wait([batch.results], timeout=1)
        for _, outcome in batch.news(limits.wall_s):
            if not batch.results.closed:
                batch.process.join()
                batch.results.close()
            return limits.judged(outcome)


def kind_of(outcome: Outcome) -> str:
    """Failures that are likely one: what ends the same way, with the same error."""
    head = ""
    if outcome.kind in ("raises", "refused"):  # by what, or what does not fit
        head = outcome.said.split(" [")[0].split(":")[0].split(" does not fit")[0]
    return f"{outcome.kind} {head}".strip()


def report(seed: int, outcome: Outcome, setting: str, scalars: bool, limits: Limits) -> str:
    """A failing program, made small."""
    program = program_for(seed, setting, scalars)
    first = alone(program, setting, limits)
    if not first.fails:
        return f"# seed {seed} fails only behind the programs before it: {outcome.said}\n{program}"
    kind = kind_of(first)
    small = reduced(program, lambda p: kind_of(alone(p, setting, limits)) == kind)
    said = f"seed {seed}, {kind}: {alone(small, setting, limits).said}"
    return reproduction(small, setting, opening(setting), said.replace("\n", " "))


def main(given: Sequence[str] | None = None) -> int:
    """Run a campaign; the number of kinds of failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--setting", default="default", choices=[*SETTINGS, "all"])
    parser.add_argument("--count", type=int, default=100, help="programs of each setting")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--limit", type=float, default=120, help="seconds of one program")
    parser.add_argument("--slow", type=float, default=50, help="times NumPy's, from 3 s on")
    parser.add_argument("--scalars", action="store_true", help="scalars are changed in place")
    parser.add_argument("--interrupts", action="store_true", help="signals come between")
    parser.add_argument("--faults", action="store_true", help="tasks raise")
    parser.add_argument("--most", type=int, default=3, help="failures of a kind to make small")
    args = parser.parse_args(given)
    limits = Limits(args.limit, args.slow, 3.0)
    _load()
    seeds = range(args.seed, args.seed + args.count)
    n_failed = 0
    settings = list(SETTINGS) if args.setting == "all" else [args.setting]
    kinds = [kind for kind in DISTURBANCES if getattr(args, kind)]
    for setting in [f"{name}+{kind}" for kind in kinds for name in settings] or settings:
        begin, counts, failed = time.monotonic(), Counter[str](), []
        for seed, outcome in campaign(seeds, setting, args.scalars, args.jobs, limits):
            counts[kind_of(outcome)] += 1
            if outcome.fails:
                print(f"{setting} seed {seed}: {outcome.kind}: {outcome.said}", flush=True)
                if counts[kind_of(outcome)] <= args.most:
                    failed.append((seed, outcome))
        seconds = time.monotonic() - begin
        print(
            f"{setting}: seeds {seeds[0]} to {seeds[-1]}, {dict(counts)}, {seconds:.0f} s",
            flush=True,
        )
        for seed, outcome in failed:
            print(report(seed, outcome, setting, args.scalars, limits), flush=True)
        n_failed += len(failed)
    return min(n_failed, 100)


if __name__ == "__main__":
    sys.exit(main())
