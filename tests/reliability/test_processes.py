"""Bar L10: fork, spawn and exit are safe or refused clearly; a closed session says so."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

import infinitensor as it

from . import child
from .sampling import time_limit

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [time_limit(120), pytest.mark.filterwarnings("error")]

FORK = """
import warnings
warnings.filterwarnings("ignore", "(?s).*fork", DeprecationWarning)  # Python >= 3.12 with threads
it.config.small_elements = 0
it.config.tile_elements = 1000

def in_child(work, limit_s=30):
    # what the forked child says through a pipe, or that it hangs
    import faulthandler, select
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        faulthandler.dump_traceback_later(limit_s - 2, exit=True)
        try:
            said = f"value {work()}"
        except it.errors.SessionClosedError as error:
            said = f"SessionClosedError {error}"
        except BaseException as error:
            said = f"{type(error).__name__} {error}"
        os.write(writable, said.encode())
        os._exit(0)
    os.close(writable)
    ready, _, _ = select.select([readable], [], [], limit_s)
    said = os.read(readable, 65536).decode() if ready else "hangs"
    if not ready:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return said or "died"
"""


def assert_right_or_refused(said: str, value: float) -> None:
    assert said == f"value {value}" or said.startswith("SessionClosedError"), said
    if said.startswith("SessionClosedError"):
        assert "process" in said or "fork" in said, f"not clear: {said}"


def test_a_forked_child_that_reads_the_parents_tensors_is_right_or_refused_clearly() -> None:
    outcome = child.run(
        FORK
        + """
it.init(devices="cpu*3")
x = it.asarray(np.arange(100_000.0))
done = it.sum(x + 1)
it.compute(done)
lazy = it.sum(x * 2)
reply(stored=in_child(lambda: float(done)), lazy=in_child(lambda: float(lazy)),
      after=in_child(lambda: float((x + 0).max())))
reply(parent_lazy=float(lazy), parent_new=float(it.sum(x * 3)))
"""
    )
    values = np.arange(100_000.0)
    assert_right_or_refused(outcome["stored"], float((values + 1).sum()))
    assert_right_or_refused(outcome["lazy"], float((values * 2).sum()))
    assert_right_or_refused(outcome["after"], float(values.max()))
    assert outcome["parent_lazy"] == float((values * 2).sum())
    assert outcome["parent_new"] == float((values * 3).sum())


@pytest.mark.parametrize("renew", ["it.init(devices='cpu*2')", "it.shutdown()", "None"])
def test_a_forked_child_can_start_over_with_its_own_tensors(renew: str) -> None:
    outcome = child.run(
        FORK
        + f"""
it.init(devices="cpu*3")
float(it.sum(it.asarray(np.arange(100_000.0))))
def fresh():
    {renew}
    return float(it.sum(it.asarray(np.arange(10_000.0)) * 2))
reply(fresh=in_child(fresh), parent=float(it.sum(it.asarray(np.arange(100.0)))))
"""
    )
    assert outcome["fresh"] == f"value {float(np.arange(10_000.0).sum() * 2)}" or (
        renew == "None" and outcome["fresh"].startswith("SessionClosedError")
    ), outcome["fresh"]
    assert outcome["parent"] == 4950.0


def test_a_fork_in_a_thread_while_another_thread_computes_does_not_hang() -> None:
    outcome = child.run(
        FORK
        + """
it.init(devices="cpu*3")
x = it.asarray(np.arange(120_000.0))
stop = threading.Event()
totals = set()
def keep_computing():
    while not stop.is_set():
        totals.add(float(it.sum(x * 2)))
busy = threading.Thread(target=keep_computing)
busy.start()
said = []
def fork_often():
    for i in range(12):
        said.append(in_child(lambda: float(it.sum(x + 1)), limit_s=12))
        if said[-1] in ("hangs", "died"):
            return
forker = threading.Thread(target=fork_often)
forker.start()
forker.join()
stop.set()
busy.join()
reply(said=said, totals=sorted(totals), parent=float(it.sum(x + 1)))
""",
        limit_s=110,
    )
    values = np.arange(120_000.0)
    for said in outcome["said"]:
        assert_right_or_refused(said, float((values + 1).sum()))
    assert outcome["totals"] == [float((values * 2).sum())]
    assert outcome["parent"] == float((values + 1).sum())


def test_a_child_that_exits_runs_its_exit_handlers_without_harm_to_the_parent() -> None:
    outcome = child.run(
        """
        import warnings
        warnings.filterwarnings("ignore", "(?s).*fork", DeprecationWarning)
        it.config.small_elements = 0
        it.config.tile_elements = 1000
        it.init(devices="cpu*3")
        x = it.asarray(np.arange(100_000.0))
        lazy = it.sum(x * 2)
        it.compute(x + 1)
        codes = []
        for how in (0, 3):
            pid = os.fork()
            if pid == 0:
                sys.stdout = open(os.devnull, "w")
                sys.exit(how)  # runs atexit handlers and finalisers
            for _ in range(300):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    break
                time.sleep(0.1)
            else:
                os.kill(pid, signal.SIGKILL)
                status = -1
            codes.append(status if status == -1 else os.waitstatus_to_exitcode(status))
        reply(codes=codes, lazy=float(lazy), again=float(it.sum(x + 1)))
        """,
        limit_s=100,
    )
    assert outcome["codes"] == [0, 3]
    assert outcome["lazy"] == float((np.arange(100_000.0) * 2).sum())


def test_import_alone_starts_no_thread_and_no_session_and_a_fork_before_use_is_fresh() -> None:
    outcome = child.run(
        FORK
        + """
reply(threads=threading.active_count())
said = in_child(lambda: float(it.sum(it.asarray(np.arange(5000.0)) + 1)))
reply(said=said, parent=float(it.sum(it.asarray(np.arange(5000.0)) + 1)))
"""
    )
    assert outcome["threads"] == 1
    assert outcome["said"] == f"value {float((np.arange(5000.0) + 1).sum())}"


SPAWN = """
import multiprocessing, os, sys
import numpy as np

def total(n):
    import infinitensor as it
    it.config.small_elements = 0
    with it.init(devices="cpu*2"):
        return float(it.sum(it.asarray(np.arange(float(n))) * 2))

def total_of(tensor):
    return float(tensor.sum())

if __name__ == "__main__":
    import infinitensor as it
    it.config.small_elements = 0
    x = it.asarray(np.arange(100_000.0)) + 1
    it.compute(x)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(pool.map(total, [1000, 100_000]))
        print(pool.map(total_of, [x, x * 2]))
    print(float(x.sum()))
"""


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_spawned_processes_start_fresh_and_receive_tensors_by_value(
    tmp_path: Path, way: str
) -> None:
    script = tmp_path / "spawning.py"
    script.write_text(SPAWN)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), way],
        capture_output=True,
        text=True,
        timeout=100,
        env=child.environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ones = float((np.arange(100_000.0) + 1).sum())
    assert done.stdout.splitlines() == [
        str([float(np.arange(n).sum() * 2) for n in (1000.0, 100_000.0)]),
        str([ones, ones * 2]),
        str(ones),
    ]


def test_the_process_ends_by_itself_with_a_session_still_open() -> None:
    outcome = child.run(
        """
        it.config.small_elements = 0
        session = it.init(devices="cpu*3")
        x = it.asarray(np.arange(100_000.0))
        reply(total=float((x * 2).sum()))
        """,
        limit_s=60,
    )
    assert outcome["total"] == float(np.arange(100_000.0).sum() * 2)


def test_a_tensor_of_a_closed_session_says_so_when_it_must_be_evaluated() -> None:
    it.config.small_elements = 0
    with it.init(devices="cpu*2"):
        x = it.asarray(np.arange(1000.0))
        lazy = it.sum(x * 2)
    with pytest.raises(it.SessionClosedError, match=r"(?i)session|shut"):
        lazy.numpy()
    assert float(it.sum(it.asarray(np.arange(1000.0)))) == 499500.0


def test_tensors_of_two_sessions_are_not_mixed_silently() -> None:
    it.config.small_elements = 0
    with it.init(devices="cpu"):
        x = it.asarray(np.arange(1000.0)) + 1
    with it.init(devices="cpu*2"):
        y = it.asarray(np.arange(1000.0)) + 1
        with pytest.raises(it.SessionClosedError, match=r"(?i)session|shut"):
            it.compute(x + y)
        assert float(it.sum(y)) == 500500.0


def test_sessions_can_be_opened_and_closed_many_times() -> None:
    it.config.small_elements = 0
    before = threading.active_count()
    for turn in range(20):
        with it.init(devices="cpu*3", memory="64MiB"):
            assert float(it.sum(it.asarray(np.arange(1000.0)) + turn)) == 499500.0 + 1000 * turn
    assert threading.active_count() <= before
