"""Bars F14 and F15: a user's function that raises, and a tile that is lost."""

from __future__ import annotations

import contextlib
import inspect
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor import events

from .programs import PROGRAMS
from .sampling import logged_rng, sample, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .conftest import HoldsBar

pytestmark = [time_limit(120), pytest.mark.filterwarnings("error")]


@pytest.fixture(autouse=True)
def three_devices() -> Iterator[None]:
    it.config.small_elements = 0
    it.config.tile_elements = 64
    with it.init(devices="cpu*3"):
        yield


class OddError(Exception):
    """Cannot be rebuilt from its text: two arguments that have no default."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"code {code}: {reason}")
        self.code = code


def raising_on(value: float, error: Callable[[], BaseException]) -> Callable[[Any], Any]:
    """A tile function that doubles its tile and raises on the one that holds `value`."""

    def double(tile: Any) -> Any:
        if bool((tile == value).any()):
            raise error()
        return tile * 2

    return double


def notes_of(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", []))


# F14 ----------------------------------------------------------------------------------------------

USER_ERRORS: dict[str, tuple[Callable[[], Exception], str]] = {
    "a value error": (lambda: ValueError("bad row"), "bad row"),
    "a key error": (lambda: KeyError("name"), "name"),
    "a zero division": (lambda: ZeroDivisionError("by zero"), "by zero"),
    "a memory error": (lambda: MemoryError("mine"), "mine"),
    "a stop iteration": (lambda: StopIteration("stop"), "stop"),
    "an error of the user's own": (lambda: OddError(7, reason="odd"), "code 7: odd"),
}


@pytest.mark.parametrize("name", USER_ERRORS)
def test_a_user_function_that_raises_in_one_tile_raises_the_same_from_compute(name: str) -> None:
    make, text = USER_ERRORS[name]
    double = raising_on(700.0, make)
    mapped = it.map_tiles(double, it.asarray(np.arange(1000.0)), form="n->n")
    with pytest.raises(type(make()), match=text) as caught:
        it.compute(mapped + 1)
    notes = notes_of(caught.value)
    raised = inspect.getsourcelines(double)[1] + 2
    written = inspect.getsourcelines(inspect.currentframe())[1] + 4  # type: ignore[arg-type]
    assert f"test_faults.py:{raised}" in notes or f"test_faults.py:{written}" in notes, notes
    assert re.search(r"tile\D*\d", notes), notes
    if isinstance(caught.value, OddError):
        assert caught.value.code == 7


def test_all_other_tiles_are_cancelled_soon_after_one_raises(holds_bar: HoldsBar) -> None:
    started: list[float] = []

    def slow(tile: Any) -> Any:
        started.append(time.monotonic())
        if bool((tile == 0).any()):
            raise ValueError("bad row")
        time.sleep(0.05)
        return tile * 2

    values = np.arange(64.0 * 1000)  # 1000 tiles: far more than the limit even on many cores
    mapped = it.map_tiles(slow, it.asarray(values), form="n->n")
    begun = time.monotonic()
    with pytest.raises(ValueError, match="bad row"):
        it.compute(mapped)
    ended = time.monotonic()
    holds_bar("F14 cancelled", ended - begun, 2.0)
    time.sleep(0.3)
    assert not [t for t in started if t > ended + 0.1], "tiles were started after the error"


def test_the_next_compute_after_an_error_works_and_the_failed_tensor_raises_again() -> None:
    x = it.asarray(np.arange(1000.0))
    good = x * 3 + 1
    mapped = it.map_tiles(raising_on(700.0, lambda: ValueError("bad row")), x, form="n->n")
    below = mapped.sum()
    for _ in range(3):
        with pytest.raises(ValueError, match="bad row"):
            it.compute(below, good)
    np.testing.assert_array_equal(good.numpy(), np.arange(1000.0) * 3 + 1)
    np.testing.assert_array_equal(x.numpy(), np.arange(1000.0))
    with pytest.raises(ValueError, match="bad row"):
        below.numpy()


def test_a_function_that_raised_once_and_then_works_gives_the_right_value() -> None:
    broken = threading.Event()
    broken.set()

    def double(tile: Any) -> Any:
        if broken.is_set() and bool((tile == 700).any()):
            raise ConnectionError("try later")
        return tile * 2

    mapped = it.map_tiles(double, it.asarray(np.arange(1000.0)), form="n->n")
    with pytest.raises(ConnectionError, match="try later"):
        mapped.numpy()
    broken.clear()
    np.testing.assert_array_equal(mapped.numpy(), np.arange(1000.0) * 2)


def test_two_functions_that_raise_at_once_give_one_of_the_two_errors() -> None:
    x = it.asarray(np.arange(1000.0))
    one = it.map_tiles(raising_on(10.0, lambda: ValueError("first")), x, form="n->n")
    two = it.map_tiles(raising_on(990.0, lambda: KeyError("second")), x, form="n->n")
    with pytest.raises((ValueError, KeyError), match=r"first|second"):
        it.compute(one, two)
    assert float(x.sum()) == 499500.0


def test_an_error_leaves_no_thread_behind_once_the_session_is_shut() -> None:
    mapped = it.map_tiles(
        raising_on(700.0, lambda: ValueError("bad row")), it.asarray(np.arange(1e5)), form="n->n"
    )
    with pytest.raises(ValueError, match="bad row"):
        it.compute(mapped)
    it.shutdown()
    deadline = time.monotonic() + 5
    while (left := ours_alive()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []


def ours_alive() -> list[str]:
    return [t.name for t in threading.enumerate() if "infinitensor" in t.name.lower()]


@pytest.mark.parametrize("event", ["task_start", "tile_commit"])
def test_a_fault_in_any_task_is_raised_once_and_leaves_the_session_usable(event: str) -> None:
    rng = logged_rng("fault", event)
    it.config.tile_elements = 500
    names = sample(list(PROGRAMS), 6, "fault", event)
    wrong = []
    for name in names:
        program = PROGRAMS[name]
        arrays = program.arrays(rng)
        wanted = np.asarray(program.run(it, *map(it.asarray, arrays)))
        n_events = count(event, program.run(it, *map(it.asarray, arrays)))
        for at in {0, n_events - 1, int(rng.integers(0, max(n_events, 1)))}:
            result = program.run(it, *map(it.asarray, arrays))
            with events.on(event, raise_at(at, lambda: OSError("injected"))):
                try:
                    np.asarray(result)
                except (OSError, it.TaskError) as error:
                    if "injected" not in f"{error!r} {error.__cause__!r}":
                        wrong.append(f"{name} at {at}: {error!r}")
                else:
                    wrong.append(f"{name} at {at} of {n_events}: the fault was swallowed")
            if np.asarray(result).tobytes() != wanted.tobytes():
                wrong.append(f"{name} at {at}: wrong after the fault")
    assert not wrong, "\n".join(wrong)


def raise_at(n: int, error: Callable[[], BaseException]) -> Callable[..., None]:
    """A callback that raises at the n-th event and never again."""
    seen = iter(range(1 << 60))
    lock = threading.Lock()

    def callback(**what: object) -> None:
        with lock:
            now = next(seen)
        if now == n:
            raise error()

    return callback


def count(event: str, tensor: it.Tensor) -> int:
    """How many events the evaluation of a tensor makes."""
    seen: list[int] = []
    with events.on(event, lambda **what: seen.append(1)):
        tensor.numpy()
    return len(seen)


def test_an_allocation_that_fails_is_retried_or_a_typed_error_and_nothing_stays_taken() -> None:
    it.config.tile_elements = 2000
    x = np.arange(40_000.0).reshape(400, 100)

    def build() -> it.Tensor:
        made: it.Tensor = (it.asarray(x) * 2 + 1).T @ it.asarray(x)
        return made

    wanted = build().numpy()
    n_allocations = count("allocate", build())
    rng = logged_rng("allocate")
    for at in sorted({0, *rng.integers(0, max(n_allocations, 1), 5).tolist()}):
        result = build()
        with events.on("allocate", raise_at(at, lambda: MemoryError("injected"))):
            try:
                first = result.numpy()
            except MemoryError:
                first = None
        if first is not None:
            assert first.tobytes() == wanted.tobytes()
        assert result.numpy().tobytes() == wanted.tobytes()


# F15 ----------------------------------------------------------------------------------------------


class Dropper:
    """Loses chosen tiles as they are committed, each one once."""

    def __init__(self, chosen: Callable[[int, str], bool]) -> None:
        self.chosen = chosen
        self.lock = threading.Lock()
        self.n_seen = 0
        self.dropped: list[str] = []

    def __call__(self, *, op: str, tile: Any, run: Any, **what: object) -> None:
        with self.lock:
            index, self.n_seen = self.n_seen, self.n_seen + 1
            if not self.chosen(index, str(op)):
                return
            self.dropped.append(f"{op} {tile}")
        run.drop(tile)


def random_program(seed: int) -> list[it.Tensor]:
    """Numbers that several ops read, so that a lost tile has readers on every device."""
    it.random.seed(seed)
    x = it.random.normal(size=(60, 40))
    y = it.random.uniform(size=(60, 40))
    k = it.random.integers(0, 1000, size=(60, 40))
    z = x * 2 + y
    return [z, it.sum(z, axis=0), it.cumsum(x, axis=0), k % 7, x.T @ y, it.sort(k, axis=1)]


def is_random(op: str) -> bool:
    return any(word in op for word in ("random", "normal", "uniform", "integers"))


def bits_of(tensors: list[it.Tensor]) -> list[bytes]:
    it.compute(*tensors)
    return [tensor.numpy().tobytes() for tensor in tensors]


@pytest.mark.parametrize("case", range(8))
def test_a_lost_tile_of_random_numbers_is_made_again_bit_for_bit(case: int) -> None:
    seed = int(logged_rng("lost random tile", case).integers(0, 1 << 30))
    wanted = bits_of(random_program(seed))
    few = Dropper(lambda index, op: is_random(op) and index % 8 == case)
    with events.on("tile_commit", few):
        assert bits_of(random_program(seed)) == wanted


def test_some_tiles_of_random_numbers_really_were_dropped_and_counted() -> None:
    wanted = bits_of(random_program(5))
    it.stats(reset=True)
    drop = Dropper(lambda index, op: index % 3 == 0)
    with events.on("tile_commit", drop):
        assert bits_of(random_program(5)) == wanted
    assert drop.dropped
    stats = it.stats()
    assert stats.get("tiles_rebuilt", 1) > 0


WRITES_IN_PLACE = ("stencil", "shifted writes", "in place")


@pytest.mark.parametrize("name", sample(list(PROGRAMS), 10, "dropped tiles"))
def test_any_lost_tile_is_made_again_from_stored_leaves_bit_for_bit(name: str) -> None:
    it.config.tile_elements = 500
    program = PROGRAMS[name]
    rng = logged_rng("dropped tiles", name)
    leaves = [it.asarray(array) for array in program.arrays(rng)]  # held: they stay stored

    def bits() -> bytes:
        return np.asarray(program.run(it, *leaves)).tobytes()

    wanted, n_tiles = bits(), tiles_committed(bits)
    lost = []
    for at in sorted({0, n_tiles - 1, *rng.integers(0, n_tiles, 4).tolist()}):
        drop = Dropper(lambda index, op, at=at: index == at)  # type: ignore[misc]
        with events.on("tile_commit", drop):
            try:
                assert bits() == wanted, f"wrong after the loss of {drop.dropped}"
            except it.LostTileError as error:
                # what an in-place write has written over is gone: that is said, not guessed
                if "written to in place" not in str(error) or name not in WRITES_IN_PLACE:
                    lost.append(f"tile {at} of {n_tiles}, {drop.dropped}: {error}")
    assert lost == []


@pytest.mark.parametrize("name", sample(list(PROGRAMS), 10, "dropped for good"))
def test_a_lost_tile_whose_sources_are_gone_is_an_error_or_right_but_never_wrong(name: str) -> None:
    it.config.tile_elements = 500
    program = PROGRAMS[name]
    rng = logged_rng("dropped for good", name)
    arrays = program.arrays(rng)

    def bits() -> bytes:
        return np.asarray(program.run(it, *map(it.asarray, arrays))).tobytes()

    wanted, n_tiles = bits(), tiles_committed(bits)
    for at in sorted({0, n_tiles - 1, *rng.integers(0, n_tiles, 4).tolist()}):
        drop = Dropper(lambda index, op, at=at: index in (at, at + 3))  # type: ignore[misc]
        with events.on("tile_commit", drop), contextlib.suppress(it.LostTileError):
            assert bits() == wanted, f"wrong after the loss of {drop.dropped}"
        assert bits() == wanted, "the next compute"


def tiles_committed(evaluate: Callable[[], object]) -> int:
    watch = Dropper(lambda index, op: False)
    with events.on("tile_commit", watch):
        evaluate()
    return watch.n_seen


def test_tiles_lost_every_time_they_are_made_end_in_the_value_or_an_error_not_in_a_loop() -> None:
    values = np.arange(1000.0)
    x = it.asarray(values)
    result = (x * 2).sum() + it.cumsum(x * 2).sum()
    wanted = float((values * 2).sum() + np.cumsum(values * 2).sum())
    drop_all = Dropper(lambda index, op: True)
    with events.on("tile_commit", drop_all), contextlib.suppress(it.LostTileError):
        assert float(result) == wanted
    assert float(result) == wanted


def test_random_numbers_do_not_depend_on_tiles_or_devices() -> None:
    wanted = bits_of(random_program(11)[:1])
    for devices, tile_elements in [("cpu", 7), ("cpu*2", 1000), ("cpu*4", 33)]:
        it.config.tile_elements = tile_elements
        with it.init(devices=devices):
            assert bits_of(random_program(11)[:1]) == wanted
