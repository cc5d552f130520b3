"""Ranks of lines in registers: every dtype, length and choice of ranks, NaN last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.on_gpu import same
from tests.ops.sorting.test_sort_triton import DTYPES, values
from tests.triton_in_numpy import triton_in_numpy

from infinitensor.ops.sorting import select_triton

torch = pytest.importorskip("torch")


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(select_triton, "can_start", lambda *given: True)
    with triton_in_numpy(select_triton) as found:
        yield found


@pytest.mark.parametrize("ranks", [(0,), (350,), (350, 351), (350, 351, 700), (0, 3, 3, 9, 700)])
@pytest.mark.parametrize("dtype", [*DTYPES, "uint16", "uint32", "uint64"])
def test_ranks_are_those_of_sorted_lines(
    launches: list[Any], ranks: tuple[int, ...], dtype: str
) -> None:
    x = values((7, 701), dtype)
    out = torch.empty((7, len(ranks)), dtype=torch.from_numpy(x).dtype)
    assert select_triton.select_in_lines(torch.from_numpy(x), out, ranks)
    np.testing.assert_array_equal(out.numpy(), np.sort(x, 1)[:, list(ranks)])
    assert len(launches) == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -0.0])
def test_lines_of_one_value_have_it_at_every_rank(launches: list[Any], value: float) -> None:
    x = torch.full((3, 2, 2048), value, dtype=torch.float64)
    out = torch.empty((3, 2, 4), dtype=x.dtype)
    assert select_triton.select_in_lines(x, out, (0, 1, 1000, 2047))
    np.testing.assert_array_equal(out.numpy(), np.full((3, 2, 4), value))


def test_halves_with_few_digits_too(launches: list[Any]) -> None:
    x = torch.from_numpy(values((9, 600), "float32")).to(torch.bfloat16)
    out = torch.empty((9, 2), dtype=x.dtype)
    assert select_triton.select_in_lines(x, out, (299, 300))
    wanted = np.sort(x.float().numpy(), 1)[:, [299, 300]]
    np.testing.assert_array_equal(out.float().numpy(), wanted)


def test_long_lines_and_what_is_not_contiguous_are_left_to_torch(launches: list[Any]) -> None:
    refused = [
        torch.zeros((2, 1 << 14), dtype=torch.float64),
        torch.zeros((2, (1 << 14) + 1), dtype=torch.int8),
        torch.zeros((600, 700)).T,
        torch.zeros((3, 80)),
        torch.zeros((9, 700), dtype=torch.complex64),
    ]
    for x in refused:
        out = torch.empty((len(x), 1), dtype=x.dtype)
        assert not select_triton.select_in_lines(x, out, (3,))
    assert not launches


@pytest.mark.gpu
@pytest.mark.parametrize("n", [513, 1000, 3753, 8192])
@pytest.mark.parametrize("dtype", ["int8", "int64", "float16", "float32", "float64"])
def test_medians_that_are_repeated_on_a_gpu_are_numpys(n: int, dtype: str) -> None:
    x = values((40, n), dtype)

    def f(xp: Any, x: Any) -> Any:
        return [xp.median(x, axis=-1), xp.quantile(x, [0.1, 0.9], axis=-1)]

    for _ in range(4):
        same(f, x, rtol=1e-3 if dtype == "float16" else 1e-5)
