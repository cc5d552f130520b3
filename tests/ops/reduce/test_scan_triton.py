"""Running sums of a long line on a GPU: two passes whose bits are always the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiled import compiles, needs_triton
from tests.on_gpu import same
from tests.triton_in_numpy import triton_in_numpy

import infinitensor as it
from infinitensor.ops.reduce import scan_triton

torch = pytest.importorskip("torch")
LEAST, BLOCK = scan_triton.LEAST_SCAN_ELEMENTS, scan_triton.SCAN_BLOCK_ELEMENTS


@pytest.mark.parametrize("n", [LEAST, LEAST + 1, 9 * BLOCK])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_blocks_that_are_scanned_after_those_before_them_are_one_line(n: int, dtype: str) -> None:
    x = (np.random.default_rng(n).random(n) * 9 - 4).astype(dtype)
    given, out = torch.from_numpy(x), torch.empty(n, dtype=getattr(torch, dtype))
    with triton_in_numpy(scan_triton) as launches:
        assert scan_triton.running_sum(given, out, 0)
    wanted = np.cumsum(x.astype("f8") if x.dtype.kind == "f" else x)
    rtol = {"float32": 1e-5, "float64": 1e-12}.get(dtype, 0)
    np.testing.assert_allclose(out.numpy(), wanted, rtol, rtol * 1e5)
    assert [launch.grid[0] for launch in launches] == [-(-n // BLOCK)] * 2


def test_the_first_block_begins_with_nothing_so_that_zeros_keep_their_sign() -> None:
    out = torch.empty(LEAST)
    with triton_in_numpy(scan_triton):
        assert scan_triton.running_sum(torch.full((LEAST,), -0.0), out, 0)
    assert np.signbit(out.numpy()[:BLOCK]).all()


def test_short_lines_tables_and_other_dtypes_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_triton, "can_start", lambda *given: False)
    line = torch.zeros(2 * LEAST)
    refused = [
        (line[: LEAST - 1], torch.empty(LEAST - 1)),
        (line.reshape(2, -1), torch.empty(2, LEAST)),
        (line[::2], torch.empty(LEAST)),
        (line, torch.empty(2 * LEAST, dtype=torch.float64)),
        (line.half(), torch.empty(2 * LEAST, dtype=torch.float16)),
    ]
    with triton_in_numpy(scan_triton) as launches:
        assert [scan_triton.running_sum(*given, 0) for given in refused] == [False] * 5
    assert launches == []
    assert not scan_triton.running_sum(line, torch.empty_like(line), 0), "it is on the host"


@pytest.mark.parametrize("shape", [(3001, 44), (LEAST, 2), (513, 2, 256), (70_000, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_short_rows_are_scanned_several_at_a_time(shape: tuple[int, ...], dtype: str) -> None:
    x = (np.random.default_rng(0).random(shape) * 9 - 4).astype(dtype)
    out = torch.empty(shape, dtype=getattr(torch, dtype))
    with triton_in_numpy(scan_triton) as launches:
        assert scan_triton.running_sum(torch.from_numpy(x), out, len(shape) - 1)
    rtol = {"float32": 1e-5, "float64": 1e-12}.get(dtype, 0)
    wanted = np.cumsum(x, -1, dtype="f8" if x.dtype.kind == "f" else dtype)
    np.testing.assert_allclose(out.numpy(), wanted, rtol, rtol * 100)
    assert len(launches) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_few_long_rows_are_scanned_by_several_programs_each(dtype: str) -> None:
    x = (np.random.default_rng(0).random((7, 2 * BLOCK + 77)) * 9 - 4).astype(dtype)
    x[:, 0] = x[:, BLOCK] = -0.0
    out = torch.empty(x.shape, dtype=getattr(torch, dtype))
    with triton_in_numpy(scan_triton) as launches:
        assert scan_triton.running_sum(torch.from_numpy(x), out, 1)
    rtol = {"float32": 1e-5, "float64": 1e-12}.get(dtype, 0)
    wanted = np.cumsum(x, -1, dtype="f8" if x.dtype.kind == "f" else dtype)
    np.testing.assert_allclose(out.numpy(), wanted, rtol, rtol * 1e4)
    assert np.signbit(out.numpy()[:, 0]).all() == (x.dtype.kind == "f")
    assert [launch.grid[0] for launch in launches] == [21] * 2


@pytest.mark.parametrize("shape", [(1501, 44), (2, 700, 70), (130, 1000)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_of_floats_are_added_row_after_row(
    shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = (np.random.default_rng(0).random(shape) * 9 - 4).astype(dtype)
    out = torch.empty(shape, dtype=getattr(torch, dtype))
    is_compiled = [False, True]
    monkeypatch.setattr(scan_triton, "can_start", lambda *given: is_compiled.pop(0))
    with triton_in_numpy(scan_triton) as launches:
        assert not scan_triton.running_sum(torch.from_numpy(x), out, len(shape) - 2)
        assert scan_triton.running_sum(torch.from_numpy(x), out, len(shape) - 2)
        wide = torch.zeros(2, scan_triton.MOST_COLUMNS + 1)
        assert not scan_triton.running_sum(wide, torch.empty_like(wide), 0)
    np.testing.assert_array_equal(out.numpy(), np.cumsum(x, -2))
    assert len(launches) == 1


@pytest.mark.parametrize("shape", [(2000, 44), (LEAST,), (3, 3 * BLOCK)])
def test_integers_are_torchs_until_their_kernels_are_compiled(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_triton, "can_start", lambda *given: False)
    x = torch.ones(shape, dtype=torch.int64)
    with triton_in_numpy(scan_triton) as launches:
        assert not scan_triton.running_sum(x, torch.empty_like(x), len(shape) - 1)
        assert launches == []
        floats = x.double()
        assert scan_triton.running_sum(floats, torch.empty_like(floats), len(shape) - 1)


@needs_triton
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_of_running_sums_compile(dtype: str) -> None:
    kind = getattr(torch, dtype)
    x = torch.zeros(LEAST, dtype=kind)
    assert compiles(scan_triton._scan.make((7, 3 * BLOCK), (x,)), [kind] * 3)
    assert compiles(scan_triton._ahead.make((300, 3000, 300), (x,)), [kind] * 2)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize(
    "shape", [(3001, 44), (1 << 17, 1), (513, 2, 256), (70_000, 3), (7, 20_000)]
)
def test_running_sums_of_short_rows(shape: tuple[int, ...], dtype: Any) -> None:
    given = (np.random.default_rng(0).random(shape) * 9).astype(dtype)
    same(lambda xp, x: [xp.cumsum(x, axis=-1), xp.cumsum(x, axis=0)], given)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", [(3001, 44), (700, 301)])
def test_columns_on_a_gpu_have_numpys_bits_while_a_kernel_is_compiled_and_after(
    shape: tuple[int, ...], dtype: Any
) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) * 99).astype(dtype)
    with it.init("cuda:0"):
        given = it.compute(it.asarray(x))
        for _ in range(2):
            for _ in range(4):
                np.testing.assert_array_equal(it.cumsum(given, axis=0).numpy(), np.cumsum(x, 0))
            while it.stats()["kernels_compiling"]:
                pass


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("n", [1 << 16, 100_001, 8192 * 9])
def test_running_sums_of_long_lines(n: int, dtype: Any) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        return [xp.cumsum(x), xp.cumsum(x[::-1] * 2), xp.cumsum(x * 0 - 0.0)]

    given = (np.random.default_rng(0).random(n) * 9 - 4).astype(dtype)
    same(f, given, rtol=1e-3 if dtype == np.float32 else 1e-9)
    with it.init("cuda:0"):
        twice = [it.cumsum(it.asarray(given)).numpy().tobytes() for _ in range(2)]
        zeros = it.cumsum(it.asarray(np.full(n, -0.0))).numpy()
    assert twice[0] == twice[1]
    assert np.signbit(zeros).all()


@pytest.mark.parametrize(
    ("shape", "axis"), [((300, 257), 0), ((2, 1500, 30), 1), ((5, 3, 9000), 0)]
)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_columns_of_integers_are_scanned_in_blocks_of_rows(
    shape: tuple[int, ...], axis: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums that overflow wrap, as NumPy's do."""
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.min, info.max, shape, dtype)
    out = torch.empty(shape, dtype=getattr(torch, dtype))
    is_compiled = [False, True]
    monkeypatch.setattr(scan_triton, "can_start", lambda *given: is_compiled.pop(0))
    with triton_in_numpy(scan_triton) as launches:
        assert not scan_triton.running_sum(torch.from_numpy(x), out, axis)
        assert scan_triton.running_sum(torch.from_numpy(x), out, axis)
    np.testing.assert_array_equal(out.numpy(), np.cumsum(x, axis, dtype))
    assert len(launches) == 1
