"""The transform of a long line by columns and rows is the transform of the line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.table_xp import TableXp

from infinitensor.ops.signal.long_fft import SLIM, long_transform, rows_for

RNG = np.random.default_rng(24)


@pytest.mark.parametrize("n", [12, 36, 60, 97, 128, 210, 5041, 4 * 10007])
def test_rows_are_the_divisor_next_to_the_root_or_none(n: int) -> None:
    root = int(n**0.5)
    divisors = [a for a in range(2, root + 1) if n % a == 0 and a > max(root // SLIM, 1)]
    assert rows_for(n) == (max(divisors) if divisors else None)


@pytest.mark.parametrize("step", [3, 7, 1 << 40])
@pytest.mark.parametrize("word", ["fft", "ifft", "rfft"])
@pytest.mark.parametrize("n", [12, 35, 60, 144])
def test_a_line_in_pieces_is_transformed_as_a_whole(n: int, word: str, step: int) -> None:
    x = RNG.normal(size=n) + (0 if word == "rfft" else 1j * RNG.normal(size=n))
    transform = getattr(np.fft, word)
    rows = rows_for(n)
    assert rows is not None
    for norm in ("backward", "ortho", "forward"):
        found = long_transform(TableXp(step), x, word, rows, norm)
        np.testing.assert_allclose(found, transform(x, norm=norm), 1e-11, 1e-12)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_forth_and_back_is_the_line_and_power_stays(dtype: str) -> None:
    x = (RNG.normal(size=90) + 1j * RNG.normal(size=90)).astype(dtype)
    xp: Any = TableXp(7)
    there = long_transform(xp, x, "fft", 9, "ortho")
    assert there.dtype == np.dtype(dtype)
    rtol = 1e-4 if dtype == "c8" else 1e-12
    np.testing.assert_allclose(long_transform(xp, there, "ifft", 9, "ortho"), x, rtol, rtol)
    np.testing.assert_allclose(np.linalg.norm(there), np.linalg.norm(x), rtol)


def test_any_divisor_gives_the_same_terms() -> None:
    x = RNG.normal(size=48) + 0j
    for rows in (2, 3, 4, 6, 8, 16, 24):
        found = long_transform(TableXp(5), x, "fft", rows, "backward")
        np.testing.assert_allclose(found, np.fft.fft(x), 1e-11, 1e-12)
