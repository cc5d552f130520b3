"""Launches: what is one kernel, how tiles are walked, and what is refused."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
from tests.on_gpu import same, some
from tests.tasking.triton.kernel_groups import SINGLE, chain, with_numbers
from tests.triton_in_numpy import triton_in_numpy

import infinitensor as it
from infinitensor import jit
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input, Unsupported
from infinitensor.tasking.triton.triton_launch import MOST_KERNELS, MapKernel, merged_axes
from infinitensor.tasking.triton.triton_source import Group


def launched(
    monkeypatch: pytest.MonkeyPatch, group: Group, *numbers: list[float]
) -> tuple[list[jit.Launch], list[Any]]:
    """The launches of a kernel with these scalars, and what each was given for them."""
    import torch

    found: list[jit.Launch] = []
    given: list[Any] = []

    def note(self: jit.Launch, tiles: Any, scalars: Any) -> None:
        found.append(self)
        given.append(list(scalars))

    monkeypatch.setattr(jit.Launch, "__call__", note)
    kernel, x = MapKernel(group), torch.ones(64)
    for each in numbers:
        kernel([x, *map(np.float32, each)], [x], (64,))
    return found, given


def test_a_long_group_holds_equal_numbers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [2.0, 3.0, 2.0, 0.0, -0.0, np.nan, np.nan, *np.arange(4.0, 12)]
    numbers.append(3.0)
    found, given = launched(monkeypatch, with_numbers(16), numbers)
    ast.parse(found[0].source)
    assert "t2 = t1 * x1\n" in found[0].source
    assert "t15 = t14 * x2\n" in found[0].source
    for k in range(3, 15):  # zeros of two signs and what is no number are held each
        assert f"t{k} = t{k - 1} * x{k + 1}\n" in found[0].source
    passed = [x for k, x in enumerate(numbers) if k not in (2, 15)]
    np.testing.assert_array_equal(given[0], np.array(passed, "f4"))
    short, _ = launched(monkeypatch, with_numbers(4), [2.0] * 4)
    assert "t3 = t2 * x4\n" in short[0].source


def test_numbers_that_come_and_go_make_few_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = [[1.0 + (j if j != k else 0) for j in range(16)] for k in range(1, 12)]
    found, _ = launched(monkeypatch, with_numbers(16), *choices)
    assert len({launch.source for launch in found}) == MOST_KERNELS + 1
    assert "t15 = t14 * x16\n" in found[-1].source


@pytest.mark.parametrize(
    ("word", "kind", "match"),
    [
        ("add", np.complex128, "complex128"),
        ("add", np.bool_, "add of bool"),
    ],
)
def test_what_triton_does_otherwise_is_refused(word: str, kind: Any, match: str) -> None:
    dtype = np.dtype(kind)
    part = GroupStep(Term(word, (Arg(0), Arg(1))), (dtype,) * 2, (("in", 0), ("in", 1)), dtype, 0)
    with pytest.raises(Unsupported, match=match):
        MapKernel(Group((part,), (Input(dtype, False, False),) * 2, 1))


def test_a_cast_to_unsigned_integers_is_refused() -> None:
    part = GroupStep(Term("cast", (Arg(0),)), (SINGLE,), (("in", 0),), np.dtype(np.uint8), 0)
    with pytest.raises(Unsupported, match="cast from float32 to uint8"):
        MapKernel(Group((part,), (Input(SINGLE, False, False),), 1))


def test_axes_that_are_stored_alike_are_walked_as_one() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(4, 5, 6)
    assert merged_axes((4, 5, 6), [x, x]) == [(120, [1, 1], False)]
    row = torch.zeros(6)
    assert merged_axes((4, 5, 6), [x, row]) == [(20, [6, 0], False), (6, [1, 1], False)]
    assert merged_axes((4, 5, 6), [x], (0, 1)) == [(20, [6], True), (6, [1], False)]
    assert merged_axes((1, 1), [x[:1, :1, 0]]) == []


@pytest.mark.parametrize("kind", ["float32", "float64", "int16"])
@pytest.mark.parametrize("shape", [(16, 16), (33, 70), (3, 40, 50), (40, 3, 50), (2, 50, 3, 17)])
def test_arrays_stored_otherwise_are_read_in_blocks(shape: tuple[int, ...], kind: str) -> None:
    torch = pytest.importorskip("torch")
    dtype = np.dtype(kind)
    part = GroupStep(Term("add", (Arg(0), Arg(1))), (dtype,) * 2, (("in", 0), ("in", 1)), dtype, 0)
    kernel = MapKernel(Group((part,), (Input(dtype, False, False),) * 2, 1))
    rng = np.random.default_rng(len(shape))
    first = max(range(len(shape) - 1), key=shape.__getitem__)
    x, y = ((rng.standard_normal(shape) * 99).astype(dtype) for _ in range(2))
    across = torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, first, -1))).movedim(-1, first)
    row = torch.from_numpy(y)[(slice(0, 1),) * (len(shape) - 1)]
    for other in (torch.from_numpy(y), row):
        out = torch.zeros(shape, dtype=across.dtype)
        with triton_in_numpy() as launches:
            kernel([across, other], [out], shape)
        assert launches[0].constants == {"ROWS": 32, "COLUMNS": 32}
        np.testing.assert_array_equal(out.numpy(), x + other.numpy())


@pytest.mark.parametrize("shape", [(15, 400), (400, 15)])
def test_few_rows_or_columns_are_walked_in_a_line(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    x, out = torch.rand(shape[::-1]).T, torch.zeros(shape)
    with triton_in_numpy() as launches:
        MapKernel(with_numbers(1))([x, np.float32(2)], [out], shape)
    assert launches[0].constants.keys() == {"BLOCK"}


@pytest.mark.gpu
def test_transposed_operands_on_a_gpu() -> None:
    def f(xp: Any, x: Any, y: Any) -> list[Any]:
        moved = xp.permute_dims(y, (2, 0, 1))
        return [x.T + x, x.T * 2 + x, xp.exp(-abs(moved)) + 1, x[::-1].T - x, moved - moved[:, :1]]

    for kind in ("f4", "f8"):
        for _ in range(4):
            same(f, some(190, 190, kind=kind), some(40, 7, 300, kind=kind))


@pytest.mark.gpu
@pytest.mark.parametrize("whole", [512 * 8, 512 * 8 + 3])
def test_scalars_of_64_bits_reach_a_kernel_with_all_of_them(whole: int) -> None:
    x = np.random.default_rng(0).uniform(0.5, 2, whole)
    n = np.arange(whole)
    with it.init("cuda:0"):
        before, it.config.compile = it.config.compile, "always"
        try:
            scaled, moved = it.compute(it.asarray(x) * 0.1, it.asarray(n) * 3 + (2**40 + 1))
            for _ in range(20):  # many steps: those of whole blocks are not masked
                scaled = scaled * 0.7 + 0.1
            scaled, moved = scaled.numpy(), moved.numpy()
        finally:
            it.config.compile = before
    wanted = x * 0.1
    for _ in range(20):
        wanted = wanted * 0.7 + 0.1
    np.testing.assert_array_equal(scaled, wanted)
    np.testing.assert_array_equal(moved, n * 3 + (2**40 + 1))


@pytest.mark.gpu
def test_a_kernel_starts_again_on_other_memory_and_streams() -> None:
    import torch

    launch = MapKernel(chain())
    x, y = (torch.rand(1 << 12, device="cuda") for _ in range(2))
    other: Any = torch.cuda.Stream
    for k in range(4):
        stream = other() if k % 2 else torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            out = torch.empty_like(x)
            launch([x, y, float(k)], [out], (1 << 12,))
        stream.synchronize()
        assert torch.equal(out, x * y + k)
        x = x.clone()


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (3, 1), (2, 3, 4), (0, 3), (700, 300)])
def test_any_shape_stride_and_broadcast(shape: tuple[int, ...], always: None) -> None:
    def f(xp: Any, x: Any, row: Any) -> list[Any]:
        return [x.T * 2 + row.T, (x - row) * x, x[..., ::2] * 2 - 1 if x.ndim else x * 2 - 1]

    row = some(*shape[:-1], 1) if shape else some()
    assert same(f, some(*shape), row)["eager_fallbacks"] == 0


@pytest.mark.gpu
def test_evaluations_that_follow_each_other_read_what_the_last_ones_made() -> None:
    """An evaluation is put away while its kernels run: its buffers are handed out again."""
    with it.init("cuda:0"):
        x = it.asarray(np.ones(1 << 22, np.float32))
        for k in range(30):
            y = x * 2 - 1
            it.compute(y)
            del y
            x = x + 1
            it.compute(x)
            assert float(x[k]) == k + 2
