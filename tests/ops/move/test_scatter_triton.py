"""Writing by index on a GPU: few entries and many, of every dtype, by neighbouring axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiled import compiles, needs_triton
from tests.on_gpu import some
from tests.triton_in_numpy import triton_in_numpy

import infinitensor as it
from infinitensor.events import lane
from infinitensor.ops.move import scatter_triton, take_triton

torch = pytest.importorskip("torch")
CASES: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
    ((50,), (0,), 700),
    ((500,), (0,), 3000),
    ((34, 60), (0,), 34),
    ((3, 40, 5), (1,), 123),
    ((2, 9, 1300), (1,), 7),
    ((30, 20), (0, 1), 999),
    ((4, 6, 5, 33), (1, 2), 1700),
]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(take_triton, "can_start", lambda *given: True)
    monkeypatch.setattr(scatter_triton, "can_start", lambda *given: True)
    monkeypatch.setattr(lane, "checks", [])
    with triton_in_numpy(take_triton) as found:
        yield found


def _operands(
    shape: tuple[int, ...], axes: tuple[int, ...], n: int, dtype: str
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(n)
    base = (some(*shape) * 50).astype(dtype)
    index = [rng.integers(-shape[axis], shape[axis], n) for axis in axes]
    kept = (*shape[: axes[0]], n, *shape[axes[-1] + 1 :])
    return base, index, (rng.standard_normal(kept) * 50).astype(dtype)


@pytest.mark.parametrize("mode", ["set", "add"])
@pytest.mark.parametrize(("shape", "axes", "n"), CASES)
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "float16", "float32", "float64", "int64", "complex64"]
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_entries_are_written_one_after_another(
    launches: list[Any],
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    n: int,
    dtype: str,
    mode: str,
) -> None:
    base, index, values = _operands(shape, axes, n, dtype)
    given = torch.from_numpy(values), [torch.from_numpy(i) for i in index]
    out, sizes = torch.from_numpy(base.copy()), [shape[axis] for axis in axes]
    can = scatter_triton.can_write(*given, sizes, out, mode)
    is_many = n > scatter_triton.MOST_ENTRIES
    assert can == (mode == "set" or not (is_many or dtype in ("bool", "complex64")))
    if not can:
        return
    assert scatter_triton.write(*given, sizes, axes[0], out, mode)
    place: Any = (*(slice(None),) * axes[0], *index)
    if mode == "set":
        base[place] = values
    else:
        np.add.at(base, place, values)
    np.testing.assert_array_equal(out.numpy(), base)
    assert len(launches) == 1 + is_many
    assert lane.checks is not None
    assert [check() for check in lane.checks] == [True]


@pytest.mark.parametrize("n", [300, 3000])
def test_an_index_out_of_range_raises_a_flag(launches: list[Any], n: int) -> None:
    index = torch.zeros(n, dtype=torch.int64)
    index[7] = 500
    out = torch.zeros(500)
    assert scatter_triton.write(torch.ones(n), [index], [500], 0, out, "set")
    assert lane.checks is not None
    assert [check() for check in lane.checks] == [False]


def test_what_is_small_or_not_contiguous_and_other_words_are_torchs(launches: list[Any]) -> None:
    index, values, out = torch.zeros(300, dtype=torch.int64), torch.zeros(300), torch.zeros(9)

    def can(values: Any = values, index: Any = index, out: Any = out, mode: str = "set") -> bool:
        return scatter_triton.can_write(values, [index], [9], out, mode)

    assert can()
    assert can(mode="add")
    assert not can(mode="maximum")
    assert not can(values.double())
    assert not can(torch.zeros(600)[::2])
    assert not can(values[:9], index[:9])
    assert not can(out=torch.zeros(18)[::2])
    many = torch.zeros(3000, dtype=torch.int64)
    wide = torch.zeros(100_000)
    assert not scatter_triton.can_write(torch.zeros(3000), [many], [100_000], wide, "set")
    assert not scatter_triton.can_write(torch.zeros(3000), [many], [9], out, "add")


@needs_triton
@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "float32", "float64", "int64"])
def test_kernels_that_write_compile(dtype: str) -> None:
    kind = getattr(torch, dtype)
    for adds, n_axes in ((0, 1), (1, 1), (1, 2)):
        launch = scatter_triton._few_launch((adds, 1, 34, 40, 60, *(40, 3)[:n_axes]), ())
        assert compiles(launch, [kind, kind, torch.int32, *[torch.int64] * n_axes])


@needs_triton
def test_kernels_of_many_entries_compile() -> None:
    whole, small = torch.int64, torch.int32
    launch = scatter_triton._mark_launch((9000, 400), ())
    assert compiles(launch, [small, small, whole])
    launch = scatter_triton._set_launch((1, 9000, 400, 1, 400), ())
    assert compiles(launch, [whole, whole, small, small, whole])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u1", "c8"])
@pytest.mark.parametrize(("shape", "axes", "n"), CASES)
def test_entries_written_on_a_gpu_are_numpys(
    shape: tuple[int, ...], axes: tuple[int, ...], n: int, dtype: str
) -> None:
    """The same while kernels are compiled and after; a sum of few entries has NumPy's bits."""
    base, index, values = _operands(shape, axes, n, dtype)
    place: Any = (*(slice(None),) * axes[0], *index)
    added, put = base.copy(), base.copy()
    np.add.at(added, place, values)
    put[place] = values
    is_few = n <= scatter_triton.MOST_ENTRIES and dtype != "c8"
    rtol = 0 if is_few else {"f2": 0.1, "f4": 1e-4}.get(dtype, 1e-4)
    with it.init("cuda:0"):
        given = it.compute(it.asarray(values), *map(it.asarray, index))
        for _ in range(3):
            for _ in range(4):
                found, written = it.asarray(base.copy()), it.asarray(base.copy())
                at = (*(slice(None),) * axes[0], *given[1:])
                it.add.at(found, at, given[0])
                written[at] = given[0]
                np.testing.assert_allclose(found.numpy(), added, rtol, rtol * 1e3)
                np.testing.assert_array_equal(written.numpy(), put)
            while it.stats()["kernels_compiling"]:
                pass


def _added_far(x: Any, index: Any) -> Any:
    it.add.at(x, index, it.ones((40, 20)))
    return x.numpy()


@pytest.mark.gpu
def test_an_index_out_of_range_is_numpys_error_on_a_gpu() -> None:
    with it.init("cuda:0"):
        x, index = it.compute(it.zeros((100, 20)), it.asarray(np.full(40, 100)))
        with pytest.raises(IndexError, match="out of bounds for axis 0 with size 100"):
            _added_far(x, index)
