"""Meshes survive being written down."""

from __future__ import annotations

import pytest

from infinitensor.ir.mesh import PRESETS, Mesh, preset


@pytest.mark.parametrize("kind", PRESETS)
def test_a_mesh_survives_json(kind: str) -> None:
    mesh = preset(kind, 3, 1 << 30, 2)
    assert Mesh.from_json(mesh.to_json()) == mesh
    assert (mesh.n_devices, mesh.kind, mesh.workers) == (3, kind, 2)
    assert [d.name for d in mesh.devices] == [f"{kind}:{i}" for i in range(3)]
