"""What kernels declare to take on a GPU, as far as that is known without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE
from infinitensor.ops.kernels import scratch_bytes

TILE = Spec((64, 32), np.dtype(np.float32))


def declared(name: str, *ins: Any) -> int:
    op = TABLE[name]
    return scratch_bytes(op, op.rule(*ins), ins, op.rule(*ins).outs, "cuda")


@pytest.mark.parametrize("name", ["add", "maximum", "multiply"])
def test_one_torch_call_into_its_output_takes_nothing_on_a_gpu(name: str) -> None:
    assert declared(name, TILE, TILE) == 0
    assert declared(name, TILE, Spec((), TILE.dtype)) == 0


def test_casts_and_words_of_several_calls_are_counted_on_a_gpu() -> None:
    n_bytes = 8 * TILE.n_elements
    assert declared("maximum", TILE, Spec(TILE.shape, np.dtype(np.float64))) >= 2 * n_bytes
    assert declared("remainder", TILE, TILE) >= 4 * n_bytes
    whole = Spec(TILE.shape, np.dtype(np.uint64))
    assert declared("maximum", whole, whole) >= 4 * n_bytes
