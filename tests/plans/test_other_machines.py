"""Plans for machines that are not here, from their meshes as JSON: golden, and the same anywhere.

`INFINITENSOR_UPDATE_PLANS=1 pytest tests/plans` writes them anew; look at the difference.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import sys
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor import jit, native
from infinitensor.ir.mesh import Mesh, Tools
from infinitensor.ops.backend import blas, c_loops, torch_loading
from infinitensor.runtime.native import waves
from infinitensor.tasking.triton.triton_group import Awaited, AwaitedReduction, Generated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infinitensor.ir.tasks import Family
    from infinitensor.pipeline import Prepared

HERE = Path(__file__).parent / "machines"
UPDATE = os.environ.get("INFINITENSOR_UPDATE_PLANS") == "1"
MACHINES = ("x86_without_compiler", "aarch64_4_cores", "one_h200")
LITTLE = 96 << 20
"""Bytes of memory for the program that is larger than memory."""


def reduced_chain() -> Any:
    x = it.ones((4000, 3000))
    return it.sqrt(x * 2 + 1).sum(axis=1)


def softmax() -> Any:
    x = it.ones((4000, 3000)) * 2
    e = it.exp(x - it.max(x, axis=1, keepdims=True))
    return e / it.sum(e, axis=1, keepdims=True)


def moments() -> Any:
    x = it.random.normal(size=(4000, 3000))
    return it.mean(x, axis=0) + it.var(x, axis=0) + it.max(x, axis=0)


def matvec() -> Any:
    return (it.ones((4000, 3000)) * 1.5) @ it.ones(3000)


def stencil() -> Any:
    g = it.random.uniform(size=(3000, 3000))
    for _ in range(3):
        g[1:-1, 1:-1] = (g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:]) * 0.25
    return g


def centred_gram() -> Any:
    x = it.random.normal(size=(600_000, 20))
    x = x - it.mean(x, axis=0)
    return x.T @ x


def larger_than_memory() -> Any:
    x = it.random.normal(size=(6000, 4000))
    return (x - it.mean(x, axis=0)) / it.std(x, axis=0)


PROGRAMS: dict[str, Callable[[], Any]] = {
    "reduced_chain": reduced_chain,
    "softmax": softmax,
    "moments": moments,
    "matmul": lambda: it.random.normal(size=(3000, 2000)) @ it.random.normal(size=(2000, 2500)),
    "matvec": matvec,
    "sort": lambda: it.sort(it.random.normal(size=(3_000_000,))),
    "stencil": stencil,
    "centred_gram": centred_gram,
    "larger_than_memory": larger_than_memory,
}


def mesh_of(machine: str, program: str) -> Mesh:
    mesh = Mesh.from_json((HERE / f"{machine}.json").read_text())
    if program != "larger_than_memory":
        return mesh
    small = [replace(device, memory_bytes=LITTLE) for device in mesh.devices]
    return replace(mesh, devices=tuple(small))


@contextmanager
def planning_for(mesh: Mesh) -> Iterator[it.Session]:
    """A session that plans for a mesh; nothing of it can run here."""
    budget = mesh.devices[0].memory_bytes
    with strict(f"null*{mesh.n_devices}", 0, memory=budget) as session:
        engine: Any = session.engine
        engine.mesh, engine.mesh_now = mesh, lambda: mesh
        yield session


def how(family: Family) -> str:
    """What the tasks of a family run."""
    said = [
        ("as calls from C", family.in_c is not None),
        ("C compiled at once", bool(family.sources)),
        ("Triton", isinstance(family.run, Generated)),
        ("steps until Triton has compiled", isinstance(family.run, Awaited | AwaitedReduction)),
        ("step by step", family.eager),
    ]
    return ", ".join(word for word, is_so in said if is_so) or "the op's kernel"


def text_of(machine: str, program: str) -> str:
    with planning_for(mesh_of(machine, program)) as session:
        made = PROGRAMS[program]()
        text = str(it.plan(made))
        families = prepared(session, made).program.graph.families
    lines = [
        re.sub(r"(?: at)? *\S+\.py:\d+(?=  in |$)", "", line).rstrip() for line in text.splitlines()
    ]
    lines += [
        f"  {family.op}: {family.n} tasks, {family.scratch_bytes} bytes of scratch, {how(family)}"
        for family in families
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("machine", MACHINES)
def test_the_plans_for_a_machine_are_those_on_record(machine: str) -> None:
    found = "".join(f"# {name}\n{text_of(machine, name)}" for name in PROGRAMS)
    path = HERE / f"{machine}.txt"
    if UPDATE:
        path.write_text(found)
    assert found == path.read_text(), f"INFINITENSOR_UPDATE_PLANS=1 rewrites {path.name}"


def digest(made: Prepared) -> str:
    """All of a program but its functions."""
    seen = hashlib.sha256()

    def add(part: Any) -> None:
        if isinstance(part, np.ndarray):
            seen.update(str((part.shape, part.dtype)).encode() + part.tobytes())
        elif isinstance(part, tuple | list):
            for each in part:
                add(each)
        else:
            seen.update(repr(part).encode())

    program = made.program
    for family in program.graph.families:
        given = {field.name: getattr(family, field.name) for field in fields(family)}
        run, in_c, reads, site = (given.pop(name) for name in ("run", "in_c", "reads", "site"))
        add([type(run).__name__, type(in_c).__name__, str(site), *given.values()])
        add([(c.tiles, c.boxes, c.access, c.scalar, c.span) for c in reads])
    for name in ("slots", "slot_bytes", "borders", "after", "waits", "order", "peak_bytes"):
        add(getattr(program, name))
    return seen.hexdigest()


ASKING: list[tuple[Any, str]] = [
    *((native, name) for name in ("compiler", "is_built", "is_loaded", "library", "begin")),
    (native, "cache_folder"),
    *((jit, name) for name in ("has_triton", "has_numba", "load")),
    *((blas, name) for name in ("find_library", "beside")),
    *((c_loops, name) for name in ("loop", "compile_loop")),
    *((torch_loading, name) for name in ("is_loading", "wait_for_torch", "begin_loading")),
    (waves, "last_cache"),
    *((os, name) for name in ("cpu_count", "sched_getaffinity", "getenv")),
    *((platform, name) for name in ("machine", "processor")),
    (shutil, "which"),
    (importlib.util, "find_spec"),
]
"""What a plan may not ask: each looks at this machine, or at what it did before."""


def forbid_to_ask(patched: pytest.MonkeyPatch) -> None:
    for module, name in ASKING:
        known = getattr(module, name)

        def asked(*_: Any, name: str = name, **__: Any) -> Any:
            raise AssertionError(f"{name}() is asked while a plan is made")

        ours = [m for n, m in sys.modules.items() if n.split(".")[0] == "infinitensor"]
        for where in (module, *ours):
            for attribute, value in list(vars(where).items()):
                if value is known:
                    patched.setattr(where, attribute, asked)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_plan_asks_nothing_of_the_machine_it_is_made_on(machine: str, program: str) -> None:
    found = []
    for may_ask in (True, False):
        with planning_for(mesh_of(machine, program)) as session:
            made = PROGRAMS[program]()
            with pytest.MonkeyPatch.context() as patched:
                if not may_ask:
                    forbid_to_ask(patched)
                    patched.setattr(torch.cuda, "is_available", lambda: pytest.fail("asked CUDA"))
                    patched.setattr(torch.cuda, "device_count", lambda: pytest.fail("asked CUDA"))
                found.append(digest(prepared(session, made)))
    assert found[0] == found[1]


def test_what_a_machine_has_changes_the_plan() -> None:
    """Else the tests above would say nothing."""
    mesh = mesh_of("aarch64_4_cores", "softmax")
    found = set()
    for tools in (Tools(), Tools(has_compiler=False), Tools(has_compiler=False, has_numba=False)):
        with planning_for(replace(mesh, tools=tools)) as session:
            found.add(digest(prepared(session, softmax())))
    assert len(found) == 3
