"""Seconds and bytes of a kernel, a move, a route. One place, so that plans and estimates agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinitensor.ir.mesh import Mesh

BYTES_PER_POINT = 12
"""Memory traffic assumed for a point of an iteration space: two operands read, one written."""


def kernel_seconds(cost: float, n_points: int, mesh: Mesh) -> float:
    """One task on one device: the slower of arithmetic and memory, and a launch."""
    device = mesh.devices[0]
    arithmetic = cost * n_points / device.flops
    memory = BYTES_PER_POINT * n_points / device.bytes_per_s if cost <= 1 else 0.0
    return max(arithmetic, memory) + device.launch_s


def move_seconds(n_bytes: int, mesh: Mesh) -> float:
    """Bytes from one device to another."""
    return n_bytes / mesh.link_bytes_per_s
