"""Functions that change views: NumPy's shapes and values, no work, and writes reach the base."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.functions.view_functions import VIEWS

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")
X = np.arange(24.0).reshape(2, 3, 4)
untyped: Any = it  # what type checkers refuse is called too
CALLS: dict[str, Any] = {
    "transpose": lambda xp, x: xp.transpose(x, (2, 0, 1)),
    "matrix_transpose": lambda xp, x: xp.matrix_transpose(x),
    "moveaxis": lambda xp, x: xp.moveaxis(x, (0, 1), (-1, 0)),
    "swapaxes": lambda xp, x: xp.swapaxes(x, 0, -1),
    "rollaxis": lambda xp, x: xp.rollaxis(x, 2),
    "flip": lambda xp, x: xp.flip(x, axis=1),
    "fliplr": lambda xp, x: xp.fliplr(x),
    "flipud": lambda xp, x: xp.flipud(x),
    "rot90": lambda xp, x: xp.rot90(x, 3, axes=(1, 2)),
    "squeeze": lambda xp, x: xp.squeeze(x[:, :1], axis=1),
    "diagonal": lambda xp, x: xp.diagonal(x, 1, axis1=0, axis2=2),
    "expand_dims": lambda xp, x: xp.expand_dims(x, (0, -1)),
    "reshape": lambda xp, x: xp.reshape(x, (4, -1)),
    "ravel": lambda xp, x: xp.ravel(x),
    "broadcast_to": lambda xp, x: xp.broadcast_to(x[:, :1], (5, 2, 3, 4)),
    "windows": lambda xp, x: xp.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(0, 2)),
    "atleast": lambda xp, x: xp.atleast_3d(x[0, 0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_views_are_numpys_and_cost_nothing(name: str) -> None:
    t = it.compute(it.asarray(X) + 0)
    it.stats(reset=True)
    found, wanted = CALLS[name](it, t), CALLS[name](np, X)
    assert found.shape == wanted.shape
    assert it.stats()["evaluations"] == it.stats()["tasks"] == 0
    np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"broadcast_to", "windows", "diagonal"}))
def test_a_write_to_a_view_reaches_its_base(name: str) -> None:
    t, x = it.asarray(X), X.copy()
    for view in (CALLS[name](it, t), CALLS[name](np, x)):
        view[0] = -1.0
    np.testing.assert_array_equal(t.numpy(), x)


@pytest.mark.parametrize("name", ["broadcast_to", "windows"])
def test_views_that_repeat_elements_are_read_only(name: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        CALLS[name](it, it.asarray(X))[0] = 1.0


def test_windows_can_be_asked_to_be_written() -> None:
    windows = it.lib.stride_tricks.sliding_window_view
    t = it.asarray(np.zeros(5))
    windows(t, 2, writeable=True)[3, 1] = 7.0
    assert t.tolist() == [0, 0, 0, 0, 7]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: untyped.transpose(), TypeError, "missing 1 required positional argument: 'a'"),
        (lambda: it.swapaxes(X, 0, 3), ValueError, "out of bounds"),
        (lambda: it.broadcast_to(X, (2, 3, 5)), ValueError, "broadcast"),
        (lambda: it.squeeze(X, axis=0), ValueError, "not equal to one"),
        (lambda: it.expand_dims(X, (0, 0)), ValueError, "repeated axis"),
        (lambda: it.broadcast_to(1.0, (1 << 62,)), ValueError, "too big"),
    ],
)
def test_errors_are_numpys(call: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_an_array_may_be_given_by_its_name() -> None:
    np.testing.assert_array_equal(it.transpose(a=X).numpy(), X.T)
    np.testing.assert_array_equal(it.flip(m=it.asarray(X), axis=0).numpy(), X[::-1])


def test_broadcast_arrays_share_a_shape_and_those_that_have_it_stay_writable() -> None:
    t = it.asarray(X.copy())
    wide, row = it.broadcast_arrays(t, it.asarray(X[0, 0]))
    assert wide.shape == row.shape == X.shape
    wide[0, 0, 0] = 99.0
    assert float(t[0, 0, 0]) == 99.0
    same = it.broadcast_arrays(t, t)
    assert same[0] is t
    assert it.broadcast_arrays() == ()


def test_real_and_imaginary_parts_are_views_of_complex_tensors() -> None:
    z, t = X[0] + 1j * X[1], it.asarray(X[0] + 1j * X[1])
    it.real(t)[0], it.imag(t)[1] = 5.0, -2.0
    np.real(z)[0], np.imag(z)[1] = 5.0, -2.0
    np.testing.assert_array_equal(t.numpy(), z)
    np.testing.assert_array_equal(it.imag(it.asarray(X)).numpy(), np.imag(X))


def test_every_name_is_one_of_numpys_with_its_signature() -> None:
    for name, function in VIEWS.items():
        assert callable(function), name
        assert hasattr(np, name) or "." in name or name == "permute_dims"
    permuted = it.permute_dims(it.asarray(X), (1, 0, 2))
    np.testing.assert_array_equal(permuted.numpy(), X.transpose(1, 0, 2))
