"""Tensors of their own: what they are before and after they have a cell."""

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api import near
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
    assert near.settle(tensor) is near.settle(tensor)
    tensor[0] = 7.0
    assert tensor.tolist() == [7.0, 2.0, 3.0]
