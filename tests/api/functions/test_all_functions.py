"""What NumPy's functions, methods and ufuncs take by name, by position and by default."""

from __future__ import annotations

import ast
import inspect
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.functions.all_functions import PUBLIC
from infinitensor.api.functions.options import numpys
from infinitensor.ops import TABLE

P = inspect.Parameter
BY_POSITION = (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)
BY_NAME = (P.POSITIONAL_OR_KEYWORD, P.KEYWORD_ONLY)

EXCEPTIONS: dict[str, dict[str, str]] = {
    "clip": {"min": "the older name comes by position, as in the function", "max": "the same"},
    "argsort": {"descending": "None is False"},
    "einsum": {"optimize": "a good order is looked for unless one says no"},
    "einsum_path": {"einsum_call": "is for NumPy's einsum alone"},
    "eye": {"dtype": "None is float"},
    "fromstring": {"dtype": "None is float"},
    "Tensor": {
        **dict.fromkeys(("buffer", "offset", "strides", "order"), "it.frombuffer has them"),
        "dtype": "None is float",
    },
}
"""Parameters that differ, by function, and why."""


def signature_of(function: Any) -> inspect.Signature | None:
    """The signature, or what the first line of the docstring says of it."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        line = (function.__doc__ or "").strip().partition("\n")[0].partition(".")
    text = (line[2] if line[0] == "a" else "".join(line)).partition("(")[2].partition(")")[0]
    scope: dict[str, Any] = {}
    try:
        tree = ast.parse(f"def f({text}): pass")
        exec(compile(tree, "signature", "exec"), {"float": float, "int": int, "np": np}, scope)
    except (NameError, SyntaxError):
        return None
    return inspect.signature(scope["f"])


def is_sentinel(default: Any) -> bool:
    """Whether a default only says that nothing was given."""
    return default is np._NoValue or "unspecified" in type(default).__name__.lower()


def differences(name: str, theirs: Any, ours: Any) -> list[str]:
    """Parameters of NumPy's that ours does not take in the same way."""
    wanted, found = signature_of(theirs), signature_of(ours)
    if wanted is None:
        return []
    assert found is not None
    kinds = [p.kind for p in found.parameters.values()]
    places = [p.name for p in found.parameters.values() if p.kind in BY_POSITION]
    wrong = []
    for i, (key, p) in enumerate(wanted.parameters.items()):
        if key in EXCEPTIONS.get(name, {}) or p.kind in (P.VAR_POSITIONAL, P.VAR_KEYWORD):
            continue
        mine = found.parameters.get(key)
        if p.kind in BY_POSITION and i >= len(places) and P.VAR_POSITIONAL not in kinds:
            wrong.append(f"{key} is not taken by position")
        elif p.kind is P.POSITIONAL_OR_KEYWORD and i < len(places) and places[i] != key:
            wrong.append(f"{key} has the place of {places[i]}")
        if p.kind in BY_NAME and P.VAR_KEYWORD not in kinds:
            if mine is None or mine.kind not in BY_NAME:
                wrong.append(f"{key} is not taken by name")
            elif P.empty is not p.default != mine.default and not is_sentinel(p.default):
                wrong.append(f"{key} is {mine.default!r}, not {p.default!r}")
    return wrong


SHARED = sorted(name for name in PUBLIC if numpys(name) is not None)
METHODS = [n for n in dir(np.ndarray) if n[0] != "_" and callable(getattr(np.ndarray, n))]
UFUNC_METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")


@pytest.mark.parametrize("name", SHARED)
def test_functions_take_what_numpys_take(name: str) -> None:
    assert not differences(name, numpys(name), PUBLIC[name])


def test_random_generators_take_what_numpys_take() -> None:
    wrong = {}
    for name in dir(np.random.Generator):
        theirs, ours = (getattr(m.random.Generator, name, None) for m in (np, it))
        if name[0] != "_" and callable(theirs) and name != "spawn":
            wrong[name] = differences(name, theirs, ours) if ours else ["is missing"]
    assert not {name: found for name, found in wrong.items() if found}


@pytest.mark.parametrize("name", METHODS)
def test_methods_take_what_numpys_take(name: str) -> None:
    assert not differences(name, getattr(np.ndarray, name), getattr(it.Tensor, name))


@pytest.mark.parametrize("name", UFUNC_METHODS)
def test_methods_of_ufuncs_take_what_numpys_take(name: str) -> None:
    assert not differences(name, getattr(np.ufunc, name), getattr(it.ufunc, name))


def test_tensors_are_made_as_arrays_are() -> None:
    assert not differences("Tensor", np.ndarray, it.Tensor)


# --- what signatures say is so -----------------------------------------------------------------

CALLED = [
    name
    for name in SHARED
    if name in TABLE and TABLE[name].cases is not None and "random." not in name
    if not name.startswith("empty")  # what it holds is not said
]


def filled(function: Any, args: Any, kwargs: Any, by_name: bool) -> tuple[list[Any], Any]:
    """Arguments with NumPy's defaults beside them, as many by name, or by position, as may be."""
    signature = signature_of(function)
    assert signature is not None
    given = signature.bind(*args, **kwargs)
    given.apply_defaults()
    places: list[Any] = []
    names: dict[str, Any] = {}
    by_name &= P.VAR_POSITIONAL not in [p.kind for p in signature.parameters.values()]
    for key, p in signature.parameters.items():
        value = given.arguments[key]
        if p.kind is P.VAR_POSITIONAL:
            places += value
        elif p.kind is P.VAR_KEYWORD:
            names |= value
        elif is_sentinel(value):
            by_name = True  # what follows cannot come by position
        elif isinstance(function, np.ufunc) and key == "out":
            names[key] = value
        elif p.kind is P.POSITIONAL_ONLY or (p.kind is P.POSITIONAL_OR_KEYWORD and not by_name):
            places.append(value)
        else:
            names[key] = value
    return places, names


def outcome(name: str, args: Any, kwargs: Any) -> Any:
    try:
        return PUBLIC[name](*args, **kwargs)
    except (TypeError, ValueError, IndexError) as error:
        return type(error)


def same(first: Any, second: Any) -> bool:
    if isinstance(first, type) or isinstance(second, type):
        return first is second
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if not isinstance(first, it.Tensor):
        return bool(first == second) or first is second
    has_nan = first.dtype.kind in "fc"
    return first.dtype == second.dtype and bool(it.array_equal(first, second, has_nan))


@pytest.mark.parametrize("by_name", [True, False], ids=["by name", "by position"])
@pytest.mark.parametrize("name", CALLED)
def test_calls_with_every_default_written_out_are_the_same(name: str, by_name: bool) -> None:
    cases = TABLE[name].cases
    assert cases is not None
    for args, kwargs in cases(np.random.default_rng(0))[:4]:
        try:
            places, names = filled(numpys(name), args, kwargs, by_name)
        except TypeError:  # what only ours takes
            continue
        with catch_warnings():
            simplefilter("ignore")
            want, got = outcome(name, args, kwargs), outcome(name, places, names)
        assert same(want, got), (places, names, want, got)


def test_help_shows_signatures_and_options() -> None:
    for name in ("add", "matmul", "divmod"):
        assert f"{name}(x1, x2, /, out=" in (getattr(it, name).__doc__ or "")
    assert "numpy.sum" in (it.sum.__doc__ or "")
    for name in SHARED:
        assert "Spec" not in str(inspect.signature(PUBLIC[name])), name


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("n", [4, 100_000])
def test_to_the_power_of_one_half_is_the_root_whichever_way_it_is_asked(dtype: str, n: int) -> None:
    given = np.resize(np.array([-np.inf, 2.25, -1.0, np.inf], dtype), n)
    with np.errstate(invalid="ignore"):
        wanted = np.sqrt(given)
    changed = it.asarray(given)
    changed **= 0.5
    half = np.dtype(dtype).type(0.5)
    also = it.asarray(given)
    also **= half
    for made in (changed, also, it.asarray(given) ** 0.5, it.asarray(given) ** half):
        np.testing.assert_array_equal(made.numpy(), wanted)
