"""Partial results of cut labels are merged in a tree by index: the same bits in whatever order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor.tasking.groups.combine import ADDED, RADIX

if TYPE_CHECKING:
    from infinitensor.ir.tasks import Family

A = np.random.default_rng(0).random(1000)


def levels(devices: str, made: Any, tile_elements: int = 7) -> list[Family]:
    with strict(devices, tile_elements, compile="never") as session:
        graph = prepared(session, made()).program.graph
    return [family for family in graph.families if family.op.startswith("combine ")]


def merged(family: Family) -> list[int]:
    assert family.many is not None
    return list(np.diff(family.many[0]).tolist())


@pytest.mark.parametrize("n_pieces", [1, 2, RADIX, RADIX + 1, RADIX**2, RADIX**2 + 1])
def test_a_tree_has_as_few_levels_as_merge_all_and_the_last_one_task(n_pieces: int) -> None:
    found = levels("null", lambda: it.max(it.asarray(np.arange(8.0 * n_pieces))), 8)
    n_levels, n = 0, n_pieces
    while n > 1:
        n, n_levels = -(-n // RADIX), n_levels + 1
    assert len(found) == n_levels
    left = n_pieces
    for family in found:
        assert sum(merged(family)) == left
        assert max(merged(family)) <= RADIX
        left = family.n
    if found:
        assert found[-1].n == 1
        assert len(found[-1].values) == 1
        assert all(family.values == () for family in found[:-1])


def test_products_on_one_cpu_add_a_few_at_a_time_where_they_go() -> None:
    def product() -> Any:
        x = it.asarray(np.ones((4, 512)))
        return x @ it.asarray(np.ones((512, 4)))

    one = levels("cpu", product, 64)
    several = levels("cpu*2", product, 64)
    assert one
    assert max(max(merged(family)) for family in one) <= ADDED
    assert max(max(merged(family)) for family in several) > ADDED


@pytest.mark.parametrize("devices", ["cpu", "cpu*2", "cpu*3"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "float64"])
def test_sums_over_cut_axes_are_numpys(devices: str, dtype: str) -> None:
    a = (A * 100).astype(dtype).reshape(10, 20, 5)
    with strict(devices, 7):
        for axis in (None, 0, (0, 2), 1):
            found = it.sum(it.asarray(a), axis=axis).numpy()
            np.testing.assert_allclose(
                found, a.sum(axis=axis), rtol=1e-4 if dtype == "float32" else 1e-12
            )
            assert it.max(it.asarray(a), axis=axis).numpy().tolist() == a.max(axis=axis).tolist()


def test_a_sum_has_the_same_bits_at_every_run() -> None:
    found = set()
    for _ in range(3):
        with strict("cpu*2", 7):
            found.add(float(it.sum(it.asarray(A))))
    assert len(found) == 1
