"""A user's function of scalars runs on the host, is counted there, and is NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.api.outcomes import assert_alike, assert_same, values

import infinitensor as it

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")


X = np.arange(12.0).reshape(3, 4)


def test_vectorize_runs_on_the_host_and_is_counted() -> None:
    it.stats(reset=True)
    larger = it.vectorize(lambda a, b: a if a > b else b)
    np.testing.assert_array_equal(larger(it.asarray(X), 5.0).numpy(), np.maximum(X, 5))
    assert it.stats()["host_fallbacks"] == 1

    @it.vectorize(otypes=[float], signature="(n)->()")
    def total(line: Any) -> Any:
        return line.sum()

    np.testing.assert_array_equal(total(it.asarray(X)).numpy(), X.sum(1))
    both = it.frompyfunc(lambda a: (a, -a), 1, 2)(it.asarray(X))
    assert_same(values(both), [X, -X], "frompyfunc")
    assert it.stats()["host_fallbacks"] == 3


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_apply_along_axis_is_numpys(axis: int) -> None:
    it.stats(reset=True)
    assert_alike("apply_along_axis", lambda line: line.sum(), axis, X)
    assert_alike("apply_along_axis", lambda line: line[::-1] * 2, axis, X)
    assert_alike("apply_along_axis", lambda line: line[:2, None] + line[:3], axis, X)
    assert it.stats()["host_fallbacks"] == 0
    np.testing.assert_array_equal(
        it.apply_over_axes(it.sum, it.asarray(X), [0, 1]).numpy(),
        np.apply_over_axes(np.sum, X, [0, 1]),
    )
