"""Products of a vector and a matrix that is made for them alone: one loop, nothing stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.analysis import matvec_as_sum
from infinitensor.events import on
from infinitensor.native import compiler

if TYPE_CHECKING:
    from collections.abc import Callable

needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler")
SHAPE = (70, 90)


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of these are large, and none is small."""
    monkeypatch.setattr(matvec_as_sum, "COMPILED_MATRIX_ELEMENTS", 1)
    monkeypatch.setattr(it.config, "small_elements", 0)


def ops_of(made: Any) -> list[str]:
    """The ops of the tasks that compute it."""
    found: list[str] = []
    with on("task_start", lambda **event: found.append(event["op"])):
        it.compute(made)
    return found


CASES: dict[str, Callable[..., Any]] = {
    "scaled": lambda a, b, x, y: (1.5 * a) @ x,
    "from the left": lambda a, b, x, y: y @ (1.5 * a),
    "transposed": lambda a, b, x, y: (a.T + 1) @ y,
    "of a view": lambda a, b, x, y: (a[::-1] * b) @ x[::-1],
    "left of a view": lambda a, b, x, y: y[::-1] @ (a - b),
    "with the vector": lambda a, b, x, y: (a - x) @ x,
    "one after another": lambda a, b, x, y: (y @ (2 * a)) @ (3 * b.T),
    "two": lambda a, b, x, y: (1.5 * a) @ x + (1.2 * b) @ x,
}


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_values_are_numpys_and_no_product_is_left(case: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    shapes: list[Any] = [SHAPE, SHAPE, SHAPE[1], SHAPE[0]]
    given = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    made = CASES[case](*map(it.asarray, given))
    assert not {"matmul", "combine matmul"} & set(ops_of(made))
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    wanted = CASES[case](*given)
    assert made.dtype == wanted.dtype
    np.testing.assert_allclose(made, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "program",
    [
        lambda a, x: a @ x,
        lambda a, x: (1.5 * a) @ it.stack([x, x], axis=1),
        lambda a, x: (a.astype("complex128") * 2) @ x,
        lambda a, x: (a.astype("int64") * 2) @ x.astype("int64"),
        lambda a, x: (2 * a).T @ x[:70],
    ],
    ids=["stored", "two matrices", "complex", "whole", "a view of it"],
)
def test_others_are_products_as_before(program: Callable[..., Any]) -> None:
    rng = np.random.default_rng(6)
    a, x = it.asarray(rng.normal(size=SHAPE)), it.asarray(rng.normal(size=SHAPE[1]))
    assert "matmul" in ops_of(program(a, x))


def test_a_matrix_that_others_want_is_made_once() -> None:
    a = np.random.default_rng(7).normal(size=SHAPE)
    scaled = 1.5 * it.asarray(a)
    product = scaled @ it.ones(SHAPE[1])
    found: list[str] = []
    with on("task_start", lambda **event: found.append(event["op"])):
        it.compute(scaled, product)
    assert "matmul" in found
    np.testing.assert_array_equal(scaled, 1.5 * a)
    np.testing.assert_allclose(product, (1.5 * a).sum(1))


def test_nothing_is_changed_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it.config, "compile", "never")
    a = it.asarray(np.random.default_rng(8).normal(size=SHAPE))
    assert "matmul" in ops_of((1.5 * a) @ it.ones(SHAPE[1]))
