"""Products that read a matrix in parts add each to the sum of those before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import local

import infinitensor as it
from infinitensor import pipeline

WIDTH = 256
SCALE = 8192 // WIDTH


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of matrices that a test multiplies in no time; kernels one by one."""
    monkeypatch.setattr(pipeline, "SMALLEST_PART", 1 << 8)
    monkeypatch.setattr(it.config, "compile", "never")


def weights_of(n: int, width: int = WIDTH, dtype: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [((rng.random((width, width)) - 0.5) / width**0.5).astype(dtype) for _ in range(n)]


def passed(xp: Any, x: Any, weights: list[Any], transposed: bool) -> Any:
    for k, weight in enumerate(weights):
        if k % 3 == 2:
            few = x[:16] @ (weight.T if transposed else weight)
            x = x + few.mean()
        else:
            x = xp.maximum(x @ (weight.T if transposed else weight), 0)
    return x


@pytest.mark.parametrize(
    ("share", "dtype", "transposed"),
    [
        (0.75, np.float32, False),
        (0.25, np.float64, False),
        (0.1, np.float32, False),
        (0.25, np.float32, True),
    ],
)
def test_weights_in_parts_give_the_values_of_whole_ones(
    share: float, dtype: Any, transposed: bool
) -> None:
    weights = weights_of(9, dtype=dtype)
    x = np.random.default_rng(4).random((96, WIDTH)).astype(dtype)
    total = sum(w.nbytes for w in weights)
    budget = int(share * total) + 4 * x.nbytes
    wanted = passed(np, x, weights, transposed)
    with (
        fake_gpu(SCALE),
        it.init("cuda:0", memory=budget, host_memory=4 * total, disk=0) as session,
    ):
        ours, given = [it.asarray(w) for w in weights], it.asarray(x)
        loaded = []
        for _ in range(4):
            it.stats(reset=True)
            found = passed(it, given, ours, transposed).numpy()
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-5)
            stats = it.stats()
            loaded.append(stats["bytes_loaded"])
        assert stats["bytes_evicted"] == 0, "weights are clean"
        assert local(session).ledgers[0].peak_bytes <= budget
    assert loaded[-1] <= total + x.nbytes
    if (
        not transposed
    ):  # (a transposed matrix is read by the rows of the result, which is put together)
        ring = 2 * weights[0].nbytes  # parts may be half a weight
        assert loaded[-1] <= total + x.nbytes - budget + 4 * x.nbytes + ring


@pytest.mark.parametrize(
    ("rows", "of_weights"),
    [
        (np.float32, np.float64),
        (np.float64, np.float32),
        (np.float64, np.int64),
        (np.complex64, np.float32),
    ],
)
def test_parts_of_another_dtype_are_added_in_that_of_the_result(rows: Any, of_weights: Any) -> None:
    weights = [(64 * w).astype(of_weights) for w in weights_of(6, dtype=np.float64)]
    x = np.random.default_rng(4).random((96, WIDTH)).astype(rows)
    total = sum(w.nbytes for w in weights)
    wanted = sum(x @ w for w in weights)
    budget = total // 2 + 8 * wanted.nbytes
    with fake_gpu(SCALE), it.init("cuda:0", memory=budget, host_memory=8 * total, disk=0) as s:
        given = it.asarray(x)
        y: Any = sum(given @ it.asarray(w) for w in weights)
        found = y.numpy()
        (prepared,) = {id(t.prepared): t.prepared for t in s.traces.values()}.values()
        assert local(s).ledgers[0].peak_bytes <= budget
    assert any(group.chained >= 0 for group in prepared.plan.groups)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-2)


def test_integers_and_halves_are_read_whole() -> None:
    for dtype in (np.int32, np.float16):
        weights = [np.ones((64, 64), dtype) for _ in range(6)]
        x = np.ones((8, 64), dtype)
        with fake_gpu(SCALE), it.init("cuda:0", memory=100 * 1024, host_memory="1MiB", disk=0):
            y = it.asarray(x)
            for weight in [it.asarray(w) for w in weights]:
                y = (y @ weight) // 64
            assert (y.numpy() == 1).all()


def test_a_sum_keeps_its_memory_while_parts_are_added() -> None:
    weights = weights_of(6)
    x = np.random.default_rng(4).random((96, WIDTH), np.float32)
    total = sum(w.nbytes for w in weights)
    with fake_gpu(SCALE), it.init("cuda:0", memory=total // 3, host_memory=4 * total, disk=0) as s:
        y = it.asarray(x)
        for weight in [it.asarray(w) for w in weights]:
            y = y @ weight
        it.compute(y)
        (program,) = {id(t.prepared): t.prepared.program for t in s.traces.values()}.values()
    added = [family for family in program.graph.families if family.in_place]
    n_added = [6 * (n - 1) for n in pipeline.STREAMED_PARTS]
    assert len(added) in n_added, "parts of each weight, all but the first are added"
    for family in added:
        np.testing.assert_array_equal(
            program.slots[family.reads[0].tiles], program.slots[family.writes[0]]
        )
