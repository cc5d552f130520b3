"""Plain writes: every box of every view of a base, in arrays that hold a part of it."""

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.config import config
from infinitensor.ir.view import Access
from infinitensor.tasking.groups.write_group import place, put

STEPS = [1, 2, -1, -3]


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("n_new", [0, 1], ids=["as they are", "with a new axis"])
def test_a_box_of_a_view_is_written_where_numpy_writes_it(
    order: tuple[int, ...], n_new: int
) -> None:
    lengths = (7, 8, 9)
    for steps in product(STEPS, repeat=3):
        starts = tuple(0 if step > 0 else n - 1 for n, step in zip(lengths, steps, strict=True))
        axes: tuple[Any, ...] = tuple((base, starts[base], steps[base]) for base in order)
        axes = (None,) * n_new + axes
        access = Access(axes, (-1, -1, -1))
        box = ((0, 1),) * n_new + ((1, 2), (0, 3), (1, 3))
        shape = tuple(hi - lo for lo, hi in box)
        value = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        ours, theirs = np.zeros(lengths), np.zeros(lengths)
        put(ours, access, box, tuple((0, n) for n in lengths), value)
        view = theirs[tuple(slice(None, None, step) for step in steps)].transpose(order)
        view[tuple(slice(lo, hi) for lo, hi in box[n_new:])] = value.reshape(shape[n_new:])
        assert np.array_equal(ours, theirs), steps


def test_a_row_is_written_into_the_part_of_a_base_that_is_held() -> None:
    access = Access(((1, 2, 3),), (5, -1))
    held = np.zeros((2, 6))
    found = place(access, ((1, 3),), ((4, 6), (4, 10)))
    for _ in range(2):  # a place is for every run
        found.put(held, np.array([1.0, 2.0]))
        found.put(held, 7.0)
    expected = np.zeros((2, 6))
    expected[1, [1, 4]] = 7
    assert np.array_equal(held, expected)
    halves = np.zeros((2, 6), complex)
    place(replace(access, part="imag"), ((1, 3),), ((4, 6), (4, 10))).put(halves, np.ones(2))
    assert np.array_equal(halves, expected / 7 * 1j)


def test_a_small_write_of_what_is_much_work_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "small_elements", 1_000)
    rng = np.random.default_rng(3)
    values = rng.integers(0, 9, (200, 30)).astype(float)
    with it.init("cpu"):
        x = it.asarray(values) + 0
        made, expected = it.zeros((40, 40)), np.zeros((40, 40))
        for i in range(30):
            made[i, i:30] = made[i:30, i] = x[:, i] @ x[:, i:] / 2
            expected[i, i:30] = expected[i:30, i] = values[:, i] @ values[:, i:] / 2
        assert it.stats()["evaluations"] <= 2, "x, whose parts are read in a loop; not each write"
        assert np.array_equal(made.numpy(), expected)
