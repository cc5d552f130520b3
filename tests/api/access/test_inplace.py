"""In-place operators: NumPy's values, casting rule and errors, through views too."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

DTYPES = ["?", "i1", "u8", "f4", "c8"]
WORDS = ["iadd", "imul", "isub", "itruediv", "ifloordiv", "ipow", "iand", "ilshift"]


def _outcome(word: str, x: Any, y: Any) -> Any:
    """The values and dtype afterwards, or the error's type."""
    try:
        with np.errstate(all="ignore"):
            found = getattr(operator, word)(x, y)
    except (TypeError, ValueError) as error:
        return type(error)
    assert found is x
    return np.asarray(found)


@pytest.mark.parametrize("word", WORDS)
def test_every_pair_of_dtypes_is_changed_or_refused_as_by_numpy(word: str) -> None:
    for one in DTYPES:
        for other in DTYPES:
            x, y = (np.array([1, 1, 1]).astype(d) for d in (one, other))
            want = _outcome(word, x.copy(), y)
            found = _outcome(word, it.asarray(x), it.asarray(y))
            if isinstance(want, type):
                assert isinstance(found, type)
                assert issubclass(found, (TypeError, ValueError))
            else:
                assert found.dtype == want.dtype
                np.testing.assert_allclose(found, want, 1e-6)


def test_a_view_changes_its_base_and_every_view_of_it() -> None:
    x = it.arange(30).reshape(5, 6)
    row, column = x[2], x[:, 3]
    row += 100
    column *= 2
    want = np.arange(30).reshape(5, 6)
    want[2] += 100
    want[:, 3] *= 2
    np.testing.assert_array_equal(x.numpy(), want)
    np.testing.assert_array_equal(row.numpy(), want[2])


def test_an_operand_that_overlaps_is_read_before_it_is_written() -> None:
    x, want = it.arange(20.0), np.arange(20.0)
    x[1:] += x[:-1]
    want[1:] += want[:-1].copy()
    np.testing.assert_array_equal(x.numpy(), want)
    x -= x[::-1]
    np.testing.assert_array_equal(x.numpy(), want - want[::-1])


def test_what_would_grow_or_must_not_change_is_refused() -> None:
    x = it.ones(3)
    with pytest.raises(ValueError, match=r"shape \(3,\) doesn't match the broadcast shape \(2,3\)"):
        x += it.ones((2, 3))
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x += 1
    assert x.tolist() == [1, 1, 1]
    y = it.arange(3)
    with pytest.raises(TypeError, match="Cannot cast ufunc 'add' output"):
        y += 0.5
    assert y.tolist() == [0, 1, 2]
