"""Picking by a mask on a GPU: what torch picks and counts, block after block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.on_gpu import same, some
from tests.triton_in_numpy import triton_in_numpy

from infinitensor.ops.move import mask_triton

torch = pytest.importorskip("torch")
BLOCK = mask_triton.MASK_BLOCK_ELEMENTS


def mask_of(n: int, share: float) -> Any:
    return torch.from_numpy(np.random.default_rng(n).random(n) < share)


@pytest.mark.parametrize("n", [1, BLOCK - 1, BLOCK, 3 * BLOCK + 5])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_counts_are_those_of_torch(n: int, share: float) -> None:
    mask, total = mask_of(n, share), torch.tensor(-1)
    with triton_in_numpy(mask_triton) as launches:
        mask_triton.count_into(mask, total)
    assert int(total) == int(mask.sum())
    assert [launch.grid[0] for launch in launches] == [-(-n // BLOCK), 1]


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
@pytest.mark.parametrize("shape", [(5,), (2 * BLOCK,), (3, BLOCK + 7)])
def test_what_a_mask_chooses_comes_in_its_order(shape: tuple[int, ...], dtype: str) -> None:
    x = torch.arange(int(np.prod(shape))).reshape(shape).to(getattr(torch, dtype))
    mask = mask_of(x.numel(), 0.4).reshape(shape)
    wanted = x[mask]
    out = torch.empty_like(wanted)
    with triton_in_numpy(mask_triton):
        assert mask_triton.compact(x, mask, out)
    assert torch.equal(out, wanted)


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("shape", [(1,), (5,), (2 * BLOCK,), (3, BLOCK + 7)])
def test_what_a_mask_chooses_comes_first_then_zeros(
    shape: tuple[int, ...], share: float, dtype: str
) -> None:
    x = torch.arange(1, 1 + int(np.prod(shape))).reshape(shape).to(getattr(torch, dtype))
    mask = mask_of(x.numel(), share).reshape(shape)
    n = int(mask.sum())
    out, places = torch.full((x.numel(),), 1).to(x.dtype), torch.full((x.numel(),), -1)
    count, count_of_places = torch.tensor([-1]), torch.tensor([-1])
    with triton_in_numpy(mask_triton):
        assert mask_triton.pack(x, mask, out, count)
        assert mask_triton.pack(None, mask, places, count_of_places)
    assert count.tolist() == count_of_places.tolist() == [n]
    assert torch.equal(out[:n], x[mask])
    assert torch.equal(places[:n], mask.reshape(-1).nonzero()[:, 0])
    assert not out[n:].any()
    assert not places[n:].any()


def test_more_blocks_than_are_added_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask_triton, "MASK_BLOCK_ELEMENTS", 4)
    monkeypatch.setattr(mask_triton, "_added", mask_triton._launches(mask_triton._ENDS, 8))
    mask, x = mask_of(150, 0.5), torch.arange(150.0)
    out = torch.empty(int(mask.sum()))
    with triton_in_numpy(mask_triton):
        assert mask_triton.compact(x, mask, out)
    assert torch.equal(out, x[mask])


def test_what_is_not_contiguous_complex_or_empty_is_left_to_torch() -> None:
    x, mask, out = torch.arange(8.0), torch.ones(8, dtype=torch.bool), torch.full((8,), -1.0)
    refused = [
        (x[::2], mask[::2], out[:4]),
        (x, mask, out.expand(2, 8)[0:1].T[:, 0].as_strided((8,), (0,))),
        (x.to(torch.complex64), mask, out.to(torch.complex64)),
        (x, mask.to(torch.int8), out),
        (x, mask[:0], out[:0]),
    ]
    with triton_in_numpy(mask_triton) as launches:
        assert [mask_triton.compact(*given) for given in refused] == [False] * 5
        count = torch.tensor([0])
        assert [mask_triton.pack(*given, count) for given in refused] == [False] * 5
        total = torch.tensor(0)
        mask_triton.count_into(mask[::2], total)
    assert launches == []
    assert int(total) == 4
    assert (out == -1).all()


def test_tensors_of_the_host_are_counted_by_torch() -> None:
    mask, total = mask_of(100, 0.5), torch.tensor(0)
    mask_triton.count_into(mask, total)
    assert int(total) == int(mask.sum())
    assert not mask_triton.compact(torch.arange(100.0), mask, torch.empty(int(total)))


def test_torch_counts_and_picks_until_all_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, mask = torch.arange(1.0, 101.0), mask_of(100, 0.4)
    asked: list[Any] = []

    def can_start(*given: Any) -> bool:
        asked.append(given)
        return False

    monkeypatch.setattr(mask_triton, "can_start", can_start)
    total, out = torch.tensor(0), torch.zeros(int(mask.sum()))
    with triton_in_numpy(mask_triton) as launches:
        mask_triton.count_into(mask, total)
        assert not mask_triton.compact(x, mask, out)
        assert not mask_triton.pack(x, mask, torch.zeros(100), torch.tensor([0]))
    assert launches == []
    assert len(asked) == 2 + 3 + 3, "each is asked for, that they are compiled together"
    assert int(total) == int(mask.sum())
    assert not out.any()


@pytest.mark.gpu
def test_masks_on_a_gpu_choose_what_numpys_do() -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        flat = x.reshape(-1)
        return [flat[flat > 0.5], x[x > 9], x[x > -9], x.T[x.T > 0]]

    same(f, some(300, 500), rtol=0)
