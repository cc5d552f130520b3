"""Scratch arrays: the same memory again for a thread and a register, another for others."""

from __future__ import annotations

from threading import Thread

import numpy as np
import pytest

from infinitensor.native import address
from infinitensor.tasking.kernels.thread_scratch import scratch

DOUBLE = np.dtype("f8")


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (4, 5)])
@pytest.mark.parametrize("dtype", ["?", "i2", "f8", "c16"])
def test_an_array_has_the_shape_and_dtype_asked_for(shape: tuple[int, ...], dtype: str) -> None:
    found = scratch(3, shape, np.dtype(dtype))
    assert (found.shape, found.dtype) == (shape, np.dtype(dtype))
    found[...] = 1
    assert (found == 1).all()


def test_a_register_is_the_same_memory_while_it_is_large_enough() -> None:
    first = scratch(100, (50,), DOUBLE)
    assert address(scratch(100, (10, 5), DOUBLE)) == address(first)
    assert address(scratch(100, (7,), np.dtype("i2"))) == address(first)
    larger = scratch(100, (500,), DOUBLE)
    larger[:] = 3.0
    assert address(scratch(100, (50,), DOUBLE)) == address(larger)


def test_registers_above_and_below_zero_do_not_overlap() -> None:
    arrays = [scratch(register, (20,), DOUBLE) for register in (-2, -1, 0, 1)]
    for k, array in enumerate(arrays):
        array[:] = k
    assert [set(array.tolist()) for array in arrays] == [{0.0}, {1.0}, {2.0}, {3.0}]


def test_each_thread_has_its_own() -> None:
    mine = scratch(0, (20,), DOUBLE)
    mine[:] = 1.0

    def other() -> None:
        scratch(0, (20,), DOUBLE)[:] = 2.0

    thread = Thread(target=other)
    thread.start()
    thread.join()
    assert (mine == 1.0).all()
