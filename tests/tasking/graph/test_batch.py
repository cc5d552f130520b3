"""Groups that differ only in what they read are columns of one family."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.ir.graph import Operand
from infinitensor.ir.tasks import COMPUTE, Column, Family
from infinitensor.tasking.graph.batch import Batch, Pattern, reads_of


def run(ins: list[Any], outs: list[Any], i: int) -> None:
    """Nothing."""


def pattern() -> Pattern:
    """Three tasks that read tiles 10 to 12 and scalar 4; their output tiles come in another
    order."""
    family = Family(
        first=0,
        op="add",
        site="here",
        lane=COMPUTE,
        devices=np.asarray([0, 1, 0], np.int16),
        run=run,
        reads=(
            Column(np.asarray([10, 11, 12], np.int32), np.arange(6).reshape(3, 1, 2)),
            Column(np.full(3, 4, np.int32), scalar=True),
        ),
        writes=(np.asarray([20, 22, 21], np.int32),),
        scratch_bytes=64,
    )
    boxes = np.asarray([[[0, 2]], [[2, 4]], [[4, 5]]])
    owners = np.asarray([0, 0, 1], np.int16)
    return Pattern(family, boxes, owners, np.dtype("f8"), np.asarray([0, 2, 1]), (10, 0))


def test_each_group_has_the_tiles_after_those_before_it() -> None:
    batch = Batch(pattern(), "here", first_tile=50)
    assert [batch.add(value, [30 + value, value]) for value in range(3)] == [50, 53, 56]
    assert batch.columns()["writes"][0].tolist() == [50, 52, 51, 53, 55, 54, 56, 58, 57]
    assert batch.columns()["values"] == (0, 1, 2)


def test_reads_move_with_the_first_tile_of_the_operand_and_scalars_are_repeated() -> None:
    batch = Batch(pattern(), "here", first_tile=50)
    batch.add(0, [30, 7])
    batch.add(1, [90, 8])
    tiles, scalars = batch.columns()["reads"]
    assert tiles.tiles.tolist() == [30, 31, 32, 90, 91, 92]
    assert tiles.boxes.tolist() == np.tile(np.arange(6).reshape(3, 1, 2), (2, 1, 1)).tolist()
    assert scalars.tiles.tolist() == [7] * 3 + [8] * 3
    assert scalars.scalar
    assert batch.columns()["devices"].tolist() == [0, 1, 0] * 2
    assert batch.columns()["scratch_bytes"] == 64


def test_who_reads_what_another_makes_has_another_line_or_another_kin_does_not_join() -> None:
    mine = pattern()
    batch = Batch(mine, "here", first_tile=50)
    batch.add(5, [30, 7])
    assert batch.takes(mine, "here", [1, 2])
    assert not batch.takes(mine, "here", [1, 5])
    assert not batch.takes(mine, "there", [1, 2])
    assert not batch.takes(pattern(), "here", [1, 2])


def test_what_is_read_is_named_by_whose_tiles_hold_it() -> None:
    operands = (Operand(2), Operand(scalar=0), Operand(1))
    assert reads_of(operands, (0, 0, 2)) == [2, 0]
