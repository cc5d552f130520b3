"""opt_einsum contracts tensors along the paths it finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it

opt_einsum: Any = pytest.importorskip("opt_einsum")

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("strict_or_default")]

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 2)]),
        ("abc,abd,de->ce", [(2, 3, 4), (2, 3, 5), (5, 2)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ii->i", [(4, 4)]),
        ("ab,b,a->", [(3, 4), (4,), (3,)]),
    ],
)
def test_a_contraction_is_numpys(subscripts: str, shapes: list[Any]) -> None:
    operands = [RNG.standard_normal(shape) for shape in shapes]
    tensors = [it.asarray(one) for one in operands]
    expected = np.einsum(subscripts, *operands)
    once = opt_einsum.contract(subscripts, *tensors)
    kept = opt_einsum.contract_expression(subscripts, *shapes)(*tensors)
    for found in (once, kept):
        assert isinstance(found, it.Tensor)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
