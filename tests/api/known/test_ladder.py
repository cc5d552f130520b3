"""Operators, ufuncs, functions and methods ask for a way to run in one order, and each way once."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.functions import op_function
from infinitensor.api.known import changing_shapes
from infinitensor.api.known.known_calls import Quick, recorded
from infinitensor.api.small import small_calls

if TYPE_CHECKING:
    from collections.abc import Callable

N = 321_321
"""A length that no other file has: calls are known by shapes."""
KNOWN = ["known"] if recorded is None else []
"""C asks before whether an operator or a ufunc is known; no other asks again."""
NUMPY = ["numpy"] if recorded is None else []
"""C asks before whether operands are small and on the host; of others Python asks nothing more."""
ORDER = [*NUMPY, "changing_shapes", *KNOWN, "record"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways in the order in which they were asked; C is left out of it."""
    found: list[str] = []

    def note(owner: Any, name: str, way: str) -> None:
        original = owner.__dict__[name]

        def noted(*args: Any) -> Any:
            found.append(way)
            return getattr(original, "__func__", original)(*args)

        monkeypatch.setattr(owner, name, noted)

    note(small_calls, "call_numpy", "numpy")
    note(changing_shapes, "call_ufunc", "changing_shapes")
    note(Quick, "call_again", "known")
    note(op_function, "record", "record")
    return found


CALLS: dict[str, tuple[Callable[[it.Tensor], Any], list[str]]] = {
    "operator": (lambda x: operator.sub(x, x), ORDER),
    "reflected operator": (lambda x: 1.25 - x, ORDER),
    "comparison": (lambda x: operator.lt(x, 0.25), ORDER),
    "ufunc": (lambda x: it.hypot(x, x), ORDER),
    "unary operator": (operator.neg, ORDER),
    "ufunc that is not NumPy's own": (it.modf, [*KNOWN, "record"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_asks_each_way_once_and_in_one_order(name: str, asked: list[str]) -> None:
    call, order = CALLS[name]
    call(it.asarray(np.ones(N + 1 + list(CALLS).index(name))))
    assert asked == order


@pytest.mark.parametrize("call", [it.sum, lambda x: x.sum()], ids=["function", "method"])
def test_functions_and_methods_ask_in_the_same_order(
    call: Callable[[it.Tensor], Any], asked: list[str]
) -> None:
    """They have no place of changing shapes of their own."""
    call(it.asarray(np.ones((N, 1 + (call is it.sum)))))
    assert asked == [*NUMPY, "known", "record"]


def test_what_an_operator_does_not_know_it_leaves_to_the_other(asked: list[str]) -> None:
    x = it.asarray(np.ones(N))
    with pytest.raises(TypeError, match="unsupported operand"):
        operator.sub(x, object())
    assert asked == [*NUMPY, "changing_shapes", "known"]
    assert it.asarray([1, 2]).sum() * [0] == [0, 0, 0]
