"""The bar of a run that takes long, seen through a terminal of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest
from tests.reliability.child import environment

SCRIPT = """
import sys, time
{before}
import numpy as np
import infinitensor as it
it.config.small_elements, it.config.tile_elements, it.config.inline_elements = 0, 1024, 0
it.config.workers = 2
with it.init("cpu", memory=104_576, disk="64MiB", progress=True):
    x = it.asarray(np.random.default_rng(0).normal(size=(64, 64)))
    y = it.tanh(x @ x.T)
    w = it.exp(y @ x / 64 - y)
    with it.events.on("task_start", lambda **what: time.sleep(0.006)):
        it.compute(w @ y, w - y)
print("done", "rich" in sys.modules)
"""


def shown(before: str = "") -> tuple[str, str]:
    """What a program writes to its terminal, and to its output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(SCRIPT.format(before=before))],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment(TERM="xterm", COLUMNS="160"),
        text=True,
    )
    os.close(theirs)
    written = b""
    with suppress(OSError):  # the end of a terminal
        while piece := os.read(ours, 65536):
            written += piece
    os.close(ours)
    out = process.communicate(timeout=60)[0]
    assert process.returncode == 0, written.decode()
    return written.decode(), out


@pytest.mark.parametrize("name", ["rich", "plain"])
def test_a_long_run_shows_tasks_lanes_and_memory_and_takes_the_bar_away(name: str) -> None:
    if name == "rich":
        pytest.importorskip("rich")
    written, out = shown("" if name == "rich" else 'sys.modules["rich"] = None')
    assert "done" in out
    assert " tasks" in written
    assert " s left" in written
    assert "matmul" in written or "move" in written
    assert "evicted" in written
    assert "/s" in written
    assert "memory" in written
    assert "disk" in written
    assert written.rstrip(" ").endswith(("\r", "K", "\n", "h"))


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT.format(before="")],
        capture_output=True,
        env=environment(),
        text=True,
        timeout=60,
        check=True,
    )
    assert process.stderr == ""
    assert "done False" in process.stdout
