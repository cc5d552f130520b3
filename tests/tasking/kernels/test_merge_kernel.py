"""Partial results that C merges: the bits of the steps, and no task of Python's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor import native
from infinitensor.dtypes import bfloat16
from infinitensor.ops.table.numpy_kernels import half_of
from infinitensor.runtime.native import c_program
from infinitensor.tasking.kernels.merge_kernel import _tree

in_c = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")


@pytest.fixture(autouse=True)
def _bind_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_program, "BIND", 0)
    monkeypatch.setattr(c_program, "BIND_MORE", 0)


def reductions(t: Any, axis: Any) -> list[Any]:
    several = [t.sum(axis), t.mean(axis), t.var(axis), t.std(axis, ddof=1, keepdims=True)]
    several += [t.max(axis), t.min(axis, keepdims=True), (t > 0).any(axis), (t > 5).all(axis)]
    return [*several, it.count_nonzero(t, axis), t.prod(axis)]


@pytest.mark.sampled(4)
@in_c
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize(
    "dtype", [np.dtype("f4"), np.dtype("f8"), np.dtype("f2"), bfloat16, np.dtype("i4")], ids=str
)
def test_merges_by_c_have_the_bits_of_steps(dtype: Any, axis: Any) -> None:
    x = (np.random.default_rng(0).normal(size=(301, 70)) * 2).astype(dtype)
    made = []
    for compile_when in ("never", "always"):
        with strict("cpu", 400, compile=compile_when):
            found = reductions(it.asarray(x), axis)
            it.compute(*found)
            made.append([one.numpy() for one in found])
    for step_by_step, generated in zip(*made, strict=True):
        assert step_by_step.dtype == generated.dtype
        assert step_by_step.tobytes() == generated.tobytes()
    np.testing.assert_allclose(made[1][0].astype("f8"), x.astype("f8").sum(axis), 1e-2, 1)


@in_c
@pytest.mark.parametrize("axis", [0, None])
def test_a_program_that_merges_has_no_task_of_pythons(axis: Any) -> None:
    x = np.random.default_rng(1).standard_normal((500, 60))
    x[3, 4], x[70, 5] = np.nan, np.inf
    with strict("cpu", 1000, compile="always"), np.errstate(invalid="ignore"):
        t = it.asarray(x)
        it.stats(reset=True)
        found = [t.sum(axis), t.max(axis), t.var(axis), it.asarray(x[:, :7]).T @ x[:, :9]]
        it.compute(*found)
        stats = it.stats()
        assert stats["tasks"] == stats["tasks_in_c"] > 4
        wanted = [x.sum(axis), x.max(axis), x.var(axis), x[:, :7].T @ x[:, :9]]
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-11, atol=1e-12)


@in_c
def test_what_c_does_not_merge_as_numpy_does_is_pythons() -> None:
    x = np.random.default_rng(2).standard_normal((90, 40))
    z = (x + 1j * x[::-1]).astype(np.complex64)
    with strict("cpu", 200, compile="always"):
        places, total = it.asarray(x).argmin(0), it.asarray(z).sum(0)
        it.compute(places, total)
        np.testing.assert_array_equal(places.numpy(), x.argmin(0))
        np.testing.assert_allclose(total.numpy(), z.sum(0), rtol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_the_tree_is_by_index(n: int) -> None:
    def wanted(some: list[str]) -> str:
        half = half_of(len(some)) if len(some) > 1 else 0
        return f"({wanted(some[:half])}{wanted(some[half:])})" if half else some[0]

    names = [f"{k}" for k in range(n)]
    found = _tree([((name, 0),) for name in names], lambda a, b: ((f"({a[0][0]}{b[0][0]})", 0),))
    assert found[0][0] == wanted(names)
