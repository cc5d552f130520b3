"""Constants, ranges and triangles are NumPy's bit for bit, in any pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.table_xp import WHOLE, TableXp

from infinitensor.ops import TABLE

STEPS = (1, 2, 7, WHOLE)
DEVICES = ("cpu", "cuda")
_NAMES = """
zeros empty ones _full full zeros_like empty_like ones_like full_like arange linspace eye identity
tril triu
"""
NAMES = _NAMES.split()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_every_case_is_numpys(name: str, device: str) -> None:
    op = TABLE[name]
    assert op.cases is not None
    for args, kwargs in op.cases(np.random.default_rng(0)):
        want = (op.oracle or getattr(np, name))(*args, **kwargs)
        for step in STEPS:
            got = TableXp(step, device).call(name, *args, **kwargs)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("device", DEVICES)
@given(
    start=st.floats(-100, 100),
    step=st.floats(0.01, 10) | st.floats(-10, -0.01),
    n=st.integers(0, 40),
    dtype=st.sampled_from([None, np.float16, np.float32, np.float64, np.complex64, np.int16]),
)
@settings(max_examples=60, deadline=None)
def test_arange_has_numpys_bits(device: str, start: float, step: float, n: int, dtype: Any) -> None:
    stop = start + n * step
    with np.errstate(all="ignore"):
        want = np.arange(start, stop, step, dtype=dtype)
    got = TableXp(7, device).call("arange", start, stop, step, dtype=dtype)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype


@pytest.mark.parametrize("device", DEVICES)
@given(
    start=st.floats(-1e3, 1e3),
    stop=st.floats(-1e3, 1e3),
    num=st.integers(0, 40),
    endpoint=st.booleans(),
    dtype=st.sampled_from([None, np.float32, np.int64]),
)
@settings(max_examples=60, deadline=None)
def test_linspace_has_numpys_bits(
    device: str, start: float, stop: float, num: int, endpoint: bool, dtype: Any
) -> None:
    want = np.linspace(start, stop, num, endpoint, dtype=dtype)
    got = TableXp(7, device).call("linspace", start, stop, num, endpoint, dtype=dtype)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype


@pytest.mark.parametrize(
    "args",
    [(5,), (2, 5), (5, 2), (0, 10, 3), (3.0,), (1, 2, 0.3), (np.float32(3),), (0, 2**40, 2**39)],
)
def test_arange_takes_numpys_arguments(args: Any) -> None:
    want = np.arange(*args)
    got = TableXp().call("arange", *args)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_linspace_returns_its_step() -> None:
    made, step = TableXp().call("linspace", 0, 1, 5, retstep=True)
    assert step == 0.25
    np.testing.assert_array_equal(made, np.linspace(0, 1, 5))


def test_subnormal_linspace_keeps_its_values() -> None:
    want = np.linspace(0, 5e-324, 4)
    np.testing.assert_array_equal(TableXp(2).call("linspace", 0, 5e-324, 4), want)


@pytest.mark.parametrize(
    ("name", "args", "error", "match"),
    [
        ("zeros", ((-1,),), ValueError, "negative dimensions"),
        ("zeros", ((2,), "U3"), TypeError, "holds no"),
        ("zeros", ((2.5,),), TypeError, "integer"),
        ("arange", (0, 1, 0), ZeroDivisionError, "division by zero"),
        ("arange", (0, np.inf), ValueError, "Maximum allowed size"),
        ("arange", (0, np.nan), ValueError, "cannot compute length"),
        ("linspace", (0, 1, -1), ValueError, "non-negative"),
    ],
)
def test_bad_arguments_raise_as_in_numpy(name: str, args: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        TableXp().call(name, *args)
