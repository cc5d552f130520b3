"""Programs that run on a GPU as they do over NumPy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import infinitensor as it


def some(*shape: int, kind: str = "f4") -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(kind)


def same(f: Any, *arrays: np.ndarray, rtol: float = 1e-5, devices: str = "cuda:0") -> Any:
    """A program over tensors gives what it gives over arrays; what was counted."""
    with it.init(devices), np.errstate(all="ignore"):
        wanted = f(np, *(x.copy() for x in arrays))
        made = f(it, *(it.asarray(x) for x in arrays))
        it.compute(*made)
        for mine, theirs in zip(made, wanted, strict=True):
            got = mine.numpy()
            assert got.dtype == theirs.dtype
            assert got.shape == np.shape(theirs)
            size = np.abs(theirs, where=np.isfinite(theirs), out=np.zeros(np.shape(theirs)))
            np.testing.assert_allclose(got, theirs, rtol, rtol * size.max(initial=0.01))
        return it.stats()
