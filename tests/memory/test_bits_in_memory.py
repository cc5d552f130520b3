"""Tensors made in memory that have to be evicted give the bits of those that never were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.partition import LEAF_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHAPE = (65_536, 16)
"""4 MiB of float32: several of the tiles that a CPU works on, and of the leaves of its sums."""
WEIGHTS = np.random.default_rng(1).standard_normal((16, 8)).astype(np.float32)

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "squares from the mean": lambda x: ((x - x.mean(axis=0)) ** 2).sum(axis=0),
    "deviations of lines": lambda x: it.tanh(x).std(axis=0),
    "sum of all": lambda x: (x * x).sum(),
    "log of sums": lambda x: it.logsumexp(x, axis=0),
    "gram": lambda x: x.T @ x,
    "few columns": lambda x: x @ WEIGHTS,
    "a product of a product": lambda x: (x @ WEIGHTS).T @ x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_evicted_tensor_has_the_bits_of_one_in_memory(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = (rng.standard_normal(SHAPE) * np.exp(rng.uniform(-6, 6, SHAPE))).astype(np.float32)
    bits, evicted = set(), []
    for share in (None, 1.5, 1.0, 0.75):
        memory = None if share is None else int(share * values.nbytes)
        with it.init("cpu", memory=memory, disk="64MiB", spill_dir=str(tmp_path)) as session:
            x = it.asarray(values)
            found = np.asarray(it.compute(PROGRAMS[name](x))).tobytes()
            bound = max((planned.tile_elements for planned in session.plans.values()), default=0)
            del x
            if not bound or bound >= LEAF_ELEMENTS["cpu"]:  # else no tile of that size has room
                bits.add(found)
                evicted.append(it.stats()["bytes_evicted"])
    assert len(bits) == 1
    assert evicted[0] == 0
    assert evicted[-1] >= values.nbytes
    assert len(evicted) >= 2
