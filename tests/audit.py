"""What every evaluation promises of memory, checked in every test (`conftest.py` turns it on).

A run takes no more of any device than its plan said. After it nothing is left in its lanes, and
after an evaluation each ledger counts exactly the tiles of stored tensors, what stopped runs hold
and what was given out, and with the slabs at rest holds no more than its budget; no two slabs
share a byte.
"""

from __future__ import annotations

import weakref
from collections import Counter
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.ir.sessions import behind, local

from infinitensor import events
from infinitensor.api.evaluate.waiting import waiting_nodes
from infinitensor.ir.slab import slab_bytes
from infinitensor.memory.uses import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from infinitensor.api.session.session import Session
    from infinitensor.devices import Buffer, Ledger
    from infinitensor.ir.tasks import Program
    from infinitensor.runtime import Run


class BrokenPromise(AssertionError):
    """Memory is not as the plan, the ledger or the tensors say."""


def promise(holds: bool, text: str) -> None:
    if not holds:
        raise BrokenPromise(text)


class Audit:
    """The checks, as hooks on the events of runs."""

    def __init__(self) -> None:
        self.n_runs = 0
        self._at_start: dict[int, list[tuple[int, int]]] = {}
        self._seen: weakref.WeakSet[Session] = weakref.WeakSet()
        self._torn: weakref.WeakSet[Ledger] = weakref.WeakSet()
        """Ledgers of runs that raised: who holds the error holds what its frames held."""

    @contextmanager
    def on(self) -> Iterator[Audit]:
        """Check every evaluation from here on."""
        with ExitStack() as hooks:
            for name in ("run_start", "run_end", "evaluated"):
                hooks.enter_context(events.on(name, getattr(self, name)))
            yield self
        for session in list(self._seen):
            if not session.closed:
                slabs_are_apart(session, resting=True)

    def run_start(self, run: Run) -> None:
        """Note what others hold, and let each ledger find the peak of this run alone."""
        leaves = leaf_bytes(run.program)
        own = bytes_by_ledger(
            buffer
            for slot, buffer in enumerate(run.tiles.directory.buffers)
            if buffer is not None and slot not in run.program.slot_leaves
        ) + bytes_by_ledger(run.rebuilder.spare)
        noted = self._at_start[id(run)] = []
        for k, ledger in enumerate(run.tiles.ledgers):
            with ledger._lock:
                noted.append((ledger.peak_bytes, ledger.used_bytes - own[ledger] - leaves[k]))
                ledger.peak_bytes = ledger.used_bytes

    def run_end(self, run: Run) -> None:
        """The peak was planned, the lanes are empty."""
        self.n_runs += 1
        planned = planned_bytes(run.program)
        for k, (ledger, (peak_before, others)) in enumerate(
            zip(run.tiles.ledgers, self._at_start.pop(id(run)), strict=True)
        ):
            measured = ledger.peak_bytes - others - run.rebuilder.beside_bytes[k]
            ledger.peak_bytes = max(ledger.peak_bytes, peak_before)
            promise(
                measured <= run.program.peak_bytes[k]
                and (
                    bool(run.program.retires) or measured <= planned[k] <= run.program.peak_bytes[k]
                ),
                f"{ledger.device.name}: the run took {measured} bytes, its slots and leaves are "
                f"{planned[k]}, the planned peak is {run.program.peak_bytes[k]}",
            )
        ready, status = run.ready, run.status
        promise(ready is None or not ready.n_running, "tasks still run")
        if status.is_finished() and status.failure is None:
            is_empty = ready is None or not any(ready.heaps)
            promise(is_empty and not status.failed, "a finished run has tasks to start")
        else:
            self._torn.update(run.tiles.ledgers)

    def evaluated(self, session: Session) -> None:
        """The ledgers count what is there, and nothing is there twice."""
        self._seen.add(session)
        session.drain()
        stored = bytes_by_ledger(live_buffers(session))
        for ledger in local(session).ledgers:
            counted = ledger.used_bytes  # which takes back what is gone, and notes what is seen
            lent = sum(n_bytes for _, n_bytes in ledger._lent)
            promise(
                counted == stored[ledger] + lent
                or (ledger in self._torn and counted > stored[ledger] + lent),
                f"{ledger.device.name} counts {counted} bytes in use; tensors hold "
                f"{stored[ledger]}, {lent} are given out",
            )
            held = counted + ledger.resting_bytes
            promise(
                held <= ledger.budget_bytes,
                f"{ledger.device.name} holds {held} bytes, its budget is {ledger.budget_bytes}",
            )
            resting = sum(size * len(blocks) for size, blocks in ledger._resting.items())
            promise(ledger.resting_bytes == resting, f"{resting} bytes rest, not as counted")
        slabs_are_apart(session)


def leaf_bytes(program: Program, only_external: bool = False) -> Counter[int]:
    """Per device, the stored tiles (or windows of them) that a program reads."""
    found: Counter[int] = Counter()
    for tiles in program.graph.tiles:
        if tiles.leaf >= 0:
            lengths = (tiles.boxes[:, :, 1] - tiles.boxes[:, :, 0]).prod(axis=1)
            sizes = slab_bytes(lengths * tiles.dtype.itemsize).tolist()
            if tiles.whole:
                sizes = parts_of(lengths * tiles.dtype.itemsize).tolist()
            slots = program.slots[tiles.first : tiles.first + tiles.n].tolist()
            for device, slot, n_bytes in zip(tiles.devices.tolist(), slots, sizes, strict=True):
                if device >= 0 and not (only_external and slot >= 0):
                    found[device] += n_bytes
    return found


def planned_bytes(program: Program) -> Counter[int]:
    """Per device, the slots of a program and the stored tiles it reads where they are."""
    planned = leaf_bytes(program, only_external=True)
    for device, n_bytes in zip(program.slot_devices, program.slot_bytes, strict=True):
        planned[int(device)] += int(n_bytes)
    return planned


def buffers_of(run: Run) -> list[Buffer]:
    """What a run holds: the tiles it reads and those it makes."""
    held = [buffer for table in run.leaves for buffer in table.buffers]
    held += [*run.tiles.directory.buffers, *run.rebuilder.spare]
    return [buffer for buffer in held if buffer is not None]


def live_buffers(session: Session) -> list[Buffer]:
    """What stored tensors and stopped runs of a session hold."""
    held: list[Buffer | None] = []
    for ref in list(session.stored):
        version = ref()
        if version is not None and version.table is not None:
            held += version.table.buffers
    waiting = [v for ref in session.tape if (v := ref()) is not None and v.node is not None]
    for node in waiting_nodes(waiting):
        if node.is_stopped:
            held += buffers_of(behind(node.stopped.run))
            held += [b for table in node.stopped.whole.values() for b in table.buffers]
    return [buffer for buffer in held if buffer is not None]


def bytes_by_ledger(buffers: Iterable[Buffer]) -> Counter[Ledger]:
    """Bytes of buffers, each counted once, per ledger."""
    found: Counter[Ledger] = Counter()
    for buffer in {id(buffer): buffer for buffer in buffers}.values():
        found[buffer.ledger] += buffer.n_bytes
    return found


def slabs_are_apart(session: Session, resting: bool = False) -> None:
    """No slab in use overlaps another, nor one that rests."""
    if session.engine.mesh.kind == "null":
        return
    held = live_buffers(session)  # while they are looked at none may be given back
    slabs = {id(b): (address(b.block), b.n_bytes) for b in held}
    spans = list(slabs.values())
    if resting:
        for ledger in local(session).ledgers:
            for n_bytes, blocks in ledger._resting.items():
                spans += [(address(block), n_bytes) for block in blocks]
    for (at, n_bytes), (after, _) in pairwise(sorted(spans)):
        promise(at + n_bytes <= after, f"two slabs share memory: {n_bytes} bytes at {at}")


def address(block: Any) -> int:
    if hasattr(block, "data_ptr"):
        return int(block.data_ptr())
    return int(block.__array_interface__["data"][0])
