"""What every device must do, and how devices are named."""

from __future__ import annotations

import mmap
import warnings
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.devices import Device, open_devices
from infinitensor.devices.device import (
    SMALL_BYTES,
    _reclaimable_bytes,
    host_free_bytes,
    parse_devices,
)
from infinitensor.dtypes import from_numpy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DTYPES = ["bool", "int8", "uint8", "int32", "int64", "float32", "float64", "complex128"]


class DeviceTests:
    """A device inherits these; `text` names it."""

    text = ""
    holds_values = True

    @pytest.fixture
    def device(self) -> Device:
        (found,) = open_devices(self.text)
        return found

    def test_it_is_of_the_kind_it_was_named(self, device: Device) -> None:
        kind = self.text.partition(":")[0]
        assert device.kind == kind
        assert device.name.startswith(kind + ":")

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("shape", [(), (5,), (3, 4), (0, 3)], ids=str)
    def test_values_survive_the_way_there_and_back(
        self, device: Device, shape: tuple[int, ...], dtype: str
    ) -> None:
        values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        block = device.allocate(max(values.nbytes, 64) + 64)
        array = device.array(block, shape, values.dtype)
        device.from_host(array, values)
        device.synchronize()
        if not self.holds_values:
            with pytest.raises(ValueError, match="holds no values"):
                device.to_host(array)
            return
        found = device.to_host(array)
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)

    def test_transposed_values_are_stored_in_order(self, device: Device) -> None:
        values = np.arange(12.0).reshape(3, 4)[::-1].T
        array = device.array(device.allocate(128), (4, 3), values.dtype)
        device.from_host(array, values)
        if self.holds_values:
            np.testing.assert_array_equal(device.to_host(array), values)

    def test_kernels_start_in_its_context(self, device: Device) -> None:
        with device.running():
            pass
        device.synchronize()
        device.release()

    def test_a_watched_block_is_gone_with_the_last_array_of_it(self, device: Device) -> None:
        block = device.allocate(1 << 16)
        array = device.array(block, (4, 3), np.dtype(np.float32))
        gone = device.watch(block)
        del block
        assert gone() is (array is None)
        array = array if array is None else array[1:].reshape(-1)
        assert gone() is (array is None)
        del array
        assert gone()

    def test_it_has_memory(self, device: Device) -> None:
        assert device.free_bytes() > 0

    def test_virtual_devices_have_names_of_their_own(self) -> None:
        names = [device.name for device in open_devices(self.text + "*3")]
        assert len(set(names)) == 3

    def test_a_plan_runs_on_it(self) -> None:
        with strict(self.text + "*2", 7):
            x = it.asarray(np.arange(24.0).reshape(4, 6))
            y = x @ x.T + it.sum(x, axis=1)
            if self.holds_values:
                wanted = np.arange(24.0).reshape(4, 6)
                np.testing.assert_array_equal(y.numpy(), wanted @ wanted.T + wanted.sum(1))
            else:
                it.compute(y)
            assert it.stats()["tasks"] > 0
            assert len(it.stats()["peak_bytes"]) == 2


@pytest.mark.local
class TestCpu(DeviceTests):
    text = "cpu"

    @pytest.mark.parametrize("n_bytes", [256, SMALL_BYTES, 1 << 20])
    def test_a_large_block_is_aligned_and_an_array_is_a_view_of_it(self, n_bytes: int) -> None:
        (device,) = open_devices("cpu")
        block = device.allocate(n_bytes)
        assert n_bytes <= block.nbytes <= n_bytes + mmap.PAGESIZE
        assert block.ctypes.data % (16 if n_bytes < SMALL_BYTES else 64) == 0
        array = device.array(block, (4, 8), np.dtype(np.float64))
        assert np.shares_memory(array, block)
        assert np.shares_memory(device.to_host(array), block)
        shifted = device.array(block, (n_bytes,), np.dtype(np.uint8), 128)
        ahead = shifted.ctypes.data - block.ctypes.data
        assert ahead == (128 if n_bytes == 1 << 20 else 0), "only where there is a page to spare"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
class TestCuda(DeviceTests):
    text = "cuda:0"


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bool", "float32", "complex128", "int64"])
def test_large_values_come_from_a_gpu_piece_by_piece(dtype: str) -> None:
    """Whole pieces and the rest of one, in one piece of memory and not, and what is next to it."""
    x = np.random.default_rng(0).integers(0, 9, (1501, 3500)).astype(dtype)
    with it.init("cuda:0"):
        given = it.compute(it.asarray(x))
        np.testing.assert_array_equal(given.numpy(), x, strict=True)
        np.testing.assert_array_equal((given[:, 3:] + given[:, :-3]).numpy(), x[:, 3:] + x[:, :-3])
        np.testing.assert_array_equal(given[:, 5:3000].numpy(), x[:, 5:3000], strict=True)
        found = [given.numpy() for _ in range(3)]
        assert not any(np.shares_memory(a, b) for a, b in pairwise(found))


@pytest.mark.gpu
def test_torchs_random_numbers_go_on_after_a_recording_that_failed() -> None:
    (device,) = open_devices("cuda:0")
    torch.manual_seed(3)
    wanted = [torch.rand(4, device="cuda").tolist() for _ in range(2)]
    torch.manual_seed(3)
    found = [torch.rand(4, device="cuda").tolist()]
    assert device.record(torch.cuda.synchronize) is None
    found.append(torch.rand(4, device="cuda").tolist())
    assert found == wanted


@pytest.mark.gpu
def test_a_gpu_records_again_after_all_recordings_are_gone() -> None:
    """What they make for themselves is in memory that torch takes away after the last of them."""
    (device,) = open_devices("cuda:0")
    x = torch.arange(100.0, device="cuda:0")
    found = torch.zeros(100, device="cuda:0")
    torch.cuda.synchronize()

    def make(factor: int) -> None:
        found.copy_(x * factor + 1)

    for factor in range(2, 6):
        start = device.record(partial(make, factor))
        assert start is not None, f"recording {factor}"
        start()
        device.synchronize()
        torch.cuda.synchronize()
        np.testing.assert_array_equal(found.cpu().numpy(), np.arange(100.0) * factor + 1)
        del start


class TestNull(DeviceTests):
    text = "null"
    holds_values = False


def test_null_counts_everything_and_gives_no_values() -> None:
    with strict("null*3", 7):
        x = it.ones((9, 6))
        y = (x * 2) @ x.T
        planned = it.plan(y)
        it.compute(y)
        assert it.stats()["tasks"] == planned.n_tasks
        with pytest.raises(ValueError, match="holds no values"):
            y.numpy()
        with pytest.raises(ValueError, match="holds no values"):
            float(it.sum(x))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cpu", [("cpu", 0)]),
        ("cpu*4", [("cpu", 0)] * 4),
        (" cpu , cpu*2 ", [("cpu", 0)] * 3),
        (["null", "null*2"], [("null", 0)] * 3),
        ("cuda:1", [("cuda", 1)]),
        ("cuda:0*4", [("cuda", 0)] * 4),
        ("cuda:0,cuda:3", [("cuda", 0), ("cuda", 3)]),
    ],
    ids=str,
)
def test_texts_name_devices(text: str | list[str], wanted: list[tuple[str, int]]) -> None:
    assert parse_devices(text) == wanted


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu", "'gpu' names no device; write 'cpu'"),
        ("cpu*x", r"'cpu\*x' names no device"),
        ("cpu:", "names no device"),
        ("cpu*-1", "names no device"),
        ("cpu*0", r"'cpu\*0' asks for no device at all"),
        ("cpu,null", "devices of one session are of one kind"),
        (["cpu", ""], "'' names no device"),
        ("cpu,", "'' names no device"),
    ],
    ids=str,
)
def test_texts_that_name_none_say_what_to_write(text: Iterable[str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_devices(text)


def test_nothing_named_means_all_gpus_or_the_cpu() -> None:
    found: Any = parse_devices(None)
    assert found == parse_devices("")
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    assert found == ([("cuda", k) for k in range(n_gpus)] or [("cpu", 0)])


def test_free_host_memory_is_less_than_the_machine_has() -> None:
    import os

    assert 0 < host_free_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_pages_of_files_that_a_control_group_would_give_up_are_free(tmp_path: Path) -> None:
    assert _reclaimable_bytes(tmp_path) == 0
    (tmp_path / "memory.stat").write_text("anon 5\nfile 900\ninactive_file 700\nactive_file 200\n")
    assert _reclaimable_bytes(tmp_path) == 700
    (tmp_path / "memory.stat").write_text("inactive_file 3\ntotal_inactive_file 8\n")
    assert _reclaimable_bytes(tmp_path) == 3


def test_memory_that_may_not_be_written_becomes_a_tensor_without_a_warning() -> None:
    locked = np.arange(6.0).reshape(2, 3)
    locked.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = from_numpy(locked)
    assert tensor.data_ptr() == locked.ctypes.data
    assert tensor.tolist() == locked.tolist()
