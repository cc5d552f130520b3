"""Corner cases that other projects' tests ask for (tests/suites), each as NumPy has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.api.modes import assert_alike, mode  # noqa: F401 - a fixture

import infinitensor as it

pytestmark = pytest.mark.usefixtures("mode")
NUMBER = np.array(5)


@pytest.mark.parametrize("axis", [0, -1, 1, None])
@pytest.mark.parametrize("dtype", ["i4", "f8", "c8", "?"])
def test_a_number_has_one_axis_to_take_repeat_and_compress(axis: Any, dtype: str) -> None:
    x = NUMBER.astype(dtype)
    assert_alike(lambda xp, x, **o: xp.take(x, [0, 0], **o), x, axis=axis)
    assert_alike(lambda xp, x, **o: x.take(0, **o), x, axis=axis)
    assert_alike(lambda xp, x, **o: xp.repeat(x, 3, **o), x, axis=axis)
    assert_alike(lambda xp, x, **o: xp.compress([True], x, **o), x, axis=axis)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("axis", [0, -1, None, 1])
@pytest.mark.parametrize("include_initial", [False, True])
def test_a_number_runs_along_one_axis(name: str, axis: Any, include_initial: bool) -> None:
    assert_alike(
        lambda xp, x, **o: getattr(xp, name)(x, **o),
        NUMBER,
        axis=axis,
        include_initial=include_initial,
    )


@pytest.mark.parametrize("n_axes", [1, 2, 3])
@pytest.mark.parametrize("n_slices", [0, 1, 2, 3])
def test_a_mask_and_slices_beside_it_take_no_more_axes_than_there_are(
    n_axes: int, n_slices: int
) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    mask = x[(slice(None),) * n_axes + (0,) * (3 - n_axes)] % 2 == 0

    def written(xp: Any, x: Any, mask: Any) -> Any:
        x = x.copy()
        x[(mask, *[slice(None)] * n_slices)] = 7
        return x

    assert_alike(lambda xp, x, mask: x[(mask, *[slice(None)] * n_slices)], x, mask)
    assert_alike(written, x, mask)


def test_broadcast_is_an_iterator_that_begins_again_when_reset() -> None:
    def walked(xp: Any, x: Any, y: Any) -> Any:
        both = xp.broadcast(x, y)
        seen = [next(both), both.index, list(both), both.index, list(both), both.numiter]
        both.reset()
        return [*seen, both.index, list(both)] == [
            *((0, 0), 1, [(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)], 6, [], 2),
            *(0, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]),
        ]

    x, y = np.arange(3).reshape(3, 1), np.arange(2)
    assert walked(np, x, y)
    assert walked(it, it.asarray(x), it.asarray(y))
    both = it.broadcast(it.asarray(x), it.asarray(y))
    assert [int(flat[3]) for flat in both.iters] == [1, 1]
