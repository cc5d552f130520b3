"""Random programs of views, writes and evaluations give NumPy's values, dtypes and errors.

The same programs on every run; `INFINITENSOR_TEST_SEED` takes others, `INFINITENSOR_TEST_ALL=1`
many more.
"""

from __future__ import annotations

import os
import zlib

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import infinitensor as it

from .generate import program_of
from .worlds import check

RUNS_ALL = os.environ.get("INFINITENSOR_TEST_ALL") == "1"
SEED = os.environ.get("INFINITENSOR_TEST_SEED", "")
N_PROGRAMS = 4000 if RUNS_ALL else 150


@pytest.mark.local
@pytest.mark.timeout(3600 if RUNS_ALL else 300)
@settings(
    max_examples=N_PROGRAMS,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],  # `check` makes failing programs small
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_programs_give_what_numpy_gives(settings_name: str, seed: int) -> None:
    check(program_of(seed ^ zlib.crc32(f"{settings_name}{SEED}".encode())), it)
