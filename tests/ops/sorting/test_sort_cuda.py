"""Sorting on a GPU by CuPy: what is left to torch, and NumPy's order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.on_gpu import same, some

from infinitensor.ops.sorting import sort_cuda

torch = pytest.importorskip("torch")


class Elsewhere:
    """A tensor that says it is on a GPU; nothing may be read of it."""

    def __init__(self, x: Any) -> None:
        self.dtype, self.shape, self.numel = x.dtype, x.shape, x.numel
        self.device = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("x", "axis"),
    [
        (torch.zeros(3, 4), 0),
        (torch.zeros(3, 4), 1),
        (torch.zeros(4, dtype=torch.float16), 0),
        (torch.zeros(4, dtype=torch.bool), 0),
        (torch.zeros(0), 0),
    ],
    ids=["columns", "rows", "half", "bool", "empty"],
)
def test_what_cupy_is_not_for_is_refused_before_it_is_imported(
    x: Any, axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sort_cuda, "_cupy", lambda: pytest.fail("CuPy was asked for"))
    assert not sort_cuda.sort_with_cupy(Elsewhere(x), None, axis)


def test_without_cupy_or_with_a_result_in_pieces_torch_sorts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = Elsewhere(torch.zeros(4))
    monkeypatch.setattr(sort_cuda, "_cupy", lambda: None)
    assert not sort_cuda.sort_with_cupy(x, torch.zeros(4), 0)
    monkeypatch.setattr(sort_cuda, "_cupy", lambda: "a CuPy that is not to be used")
    assert not sort_cuda.sort_with_cupy(x, torch.zeros(8)[::2], 0)


def test_tensors_of_the_host_are_not_cupys() -> None:
    x = torch.tensor([3.0, 1.0, 2.0])
    out = torch.zeros(3)
    assert not sort_cuda.sort_with_cupy(x, out, 0)
    assert not out.any()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i8", "u1", "?"])
def test_orders_are_numpys(dtype: str) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        return [xp.sort(x.reshape(-1)), xp.sort(x, 0), xp.sort(x), xp.sort(x[:, ::2])]

    x = some(300, 500) * 30
    if dtype[0] == "f":
        x[::7, ::5] = np.nan
        x[::3, ::7] = -np.nan  # as 0 / 0 is on x86
    same(f, x.astype(dtype), rtol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [7, 100, 3000, 20_000])
def test_nan_is_last_whatever_its_sign(n: int) -> None:
    x = some(40, n) * 30
    x[:, ::5] = -np.nan
    same(lambda xp, x: [xp.sort(x), xp.argsort(x, stable=True), xp.median(x[:, 1::5], -1)], x)
    same(lambda xp, x: [xp.argsort(x, stable=True)], x * (1 + 1j))
