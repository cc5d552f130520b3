"""Reshapes of stored memory are read where it is, and what they read stays what it was."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import local

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Iterator

SHAPE = (40, 50, 60)


@pytest.fixture(autouse=True)
def session() -> Iterator[it.Session]:
    with it.init("cpu") as opened:
        yield opened


def values() -> np.ndarray:
    return np.random.default_rng(4).standard_normal(SHAPE)


def test_a_merged_axis_is_no_copy() -> None:
    a = values()
    x = it.asarray(a)
    y = it.exp(x.reshape(40, -1)) @ x.reshape(-1, 40)
    assert "_strided" not in y.explain()
    np.testing.assert_allclose(y.numpy(), np.exp(a.reshape(40, -1)) @ a.reshape(-1, 40))


def test_a_call_of_reshapes_is_known_the_second_time() -> None:
    a = values()
    x = it.asarray(a)
    for n in range(3):
        it.stats(reset=True)
        y = x.reshape(-1) * 2 + x.reshape(-1)
        ways = it.stats()["ways"]
        assert n == 0 or (ways["recorded"], ways["recorded_again"]) == (0, 2)
        np.testing.assert_array_equal(y.numpy(), a.reshape(-1) * 2 + a.reshape(-1))
    x[0] = 1
    np.testing.assert_array_equal((x.reshape(-1) * 2).numpy()[:3000], 2)


def test_other_merged_axes_are_gathered() -> None:
    a = values()
    x = it.asarray(a)
    y = x.transpose(1, 0, 2).reshape(-1, 60) * 2 + x[:, ::2].reshape(-1, 60).sum()
    np.testing.assert_allclose(
        y.numpy(), a.transpose(1, 0, 2).reshape(-1, 60) * 2 + a[:, ::2].reshape(-1, 60).sum()
    )
    flat = a.reshape(400, 300)
    np.testing.assert_array_equal((it.asarray(flat).diagonal() * 2).numpy(), flat.diagonal() * 2)


def test_what_a_reshape_reads_is_not_written_before_it_is_read() -> None:
    a = values()
    x = it.asarray(a)
    before = x.reshape(-1, 60) * 2
    x[...] = x + 1
    x[3, 4, 5] = 100.0
    x[1:20] *= 3
    later = x.reshape(-1, 60) * 2
    np.testing.assert_array_equal(before.numpy(), a.reshape(-1, 60) * 2)
    a = a + 1
    a[3, 4, 5] = 100.0
    a[1:20] *= 3
    np.testing.assert_array_equal(later.numpy(), a.reshape(-1, 60) * 2)
    np.testing.assert_array_equal(x.numpy(), a)


def test_memory_lives_as_long_as_a_reshape_of_it_waits() -> None:
    a = values()
    x = it.asarray(a)
    y = x.reshape(-1, 60) + 1
    del x
    gc.collect()
    other = it.asarray(a * 0)
    np.testing.assert_array_equal((y + other.reshape(-1, 60)).numpy(), a.reshape(-1, 60) + 1)


def test_memory_may_be_written_again_when_it_was_read() -> None:
    x = it.asarray(values())
    y = x.reshape(-1, 60) + 1
    assert x._version.exported == 1
    it.compute(y)
    y2 = x.reshape(-1, 60) + 1
    del y2
    gc.collect()
    x._session.drain()
    assert x._version.exported == 0
    host = x._version.host
    assert host is not None
    at = host.ctypes.data
    del host
    x[:20] = x[20:] * 2
    it.compute(x)
    again = x._version.host
    assert again is not None
    assert again.ctypes.data == at


def test_a_tile_of_a_gpu_is_read_in_another_shape_without_a_copy() -> None:
    a = values()
    with fake_gpu(), it.init("cuda:0", memory="256MiB") as session:
        x = it.compute(it.asarray(a) * 1)
        for _ in range(4):  # recorded, and then known
            made = it.compute(x.reshape(-1, 60) * 2, x.reshape(-1) + 1)
            del made
        y = x.reshape(-1, 60) + 1
        assert x._version.exported == 1
        x[:20] = 0  # what waits has the values of before
        np.testing.assert_array_equal(y.numpy(), a.reshape(-1, 60) + 1)
        np.testing.assert_array_equal(x.numpy()[20:], a[20:])
        assert not x.numpy()[:20].any()
        z = x.transpose(2, 0, 1).reshape(-1) + 1  # in another order: a copy
        np.testing.assert_array_equal(z.numpy(), x.numpy().transpose(2, 0, 1).reshape(-1) + 1)
        part = x[20:].reshape(-1) + 1  # of a part
        np.testing.assert_array_equal(part.numpy(), a[20:].reshape(-1) + 1)
        del y, z, part, x
        session.drain()
        assert local(session).ledgers[0].used_bytes == 0
