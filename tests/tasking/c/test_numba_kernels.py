"""Without a C compiler large groups go through Numba: NumPy's values, and who cannot is counted."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor import native
from infinitensor.jit import has_numba

pytestmark = pytest.mark.filterwarnings("error")
with_numba = pytest.mark.skipif(not has_numba(), reason="no Numba here")


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_find_compiler", lambda name, path: None)
    monkeypatch.setattr(native, "_warned", [True])  # that there is none
    monkeypatch.setattr(it.config, "compile", "always")
    monkeypatch.setattr(it.config, "small_elements", 0)


@with_numba
@pytest.mark.parametrize("tile", [0, 100])
def test_programs_are_numpys_and_nothing_runs_step_by_step(
    no_compiler: None, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", tile)
    x = np.random.default_rng(2).standard_normal((30, 20))

    def program(xp: Any, x: Any) -> list[Any]:
        y = xp.where(x > 0, xp.sqrt(xp.abs(x) * 2 + 1), x * 0.5)
        z = x.T * 2 + x[:, :1].T - 1
        return [y, z, (y * 2 - 1).sum(axis=1), xp.clip(x, -0.5, 0.5) * 3, (x * 2 > y).any()]

    with it.init("cpu"):
        got = program(it, it.asarray(x))
        it.compute(*got)
        for mine, wanted in zip(got, program(np, x), strict=True):
            assert mine.dtype == wanted.dtype
            np.testing.assert_allclose(mine.numpy(), wanted, rtol=1e-13, atol=1e-14)
        assert it.stats()["eager_fallbacks"] == 0
        t = it.asarray(x)
        for _ in range(3):
            x[1:-1] = x[:-2] + x[2:] * 0.5
            t[1:-1] = t[:-2] + t[2:] * 0.5
        np.testing.assert_array_equal(t.numpy(), x)


def test_without_numba_groups_run_step_by_step_and_are_counted(
    no_compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with it.init("cpu"):
        x = it.asarray(np.arange(20.0))
        np.testing.assert_array_equal((x * 2 + 1).numpy(), np.arange(20.0) * 2 + 1)
        assert it.stats()["eager_fallbacks"] == 1


@with_numba
def test_what_numba_does_not_take_is_named_in_a_warning(
    no_compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise TypeError("no such function")

    monkeypatch.setattr("numba.njit", lambda **options: lambda function: fails)
    with it.init("cpu"):
        x = it.asarray(np.arange(21.0))
        with pytest.warns(RuntimeWarning, match="Numba failed: no such function"):
            got = (x * 2 + 3).numpy()
        np.testing.assert_array_equal(got, np.arange(21.0) * 2 + 3)


def test_without_a_compiler_a_large_reduction_is_counted(no_compiler: None) -> None:
    x = np.random.default_rng(0).random((40, 300))
    with it.init("cpu"):
        np.testing.assert_allclose(it.asarray(x).sum(axis=1).numpy(), x.sum(axis=1))
        assert it.stats()["eager_fallbacks"] == 1
        np.testing.assert_array_equal(it.asarray(x).argmax(axis=1).numpy(), x.argmax(axis=1))
        assert it.stats()["eager_fallbacks"] == 1, "NumPy finds one place as fast"
