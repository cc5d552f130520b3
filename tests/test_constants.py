"""Numbers and structures that are written both in C and in Python are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import infinitensor
from infinitensor.api.small import numpy_table
from infinitensor.ops.points import pairs_c
from infinitensor.runtime.native import c_program
from infinitensor.runtime.run import run
from infinitensor.tasking.kernels import c_calls

SOURCE = Path(infinitensor.__file__).parent


def text(file: str) -> str:
    return re.sub(r"/\*.*?\*/", "", (SOURCE / file).read_text("utf-8"), flags=re.DOTALL)


def constant(file: str, name: str) -> int:
    """A number that a file defines."""
    found = re.search(rf"(?:#define {name} |\b{name} = )([-\d <]+)", text(file))
    assert found, f"{file} has no {name}"
    return int(eval(found[1]))


def fields(file: str, name: str) -> list[str]:
    """The names of a structure's fields, in their order."""
    found = re.search(rf"typedef struct \{{([^}}]*)\}} {name};", text(file))
    assert found, f"{file} has no {name}"
    lines = [line for line in found[1].split(";") if line.strip()]
    return [re.findall(r"\w+", part)[-1] for line in lines for part in line.split(",")]


@pytest.mark.parametrize(
    ("file", "name", "in_python"),
    [
        ("runtime/native/c_program.c", "MOST_ARRAYS", c_calls.MOST),
        ("runtime/native/c_program.c", "MOST_WORDS", c_calls.MOST),
        ("runtime/native/c_program.c", "WINDOW", run.WINDOW),
        ("runtime/native/c_program.c", "OVER", c_program.OVER),
        ("runtime/native/c_program.c", "LATER", c_program.LATER),
        ("api/small/host_values.h", "ONE_CORE", numpy_table.ONE_CORE),
        ("api/small/host_values.h", "ONE_CORE_DOT", numpy_table.ONE_CORE_DOT),
        ("ops/points/pairs.c", "LEAF", 32),  # `scratch_of` in pairs_c.py
        ("ops/points/prim.c", "LEAF", 32),
    ],
)
def test_a_number_is_the_same_in_c_and_in_python(file: str, name: str, in_python: int) -> None:
    assert constant(file, name) == in_python


def test_a_job_has_its_fields_where_python_puts_them() -> None:
    job = fields("runtime/native/c_program.c", "Job")
    places = [job.index(name) for name in ("memories", "waits", "n_done", "is_stopped")]
    given = [c_program.MEMORIES, c_program.WAITS, c_program.N_DONE, c_program.IS_STOPPED]
    assert [*places, len(job)] == [*given, c_program.N_JOB]
    assert len(fields("runtime/native/c_program.c", "Form")) == 10  # `table` of a binding


def test_a_search_has_the_fields_that_python_gives_it() -> None:
    ours = [name.rstrip("_") for name, *_ in pairs_c._Search._fields_]
    assert fields("ops/points/pairs.c", "Search") == ours
