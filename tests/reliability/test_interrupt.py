"""Bar L7: Ctrl-C at any moment is noticed soon, leaves nothing, and the next compute is right.

The signal is a real SIGINT to a process of its own, sent at seeded random moments.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from . import child
from .sampling import WHOLE, logged_rng, time_limit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import HoldsBar

pytestmark = [time_limit(280), pytest.mark.filterwarnings("error")]

N_MOMENTS = 20 if WHOLE else 8

SCRIPT = """
it.config.small_elements = 0
it.config.tile_elements = 1 << 14
it.config.inline_elements = 0  # always the worker threads
session = it.init(devices="cpu*3")
rng = np.random.default_rng(5)
source = rng.normal(size=(600, 300))

def program():
    x = it.asarray(source)
    x[1:] = x[:-1] * 0.5
    y = (x - x.mean(axis=0)) / x.std(axis=0)
    for _ in range(4):
        y = it.tanh(y @ (y.T @ y) / 600) + y
        y[::3] += 1
    return y, it.cumsum(y, axis=0)

def bits():
    y, z = program()
    it.compute(y, z)
    return y.numpy().tobytes() + z.numpy().tobytes()

t0 = time.monotonic()
wanted = bits()
t1 = time.monotonic()
wanted_again = bits()
t2 = time.monotonic()
wait_for_compilers()
threads_before, fds_before = len(threads()), len(os.listdir("/proc/self/fd"))
reply(duration_s=t2 - t1, repeatable=wanted == wanted_again)

for command in sys.stdin:
    if command.strip() == "quit":
        break
    caught = []
    held = None
    try:
        try:
            reply(started=time.monotonic())
            held = program()
            it.compute(*held)
            time.sleep(60)
        except KeyboardInterrupt:
            caught.append(time.monotonic())
            time.sleep(0.5)  # where a second Ctrl-C lands
    except KeyboardInterrupt:
        caught.append(time.monotonic())
    # what was interrupted resumes, and a fresh program is right too
    resumed = None
    if held is not None:
        resumed = held[0].numpy().tobytes() + held[1].numpy().tobytes() == wanted
    right = bits() == wanted
    wait_for_compilers()
    reply(caught=caught, resumed=resumed, right=right,
          threads=len(threads()) - threads_before,
          fds=len(os.listdir("/proc/self/fd")) - fds_before)
it.shutdown()
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
reply(children=children,
      threads_left=[name for name in threads() if name != threading.main_thread().name])
"""


class Interrupted:
    """The child that computes while we interrupt it."""

    def __init__(self, temporary: Path, script: str = SCRIPT, **settings: str) -> None:
        self.temporary = temporary
        self.process = child.start(script, TMPDIR=str(temporary), **settings)
        self.duration_s = 0.0

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            _, err = self.process.communicate()
            raise AssertionError(f"the child ended with {self.process.returncode}:\n{err}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def say(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def interrupt(self, after_s: float, second_after_s: float | None = None) -> dict[str, Any]:
        """One round: start, Ctrl-C after a while, perhaps a second one, what came of it."""
        self.say("run")
        self.answer()
        time.sleep(after_s)
        sent = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        if second_after_s is not None:
            time.sleep(second_after_s)
            self.process.send_signal(signal.SIGINT)
        outcome = self.answer()
        return {**outcome, "noticed_s": outcome["caught"][0] - sent}


@pytest.fixture
def computing(tmp_path: Path) -> Iterator[Interrupted]:
    running = Interrupted(tmp_path)
    try:
        first = running.answer()
        assert first["repeatable"]
        running.duration_s = first["duration_s"]
        print(f"one run takes {running.duration_s:.3f} s")
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


def test_ctrl_c_at_random_moments_is_noticed_and_the_next_compute_is_right(
    computing: Interrupted, holds_bar: HoldsBar
) -> None:
    rng = logged_rng("ctrl-c")
    slowest = 0.0
    for turn in range(N_MOMENTS):
        after_s = float(rng.uniform(0, computing.duration_s * 1.1))
        outcome = computing.interrupt(after_s)
        say = f"turn {turn}, {after_s:.4f} s in: {outcome}"
        assert outcome["right"], say
        assert outcome["resumed"] in (True, None), say
        assert outcome["threads"] <= 0, say
        assert outcome["fds"] <= 0, say
        slowest = max(slowest, outcome["noticed_s"])
    holds_bar("L7 Ctrl-C noticed, slowest", slowest, 1.0)


def test_a_second_ctrl_c_while_the_first_is_handled_is_safe_too(
    computing: Interrupted, holds_bar: HoldsBar
) -> None:
    rng = logged_rng("second ctrl-c")
    slowest = 0.0
    for turn in range(N_MOMENTS):
        after_s = float(rng.uniform(0, computing.duration_s))
        between_s = float(rng.choice([0.0, 0.001, 0.01, 0.1]))
        outcome = computing.interrupt(after_s, between_s)
        say = f"turn {turn}, {after_s:.4f} s in, second after {between_s} s: {outcome}"
        assert outcome["right"], say
        assert outcome["resumed"] in (True, None), say
        slowest = max(slowest, outcome["noticed_s"])
    holds_bar("L7 two Ctrl-C noticed, slowest", slowest, 1.0)


def test_after_ctrl_c_and_shutdown_no_thread_child_or_file_is_left(
    computing: Interrupted,
) -> None:
    computing.interrupt(computing.duration_s / 2)
    computing.say("quit")
    last = computing.answer()
    computing.process.wait(30)
    assert computing.process.returncode == 0
    assert last["threads_left"] == []
    assert last["children"] == []
    assert [path.name for path in computing.temporary.rglob("*") if path.is_file()] == []


def test_ctrl_c_that_nobody_catches_ends_the_process_soon(holds_bar: HoldsBar) -> None:
    process = child.start(
        """
        it.config.small_elements = 0
        it.init(devices="cpu*3")
        x = it.asarray(np.ones((1500, 1500)))
        reply(ready=True)
        while True:
            float((x @ x).sum())
        """
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ready"]
        time.sleep(0.4)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            pytest.fail("the process does not end after Ctrl-C")
        holds_bar("L7 process gone after Ctrl-C", time.monotonic() - sent, 2.0)
        assert "KeyboardInterrupt" in err
        assert process.returncode in (-signal.SIGINT, 130, 1)
    finally:
        process.kill()
        process.communicate()


LARGE = """
session = it.init(**json.loads(os.environ["OPTIONS"]))
rng = np.random.default_rng(3)
values = rng.normal(size=600_000)

def sorting(xp, y, table):
    return [xp.sort(y), xp.cumsum(y > 1)]

def stencil(xp, y, table):
    grid = table + 0
    for _ in range(6):
        grid[1:-1] = (grid[:-2] + grid[2:]) * 0.5
    return [grid, grid.max(axis=1)]

def reductions(xp, y, table):
    centred = table - table.max(axis=0)
    return [xp.argmax(centred, axis=1), centred.min(axis=0), centred]

def products(xp, y, table):
    return [xp.rint(table[:, :40]) @ xp.ones((40, 30)), table.T * 2]

def masked(xp, y, table):
    z = y * 1
    z[z > 2] = -1.0
    z[::3] += z[::3]
    return [z, z[z < 0], xp.flip(z)]

programs = [sorting, stencil, reductions, products, masked]

def fresh():
    x = it.asarray(values)
    return x, x * 2 + 1

def wrong(found, wanted):
    return [k for k, (a, b) in enumerate(zip(found, wanted)) if not np.array_equal(a.numpy(), b)]

y_right = values * 2 + 1
rights = [program(np, y_right, y_right.reshape(-1, 200)) for program in programs]
x, y = fresh()
for program, right in zip(programs, rights):
    assert not wrong(program(it, y, y.reshape(-1, 200)), right), program.__name__
reply(ready=True)
for command in sys.stdin:
    number = int(command)
    program, right = programs[number % 5], rights[number % 5]
    x, y = fresh()
    found, caught = [], False
    try:
        reply(started=True)
        found = program(it, y, y.reshape(-1, 200))
        it.compute(*found)
        time.sleep(60)
    except KeyboardInterrupt:
        caught = True
    bad = {}
    bad["program"] = wrong(found, right) if found else []
    bad["leaves"] = wrong([x, y], [values, y_right])
    x, y = fresh()
    bad["next"] = wrong(program(it, y, y.reshape(-1, 200)), right)
    reply(caught=caught, program=program.__name__, bad={k: v for k, v in bad.items() if v})
"""

OPTIONS = {
    "one device": {"devices": "cpu", "memory": "400MiB"},
    "three devices": {"devices": "cpu*3", "memory": "200MiB"},
    "little memory": {"devices": "cpu", "memory": "24MiB"},
}


@pytest.mark.parametrize("setting", OPTIONS)
def test_ctrl_c_in_large_programs_leaves_every_live_value_right(
    setting: str, tmp_path: Path
) -> None:
    rng = logged_rng("ctrl-c in large programs", setting)
    script = Interrupted(tmp_path, LARGE, OPTIONS=json.dumps(OPTIONS[setting]))
    try:
        assert script.answer()["ready"]
        for turn in range(300 if WHOLE else 6):
            script.say(str(turn))
            script.answer()
            after_s = float(rng.uniform(0.0005, 0.06))
            time.sleep(after_s)
            script.process.send_signal(signal.SIGINT)
            outcome = script.answer()
            assert outcome["caught"], outcome
            assert not outcome["bad"], f"turn {turn}, {after_s:.4f} s in: {outcome}"
    finally:
        script.process.kill()
        script.process.communicate()
