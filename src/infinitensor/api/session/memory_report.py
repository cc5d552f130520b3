"""Who holds what: every stored tensor by tier, and what is left of each budget."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from infinitensor.api.session.session import current_session
from infinitensor.errors import gib
from infinitensor.ir.region import box_size
from infinitensor.storage import Joined, Part, Spilled

if TYPE_CHECKING:
    from infinitensor.api.session.session import Session
    from infinitensor.runtime import TileTable

MOST_LINES = 20
"""Tensors that are shown; the others are counted."""


@dataclass(frozen=True)
class Held:
    """One stored tensor: its bytes in each (device, tier), and where it was made."""

    op: str
    site: str
    shape: tuple[int, ...]
    dtype: str
    bytes_by_tier: dict[tuple[str, str], int]
    cached_bytes: int
    """Bytes in memory that were read from files and can be dropped at once."""
    file: str | None
    """The user's file that it is read from."""

    @property
    def total_bytes(self) -> int:
        """Bytes in memory and in spilled files; the user's own files do not count."""
        return sum(self.bytes_by_tier.values())


@dataclass(frozen=True)
class Memory:
    """The memory of a session now: tensors, the largest first, and the state of each memory."""

    tensors: tuple[Held, ...]
    used_bytes: dict[tuple[str, str], int]
    resting_bytes: dict[tuple[str, str], int]
    """Free for the next tensors, but not given back to the system."""
    budget_bytes: dict[tuple[str, str], int]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""

        def plain(counts: dict[tuple[str, str], int]) -> dict[str, int]:
            return {f"{device}/{tier}": n for (device, tier), n in counts.items()}

        return {
            "used_bytes": plain(self.used_bytes),
            "resting_bytes": plain(self.resting_bytes),
            "budget_bytes": plain(self.budget_bytes),
            "tensors": [
                {
                    "op": held.op,
                    "site": held.site,
                    "shape": list(held.shape),
                    "dtype": held.dtype,
                    "bytes": plain(held.bytes_by_tier),
                    "cached_bytes": held.cached_bytes,
                    "file": held.file,
                }
                for held in self.tensors
            ],
        }

    def __str__(self) -> str:
        lines = []
        for place, budget in self.budget_bytes.items():
            resting = self.resting_bytes.get(place, 0)
            lines.append(
                f"{' '.join(place)}: {gib(self.used_bytes[place])} of {gib(budget)}"
                + (f", {gib(resting)} at rest" if resting else "")
            )
        lines.append(f"{len(self.tensors)} tensors in tiles, the largest first:")
        for held in self.tensors[:MOST_LINES]:
            places = [f"{gib(n)} {' '.join(place)}" for place, n in held.bytes_by_tier.items()]
            if held.file is not None:
                cached = f" ({gib(held.cached_bytes)} of it read)" if held.cached_bytes else ""
                places.append(f"file {held.file}{cached}")
            elif held.cached_bytes:
                places.append(f"{gib(held.cached_bytes)} of it read again")
            shape = "×".join(map(str, held.shape)) or "()"
            lines.append(f"  {shape} {held.dtype}  {', '.join(places)}  {held.op} at {held.site}")
        if len(self.tensors) > MOST_LINES:
            rest = self.tensors[MOST_LINES:]
            total = gib(sum(held.total_bytes for held in rest))
            lines.append(f"  … and {len(rest)} more with {total}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


def memory() -> Memory:
    """Who holds what: every tensor in tiles, its bytes in each memory, the line that made it.

    Small tensors on the host are not counted. Computes nothing, and takes microseconds a
    tensor.

    >>> import infinitensor as it
    >>> with it.init("cpu", memory="64MiB"):
    ...     x = it.compute(it.ones((1000, 1000)) + 1)
    ...     found = it.memory()
    ...     found.tensors[0].shape, found.used_bytes["cpu:0", "device"]
    ((1000, 1000), 8388608)
    """
    session = current_session()
    engine = session.engine
    with session.guard():
        session.check_open()
        session.drain()
        names = [memory.device for memory in engine.memory_use() if memory.tier == "device"]
        held = [
            _holding_of(version.table, version.shape, names)
            for version in session.kept_versions()
            if version.table is not None
        ]
        return Memory(tuple(sorted(held, key=_largest_first)), *_totals(session))


def _largest_first(held: Held) -> tuple[int, int, str]:
    return (-held.total_bytes, -prod(held.shape), held.site)


def _totals(session: Session) -> tuple[dict[tuple[str, str], int], ...]:
    used, resting, budgets = {}, {}, {}
    for memory in session.engine.memory_use():
        place = (memory.device, memory.tier)
        used[place], budgets[place] = memory.used, memory.budget
        if memory.tier != "disk":
            resting[place] = memory.resting
    return used, resting, budgets


def _holding_of(table: TileTable, shape: tuple[int, ...], names: list[str]) -> Held:
    """The memory of a table, tile by tile: of files only those we made ourselves."""
    found: dict[tuple[str, str], int] = {}
    for device, n_bytes in table.device_bytes().items():
        place = (names[device], "device") if device >= 0 else (names[0], "host")
        found[place] = n_bytes
    file = None
    cached = 0
    for k, part in enumerate(table.lower_parts()):
        n_bytes = box_size(table.layout.tile(k)) * table.dtype.itemsize
        if table.is_spare(k):
            cached += n_bytes
        if isinstance(part, Part):
            stored: Any = part.stored
            if isinstance(stored, Spilled | Joined):
                place = (names[0], "disk")
                found[place] = found.get(place, 0) + n_bytes
            else:
                file = stored.path
    op, site = table.made
    return Held(op, str(site), shape, str(table.dtype), found, cached, file)
