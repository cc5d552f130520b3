"""What a mask chooses, by the loops in C: none, some or all of eight entries at a time."""

import numpy as np
import pytest

from infinitensor import native
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.move.mask import select_into

pytestmark = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")


@pytest.mark.parametrize("dtype", ["f8", "c16", "c8", "i4", "b1", "u2"])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 64, 1001])
def test_any_run_of_entries_is_numpys(dtype: str, n: int) -> None:
    rng = np.random.default_rng(n)
    for share in (0.0, 0.01, 0.5, 0.99, 1.0):
        mask = rng.random(n) < share
        mask[: n // 3] = share > 0.5
        x = (rng.random(n) * 100).astype(dtype)
        wide = (rng.random((n, 10)) * 100).astype(dtype)[:, 2:7]
        for skip in {0, 1, int(mask.sum()) // 2}:
            for count in {int(mask.sum()) - skip, (int(mask.sum()) - skip) // 2}:
                if count <= 0:
                    continue
                out, rows = np.empty(count, dtype), np.empty((count, 5), dtype)
                assert select_into(mask, x, out, skip)
                assert select_into(mask, wide, rows, skip)
                where = np.empty(count, np.int64)
                places = loop("take", "places", where.dtype)
                assert places is not None
                places(mask, n, skip, count, 7, where)
                part = slice(skip, skip + count)
                np.testing.assert_array_equal(out, x[mask][part])
                np.testing.assert_array_equal(rows, wide[mask][part])
                np.testing.assert_array_equal(where, np.flatnonzero(mask)[part] + 7)


def test_what_has_no_loop_is_left_alone() -> None:
    mask, x = np.ones((4, 4), bool), np.ones((4, 4, 3))
    assert not select_into(mask, x, np.empty((16, 3)))  # rows behind two axes
    assert not select_into(mask[:, ::2], x[:, ::2, 0], np.empty(8))
    assert not select_into(mask[0], x[:, :, 0].T, np.empty((4, 4)))  # elements apart


def test_complex_numbers_are_stored_anywhere_eight_bytes_apart() -> None:
    raw = np.zeros(16 * 40 + 8, np.uint8)
    x = raw[8:].view(np.complex128)
    x[:] = np.arange(40) * (1 + 2j)
    mask = np.arange(40) % 3 == 0
    out = np.empty(int(mask.sum()), np.complex128)
    assert select_into(mask, x, out, 0)
    np.testing.assert_array_equal(out, x[mask])


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u4", "i2"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.8, 0.9])
def test_nothing_is_written_behind_what_is_chosen(dtype: str, share: float) -> None:
    rng = np.random.default_rng(3)
    for n in (31, 32, 33, 40, 333, 5000):
        mask = rng.random(n) < share
        mask[n // 2 : n // 2 + 70] = True  # a run, and none, among them
        mask[n // 4 : n // 4 + 40] = False
        x = rng.integers(0, 100, n).astype(dtype)
        for count in range(max(int(mask.sum()) - 40, 1), int(mask.sum()) + 1):
            room = np.full(count + 40, 111, dtype)
            assert select_into(mask, x, room[:count])
            np.testing.assert_array_equal(room[:count], x[mask][:count])
            np.testing.assert_array_equal(room[count:], 111)
