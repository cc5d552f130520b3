"""The local engine, on CPUs and on null devices: the contract, and what is its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.test_engine import WHOLE, EngineTests
from tests.ir.sessions import local, strict

import infinitensor as it
from infinitensor.devices import Ledger
from infinitensor.devices.device import CpuDevice
from infinitensor.engines import LocalEngine, Room, open_engine
from infinitensor.partition import canonical_layout


@pytest.mark.local
class TestLocal(EngineTests):
    name = "local"

    def test_null_devices_need_no_workers(self) -> None:
        engine = LocalEngine("null*2", Room(None), 4)
        assert engine.mesh.workers == 1
        assert engine.mesh.n_devices == 2

    def test_devices_share_what_is_free(self) -> None:
        engine = LocalEngine("cpu*4", Room(None), 1)
        free = engine.devices[0].free_bytes()
        assert sum(d.memory_bytes for d in engine.mesh.devices) <= free


class TestNull(EngineTests):
    """Plans without arithmetic: all that is asked of an engine but for values."""

    name = "local"
    kind = "null"
    has_values = False


def test_an_unknown_engine_is_named() -> None:
    with pytest.raises(ValueError, match="no engine 'remote'; this version has 'local'"):
        open_engine("remote", "cpu", Room(), 1)


@pytest.mark.parametrize("memory", [0, -5, "0GiB"])
def test_a_device_without_memory_is_refused(memory: str | int) -> None:
    with pytest.raises(ValueError, match="a device needs some memory"):
        LocalEngine("cpu", Room(memory), 1)


def test_a_memory_in_no_known_unit_is_refused() -> None:
    with pytest.raises(
        ValueError, match="memory='2 kk' is not a number of bytes; write for example '2GiB'"
    ):
        LocalEngine("cpu", Room("2 kk"), 1)


@pytest.mark.parametrize("memory", [True, 1.5, "1e9", "abc", float("nan")])
def test_what_is_no_number_of_bytes_says_what_to_write(memory: Any) -> None:
    with pytest.raises(ValueError, match="is not a number of bytes; write for example '2GiB'"):
        it.init("cpu", memory=memory)


@pytest.mark.parametrize("memory", [1e9, np.int64(10**9), "1GB", "1000 MB"])
def test_whole_numbers_are_bytes_whatever_their_type(memory: Any) -> None:
    with it.init("cpu", memory=memory, disk=1e9) as session:
        assert local(session).ledgers[0].budget_bytes == 10**9
        assert local(session).tiers.disk_bytes == 10**9


def test_no_memory_is_refused_by_init() -> None:
    with pytest.raises(ValueError, match=r"memory=0: a device needs some memory; write for exam"):
        it.init("cpu", memory=0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
@pytest.mark.parametrize("devices", ["cuda", "cuda:0", "cuda:0*2", ["cpu", "cuda"]])
def test_gpu_that_is_not_there_says_so(devices: Any) -> None:
    with pytest.raises(ValueError, match=r"there is no GPU to use \(.*\); write 'cpu', or leave"):
        it.init(devices)


class NothingPinned(CpuDevice):
    """A system that pins no memory."""

    def allocate(self, n_bytes: int) -> Any:
        raise MemoryError(f"{n_bytes} bytes cannot be pinned")


def test_what_cannot_be_pinned_goes_to_files_and_is_counted() -> None:
    values = np.arange(60.0).reshape(10, 6)
    with strict("cpu", disk="1MiB") as session:
        engine = local(session)
        engine.tiers.host = Ledger(NothingPinned(0), 1 << 20)
        layout = canonical_layout(values.shape, engine.mesh, 60)
        table = engine.store_in_lower_tier(values, layout)
        assert it.stats(reset=True)["bytes_not_pinned"] >= values.nbytes
        assert it.stats()["bytes_not_pinned"] == 0
        np.testing.assert_array_equal(engine.read(table, WHOLE), values)
