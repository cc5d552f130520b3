"""`axes`, `axis` and `keepdims` of ufuncs with a signature: NumPy's places and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.functions.core_axes import Places

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")
RNG = np.random.default_rng(2)
A, B, V = (RNG.integers(-9, 9, shape).astype(float) for shape in ((2, 3, 4), (2, 4, 3), (4,)))


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("vecdot", (A, A), {"axis": 0}),
        ("vecdot", (A, A), {"axis": -2}),
        ("vecdot", (A, A), {"axis": 1, "keepdims": True}),
        ("vecdot", (A, A), {"axes": [0, 0, ()]}),
        ("vecdot", (A, A), {"axes": [(1,), (1,)]}),
        ("matmul", (A, B), {"axes": [(1, 2), (1, 2), (1, 2)]}),
        ("matmul", (A, A), {"axes": [(-2, -1), (-1, -2), (0, 1)]}),
        ("matmul", (A, V), {"axes": [(1, 2), (0,), (-1,)]}),
    ],
)
def test_core_axes_are_where_they_are_said_to_be(name: str, args: Any, options: Any) -> None:
    wanted = getattr(np, name)(*args, **options)
    found = getattr(it, name)(*map(it.asarray, args), **options)
    np.testing.assert_array_equal(found.numpy(), wanted)
    assert found.shape == wanted.shape


@pytest.mark.parametrize(
    ("name", "args", "options", "match"),
    [
        ("vecdot", (A, A), {"axis": 0, "axes": [0, 0]}, "cannot specify both 'axis' and 'axes'"),
        ("matmul", (A, B), {"axis": 0}, "axis can only be used with a single shared core"),
        ("matmul", (A, B), {"keepdims": True}, "does not support keepdims"),
        ("vecdot", (A, A), {"axes": (0, 0)}, "axes should be a list"),
        ("vecdot", (A, A), {"axes": [0]}, "axes should be a list with an entry for all"),
        ("vecdot", (A, A), {"axes": [(0, 1), 0]}, "1 core dimensions, but 2 dimensions"),
        ("matmul", (A, A), {"axes": [(1, 1), (1, 2), (0, 1)]}, "has repeated entries"),
        ("vecdot", (A, A), {"axis": 7}, "axis 7 is out of bounds"),
        ("vecdot", (A, A), {"axis": 1.5}, "cannot be interpreted as an integer"),
    ],
)
def test_what_fits_no_signature_is_refused_as_by_numpy(
    name: str, args: Any, options: Any, match: str
) -> None:
    with pytest.raises((TypeError, ValueError, IndexError)) as wanted:
        getattr(np, name)(*args, **options)
    with pytest.raises(type(wanted.value), match=match):
        getattr(it, name)(*map(it.asarray, args), **options)


def test_a_core_axis_that_an_input_lacks_is_gone_from_all() -> None:
    assert Places(np.matmul, [3, 1], None, None, False)._axes == [(-2, -1), (-1,), (-1,)]
    assert Places(np.matmul, [1, 1], None, None, False)._axes == [(-1,), (-1,), ()]
