"""One ledger owns a device's memory: it takes slabs from it once and hands them out again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from infinitensor import events
from infinitensor.errors import DeviceOutOfMemoryError, gib

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.devices.device import Device


class Buffer:
    """A slab in use. It goes back to its ledger when nothing holds it any more."""

    __slots__ = ("block", "exported", "ledger", "n_bytes")

    def __init__(self, block: Any, ledger: Ledger, n_bytes: int) -> None:
        self.block = block
        self.ledger = ledger
        self.n_bytes = n_bytes
        self.exported = False
        """Whether arrays of it were given out: then its memory is theirs, and is not used again."""

    def __del__(self) -> None:
        self.ledger.give(self.block, self.n_bytes, self.exported)


class Ledger:
    """Bytes in use, bytes at rest, and the peak, of one device.

    A slab given back rests here and is handed out again for the same size; slabs at rest are
    returned to the device when the budget is needed for other sizes. So used and resting bytes
    are together exactly what is held from the device, and within the budget wherever the bytes in
    use are. (Each slab is a block of the device's own: slabs carved from a common block would pin
    all of it.)
    """

    def __init__(self, device: Device, budget_bytes: int) -> None:
        self.device = device
        self.budget_bytes = budget_bytes
        self.resting_bytes = 0
        self.peak_bytes = 0
        self._used_bytes = 0
        self._resting: dict[int, list[Any]] = {}
        self._lent: list[tuple[Callable[[], bool], int]] = []
        # re-entrant: a buffer may be collected, and given back, while another is taken
        self._lock = threading.RLock()

    @property
    def used_bytes(self) -> int:
        """Bytes of buffers, and of buffers that are gone but whose arrays somebody still has."""
        if self._lent:
            with self._lock:
                seen = [(gone, n_bytes) for gone, n_bytes in self._lent if not gone()]
                self._used_bytes -= sum(n for _, n in self._lent) - sum(n for _, n in seen)
                self._lent = seen
        return self._used_bytes

    def take(self, n_bytes: int) -> Buffer:
        """A buffer of a slab size; `DeviceOutOfMemoryError` if the device has no memory left."""
        if "allocate" in events.hooks:
            events.emit("allocate", device=self.device.name, n_bytes=n_bytes)
        with self._lock:
            held = self._resting.get(n_bytes)
            if held:
                block = held.pop()
                self.resting_bytes -= n_bytes
            else:
                if self.used_bytes + self.resting_bytes + n_bytes > self.budget_bytes:
                    self.trim()
                block = self._from_device(n_bytes)
            self._used_bytes += n_bytes
            used = self.used_bytes
            if used > self.peak_bytes:
                self.peak_bytes = used
        return Buffer(block, self, n_bytes)

    def _from_device(self, n_bytes: int) -> Any:
        try:
            return self.device.allocate(n_bytes)
        except (MemoryError, RuntimeError) as error:
            self.trim()
            try:
                return self.device.allocate(n_bytes)
            except (MemoryError, RuntimeError):
                raise DeviceOutOfMemoryError(
                    f"{self.device.name} has no {gib(n_bytes)} left although the budget of "
                    f"{gib(self.budget_bytes)} allows it ({gib(self.used_bytes)} in use); "
                    "something else uses this memory: give a smaller memory= to it.init",
                    n_bytes,
                ) from error

    def give(self, block: Any, n_bytes: int, exported: bool = False) -> None:
        """Take a slab back; an exported one is in use until nobody looks at it any more."""
        with self._lock:
            if exported:
                self._lent.append((self.device.watch(block), n_bytes))
                return
            self._used_bytes -= n_bytes
            self.resting_bytes += n_bytes
            self._resting.setdefault(n_bytes, []).append(block)
            if self._used_bytes + self.resting_bytes > self.budget_bytes:
                self.trim()

    def trim(self) -> None:
        """Return the slabs at rest to the device."""
        with self._lock:
            self._resting.clear()
            self.resting_bytes = 0
            self.device.release()
