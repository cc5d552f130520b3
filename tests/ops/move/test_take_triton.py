"""Reading by index on a GPU: every dtype, axis and number of index arrays, and flags for errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiled import compiles, needs_triton
from tests.on_gpu import some
from tests.triton_in_numpy import triton_in_numpy

import infinitensor as it
from infinitensor.events import lane
from infinitensor.ops.move import take_triton

torch = pytest.importorskip("torch")
DTYPES = ["bool", "uint8", "int16", "float16", "float32", "int64", "complex64", "complex128"]
CASES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ((500,), (0,), (3000,)),
    ((40, 30), (0,), (50, 2)),
    ((3, 40, 5), (1,), (123,)),
    ((2, 9, 1300), (1,), (7,)),
    ((30, 20), (0, 1), (40, 50)),
    ((4, 6, 5, 33), (1, 2), (17,)),
]
ALONG = [((3000, 7), 1, 1), ((40, 30), 1, 50), ((30, 40, 5), 1, 9), ((90, 70), 0, 33)]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(take_triton, "can_start", lambda *given: True)
    monkeypatch.setattr(lane, "checks", [])
    with triton_in_numpy(take_triton) as found:
        yield found


def index_of(shape: tuple[int, ...], n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(-n, n, shape)


@pytest.mark.parametrize(("shape", "axes", "index_shape"), CASES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_those_of_numpy(
    launches: list[Any],
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    index_shape: tuple[int, ...],
    dtype: str,
) -> None:
    x = np.abs(some(*shape) * 50).astype(dtype)
    index = [index_of(index_shape, shape[axis]) for axis in axes]
    wanted = np.ascontiguousarray(x[(*(slice(None),) * axes[0], *index)])
    out = torch.empty_like(torch.from_numpy(wanted))
    given = [torch.from_numpy(i) for i in index]
    sizes = [shape[axis] for axis in axes]
    assert take_triton.take(torch.from_numpy(x), given, sizes, axes[0], out)
    np.testing.assert_array_equal(out.numpy(), wanted)
    assert len(launches) == 1
    assert lane.checks is not None
    assert [check() for check in lane.checks] == [True]


@pytest.mark.parametrize(("shape", "axis", "n_taken"), ALONG)
@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_elements_along_lines_are_those_of_numpy(
    launches: list[Any], shape: tuple[int, ...], axis: int, n_taken: int, dtype: str
) -> None:
    x = np.abs(some(*shape) * 50).astype(dtype)
    index = index_of((*shape[:axis], n_taken, *shape[axis + 1 :]), shape[axis])
    wanted = np.take_along_axis(x, index, axis)
    out = torch.empty_like(torch.from_numpy(wanted))
    assert take_triton.take_along(torch.from_numpy(x), torch.from_numpy(index), axis, out)
    np.testing.assert_array_equal(out.numpy(), wanted)
    assert lane.checks is not None
    assert [check() for check in lane.checks] == [True]
    index.reshape(-1)[700] = -shape[axis] - 1
    assert take_triton.take_along(torch.from_numpy(x), torch.from_numpy(index), axis, out)
    assert [check() for check in lane.checks] == [True, False]
    assert len(launches) == 2


@needs_triton
@pytest.mark.parametrize("axis", [0, 1])
def test_kernels_along_lines_compile(axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    monkeypatch.setattr(take_triton, "has_started", lambda *given: found.append(given[:2]))
    monkeypatch.setattr(take_triton, "can_read", lambda index: True)
    x, index = torch.zeros((3000, 7)), torch.zeros((3000, 7), dtype=torch.int64)
    assert not take_triton.take_along(x, index, axis, x.clone())
    ((launch, tiles),) = found
    assert compiles(launch, [tile.dtype for tile in tiles])


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "uint8"])
def test_indices_are_wrapped_into_their_axis(launches: list[Any], dtype: str) -> None:
    index = index_of((30, 50), 100)
    index = index % 100 if dtype == "uint8" else index
    made = take_triton.wrap(torch.from_numpy(index.astype(dtype)), 100)
    np.testing.assert_array_equal(made.numpy(), index % 100)
    assert made.dtype == torch.int64


@pytest.mark.parametrize("wrong", [-101, 100, 1 << 40, -(1 << 62)])
def test_an_index_out_of_range_sets_a_flag_once(launches: list[Any], wrong: int) -> None:
    x, index = torch.arange(200.0), index_of((3000,), 100)
    index[1234] = wrong
    given, out = torch.from_numpy(index), torch.empty(3000, dtype=x.dtype)
    assert take_triton.take(x[:100].clone(), [given], [100], 0, out)
    made = take_triton.wrap(given, 100)
    assert (made.numpy() >= 0).all()
    assert (made.numpy() < 100).all()
    assert lane.checks is not None
    assert [check() for check in lane.checks] == [False, False]
    assert [check() for check in lane.checks] == [True, True]


def test_what_is_not_for_a_kernel_is_left_to_torch(
    launches: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, index = torch.arange(4000.0).reshape(2, 2000), torch.zeros(2000, dtype=torch.int64)
    out = torch.empty((2, 2000))
    assert not take_triton.take(torch.zeros((2000, 2)).T, [index], [2000], 1, out)
    assert not take_triton.take(x, [index[::2]], [2000], 1, out[:, :1000])
    assert not take_triton.take(x, [index[:9]], [2000], 1, out[:, :9].clone())
    along = torch.zeros((2, 2000), dtype=torch.int64)
    assert not take_triton.take_along(x.T.contiguous().T, along, 1, out)
    assert not take_triton.take_along(x, along[:1], 1, out), "it is broadcast"
    assert not take_triton.take_along(x[:, :0], along, 1, out), "there is nothing to take"
    assert take_triton.wrap(index[:9], 5) is None
    assert take_triton.wrap(index.to(torch.float32), 5) is None
    monkeypatch.setattr(lane, "checks", None)
    assert not take_triton.take(x, [index], [2000], 1, out)
    assert not launches


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_reads_that_are_repeated_on_a_gpu_are_numpys(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a kernel is compiled, and after; an index that is wrong is an error each time."""
    x = np.abs(some(900, 31) * 50).astype(dtype)
    at = index_of((5000,), 900)
    monkeypatch.setattr(it.config, "small_elements", 0)
    with it.init("cuda:0"):
        base, index, other = it.compute(it.asarray(x), it.asarray(at), it.asarray(at % 31))
        for turn in range(3):
            for _ in range(4):
                np.testing.assert_array_equal(it.compute(base[index]).numpy(), x[at])
                np.testing.assert_array_equal(it.compute(base[:, other]).numpy(), x[:, at % 31])
                lines = it.compute(it.take_along_axis(base, other.reshape(-1, 1)[:900], 1))
                wanted = np.take_along_axis(x, (at % 31).reshape(-1, 1)[:900], 1)
                np.testing.assert_array_equal(lines.numpy(), wanted)
                pair = it.compute(base[index, other]).numpy()
                np.testing.assert_array_equal(pair, x[at, at % 31])
            wrong = it.compute(it.asarray(np.where(np.arange(5000) == 77, 900 + turn, at)))
            for _ in range(2):
                with pytest.raises(IndexError, match=f"index {900 + turn} is out of bounds"):
                    it.compute(base[wrong])
            while it.stats()["kernels_compiling"]:
                pass
