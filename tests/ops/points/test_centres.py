"""Bounds of products that decide which centre is nearest, and the draws of seeding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infinitensor import native
from infinitensor.cluster.seeding import _reached
from infinitensor.ops.points import centres_triton, pairs, pairs_cuda
from infinitensor.ops.points.centres_triton import COARSE_UNIT


def cut_to_tf32(values: np.ndarray) -> np.ndarray:
    """Values without the last 13 bits of their fraction, as tensor cores read them."""
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.sampled_from([1e-3, 1.0, 1e4]))
@settings(max_examples=50, deadline=None)
def test_a_product_of_tf32_numbers_is_off_by_less_than_is_said(
    seed: int, d: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.uniform(0.5, 2, (20, d)) * scale).astype(np.float32)  # one sign: errors add up
    c = rng.uniform(0.5, 2, (20, d)).astype(np.float32)
    exact = x.astype(float) @ c.T.astype(float)
    cut = cut_to_tf32(x).astype(float) @ cut_to_tf32(c).T.astype(float)
    sizes = np.linalg.norm(x.astype(float), axis=1)[:, None] * np.linalg.norm(c, axis=1)
    assert (np.abs(exact - cut) <= COARSE_UNIT * sizes).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("n", [1, 7, 100_000])
def test_draws_reach_the_rows_that_numpys_running_sum_gives(
    n: int, weighed: bool, dtype: type
) -> None:
    rng = np.random.default_rng(n)
    values: np.ndarray = rng.random(n).astype(dtype)
    weights: np.ndarray | None = rng.random(n).astype(dtype) if weighed else None
    sums = np.cumsum(values if weights is None else weights * values)
    last = float(sums[-1])
    draws = np.array([*(rng.random(6) * last), 0.0, last, 1.1 * last, float(sums[n // 2])])
    np.testing.assert_array_equal(_reached(values, weights, draws), np.searchsorted(sums, draws))


def test_what_no_kernel_on_a_gpu_is_for_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    for module in (centres_triton, pairs_cuda):
        monkeypatch.setattr(module, "has_triton", lambda: False)
    x, none = torch.ones((3, 2)), torch.ones((0, 2))
    before = native.missed[0]
    assert pairs.on_gpu(torch, x, x) is None
    assert not centres_triton.may_launch(x)
    assert native.missed[0] == before + 2
    assert pairs.on_gpu(torch, x, none) is None
    assert not centres_triton.may_launch(x, none)
    assert pairs.on_gpu(np, x.numpy(), x.numpy()) is None
    assert native.missed[0] == before + 2, "there is nothing to do, or it is not on a GPU"
