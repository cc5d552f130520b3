"""Errors: what, where, by how much and what to do; also after a trip to another process."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples

from infinitensor import errors
from infinitensor.errors import (
    CorruptTileError,
    DeviceOutOfMemoryError,
    InfiniTensorError,
    LayoutError,
    MemoryBudgetError,
    SpillSpaceError,
    gib,
)

UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
MADE = [
    MemoryBudgetError("matmul", 3 << 30, 1 << 30, "cuda:0", "x.py:7", "cut it"),
    DeviceOutOfMemoryError("no memory", 42),
    SpillSpaceError("/spill", 2048, 1024, "the disk is full"),
    CorruptTileError("/spill/tile", 128, "bits changed"),
    errors.TaskError("failed"),
    errors.LostTileError("gone"),
    errors.SessionClosedError("closed"),
    LayoutError("no such layout"),
]


@given(st.integers(0, 1 << 60))
@examples(100)
def test_byte_count_for_people_is_the_count_to_a_tenth_of_its_unit(n: int) -> None:
    amount, unit = gib(n).split()
    scale = 1 << UNITS[unit]
    assert abs(float(amount) * scale - n) <= 0.0501 * scale
    assert float(amount) <= 1024 or unit == "TiB"
    assert unit == "B" or n >= scale


def test_plan_that_does_not_fit_says_what_where_by_how_much_and_what_to_do() -> None:
    error = MADE[0]
    text = str(error)
    for part in ("'matmul'", "cuda:0", "3.0 GiB (3221225472 bytes)", "1.0 GiB", "x.py:7", "cut it"):
        assert part in text


def test_spill_without_a_reason_has_no_empty_sentence() -> None:
    with_reason, without = MADE[2], SpillSpaceError("/spill", 2048, 1024)
    assert "1.0 KiB free. the disk is full.\n" in str(with_reason)
    assert "1.0 KiB free.\n" in str(without)


def test_errors_are_caught_as_what_python_calls_them_and_as_ours() -> None:
    assert all(isinstance(error, InfiniTensorError) for error in MADE)
    assert {type(e).__name__ for e in MADE if isinstance(e, MemoryError)} == {
        "MemoryBudgetError",
        "DeviceOutOfMemoryError",
    }
    assert issubclass(LayoutError, ValueError)


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_error_from_another_process_is_the_same(error: InfiniTensorError) -> None:
    error.add_note("in task 3")
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)
