"""Tensors as text: NumPy's text of the same values, and of large ones only the corners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.tensor.printing import show

VALUES: list[Any] = [
    np.arange(6).reshape(2, 3),
    np.array([0.1, 1e10, -np.inf, np.nan]),
    np.array([True, False]),
    np.array([1 + 2j, -0.5j], "c8"),
    np.zeros((0, 3)),
    np.float32(2.5),
    np.arange(3000.0).reshape(30, 100),
]


@pytest.mark.parametrize("x", VALUES, ids=range(len(VALUES)))
def test_the_text_of_the_values_is_numpys(x: Any) -> None:
    t = it.asarray(x)
    assert str(t) == str(np.asarray(x))
    assert show(t) == np.array2string(np.asarray(x))
    assert it.array2string(t, precision=2) == np.array2string(np.asarray(x), precision=2)
    assert it.array_str(t, precision=1) == np.array_str(np.asarray(x), precision=1)


def test_settings_hold_for_tensors_too_and_end_with_their_block() -> None:
    x = np.array([1 / 3, 2 / 3])
    with it.printoptions(precision=2):
        assert str(it.asarray(x)) == "[0.33 0.67]"
        assert it.get_printoptions()["precision"] == np.get_printoptions()["precision"] == 2
    assert str(it.asarray(x)) == str(x)
    it.set_printoptions(precision=1)
    assert str(it.asarray(x)) == str(x) == "[0.3 0.7]"


def test_a_representation_names_shape_and_dtype_of_what_is_left_out() -> None:
    t = it.zeros((2000, 3), dtype="i2")
    assert "..." in repr(t)
    assert "(2000, 3)" in repr(t)
    assert "int16" in repr(t)
    assert it.array_repr(it.arange(3), max_line_width=200).count("\n") == 0
