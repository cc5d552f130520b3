"""Tensors of their own: what they are before and after they have a cell."""

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.small import host_values
from infinitensor.config import config


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are small here in strict runs too."""
    monkeypatch.setattr(config, "small_elements", 65_536)


def test_a_tensor_that_was_never_made_is_an_error() -> None:
    bare = object.__new__(it.Tensor)
    with pytest.raises(AttributeError, match="a Tensor has no"):
        bare[0]
    with pytest.raises(AttributeError, match="a Tensor has no"):
        it.ones((300, 300)) + bare


def test_a_tensor_that_two_threads_give_a_cell_has_one() -> None:
    tensor = it.asarray(np.arange(3.0)) + 1
    assert host_values.settle_cell(tensor) is host_values.settle_cell(tensor)
    tensor[0] = 7.0
    assert tensor.tolist() == [7.0, 2.0, 3.0]


def test_values_that_are_not_side_by_side_have_views_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.arange(36).reshape(9, 4) % 5
    rows, columns = it.nonzero(it.asarray(x))  # NumPy's are stored between each other
    part = rows[1:-1]
    monkeypatch.setattr(config, "small_elements", 0)
    wanted = np.nonzero(x)
    np.testing.assert_array_equal(np.asarray(part * 2), wanted[0][1:-1] * 2)
    np.testing.assert_array_equal(np.asarray(columns[::-1] + 1), wanted[1][::-1] + 1)
