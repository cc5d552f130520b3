"""One task: what it reads and makes, and the bytes that it moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict
from tests.runtime.run.test_run import begin

import infinitensor as it
from infinitensor.devices.device import CpuDevice
from infinitensor.errors import DeviceOutOfMemoryError

pytestmark = pytest.mark.local


def test_a_task_finds_its_operands_and_enters_what_it_makes() -> None:
    with strict("cpu", 7, compile="never") as session:
        run, _ = begin(session, it.asarray(np.arange(8.0)) + 1)
        run.tiles.enter_leaves()
        step = run.steps[run.start.order[0]]
        out = step.outs[0].tile
        assert not run.tiles.directory.is_at_home(out)
        run.calls.call(step)
        np.testing.assert_array_equal(run.calls.array(out), np.arange(4.0) + 1)
        assert run.status.n_done == 0, "who counts tasks is above"
        run.release()


def test_bytes_that_come_from_another_device_are_counted() -> None:
    with strict("cpu*2", 8) as session:
        x = it.asarray(np.arange(16.0))
        run, _ = begin(session, x - x[::-1])
        run.go(None, lambda: None)
        assert run.take_counts()["bytes_moved"] == 16 * 8
        run.release()


@pytest.mark.parametrize("n_refused", [1, 2])
def test_refused_scratch_is_asked_for_once_more(
    n_refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[str] = []

    def refuse(tile: Any) -> Any:
        if len(refusals) < n_refused:
            refusals.append("no scratch")
            raise MemoryError("no scratch")
        return tile + 1

    monkeypatch.setattr(CpuDevice, "is_refusal", lambda self, error: type(error) is MemoryError)
    with strict("cpu", 7) as session:
        run, number = begin(session, it.map_tiles(refuse, it.asarray(np.arange(7.0)), form="n->n"))
        if n_refused == 1:
            run.go(None, lambda: None)
            np.testing.assert_array_equal(run.table(number).arrays[0], np.arange(7.0) + 1)
        else:
            with pytest.raises(DeviceOutOfMemoryError, match="left for a kernel to work in"):
                run.go(None, lambda: None)
        assert len(refusals) == n_refused
        run.release()
