"""The threads of C: who has work shares it with those that are free, and waits for none to come."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.reliability import child

import infinitensor as it
from infinitensor import native, threads
from infinitensor.api.eager import numpy_loops

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")

SOURCE = """
#include <stdint.h>
#include <unistd.h>
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define ADD(x, n) __atomic_add_fetch(&(x), n, __ATOMIC_SEQ_CST)
typedef void (*Share)(void (*)(void *), void *, int64_t);

typedef struct { int64_t next, n, *done; } Parts;
static void take_parts(void *given) {
  Parts *parts = given;
  for (int64_t k; (k = ADD(parts->next, 1)) <= parts->n;) parts->done[k - 1]++;
}
int64_t add_to_all(Share share, int64_t *done, int64_t n, int64_t n_threads) {
  Parts parts = {0, n, done};
  share(take_parts, &parts, n_threads);
  return 0;
}

/* Everybody waits for `most` to be there, or for the door to open. */
typedef struct { int64_t n_inside, most, is_open; } Room;
static void stay(void *given) {
  Room *room = given;
  ADD(room->n_inside, 1);
  while (LOAD(room->n_inside) < room->most && !LOAD(room->is_open)) usleep(100);
}
int64_t meet(Share share, Room *room, int64_t n_threads) {
  share(stay, room, n_threads);
  return 0;
}

typedef void (*ShareParts)(void (*)(void *, int64_t), void *, int64_t, int64_t, int64_t, int64_t *);
typedef struct { int64_t n, *done; } Numbered;
static void take_part(void *given, int64_t part) {
  const Numbered *parts = given;
  if (part >= 0) parts->done[part]++;
  else for (int64_t k = 0; k < parts->n; k++) parts->done[k]++; /* all of them */
}
int64_t add_by_part(ShareParts share, int64_t *done, int64_t n, int64_t n_threads, int64_t size,
                    int64_t *times) {
  Numbered parts = {n, done};
  share(take_part, &parts, n, n_threads, size, times);
  return 0;
}
"""


class Room(ctypes.Structure):
    """Where threads wait for each other: `Room` of the C source."""

    _fields_ = [(name, ctypes.c_int64) for name in ("n_inside", "most", "is_open")]


def call(name: str, *args: Any, by: str = "share") -> None:
    """Call a function of the C source that shares its work."""
    function = getattr(native.library(SOURCE), name)
    function.restype = ctypes.c_int64
    share = ctypes.c_void_p(threads.share_address(by))
    whole = [ctypes.c_int64(value) if type(value) is int else value for value in args]
    function(share, *whole)


def meet(n_threads: int, most: int) -> Room:
    """So many threads, who wait until `most` of them have met."""
    room = Room(0, most, 0)
    timer = threading.Timer(20, lambda: setattr(room, "is_open", 1))
    timer.start()
    call("meet", ctypes.byref(room), n_threads)
    timer.cancel()
    timer.join()
    assert not room.is_open, f"{room.n_inside} of {most} came"
    return room


def add_to_all(n: int, n_threads: int) -> np.ndarray:
    """How often each of n parts was done."""
    done = np.zeros(n, np.int64)
    call("add_to_all", ctypes.c_void_p(done.ctypes.data), n, n_threads)
    return done


class Times(ctypes.Structure):
    """What calls of a kind took, alone and shared, in ps for each element: `Times` of C."""

    _fields_ = [
        (name, ctypes.c_int64) for name in ("alone", "shared", "n_calls", "n_alone", "n_shared")
    ]


def add_by_part(n: int, n_threads: int, size: int, times: Times | None = None) -> np.ndarray:
    """How often each of n numbered parts was done, of a call of so many elements."""
    done = np.zeros(n, np.int64)
    at, known = ctypes.c_void_p(done.ctypes.data), ctypes.byref(times or Times())
    call("add_by_part", at, n, n_threads, size, known, by="share_parts")
    return done


def trial_end() -> Any:
    """Up to which call, of those with parts, sharing is tried: the number in C."""
    return ctypes.c_int64.in_dll(threads._functions(), "trial_end")


def wait_until_ended() -> None:
    """All threads are gone."""
    threads.end_threads()
    limit = time.monotonic() + 20
    while threads.count_threads() and time.monotonic() < limit:
        time.sleep(0.001)
    assert threads.count_threads() == 0


@pytest.fixture(autouse=True)
def no_threads() -> Iterator[None]:
    """Each test begins without threads."""
    wait_until_ended()
    yield
    wait_until_ended()


@pytest.mark.parametrize("n_threads", [1, 2, 16])
def test_as_many_threads_come_as_are_asked_for_and_the_caller_is_one(n_threads: int) -> None:
    assert meet(n_threads, most=n_threads).n_inside == n_threads
    assert threads.count_threads() == n_threads - 1


def test_fewer_are_asked_of_the_threads_that_there_are() -> None:
    meet(8, most=8)
    for _ in range(20):
        room = meet(3, most=3)
        assert room.n_inside == 3
    assert threads.count_threads() == 7


@pytest.mark.parametrize("n_threads", [1, 2, 16])
@pytest.mark.parametrize("n_callers", [1, 4, 24])  # more than can offer at a time
def test_every_part_is_done_once_whoever_else_calls(n_callers: int, n_threads: int) -> None:
    wrong: list[np.ndarray] = []

    def call_often() -> None:
        for n in (0, 1, 2, 7, 1000) * 10:
            done = add_to_all(n, n_threads)
            if not (done == 1).all():
                wrong.append(done)

    callers = [threading.Thread(target=call_often) for _ in range(n_callers)]
    for one in callers:
        one.start()
    for one in callers:
        one.join(60)
    assert not wrong
    assert threads.count_threads() <= n_threads - 1


@pytest.mark.parametrize("n_threads", [1, 2, 16])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 500])
def test_every_numbered_part_is_done_once(n: int, n_threads: int) -> None:
    for alone in (0, 1, 10**9):
        times = Times(alone=alone, n_alone=3 * (alone > 0))
        for _ in range(40):
            assert (add_by_part(n, n_threads, 1000, times) == 1).all()


def test_the_first_call_of_a_kind_is_not_shared_unless_it_is_large() -> None:
    times = Times()
    assert (add_by_part(8, 2, 1000, times) == 1).all()
    assert threads.count_threads() == 0
    assert times.alone > 0
    assert (add_by_part(8, 2, 1 << 20, Times()) == 1).all()
    assert threads.count_threads() == 1


def test_what_is_over_before_others_would_come_is_never_shared() -> None:
    times = Times(alone=1000, n_alone=3)  # 1 us
    for _ in range(100):
        assert (add_by_part(8, 2, 1000, times) == 1).all()
    assert threads.count_threads() == 0


def test_sharing_is_tried_in_a_row_of_calls_and_kept_if_it_takes_less() -> None:
    times = Times(alone=10**9, n_alone=3)  # 1 ms, but what is shared here takes us
    for _ in range(40):
        add_by_part(8, 2, 1000, times)
    assert threads.count_threads() == 1
    assert times.n_shared == 3
    assert 0 < times.shared < times.alone


def test_what_takes_longer_where_it_is_shared_is_tried_again_seldom() -> None:
    trial_end().value = 0
    times = Times(alone=10**6, shared=10**9, n_calls=1, n_alone=3, n_shared=3)
    for _ in range(200):
        add_by_part(8, 2, 1000, times)
    assert threads.count_threads() == 0
    assert times.shared == 10**9


def test_where_all_threads_are_busy_a_caller_works_alone() -> None:
    room = Room(0, 100, 0)
    first = threading.Thread(target=lambda: call("meet", ctypes.byref(room), 3))
    first.start()
    limit = time.monotonic() + 20
    while room.n_inside < 3 and time.monotonic() < limit:
        time.sleep(0.001)
    assert room.n_inside == 3
    assert (add_to_all(1000, 3) == 1).all()
    room.is_open = 1
    first.join(20)
    assert room.n_inside == 3


def test_threads_that_have_done_one_callers_work_come_to_another() -> None:
    first, second = Room(0, 100, 0), Room(0, 3, 0)
    callers = [
        threading.Thread(target=lambda room=room: call("meet", ctypes.byref(room), 3))
        for room in (first, second)
    ]
    callers[0].start()
    limit = time.monotonic() + 20
    while first.n_inside < 3 and time.monotonic() < limit:
        time.sleep(0.001)
    callers[1].start()
    time.sleep(0.01)
    assert second.n_inside <= 1
    first.is_open = 1
    for one in callers:
        one.join(20)
    assert second.n_inside == 3


def test_what_runs_is_done_when_threads_are_ended() -> None:
    room = Room(0, 5, 0)
    caller = threading.Thread(target=lambda: call("meet", ctypes.byref(room), 4))
    caller.start()
    limit = time.monotonic() + 20
    while room.n_inside < 4 and time.monotonic() < limit:
        time.sleep(0.001)
    threads.end_threads()
    assert (add_to_all(1000, 4) == 1).all()
    assert caller.is_alive()
    room.is_open = 1
    caller.join(20)
    assert not caller.is_alive()
    assert meet(4, most=4).n_inside == 4


def test_threads_end_and_begin_while_others_call() -> None:
    stopping = threading.Event()

    def end_often() -> None:
        while not stopping.is_set():
            threads.end_threads()

    ending = threading.Thread(target=end_often)
    ending.start()
    for _ in range(200):
        assert (add_to_all(100, 4) == 1).all()
    stopping.set()
    ending.join(20)
    assert threads.count_threads() <= 3


def test_the_child_of_a_fork_starts_its_own() -> None:
    meet(4, most=4)
    process = os.fork()
    if not process:
        is_right = threads.count_threads() == 0 and meet(4, most=4).n_inside == 4
        os._exit(0 if is_right and threads.count_threads() == 3 else 1)
    assert os.waitpid(process, 0)[1] == 0
    assert meet(4, most=4).n_inside == 4


def test_a_fork_while_others_share_leaves_the_child_able_to() -> None:
    stopping = threading.Event()

    def call_often() -> None:
        while not stopping.is_set():
            add_to_all(100, 4)

    callers = [threading.Thread(target=call_often) for _ in range(3)]
    for one in callers:
        one.start()
    codes = []
    for _ in range(10):
        process = os.fork()
        if not process:
            os._exit(0 if (add_to_all(100, 4) == 1).all() else 1)
        codes.append(os.waitpid(process, 0)[1])
    stopping.set()
    for one in callers:
        one.join(20)
    assert not any(codes)


def test_signals_go_to_threads_of_python() -> None:
    before = {path.name for path in Path("/proc/self/task").iterdir()}
    meet(3, most=3)
    limit = time.monotonic() + 20
    while True:  # the timer of `meet` may take a moment to be gone
        ours = {path.name for path in Path("/proc/self/task").iterdir()} - before
        if len(ours) <= 2 or time.monotonic() > limit:
            break
        time.sleep(0.001)
    assert len(ours) == 2
    blocked = []
    for number in ours:
        status = Path(f"/proc/self/task/{number}/status").read_text()
        mask = int(status.partition("SigBlk:")[2].split()[0], 16)
        blocked.append(all(mask >> (n - 1) & 1 for n in (signal.SIGINT, signal.SIGTERM)))
    assert all(blocked)


def test_threads_without_work_sleep() -> None:
    meet(4, most=4)
    time.sleep(0.01)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


@pytest.mark.skipif(not hasattr(numpy_loops.into, "__self__"), reason="needs a C compiler")
@pytest.mark.parametrize("n_workers", [1, 3, 16])
def test_calls_are_shared_among_as_many_as_a_session_has_workers(
    n_workers: int,
) -> None:
    x = np.arange(float(numpy_loops.LEAST_SHARED_ELEMENTS * 40))
    before = it.config.workers
    try:
        it.config.workers = n_workers
        with it.init("cpu"):
            for _ in range(40):  # alone first
                made = numpy_loops.compute(np.sqrt, x)
            assert (made is None) == (n_workers == 1)
            assert threads.count_threads() == n_workers - 1
    finally:
        it.config.workers = before
        threads.use_threads()
    wait_until_ended()


SCRIPT = """
from infinitensor import threads
it.config.inline_elements = 0
it.config.small_elements = 0
it.config.tile_elements = 500
x = np.random.default_rng(0).random(40_000)
wanted, wrong = np.sqrt(x) * 2 + 1, []

def program():
    with it.init("cpu", memory="64MiB"):
        y = it.asarray(x)
        for _ in range(10):
            if not np.array_equal((it.sqrt(y) * 2 + 1).numpy(), wanted):
                wrong.append("program")
            if not np.allclose(it.cumsum(y).numpy(), np.cumsum(x)):
                wrong.append("running sum")

many = [threading.Thread(target=program) for _ in range(3)]
for one in many: one.start()
for one in many: one.join()
it.shutdown()
limit = time.monotonic() + 20
while threads.count_threads() and time.monotonic() < limit: time.sleep(0.001)
reply(wrong=wrong, left=threads.count_threads())
"""


@pytest.mark.parametrize("n_workers", [1, 2, 16])
def test_sessions_in_several_threads_share_them_and_leave_none(n_workers: int) -> None:
    own = {"INFINITENSOR_WORKERS": str(n_workers), "INFINITENSOR_COMPILE": "always"}
    own["INFINITENSOR_SANITIZE"] = ",".join(native.sanitizers())
    assert child.run(SCRIPT, limit_s=120.0, **own) == {"wrong": [], "left": 0}


CORES_SCRIPT = """
from infinitensor.api.eager import numpy_loops
it.config.workers = 3
with it.init("cpu"):
    x = np.ones(1 << 20)
    main, cores = threading.get_native_id(), sorted(os.sched_getaffinity(0))

    def masks():
        own = {int(t): os.sched_getaffinity(int(t)) for t in os.listdir("/proc/self/task")}
        return [sorted(mask) for t, mask in own.items() if t not in others]

    others = {int(t) for t in os.listdir("/proc/self/task")}
    seen = []
    while len(masks()) < 2:
        numpy_loops.compute(np.sqrt, x)
    for core in cores[:2]:
        os.sched_setaffinity(main, {core})
        limit = time.monotonic() + 60  # who is busy shares only now and then
        while any(core in mask for mask in masks()) and time.monotonic() < limit:
            numpy_loops.compute(np.sqrt, x)
        seen.append(masks())
    mine = next(int(t) for t in os.listdir("/proc/self/task") if int(t) not in others)
    os.sched_setaffinity(mine, cores[-1:])  # as an administrator does
    os.sched_setaffinity(main, {cores[-1]})
    time.sleep(0.01)
    for _ in range(100):
        numpy_loops.compute(np.sqrt, x)
    kept = sorted(os.sched_getaffinity(mine))
reply(seen=seen, cores=cores, kept=kept)
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="one core, or threads that cannot be placed",
)
def test_threads_may_run_on_every_core_but_that_of_who_has_work() -> None:
    found = child.run(CORES_SCRIPT, limit_s=120.0)
    cores = found["cores"]
    assert found["seen"] == [[[c for c in cores if c != core]] * 2 for core in cores[:2]]
    if len(cores) > 2:  # of two it may be where they were put
        assert found["kept"] == cores[-1:]


def test_without_a_compiler_nothing_is_shared_and_the_reason_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(file: str) -> Any:
        raise native.CompilerError("no C compiler")

    threads._functions.cache_clear()
    monkeypatch.setattr(threads, "fixed_library", fail)
    reasons: dict[str, str] = {}
    monkeypatch.setattr(threads, "not_compiled", reasons)
    assert threads.share_address() == 0
    assert reasons == {"threads.c": "no C compiler"}
    assert threads.count_threads() == 0
    threads.end_threads()
