"""Lloyd's iterations as one task: plain kernels end where the oracle ends."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.table_xp import WHOLE, TableXp

from infinitensor.ops import TABLE
from infinitensor.ops.points import centres_triton


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_iterations_are_the_oracles(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centres_triton, "has_triton", lambda: False)
    op = TABLE["_lloyd"]
    assert op.cases is not None
    assert op.oracle is not None
    for args, kwargs in op.cases(np.random.default_rng(1)):
        found = TableXp(WHOLE, device).call("_lloyd", *args, **kwargs)
        wanted = op.oracle(*args, **kwargs)
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_array_equal(found[2], wanted[2])
        np.testing.assert_allclose(found[1], wanted[1], 1e-6, 1e-9)
