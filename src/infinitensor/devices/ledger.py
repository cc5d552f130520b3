"""One ledger owns a device's memory: it takes slabs from it once and hands them out again."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from infinitensor import events
from infinitensor.config import config
from infinitensor.devices import idle
from infinitensor.errors import DeviceOutOfMemoryError, gib
from infinitensor.interrupts import without_interrupts
from infinitensor.native import IS_CHECKED, extension

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.devices.device import Device


class Buffer:
    """A slab in use. It goes back to its ledger when nothing holds it any more."""

    __slots__ = ("__weakref__", "_loan", "block", "ledger", "n_bytes")

    def __init__(self, block: Any, ledger: Ledger, n_bytes: int) -> None:
        self.block = block
        self.ledger = ledger
        self.n_bytes = n_bytes
        self._loan = loan = Loan(self, ledger.give_back)
        loan.block, loan.n_bytes, loan.exported = block, n_bytes, False
        ledger.loans[id(loan)] = loan

    @property
    def exported(self) -> bool:
        """Whether arrays of it were given out: then its memory is theirs, and is not used again."""
        return self._loan.exported

    @exported.setter
    def exported(self, is_so: bool) -> None:
        self._loan.exported = is_so


class Loan(weakref.ref[Buffer]):
    """The record of a slab that a ledger keeps once its buffer is gone.

    It learns of it by the callback of a weak reference, which is C's: in a finalizer of Python's,
    Ctrl-C would be lost, and with it the slab.
    """

    __slots__ = ("block", "exported", "n_bytes")
    block: Any
    exported: bool
    n_bytes: int


class Ledger:
    """Bytes in use, bytes at rest, and the peak, of one device.

    A slab given back rests here and is handed out again for the same size; slabs at rest are
    returned to the device when the budget is needed for other sizes, or nobody takes any for some
    seconds (`idle.py`). So used and resting bytes
    are together exactly what is held from the device, and within the budget wherever the bytes in
    use are. (Each slab is a block of the device's own: slabs carved from a common block would pin
    all of it.)

    What is handed out again, as nearly everything is, C hands out (`ledger.c`) where it can be
    compiled; what is here says what that does, and is complete.
    """

    __slots__ = (
        "__weakref__",
        "_lent",
        "_lock",
        "_resting",
        "_resting_bytes",
        "_used_bytes",
        "budget_bytes",
        "device",
        "give_back",
        "let_go",
        "loans",
        "n_taken",
        "peak_bytes",
        "returned",
    )

    def __init__(self, device: Device, budget_bytes: int) -> None:
        self.device = device
        self.budget_bytes = budget_bytes
        self.peak_bytes = 0
        self._resting_bytes = 0
        self._used_bytes = 0
        self.loans: dict[int, Loan] = {}
        """Of all buffers that there are."""
        self.returned: deque[Loan] = deque()
        """Of buffers that are gone."""
        self.give_back = self.returned.append
        self.n_taken = 0
        """How often somebody took memory."""
        self.let_go: Callable[[], None] = lambda: None
        """Lets go of what is held for tensors that are gone; waits for whoever works with it."""
        self._resting: dict[int, list[Any]] = {}
        self._lent: list[tuple[Callable[[], bool], int]] = []
        # re-entrant: a buffer may be collected, and given back, while another is taken
        self._lock = threading.RLock()

    @property
    def resting_bytes(self) -> int:
        """Bytes of slabs that nobody uses, and that are handed out again."""
        self._take_back()
        return self._resting_bytes

    def has(self, n_bytes: int) -> bool:
        """Whether nobody uses so many bytes of the budget. (Mostly that is so whatever was given
        back meanwhile.)"""
        free = self.budget_bytes - n_bytes
        return self._used_bytes <= free or self.used_bytes <= free

    @property
    def used_bytes(self) -> int:
        """Bytes of buffers, and of buffers that are gone but whose arrays somebody still has."""
        if self.returned:
            self._take_back()
        if self._lent:
            with without_interrupts(), self._lock:
                seen = [(gone, n_bytes) for gone, n_bytes in self._lent if not gone()]
                self._used_bytes -= sum(n for _, n in self._lent) - sum(n for _, n in seen)
                self._lent = seen
        return self._used_bytes

    def take(self, n_bytes: int) -> Buffer:
        """A buffer of a slab size; `DeviceOutOfMemoryError` if the device has no memory left."""
        if "allocate" in events.hooks:
            events.emit("allocate", device=self.device.name, n_bytes=n_bytes)
        found = _take_at_rest(self, n_bytes)
        if found is not None:
            return found
        with without_interrupts(), self._lock:  # what is counted has an owner
            if self.returned:
                self._let_rest()
            self.n_taken += 1
            held = self._resting.get(n_bytes)
            if held:
                block = held.pop()
                self._resting_bytes -= n_bytes
            else:
                block = self._more(n_bytes)
            self._used_bytes += n_bytes
            used = self.used_bytes if self._lent or self.returned else self._used_bytes
            if used > self.peak_bytes:
                self.peak_bytes = used
            return Buffer(block, self, n_bytes)

    def _more(self, n_bytes: int) -> Any:
        """A block of the device; where the budget is short, what rests goes back first."""
        if self.used_bytes + self.resting_bytes + n_bytes > self.budget_bytes:
            self.trim()
        block = self._from_device(n_bytes)
        if self.used_bytes + self.resting_bytes + n_bytes >= idle.LEAST_IDLE_BYTES:
            self._is_large()
        return block

    def _is_large(self) -> None:
        """Let what rests too long be given back. (A GPU's memory is torch's, which keeps its own,
        and what rests may be in use by kernels that were started.)"""
        if self.device.kind == "cpu":
            idle.watch(self)

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

    def _take_back(self) -> None:
        """Let slabs rest whose buffers are gone."""
        with without_interrupts(), self._lock:
            self._let_rest()

    def _let_rest(self) -> None:
        """Under the lock, likewise; exported ones are in use while they are seen."""
        while self.returned:
            loan = self.returned.popleft()
            n_bytes = loan.n_bytes
            if loan.exported:
                self._lent.append((self.device.watch(loan.block), n_bytes))
            else:
                self._used_bytes -= n_bytes
                if not IS_CHECKED:
                    self._resting_bytes += n_bytes
                    self._resting.setdefault(n_bytes, []).append(loan.block)
            del loan.block
            del self.loans[id(loan)]
            if self._used_bytes + self._resting_bytes > self.budget_bytes:
                self._clear()

    def trim(self) -> None:
        """Return the slabs at rest to the device."""
        self._take_back()
        self._clear()

    def _clear(self) -> None:
        with without_interrupts(), self._lock:
            self._resting.clear()
            self._resting_bytes = 0
            self.device.release()


def _in_c() -> tuple[Callable[[Ledger, int], Buffer | None], Any]:
    """How a slab at rest becomes a buffer, None where there is more to do, as there always is
    without C; and a pointer to it for other C files."""
    module = None if IS_CHECKED or config.compile == "never" else extension("devices/ledger")
    if module is None:
        return (lambda ledger, n_bytes: None), None
    module.install(Ledger, Buffer, Loan)
    return module.take_at_rest, module.ledgers


_take_at_rest, ledgers_in_c = _in_c()
