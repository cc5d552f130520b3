"""Short lines sorted on a GPU: every dtype, axis and length, NaN last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiled import compiles, needs_triton
from tests.on_gpu import same
from tests.triton_in_numpy import triton_in_numpy

import infinitensor as it
from infinitensor.ops.sorting import sort_triton

torch = pytest.importorskip("torch")
LEAST, MOST = sort_triton.LEAST_SORTED_ELEMENTS, sort_triton.MOST_LINE_ELEMENTS
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
SHAPES = [
    *[((3001, 3), 1), ((301, 24), 1), ((13, 32, 11), 1), ((129, 32), 1), ((LEAST, 1), 1)],
    *[((41, 130), 0), ((7, 97, 9), 1), ((9, MOST), 1)],
]
STABLE: dict[Any, Any] = {np: {"kind": "stable"}, it: {}}


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


def with_ties(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = values(shape, dtype)
    if x.dtype.kind in "iu":
        return x % 5
    if x.dtype.kind == "f":
        x.reshape(-1)[::3], x.reshape(-1)[1::3] = -0.0, 0.0
    return x


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", [*DTYPES, "uint32", "uint64"])
def test_order_is_stable_and_zeros_are_equal(
    launches: list[Any], shape: tuple[int, ...], axis: int, dtype: str
) -> None:
    for x in (values(shape, dtype), with_ties(shape, dtype)):
        out = torch.empty(x.shape, dtype=torch.int64)
        is_there = sort_triton.argsort_short_lines(torch.from_numpy(x), out, axis - len(shape))
        is_wide = x.itemsize == 8 and shape[axis] > sort_triton.MOST_PAIRED_ELEMENTS
        assert is_there is not is_wide
        if is_there:
            np.testing.assert_array_equal(out.numpy(), np.argsort(x, axis, kind="stable"))


@pytest.mark.parametrize("n", range(1, sort_triton.MOST_THREAD_ELEMENTS + 1))
def test_networks_sort_every_line_of_zeros_and_ones(n: int) -> None:
    rng = np.random.default_rng(n)
    every = np.arange(1 << n) if n <= 12 else rng.integers(0, 1 << n, 5000)
    lines = every[:, None] >> np.arange(n) & 1
    for a, b in sort_triton.exchanges(n):
        lines[:, [a, b]] = np.sort(lines[:, [a, b]])
    assert (np.diff(lines) >= 0).all()


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


@pytest.mark.parametrize("n", [41, 21])
@pytest.mark.parametrize("ranks", [(0,), (20,), (19, 20), (7, 20), (0, 3, 3, 13)])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_some_ranks_are_stored_alone(
    launches: list[Any], ranks: tuple[int, ...], dtype: str, n: int
) -> None:
    x = values((333, n), dtype)
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
    assert [sort_triton.argsort_short_lines(*given, 1) for given in refused] == [False] * 5
    assert not sort_triton.argsort_short_lines(x.to(torch.complex128), x, 1)
    assert launches == []


@needs_triton
@pytest.mark.parametrize(
    ("dtype", "n", "order"),
    [("float32", 11, 1), ("float64", 5, 1), ("int16", 70, 1), ("uint8", 9, 0)],
)
def test_they_compile(dtype: str, n: int, order: int) -> None:
    kind = getattr(torch, dtype)
    whole = getattr(torch, f"int{8 * kind.itemsize}")
    x = torch.empty((5, n), dtype=whole)
    out = torch.empty((5, n), dtype=torch.int64 if order else whole)
    shape = (5, n, 1, *sort_triton.order_of(kind), order)
    assert compiles(sort_triton._launch(shape, (x, out)), [x.dtype, out.dtype])


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((200_000, 11), 1), ((999, 24), 1), ((13, 32, 11), 1), ((200_000, 41), 1), ((300, 5000), 0)],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gpus_sort_by_it_once_it_is_compiled(
    shape: tuple[int, ...], axis: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_done = {"sort_short_lines": 0, "argsort_short_lines": 0}

    def noted(name: str) -> Any:
        start = getattr(sort_triton, name)

        def counted(*given: Any) -> bool:
            is_done: bool = start(*given)
            n_done[name] += is_done
            return is_done

        return counted

    it.config.small_elements = 0
    for name in n_done:
        monkeypatch.setattr(f"infinitensor.ops.sorting.sort.{name}", noted(name))
    monkeypatch.setattr(sort_triton, "can_start", lambda *given: True)
    same(lambda xp, x: [xp.sort(x, axis=axis)], values(shape, dtype))
    for x in (values(shape, dtype), with_ties(shape, dtype)):
        same(lambda xp, x: [xp.argsort(x, axis=axis, **STABLE[xp])], x)
    assert n_done["sort_short_lines"]
    is_wide = np.dtype(dtype).itemsize == 8 and shape[axis] > sort_triton.MOST_PAIRED_ELEMENTS
    assert bool(n_done["argsort_short_lines"]) is not is_wide


@pytest.mark.gpu
def test_medians_are_the_same_before_and_after_it_is_compiled() -> None:
    x = np.random.default_rng(3).normal(size=(50_000, 41)).astype("f4")
    with it.init("cuda:0"):
        y = it.compute(it.asarray(x))
        for _ in range(300):
            found = it.compute(it.median(y, axis=1), it.quantile(y, 0.3, axis=1))
            np.testing.assert_array_equal(found[0].numpy(), np.median(x, axis=1))
            np.testing.assert_allclose(found[1].numpy(), np.quantile(x, 0.3, axis=1), rtol=1e-6)
