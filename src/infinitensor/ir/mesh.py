"""Mesh: devices, memories, rates and links as numbers. Planning needs nothing else of a machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """One device for the planner; presets until a machine is measured."""

    kind: str
    name: str
    memory_bytes: int
    flops: float
    bytes_per_s: float
    launch_s: float
    tile_elements: int


@dataclass(frozen=True, slots=True)
class Tools:
    """The compilers that turn generated code into kernels on a machine, looked for when a session
    starts.

    Plans depend on what is there, never on what was compiled before.
    """

    has_compiler: bool = True
    """Of C, for kernels on CPUs."""
    has_numba: bool = True
    """Used where there is no compiler of C."""
    has_triton: bool = True
    """For kernels on GPUs."""
    has_functions: bool = True
    """Built with the package: functions such as exp by the loops that generated C calls."""


class Target(NamedTuple):
    """The target that kernels are chosen for: "cpu" or "cuda", the tools that are there, and the
    memory of a device."""

    kind: str
    tools: Tools = Tools()
    memory_bytes: int = 0

    @property
    def compiles(self) -> bool:
        """Whether there is what generated code is compiled with: C for CPUs, Triton for GPUs."""
        return self.tools.has_triton if self.kind == "cuda" else self.tools.has_compiler


PRESETS: dict[str, tuple[float, float, float, int]] = {
    # kind: flop/s, memory bytes/s, seconds a launch, tile elements
    "cpu": (1.0e11, 1.0e10, 5e-6, 1 << 19),
    "cuda": (5.2e13, 4.0e12, 8e-6, 1 << 30),
    "null": (1.0e11, 1.0e10, 5e-6, 1 << 19),
}


FEWEST = 2
"""Tasks that run at a time where memory is little, if there are workers and two of them fit."""
WORKER_BYTES = 1 << 25
"""Memory for each of the tasks that run at a time while tiles come from lower tiers and go there:
a few tiles, those that are read meanwhile, and scratch."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """All devices and the rate of the link between any two of them."""

    devices: tuple[DeviceRates, ...]
    link_bytes_per_s: float = 1.0e10
    workers: int = 1
    at_once: int = 0
    """Tasks that run at a time where memory is little; 0: as many as there are workers."""
    host_bytes: int = 0
    """Host memory that tiles of GPUs may be evicted to."""
    disk_bytes: int = 0
    """Bytes of files that tiles may be evicted to."""
    host_bytes_per_s: float = 5.5e10
    disk_bytes_per_s: float = 1.0e9
    apart: bool = False
    """Whether tiles have memory of their own even where there is one memory: then each can be
    evicted."""
    no_disk: str = ""
    """Why no tile may go to a file, though nobody said so; for people."""
    tools: Tools = Tools()

    @property
    def n_devices(self) -> int:
        """How many devices."""
        return len(self.devices)

    @property
    def kind(self) -> str:
        """The kind of the devices (all are alike)."""
        return self.devices[0].kind

    @property
    def target(self) -> Target:
        """The target that kernels on it are chosen for."""
        memory_bytes = self.devices[0].memory_bytes
        return Target("cuda" if self.kind == "cuda" else "cpu", self.tools, memory_bytes)

    @property
    def n_concurrent(self) -> int:
        """Tasks that may run at a time on a device, each with its scratch."""
        return (self.at_once or self.workers) if self.kind == "cpu" else 1

    @property
    def n_least(self) -> int:
        """Tasks that run at a time however many workers there are, where memory is little: what is
        cut to fit is cut for these, so the same programs fit a memory on every machine."""
        return FEWEST if self.kind == "cpu" else self.n_concurrent

    def frugal(self, budget: int) -> Mesh:
        """The same with as many tasks at a time as a budget has room for, but two."""
        n = max(budget // WORKER_BYTES, FEWEST)
        return replace(self, at_once=n) if n < self.n_concurrent and self.kind == "cpu" else self

    @property
    def is_one_memory(self) -> bool:
        """Whether every kernel can read every byte: then tensors are contiguous, and their tiles
        are parts of it."""
        return self.is_one_cpu and not self.apart

    @property
    def is_one_cpu(self) -> bool:
        """Whether there is one memory, be tiles apart in it or not."""
        return self.n_devices == 1 and self.kind == "cpu"

    @staticmethod
    def current() -> Mesh:
        """The mesh of the current session: preset rates, its own memories and workers.

        >>> import infinitensor as it
        >>> with it.init("cpu*2", memory="1GiB"):
        ...     it.Mesh.current().n_devices
        2
        """
        return _current[0]()

    def to_json(self) -> str:
        """The mesh as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Mesh:
        """The mesh a text describes.

        >>> from infinitensor.ir.mesh import Mesh, preset
        >>> mesh = preset("cpu", 2, 1 << 30, 2)
        >>> Mesh.from_json(mesh.to_json()) == mesh
        True
        """
        fields = json.loads(text)
        fields["devices"] = tuple(DeviceRates(**device) for device in fields["devices"])
        fields["tools"] = Tools(**fields.get("tools", {}))
        return cls(**fields)


def _no_session() -> Mesh:
    raise LookupError("there is no session yet: call it.init() or compute something")


_current: list[Callable[[], Mesh]] = [_no_session]
"""Who knows the current mesh: the api puts itself here, because a mesh knows no session."""


def preset(kind: str, n: int, memory_bytes: int, workers: int) -> Mesh:
    """A mesh of `n` devices of one kind with preset rates."""
    flops, rate, launch_s, tile_elements = PRESETS[kind]
    devices = tuple(
        DeviceRates(kind, f"{kind}:{i}", memory_bytes, flops, rate, launch_s, tile_elements)
        for i in range(n)
    )
    return Mesh(devices, workers=workers)
