"""Prices: seconds that grow with work and bytes, and never fall below a start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infinitensor import price
from infinitensor.ir.mesh import Mesh, preset


@pytest.fixture(params=["cpu", "cuda"])
def mesh(request: pytest.FixtureRequest) -> Mesh:
    return preset(request.param, 1, 1 << 30, 2)


@pytest.mark.parametrize("cost", [0.0, 1.0, 2.0, 1000.0])
def test_a_kernel_takes_a_launch_at_least_and_longer_for_more_points(
    cost: float, mesh: Mesh
) -> None:
    times = [price.kernel_seconds(cost, n, mesh) for n in (0, 1, 1000, 10**9)]
    assert times[0] == mesh.devices[0].launch_s
    assert times == sorted(times)


def test_a_kernel_is_bound_by_arithmetic_or_by_memory(mesh: Mesh) -> None:
    n, device = 10**8, mesh.devices[0]
    by_memory = price.BYTES_PER_POINT * n / device.bytes_per_s + device.launch_s
    assert price.kernel_seconds(0.0, n, mesh) == pytest.approx(by_memory)
    by_arithmetic = 1e6 * n / device.flops + device.launch_s
    assert price.kernel_seconds(1e6, n, mesh) == pytest.approx(by_arithmetic)


def test_the_first_part_of_a_product_is_only_written(mesh: Mesh) -> None:
    first, later = (price.part_seconds(1 << 20, is_first, mesh) for is_first in (True, False))
    assert price.PART_S < first < later
    assert later - price.PART_S == pytest.approx(3 * (first - price.PART_S))


def test_moves_and_tiers_take_their_bytes_over_their_rates(mesh: Mesh) -> None:
    quick = replace(mesh, link_bytes_per_s=1e9, host_bytes_per_s=2e9, disk_bytes_per_s=5e8)
    assert price.move_seconds(10**9, quick) == 1.0
    assert price.move_seconds(0, quick) == 0.0
    assert price.tier_seconds(10**9, False, quick) == pytest.approx(0.5 + price.HOST_S)
    assert price.tier_seconds(10**9, True, quick) == pytest.approx(2.0 + price.DISK_S)
    assert price.tier_seconds(0, True, quick) > price.tier_seconds(0, False, quick)
