"""Reading tensors back: no more is brought to the host than was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infinitensor.devices.copy import copy_into
from infinitensor.devices.device import CpuDevice
from infinitensor.devices.ledger import Ledger
from infinitensor.ir.layout import DISK, HOST, Layout
from infinitensor.runtime.state.tile_table import MOST_WINDOWS, TileTable
from infinitensor.storage import NpyFile, Part

if TYPE_CHECKING:
    from pathlib import Path


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
def test_a_box_is_cut_out_where_it_is(box: tuple[tuple[int, int], ...]) -> None:
    device = Counting()
    values = np.arange(48.0).reshape(12, 4)
    layout = Layout(((0, 5, 12), (0, 4)), (0,))
    table = TileTable.scatter(values, layout, [device], [Ledger(device, 1 << 20)], False)
    asked = values[tuple(slice(lo, hi) for lo, hi in box)]
    np.testing.assert_array_equal(table.read(box, [device]), asked)
    assert device.n_read == asked.size


def test_a_tile_that_is_nowhere_below_stays_when_others_are_given_back(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(6, 2)
    np.save(tmp_path / "x.npy", values)
    stored = Part(NpyFile(str(tmp_path / "x.npy")))
    cuts = ((0, 2, 4, 6), (0, 2))
    device = CpuDevice(0)
    ledger = Ledger(device, 1 << 20)
    here = TileTable.scatter(values, Layout(cuts, (0,)), [device], [ledger], False)
    # the first tile is in memory alone, the others in a file
    parts = [here.arrays[0], stored[2:4], stored[4:6]]
    mixed = TileTable(
        Layout(cuts, (0, DISK, DISK)), values.dtype, [here.buffers[0], None, None], parts
    )
    second = (0, here.arrays[1], here.buffers[1])
    read = mixed.with_read(cuts, {1: second})  # type: ignore[dict-item]
    assert [read.is_spare(k) for k in range(3)] == [False, True, False]
    assert read.spare_bytes == here.buffers[1].n_bytes  # type: ignore[union-attr]
    for table in (read, read.without({0, 1, 2}), read.with_read(cuts, {})):
        np.testing.assert_array_equal(table.read(((0, 6), (0, 2)), [device]), values)
        assert table.layout.owner(0) == 0
    assert read.without({0, 1, 2}).spare_bytes == 0


def test_read_only_arrays_are_copied_into_tensors_without_a_warning() -> None:
    import torch

    values = np.arange(3.0)
    values.flags.writeable = False
    out = torch.empty(3, dtype=torch.float64)
    copy_into(out, values)
    np.testing.assert_array_equal(out.numpy(), values)


def test_a_tile_on_the_host_beside_gpus_takes_nothing_of_them() -> None:
    device = CpuDevice(0)
    values = np.ones(600)
    buffer = Ledger(device, 1 << 20).take(8192)
    table = TileTable(Layout(((0, 600),), (HOST,)), values.dtype, [buffer], [values], whole=values)
    assert table.device_bytes() == {}
    here = TileTable(Layout(((0, 600),), (0,)), values.dtype, [buffer], [values], whole=values)
    assert here.device_bytes() == {0: 5120}


def test_a_window_is_views_of_the_tiles_that_it_touches() -> None:
    device = CpuDevice(0)
    values = np.arange(48.0).reshape(12, 4)
    layout = Layout(((0, 5, 12), (0, 4)), (0,))
    table = TileTable.scatter(values, layout, [device], [Ledger(device, 1 << 20)], False)
    window = table.window(((3, 9), (1, 4)))
    assert window.partly
    assert window.layout.cuts == ((0, 2, 6), (0, 3))
    assert np.shares_memory(window.arrays[1], table.arrays[1])
    np.testing.assert_array_equal(window.read(((0, 6), (0, 3)), [device]), values[3:9, 1:4])


def test_a_table_remembers_the_last_parts_of_it_that_were_seen() -> None:
    device = CpuDevice(0)
    layout = Layout(((0, 12), (0, 4)), (0,))
    values = np.arange(48.0).reshape(12, 4)
    table = TileTable.scatter(values, layout, [device], [Ledger(device, 1 << 20)], False)
    window = table.window(((3, 9), (1, 4)))
    assert table.window(((3, 9), (1, 4))) is window
    for k in range(MOST_WINDOWS):
        assert table.window(((k, 12), (0, 4))) is not window
    assert table.window(((3, 9), (1, 4))) is not window
    window = table.window(((3, 9), (1, 4)))
    table.without_windows()
    assert table.window(((3, 9), (1, 4))) is not window
    assert table.reshaped((48,)) is None  # in memory of the host
    file = TileTable.of_host(values)
    assert file.reshaped((48,)) is None
    assert file.window(((3, 9), (1, 4))) is not file.window(((3, 9), (1, 4)))


def test_tables_say_what_is_spare_what_an_eviction_writes_and_what_is_below(
    tmp_path: Path,
) -> None:
    values = np.arange(12.0).reshape(6, 2)
    np.save(tmp_path / "x.npy", values)
    stored = Part(NpyFile(str(tmp_path / "x.npy")))
    cuts = ((0, 2, 4, 6), (0, 2))
    device = CpuDevice(0)
    here = TileTable.scatter(values, Layout(cuts, (0,)), [device], [Ledger(device, 1 << 20)], False)
    slabs = [buffer.n_bytes for buffer in here.buffers if buffer is not None]
    assert here.bytes_to_evict == sum(slabs)
    assert here.spares() == {}
    assert here.lower_parts() == [None, None, None]
    buffer = here.buffers[1]
    assert buffer is not None
    read = TileTable.of_file(stored).with_read(cuts, {1: (0, here.arrays[1], buffer)})
    assert read.spares() == {1: slabs[1]}
    assert read.spare_bytes == slabs[1]
    assert read.bytes_to_evict == 0
    assert [part.shape for part in read.lower_parts()] == [(2, 2)] * 3
    read.lend(1)
    assert buffer.exported
    read.lend(0)  # a file has no memory to lend


def test_tables_that_are_alike_have_one_form() -> None:
    values = np.arange(12.0).reshape(3, 4)
    first, second = TileTable.of_host(values), TileTable.of_host(values + 1)
    assert first.form is second.form
    others = [
        TileTable.of_host(values.astype(np.float32)),
        TileTable.of_host(values.reshape(4, 3)),
        TileTable(Layout(((0, 3), (0, 4)), (0,)), values.dtype, [None], [values], whole=values),
        TileTable(Layout(((0, 3), (0, 4)), (HOST,)), values.dtype, [None], [values]),
        first.window(((0, 3), (0, 4))),
    ]
    assert len({table.form for table in (first, *others)}) == 6


def test_strides_are_those_of_arrays_that_c_reads() -> None:
    values = np.arange(12.0).reshape(3, 4)
    assert TileTable.of_host(values).strides == ((32, 8),)
    assert TileTable.of_host(values.T).strides == ((8, 32),)
    assert TileTable.of_host(np.array(3.0)).strides == ((),)
    two = TileTable(Layout(((0, 1, 3), (0, 4)), (0,)), values.dtype, [None] * 2, [values[:1]] * 2)
    assert two.strides == ((32, 8), (32, 8))
    shifted = np.frombuffer(bytearray(33), np.uint8)[1:].view(np.float64)
    assert TileTable.of_host(shifted).strides == ()
    assert TileTable(Layout(((0, 3),), (DISK,)), values.dtype, [None], [None]).strides == ()
