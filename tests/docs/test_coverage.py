"""The table of NumPy's names is current, and what it says of a name is so."""

from __future__ import annotations

import numpy as np
import pytest
from tools.coverage_table import PAGE, names_of, page, reason_of, state_of, states


def test_the_committed_table_is_current() -> None:
    committed = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    ours = np.__version__.rpartition(".")[0]
    if f"of NumPy {ours}, one by one" not in committed and committed:
        pytest.skip(f"the table is of another NumPy than {ours}: names come and go")
    assert committed == page(), "run python tools/reference.py and commit docs/coverage.md"


def test_states_of_names_we_know() -> None:
    assert state_of("numpy", "add") == "cut"
    assert state_of("numpy", "transpose") == "no work"
    assert state_of("numpy.linalg", "eigh") == "whole at need"
    assert state_of("numpy", "vectorize") == state_of("numpy", "savetxt") == "on the host"
    assert state_of("numpy", "pi") == "no work"
    assert state_of("numpy", "busday_count") == "missing"
    assert state_of("numpy.linalg", "cholesky") == "cut"
    assert state_of("numpy.ndarray", "sum") == "cut"


def test_every_public_name_is_counted_once() -> None:
    found = states()
    assert len(found["numpy"]) == len(names_of(np)) > 400
    assert not {"linalg", "fft", "random"} & found["numpy"].keys(), "modules are no names"


def test_a_missing_name_has_a_reason() -> None:
    assert reason_of("busday_count") == "dates and durations are not held"
    assert reason_of("no_such_name") == "not written yet"
