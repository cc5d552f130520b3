"""Spilled tiles: their bits or an error, room that is kept to, folders that go with their owner."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.reliability import child
from tests.storage.boxes import arrays, boxes, memory, slices, whole

from infinitensor import events
from infinitensor.errors import CorruptTileError, SessionClosedError, SpillSpaceError
from infinitensor.storage import Part, Spill, is_memory
from infinitensor.storage.file_io import byte_runs
from infinitensor.storage.spilled import spill_folder, spilled_tile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["direct", "through the page cache"])
def spill(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Spill]:
    if request.param == "direct":
        monkeypatch.setattr(spilled_tile, "DIRECT_BYTES", 1)
    else:
        monkeypatch.setattr(spilled_tile, "DIRECT_BYTES", 1 << 60)
    spill = Spill([tmp_path])
    yield spill
    spill.close()
    assert os.listdir(tmp_path) == []


def files_of(path: Path) -> list[str]:
    """The tiles in the folders of processes."""
    return [name for _, _, names in os.walk(path) for name in names if name != spill_folder.OWNER]


def read(spilled: Any) -> np.ndarray[Any, Any]:
    out = np.empty(spilled.shape, spilled.dtype)
    Part(spilled).read_into(out)
    return out


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
@given(st.data())
def test_box_of_a_tile_is_the_slice_of_its_values(spill: Spill, data: st.DataObject) -> None:
    values = data.draw(arrays())
    spilled = spill.write(values)
    for _ in range(2):
        box = data.draw(boxes(values.shape))
        out = data.draw(memory(values[slices(box)].shape, values.dtype))
        spilled.read(box, out)
        assert np.array_equal(out, values[slices(box)], equal_nan=values.dtype.kind in "fc")


def test_blocks_are_cut_and_checked_alike_wherever_memory_begins(spill: Spill) -> None:
    values = np.random.default_rng(0).random(3 * spilled_tile.CHECKSUM_BLOCK_BYTES // 8 + 100)
    spilled = spill.write(values)
    there = byte_runs.aligned_bytes(values.nbytes + 64)
    for start in (0, 8, 64):
        out = there[start : start + values.nbytes].view(np.float64)
        spilled.read(whole(values), out)
        np.testing.assert_array_equal(out, values)
        other = spill.write(out)
        np.testing.assert_array_equal(read(other), values)
    assert Part(spilled)[10:20].box == ((10, 20),)
    np.testing.assert_array_equal(read(Part(spilled)[40_000:90_000].stored), values)
    out = np.empty(50_000)
    Part(spilled)[40_000:90_000].read_into(out)
    np.testing.assert_array_equal(out, values[40_000:90_000])


def test_nothing_is_made_before_the_first_write(tmp_path: Path) -> None:
    spill = Spill([tmp_path / "later"])
    assert os.listdir(tmp_path) == []
    spill.write(np.arange(3))
    assert os.listdir(tmp_path) == ["later"]
    spill.close()
    assert files_of(tmp_path) == []


def test_tile_that_nobody_holds_gives_its_file_back(tmp_path: Path, spill: Spill) -> None:
    spilled = spill.write(np.arange(1000.0))
    part = Part(spilled)[3:5]
    del spilled
    gc.collect()
    assert spill.used_bytes == 8000
    np.testing.assert_array_equal(read(part.stored)[3:5], [3.0, 4.0])
    del part
    assert spill.used_bytes == 0
    spill.sweep()
    assert files_of(tmp_path) == []
    assert spill.written_bytes == 8000
    assert spill.read_bytes == 8000


def test_no_function_of_pythons_runs_when_a_tile_goes(spill: Spill) -> None:
    """There Python would drop what a signal handler raises, and leave the rest undone."""
    tiles = [spill.write(np.zeros(100)) for _ in range(3)]
    called: list[str] = []
    before = sys.gettrace()
    gc.disable()  # what else is gone is not asked for here
    sys.settrace(lambda frame, event, given: called.append(frame.f_code.co_name))
    tiles.clear()
    sys.settrace(before)
    gc.enable()
    assert called == []
    assert spill.used_bytes == 0


def test_files_that_wait_go_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from infinitensor.storage.spilled import spill as module

    monkeypatch.setattr(module, "QUIET_S", 0.05)
    spill = Spill([tmp_path])
    tiles = [spill.write(np.zeros(1 << 16)) for _ in range(4)]
    del tiles
    until = time.monotonic() + 30
    while files_of(tmp_path) and time.monotonic() < until:
        time.sleep(0.01)
    assert files_of(tmp_path) == []
    spill.close()


def test_files_never_take_more_than_tiles_once_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilled_tile, "DIRECT_BYTES", 1)
    spill = Spill([tmp_path])
    tiles = [spill.write(np.zeros(4096, np.uint8)) for _ in range(8)]
    del tiles[2:]
    tiles += [spill.write(np.zeros(8192, np.uint8)) for _ in range(3)]
    used = [os.path.join(folder, name) for folder, _, names in os.walk(tmp_path) for name in names]
    on_disk = sum(os.path.getsize(path) for path in used if not path.endswith(spill_folder.OWNER))
    assert on_disk <= 8 * 4096
    assert len({spilled.key for spilled in tiles}) == 5
    spill.close()


def test_threads_write_and_read_at_once(spill: Spill) -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        rng = np.random.default_rng(k)
        held: list[tuple[Any, np.ndarray[Any, Any]]] = []
        for _ in range(40):
            values = rng.random(int(rng.integers(1, 50_000)))
            held.append((spill.write(values), values))
            spilled, values = held[int(rng.integers(len(held)))]
            if not np.array_equal(read(spilled), values):
                wrong.append(k)
            if len(held) > 4:
                held.pop(0)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert spill.used_bytes == 0


# --- F11: what changed on the disk --------------------------------------------------------------


def test_every_flipped_bit_is_noticed(spill: Spill) -> None:
    values = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8)
    spilled = spill.write(values)
    noticed = 0
    offsets = range(0, values.nbytes, 997)
    for i, offset in enumerate(offsets):
        flip(spilled.path, offset, 1 << i % 8)
        with pytest.raises(CorruptTileError, match="bits are not those that were written"):
            read(spilled)
        with pytest.raises(CorruptTileError, match="cannot be read at byte"):  # a part of it too
            spilled.read(((offset, offset + 1),), np.empty(1, np.uint8))
        flip(spilled.path, offset, 1 << i % 8)
        noticed += 1
    assert noticed == len(offsets) == 301
    np.testing.assert_array_equal(read(spilled), values)


def flip(path: str, offset: int, bits: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ bits]))


@pytest.mark.parametrize("n_bytes", [0, 1, 4095, 4096, 262_143, 262_144, 299_999])
def test_every_truncation_is_noticed(spill: Spill, n_bytes: int) -> None:
    spilled = spill.write(np.random.default_rng(0).integers(1, 256, 300_000, dtype=np.uint8))
    os.truncate(spilled.path, n_bytes)
    with pytest.raises(CorruptTileError, match=f"{spilled.path} cannot be read at byte"):
        read(spilled)


def test_missing_or_swapped_file_is_noticed(tmp_path: Path, spill: Spill) -> None:
    one, two = spill.write(np.arange(1000)), spill.write(np.arange(1000) + 1)
    third = tmp_path / "third"
    os.rename(one.path, third)
    with pytest.raises(CorruptTileError, match="No such file"):
        read(one)
    os.rename(two.path, one.path)
    os.rename(third, two.path)
    for spilled in (one, two):
        with pytest.raises(CorruptTileError, match="CRC32C"):
            read(spilled)


def test_error_of_the_disk_while_reading_names_the_tile(spill: Spill) -> None:
    spilled = spill.write(np.arange(1000))

    def fail(**what: Any) -> None:
        if what["call"] == "read":
            raise OSError(5, "Input/output error")

    with events.on("file", fail), pytest.raises(CorruptTileError, match="Input/output error"):
        read(spilled)
    np.testing.assert_array_equal(read(spilled), np.arange(1000))


# --- F10: room ----------------------------------------------------------------------------------


def test_limit_is_kept_and_room_that_is_free_again_is_used(tmp_path: Path) -> None:
    spill = Spill([tmp_path], limit_bytes=1000)
    spilled = spill.write(np.zeros(100))
    with pytest.raises(SpillSpaceError, match="no room to spill a tile of 808 B") as caught:
        spill.write(np.zeros(101))
    assert (caught.value.path, caught.value.needed, caught.value.free) == (str(tmp_path), 808, 200)
    assert spill.used_bytes == 800
    del spilled
    assert spill.write(np.zeros(101)).n_bytes == 808
    assert spill.used_bytes == 0
    spill.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB."""
    where = tmp_path / "small"
    where.mkdir()
    call = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(where)]
    if os.geteuid() or subprocess.run(call, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield where
    subprocess.run(["umount", str(where)], check=True)


def test_full_disk_is_an_error_in_time_and_works_again(small_disk: Path) -> None:
    spill = Spill([small_disk])
    assert is_memory(small_disk)
    tiles = [(k, spill.write(np.full(1 << 20, k))) for k in range(7)]
    began = time.monotonic()
    with pytest.raises(SpillSpaceError, match="No space left on device") as caught:
        spill.write(np.zeros(1 << 20))
    assert time.monotonic() - began < 5 * 5  # the bar is 5 s; machines are shared
    assert caught.value.needed == 8 << 20
    assert caught.value.free < 8 << 20
    assert spill.used_bytes == 7 * (8 << 20)
    for k, spilled in tiles:
        assert (read(spilled) == k).all()
    del tiles[0], spilled
    assert spill.write(np.zeros(1 << 20)).n_bytes == 8 << 20
    tiles.clear()
    assert spill.used_bytes == 0
    spill.close()
    assert os.listdir(small_disk) == []


def test_full_disk_sends_tiles_to_the_next_folder(small_disk: Path, tmp_path: Path) -> None:
    spill = Spill([small_disk, tmp_path / "next"])
    tiles = [spill.write(np.full(1 << 20, k)) for k in range(10)]
    places = [os.path.dirname(os.path.dirname(spilled.path)) for spilled in tiles]
    assert places == [str(small_disk)] * 7 + [str(tmp_path / "next")] * 3
    for k, spilled in enumerate(tiles):
        assert (read(spilled) == k).all()
    del tiles, spilled
    spill.close()


@pytest.mark.parametrize("code", [28, 122, 5, 30], ids=["ENOSPC", "EDQUOT", "EIO", "EROFS"])
@pytest.mark.parametrize("call", ["open", "write"])
def test_folder_that_fails_is_passed_over_and_leaves_nothing(
    tmp_path: Path, call: str, code: int
) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    spill = Spill([bad, good])

    def fail(**what: Any) -> None:
        if what["call"] == call and str(bad) in what["path"]:
            raise OSError(code, os.strerror(code))

    with events.on("file", fail):
        spilled = spill.write(np.arange(300_000))
    assert spilled.path.startswith(str(good))
    np.testing.assert_array_equal(read(spilled), np.arange(300_000))
    assert files_of(bad) == []
    assert spill.write(np.arange(3)).path.startswith(str(bad))  # and is tried again

    def fail_always(**what: Any) -> None:
        raise OSError(code, os.strerror(code))

    with events.on("file", fail_always), pytest.raises(SpillSpaceError, match=os.strerror(code)):
        spill.write(np.arange(3))
    assert spill.used_bytes == spilled.n_bytes
    spill.close()


def test_files_that_wait_make_room_before_a_disk_is_full(tmp_path: Path) -> None:
    spill = Spill([tmp_path])
    tiles = [spill.write(np.zeros(1 << 16)) for _ in range(6)]
    del tiles[:4]
    assert len(files_of(tmp_path)) == 6
    fails = iter([True, False, False, False])

    def full_once(**what: Any) -> None:
        if what["call"] == "write" and next(fails):
            raise OSError(28, "No space left on device")

    with events.on("file", full_once):
        spilled = spill.write(np.zeros(1 << 17))
    assert len(files_of(tmp_path)) == 3
    assert (read(spilled) == 0).all()
    spill.close()


def test_folder_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    spill = Spill([tmp_path])
    spilled = spill.write(np.arange(3))
    for name in os.listdir(os.path.dirname(spilled.path)):
        os.unlink(os.path.join(os.path.dirname(spilled.path), name))
    os.rmdir(os.path.dirname(spilled.path))
    assert read(spill.write(np.arange(4))).tolist() == [0, 1, 2, 3]
    with pytest.raises(CorruptTileError, match="No such file"):
        read(spilled)
    spill.close()


def test_failed_write_keeps_no_values_alive(tmp_path: Path) -> None:
    spill = Spill([tmp_path], limit_bytes=1 << 30)
    values = np.zeros(1000)
    gone = weakref.ref(values)

    def fail(**what: Any) -> None:
        raise OSError(28, "No space left on device")

    gc.disable()
    try:
        with events.on("file", fail), contextlib.suppress(SpillSpaceError):
            spill.write(values)
        del values
        assert gone() is None
    finally:
        gc.enable()


# --- S5: nobody else ----------------------------------------------------------------------------


def test_folder_is_private_and_its_name_is_random(tmp_path: Path) -> None:
    spill, other = Spill([tmp_path]), Spill([tmp_path])
    one, two = spill.write(np.arange(3)), other.write(np.arange(3))
    assert os.path.dirname(one.path) != os.path.dirname(two.path)
    assert stat.S_IMODE(os.stat(os.path.dirname(one.path)).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(one.path).st_mode) == 0o600
    spill.close()
    assert read(two).tolist() == [0, 1, 2]
    other.close()


def test_planted_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "spill").mkdir()
    monkeypatch.setattr("secrets.token_hex", lambda n: "0")
    os.symlink(tmp_path / "elsewhere", tmp_path / "spill" / f"{spill_folder.PREFIX}0")
    spill = Spill([tmp_path / "spill"])
    with pytest.raises(SpillSpaceError, match="File exists"):
        spill.write(np.arange(3))
    assert os.listdir(tmp_path / "elsewhere") == []
    os.unlink(tmp_path / "spill" / f"{spill_folder.PREFIX}0")
    spilled = spill.write(np.arange(3))
    name = f"{int(os.path.basename(spilled.path), 16) + 1:x}"
    os.symlink(tmp_path / "elsewhere" / "x", os.path.join(os.path.dirname(spilled.path), name))
    with pytest.raises(SpillSpaceError, match="File exists"):
        spill.write(np.arange(3))
    os.rename(spilled.path, tmp_path / "elsewhere" / "tile")
    os.symlink(tmp_path / "elsewhere" / "tile", spilled.path)
    with pytest.raises(CorruptTileError, match="symbolic links"):
        read(spilled)
    spill.close()
    assert os.listdir(tmp_path / "elsewhere") == ["tile"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_user_cannot_read_a_tile(tmp_path: Path) -> None:
    spill = Spill([tmp_path])
    spilled = spill.write(np.arange(3))
    call = ["cat", spilled.path]
    found = subprocess.run(call, capture_output=True, check=False, user=65534, cwd="/")
    assert found.returncode
    assert b"Permission denied" in found.stderr
    spill.close()


# --- L8, L9, L10: other processes ---------------------------------------------------------------

HOLDS = """
from infinitensor.storage import Spill
spill = Spill([sys.argv[1] if len(sys.argv) > 1 else os.environ["WHERE"]])
tiles = [spill.write(np.full(100_000, k)) for k in range(3)]
print("ready", flush=True)
sys.stdin.readline()
out = np.empty(100_000, np.int64)
for k, tile in enumerate(tiles):
    tile.read(((0, 100_000),), out)
    assert (out == k).all()
print("right", flush=True)
"""


def test_stale_folder_is_removed_and_a_living_one_never(tmp_path: Path) -> None:
    dead, alive = (child.start(HOLDS, WHERE=str(tmp_path)) for _ in range(2))
    for process in (dead, alive):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    assert len(os.listdir(tmp_path)) == 2
    dead.send_signal(signal.SIGKILL)
    dead.communicate()
    assert len(os.listdir(tmp_path)) == 2
    spill = Spill([tmp_path])
    assert len(os.listdir(tmp_path)) == 1
    mine = spill.write(np.arange(3))
    out, _ = alive.communicate("\n", timeout=60)  # two programs at once, in one folder: both right
    assert out == "right\n"
    assert read(mine).tolist() == [0, 1, 2]
    assert len(os.listdir(tmp_path)) == 1  # it took its own away
    spill.close()
    assert os.listdir(tmp_path) == []


def test_folder_without_an_owner_is_left_alone_while_it_is_young(tmp_path: Path) -> None:
    young = tmp_path / f"{spill_folder.PREFIX}young"
    young.mkdir()
    Spill([tmp_path])
    assert young.exists()
    os.utime(young, (1, 1))
    Spill([tmp_path])
    assert not young.exists()


def test_only_our_folders_are_removed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "owner").write_text("1 1")
    os.symlink(tmp_path / "target", tmp_path / f"{spill_folder.PREFIX}link")
    Spill([tmp_path])
    assert sorted(os.listdir(tmp_path)) == [f"{spill_folder.PREFIX}link", "other", "target"]
    assert os.listdir(tmp_path / "target") == ["owner"]


def test_process_that_ends_leaves_nothing(tmp_path: Path) -> None:
    process = child.start(HOLDS, WHERE=str(tmp_path))
    out, error = process.communicate("\n", timeout=60)
    assert (out, process.returncode) == ("ready\nright\n", 0), error
    assert os.listdir(tmp_path) == []


FORKS = """
import contextlib
import gc
from infinitensor.errors import SessionClosedError
from infinitensor.storage import Spill
spill = Spill([os.environ["WHERE"]])
tile = spill.write(np.arange(200_000))
small = spill.write(np.arange(2))
pid = os.fork()
if not pid:
    out = np.empty(200_000, np.int64)
    tile.read(((0, 200_000),), out)
    try:
        spill.write(out)
    except SessionClosedError as error:
        text = str(error)
    del tile, small, spill
    gc.collect()
    sys.exit(7 if "another process" in text else 1)  # with all that runs at exit
_, status = os.waitpid(pid, 0)
out = np.empty(200_000, np.int64)
tile.read(((0, 200_000),), out)
small.read(((0, 2),), out[:2])
reply(child=os.waitstatus_to_exitcode(status), right=bool((out == np.arange(200_000)).all()))
"""


def test_forked_child_never_removes_what_is_its_parents(tmp_path: Path) -> None:
    assert child.run(FORKS, WHERE=str(tmp_path)) == {"child": 7, "right": True}
    assert os.listdir(tmp_path) == []


def test_lock_is_not_kept_alive_by_a_forked_child(tmp_path: Path) -> None:
    script = """
    from infinitensor.storage import Spill
    spill = Spill([os.environ["WHERE"]])
    tile = spill.write(np.arange(3))
    if not os.fork():
        print("ready", flush=True)
        sys.stdin.readline()
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    process = child.start(script, WHERE=str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.wait()
    assert len(os.listdir(tmp_path)) == 1
    Spill([tmp_path])
    assert os.listdir(tmp_path) == []
    process.communicate("\n")


def test_closed_spill_takes_no_tile(tmp_path: Path) -> None:
    spill = Spill([tmp_path])
    spilled = spill.write(np.zeros(1 << 16))
    sweeper = spill._sweeper
    assert sweeper is not None
    assert sweeper._thread.is_alive()
    spill.close()
    spill.close()
    assert not sweeper._thread.is_alive()
    with pytest.raises(SessionClosedError, match="closed"):
        spill.write(np.arange(3))
    with pytest.raises(CorruptTileError, match="No such file"):
        read(spilled)
    del spilled
    assert spill.used_bytes == 0


def test_dropped_spill_leaves_no_folder_thread_or_descriptor(tmp_path: Path) -> None:
    Spill([tmp_path]).write(np.zeros(1 << 16))
    gc.collect()
    n_files = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        Spill([tmp_path]).write(np.zeros(1 << 16))
    gc.collect()
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == n_files


def test_memory_file_systems_are_recognised(tmp_path: Path) -> None:
    if os.path.isdir("/dev/shm"):
        assert is_memory("/dev/shm")
        assert is_memory("/dev/shm/not/there/yet")
    assert not is_memory("/proc")
