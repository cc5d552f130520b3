"""Groups of equal kin share a plan; groups that only look alike must not."""

from __future__ import annotations

import numpy as np

import infinitensor as it


def test_a_square_and_a_product_of_two_are_not_of_one_kin() -> None:
    before = it.config.small_elements
    it.config.small_elements = 0
    try:
        with it.init("cpu*2"):
            x, y = it.asarray(np.arange(9.0)), it.asarray(np.arange(9.0) + 1)
            it.compute(x, y)
            square, product = x * x, x * y
            it.compute(square, product)
            np.testing.assert_array_equal(square.numpy(), np.arange(9.0) ** 2)
            np.testing.assert_array_equal(product.numpy(), np.arange(9.0) * (np.arange(9.0) + 1))
    finally:
        it.config.small_elements = before
