"""Functions made as text: they bind, refuse and default as functions written by hand do."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from infinitensor.api.session.signatures import (
    binder,
    forwarder,
    make_function,
    plain,
    plain_integer,
)


def like(x: Any, /, y: Any, axis: Any = None, *rest: Any, out: Any = False, **more: Any) -> Any:
    """Every kind of parameter."""


SIGNATURE = inspect.signature(like)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((1, 2), {}),
        ((1,), {"y": 2, "axis": 3}),
        ((1, 2, 3, 4, 5), {"out": True}),
        ((1, 2), {"other": 7}),
    ],
)
def test_arguments_find_their_names_as_python_binds_them(args: Any, kwargs: Any) -> None:
    wanted = SIGNATURE.bind(*args, **kwargs)
    wanted.apply_defaults()
    assert binder("like", SIGNATURE)(*args, **kwargs) == dict(wanted.arguments)


@pytest.mark.parametrize(
    ("args", "kwargs", "match"),
    [
        ((), {}, r"sum\(\) missing 2 required positional arguments: 'x' and 'y'"),
        ((1,), {}, r"sum\(\) missing 1 required positional argument: 'y'"),
        ((1, 2), {"y": 3}, r"sum\(\) got multiple values for argument 'y'"),
    ],
)
def test_errors_name_the_function_as_users_know_it(args: Any, kwargs: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        binder("linalg.sum", SIGNATURE)(*args, **kwargs)


def test_positional_only_and_keyword_only_parameters_stay_so() -> None:
    def plain_one(x: Any, /, *, out: Any = None) -> Any: ...

    made = make_function("f", inspect.signature(plain_one), "(x, out)", {})
    assert made(1, out=2) == (1, 2)
    with pytest.raises(TypeError, match="positional-only arguments passed as keyword"):
        made(x=1)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2"):
        made(1, 2)


def test_defaults_are_the_objects_themselves_and_names_are_seen() -> None:
    default: list[int] = []

    def wrapped(x: Any = default) -> Any: ...

    made = make_function("f", inspect.signature(wrapped), "(x, other)", {"other": 5})
    assert made()[0] is default
    assert made()[1] == 5


def test_a_forwarded_call_converts_what_is_given_and_no_default() -> None:
    def wrapped(axis: Any = None, *, n: Any = 3) -> Any: ...

    seen: list[Any] = []

    def function(first: Any, axis: Any = None, *, n: Any = 3) -> None:
        seen.append((first, axis, n))

    call = forwarder("f", inspect.signature(wrapped), function, "first", {"axis": str, "n": str})
    call()
    call(1, n=2)
    call(None)
    assert seen == [("first", None, 3), ("first", "1", "2"), ("first", None, 3)]


def test_integers_and_truths_of_numpy_become_pythons() -> None:
    found = plain((np.int8(3), [np.True_, (np.uint64(2**63),)], 2.5, np.float32(1.5), "a"))
    assert found == (3, [True, (2**63,)], 2.5, np.float32(1.5), "a")
    assert type(found[0]) is int
    assert type(found[1][0]) is bool
    assert type(found[3]) is np.float32


@pytest.mark.parametrize(
    "given", [3, None, np.int16(3), np.array(3), np.array([3]), 2.5, (np.int8(1),)]
)
def test_an_array_without_axes_is_the_integer_it_holds(given: Any) -> None:
    found = plain_integer(given)
    if isinstance(given, np.ndarray) and given.shape:
        assert found is given
    else:
        assert type(found) in (int, type(None), float, tuple)
        assert found == given
