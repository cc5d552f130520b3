"""Triangular systems and Cholesky's factors, in stacks too, as SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from tests.api.modes import mode  # noqa: F401 - a fixture

import infinitensor as it

pytestmark = pytest.mark.usefixtures("mode")
RNG = np.random.default_rng(6)
RIGHT = [RNG.normal(size=6), RNG.normal(size=(6, 3)), RNG.normal(size=(3, 6, 2))]


def definite(dtype: str, *batch: int) -> np.ndarray:
    a = RNG.normal(size=(*batch, 6, 6))
    made = a @ a.swapaxes(-1, -2) + 6 * np.eye(6)
    if dtype.startswith("c"):
        made = made + 1j * (np.tri(6) - np.tri(6).T)
    return made.astype(dtype)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
@pytest.mark.parametrize("lower", [True, False])
def test_factors_and_solutions_are_scipys(batch: Any, dtype: str, lower: bool) -> None:
    a = definite(dtype, *batch)
    rtol = 1e-3 if dtype == "f4" else 1e-9
    theirs = scipy.linalg.cho_factor(a, lower)
    ours = it.linalg.cho_factor(it.asarray(a), lower)
    assert ours[1] == lower
    assert ours[0].dtype == theirs[0].dtype
    half = np.tril if lower else np.triu  # what is in the other half is no one's business
    np.testing.assert_allclose(half(ours[0]), half(theirs[0]), rtol=rtol, atol=rtol)
    for b in RIGHT:
        if batch == (2, 3) and b.ndim == 3:
            continue  # SciPy before 1.16 broadcasts no stacks of several axes
        x = it.linalg.cho_solve(ours, it.asarray(b))
        np.testing.assert_allclose(x, scipy.linalg.cho_solve(theirs, b), rtol=rtol, atol=rtol)
        for trans in (0, "T", "C"):
            x = it.linalg.solve_triangular(it.asarray(a), it.asarray(b), trans, lower)
            want = scipy.linalg.solve_triangular(a, b, trans, lower)
            np.testing.assert_allclose(x, want, rtol=rtol, atol=rtol)


def test_what_cannot_be_solved_is_an_error() -> None:
    eye = it.eye(2)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        it.linalg.cho_factor(-eye)[0].numpy()
    with pytest.raises(ValueError, match="array must not contain infs or NaNs"):
        it.linalg.solve_triangular(eye, it.asarray([1.0, np.inf])).numpy()
    made = it.linalg.solve_triangular(eye, it.asarray([1.0, np.inf]), 0, True, check_finite=False)
    assert made.tolist() == [1.0, np.inf]
    with pytest.raises(ValueError, match="are incompatible"):
        it.linalg.cho_solve((eye, True), it.ones(3))
    with pytest.raises(ValueError, match="expected to be square"):
        it.linalg.cho_factor(it.ones((2, 3)))
