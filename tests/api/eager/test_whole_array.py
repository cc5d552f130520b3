"""Ops on whole arrays, at once: every kind of op gives what its oracle does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitensor.api.eager import numpy_loops
from infinitensor.api.eager.whole_array import at_once, small_kernel
from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE

X = np.random.default_rng(3).integers(-9, 9, (4, 6)).astype(float)


@pytest.mark.parametrize(
    ("name", "arrays", "params", "wanted"),
    [
        ("add", (X, X[0]), {}, X + X[0]),
        ("sum", (X,), {"axis": 1}, X.sum(1)),
        ("std", (X,), {}, X.std()),
        ("_sort_axis", (X,), {"axis": 0}, np.sort(X, 0)),
        ("matmul", (X, X.T), {}, X @ X.T),
        ("zeros", (), {"shape": (2, 3)}, np.zeros((2, 3))),
        ("add", (X[:0], X[:0]), {}, X[:0]),
        ("sqrt", (-np.ones(3),), {}, np.full(3, np.nan)),
        ("max", (np.array(3.0),), {}, 3.0),
    ],
)
def test_an_op_of_few_values_is_numpys_and_says_nothing(
    name: str, arrays: Any, params: Any, wanted: Any
) -> None:
    np.testing.assert_array_equal(at_once(name, *arrays, **params), wanted)


def test_an_op_with_several_results_gives_all_of_them() -> None:
    part, whole = at_once("modf", X / 4)
    np.testing.assert_array_equal(part, np.modf(X / 4)[0])
    np.testing.assert_array_equal(whole, np.modf(X / 4)[1])


def test_results_go_into_outputs_that_are_there() -> None:
    op = TABLE["add"]
    spec = Spec(X.shape, X.dtype)
    call = op.rule(spec, spec)
    out = np.full((6, 4), np.nan).T
    (found,) = small_kernel(op, call)([X, X], [out])
    assert found is out
    np.testing.assert_array_equal(out, X + X)
    assert small_kernel(op, call) is small_kernel(op, call), "made once"


@pytest.mark.parametrize("name", ["add", "negative", "sqrt", "_mask_select"])
def test_many_elements_are_shared_out_with_the_same_result(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_loops, "LEAST_SHARED_ELEMENTS", 1)
    x = np.abs(np.random.default_rng(1).standard_normal(5000))
    op = TABLE[name]
    if name == "_mask_select":
        mask = x > 0.5
        counts = (int(mask.sum()),)
        call = op.rule(Spec(x.shape, x.dtype), Spec(mask.shape, mask.dtype), counts, 5000)
        (found,) = small_kernel(op, call)([x, mask])
        np.testing.assert_array_equal(found, x[mask])
        return
    ins = [x, x[::-1]] if name == "add" else [x]
    call = op.rule(*(Spec(one.shape, one.dtype) for one in ins))
    (found,) = small_kernel(op, call)(ins)
    np.testing.assert_array_equal(found, getattr(np, name)(*ins))
