"""Bars L4, L6, L7, L8 and L9 while tiles are spilled, in programs watched from outside."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.control_group import control_group

from . import child
from .sampling import WHOLE, logged_rng, time_limit
from .test_interrupt import SCRIPT, Interrupted

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from .conftest import HoldsBar

pytestmark = [time_limit(120), pytest.mark.filterwarnings("error")]

MIB = 1 << 20


def test_data_of_eight_budgets_stays_within_the_budget(tmp_path: Path, holds_bar: HoldsBar) -> None:
    budget = (512 if WHOLE else 64) * MIB
    with control_group() as group:
        if group is not None:
            group.limit(budget + 300 * MIB)  # the kernel would end it
        found = child.run(
            f"""
            if {group is not None}:
                open({str(group and group.path / "cgroup.procs")!r}, "w").write(str(os.getpid()))
            it.init("cpu", memory={budget}, disk="16GiB", spill_dir={str(tmp_path)!r})
            it.config.tile_elements = {budget // 8 // 64}
            n = {budget // 8 // 16}
            def values(k):
                return np.random.default_rng(k).random((n // 1024, 1024))
            kept = [it.asarray(values(k)) for k in range(128)]
            total = 0.0
            for k in range(127):
                total += float((kept[k] * kept[k + 1]).sum())
            right = all((kept[k].numpy() == values(k)).all() for k in (0, 64, 127))
            wanted = sum(float((values(k) * values(k + 1)).sum()) for k in range(127))
            stats = it.stats()
            reply(peak=peak_rss_bytes(), right=right, error=abs(total - wanted) / wanted,
                  evicted=stats["bytes_evicted"], loaded=stats["bytes_loaded"],
                  planned=max(stats["peak_bytes"].values()))
            """,
            limit_s=100 * (15 if WHOLE else 1),
        )
        peak = 0 if group is None else group.peak_bytes()
    assert found["right"]
    assert found["error"] < 1e-12
    assert found["evicted"] >= 6 * budget
    assert found["planned"] <= budget
    holds_bar("L4 memory beyond the budget", (found["peak"] - budget) / MIB, 300, "MB", 1.0)
    print(f"L4 in a control group: {group is not None}, with pages of files {peak / MIB:.0f} MB")


def test_a_soak_with_spilling_leaves_memory_threads_and_files_as_they_were(
    tmp_path: Path, holds_bar: HoldsBar
) -> None:
    found = child.run(
        f"""
        import gc
        it.config.small_elements = 0
        it.config.tile_elements = 1024
        it.config.workers = 2
        session = it.init("cpu", memory=104_576, disk="64MiB", spill_dir={str(tmp_path)!r})
        values = np.random.default_rng(0).normal(size=(64, 64))
        def once():
            x = it.asarray(values)
            y = it.tanh(x @ x.T)
            z = y @ x
            w = it.exp(z / 64 - y)
            return (w @ y).numpy().tobytes() + (w - y).numpy().tobytes()
        def rss():
            return int(open("/proc/self/statm").read().split()[1]) * 4096
        def state():
            gc.collect()
            wait_for_compilers()
            return rss(), len(threads()), len(os.listdir("/proc/self/fd"))
        wanted = once()
        for _ in range(20):
            once()
        before, n, right = state(), 0, True
        end = time.monotonic() + {600 if WHOLE else 3}
        while time.monotonic() < end:
            right = right and once() == wanted
            n += 1
        for _ in range({10_000 if WHOLE else 500}):
            float((it.asarray(values[:8, :8]) + 1).sum())
        after = state()
        session.drain()
        reply(n=n, right=right, grown=after[0] - before[0], threads=after[1] - before[1],
              fds=after[2] - before[2], spilled=session.engine.tiers.spilled_bytes,
              evicted=it.stats()["bytes_evicted"])
        it.shutdown()
        reply(left=os.listdir({str(tmp_path)!r}))
        """,
        limit_s=1500 if WHOLE else 100,
    )
    print(found)
    assert found["right"]
    assert found["evicted"] > 0
    assert found["spilled"] == 0
    assert found["threads"] <= 0
    assert found["fds"] <= 0
    assert found["left"] == []
    holds_bar("L6 growth of memory", found["grown"] / MIB, 50, "MB", 1.0)


SPILLING = """
it.config.small_elements = 0
it.config.tile_elements = 4096
session = it.init("cpu", memory=400_000, disk="64MiB", spill_dir=FOLDER)
values = np.random.default_rng(SEED).random((128, 128))
kept = [it.asarray(values * k) for k in range(8)]
mine = os.listdir(FOLDER)
reply(ready=True, files=sum(len(files) for _, _, files in os.walk(FOLDER)))
for command in sys.stdin:
    if command.strip() == "quit":
        break
    right = all((tensor.numpy() == values * k).all() for k, tensor in enumerate(kept))
    total = float(sum((tensor @ tensor).sum() for tensor in kept))
    wanted = float(sum(((values * k) @ (values * k)).sum() for k in range(8)))
    reply(right=right and abs(total - wanted) <= 1e-9 * wanted,
          peak=max(it.stats()["peak_bytes"].values()))
"""


NOBODY = 65534
AS_NOBODY = f"""
with it.init("cpu", memory=400_000, disk="64MiB"):  # what is imported late, as who may read it
    warm = [it.asarray(np.ones((128, 128)) * k) for k in range(8)]
    float(sum((tensor @ tensor).sum() for tensor in warm))
    del warm
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
"""
"""Another user from here on: the interpreter itself may be where only its owner can start it."""


def start(folder: Path, seed: int = 0, before: str = "") -> subprocess.Popen[str]:
    """A program that has spilled and waits; it says so."""
    process = child.start(f"FOLDER = {str(folder)!r}\nSEED = {seed}\n{before}\n{SPILLING}")
    assert answer(process)["ready"]
    return process


def answer(process: subprocess.Popen[str], command: str = "") -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    if command:
        process.stdin.write(command + "\n")
        process.stdin.flush()
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    found: dict[str, Any] = json.loads(line)
    return found


@contextmanager
def ended(*processes: subprocess.Popen[str]) -> Iterator[None]:
    """What is started here is gone in the end."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_two_programs_at_once_are_both_right_and_keep_to_their_own_budgets(tmp_path: Path) -> None:
    first, second = start(tmp_path, 1), start(tmp_path, 2)
    with ended(first, second):
        assert len(list(tmp_path.iterdir())) == 2
        for process in (first, second):
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in (first, second):
            found = answer(process)
            assert found["right"]
            assert found["peak"] <= 400_000
        first.communicate("quit\n", timeout=30)
        assert len(list(tmp_path.iterdir())) == 1
        assert answer(second, "go")["right"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_two_users_share_a_folder_and_neither_touches_what_is_the_others() -> None:
    with tempfile.TemporaryDirectory() as shared:  # pytest's own folders are for one user
        os.chmod(shared, 0o1777)
        folder = Path(shared)
        mine, theirs = start(folder, 1), start(folder, 2, AS_NOBODY)
        with ended(mine, theirs):
            owners = {path.stat().st_uid: path for path in folder.iterdir()}
            assert set(owners) == {os.geteuid(), NOBODY}
            assert all(path.stat().st_mode & 0o777 == 0o700 for path in owners.values())
            for process in (mine, theirs):
                found = answer(process, "go")
                assert found["right"]
                assert found["peak"] <= 400_000
            theirs.send_signal(signal.SIGKILL)
            theirs.wait(30)
            third = start(folder, 3)
            with ended(third):
                assert owners[NOBODY].exists(), "what another user left is his to remove"
                assert answer(third, "go")["right"]
            fourth = start(folder, 4, AS_NOBODY)
            with ended(fourth):
                assert not owners[NOBODY].exists()
                assert answer(fourth, "go")["right"]
            assert answer(mine, "go")["right"]


def test_what_a_killed_program_left_is_removed_and_a_living_ones_files_never(
    tmp_path: Path,
) -> None:
    dead, alive = start(tmp_path, 1), start(tmp_path, 2)
    with ended(dead, alive):
        before = set(tmp_path.iterdir())
        assert len(before) == 2
        dead.send_signal(signal.SIGKILL)
        dead.wait(30)
        assert set(tmp_path.iterdir()) == before
        third = start(tmp_path, 3)
        with ended(third):
            now = set(tmp_path.iterdir())
            assert len(now) == 2
            assert len(now & before) == 1
            assert answer(alive, "go")["right"]
            assert answer(third, "go")["right"]


def test_ctrl_c_while_tiles_are_spilled_leaves_nothing_and_the_next_compute_is_right(
    tmp_path: Path, holds_bar: HoldsBar
) -> None:
    script = SCRIPT.replace('devices="cpu*3"', 'devices="cpu", memory=6_000_000, disk="256MiB"')
    assert script != SCRIPT

    running = Interrupted(tmp_path, script)
    rng = logged_rng("ctrl-c, spilling")
    try:
        first = running.answer()
        assert first["repeatable"]
        slowest = 0.0
        for turn in range(20 if WHOLE else 3):
            after_s = float(rng.uniform(0.01, first["duration_s"]))
            outcome = running.interrupt(after_s)
            say = f"turn {turn}, {after_s:.4f} s in: {outcome}"
            assert outcome["right"], say
            assert outcome["resumed"] in (True, None), say
            assert outcome["threads"] <= 0, say
            assert outcome["fds"] <= 0, say
            slowest = max(slowest, outcome["noticed_s"])
        holds_bar("L7 Ctrl-C while spilling noticed, slowest", slowest, 1.0)
        running.say("quit")
        last = running.answer()
        running.process.wait(30)
        assert last["threads_left"] == []
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
    finally:
        running.process.kill()
        running.process.communicate()
