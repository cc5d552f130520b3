"""The protocols of an engine and of its runs: nothing behind these methods is known above.

An engine owns devices, the budgets of their memories, lower tiers and the threads or processes that
run tasks. Tables name tiles that it holds; who else needs values asks it to read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    import numpy as np

    from infinitensor.engines.tiers import Room
    from infinitensor.ir.layout import Layout
    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.region import Box
    from infinitensor.ir.tasks import Program
    from infinitensor.runtime import TileTable


class MemoryUse(NamedTuple):
    """Bytes of one memory: a device's, or a lower tier beside it."""

    device: str
    tier: str
    used: int
    resting: int
    """Held for the next use, and given back when somebody else needs them."""
    budget: int
    peak: int


class Run(Protocol):
    """A program that its engine begins, and goes on with where something stopped it.

    The values that it keeps have the numbers that the program gives them.
    """

    @property
    def leaves(self) -> Sequence[TileTable]:
        """The tables that it reads."""

    def is_made(self, value: int) -> bool:
        """Whether a kept value can be had: all of it is made, and it was not abandoned."""

    def table(self, value: int) -> TileTable:
        """The stored tiles of a kept value; they leave the run with it."""

    def tables_with_reads(self) -> dict[int, TileTable]:
        """Leaf -> its table with the tiles that this run has read and would keep."""

    def abandon(self, wanted: Sequence[int]) -> None:
        """Make only these values from now on: tasks that nothing else needs do nothing."""

    def take_counts(self) -> dict[str, int]:
        """The counts since this was asked last, by the names of `stats()`."""

    def release(self) -> None:
        """Let go of all memory; only counts are asked for after it."""


class Kernels(Protocol):
    """A program as kernels that start on the devices of its engine, without a run."""

    @property
    def way(self) -> str:
        """The way under which `stats()` counts a start of them."""

    @property
    def peaks(self) -> dict[int, int]:
        """Bytes that they need of each device."""

    @property
    def alone(self) -> Any:
        """A pointer for C to what starts them without Python (`few_kernels.h`), or None."""

    @property
    def counts(self) -> dict[str, int]:
        """What a start of them adds to other counts of `stats()`."""

    def start(
        self, leaves: Sequence[TileTable], scalars: Sequence[Any]
    ) -> dict[int, TileTable] | None:
        """Start them: what they make, by number; None if it takes a run after all."""


class Engine(Protocol):
    """Devices and what runs on them. It is given back the runs and kernels that it made itself."""

    mesh: Mesh
    n_workers: int

    # programs

    def start(self, program: Program, leaves: Sequence[TileTable], scalars: Sequence[Any]) -> Run:
        """A run, not yet begun."""

    def finish(self, run: Run, inline: bool, progress: bool, resumed: bool = False) -> None:
        """Begin or resume a run; raise what stopped it. Kernels of a GPU may still be running."""

    def few_kernels(self, program: Program) -> Kernels | None:
        """The program as kernels that start without a run, or None."""

    def running(self) -> AbstractContextManager[None]:
        """Kernels that are called in this thread start where those of programs do."""

    def share(self, job: Callable[[], None], n: int) -> None:
        """Call a function in every worker, or in n, and wait until all are back."""

    def synchronize(self, device: int | None = None) -> None:
        """Wait for what finished runs have started, on one device or on all."""

    # values

    def store(self, values: Any, layout: Layout) -> TileTable:
        """Put values from outside, NumPy's or torch's, into tiles."""

    def store_in_lower_tier(self, values: Any, layout: Layout) -> TileTable:
        """Put values from outside into a lower tier, tile by tile."""

    def blank(self, layout: Layout, shape: tuple[int, ...], dtype: Any) -> TileTable:
        """Memory for a value in one piece: where there is one memory, or in one tile."""

    def read(self, table: TileTable, box: Box, steps: tuple[int, ...] | None = None) -> np.ndarray:
        """The values of a box, or of each axis of it every so many, as a new NumPy array."""

    def evict(self, table: TileTable) -> TileTable:
        """The same values in lower tiers; the memory is free when the table before goes."""

    def gpu_index(self, device: int) -> int:
        """The number by which other libraries know a GPU."""

    # memory

    def budgets(self) -> list[int]:
        """Bytes that may be used of each device."""

    def available_bytes(self, device: int) -> int:
        """Budget of a device that nothing holds."""

    def has_room(self, needs: dict[int, int]) -> bool:
        """Whether so many bytes of each device are held by nothing."""

    def bytes_for(self, layout: Layout, itemsize: int) -> list[int]:
        """Bytes that a tensor takes of each device's budget."""

    def mesh_now(self) -> Mesh:
        """The mesh, with what the lower tiers have left."""

    def free_lower_bytes(self) -> int:
        """Bytes that the lower tiers have left."""

    def memory_use(self) -> list[MemoryUse]:
        """Every memory: the devices in their order, then the lower tiers that there are."""

    def not_pinned_bytes(self) -> int:
        """Bytes that went to files because host memory could not be pinned for them."""

    def reset_peaks(self) -> None:
        """Count peaks, and what was not pinned, from now on."""

    def when_idle(self, let_go: Callable[[], None]) -> None:
        """Have a function called before unused memory is given back: it lets go of dead tensors."""

    def close(self) -> None:
        """Free everything."""


ENGINES: dict[str, Callable[[str | Iterable[str] | None, Room, int], Engine]] = {}
"""By name: what opens an engine on some devices, with memory for each and so many workers."""


def open_engine(
    name: str, devices: str | Iterable[str] | None, room: Room, n_workers: int
) -> Engine:
    """The engine of a name."""
    if name not in ENGINES:
        known = ", ".join(map(repr, ENGINES))
        raise ValueError(f"no engine {name!r}; this version has {known}")
    return ENGINES[name](devices, room, n_workers)
