"""Kernels on blocks of rows as calls of C: NumPy's values, wherever tiles and rows are stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor import native
from infinitensor.runtime.native import c_program

pytestmark = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")


@pytest.fixture(autouse=True)
def _bind_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_program, "BIND", 0)
    monkeypatch.setattr(c_program, "BIND_MORE", 0)


def program(xp: Any, x: Any) -> list[Any]:
    """Scalars in two stages, and values kept that are one a row, with their axis and without."""
    top = xp.max(x, axis=-1)
    below = (x - top[..., None]) * 0.5
    total = xp.sum(below * below + 2, axis=-1, keepdims=True)
    return [top, total, below / total]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("tile", [64, 500, 1 << 20])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(90, 13), (7, 5, 33), (3, 3000), (2, 300, 80)], ids=str)
def test_blocks_that_c_calls_have_numpys_values(
    shape: tuple[int, ...], dtype: str, tile: int
) -> None:
    x = np.random.default_rng(3).integers(-50, 50, (2, *shape)).astype(dtype)
    with strict("cpu*2", tile, compile="always"):
        t = it.asarray(x)
        it.stats(reset=True)
        for part, own in ((t[0], x[0]), (t[1, ..., ::-1], x[1, ..., ::-1])):
            made = program(it, part)
            it.compute(*made)
            for mine, theirs in zip(made, program(np, own), strict=True):
                np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-6)
        if tile > shape[-1]:
            assert it.stats()["tasks_in_c"] > 0


def test_calls_go_on_with_other_numbers_and_memory() -> None:
    x = np.random.default_rng(4).standard_normal((60, 50))
    with strict("cpu", 1 << 10, compile="always"):
        for factor in (2.0, -3.0, 0.5):
            t = it.asarray(x * factor)
            made = (t * factor - it.mean(t * factor, axis=1, keepdims=True)).numpy()
            wanted = x * factor * factor
            np.testing.assert_allclose(made, wanted - wanted.mean(1, keepdims=True), atol=1e-12)
        assert it.stats()["tasks_in_c"] > 0


def test_rows_whose_buffers_are_too_long_for_a_stack_run_without_them() -> None:
    x = np.random.default_rng(5).standard_normal((4, 1 << 15))
    with strict("cpu", 1 << 20, compile="always"):
        t = it.asarray(x)
        it.stats(reset=True)
        raised = it.exp(t - it.max(t, axis=1, keepdims=True))
        made = (raised * 2 / it.sum(raised * 2, axis=1, keepdims=True)).numpy()
        wanted = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(made, wanted / wanted.sum(1, keepdims=True), rtol=1e-12)
        assert it.stats()["tasks_in_c"] == 0
