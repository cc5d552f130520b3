"""What a call of NumPy's or ours gives, leaves in its arguments or raises, to be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable


def tensors(value: Any) -> Any:
    """Arguments with tensors in place of arrays; NumPy's functions become ours."""
    if isinstance(value, np.ndarray):
        return it.asarray(value)
    if isinstance(value, tuple | list):
        return type(value)(tensors(one) for one in value)
    return value


def values(made: Any) -> Any:
    if isinstance(made, tuple | list):
        return [values(one) for one in made]
    return made.numpy() if isinstance(made, it.Tensor) else made


def outcome(call: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """What a call gives and leaves in its arguments, or the error it raises."""
    try:
        with np.errstate(all="ignore"), catch_warnings():
            simplefilter("ignore")  # NumPy 2.5 warns of casts into `out`
            made = call(*args, **kwargs)
            return values([made, args, kwargs.get("out")])
    except (TypeError, ValueError, IndexError, OverflowError, RuntimeError) as error:
        return error


def assert_same(got: Any, want: Any, what: str) -> None:
    """Errors of one type, or equal values of one dtype and shape."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        same = isinstance(got, type(want)) or isinstance(want, type(got))
        assert same, f"{what}: {got!r}, not {want!r}"
    elif isinstance(want, tuple | list):
        for one, other in zip(got, want, strict=True):
            assert_same(one, other, what)
    elif isinstance(want, np.ndarray | np.generic):
        assert (got.dtype, got.shape) == (want.dtype, want.shape), what
        rtol = 1e-6 if want.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(got, np.asarray(want), rtol=rtol, err_msg=what)


def assert_alike(name: str, *args: Any, **kwargs: Any) -> None:
    """Ours gives what NumPy gives, and leaves the same in its arguments."""
    theirs = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    want = outcome(getattr(np, name), theirs, kwargs)
    got = outcome(getattr(it, name), tensors(list(args)), kwargs)
    assert_same(got, want, name)
