"""Writes through views that are no box of their base: reshapes, parts of them, diagonals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["default", "cpu*3", "strict"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    """One memory; three of them; in tiles of 700, where nothing is small."""
    if request.param == "strict":
        it.config.small_elements, it.config.tile_elements = 0, 700
    with it.init("cpu" if request.param == "default" else "cpu*3"):
        yield request.param


def masked(xp: Any, x: Any, mask: Any) -> None:
    x[mask] = 9


def masked_rows(xp: Any, x: Any, mask: Any) -> None:
    x[mask[:, 0, 0]] = 9


def masked_part(xp: Any, x: Any, mask: Any) -> None:
    x[1:-1, ::2][mask[1:-1, ::2]] = 9


def masked_out(xp: Any, x: Any, mask: Any) -> None:
    xp.negative(x + 1, out=x, where=mask)


def filled(xp: Any, x: Any, mask: Any) -> None:
    x[...] = 7


def part_filled(xp: Any, x: Any, mask: Any) -> None:
    x[1:] = 7


def added(xp: Any, x: Any, mask: Any) -> None:
    x += mask


def part_of_an_array(xp: Any, x: Any, mask: Any) -> None:
    x[:, 2:] = np.arange(x[:, 2:].size).reshape(x[:, 2:].shape)


def broadcast_row(xp: Any, x: Any, mask: Any) -> None:
    x[...] = np.arange(x.shape[1]).reshape(1, -1, 1)


WRITES = [
    masked,
    masked_rows,
    masked_part,
    masked_out,
    filled,
    part_filled,
    added,
    part_of_an_array,
    broadcast_row,
]


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("shape", "dtype"), [((2149, 31, 1), "i8"), ((1, 2149, 31), "f4"), ((331, 1, 207), "f8")]
)
@pytest.mark.parametrize("waits", [False, True])
def test_writes_through_a_reshape_reach_every_cell(
    write: Any, dtype: str, shape: tuple[int, ...], waits: bool, mode: str
) -> None:
    n = int(np.prod(shape))
    mask = np.random.default_rng(n).random(shape) < 0.5
    host = np.arange(n, dtype=dtype)
    given = it.asarray(host.copy())
    given = given * 1 if waits else given
    write(np, host.reshape(shape), mask)
    write(it, given.reshape(shape), it.asarray(mask))
    np.testing.assert_array_equal(given.numpy(), host)


@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_the_merged_axes_of_a_table_are_written_in_one_column(dtype: str, mode: str) -> None:
    host = np.arange(66930, dtype=dtype).reshape(194, 345)
    mask = np.random.default_rng(1).random((66930, 1)) < 0.5
    given = it.asarray(host.copy())
    host.reshape(-1, 1)[mask] = 9
    given.reshape(-1, 1)[it.asarray(mask)] = 9
    np.testing.assert_array_equal(given.numpy(), host)


def test_many_diagonals_with_an_axis_of_length_one_are_written(mode: str) -> None:
    host = np.arange(90 * 90 * 100.0).reshape(90, 90, 100)
    given = it.asarray(host.copy())
    value = np.arange(9000.0).reshape(100, 90, 1)
    cells = given.reshape(8100, 100)[::91].T[..., None]
    cells[...] = value
    host.reshape(8100, 100)[::91].T[..., None][...] = value
    np.testing.assert_array_equal(given.numpy(), host)


@pytest.mark.parametrize("n", [5, 1000, 70_000])
def test_a_masked_write_of_the_target_itself_reads_the_old_values(n: int) -> None:
    """NumPy reads what it has written there."""
    a = (np.arange(n) % 250 + 1).astype("u1")
    mask = np.ones(n, bool)
    x = it.asarray(a)
    x[it.asarray(mask)] = x[::-1]
    assert np.array_equal(x.numpy(), a[::-1])
    kept = np.arange(n) % 3 == 0
    y = it.asarray(kept)
    y[y[::-1]] = False
    assert np.array_equal(y.numpy(), kept & ~kept[::-1])
