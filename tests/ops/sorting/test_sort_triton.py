"""Short lines sorted on a GPU: every dtype, axis and length, NaN last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.on_gpu import same
from tests.triton_in_numpy import triton_in_numpy

import infinitensor as it
from infinitensor.ops.sorting import sort_triton

torch = pytest.importorskip("torch")
LEAST, MOST = sort_triton.LEAST_SORTED_ELEMENTS, sort_triton.MOST_LINE_ELEMENTS
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
SHAPES = [((3001, 3), 1), ((41, 130), 0), ((7, 97, 9), 1), ((9, MOST), 1), ((LEAST, 1), 1)]


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    if np.dtype(dtype).kind in "iub":
        low, high = (0, 2) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return rng.integers(low, high, shape, dtype, endpoint=dtype != "bool")
    x = rng.normal(size=shape).astype(dtype)
    x.reshape(-1)[::11] = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0][len(shape)]
    x.reshape(-1)[::13] = -np.nan
    x.reshape(-1)[::17] = -np.inf
    return x


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sort_triton, "can_start", lambda *given: True)
    with triton_in_numpy(sort_triton) as found:
        yield found


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_lines_are_sorted_as_numpy_sorts_them(
    launches: list[Any], shape: tuple[int, ...], axis: int, dtype: str
) -> None:
    x = values(shape, dtype)
    out = torch.empty_like(torch.from_numpy(x))
    assert sort_triton.sort_short_lines(torch.from_numpy(x), out, axis - len(shape))
    np.testing.assert_array_equal(out.numpy(), np.sort(x, axis))
    assert len(launches) == 1


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unsigned_integers_are_ordered_as_such(launches: list[Any], dtype: str) -> None:
    x = values((900, 7), dtype)
    out = torch.empty_like(torch.from_numpy(x))
    assert sort_triton.sort_short_lines(torch.from_numpy(x), out, 1)
    np.testing.assert_array_equal(out.numpy(), np.sort(x, 1))


def test_halves_with_few_digits_too(launches: list[Any]) -> None:
    x = torch.from_numpy(values((900, 7), "float32")).to(torch.bfloat16)
    out = torch.empty_like(x)
    assert sort_triton.sort_short_lines(x, out, 1)
    np.testing.assert_array_equal(out.float().numpy(), np.sort(x.float().numpy(), 1))


def test_zeros_are_ordered_by_their_sign(launches: list[Any]) -> None:
    x = torch.from_numpy(np.tile([0.0, -0.0], LEAST))
    out = torch.empty_like(x).reshape(-1, 2)
    assert sort_triton.sort_short_lines(x.reshape(-1, 2), out, 1)
    np.testing.assert_array_equal(np.signbit(out.numpy()), [[True, False]] * LEAST)


@pytest.mark.parametrize("ranks", [(0,), (20,), (20, 21), (20, 40), (0, 3, 3, 39)])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_some_ranks_are_stored_alone(
    launches: list[Any], ranks: tuple[int, ...], dtype: str
) -> None:
    x = values((333, 41), dtype)
    out = torch.empty((333, len(ranks)), dtype=getattr(torch, dtype))
    assert sort_triton.sort_short_lines(torch.from_numpy(x), out, -1, ranks)
    np.testing.assert_array_equal(out.numpy(), np.sort(x)[:, list(ranks)])


def test_long_lines_few_elements_and_others_are_the_libraries(launches: list[Any]) -> None:
    x = torch.zeros((LEAST, 4))
    refused = [
        (torch.zeros((4, MOST + 1)), torch.empty((4, MOST + 1))),
        (x[:9], torch.empty((9, 4))),
        (x[:, ::2], torch.empty((LEAST, 2))),
        (x, torch.empty((LEAST, 8))[:, ::2]),
        (x.to(torch.complex64), torch.empty((LEAST, 4), dtype=torch.complex64)),
    ]
    assert [sort_triton.sort_short_lines(*given, 1) for given in refused] == [False] * 5
    assert launches == []


@pytest.mark.gpu
@pytest.mark.parametrize(("shape", "axis"), [*SHAPES, ((200_000, 41), 1), ((300, 5000), 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gpus_sort_by_it_once_it_is_compiled(
    shape: tuple[int, ...], axis: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_done: list[bool] = []
    sort = sort_triton.sort_short_lines

    def noted(*given: Any) -> bool:
        n_done.append(sort(*given))
        return n_done[-1]

    it.config.small_elements = 0
    monkeypatch.setattr("infinitensor.ops.sorting.sort.sort_short_lines", noted)
    monkeypatch.setattr(sort_triton, "can_start", lambda *given: True)
    same(lambda xp, x: [xp.sort(x, axis=axis)], values(shape, dtype))
    assert any(n_done)


@pytest.mark.gpu
def test_medians_are_the_same_before_and_after_it_is_compiled() -> None:
    x = np.random.default_rng(3).normal(size=(50_000, 41)).astype("f4")
    with it.init("cuda:0"):
        y = it.compute(it.asarray(x))
        for _ in range(300):
            found = it.compute(it.median(y, axis=1), it.quantile(y, 0.3, axis=1))
            np.testing.assert_array_equal(found[0].numpy(), np.median(x, axis=1))
            np.testing.assert_allclose(found[1].numpy(), np.quantile(x, 0.3, axis=1), rtol=1e-6)
