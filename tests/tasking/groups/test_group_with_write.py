"""A group and the write that ends it are one task: what was there before is read first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import prepared, strict
from tests.on_gpu import same, some

import infinitensor as it
from infinitensor.tasking.groups.group_with_write import copy_around


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("devices", ["cuda:0", "cuda:0*2"])
def test_writes_read_what_was_there_before(devices: str, always: None) -> None:
    def f(xp: Any, x: Any, y: Any) -> list[Any]:
        for _ in range(3):
            inner = x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
            x[1:-1, 1:-1] = inner * 0.2
        x[1:] = x[:-1] * 2 + y[1:]  # all of it is read before any of it is written
        kept = x + 1
        x[::2] = x[::2] * 3 - y[::2]
        y[3:9, 2:5] = (y[2:8, 2:5] + y[4:10, 2:5]) * 0.5
        part = y[5:40]
        part[1:-1] = (part[:-2] + part[2:]) * 0.5
        y[0] = x[1] * 2 + 1
        return [x, y, kept, x.sum(0)]

    same(f, some(60, 50), some(60, 50) * 2, devices=devices)


@pytest.mark.gpu
def test_a_stopped_version_that_is_kept_is_copied_first(always: None) -> None:
    with it.init("cuda:0"):
        x = it.asarray(some(50, 40))
        before = x.copy()
        view = x.torch()
        x[1:] = x[:-1] * 2 + 1
        np.testing.assert_array_equal(x.numpy()[1:], before.numpy()[:-1] * 2 + 1)
        np.testing.assert_array_equal(view.cpu().numpy(), before.numpy())


def ops_of(program: Any) -> list[str]:
    """The ops of the tasks that a program over two matrices of one tile becomes, step by step."""
    given = np.arange(60.0).reshape(10, 6)
    with (
        fake_gpu(),
        strict("cuda:0", 1 << 20, compile="never") as session,
    ):
        x, y = it.asarray(given), it.asarray(given + 1)
        made = program(x, y)
        families = prepared(session, *made).program.graph.families
        plain_x, plain_y = given.copy(), given + 1
        wanted = program(plain_x, plain_y)
        for found, plain in zip((*made, x, y), (*wanted, plain_x, plain_y), strict=True):
            np.testing.assert_array_equal(found.numpy(), plain)
        return [family.op for family in families]


def test_a_group_that_reads_nothing_of_the_base_writes_into_it() -> None:
    def program(x: Any, y: Any) -> list[Any]:
        x[1:-1] = y[1:-1] * 2 + 1
        return [x]

    assert ops_of(program) == ["_write"]


def test_a_stencil_writes_beside_and_what_is_around_it_is_copied() -> None:
    def program(x: Any, y: Any) -> list[Any]:
        x[1:-1] = x[1:-1] + x[:-2] * 0.5 + x[2:] * 0.25
        return [x]

    assert ops_of(program) == ["_write"]


def test_a_small_stencil_is_cheaper_in_two_tasks() -> None:
    def program(x: Any, y: Any) -> list[Any]:
        x[1:3, 1:3] = x[:2, 1:3] * 0.5 + x[2:4, 1:3]
        return [x]

    found = ops_of(program)
    assert len(found) == 2
    assert found[-1] == "_write"


def test_what_others_read_too_is_made_by_itself() -> None:
    def program(x: Any, y: Any) -> list[Any]:
        made = y * 2 + 1
        x[...] = made
        return [x, made]

    assert len(ops_of(program)) > 1


def test_a_write_backwards_is_a_task_of_its_own() -> None:
    def program(x: Any, y: Any) -> list[Any]:
        x[::-1] = y * 2 + 1
        return [x]

    assert len(ops_of(program)) > 1


def test_a_write_of_another_dtype_is_cast_as_numpy_casts() -> None:
    def program(x: Any, y: Any) -> list[Any]:
        x[2:5] = (y[2:5] * 2).astype("f4")
        return [x]

    ops_of(program)


@pytest.mark.parametrize("box", [((1, 3), (0, 4)), ((0, 3), (2, 3)), ((0, 3), (0, 4))])
def test_what_is_around_a_box_is_copied_and_nothing_in_it(box: Any) -> None:
    torch = pytest.importorskip("torch")
    new, old = torch.zeros(3, 4), torch.ones(3, 4)
    copy_around(new, old, box)
    inside = np.zeros((3, 4), bool)
    inside[tuple(slice(lo, hi) for lo, hi in box)] = True
    np.testing.assert_array_equal(new.numpy(), np.where(inside, 0, 1))
