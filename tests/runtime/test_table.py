"""Reading tensors back: no more is brought to the host than was asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitensor.devices.device import CpuDevice, _readable
from infinitensor.devices.ledger import Ledger
from infinitensor.dtypes import bfloat16, from_numpy
from infinitensor.ir.layout import Layout
from infinitensor.runtime.table import TileTable


class Counting(CpuDevice):
    """A device that counts what it brings to the host."""

    def __init__(self) -> None:
        super().__init__(0)
        self.n_read = 0

    def to_host(self, array: Any, where: tuple[slice, ...] = ()) -> np.ndarray:
        made = super().to_host(array, where)
        self.n_read += made.size
        return made


@pytest.mark.parametrize(
    "box", [((5, 6), (0, 4)), ((2, 9), (1, 3)), ((0, 12), (3, 4)), ((7, 7), (0, 4))]
)
def test_a_box_is_cut_out_where_it_lies(box: tuple[tuple[int, int], ...]) -> None:
    device = Counting()
    values = np.arange(48.0).reshape(12, 4)
    layout = Layout(((0, 5, 12), (0, 4)), (0,))
    table = TileTable.scatter(values, layout, [device], [Ledger(device, 1 << 20)], False)
    asked = values[tuple(slice(lo, hi) for lo, hi in box)]
    np.testing.assert_array_equal(table.read(box, [device]), asked)
    assert device.n_read == asked.size


@pytest.mark.parametrize("dtype", [np.float32, bfloat16, np.bool_, np.complex64])
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_read_only_arrays_are_lent_to_torch_without_a_copy(
    dtype: Any, shape: tuple[int, ...]
) -> None:
    values = np.ones(shape, dtype)
    values.flags.writeable = False
    lent = _readable(values)
    assert lent.dtype == values.dtype
    assert from_numpy(lent).shape == shape
    assert not values.size or np.shares_memory(lent, values)
    np.testing.assert_array_equal(lent.astype(complex), values.astype(complex))
