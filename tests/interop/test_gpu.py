"""Memory of GPUs goes out and comes in without passing the host."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.ir.sessions import local

import infinitensor as it

pytestmark = [pytest.mark.gpu]

N = 1 << 20


def test_a_tile_goes_to_torch_without_a_copy() -> None:
    with it.init("cuda:0"):
        x = it.asarray(np.arange(float(N))) + 1
        assert x.__dlpack_device__() == (2, 0)
        given = torch.utils.dlpack.from_dlpack(x)
        assert given.is_cuda
        assert given.data_ptr() == x.local_tiles()[0][1].data_ptr()
        x[0] = 99
        x.numpy()
        assert float(given[0]) == 1


def test_several_tiles_are_gathered_on_the_gpu() -> None:
    with it.init("cuda:0*2"):
        x = it.asarray(np.arange(float(N))).relayout(4)
        assert torch.equal(x.torch().cpu(), torch.arange(float(N), dtype=torch.float64))
        with pytest.raises(BufferError, match="one piece"):
            x.__dlpack__(copy=False)


def test_small_values_and_views_go_out() -> None:
    with it.init("cuda:0"):
        x = it.asarray(np.arange(12.0).reshape(3, 4))
        for view in (x, x.T, x[::-1, 1:], x[1, 2]):
            given = view.torch()
            assert given.is_cuda
            np.testing.assert_array_equal(given.cpu().numpy(), view.numpy())


def test_memory_that_torch_looks_at_is_counted() -> None:
    with it.init("cuda:0", memory="1GiB") as session:
        given = (it.asarray(np.zeros(N)) + 1).torch()
        session.drain()
        assert local(session).ledgers[0].used_bytes >= 8 * N
        it.compute(it.asarray(np.zeros(N)) - 1)
        assert float(given.sum()) == N


def test_a_torch_tensor_on_the_gpu_becomes_a_tensor() -> None:
    with it.init("cuda:0"):
        source = torch.arange(N, device="cuda", dtype=torch.float32).reshape(1024, -1)
        x = it.asarray(source.T)
        expected = source.T.cpu().numpy()
        source.zero_()
        np.testing.assert_array_equal(x.numpy(), expected)
        assert it.from_dlpack(torch.ones(3, device="cuda")).tolist() == [1, 1, 1]
    with it.init("cpu"):
        assert it.asarray(torch.ones(3, device="cuda")).tolist() == [1, 1, 1]


def test_the_cuda_array_interface_names_memory_of_the_gpu() -> None:
    with it.init("cuda:0"):
        x = it.asarray(np.arange(float(N))) + 1
        seen = torch.as_tensor(x, device="cuda")
        assert seen.data_ptr() == x.__cuda_array_interface__["data"][0]
        assert float(seen.sum()) == float(x.sum())


def test_the_host_gets_a_copy_when_it_asks() -> None:
    with it.init("cuda:0"):
        x = it.asarray(np.arange(float(N)))
        np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), np.arange(float(N)))
        with pytest.raises(ValueError, match="one piece of host memory"):
            np.asarray(x, copy=False)
