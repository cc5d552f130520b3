"""Members of a tensor: what NumPy's tell, change in place and refuse."""

from __future__ import annotations

import numpy as np
import pytest

import infinitensor as it

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")


X = np.arange(12.0).reshape(3, 4)


def test_members_tell_what_numpys_tell() -> None:
    x = it.asarray(X)
    for index in (np.s_[...], np.s_[1:, ::2], np.s_[:, 0], np.s_[::-1]):
        for ours, theirs in ((x[index], X[index]), (x[index].T, X[index].T)):
            assert ours.strides == theirs.strides
            assert ours.flags.c_contiguous == theirs.flags.c_contiguous
            assert ours.flags["F_CONTIGUOUS"] == theirs.flags["F_CONTIGUOUS"]
            assert ours.tobytes() == theirs.tobytes()
    assert x.base is None
    assert x.flags.owndata
    row = x[0]
    assert row.base is not None
    row.base[0, 0] = 50
    assert row.tolist()[0] == 50
    assert "WRITEABLE : True" in repr(x.flags)
    with pytest.raises(KeyError, match="Unknown flag"):
        x.flags["NONSENSE"]


def test_a_tensor_can_be_made_read_only() -> None:
    x = it.asarray(X)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        x[0].setflags(write=True)


def test_methods_in_place_and_refused() -> None:
    x = it.asarray([[3, 1, 2]])
    x.sort(kind="stable")
    assert x.tolist() == [[1, 2, 3]]
    y = it.asarray([3, 1, 2])
    y.partition(1)
    assert y.tolist()[1] == 2
    with pytest.raises(ValueError, match="out of bounds"):
        y.partition(3)
    assert x.compress([True, False], axis=1).tolist() == [[1]]
    assert it.shares_memory(x.view(), x)
    assert x.view(np.uint8).shape == (*x.shape[:-1], x.itemsize * x.shape[-1])
    with pytest.raises(ValueError, match="keeps its size"):
        x.resize((2, 2))
