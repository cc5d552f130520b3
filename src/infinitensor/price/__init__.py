"""Seconds and bytes of a kernel, a move, a route. One place, so that plans and estimates agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinitensor.ir.mesh import Mesh

DISK_S, HOST_S = 1e-4, 1e-5
"""Seconds that a copy to or from a lower tier takes, however small it is."""
BYTES_PER_POINT = 12
"""Memory traffic assumed for a point of an iteration space: two operands read, one written."""


def kernel_seconds(cost: float, n_points: int, mesh: Mesh) -> float:
    """One task on one device: the slower of arithmetic and memory, and a launch."""
    device = mesh.devices[0]
    arithmetic = cost * n_points / device.flops
    memory = BYTES_PER_POINT * n_points / device.bytes_per_s if cost <= 1 else 0.0
    return max(arithmetic, memory) + device.launch_s


PART_S = 3e-5
"""The time of a product besides its multiplications: its first and last blocks leave much idle."""


def part_seconds(n_bytes: int, is_first: bool, mesh: Mesh) -> float:
    """The time of a product of a part besides its multiplications: the sum, of so many bytes, is
    written, and, but for the first, read and waited for."""
    return PART_S + (1 if is_first else 3) * n_bytes / mesh.devices[0].bytes_per_s


def move_seconds(n_bytes: int, mesh: Mesh) -> float:
    """Bytes from one device to another."""
    return n_bytes / mesh.link_bytes_per_s


def tier_seconds(n_bytes: int, is_disk: bool, mesh: Mesh) -> float:
    """Bytes to or from a lower tier: a disk, or the host's memory."""
    if is_disk:
        return DISK_S + n_bytes / mesh.disk_bytes_per_s
    return HOST_S + n_bytes / mesh.host_bytes_per_s
