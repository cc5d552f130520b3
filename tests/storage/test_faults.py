"""Every call to the system fails once: the old file stays whole, and nothing is left over."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.reliability import child

from infinitensor import events
from infinitensor.storage import NpyFile, NpyWriter, ZarrFile, ZarrWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

needs_zarr = pytest.mark.skipif(find_spec("zarr") is None, reason="zarr is not installed")
N = 6
OLD, NEW = np.zeros(N), np.ones(N)


def write_npy(path: Path, values: np.ndarray[Any, Any]) -> None:
    with NpyWriter(path, values.shape, values.dtype) as writer:
        writer.put(((0, 2),), values[:2])
        writer.put(((2, N),), values[2:])


def write_zarr(path: Path, values: np.ndarray[Any, Any]) -> None:
    with ZarrWriter(path, values.shape, values.dtype, (2,)) as writer:
        writer.put(((0, 2),), values[:2])
        writer.put(((2, N),), values[2:])


def read(file: NpyFile | ZarrFile) -> list[float]:
    out = np.empty(file.shape)
    file.read(tuple((0, n) for n in file.shape), out)
    values: list[float] = out.tolist()
    return values


FORMATS: dict[str, tuple[Callable[..., None], type[NpyFile | ZarrFile]]] = {
    "npy": (write_npy, NpyFile),
    "zarr": (write_zarr, ZarrFile),
}


def calls_of(work: Callable[[], None]) -> list[str]:
    seen: list[str] = []
    with events.on("file", lambda **what: seen.append(what["call"])):
        work()
    return seen


@pytest.mark.parametrize("code", [28, 5], ids=["ENOSPC", "EIO"])
@pytest.mark.parametrize("name", ["npy", pytest.param("zarr", marks=needs_zarr)])
def test_every_call_fails_once(tmp_path: Path, name: str, code: int) -> None:
    write, kind = FORMATS[name]
    path = tmp_path / f"x.{name}"
    write(path, OLD)
    calls = calls_of(lambda: write(path, OLD))
    assert {"open", "write", "sync", "rename"} <= set(calls)
    for n_fails in range(len(calls)):
        if calls[n_fails] == "remove":
            continue  # of the old one, after the new one has its name
        write(path, OLD)
        left = iter(range(n_fails, -1, -1))

        def fail(left: Any = left, **what: Any) -> None:
            if next(left, 1) == 0:
                raise OSError(code, os.strerror(code), what["path"])

        with events.on("file", fail), pytest.raises(OSError, match=os.strerror(code)):
            write(path, NEW)
        renamed = "rename" in calls[:n_fails]  # then only the folder's entry is not yet on the disk
        assert read(kind(path)) == (NEW if renamed else OLD).tolist()
        assert os.listdir(tmp_path) == [f"x.{name}"]


def test_file_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"\.x\.npy\..*\.tmp"):
        NpyWriter(tmp_path / "missing" / "x.npy", (2,), np.dtype("f8"))


@needs_zarr
def test_what_a_dead_writer_left_is_removed_and_a_living_ones_never(tmp_path: Path) -> None:
    script = """
    from infinitensor.storage import NpyWriter, ZarrWriter
    here = os.environ["WHERE"]
    writers = NpyWriter(f"{here}/x.npy", (2,), np.dtype("f8")), \\
        ZarrWriter(f"{here}/x.zarr", (2,), np.dtype("f8"), (2,))
    print("ready", flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
    """
    process = child.start(script, WHERE=str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert len(os.listdir(tmp_path)) == 2
    write_npy(tmp_path / "x.npy", NEW)
    write_zarr(tmp_path / "x.zarr", NEW)
    assert len(os.listdir(tmp_path)) == 4
    process.communicate("\n")
    write_npy(tmp_path / "x.npy", NEW)
    write_zarr(tmp_path / "x.zarr", NEW)
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "x.zarr"]


OVERWRITES = """
from infinitensor.storage import NpyWriter, ZarrWriter
here, n = os.environ["WHERE"], 200_000

def overwrite():
    for k in range(1, 1000):
        values = np.full(n, k)
        for writer in (
            NpyWriter(f"{here}/x.npy", (n,), values.dtype),
            ZarrWriter(f"{here}/x.zarr", (n,), values.dtype, (50_000,)),
        ):
            for lo in range(0, n, 50_000):
                writer.put(((lo, lo + 50_000),), values[lo : lo + 50_000])
            writer.commit()
        reply(pid=os.getpid(), done=k)

while sys.stdin.readline():  # a process for each line, which somebody kills
    pid = os.fork()
    if not pid:
        overwrite()
    os.waitpid(pid, 0)
    reply(killed=pid)
"""


@needs_zarr
def test_kill_while_overwriting_leaves_the_old_or_the_new_whole(tmp_path: Path) -> None:
    process = child.start(OVERWRITES, WHERE=str(tmp_path))
    assert process.stdin is not None
    assert process.stdout is not None
    moments = random.Random(0)
    for _ in range(8):
        print(file=process.stdin, flush=True)
        said = json.loads(process.stdout.readline())
        time.sleep(moments.random() * 0.2)
        os.kill(said["pid"], signal.SIGKILL)
        done = 1
        while "killed" not in said:
            done = said["done"]
            said = json.loads(process.stdout.readline())
        for file in (NpyFile(tmp_path / "x.npy"), ZarrFile(tmp_path / "x.zarr")):
            found = np.empty(200_000, np.int64)
            file.read(((0, 200_000),), found)
            assert len(set(found.tolist())) == 1
            assert found[0] in (done, done + 1)
    process.communicate()
    write_npy(tmp_path / "x.npy", NEW)
    write_zarr(tmp_path / "x.zarr", NEW)
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "x.zarr"]  # no orphans


def test_reader_beside_a_writer_sees_whole_files_only(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    write_npy(path, OLD)
    stop = threading.Event()

    def overwrite() -> None:
        k = 0.0
        while not stop.is_set():
            k += 1
            write_npy(path, np.full(N, k))

    thread = threading.Thread(target=overwrite)
    thread.start()
    try:
        for _ in range(200):
            assert len(set(read(NpyFile(path)))) == 1
    finally:
        stop.set()
        thread.join()


def test_hooks_get_what_and_where(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    with events.on("file", lambda **what: seen.append(what)):
        write_npy(tmp_path / "x.npy", NEW)
        read(NpyFile(tmp_path / "x.npy"))
    assert {"call", "path", "offset", "n_bytes"} == set(seen[0])
    writes = [(what["offset"], what["n_bytes"]) for what in seen if what["call"] == "write"]
    assert writes == [(0, 128), (128, 16), (144, 32)]
    assert seen[-1] == {
        "call": "read",
        "path": str(tmp_path / "x.npy"),
        "offset": 128,
        "n_bytes": 48,
    }
    json.dumps(seen)
