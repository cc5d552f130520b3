"""Steps: what each task reads and writes, as the columns of its family say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict
from tests.tasking.order import box_of, touches
from tests.tasking.programs import recorded

import infinitensor as it
from infinitensor.ir.tasks import Column, Program
from infinitensor.ir.view import Access
from infinitensor.runtime.state import step as step_module
from infinitensor.runtime.state.step import NOTHING, SCALAR, SPAN, TILE, Read, Step, Steps, look_of


def program(devices: str, made: Any = None, seed: int = 0) -> Program | None:
    with strict(devices) as session:
        tensors = [made()] if made is not None else recorded(seed)
        return prepared(session, *tensors).program if tensors else None


@pytest.mark.parametrize("devices", ["cpu", "cpu*2"])
@pytest.mark.parametrize("seed", range(6))
def test_steps_touch_what_the_columns_say(seed: int, devices: str) -> None:
    found = program(devices, seed=seed)
    if found is None:
        return
    steps = Steps(found, is_null=False)
    for touch in touches(found):
        step = steps[touch.task]
        assert found.graph.family_of(touch.task) == (touch.family, touch.place)
        assert (step.task, step.i) == (touch.task, touch.place)
        assert touch.reads <= set(step.sources())
        assert [out.tile for out in step.outs] == [int(w[touch.place]) for w in touch.family.writes]
        for out in step.outs:
            assert found.graph.box_of(out.tile) == box_of(found, out.tile)
            assert out.shape == tuple(hi - lo for lo, hi in box_of(found, out.tile))
            assert out.slot == found.slots[out.tile]


def test_few_steps_are_kept_and_many_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    found = program("cpu", lambda: it.ones((20, 6)) * 2 + 1)
    assert found is not None
    few = Steps(found, is_null=False)
    assert few[0] is few[0]
    monkeypatch.setattr(step_module, "KEPT_STEPS", 0)
    many = Steps(found, is_null=False)
    assert many[0] is not many[0]
    assert many[0].outs == few[0].outs


def test_operands_are_arrays_scalars_nothing_and_views_of_pieces_in_order() -> None:
    span: Any = "a span"
    reads = (
        Read(TILE, 4),
        Read(TILE, 5, lambda values: values[1:]),
        Read(SCALAR, 1),
        Read(NOTHING),
        Read(SPAN, 6, lambda values: values, span),
    )
    family: Any = None
    step = Step(0, family, 0, 0, (7, 8), reads, ())
    tiles = {t: np.full(3, t) for t in range(9)}
    ins = step.operands([0.5, 1.5], tiles.__getitem__, lambda s, look: look(s))
    assert [int(x[0]) for x in ins[:4]] == [7, 8, 4, 5]
    assert len(ins[3]) == 2
    assert ins[4:] == [1.5, None, "a span"]


@pytest.mark.parametrize(
    ("box", "access", "wanted"),
    [
        (((4, 6), (1, 3)), None, np.s_[1:3, 1:3]),
        (((5, 5), (0, 4)), None, np.s_[2:2, :]),
        (((0, 4), (0, 2)), Access(((1, 0, 1), (0, 3, 2)), (-1, -1)), None),
    ],
)
def test_a_look_sees_the_box_in_an_array_that_holds_another(
    box: Any, access: Access | None, wanted: Any
) -> None:
    whole = np.arange(40).reshape(10, 4)
    origin = ((3, 8), (0, 4))
    column = Column(np.zeros(1, np.int32), np.asarray([box]), access)
    found = look_of(column, box, origin)(whole[3:8])
    expected = whole[3:8][wanted] if access is None else whole.T[:, 3::2][0:4, 0:2]
    np.testing.assert_array_equal(found, expected)
