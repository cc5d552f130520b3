"""Worker threads: every one runs the job, and they end when asked to."""

from __future__ import annotations

import importlib.machinery
import os
import subprocess
import sys
import threading
import types

import pytest
import torch

from infinitensor.events import lane
from infinitensor.runtime import Workers


def no_tick() -> None:
    """Nothing to watch."""


def test_every_worker_runs_the_job_each_time() -> None:
    workers = Workers(3)
    ran: list[str] = []
    lock = threading.Lock()

    def job() -> None:
        with lock:
            ran.append(threading.current_thread().name)

    try:
        for n in range(1, 20):
            workers.run(job, no_tick)
            assert len(ran) == 3 * n
        assert set(ran) == {f"infinitensor-{k}" for k in range(3)}
    finally:
        workers.close()


def test_a_run_wakes_those_it_needs_and_those_they_call() -> None:
    workers = Workers(4)
    ran: list[str] = []

    def job() -> None:
        ran.append(threading.current_thread().name)
        if len(ran) < 3:
            workers.call_another()

    def lonely() -> None:
        ran.append(threading.current_thread().name)

    try:
        for _ in range(20):
            ran.clear()
            workers.run(job, no_tick, n_first=1)
            assert 3 <= len(ran) <= 4  # two may see fewer than three
            assert len(set(ran)) == len(ran)
            ran.clear()
            workers.run(lonely, no_tick, [lonely], n_first=2)
            assert sorted(ran) == ["infinitensor-0", "infinitensor-1", "infinitensor-4"]
    finally:
        workers.close()


def test_a_job_may_run_in_the_thread_that_asks_as_in_a_worker() -> None:
    """With one core for each op, and the user's number of threads back after it, whatever comes."""
    workers = Workers(2)
    seen: list[tuple[str, bool, int]] = []

    def job() -> None:
        seen.append((threading.current_thread().name, lane.is_worker, torch.get_num_threads()))
        if len(seen) > 1:
            raise ValueError("the second time")

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        workers.run_here(job)
        with pytest.raises(ValueError, match="the second time"):
            workers.run_here(job)
        assert seen == [(threading.current_thread().name, True, 1)] * 2
        assert torch.get_num_threads() == 3
        assert not lane.is_worker
        assert not workers._threads, "nobody was woken"
    finally:
        torch.set_num_threads(before)
        workers.close()


def test_more_are_called_than_there_are() -> None:
    workers = Workers(2)
    ran: list[int] = []

    def job() -> None:
        ran.append(1)
        for _ in range(5):
            workers.call_another()

    try:
        workers.run(job, no_tick, n_first=1)
        assert ran == [1, 1]
        workers.run(job, no_tick, n_first=99)
        assert ran == [1] * 4
    finally:
        workers.close()


def test_threads_start_at_the_first_run_and_end_at_close() -> None:
    before = threading.active_count()
    workers = Workers(2)
    assert threading.active_count() == before
    workers.run(no_tick, no_tick)
    assert threading.active_count() == before + 2
    workers.close()
    assert threading.active_count() == before
    workers.close()


def test_workers_leave_the_users_number_of_threads() -> None:
    n_user = torch.get_num_threads()
    workers = Workers(2)
    try:
        workers.run(no_tick, no_tick)
    finally:
        workers.close()
    assert torch.get_num_threads() == n_user


def test_the_users_number_is_left_where_one_worker_after_another_needs_torch() -> None:
    """The first run loads it in one worker; the others hear of it at the next."""
    program = """
import threading
from concurrent.futures import ThreadPoolExecutor
from infinitensor.ops.backend.torch_loading import wait_for_torch
from infinitensor.runtime import Workers

def one_loads():
    if threading.current_thread().name == "infinitensor-0":
        wait_for_torch()

workers = Workers(3)
for _ in range(3):
    workers.run(one_loads, lambda: None)
    with ThreadPoolExecutor(1) as new:  # torch gives a thread the number at its first question
        assert new.submit(lambda: wait_for_torch().get_num_threads()).result() == 2
workers.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
    )
    assert done.returncode == 0, done.stderr


def test_a_long_job_is_watched_from_the_calling_thread() -> None:
    workers = Workers(1)
    seen: list[str] = []
    done = threading.Event()

    def tick() -> None:
        seen.append(threading.current_thread().name)
        done.set()

    def wait() -> None:
        done.wait(5)

    try:
        workers.run(wait, tick)
    finally:
        workers.close()
    assert set(seen) == {threading.current_thread().name}


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_number_of_workers_is_what_was_asked(n: int) -> None:
    assert Workers(n).n == n


def test_a_job_that_raises_is_heard_and_its_thread_lives_on() -> None:
    workers = Workers(2)

    def fails() -> None:
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        workers.run(fails, lambda: None)
    done: list[int] = []
    workers.run(lambda: done.append(1), lambda: None)
    assert done == [1, 1]
    workers.close()


def test_a_module_that_is_being_imported_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    half = types.ModuleType("torch")
    half.__spec__ = importlib.machinery.ModuleSpec("torch", None)
    half.__spec__._initializing = True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", half)
    workers = Workers(2)
    done: list[int] = []
    workers.run(lambda: done.append(1), lambda: None)
    assert done == [1, 1]
    workers.close()
