"""A tree of splits as one task: plain kernels part what the oracle parts."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.table_xp import WHOLE, TableXp

from infinitensor.ops import TABLE
from infinitensor.ops.points import centres_triton
from infinitensor.ops.points.bisect import NOT_PARTED, ROOT


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_trees_are_the_oracles(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centres_triton, "has_triton", lambda: False)
    op = TABLE["_bisect"]
    assert op.cases is not None
    assert op.oracle is not None
    for args, kwargs in op.cases(np.random.default_rng(1)):
        found = TableXp(WHOLE, device).call("_bisect", *args, **kwargs)
        wanted = op.oracle(*args, **kwargs)
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_array_equal(found[3], wanted[3])
        np.testing.assert_allclose(found[1], wanted[1], 1e-6, 1e-9)
        np.testing.assert_allclose(found[2], wanted[2], 1e-6)


def test_what_draws_do_not_part_is_said() -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    draws = np.array(
        [[0.11, 0.93], [0.51, 0.51]]
    )  # the second split would begin with one row twice
    given = (x, np.zeros(2), np.full(3, 2.0**40), draws, np.zeros(1))
    labels, _, _, parents = TableXp(WHOLE).call("_bisect", *given, max_iter=9)
    assert parents.tolist() == [ROOT, NOT_PARTED]
    assert (labels == ROOT).all()
