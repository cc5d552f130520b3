"""`x.flags`: the order of a tensor and of its views is what NumPy says of the same views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.tensor.flags import refused

VIEWS: dict[str, Any] = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "row": lambda x: x[1],
    "column": lambda x: x[:, 1],
    "rows": lambda x: x[1:3],
    "steps": lambda x: x[::2, ::-1],
    "one": lambda x: x[1:2, 1:2],
    "none": lambda x: x[:0],
    "new axis": lambda x: x[:, None],
    "reshaped": lambda x: x.reshape(2, 10),
}
NAMES = [
    "C_CONTIGUOUS",
    "F_CONTIGUOUS",
    "C",
    "F",
    "WRITEABLE",
    "ALIGNED",
    "FNC",
    "FORC",
    "CA",
]


@pytest.mark.parametrize("view", VIEWS)
def test_every_flag_of_every_view_is_numpys(view: str) -> None:
    want = VIEWS[view](np.ones((4, 5))).flags
    found = VIEWS[view](it.ones((4, 5))).flags
    assert {name: found[name] for name in NAMES} == {name: want[name] for name in NAMES}
    assert found.contiguous == want.contiguous
    assert found.behaved == want.behaved
    assert found["FA"] == (want.behaved and want.fnc)  # as NumPy documents it; its own is laxer


def test_a_tensor_can_be_locked_and_unlocked_but_its_views_cannot() -> None:
    x = it.zeros(5)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1.0
    with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
        x[1:].flags.writeable = True
    x.flags["WRITEABLE"] = True
    x[0] = 1.0
    assert x.tolist() == [1, 0, 0, 0, 0]


def test_what_is_broadcast_is_not_written_to() -> None:
    assert not it.broadcast_to(it.ones(3), (2, 3)).flags.writeable
    assert not it.broadcast_to(it.ones(3), (2, 3)).flags.c_contiguous


def test_unknown_flags_and_methods_say_so() -> None:
    with pytest.raises(KeyError, match="Unknown flag"):
        it.ones(3).flags["COLOUR"]
    with pytest.raises(KeyError, match="Unknown flag"):
        it.ones(3).flags["COLOUR"] = True
    method = refused("fly", "walk instead")
    assert (method.__name__, method.__doc__) == ("fly", "Refused: walk instead.")
    with pytest.raises(ValueError, match="fly: walk instead"):
        method(it.ones(3), 1, height=2)
