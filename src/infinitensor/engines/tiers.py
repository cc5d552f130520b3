"""Where tiles go that do not fit a device: host memory beside a GPU, and files."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infinitensor.config import parse_bytes
from infinitensor.devices import Ledger, PinnedDevice, host_free_bytes, open_devices
from infinitensor.storage import Part, Spill, is_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

SHARE_OF_HOST = 0.5
"""The share of the free host memory that tiles of GPUs may take by default."""
SHARE_OF_DISK = 0.5
"""The share of a disk's free space that tiles may take by default; of a folder in memory: nothing,
because that is what they have to leave."""


@dataclass(frozen=True, slots=True)
class Room:
    """The user's limit of each memory; None: a share of what is free."""

    memory: str | float | None = None
    host_memory: str | float | None = None
    disk: str | float | None = None
    spill_dir: str | Sequence[str] | None = None


class LocalTiers:
    """The lower tiers of this process. Nothing is written before the first tile is evicted."""

    def __init__(self, kind: str, room: Room) -> None:
        folders = room.spill_dir or ()
        folders = [folders] if isinstance(folders, str | os.PathLike) else list(folders)
        self._spill = Spill(folders)
        self.no_disk = ""
        """Why nothing is spilled, where the user did not say so."""
        if room.disk is not None:
            self.disk_bytes = parse_bytes(room.disk, "disk")
            if self.disk_bytes < 0:
                raise ValueError(f"disk={room.disk!r}: write for example disk='20GiB', or 0")
        elif kind == "null":
            self.disk_bytes = 0
        else:
            disks = [folder for folder in self._spill.folders if not is_memory(folder)]
            self.disk_bytes = int(SHARE_OF_DISK * sum(map(free_bytes, disks)))
            if not disks:
                names = ", ".join(self._spill.folders)
                self.no_disk = f"{names} is memory itself (tmpfs)"
        self._spill.limit_bytes = self.disk_bytes
        self.host = self._host_ledger(kind, room.host_memory)
        self.not_pinned_bytes = 0
        """Bytes that went to files although the budget of the host would have held them."""

    def _host_ledger(self, kind: str, host_memory: str | float | None) -> Ledger:
        """Host memory that tiles of GPUs are evicted to; elsewhere there is none beside."""
        if kind != "cuda":
            return Ledger(open_devices("null" if kind == "null" else "cpu")[0], 0)
        free = int(SHARE_OF_HOST * host_free_bytes())
        return Ledger(
            PinnedDevice(), free if host_memory is None else parse_bytes(host_memory, "host_memory")
        )

    def spill(self, values: np.ndarray) -> Part:
        """Write values to a file; they can be read until nobody holds the answer."""
        return Part(self._spill.write(values))

    @property
    def spilled_bytes(self) -> int:
        """Bytes of files now."""
        return self._spill.used_bytes

    @property
    def left_bytes(self) -> int:
        """Bytes that may still be written to files."""
        return self.disk_bytes - self._spill.used_bytes

    def close(self) -> None:
        """Remove every file."""
        self._spill.close()


def free_bytes(folder: str) -> int:
    """Free space where a folder is, or will be."""
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return shutil.disk_usage(folder).free
