"""Groups that run step by step: which scratch they take, and what their reductions give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor.ir.mesh import Target
from infinitensor.tasking.kernels.by_steps import BySteps, Wanted, lower_by_steps

if TYPE_CHECKING:
    from collections.abc import Callable


def by_steps(program: Callable[[Any], Any], *, parts_out: bool = False) -> BySteps:
    """The last group of a program of a matrix, lowered for CPUs."""
    with strict("cpu", tile_elements=1 << 20) as session:
        made = program(it.asarray(X))
        several = made if isinstance(made, tuple) else (made,)
        plan = prepared(session, *several).plan
    group = plan.analysed.groups[-1]
    graph, target = plan.analysed.graph, Target("cpu")
    return lower_by_steps(Wanted(graph, group, plan.groups[-1], target, parts_out))


X = np.arange(12.0).reshape(3, 4)


def test_steps_share_scratch_once_nobody_reads_what_is_in_it() -> None:
    made = by_steps(lambda x: it.sqrt(it.exp(x + 1) * 2) - 3)
    assert [step.register for step in made.steps] == [0, 1, 0, 1, -1]
    assert made.n_registers == 2
    kept = by_steps(lambda x: (y := x + 1) * 2 - it.exp(y))
    assert kept.n_registers == 3


def test_a_task_gives_what_numpy_gives() -> None:
    made = by_steps(lambda x: (x + 1) * x)
    assert (made.n_outs, made.ends) == (1, [])
    out = np.empty_like(X)
    made.run([X, 1.0, X], [out], 0)
    np.testing.assert_array_equal(out, (X + 1) * X)


@pytest.mark.parametrize("parts_out", [False, True])
def test_reductions_are_behind_their_steps_and_their_outputs_last(parts_out: bool) -> None:
    made = by_steps(lambda x: ((y := x * 2), y.sum(axis=1)), parts_out=parts_out)
    assert [node.op.name for node in made.ends] == ["sum"]
    assert (made.n_outs, made.sources) == (1, [("step", 0)])
    np.testing.assert_array_equal(made.boxes, [[[0, 3], [0, 4]]])
    doubled, sums = np.empty_like(X), np.empty(3)
    made.run([X, 2.0], [doubled, sums], 0)
    np.testing.assert_array_equal(doubled, X * 2)
    np.testing.assert_array_equal(sums, (X * 2).sum(axis=1))


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "i8", "u1", "?"])
def test_reductions_of_a_gpu_by_one_call_are_numpys(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Straight into their results, with and without axes of length one, however they are stored."""
    monkeypatch.setattr(it.config, "small_elements", 0)
    x = (np.random.default_rng(0).normal(size=(6, 7, 8)) * 5).astype(kind)
    near = 1e-2 if kind == "f2" else 1e-5
    moments = () if kind == "?" else ("mean", "var", "std")
    with fake_gpu(), it.init("cuda:0"):
        t = it.asarray(x)
        for axis in (None, 0, -1, (0, 2)):
            places = () if isinstance(axis, tuple) else ("argmin", "argmax")
            for name in ("sum", "amin", "amax", "any", "all", *moments, *places):
                for mine, theirs in ((t, x), (t.transpose(2, 0, 1), x.transpose(2, 0, 1))):
                    for keepdims in (False, True):
                        found = getattr(it, name)(mine, axis=axis, keepdims=keepdims).numpy()
                        wanted = getattr(np, name)(theirs, axis=axis, keepdims=keepdims)
                        assert (found.dtype, found.shape) == (wanted.dtype, np.shape(wanted))
                        np.testing.assert_allclose(
                            found.astype("f8"), np.float64(wanted), near, near
                        )
