"""An exception out of a signal handler, of whatever kind, at every moment of an evaluation.

A trace function sends the signal at the n-th line that the main thread runs of our own code; its
handler raises where Python looks for signals next. Then every live value is compared, a write that
was under way may be done or not, and the next evaluation is right.
"""

from __future__ import annotations

import gc
import signal
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.at_line import AtLine
from tests.ir.sessions import local

import infinitensor as it

from .sampling import WHOLE, logged_rng, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [time_limit(240), pytest.mark.filterwarnings("error")]

SETTINGS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "in the caller": ({"small_elements": 0, "tile_elements": 64}, {"devices": "cpu"}),
    "three devices": (
        {"small_elements": 0, "tile_elements": 64, "inline_elements": 0},
        {"devices": "cpu*3"},
    ),
    "spilling": (
        {"small_elements": 0, "tile_elements": 128, "inline_elements": 0},
        {"devices": "cpu", "memory": "36KiB"},
    ),
}


class TimeIsUp(Exception):
    """What the handler raises."""


class Live:
    """The tensors of a program, each with the values that it may have."""

    def __init__(self) -> None:
        self.all: list[list[Any]] = []

    def add(self, tensor: it.Tensor, values: Any) -> it.Tensor:
        self.all.append([tensor, values])
        return tensor

    def write(self, k: int, key: Any, value: Any) -> None:
        tensor, before = self.all[k]
        after = before.copy()
        after[key] = value
        self.all[k].append(after)
        tensor[key] = value
        self.all[k] = [tensor, after]

    def check(self, say: str) -> None:
        for k, (tensor, *choices) in enumerate(self.all):
            found = tensor.numpy()
            assert any(np.array_equal(found, each) for each in choices), f"{say}: value {k}"


def program(live: Live, values: np.ndarray[Any, Any]) -> None:
    x = live.add(it.asarray(values), values)
    y = live.add(x * 2 + 1, values * 2 + 1)
    live.add(it.sort(y), np.sort(values * 2 + 1))
    live.write(1, slice(3, 200), 7.0)
    z = live.add(y.reshape(-1, 10).T + 1, live.all[1][1].reshape(-1, 10).T + 1)
    live.add(z.max(axis=0), live.all[3][1].max(axis=0))
    it.compute(*(row[0] for row in live.all))
    live.write(0, values > 1, -1.0)
    live.add(x[x < 0] * 2, live.all[0][1][live.all[0][1] < 0] * 2)
    it.compute(live.all[0][0], live.all[-1][0])


@pytest.fixture
def handler() -> Iterator[Callable[[int], None]]:
    def raise_it(number: int, frame: Any) -> None:
        raise TimeIsUp("now")

    before = signal.signal(signal.SIGUSR1, raise_it)
    traced = sys.gettrace()
    yield raise_it  # type: ignore[misc]
    sys.settrace(traced)
    signal.signal(signal.SIGUSR1, before)


def interrupted(at: int, values: np.ndarray[Any, Any]) -> tuple[Live, bool, int]:
    live, trace = Live(), AtLine(at, signal.SIGUSR1)
    raised = False
    try:
        sys.settrace(trace)
        program(live, values)
    except TimeIsUp:
        raised = True
    finally:
        sys.settrace(None)
    return live, raised, trace.seen


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("setting", SETTINGS)
def test_what_a_signal_handler_raises_at_any_line_leaves_everything_right(setting: str) -> None:
    rng = logged_rng("any moment", setting)
    values = rng.normal(size=1000)
    config, options = SETTINGS[setting]
    for name, value in config.items():
        setattr(it.config, name, value)
    with it.init(**options) as session:
        for _ in range(2):
            _, _, n_lines = interrupted(-1, values)
        n_raised = 0
        few = 3 if setting == "spilling" else 12  # a plan that is traced takes seconds
        moments = rng.choice(n_lines, 1500 if WHOLE else few, replace=False)
        for at in moments.tolist():
            live, raised, _ = interrupted(at, values)
            n_raised += raised
            live.check(f"signal at line {at} of {n_lines}")
            again = Live()
            program(again, values)
            again.check(f"the next program after a signal at line {at} of {n_lines}")
            del live, again
        assert n_raised, "no signal was heard"
        gc.collect()
        session.drain()
        assert sum(ledger.used_bytes for ledger in local(session).ledgers) == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
