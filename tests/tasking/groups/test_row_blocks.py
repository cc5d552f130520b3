"""Several groups as one family: blocks of rows one after another, nothing stored between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor.native import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")
A = np.random.default_rng(5).random((256, 64))


def softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)


@pytest.mark.parametrize("tile_elements", [1 << 11, 1 << 20])
def test_a_softmax_of_rows_is_one_family_that_makes_only_what_is_kept(tile_elements: int) -> None:
    with strict("cpu", tile_elements, compile="always") as session:
        made = softmax(it, it.asarray(A))
        graph = prepared(session, made).program.graph
        (family,) = graph.families
        assert family.n_groups > 1
        assert len(family.writes) == 1
        assert family.values == tuple(graph.held)
        assert family.scratch_bytes > 0
        np.testing.assert_allclose(made.numpy(), softmax(np, A), rtol=1e-13)


def test_without_a_compiler_groups_are_families_of_their_own_with_the_same_values() -> None:
    with strict("cpu", 1 << 11, compile="never") as session:
        made = softmax(it, it.asarray(A))
        graph = prepared(session, made).program.graph
        assert all(family.n_groups == 1 for family in graph.families)
        np.testing.assert_allclose(made.numpy(), softmax(np, A), rtol=1e-13)
