"""`order=`: elements are read, and stored, in the order that NumPy's are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.api.modes import mode  # noqa: F401 - a fixture

import infinitensor as it

pytestmark = pytest.mark.usefixtures("mode")
SHAPES = [(2, 3, 4), (5, 1, 3), (0, 3, 2)]
VIEWS: dict[str, Any] = {
    "itself": lambda x: x,
    "reversed": lambda x: x.T,
    "transposed": lambda x: x.transpose(1, 0, 2),
    "other turn": lambda x: x.transpose(2, 0, 1),
    "steps": lambda x: x[::2, ::-1].transpose(1, 2, 0),
    "a matrix": lambda x: x[0] if x.shape[0] else x[:, 0],
    "its transpose": lambda x: (x[0] if x.shape[0] else x[:, 0]).T,
    "backwards": lambda x: x[::-1].T,
}
ORDERS = ["C", "F", "A", "K", "f", None]


def assert_stored_alike(ours: it.Tensor, theirs: np.ndarray) -> None:
    """Equal values of one dtype and shape, in the same order."""
    np.testing.assert_array_equal(ours.numpy(), theirs, strict=True)
    got, want = ours.flags, theirs.flags
    assert (got.c_contiguous, got.f_contiguous) == (want.c_contiguous, want.f_contiguous)


def pairs(shape: tuple[int, ...], view: str) -> tuple[it.Tensor, np.ndarray]:
    x = np.arange(int(np.prod(shape))).reshape(shape)
    return VIEWS[view](it.asarray(x)), VIEWS[view](x)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("order", ORDERS)
def test_copies_are_stored_as_numpys_are(view: str, order: Any) -> None:
    for shape in SHAPES:
        copies_are_stored_alike(*pairs(shape, view), order)


def copies_are_stored_alike(ours: it.Tensor, theirs: np.ndarray, order: Any) -> None:
    assert_stored_alike(ours.copy(order), theirs.copy(order))
    assert_stored_alike(it.copy(ours, order), np.copy(theirs, order))
    assert_stored_alike(it.array(ours, order=order), np.array(theirs, order=order))
    assert_stored_alike(it.array(theirs, order=order), np.array(theirs, order=order))
    assert_stored_alike(it.asarray(ours, order=order), np.asarray(theirs, order=order))
    for dtype in ("f4", "i8"):
        for copy in (True, False):
            got = ours.astype(dtype, order=order, copy=copy)
            assert_stored_alike(got, theirs.astype(dtype, order=order, copy=copy))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("order", ORDERS)
def test_elements_are_read_in_an_order(view: str, order: Any) -> None:
    for shape in SHAPES:
        read_alike(*pairs(shape, view), order)


def read_alike(ours: it.Tensor, theirs: np.ndarray, order: Any) -> None:
    assert_stored_alike(ours.ravel(order), theirs.ravel(order))
    assert_stored_alike(it.ravel(ours, order=order), np.ravel(theirs, order=order))
    wanted: Any = "C" if order is None else order
    assert_stored_alike(ours.flatten(wanted), theirs.flatten(wanted))
    assert ours.tobytes(order) == theirs.tobytes(order)
    if wanted in "kK":
        with pytest.raises(ValueError, match="order 'K' is not permitted for reshaping"):
            ours.reshape(-1, order=order)
        return
    new = (theirs.shape[-1], -1) if theirs.size else (0, 5)
    assert_stored_alike(ours.reshape(new, order=order), theirs.reshape(new, order=order))
    made: Any = np.reshape(ours, new, order=order)
    assert_stored_alike(made, np.reshape(theirs, new, order=order))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("order", ORDERS)
def test_new_tensors_are_stored_like_others(view: str, order: Any) -> None:
    ours, theirs = pairs((2, 3, 4), view)
    for shape in (None, (3, 4), (4, 2, 3)):
        for name in ("zeros_like", "ones_like"):
            got = getattr(it, name)(ours, order=order, shape=shape)
            assert_stored_alike(got, getattr(np, name)(theirs, order=order, shape=shape))
        got = it.full_like(ours, 2.5, "f4", order, shape=shape)
        assert_stored_alike(got, np.full_like(theirs, 2.5, "f4", order, shape=shape))
    assert_stored_alike(it.zeros_like(ours), np.zeros_like(theirs))
    assert it.empty_like(ours, order=order).strides == np.empty_like(theirs, order=order).strides


@pytest.mark.parametrize("order", ["C", "F", "f"])
@pytest.mark.parametrize("shape", [3, (3,), (2, 3), (2, 3, 4), ()])
def test_new_tensors_are_stored_in_an_order(order: Any, shape: Any) -> None:
    for name in ("zeros", "ones"):
        got = getattr(it, name)(shape, "i4", order)
        assert_stored_alike(got, getattr(np, name)(shape, "i4", order))
    assert_stored_alike(it.full(shape, 3, order=order), np.full(shape, 3, order=order))
    assert_stored_alike(it.eye(3, 4, 1, order=order), np.eye(3, 4, 1, order=order))
    rows = np.arange(4)
    assert_stored_alike(it.full((3, 4), rows, order=order), np.full((3, 4), rows, order=order))
    assert it.empty((2, 3), order=order).strides == np.empty((2, 3), order=order).strides


def test_writes_through_a_tensor_in_fortrans_order_reach_it() -> None:
    x, y = it.zeros((3, 4), order="F"), np.zeros((3, 4), order="F")
    for z in (x, y):
        z[1] = 2
        z.reshape(-1, order="F")[3] = 7
        z.ravel("F")[5] = 9
        z[:, ::2] += 1
    assert_stored_alike(x, y)


def test_orders_that_are_none_are_numpys_errors() -> None:
    x = it.zeros((2, 3))
    calls: list[Any] = [
        x.copy,
        x.ravel,
        x.flatten,
        lambda o: x.reshape(6, order=o),
        lambda o: it.copy(x, o),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match=r"order must be one of 'C', 'F', 'A', or 'K' \(got 'z"
        ):
            call("z")
        with pytest.raises(TypeError, match="order must be str, not int"):
            call(1)
    with pytest.raises(ValueError, match="only 'C' or 'F' order is permitted"):
        it.zeros((2, 3), order="K")
