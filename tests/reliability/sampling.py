"""Seeded choices: a sample of a large matrix by default, all of it with INFINITENSOR_TEST_ALL=1.

`INFINITENSOR_TEST_SEED` picks another sample; every test that draws prints its seed.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

Case = TypeVar("Case")

SEED = int(os.environ.get("INFINITENSOR_TEST_SEED", "20261115"))
WHOLE = os.environ.get("INFINITENSOR_TEST_ALL", "") == "1"


def time_limit(seconds: float) -> pytest.MarkDecorator:
    """The mark that ends a test of a sample after some seconds, of everything after 15 times."""
    return pytest.mark.timeout(15 * seconds if WHOLE else seconds)


def logged_rng(*labels: object) -> np.random.Generator:
    """A generator that depends on the seed and the labels only; it says so where it is used."""
    text = "/".join(map(str, labels))
    print(f"seed: INFINITENSOR_TEST_SEED={SEED} for {text}")
    return np.random.default_rng([SEED, zlib.crc32(text.encode())])


def sample(cases: Sequence[Case], n_cases: int, *labels: object) -> list[Case]:
    """`n_cases` of `cases` in their own order, or all of them in a whole run."""
    if WHOLE or n_cases >= len(cases):
        return list(cases)
    chosen = logged_rng("sample", *labels).choice(len(cases), n_cases, replace=False)
    return [cases[index] for index in sorted(chosen)]
