"""Random programs over tensors of 10,000 to 2,000,000 elements give NumPy's values.

Large enough for generated code, plans that run in C and, in the sessions with little memory, for
evictions; the programs of `generate.py` are of any kind, and small. Steps are continuous: last bits
of sums decide nothing. `INFINITENSOR_TEST_ALL=1` runs many more.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable

N_PROGRAMS = 200 if os.environ.get("INFINITENSOR_TEST_ALL") == "1" else 12
SESSIONS: dict[str, dict[str, Any]] = {
    "one device": {},
    "three devices": {"devices": "cpu*3"},
    "little memory": {"devices": "cpu", "memory": "64MiB"},
    "little memory on two": {"devices": "cpu*2", "memory": "40MiB"},
}
Step = tuple[str, "Callable[[Any, Any, Any, np.random.Generator], Any]"]


def smoothed(x: Any) -> None:
    if x.ndim == 2:
        x[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    else:
        x[1:-1] = 0.5 * (x[:-2] + x[2:])


def shifted(x: Any) -> None:
    x[5:-5] = x[:-10] + x[10:]


def halved_where_large(x: Any) -> None:
    large = x > 0.3
    x[large] = 0.15 + x[large] * 0.5


def put(x: Any, key: Any, value: Any) -> None:
    x[key] = value


STEPS: tuple[Step, ...] = (
    ("chain", lambda xp, x, y, rng: x * 2.5 + 1),
    ("sum of two", lambda xp, x, y, rng: x + y if x.shape == y.shape else x * 0.5),
    ("clipped", lambda xp, x, y, rng: xp.clip(x, -1, 1)),
    ("where", lambda xp, x, y, rng: xp.where(x > 0.1, x, 0.2 - x)),
    ("exp", lambda xp, x, y, rng: xp.exp(-abs(x))),
    ("column sums", lambda xp, x, y, rng: x.sum(axis=0, keepdims=True) * 1e-3 + x),
    ("row means", lambda xp, x, y, rng: x.mean(axis=-1, keepdims=True) - x),
    ("maxima", lambda xp, x, y, rng: x.max(axis=0) - x),
    ("running sums", lambda xp, x, y, rng: xp.cumsum(x, axis=-1) * 1e-3),
    ("sawtooth", lambda xp, x, y, rng: abs(x % 1 - 0.5)),
    ("turned", lambda xp, x, y, rng: x.T),
    ("reversed", lambda xp, x, y, rng: x[..., ::-1].copy()),
    ("every third", lambda xp, x, y, rng: x[2::3]),
    ("picked", lambda xp, x, y, rng: x[rng.integers(0, len(x), len(x) // 2)]),
    ("smoothed", lambda xp, x, y, rng: smoothed(x)),
    ("shifted", lambda xp, x, y, rng: shifted(x)),
    ("halved where large", lambda xp, x, y, rng: halved_where_large(x)),
    ("scaled", lambda xp, x, y, rng: put(x, ..., x * 0.75)),
    ("a row", lambda xp, x, y, rng: put(x, int(rng.integers(len(x))), 1.5)),
    ("a column", lambda xp, x, y, rng: put(x, (..., slice(3, 4)), x[..., :1])),
    ("from another", lambda xp, x, y, rng: put(x, ..., y) if x.shape == y.shape else None),
)


def run(xp: Any, seed: int, made: Callable[[np.ndarray], Any]) -> tuple[list[Any], list[str]]:
    """All tensors of the program that `seed` stands for, and its steps."""
    rng = np.random.default_rng(seed)
    large = tuple(rng.integers(100, 1500, 2).tolist())
    shape = (large, (int(rng.integers(10_000, 700_000)),))[int(rng.integers(3) == 0)]
    tensors = [made(rng.standard_normal(shape)) for _ in range(2)]
    steps = []
    for _ in range(int(rng.integers(4, 14))):
        name, step = STEPS[int(rng.integers(len(STEPS)))]
        i, j = rng.integers(len(tensors), size=2).tolist()
        steps.append(f"{len(tensors)}: {name} of {i}, {j}")
        if len(tensors[i]) > 10:
            result = step(xp, tensors[i], tensors[j], rng)
            if result is not None:
                tensors.append(result)
    return tensors, steps


@pytest.mark.local
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("session", SESSIONS)
def test_programs_of_medium_size_give_what_numpy_gives(session: str) -> None:
    with it.init(**SESSIONS[session]):
        for seed in range(N_PROGRAMS):
            expected, steps = run(np, seed, np.copy)
            for _ in range(2):  # planned, then found again
                got, _ = run(it, seed, it.asarray)
                for k, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
                    np.testing.assert_allclose(
                        ours.numpy(), theirs, 1e-7, 1e-7, err_msg=f"seed {seed}, {k}: {steps}"
                    )
