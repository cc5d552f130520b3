"""Public functions of the table: arguments as NumPy takes them, one call for equal ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.functions.op_function import bound_call, check_shape
from infinitensor.dtypes import bfloat16

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")
X = np.arange(12.0).reshape(3, 4)
untyped: Any = it  # what type checkers refuse is called too


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: untyped.add(1), "2"),
        (lambda: untyped.sum(), r"sum\(\) missing 1 required positional argument: 'a'"),
        (lambda: untyped.sum(X, axes=1), r"sum\(\) got an unexpected keyword argument 'axes'"),
        (lambda: untyped.sort(X, a=X), r"sort\(\) got multiple values for argument 'a'"),
        (lambda: untyped.stack(3), "must be passed as a .sequence. type"),
        (lambda: untyped.angle(x1=X), "angle"),
    ],
)
def test_arguments_that_do_not_fit_name_the_function(call: Any, match: str) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        call()


@pytest.mark.parametrize("dtype", ["i1", "u1", "i8", "u8"])
@pytest.mark.parametrize("word", ["less", "less_equal", "greater", "equal", "not_equal"])
@pytest.mark.parametrize("number", [-(2**70), -300, 0, 300, 2**70])
def test_an_integer_beyond_the_dtype_is_compared_as_what_it_is(
    word: str, dtype: str, number: int
) -> None:
    x = np.array([0, 1, 100], dtype)
    for args in ((x, number), (number, x)):
        wanted = getattr(np, word)(*args)
        found = getattr(it, word)(*[it.asarray(a) if a is x else a for a in args])
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_an_integer_that_does_not_fit_is_an_error_and_wraps_in_where() -> None:
    x = it.asarray(np.array([1, 2], "i1"))
    with pytest.raises(OverflowError, match="300"):
        x + 300
    with pytest.raises(OverflowError, match="300"):
        np.array([1, 2], "i1") + 300


@pytest.mark.parametrize("word", ["equal", "not_equal"])
def test_nothing_equals_none(word: str) -> None:
    found = getattr(it, word)(it.asarray(X), None)
    np.testing.assert_array_equal(np.asarray(found), getattr(np, word)(X, None))


def test_numpys_integers_truths_and_lists_are_arguments_like_pythons() -> None:
    t = it.asarray(X)
    np.testing.assert_array_equal(it.sum(t, np.int8(1)).numpy(), X.sum(1))
    total = untyped.sum(t, (np.int64(0), 1), keepdims=np.True_)
    np.testing.assert_array_equal(total.numpy(), [[66.0]])
    np.testing.assert_array_equal(untyped.roll(t, it.asarray(1), 0).numpy(), np.roll(X, 1, 0))
    np.testing.assert_array_equal(it.concatenate([X, t, X.tolist()]).numpy(), np.tile(X, (3, 1)))


def test_equal_calls_are_one_object_and_what_only_compares_equal_is_not() -> None:
    made: list[object] = []
    name = object()  # of no other call

    def rule() -> object:
        made.append(object())
        return made[-1]

    first = bound_call(None, (name, (1, 2)), rule)
    assert bound_call(None, (name, (1, 2)), rule) is first
    assert bound_call(None, (name, [1, 2]), rule) is not first, "a list is no tuple"
    assert bound_call(None, (name, [1, 2]), rule) is made[1]
    assert bound_call(None, (name, {}), rule) is made[2]
    assert bound_call(None, (name, {}), rule) is made[3], "what has no hash is made again"


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        ((1,) * 65, "65 axes; the most is 64"),
        ((1 << 62,), "array is too big"),
        ((1 << 40,) * 2, "big"),
    ],
)
def test_shapes_that_no_memory_could_name_are_refused(shape: tuple[int, ...], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        check_shape("zeros", shape, np.dtype("f8"))
    with pytest.raises(ValueError, match=match):
        it.zeros(shape)


def test_what_is_wide_is_computed_in_float32_and_rounded_once() -> None:
    x = np.linspace(0.1, 3, 24, dtype="f4").reshape(4, 6)
    t = it.asarray(x).astype(bfloat16)
    found = it.linalg.norm(t)
    assert found.dtype == bfloat16
    wanted = np.linalg.norm(t.astype("f4").numpy())
    assert float(found) == pytest.approx(float(wanted), rel=2**-8)


def test_a_call_that_is_repeated_is_planned_as_before() -> None:
    with strict("cpu"):
        x = it.compute(it.asarray(X) + 0)
        for _ in range(4):
            it.sum(x, axis=0, keepdims=True).numpy()
        assert it.stats()["plan_misses"] == 2
