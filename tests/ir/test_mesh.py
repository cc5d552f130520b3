"""Meshes survive being written down."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from infinitensor.ir.mesh import PRESETS, Mesh, Tools, preset


@pytest.mark.parametrize("kind", PRESETS)
def test_a_mesh_survives_json(kind: str) -> None:
    mesh = preset(kind, 3, 1 << 30, 2)
    assert Mesh.from_json(mesh.to_json()) == mesh
    assert (mesh.n_devices, mesh.kind, mesh.workers) == (3, kind, 2)
    assert [d.name for d in mesh.devices] == [f"{kind}:{i}" for i in range(3)]


def test_tools_survive_json_and_are_all_there_where_none_are_named() -> None:
    mesh = replace(preset("cpu", 1, 1 << 30, 4), tools=Tools(False, True, False))
    assert Mesh.from_json(mesh.to_json()).tools == mesh.tools
    older = {name: value for name, value in json.loads(mesh.to_json()).items() if name != "tools"}
    assert Mesh.from_json(json.dumps(older)).tools == Tools()


@pytest.mark.parametrize(
    ("kind", "tools", "compiles"),
    [
        ("cpu", Tools(has_compiler=False), False),
        ("cpu", Tools(has_triton=False), True),
        ("null", Tools(has_compiler=False), False),
        ("cuda", Tools(has_compiler=False), True),
        ("cuda", Tools(has_triton=False), False),
    ],
)
def test_a_kind_of_device_compiles_with_its_own_tool(
    kind: str, tools: Tools, compiles: bool
) -> None:
    target = replace(preset(kind, 1, 1 << 30, 1), tools=tools).target
    assert target.kind == ("cuda" if kind == "cuda" else "cpu")
    assert target.compiles == compiles
