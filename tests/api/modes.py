"""The ways a call can run, for tests that compare with NumPy in each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(params=["small", "large", "strict"], scope="module")
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    """At once on the host; by plans on one device; by tiles of seven on three."""
    before = (it.config.small_elements, it.config.tile_elements)
    if request.param != "small":
        it.config.small_elements = 0
    if request.param == "strict":
        it.config.tile_elements = 7
    try:
        with it.init("cpu" if request.param != "strict" else "cpu*3"):
            yield request.param
    finally:
        it.config.small_elements, it.config.tile_elements = before


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, as arrays, or the kind of error it raises."""
    try:
        with np.errstate(all="ignore"):
            made = call()
    except (TypeError, ValueError, IndexError, OverflowError, NotImplementedError) as error:
        kinds = (TypeError, IndexError, OverflowError, np.linalg.LinAlgError, ValueError)
        return next(kind for kind in kinds if isinstance(error, kind))
    if isinstance(made, tuple | list):
        return [np.asarray(one) for one in made]
    return np.asarray(made)


def tensors(value: Any) -> Any:
    """Tensors in place of arrays, in lists and tuples too."""
    if isinstance(value, tuple | list):
        return type(value)(map(tensors, value))
    return it.asarray(value) if isinstance(value, np.ndarray) else value


def assert_alike(call: Callable[..., Any], *args: Any, **options: Any) -> None:
    """`call(xp, *args, **options)` is the same with us and tensors as with NumPy and arrays.

    The same is equal values of one dtype and shape, or one kind of error.
    """
    got = outcome(lambda: call(it, *tensors(args), **options))
    want = outcome(lambda: call(np, *args, **options))
    what = f"{options}"
    if isinstance(want, type) or isinstance(got, type):
        assert got is want, f"{what}: {got!r}, not {want!r}"
        return
    pairs = zip(got, want, strict=True) if isinstance(want, list) else [(got, want)]
    for one, other in pairs:
        assert (one.dtype, one.shape) == (other.dtype, other.shape), what
        rtol = {"e": 2e-2, "f": 1e-4, "F": 1e-4}.get(other.dtype.char, 1e-9)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol / 10, err_msg=what)
