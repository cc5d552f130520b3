"""Values of given ranks without a sort: of any dtype, in one piece or digit by digit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.table_xp import TableXp
from tests.triton_in_numpy import triton_in_numpy

from infinitensor.ops.sorting import sort_triton
from infinitensor.ops.sorting.rank_select import MOST_RANKS, _select_kernel, in_parts, of_ranks

RNG = np.random.default_rng(24)


class ShortLines(TableXp):
    """Every line is shorter than two blocks: one kernel looks through it."""

    def block(self, n: int) -> int:
        return 1 << 40


SPACES = [
    pytest.param(TableXp(5), id="cut"),
    pytest.param(TableXp(), id="whole"),
    pytest.param(ShortLines(5), id="short"),
]


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("xp", SPACES)
def test_values_of_ranks_are_those_of_the_sorted_lines(xp: Any, dtype: str) -> None:
    x = RNG.integers(-40, 40, (3, 25)).astype(dtype)
    ranks = [0, 3, 3, 12, 24]
    np.testing.assert_array_equal(of_ranks(xp, x, ranks), np.sort(x)[:, ranks])


@pytest.mark.parametrize("xp", SPACES)
def test_signs_infinities_and_nan_are_in_numpys_order(xp: Any) -> None:
    x = np.array([[np.inf, -1.0, 5e-324, np.nan, -np.inf, 0.0, 1e308, -1e-308, np.nan, 2.0]])
    found = of_ranks(xp, x, list(range(10)))
    np.testing.assert_array_equal(found, np.sort(x))


def test_many_ranks_and_complex_values_come_from_a_sorted_line() -> None:
    x = RNG.normal(size=(2, 30))
    ranks = list(range(MOST_RANKS + 3))
    np.testing.assert_array_equal(of_ranks(TableXp(5), x, ranks), np.sort(x)[:, ranks])
    z = x + 1j * x[::-1]
    np.testing.assert_array_equal(of_ranks(TableXp(5), z, [2, 9]), np.sort(z)[:, [2, 9]])


@pytest.mark.parametrize("xp", SPACES)
@pytest.mark.parametrize("ranks", [[0], [4], [3, 11], [2, 2, 19]])
def test_parts_are_divided_by_the_ranks_and_keep_their_order(xp: Any, ranks: list[int]) -> None:
    x = RNG.integers(0, 9, (2, 20)).astype("f8")
    for line, found in zip(x, in_parts(xp, x, ranks), strict=True):
        values = np.sort(line)[ranks]
        np.testing.assert_array_equal(found[ranks], values)
        part = (line[:, None] > values).sum(1) + (line[:, None] >= values).sum(1)
        np.testing.assert_array_equal(found, line[np.argsort(part, kind="stable")])


def test_lines_of_equal_values_and_of_one_value_have_their_value() -> None:
    np.testing.assert_array_equal(of_ranks(TableXp(5), np.full((2, 30), 7), [0, 29]), 7)
    np.testing.assert_array_equal(of_ranks(TableXp(5), np.array([[3.5]]), [0]), [[3.5]])


@pytest.mark.parametrize("n_ranks", [0, 2, MOST_RANKS, MOST_RANKS + 1, 40])
def test_few_and_many_ranks_are_read_from_lines_that_torch_sorts(n_ranks: int) -> None:
    torch = pytest.importorskip("torch")
    x, ranks = RNG.normal(size=(3, 50)), tuple(RNG.integers(0, 50, n_ranks).tolist())
    out = torch.empty((3, n_ranks), dtype=torch.float64)
    _select_kernel(torch, torch.from_numpy(x), out, ranks)
    np.testing.assert_array_equal(out.numpy(), np.sort(x)[:, list(ranks)])


def test_lines_that_are_columns_are_brought_together_for_a_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(sort_triton, "can_start", lambda *given: True)
    x = RNG.normal(size=(38, 50)).astype(np.float32)
    out = torch.empty((50, 2))
    with triton_in_numpy(sort_triton) as launches:
        _select_kernel(torch, torch.from_numpy(x).T, out, (3, 37))
    np.testing.assert_array_equal(out.numpy(), np.sort(x, 0)[[3, 37]].T)
    assert len(launches) == 1
