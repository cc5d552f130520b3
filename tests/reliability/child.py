"""A script in a process of its own: what it printed, how it ended, what it used at most."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"

PRELUDE = """
import json, os, signal, sys, threading, time
import numpy as np
import infinitensor as it

def peak_rss_bytes():
    # not getrusage: after exec it still holds the peak of the process that forked us
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024

def threads():
    # those that wait for compilers stay, as many as there are cores, whenever the first is asked
    return [t.name for t in threading.enumerate() if not t.name.startswith("compile")]

def wait_for_compilers():
    # they have pipes, and may be asked for something at any time
    while it.stats()["kernels_compiling"]:
        time.sleep(0.01)

def reply(**what):
    print(json.dumps(what), flush=True)
"""


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without our settings, with the source on the path."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("INFINITENSOR_")}
    path = os.pathsep.join(filter(None, [str(SOURCE), kept.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1", **changes}


def fresh_source(folder: Path) -> Path:
    """A copy of the source in which nothing is built."""
    copy = folder / "src"
    shutil.copytree(
        SOURCE, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    )
    return copy


def start(script: str, **settings: str) -> subprocess.Popen[str]:
    """Start the prelude and `script`; it is driven over its pipes."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**settings),
    )


def run(script: str, *, limit_s: float = 60.0, **settings: str) -> dict[str, Any]:
    """Run `script` to its end and merge what it replied; a hang or a bad end is a failure."""
    process = start(script, **settings)
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"hung for {limit_s} s; it wrote:\n{out}\n{err}") from None
    assert process.returncode == 0, f"ended with {process.returncode}:\n{out}\n{err}"
    merged: dict[str, Any] = {}
    for line in out.splitlines():
        if line.startswith("{"):
            merged |= json.loads(line)
    return merged
