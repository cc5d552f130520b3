"""The generator repeats itself, its programs are what they are to be, and failures are found."""

from __future__ import annotations

import gc
import random
import time
from typing import Any

import numpy as np
import pytest

from .disturbing import DISTURBANCES, DisturbedError, interrupts
from .generate import LEAST
from .kinds import KINDS, program_of
from .program import Line, Program, helpers, reproduction
from .replay import difference, played, reduced

SEEDS = range(40)


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    return [program_of(seed, 200_000) for seed in SEEDS]


def test_a_seed_stands_for_one_program(programs: list[Program]) -> None:
    assert programs == [program_of(seed, 200_000) for seed in SEEDS]


def test_programs_are_numpys_and_large(programs: list[Program]) -> None:
    for program in programs:
        names: dict[str, Any] = {**helpers, "xp": np}
        with np.errstate(all="ignore"):
            exec(str(program), names)
        made = [names[line.makes] for line in program.lines if line.makes in names]
        assert max(value.size for value in made) >= LEAST


def test_there_are_programs_of_every_kind(programs: list[Program]) -> None:
    text = "\n".join(map(str, programs))
    for wanted in ("out=", "where=", "axis=", "keepdims", "dtype=", "reshape", "mask(", "index(",
                   "nonzero", "arange", "for ", "sort", "[1:-1]", "@", "+= "):  # fmt: skip
        assert wanted in text, f"no {wanted} in any program"
    assert len(KINDS) == len({kind for _, kind in KINDS})


def test_a_value_that_is_not_numpys_is_reported() -> None:
    ones = np.ones(3)
    assert difference(ones, ones, is_loose=False) == ""
    assert "3 of 3" in difference(ones, ones + 1e-12, is_loose=False)
    assert difference(ones, ones + 1e-12, is_loose=True) == ""
    assert "3 of 3" in difference(ones, ones * 2, is_loose=True)
    assert "float32" in difference(ones, ones.astype("f4"), is_loose=False)
    assert difference(np.array([np.nan]), np.array([np.nan]), is_loose=False) == ""


def test_a_failing_program_is_made_small() -> None:
    lines = [Line(f"x{k} = xp.arange({900 + k}) + {k}", f"x{k}") for k in range(12)]
    lines.insert(5, Line("x3[...] = xp is np", compares=True))
    program = Program((*lines, Line("x11 += 1", compares=True)), frozenset(), 3)
    outcome = played(program, "default")
    assert outcome.kind == "differs"
    small = reduced(program, lambda p: played(p, "default").kind == "differs")
    assert [line.text for line in small.lines] == ["x3 = xp.arange(3) + 3", "x3[...] = xp is np"]
    assert small.rounds == 1
    text = reproduction(small, "default", "it.init()", outcome.said)
    names: dict[str, Any] = {}
    exec(text, names)
    assert names["expected"]["x3"].tolist() == [1, 1, 1]


def test_errors_differ_from_lines_without_meaning() -> None:
    wrong = Program((Line("x1 = 1 if xp is np else xp.nothing", "x1", compares=True),), frozenset())
    assert played(wrong, "default").kind == "raises"
    without = Program((Line("x2 = x1 + 1", "x2", compares=True),), frozenset())
    assert not played(without, "default").fails


@pytest.mark.parametrize("kind", DISTURBANCES)
def test_disturbances_come_while_values_are_computed(kind: str) -> None:
    import infinitensor as it

    values = np.random.default_rng(0).normal(size=600_000)
    stopped = 0
    with it.init("cpu", memory="400MiB"):
        for seed in range(30):
            x = np.sort(it.asarray(values) * 2 + 1)
            rng = random.Random(seed)
            try:
                with DISTURBANCES[kind](rng):
                    it.compute(x)
            except (DisturbedError, it.TaskError):
                stopped += 1
            assert np.array_equal(np.asarray(x), np.sort(values * 2 + 1))
    assert stopped, f"no {kind} came"


def test_a_signal_in_a_callback_of_the_collector_comes_a_little_later() -> None:
    calls = []

    def callback(phase: str, info: dict[str, int]) -> None:
        calls.append(phase)
        end = time.monotonic() + 0.02
        while time.monotonic() < end:  # the signal finds it here
            pass

    def collect_and_wait() -> None:
        gc.collect()
        time.sleep(1)

    gc.callbacks.append(callback)
    try:
        with pytest.raises(DisturbedError, match="a signal"), interrupts(Now()):
            collect_and_wait()
    finally:
        gc.callbacks.remove(callback)
    assert calls == ["start", "stop"]


class Now(random.Random):
    """The signal comes at once."""

    def uniform(self, a: float, b: float) -> float:
        return a
