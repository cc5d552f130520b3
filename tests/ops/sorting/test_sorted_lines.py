"""Lines sorted by NumPy's sort in one call of C: rows and columns, of every size, by threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.ops.sorting import sorted_lines

pytestmark = pytest.mark.skipif(
    not hasattr(sorted_lines.sort, "__self__"), reason="needs a C compiler"
)
SHAPES = [(70,), (5, 300), (300, 5), (40, 33), (1, 9), (9, 1), (3, 40, 17), (2, 1, 100), (2, 70, 3)]


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", ["i1", "u2", "f2", "i4", "f4", "u8", "f8"])
def test_lines_along_every_axis_are_those_of_numpy(dtype: str, n_threads: int) -> None:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        x = (rng.standard_normal(shape) * 50).astype(dtype)
        if x.dtype.kind == "f":
            x.reshape(-1)[::6] = np.nan
        for axis in range(x.ndim):
            out = np.empty_like(x)
            assert sorted_lines.sort(x, axis, out, n_threads)
            np.testing.assert_array_equal(out, np.sort(x, axis))
            assert sorted_lines.sort(out, axis, out, n_threads)  # where it is
            np.testing.assert_array_equal(out, np.sort(x, axis))


def test_other_arrays_are_left_to_who_called() -> None:
    x = np.arange(12.0).reshape(3, 4)
    refused: list[tuple[Any, int, Any]] = [
        (x.T, 0, np.empty((4, 3))),
        (x, 0, np.empty((4, 3)).T),
        (x, 2, np.empty((3, 4))),
        (x, 0, np.empty((3, 4), "f4")),
        (x, 0, np.empty(12)),
        (x[:0], 0, np.empty((0, 4))),
        (x.astype(complex), 0, np.empty((3, 4), complex)),
        (x > 1, 0, np.empty((3, 4), bool)),
    ]
    assert [sorted_lines.sort(*given, 1) for given in refused] == [False] * len(refused)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(90, 60), (300, 400), (20, 5000), (5000, 20)])
@pytest.mark.parametrize("dtype", ["i2", "i4", "f8"])
def test_tables_on_the_host_are_sorted_at_once(
    shape: tuple[int, int], axis: int, dtype: str
) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) * 99).astype(dtype)
    with it.init("cpu*1"):
        given = it.asarray(x)
        it.stats(reset=True)
        found = it.sort(given, axis=axis)
        ways = it.stats()["ways"]
        assert ways["numpy"] + ways["moved"] == 1
        np.testing.assert_array_equal(found.numpy(), np.sort(x, axis))
