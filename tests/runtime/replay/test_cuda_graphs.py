"""Programs of several small kernels are recorded when they are repeated on the same memory."""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import strict
from tests.runtime.run.test_run import begin

import infinitensor as it
from infinitensor.api.session.session import current_session
from infinitensor.devices.device import CpuDevice
from infinitensor.events import lane
from infinitensor.runtime.replay import cuda_graphs
from infinitensor.runtime.replay.cuda_graphs import Recording, Replays, work_again
from infinitensor.tasking.kernels.c_calls import TASK_WORK
from infinitensor.tasking.kernels.choose_kernel import in_time
from infinitensor.tasking.kernels.work_left import WorkLeft
from infinitensor.tasking.triton.triton_group import Generated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infinitensor.runtime import Run


def nothing() -> None:
    """Starts nothing."""


@pytest.fixture
def no_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graphs, "_failures", [0])


def test_what_comes_a_second_time_is_recorded_and_then_found(no_failures: None) -> None:
    replays = Replays()
    assert replays.find("a") is None
    assert not replays.is_seen("a")
    assert replays.is_seen("a")
    recording = Recording(nothing)
    replays.keep("a", recording)
    assert replays.find("a") is recording
    assert replays.find("b") is None


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_is_recorded_is_as_before_and_then_done_by_one_call(
    fails: bool, no_failures: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU stands in for the GPU: while it records, tasks run, and what they did is taken back."""
    started: list[int] = []

    def record(device: CpuDevice, work: Callable[[], None]) -> Callable[[], None]:
        work()
        return lambda: started.append(1)

    def work(run: Run) -> None:
        if fails:
            run.status.fail(0, ValueError("while it is recorded"))
        else:
            run.work_through()

    monkeypatch.setattr(CpuDevice, "record", record)
    monkeypatch.setattr(cuda_graphs, "_memory", lambda replays, tiles, scalars: "the same")
    replays, found = Replays(), []
    with strict("cpu*2", 7, compile="never") as session:
        x = it.asarray(np.arange(60.0))
        for _ in range(3):
            run, _ = begin(session, it.cumsum(x) + x[::-1])
            run.tiles.enter_leaves()
            again = partial(work, run)
            found.append(work_again(replays, run.tiles, run.calls.scalars, run.status, again))
            assert run.status.is_finished() == found[-1]
            assert sum(run.status.done) == run.status.n_done
            assert bool(run.take_counts().get("bytes_moved")) == found[-1]
            assert run.status.failure is None
            assert not run.status.failed
            run.release()
    assert found == [False, not fails, not fails]
    assert len(started) == (0 if fails else 2)


def test_a_process_has_only_so_many_recordings(
    no_failures: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_graphs, "_n_held", [0])
    monkeypatch.setattr(cuda_graphs, "MOST_RECORDINGS", 2)
    first = Recording(nothing)
    assert Replays().has_room
    second = Recording(nothing)
    assert not Replays().has_room
    del first
    assert Replays().has_room
    del second


def test_few_recordings_are_kept_the_last_ones(no_failures: None) -> None:
    replays = Replays()
    for key in range(10):
        replays.keep(key, Recording(nothing))
    found = [key for key in range(10) if replays.find(key) is not None]
    assert found == [6, 7, 8, 9]


def test_memory_that_is_never_used_again_is_given_up(no_failures: None) -> None:
    replays = Replays()
    for key in range(2 * cuda_graphs.REMEMBERED_BUFFER_SETS):
        replays.find(key)
        replays.is_seen(key)
    assert replays.is_over


def test_recordings_that_fail_end_it_for_the_process(no_failures: None) -> None:
    for _ in range(cuda_graphs.FAILURES):
        assert not Replays().is_over
        Replays().keep("a", None)
    assert Replays().is_over


class Apart:
    """What starts kernels that have memory of their own."""

    def __init__(self, own_bytes: int) -> None:
        self.own_bytes = own_bytes

    def __call__(self) -> None:
        """Starts nothing."""


def test_what_may_take_much_is_recorded_with_memory_of_its_own(
    no_failures: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As much as is left of what all of them may hold; who takes more is not tried again, and that
    is no failure of the process."""
    monkeypatch.setattr(cuda_graphs, "_own_bytes", [0])
    asked: list[tuple[Any, ...]] = []

    def record(work: Callable[[], None], *most: int) -> Apart | None:
        asked.append(most)
        work()
        return Apart(100) if not most or most[0] >= 100 else None

    device: Any = SimpleNamespace(record=record)
    apart, shared = Replays(is_apart=True), Replays()
    most = cuda_graphs.MOST_SCRATCH
    assert shared.most_own_bytes is None
    assert apart.most_own_bytes == most
    first = cuda_graphs.recorded(device, nothing, apart.most_own_bytes)
    assert first is not None
    assert apart.most_own_bytes == most - 100
    assert cuda_graphs.recorded(device, nothing, shared.most_own_bytes) is not None
    assert asked == [(most,), ()]
    refused = cuda_graphs.recorded(device, nothing, 50)
    assert refused is None
    apart.keep("a", refused)
    assert apart.is_over
    assert not Replays().is_over
    assert cuda_graphs._failures == [0]
    del first
    assert apart.most_own_bytes == most


def test_steps_are_not_recorded_apart_while_their_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda_graphs, "n_compiling", lambda: 1)
    assert Replays(is_apart=True).is_early
    assert not Replays().is_early
    monkeypatch.setattr(cuda_graphs, "n_compiling", lambda: 0)
    assert not Replays(is_apart=True).is_early


def test_scalars_are_distinguished_by_their_bits() -> None:
    replays, one = Replays(), np.float32(1)
    first = replays.texts([one, 0.0])
    assert replays.texts([one, 0.0]) == first == replays.texts([np.float32(1), 0.0])
    others = ([one, -0.0], [one], [np.float64(1), 0.0], [np.float32("nan"), 0.0])
    assert all(replays.texts(scalars) != first for scalars in others)
    assert replays.texts([one, 0.0]) == first


def test_steps_count_while_they_are_replayed_until_generated_code_is_due(no_failures: None) -> None:
    left, other = WorkLeft(), WorkLeft()
    left.amount, other.amount = 100, 1000
    recording = Recording(nothing, [(left, 40), (other, 10), (left, 30)])
    assert not recording.is_outdone()
    assert (left.amount, other.amount) == (65, 995)
    assert not recording.is_outdone()
    assert recording.is_outdone()
    replays = Replays()
    replays.keep("a", recording)
    replays.forget("a")
    assert replays.find("a") is None
    assert not replays.is_seen("a")


def test_nothing_is_compiled_while_kernels_are_recorded() -> None:
    ran: list[str] = []
    left = WorkLeft()
    left.amount = 3 * TASK_WORK
    either = in_time(
        lambda *task: ran.append("fast"), lambda *task: ran.append("steps"), TASK_WORK, left
    )
    either([], [], 0)
    assert left.amount == TASK_WORK
    lane.noted = []
    either([], [], 0)
    assert left.amount == TASK_WORK
    assert lane.noted == [(left, 2 * TASK_WORK)]
    left.amount = 0
    either([], [], 0)
    lane.noted = None
    either([], [], 0)
    lane.noted = []
    either([], [], 0)
    assert lane.noted == []
    lane.noted = None
    assert ran == ["steps", "steps", "steps", "fast", "fast"]


# on a GPU --------------------------------------------------------------------------------------


@pytest.fixture
def session() -> Iterator[Any]:
    before = it.config.small_elements
    it.config.small_elements = 0
    with it.init("cuda:0") as session:
        yield session
    it.config.small_elements = before


def recordings() -> int:
    found = [trace.prepared.program for trace in current_session().traces.values()]
    replays = [program.start[0].replays for program in found if program.start]
    return sum(
        recording is not None
        for each in replays
        if each is not None
        for recording in each._seen.values()
    )


def layers(xp: Any, x: Any, weights: Any, n: int = 6) -> Any:
    for _ in range(n):
        x = xp.maximum(x @ weights, 0.0) * 0.5 + x
    return x


@pytest.mark.gpu
def test_a_loop_of_small_kernels_is_recorded_and_computes_the_same(session: Any) -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(64, 64)), rng.normal(size=(64, 64)) / 64
    ours, ours_weights = it.asarray(x), it.asarray(weights)
    for _ in range(12):
        x = layers(np, x, weights)
        ours = layers(it, ours, ours_weights)
        it.compute(ours)
        np.testing.assert_allclose(ours.numpy(), x, rtol=1e-10)
    assert recordings() > 0


@pytest.mark.gpu
def test_steps_that_are_replayed_often_become_one_kernel(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    generated: list[int] = []
    plain = Generated.__call__

    def counted(self: Generated, ins: list[Any], outs: list[Any], i: int) -> None:
        generated.append(i)
        plain(self, ins, outs, i)

    monkeypatch.setattr(Generated, "__call__", counted)
    rng = np.random.default_rng(0)
    x, weights = (it.asarray(rng.normal(size=(48, 48)) / 48) for _ in range(2))
    first = layers(it, x, weights).numpy()
    for _ in range(20):
        it.compute(layers(it, x, weights))
    until = time.monotonic() + 60
    while it.stats()["kernels_compiling"] and time.monotonic() < until:
        time.sleep(0.01)
    for _ in range(20):
        it.compute(layers(it, x, weights))
    n_generated = len(generated)
    for _ in range(100):
        it.compute(layers(it, x, weights))
    assert 0 < n_generated == len(generated)  # and then they are recorded
    assert recordings() > 0
    np.testing.assert_array_equal(layers(it, x, weights).numpy(), first)


@pytest.mark.gpu
@pytest.mark.parametrize("has_room", [True, False])
def test_programs_that_claim_much_are_recorded_if_they_take_little(
    session: Any, has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sort takes copies, a comparison nothing; both say that they may take some."""
    monkeypatch.setattr(cuda_graphs, "MOST_SCRATCH", 1 << 22 if has_room else 0)
    x = np.random.default_rng(0).normal(size=(1000, 700)).astype(np.float32)
    ours = it.asarray(x)
    seen: list[int] = []
    for program in (it.any, lambda y: it.sort(y, axis=0)):
        wanted = program(ours > 100 if program is it.any else ours).numpy()
        for _ in range(2):
            for _ in range(8):
                found = it.compute(program(ours > 100 if program is it.any else ours))
            until = time.monotonic() + 60
            while it.stats()["kernels_compiling"] and time.monotonic() < until:
                time.sleep(0.01)
        seen.append(recordings())
        np.testing.assert_array_equal(found.numpy(), wanted)
    assert seen[0] == 1 or not has_room
    assert seen[1] - seen[0] <= has_room


@pytest.mark.gpu
def test_scalars_that_differ_are_never_mixed_up(session: Any) -> None:
    x = np.linspace(-1, 1, 4096).reshape(64, 64)
    ours = it.asarray(x)
    for k in (1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 0.0, -0.0, 0.0, -0.0, -0.0, -0.0):
        expected, found = x, ours
        for _ in range(5):
            expected, found = expected @ x + k, found @ ours + k
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.gpu
def test_in_place_programs_and_kept_intermediates_are_replayed(session: Any) -> None:
    x = np.linspace(0, 1, 40 * 300).reshape(40, 300)
    ours = it.asarray(x)
    x = x.copy()
    for _ in range(10):
        kept = []
        for grid in (x, ours):
            for _ in range(3):
                grid[1:-1, 1:-1] = (grid[:-2, 1:-1] + grid[2:, 1:-1]) * 0.5 + 1e-3
                before = grid[5] * 2.0
            kept.append(before)
        it.compute(ours, kept[1])
        np.testing.assert_allclose(ours.numpy(), x, rtol=1e-12)
        np.testing.assert_allclose(kept[1].numpy(), kept[0], rtol=1e-12)


@pytest.mark.gpu
def test_what_waits_for_the_gpu_is_not_recorded_and_still_runs(session: Any) -> None:
    x = np.linspace(-1, 1, 5000)
    ours = it.asarray(x)
    for _ in range(5):
        found = (it.sort(ours * 2.0) + ours.var() + it.cumsum(ours) - ours.mean()).numpy()
    expected = np.sort(x * 2.0) + x.var() + np.cumsum(x) - x.mean()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
