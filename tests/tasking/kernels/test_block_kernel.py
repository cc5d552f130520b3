"""Several kernels on one block of rows after another: what the kernels do one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitensor import native
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input
from infinitensor.tasking.kernels import block_kernel
from infinitensor.tasking.kernels.block_kernel import (
    Blocks,
    Buffer,
    Script,
    Stage,
    block_shape,
    corners_of,
    scratch_bytes,
)
from infinitensor.tasking.kernels.c_kernel import Compiled, compiled_kernel, copy_kernel
from infinitensor.tasking.kernels.thread_scratch import scratch

in_c = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")
DOUBLE = np.dtype("f8")


def binary(word: str, is_scalar: bool = False) -> Compiled:
    step = GroupStep(Term(word, (Arg(0), Arg(1))), (DOUBLE,) * 2, (("in", 0), ("in", 1)), DOUBLE, 0)
    return compiled_kernel(
        (step,), (Input(DOUBLE, False, False), Input(DOUBLE, is_scalar, False)), 1
    )


@pytest.mark.parametrize("lead", [(1,), (7,), (100,), (5, 9)])
def test_corners_and_sizes_of_blocks_cover_a_shape_once(lead: tuple[int, ...]) -> None:
    seen = np.zeros(lead, int)
    for corners, size in corners_of(lead, tuple(max(n // 2, 1) for n in lead)):
        for corner in corners:
            seen[tuple(slice(at, at + n) for at, n in zip(corner, size, strict=True))] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize(
    ("lead", "row_bytes", "wanted"),
    [
        ((1000, 6), 4096, (4, 6)),
        ((5000,), 1000, (128,)),
        ((5000,), 200, (1024,)),
        ((3,), 1, (3,)),
        ((9,), 1 << 30, (1,)),
        ((9,), 0, (9,)),
    ],
)
def test_blocks_have_as_many_rows_as_a_cache_holds(
    lead: tuple[int, ...], row_bytes: int, wanted: tuple[int, ...]
) -> None:
    assert block_shape(lead, row_bytes) == wanted


def two_stages() -> Blocks:
    """out = (x * row + y) * 2.0, with one buffer between; the number is the fourth array."""
    stages = [
        Stage(binary("multiply"), (0, 1), (5,), (30,)),
        Stage(binary("add"), (5, 2), (5,), (30,)),
        Stage(binary("multiply", True), (5, 3), (4,), (30,)),
    ]
    return Blocks(stages, [Buffer(DOUBLE, (30,))], frozenset(), scratch)


@in_c
@pytest.mark.parametrize("block_bytes", [1, 3000, 1 << 17])
@pytest.mark.parametrize("n_rows", [1, 64, 77])
def test_stages_over_blocks_are_the_stages_over_all_rows(
    n_rows: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_kernel, "CACHE_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(block_kernel, "LEAST_BLOCK_ROWS", 1)
    rng = np.random.default_rng(n_rows)
    x, row, y = rng.random((n_rows, 60))[:, ::2], rng.random(30), rng.random((30, n_rows)).T
    out = np.full((n_rows, 30), np.nan)
    blocks = two_stages()
    for _ in range(2):  # as prepared, too
        blocks([x, row, y, 2.0, out], (n_rows,))
        np.testing.assert_array_equal(out, (x * row + y) * 2.0)
    assert len(blocks.prepared) == 1


@in_c
def test_a_block_counts_what_several_stages_read_once() -> None:
    x, out = np.zeros((9, 30)), np.zeros((9, 30))
    blocks = two_stages()
    assert blocks.row_bytes([x, x, x, 2.0, out], 1) == 3 * 30 * 8
    assert blocks.row_bytes([x, x + 1, x, 2.0, out], 1) == 4 * 30 * 8


@in_c
def test_a_script_runs_again_on_other_arrays_that_are_alike() -> None:
    times, copied = binary("multiply", True), copy_kernel(DOUBLE)

    def calls_of(arrays: list[np.ndarray]) -> Any:
        x, out = arrays
        yield copied, [x[:2]], out[:2]
        yield times, [x[2:, ::-1], None], out[2:]

    def given() -> list[np.ndarray]:
        return [np.random.default_rng(1).random((5, 8)), np.full((8, 5), np.nan).T]

    script = Script(given(), calls_of)
    for factor in (2.0, -1.5):
        x, out = given()
        script([x, out], [factor])
        np.testing.assert_array_equal(out[:2], x[:2])
        np.testing.assert_array_equal(out[2:], x[2:, ::-1] * factor)


def test_buffers_of_a_block_or_of_one_long_row_are_declared() -> None:
    small, large = Buffer(DOUBLE, (2,)), Buffer(DOUBLE, (1 << 20,))
    assert small.row_bytes == 16
    assert scratch_bytes([small]) >= 16 * block_shape((1 << 20,), 16)[0]
    assert scratch_bytes([large]) >= large.row_bytes
