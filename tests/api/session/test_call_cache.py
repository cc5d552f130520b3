"""Calls of ops: one object for equal arguments, so that plans are found again by it."""

from __future__ import annotations

import numpy as np
import pytest

from infinitensor.api.session import call_cache
from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE

DOUBLE = np.dtype("f8")


def test_equal_arguments_give_the_same_object_and_others_another() -> None:
    op, spec = TABLE["_copy"], Spec((3, 4), DOUBLE)
    found = call_cache.cached_rule(op, (spec,))
    assert call_cache.cached_rule(op, (Spec((3, 4), DOUBLE),)) is found
    assert call_cache.cached_rule(op, (Spec((4, 3), DOUBLE),)) is not found
    assert call_cache.cached_rule(op, (Spec((3, 4), np.dtype("f4")),)) is not found
    assert found.outs[0] == spec


def test_other_arguments_of_an_op_are_other_calls() -> None:
    op = TABLE["zeros"]
    calls = {id(call_cache.cached_rule(op, (), shape, DOUBLE)) for shape in ((2,), (3,), (2,))}
    assert len(calls) == 2


def test_no_more_calls_are_kept_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    full = dict.fromkeys(range(65537))
    monkeypatch.setattr(call_cache, "_calls", full)
    call_cache.cached_rule(TABLE["_copy"], (Spec((2,), DOUBLE),))
    assert len(full) == 1


def test_what_a_rule_refuses_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_cache, "_calls", {})
    with pytest.raises(ValueError, match="negative dimensions"):
        call_cache.cached_rule(TABLE["zeros"], (), (-1,), DOUBLE)
    assert call_cache._calls == {}
