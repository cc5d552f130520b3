"""From a GPU into fresh memory, piece by piece: no piece is used before it has come."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import torch

from infinitensor.devices import gpu_download
from infinitensor.devices.gpu_download import fetch, fresh

PIECE_BYTES = 64


class Stream:
    """Copies that come when their event is waited for, as late as a link may bring them."""

    def __init__(self) -> None:
        self.late: list[tuple[Any, Any]] = []
        self.n_late = 0

    def record_event(self) -> Stream:
        return self

    def synchronize(self) -> None:
        target, values = self.late.pop(0)
        target[...] = values


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Two pinned pieces that are filled late, and a stream of a GPU that is not there."""
    stream = Stream()

    class Pinned:
        def __init__(self) -> None:
            self.held = torch.zeros(PIECE_BYTES, dtype=torch.uint8)

        def __getitem__(self, index: Any) -> Any:
            return Late(self.held[index])

    class Late(torch.Tensor):
        def copy_(self, source: Any, non_blocking: bool = False) -> Any:
            assert non_blocking
            stream.late.append((self.as_subclass(torch.Tensor), source.clone()))
            stream.n_late = max(stream.n_late, len(stream.late))
            return self

        def __new__(cls, held: Any) -> Any:
            return held.as_subclass(cls)

    monkeypatch.setattr(gpu_download, "DOWNLOAD_PIECE_BYTES", PIECE_BYTES)
    monkeypatch.setattr(gpu_download, "_pair", [Pinned(), Pinned()])
    monkeypatch.setattr(torch.cuda, "stream", lambda given: contextlib.nullcontext())
    return stream


@pytest.mark.parametrize("dtype", ["bool", "uint8", "bfloat16", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_fresh_memory_has_the_shape_and_dtype_and_is_on_the_host(
    dtype: str, shape: tuple[int, ...]
) -> None:
    array = torch.zeros(shape, dtype=getattr(torch, dtype))
    made = fresh(array)
    assert (made.shape, made.dtype, made.device.type) == (array.shape, array.dtype, "cpu")
    assert made.is_contiguous()


@pytest.mark.parametrize("n", [1, 15, 16, 17, 31, 32, 33, 100])
def test_values_are_whole_whichever_way_they_are_cut(stream: Stream, n: int) -> None:
    array = torch.from_numpy(np.random.default_rng(10).integers(0, 1 << 30, (n,), np.int32))
    out = torch.zeros(n, dtype=torch.int32)
    fetch(array, out, stream)
    assert torch.equal(out, array)
    assert stream.late == []


def test_one_piece_comes_while_the_one_before_goes_to_its_place(stream: Stream) -> None:
    array = torch.arange(100, dtype=torch.int32)
    fetch(array, torch.zeros(100, dtype=torch.int32), stream)
    assert stream.n_late == 2


def test_values_of_any_strides_come_in_the_order_of_their_indices(stream: Stream) -> None:
    array = torch.arange(60, dtype=torch.float64).reshape(6, 10).T
    out = fresh(array)
    fetch(array, out, stream)
    assert torch.equal(out, array)
