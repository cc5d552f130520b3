"""Numbers and structures that are written both in C and in Python are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import infinitensor
from infinitensor.api.session import ways
from infinitensor.api.small import numpy_table, small_calls
from infinitensor.ir import call_tables
from infinitensor.ops.backend import c_loops
from infinitensor.ops.forms import fold_order
from infinitensor.ops.points import pairs_c
from infinitensor.partition import LEAF_ELEMENTS
from infinitensor.runtime.native import c_program
from infinitensor.runtime.run import ready_tasks
from infinitensor.runtime.state import run_status

SOURCE = Path(infinitensor.__file__).parent


def text(file: str) -> str:
    return re.sub(r"/\*.*?\*/", "", (SOURCE / file).read_text("utf-8"), flags=re.DOTALL)


def constant(file: str, name: str) -> int:
    """A number that a file defines."""
    found = re.search(rf"(?:#define {name} |\b{name} = )([-\d <]+|INT64_MIN)", text(file))
    assert found, f"{file} has no {name}"
    return int(eval(found[1], {"INT64_MIN": -(2**63)}))


def fields(file: str, name: str) -> list[str]:
    """The names of a structure's fields, in their order."""
    found = re.search(rf"typedef struct \{{([^}}]*)\}} {name};", text(file))
    assert found, f"{file} has no {name}"
    lines = [line for line in found[1].split(";") if line.strip()]
    return [re.findall(r"\w+", part)[-1] for line in lines for part in line.split(",")]


@pytest.mark.parametrize(
    ("file", "name", "in_python"),
    [
        ("runtime/native/c_program.c", "MOST_ARRAYS", call_tables.MOST_CALL_ARRAYS),
        ("runtime/native/c_program.c", "MOST_WORDS", call_tables.MOST_CALL_WORDS),
        ("runtime/native/c_program.c", "WINDOW", ready_tasks.WINDOW),
        ("runtime/native/c_program.c", "OVER", c_program.OVER),
        ("runtime/native/c_program.c", "BY_ROWS", call_tables.BY_ROWS),
        ("runtime/native/c_program.c", "BY_LINES", call_tables.BY_LINES),
        ("runtime/native/c_program.c", "LATER", c_program.LATER),
        ("runtime/native/c_program.c", "BY_ITSELF", call_tables.BY_ITSELF),
        ("api/small/small_folds.h", "SHORT_ROW", fold_order.SHORT_ROW_ELEMENTS),
        ("api/small/small_folds.h", "LEAST_ROW", fold_order.LEAST_ROW),
        ("api/small/host_values.h", "ONE_CORE", numpy_table.ONE_CORE),
        ("api/small/host_values.h", "ONE_CORE_DOT", numpy_table.ONE_CORE_DOT),
        ("api/small/small_calls.c", "LEAST_OF_OURS", numpy_table.LEAST_OF_OURS),
        ("api/small/small_products.h", "FEW_MULTIPLICATIONS", numpy_table.FEW_MULTIPLICATIONS),
        ("api/small/small_products.h", "ONE_PIECE", LEAF_ELEMENTS["cpu"]),
        ("ops/backend/look.c", "LEFT", c_loops.LEFT),
        ("ops/points/pairs.c", "LEAF", 32),  # `scratch_of` in pairs_c.py
        ("ops/points/prim.c", "LEAF", 32),
    ],
)
def test_a_number_is_the_same_in_c_and_in_python(file: str, name: str, in_python: int) -> None:
    assert constant(file, name) == in_python


def test_a_job_has_its_fields_where_python_puts_them() -> None:
    job = fields("runtime/native/c_program.c", "Job")
    names = ["memories", "waits", "n_done", "is_stopped", "work_ns", "n_threads", "offer"]
    names += ["level_order", "levels", "n_levels"]
    given = [c_program.MEMORIES, c_program.WAITS, c_program.N_DONE, run_status.IS_STOPPED]
    given += [c_program.WORK_NS, c_program.N_THREADS, c_program.N_THREADS + 1]
    given += range(c_program.LEVELS, c_program.LEVELS + 3)
    assert [*map(job.index, names), len(job)] == [*given, c_program.N_JOB]
    assert len(fields("runtime/native/c_program.c", "Form")) == call_tables.N_FORM
    assert len(fields("threads.h", "Times")) == call_tables.N_TIMES


def test_a_search_has_the_fields_that_python_gives_it() -> None:
    ours = [name.rstrip("_") for name, *_ in pairs_c._Search._fields_]
    assert fields("ops/points/pairs.c", "Search") == ours


def enums(file: str) -> list[list[str]]:
    """The names of each enumeration without values, in their order."""
    found = re.findall(r"enum \{([^}=]*)\}", text(file))
    return [re.findall(r"\w+", names) for names in found]


@pytest.mark.parametrize(
    ("file", "header"),
    [
        ("api/small/small_calls.c", "api/small/host_values.h"),
        ("api/known/known_calls.c", "api/known/known_calls.h"),
        ("api/evaluate/waiting.c", "api/evaluate/waiting.c"),
        ("api/session/released.c", "api/session/released.c"),
    ],
)
def test_slots_are_numbered_in_the_order_of_their_names(file: str, header: str) -> None:
    """C finds slots by name when it is loaded, and uses them by number."""
    slots = re.findall(r"of_(\w+)\[\] = \{([^}]*)\}", text(file))
    numbers = {names[-1]: names[:-1] for names in enums(header) if names[-1].startswith("N_")}
    n_compared = 0
    for kind, listed in slots:
        members = numbers.get(f"N_{kind.upper()}")
        if members is None:
            continue
        names = [name.replace("_", "") for name in re.findall(r'"(\w+)"', listed)]
        short = [re.sub(r"^[A-Z]_", "", member).replace("_", "").lower() for member in members]
        assert len(names) == len(short), kind
        assert all(map(str.__contains__, names, short)), (kind, names, short)
        n_compared += 1
    assert n_compared >= 2


def test_ways_and_operators_are_numbered_as_python_lists_them() -> None:
    counted = next(e for e in enums("api/small/host_values.h") if e[-1] == "N_WAYS")
    assert [name.lower() for name in counted[:-1]] == list(ways.IN_C)
    operators = next(e for e in enums("api/small/numbers.h") if e[0] == "ADD")
    ours = [name.replace("truediv", "div").upper() for name in small_calls.IN_C]
    assert operators[: len(ours)] == ours
