"""The scalar vocabulary: an expression is a tree, and the tree computes the expression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from infinitensor.ops.table.scalar import Arg, Term, evaluate, n_inner, trace

NUMPY: dict[str, Any] = {
    word: getattr(np, word)
    for word in ("add", "subtract", "multiply", "divide", "negative", "sqrt", "hypot", "exp")
}
TORCH: dict[str, Any] = {word: getattr(torch, word) for word in NUMPY}

EXPRESSIONS: list[Any] = [
    (lambda e, x, y: e.sqrt(x * x + y * y), np.hypot, 3),
    (lambda e, x, y: -x / (y + 3.0), lambda x, y: -x / (y + 3.0), 2),
    (lambda e, x, y: 1.0 - e.exp(x - y), lambda x, y: 1.0 - np.exp(x - y), 2),
    (lambda e, x, y: x + y, np.add, 0),
]


@pytest.mark.parametrize(("expression", "want", "inner"), EXPRESSIONS, ids="abcd")
def test_a_tree_computes_its_expression_in_numpy_and_in_torch(
    expression: Any, want: Any, inner: int
) -> None:
    x, y = np.random.default_rng(1).random((2, 9))
    tree = trace(expression, 2)
    out = np.empty(9)
    assert evaluate(tree, NUMPY, (x, y), out) is out
    np.testing.assert_allclose(out, want(x, y), 1e-14)
    np.testing.assert_array_equal(evaluate(tree, NUMPY, (x, y), None), out)
    found = evaluate(tree, TORCH, (torch.from_numpy(x), torch.from_numpy(y)), None)
    np.testing.assert_allclose(found.numpy(), out, 1e-14)
    assert n_inner(tree) == inner


def test_operators_are_words_in_the_order_they_are_written() -> None:
    x, y = Arg(0), Arg(1)
    assert trace(lambda e, a, b: a - b, 2) == Term("subtract", (x, y))
    assert trace(lambda e, a, b: 2 - b, 2) == Term("subtract", (2, y))
    assert trace(lambda e, a, b: a / b, 2) == Term("divide", (x, y))
    assert trace(lambda e, a: -a, 1) == Term("negative", (x,))
    assert trace(lambda e, a, b: e.hypot(a, b), 2) == Term("hypot", (x, y))


def test_words_are_all_that_occur() -> None:
    tree = trace(lambda e, x: e.where(e.isnan(x), -x, e.exp(-x)), 1)
    assert tree.words() == {"where", "isnan", "negative", "exp"}


def test_equal_expressions_are_equal_trees_and_can_be_keys() -> None:
    first, second = (trace(lambda e, x, y: e.exp(x) + y, 2) for _ in range(2))
    assert first == second
    assert len({first, second}) == 1
    assert first != trace(lambda e, x, y: e.exp(y) + x, 2)


def test_an_argument_or_a_number_is_its_own_value() -> None:
    assert evaluate(Arg(1), NUMPY, (3, 4), None) == 4
    assert evaluate(2.5, NUMPY, (), None) == 2.5
    assert n_inner(Arg(0)) == n_inner(2.5) == 0
