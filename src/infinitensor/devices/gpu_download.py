"""From a GPU into host memory that nobody has touched yet.

A driver that copies into such memory takes a fault for each of its pages, one after the other. So
values come in pieces into pinned memory, as fast as the link is; while one comes, all of torch's
threads copy the one before to its place, in memory of huge pages.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from infinitensor.lazy_torch import torch

FRESH_BYTES = 1 << 22
"""From which this is worth it; NumPy asks for huge pages from there on."""
DOWNLOAD_PIECE_BYTES = 1 << 23

_lock = threading.Lock()
_pair: list[Any] = []
"""Two pieces of pinned memory, kept: to pin them takes longer than to use them."""


def fresh(array: Any) -> Any:
    """A tensor on the host of the shape and dtype of one on a GPU."""
    memory = torch.from_numpy(np.empty(array.nbytes, np.uint8))
    return memory.view(array.dtype).view(array.shape)


def fetch(array: Any, out: Any, stream: Any) -> None:
    """Copy an array from a GPU, behind what a stream has to do, and wait for it."""
    borders = [*range(0, array.nbytes, DOWNLOAD_PIECE_BYTES), array.nbytes]
    with _lock, torch.cuda.stream(stream):
        source, target = (x.view(-1).view(torch.uint8) for x in (array.contiguous(), out))
        if not _pair:
            _pair.extend(
                torch.empty(DOWNLOAD_PIECE_BYTES, dtype=torch.uint8).pin_memory() for _ in range(2)
            )
        come: Any = None
        for k in range(len(borders)):
            before = come
            if k < len(borders) - 1:
                piece = source[borders[k] : borders[k + 1]]
                _pair[k % 2][: len(piece)].copy_(piece, non_blocking=True)
                come = stream.record_event()
            if k:
                before.synchronize()
                place = target[borders[k - 1] : borders[k]]
                place.copy_(_pair[(k - 1) % 2][: len(place)])
