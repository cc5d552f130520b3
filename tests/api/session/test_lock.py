"""The lock of a session: as `threading.RLock`, which it is without a compiler."""

import signal
import threading
import time
from typing import Any

import pytest

from infinitensor.api.session.lock import Lock

KINDS = [pytest.param(Lock, id="ours"), pytest.param(threading.RLock, id="pythons")]


@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_count_under_it_lose_nothing(kind: Any) -> None:
    lock, counts = kind(), [0]

    def count() -> None:
        for k in range(300):
            with lock:
                before = counts[0]
                if k % 10 == 0:
                    time.sleep(0)  # lets others run, which must wait
                with lock:
                    counts[0] = before + 1

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2400]


@pytest.mark.parametrize("kind", KINDS)
def test_others_wait_until_it_is_given_back_as_often_as_it_was_taken(kind: Any) -> None:
    lock, seen = kind(), []

    def waits() -> None:
        with lock:
            seen.append("other")

    lock.acquire()
    lock.acquire()
    others = [threading.Thread(target=waits) for _ in range(3)]
    for other in others:
        other.start()
    lock.release()
    time.sleep(0.05)
    assert seen == []
    seen.append("owner")
    lock.release()
    for other in others:
        other.join(20)
    assert seen == ["owner", "other", "other", "other"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_not_taken_cannot_be_given_back(kind: Any) -> None:
    lock = kind()
    with pytest.raises(RuntimeError, match="un-acquired"):
        lock.release()
    found: list[str] = []

    def gives_back() -> None:
        try:
            lock.release()
        except RuntimeError as error:
            found.append(str(error))

    with lock:
        other = threading.Thread(target=gives_back)
        other.start()
        other.join()
    assert found == ["cannot release un-acquired lock"]


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_ends_a_wait_and_the_lock_is_as_before(kind: Any) -> None:
    lock, is_held, may_go = kind(), threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def holds() -> None:
        with lock:
            is_held.set()
            may_go.wait(20)

    def stops() -> None:
        time.sleep(0.1)
        signal.pthread_kill(main, signal.SIGINT)

    threads = [threading.Thread(target=holds), threading.Thread(target=stops)]
    threads[0].start()
    is_held.wait()
    threads[1].start()
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    may_go.set()
    with lock:
        pass
    for thread in threads:
        thread.join()
