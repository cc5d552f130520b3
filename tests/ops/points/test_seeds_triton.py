"""The kernels of k-means++: every case is the oracle's, over one block of rows and over several."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.table_xp import WHOLE, TableXp
from tests.triton_in_numpy import triton_in_numpy

from infinitensor.ops import TABLE
from infinitensor.ops.points import centres_triton, seeds_triton

pytest.importorskip("torch")


@pytest.mark.parametrize(("block", "rows", "looked_at"), [(512, 64, 4096), (16, 4, 8)])
def test_every_case_is_the_oracles(
    block: int, rows: int, looked_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("SUM_BLOCK_ROWS", "ROWS_LOOKED_AT", "SUMS_LOOKED_AT")
    for name, size in zip(names, (block, rows, looked_at), strict=True):
        monkeypatch.setattr(seeds_triton, name, size)
    for one in (*seeds_triton._attempt.values(), *seeds_triton._pick.values()):
        monkeypatch.setattr(one, "known", {})
    op = TABLE["_seeds"]
    assert op.cases is not None
    assert op.oracle is not None
    with triton_in_numpy(centres_triton) as launches:
        for args, kwargs in op.cases(np.random.default_rng(5)):
            before = len(launches)
            found = TableXp(WHOLE, "cuda").call("_seeds", *args, **kwargs)
            np.testing.assert_array_equal(found, op.oracle(*args, **kwargs))
            assert len(launches) - before == 2 * len(args[2]), "two kernels a seed"


def test_a_row_without_weight_is_not_drawn() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    weights = (np.arange(60) % 2).astype(float)
    draws = np.random.default_rng(1).uniform(size=(20, 3))
    with triton_in_numpy(centres_triton):
        found = TableXp(WHOLE, "cuda").call("_seeds", x, x[0] * 0, draws, np.array([1]), weights)
    assert (found % 2 == 1).all()
    assert len(set(found)) == 20
