"""One call written for any namespace, run by NumPy and by this library in small tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable


def agree(call: Callable[..., Any], *arrays: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    """`call(xp, *arrays)` has NumPy's shapes, dtypes and values, one output or several."""
    with np.errstate(all="ignore"):
        want = call(np, *(np.copy(a) for a in arrays))
    found = call(it, *(it.asarray(a) for a in arrays))
    several = isinstance(want, tuple | list)
    wants, founds = (want, found) if several else ([want], [found])
    assert len(wants) == len(founds)
    for one, other in zip(founds, wants, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol, atol)


def refuse(call: Callable[..., Any], *arrays: Any, match: str) -> None:
    """`call(xp, *arrays)` raises NumPy's type of error, at the call or when it is computed."""
    with pytest.raises(Exception, match=r".") as error:
        call(np, *(np.copy(a) for a in arrays))
    with pytest.raises(error.type, match=match):
        np.asarray(call(it, *(it.asarray(a) for a in arrays)))
