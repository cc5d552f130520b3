"""What programs over other ops ask of a session: blocks, pieces, scratch and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.functions.namespace import namespace as xp
from infinitensor.api.session.session import current_session
from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE
from infinitensor.partition.tile_shape import LEAF_ELEMENTS

DOUBLE = np.dtype("f8")


@pytest.mark.parametrize("n", [1, 7, 1000, 1 << 30])
@pytest.mark.parametrize("tile", [0, 1, 7, 64])
def test_blocks_are_powers_of_two_within_the_tile_bound(n: int, tile: int) -> None:
    with strict("cpu", tile):
        block = xp.block(n)
        assert block & (block - 1) == 0
        assert 1 <= block <= max(min(n, tile or LEAF_ELEMENTS["cpu"]), 1)
        assert 2 * block > min(n, tile or LEAF_ELEMENTS["cpu"])


def test_blocks_are_smaller_where_memory_is_little_and_that_is_counted() -> None:
    with strict("cpu", 0, memory=1 << 20):
        assert xp.block(1 << 24) <= 1 << 13
        assert it.stats()["smaller_blocks"] == 1


def test_one_gpu_takes_what_fits_in_one_piece_and_several_do_not() -> None:
    with fake_gpu():
        with it.init("cuda:0", memory="1GiB"):
            assert xp.block(3_000_001) == 3_000_001
        with it.init("cuda:0*2", memory="1GiB"):
            assert xp.block(3_000_001) == 1 << 21


def test_a_matrix_is_one_piece_in_one_memory_that_has_room_for_it() -> None:
    small = Spec((50, 50), DOUBLE)
    with it.init("cpu"):
        assert xp.is_one_piece("_cholesky_block", small)
        assert not xp.is_one_piece("_cholesky_block", Spec((1 << 13, 1 << 13), DOUBLE))
    with strict("cpu", 7):
        assert not xp.is_one_piece("_cholesky_block", small)
    with fake_gpu(), it.init("cuda:0*2"):
        assert not xp.is_one_piece("_cholesky_block", small)
    with it.init("cpu", memory=50_000, disk=0, host_memory=0):
        it.stats(reset=True)
        assert not xp.is_one_piece("_cholesky_block", small)
        assert it.stats()["smaller_blocks"] == 1


def test_threads_walk_contiguous_values_that_leave_room() -> None:
    with it.init("cpu", memory="64MiB"):
        mesh = current_session().engine.mesh
        assert xp.n_hands(1000) == (mesh.workers if mesh.target.compiles else 0)
        assert xp.n_hands(1 << 30) == 0
        it.config.compile = "never"
        assert xp.n_hands(1000) == 0
    with strict("cpu", 7):
        assert xp.n_hands(1000) == 0


def test_scratch_is_what_the_op_declares_for_the_devices() -> None:
    spec = Spec((64, 64), DOUBLE)
    with it.init("cpu"):
        found = xp.scratch_bytes("_sort_axis", spec, axis=1)
        assert found == TABLE["_sort_axis"].scratch_bytes((spec,), (spec,), {"axis": 1})
        assert xp.device_kind() == "cpu"
        assert xp.n_concurrent() >= 1
    with it.init("cpu", memory="1MiB", disk="1MiB"):
        assert xp.tiered_bytes() == 1 << 20
    with it.init("cpu", memory="1MiB", disk=0, host_memory=0):
        assert xp.tiered_bytes() == 0


def test_values_that_shapes_depend_on_are_computed_and_counted() -> None:
    with strict("cpu"):
        x = it.asarray(np.arange(6.0))
        np.testing.assert_array_equal(xp.force(x + 1), np.arange(6.0) + 1)
        made = x * 2
        xp.settle(made)
        assert not made._version.is_waiting
        assert it.stats()["forced_evaluations"] == 2


def test_the_values_of_a_mask_that_waits_are_on_the_host_if_they_are_few() -> None:
    with it.init("cpu"):
        x = it.asarray(np.arange(100_000.0)) + 0
        mask = x > 5
        found: Any = xp.mask_values(mask)
        assert found is not None
        np.testing.assert_array_equal(found, np.arange(100_000) > 5)
        assert xp.mask_values(mask) is None, "it has values"
    with strict("cpu", 7):
        assert xp.mask_values(it.asarray(np.arange(9.0)) > 5) is None


def test_constants_are_made_beside_what_they_are_used_with() -> None:
    with it.init("cpu"):
        made = xp.beside(it.ones(3), it.zeros, (2000,), DOUBLE)
        assert not made._version.is_waiting
    with fake_gpu(), it.init("cuda:0"):
        there = it.compute(it.ones(100_000) + 1)
        made = xp.beside(there, it.zeros, (2000,), DOUBLE)
        assert made._version.is_waiting
        np.testing.assert_array_equal(made.numpy(), np.zeros(2000))


def test_random_keys_differ_and_names_that_are_none_are_errors() -> None:
    assert xp.next_seed() != xp.next_seed()
    with pytest.raises(AttributeError, match="no_such_function"):
        xp.no_such_function  # noqa: B018 - asked for
