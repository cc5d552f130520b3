"""The chapter of ops that only move elements: every case in pieces, on both kinds of kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.programs import Cut, check_cases, ops_of
from tests.ops.table_xp import bind

from infinitensor.dtypes import ALL
from infinitensor.ops.forms.gather import affine_steps, along, c_strides
from infinitensor.ops.table.registry import TABLE

STEPS = [1, 2, 7, 1000]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ops_of("gather"))
def test_pieces_give_the_value_of_the_whole(name: str, kind: str, step: int) -> None:
    for block in (2, 1024):
        check_cases(name, step, block, kind)


@st.composite
def views(draw: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A base and a view of it, made by NumPy: slices of either sign, transposes, reshapes."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    base = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
    view = base
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["slice", "transpose", "diagonal", "broadcast", "reshape"]))
        if kind == "slice" and view.ndim:
            for axis, n in enumerate(view.shape):
                lo, hi = sorted((draw(st.integers(0, n)), draw(st.integers(0, n))))
                view = view[along(axis, slice(lo, hi))]
                view = view[along(axis, slice(None, None, draw(st.sampled_from([1, 2, -1, -2]))))]
        elif kind == "transpose":
            view = view.transpose(draw(st.permutations(range(view.ndim))))
        elif kind == "diagonal" and view.ndim > 1:
            view = view.diagonal(draw(st.integers(-1, 1)))
        elif kind == "broadcast":
            view = np.broadcast_to(view, (2, *view.shape))
        elif kind == "reshape" and view.size:
            try:
                view = np.reshape(view, -1, copy=False)
            except ValueError:
                continue
    return base, view


@settings(max_examples=300, deadline=None)
@given(views(), st.sampled_from(STEPS), st.sampled_from(["cpu", "cuda"]))
def test_strided_reads_every_view_that_numpy_makes(pair: Any, step: int, kind: str) -> None:
    base, view = pair
    start = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    offset = start // base.itemsize if view.size else 0
    strides = tuple(s // base.itemsize for s in view.strides)
    backward = base[::-1].copy()[::-1]  # the same values in another memory order
    spread = np.repeat(base, 2, -1)[..., ::2]
    for tile in (base, np.asfortranarray(base), backward, spread):
        got = Cut(step, 4, kind)._strided(tile, view.shape, offset, strides)
        np.testing.assert_array_equal(got, view)


@pytest.mark.parametrize(
    ("shape", "offset", "strides", "box", "wanted"),
    [
        ((8, 2), 3, (10, 1), ((2, 4), (0, 2)), ((2, 4), (3, 5))),  # columns 3 and 4
        ((10, 8), 0, (1, 10), ((1, 2), (0, 3)), ((0, 3), (1, 2))),  # transposed
        ((8,), 0, (11,), ((2, 5),), ((2, 5), (2, 5))),  # diagonal
        ((80,), 0, (1,), ((12, 18),), ((1, 2), (2, 8))),  # flat, inside one row
        ((80,), 0, (1,), ((12, 28),), ((1, 3), (0, 10))),  # flat, over two rows
    ],
)
def test_strided_needs_only_the_box_it_reads(
    shape: Any, offset: int, strides: Any, box: Any, wanted: Any
) -> None:
    op = TABLE["_strided"]
    call, tensors = bind(op, (np.zeros((8, 10)), shape, offset, strides), {})
    assert op.need is not None
    assert len(tensors) == 1
    assert op.need(box, (call.outs[0],), **dict(call.params)) == (wanted,)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_scalar_is_a_base_too(kind: str) -> None:
    xp = Cut(2, 2, kind)
    np.testing.assert_array_equal(xp._strided(np.array(2.0), (3,), 0, (0,)), [2, 2, 2])
    np.testing.assert_array_equal(xp._strided(np.array(2.0), (), 0, ()), 2)


def test_a_reshape_over_axes_has_no_affine_form() -> None:
    assert c_strides((2, 3)) == (3, 1)
    assert affine_steps((2, 3), (6,), 0, (1,)) is None


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_is_moved_unchanged(dtype: Any, kind: str) -> None:
    x = np.arange(-6, 6).reshape(3, 4).astype(dtype)
    xp = Cut(2, 2, kind)
    for got, wanted in (
        (xp._strided(x, (4, 3), 11, (-1, -4)), x[::-1, ::-1].T),
        (xp.concatenate([x, x], 1), np.concatenate([x, x], 1)),
        (xp.pad(x, 1, constant_values=1), np.pad(x, 1, constant_values=1)),
        (xp.repeat(x, (1, 0, 3), 0), np.repeat(x, [1, 0, 3], 0)),
        (xp.tile(x, (2, 2)), np.tile(x, (2, 2))),
        (xp.roll(x, 5), np.roll(x, 5)),
    ):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_negative_strides_and_read_only_tiles_are_read() -> None:
    x = np.arange(12.0).reshape(3, 4)[::-1, ::-2]
    x.setflags(write=False)
    xp = Cut(2, 2)
    np.testing.assert_array_equal(xp._strided(x, (2, 3), 0, (1, 2)), x.T)
    np.testing.assert_array_equal(xp.repeat(x, 2, 1), np.repeat(x, 2, 1))
    np.testing.assert_array_equal(xp._strided(x, (6,), 5, (-1,)), x.ravel()[::-1])


@pytest.mark.parametrize(
    ("name", "args", "error", "text"),
    [
        ("concatenate", ([],), ValueError, "need at least one array to concatenate"),
        ("concatenate", ([np.ones(2), np.ones((2, 2))],), ValueError, "same number of dimensions"),
        ("concatenate", ([np.ones((2, 3)), np.ones((2, 2))],), ValueError, "along dimension 1"),
        ("concatenate", ([np.ones(2)], 1), np.exceptions.AxisError, "axis 1 is out of bounds"),
        ("concatenate", ([np.array(1)],), ValueError, "zero-dimensional"),
        ("stack", ([np.ones(2), np.ones(3)],), ValueError, "same shape"),
        ("stack", ([],), ValueError, "need at least one array to stack"),
        ("roll", (np.ones(3), 1, 2), np.exceptions.AxisError, "axis 2 is out of bounds"),
        ("pad", (np.ones(3), -1), ValueError, "can't contain negative values"),
        ("pad", (np.ones(3), 1, "foo"), ValueError, "mode 'foo' is not supported"),
        ("pad", (np.ones(0), 1, "edge"), ValueError, "can't extend empty axis 0"),
        ("repeat", (np.ones(3), [1, 2]), ValueError, r"shape \(3,\) \(2,\)"),
        ("repeat", (np.ones(3), -1), ValueError, "negative"),
        ("repeat", (np.ones(3), np.array(1.5)), TypeError, "according to the rule 'safe'"),
        ("split", (np.ones(3), 2), ValueError, "equal division"),
        ("array_split", (np.ones(3), 0), ValueError, "larger than 0"),
        ("vsplit", (np.ones(3), 1), ValueError, "2 or more dimensions"),
        ("trace", (np.ones(3),), ValueError, "at least two dimensions"),
        ("diag", (np.ones((2, 2, 2)),), ValueError, "1- or 2-d"),
    ],
)
def test_bad_arguments_raise_at_the_call(name: str, args: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        Cut().run(name, args, {})
