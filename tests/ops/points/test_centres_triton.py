"""The kernels of points and centres for GPUs: every case of their ops is that of the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.table_xp import WHOLE, TableXp
from tests.triton_in_numpy import OutOfResources, triton_in_numpy

from infinitensor.jit import Launch
from infinitensor.ops import TABLE
from infinitensor.ops.points import centres_triton

torch = pytest.importorskip("torch")
OPS = ("_nearest", "_nearest_moved", "_label_sums", "_label_inertia", "_closer")


@pytest.mark.parametrize("step", [7, WHOLE])
@pytest.mark.parametrize("name", OPS)
def test_every_case_is_the_oracles(name: str, step: int) -> None:
    op = TABLE[name]
    assert op.cases is not None
    assert op.oracle is not None
    chosen = op.compared or (lambda made: made)
    with triton_in_numpy(centres_triton) as launches:
        for args, kwargs in op.cases(np.random.default_rng(1)):
            found = chosen(TableXp(step, "cuda").call(name, *args, **kwargs))
            wanted = chosen(op.oracle(*args, **kwargs))
            np.testing.assert_allclose(found, wanted, 0 if op.same == "equal" else 1e-12)
    assert launches


def tensors(x: Any, shift: Any, centers: Any) -> tuple[Any, Any, Any]:
    return torch.from_numpy(x), torch.from_numpy(shift), torch.from_numpy(centers)


def labels_of(x: Any, centers: Any, coarse_first: bool = False) -> tuple[Any, Any, list[Launch]]:
    """Labels, bounds and launches of points without a shift."""
    given = tensors(x, np.zeros_like(x[0]), centers)
    labels = torch.empty(len(x), dtype=torch.int32)
    bounds = torch.empty((len(x), 2), dtype=torch.float32)
    with pytest.MonkeyPatch.context() as patched, triton_in_numpy(centres_triton) as launches:
        patched.setattr(centres_triton, "COARSE_WORK", 0 if coarse_first else 1 << 62)
        centres_triton.nearest(torch, *given, labels, bounds)
    return labels.numpy(), bounds.numpy(), launches


@pytest.mark.parametrize("coarse_first", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("d", "k"), [(3, 2), (20, 33), (130, 9), (4, 140)])
def test_labels_are_float64s_decision_and_bounds_hold(
    d: int, k: int, dtype: str, coarse_first: bool
) -> None:
    rng = np.random.default_rng(d)
    x = rng.normal(size=(90, d)).astype(dtype)
    centers = np.tile(x[: k // 2 + 1], (2, 1))[:k]  # the first of equal ones wins
    labels, bounds, launches = labels_of(x, centers, coarse_first)
    far = np.sqrt(((x[:, None].astype("f8") - centers.astype("f8")) ** 2).sum(-1))
    np.testing.assert_array_equal(labels, far.argmin(1))
    first, second = np.sort(far, 1)[:, :2].T
    assert (bounds[:, 0] >= first).all()
    assert (bounds[:, 1] <= second).all()
    assert len(launches) == 2 + coarse_first


def test_rows_that_a_first_look_decides_are_not_looked_at_again() -> None:
    x = np.repeat(np.eye(4), 5, 0)
    given = tensors(x, np.zeros(4), np.eye(4))
    lists = centres_triton.Lists(torch, len(x), x.device)
    out, bounds = torch.empty(20, dtype=torch.int32), torch.empty((20, 2))
    with triton_in_numpy(centres_triton):
        centres_triton.nearest(torch, *given, out, bounds, lists)
    assert lists.lengths[:, 0].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(out.numpy(), np.repeat(np.arange(4), 5))


def test_blocks_that_a_gpu_has_no_room_for_are_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(centres_triton, "_too_large", set())
    monkeypatch.setattr(centres_triton, "_near", {})
    x, tried = np.random.default_rng(0).normal(size=(40, 3)), []
    with triton_in_numpy(centres_triton), pytest.MonkeyPatch.context() as inside:
        run = Launch.__call__

        def small_gpu(self: Launch, *given: Any) -> None:
            tried.append(self.constants["ROWS"])
            if "near_few" in self.source and self.constants["ROWS"] > 32:
                raise OutOfResources
            run(self, *given)

        inside.setattr(Launch, "__call__", small_gpu)
        for n_tried in (len(centres_triton.FEW_BLOCKS), 1):
            tried.clear()
            given = tensors(x, x[0] * 0, x[:4].copy())
            out, bounds = torch.empty(40, dtype=torch.int32), torch.empty((40, 2))
            centres_triton.nearest(torch, *given, out, bounds)
            assert len(tried) == n_tried + 1  # and the one that is sure
            assert out.tolist() == ((x[:, None] - x[:4]) ** 2).sum(-1).argmin(1).tolist()


def test_a_gpu_too_small_for_every_block_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centres_triton, "_too_large", set())

    def no_room(*given: Any) -> None:
        raise OutOfResources

    x = torch.ones(5, 2)
    with triton_in_numpy(centres_triton), pytest.MonkeyPatch.context() as inside:
        inside.setattr(Launch, "__call__", no_room)
        with pytest.raises(RuntimeError, match=r"no block of .* fits this GPU"):
            centres_triton.nearest(torch, x, x[0], x[:2], torch.empty(5), torch.empty(5, 2))


def test_tiles_that_are_not_contiguous_are_copied_and_results_put_back() -> None:
    seen = []

    def run(x: Any, out: Any) -> str:
        seen.append((x.is_contiguous(), out.is_contiguous()))
        out.copy_(x * 2)
        return "made"

    x, out = torch.arange(6.0).reshape(2, 3).T, torch.zeros(2, 3).T
    assert centres_triton.launch(run, (x,), (out,)) == "made"
    assert seen == [(True, True)]
    assert torch.equal(out, x * 2)


@pytest.mark.parametrize(("width", "n"), [(1, 256), (1 << 15, 128), (1 << 22, 1), (1 << 40, 1)])
def test_partial_sums_are_few_where_they_are_wide(width: int, n: int) -> None:
    assert centres_triton.copies(width) == n
