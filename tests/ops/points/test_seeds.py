"""Seeds as one task: plain kernels take the rows that the oracle takes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.table_xp import WHOLE, TableXp

from infinitensor.ops import TABLE
from infinitensor.ops.points import centres_triton


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_seeds_are_the_oracles(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centres_triton, "has_triton", lambda: False)
    op = TABLE["_seeds"]
    assert op.cases is not None
    assert op.oracle is not None
    for args, kwargs in op.cases(np.random.default_rng(3)):
        found = TableXp(WHOLE, device).call("_seeds", *args, **kwargs)
        np.testing.assert_array_equal(found, op.oracle(*args, **kwargs))


def test_points_in_a_few_heaps_have_a_seed_in_each() -> None:
    heaps = np.repeat(np.arange(5.0) * 1e6, 40)[:, None]
    x = heaps + np.random.default_rng(0).normal(size=(200, 2))
    draws = np.random.default_rng(1).uniform(size=(5, 4))
    found = TableXp(WHOLE).call("_seeds", x, np.zeros(2), draws, np.array([17]))
    assert found[0] == 17
    assert set(found // 40) == set(range(5))
