"""Reductions of the same data over the same axes are one pass over it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor.native import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")
A = np.random.default_rng(5).random((64, 48))


def ops(*tensors: Any, session: it.Session) -> list[str]:
    return [family.op for family in prepared(session, *tensors).program.graph.families]


@pytest.mark.parametrize("tile_elements", [256, 1 << 20])
def test_extremes_and_sums_of_rows_are_one_family(tile_elements: int) -> None:
    with strict("cpu", tile_elements, compile="always") as session:
        x = it.asarray(A)
        made = x.max(axis=1), x.min(axis=1), x.sum(axis=1)
        assert "max and min and sum" in ops(*made, session=session)
        it.compute(*made)
        np.testing.assert_array_equal(made[0].numpy(), A.max(axis=1))
        np.testing.assert_array_equal(made[1].numpy(), A.min(axis=1))
        np.testing.assert_allclose(made[2].numpy(), A.sum(axis=1), rtol=1e-13)


def test_other_axes_or_other_data_are_other_passes() -> None:
    with strict("cpu", 256, compile="always") as session:
        x, y = it.asarray(A), it.asarray(A + 1)
        found = ops(x.max(axis=1), x.min(axis=0), y.min(axis=1), session=session)
    assert not any(" and " in op for op in found)


def test_without_a_compiler_each_goes_its_way() -> None:
    with strict("cpu", 256, compile="never") as session:
        x = it.asarray(A)
        found = ops(x.max(axis=1), x.min(axis=1), session=session)
    assert {"max", "min"} <= set(found)
    assert not any(" and " in op for op in found)


def test_a_sum_has_the_same_bits_alone_and_beside_others() -> None:
    with strict("cpu", 256, compile="always"):
        alone = it.asarray(A).sum(axis=1).numpy()
        x = it.asarray(A)
        top, total = x.max(axis=1), x.sum(axis=1)
        it.compute(top, total)
        np.testing.assert_array_equal(total.numpy(), alone)
