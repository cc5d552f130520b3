"""The text of reductions and, on a GPU, that they give what NumPy's do."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
from tests.on_gpu import same, some
from tests.tasking.triton.kernel_groups import SINGLE, chain

import infinitensor as it
from infinitensor.tasking.triton.triton_reduce import Reduction, chunk_source, merge_source


def test_sums_of_floats_are_merged_by_pairs_and_exact_ones_at_once() -> None:
    group = chain()
    total = chunk_source(group, [Reduction("sum", ("step", 0), SINGLE)], 8, 4, False)
    assert total.count("tl.reduce(tl.reshape") == 3
    most = chunk_source(group, [Reduction("max", ("step", 0), SINGLE)], 8, 4, False)
    assert "tl.reshape" not in most
    for source in (total, most, merge_source([Reduction("moments", ("in", 0), SINGLE)], 4, 2)):
        ast.parse(source)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("devices", ["cuda:0", "cuda:0*3"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 1), (1, 2), (0, 2)])
def test_reductions_end_a_group_or_stand_alone(axis: Any, devices: str, always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        y, z = x * 2 + 1, x[1:, ::2, 1:-1] * 3 - 1
        alone = [x.sum(axis), x.mean(axis), x.var(axis), x.min(axis), x.max(axis), x.std(axis)]
        return [
            *alone,
            z.sum(axis),
            (x > 0).any(axis),
            (x > -9).all(axis),
            y,
            y.max(axis),
        ]

    counts = same(f, some(40, 30, 70), devices=devices)
    assert (counts["eager_fallbacks"] == 0) == (axis != (0, 2))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("kind", ["f2", "f8", "i1", "i4", "u1", "u4", "i8", "?"])
def test_reductions_in_every_dtype(kind: str, always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        made = [x.sum(0), x.sum(), x.any(1), x.all(), xp.count_nonzero(x, 0), x.mean(1)]
        return made if kind == "?" else [*made, x.max(0), x.min(), abs(x).max(1)]

    x = some(300, 70) * 20
    x = abs(x) if kind.startswith("u") else x  # else casts are not the same on every processor
    same(f, x.astype(kind), rtol=1e-2 if kind == "f2" else 1e-5)


@pytest.mark.sampled(8)
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "u1", "i8"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_places_are_the_first_of_the_best(kind: str, axis: int | None, always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        return [
            xp.argmin(x * 2 - 3, axis),
            xp.argmax(x[::-1, ::2], axis),
            xp.argmax(x.transpose(2, 0, 1) + 1, axis),
            xp.argmin(x, axis, keepdims=True),
        ]

    x = np.round(some(30, 40, 50) * 3)
    x = (abs(x) if kind.startswith("u") else x).astype(kind)
    counts = same(f, x, rtol=0)
    assert counts["eager_fallbacks"] == 0 or axis in (None, 1)
    if kind.startswith("f"):
        x[3, 4, 5], x[20, 4, 5], x[:, 7] = np.nan, np.nan, np.inf
        same(f, x, rtol=0)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("shape", [(700, 3), (3, 5000), (40000,), (2, 9)])
@pytest.mark.parametrize("kind", ["f4", "f8", "i4"])
def test_the_last_kernel_makes_the_results(shape: tuple[int, ...], kind: str, always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        y = x * 2
        made = []
        for axis in (0, -1, None):
            made += [y.mean(axis), y.var(axis), x.std(axis), x.mean(axis, keepdims=True)]
            made += [y.sum(axis), xp.var(x + 1, axis, ddof=1.5), xp.std(x, axis, ddof=0.5)]
        return made

    x = (some(*shape) * 5).astype(kind)
    counts = same(f, x, rtol=2e-5)
    assert counts["eager_fallbacks"] == 0


@pytest.mark.usefixtures("kernels")
def test_nothing_and_nan_reduce_as_in_numpy(always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        return [(x[:0] * 2 + 1).sum(), (x[:0] + 1).sum(0), x.max(0), x.min(), (x * 2).sum(1)]

    x = some(30, 20)
    x[3, 4], x[5, 6] = np.nan, np.inf
    same(f, x)


@pytest.mark.usefixtures("kernels")
def test_bits_do_not_depend_on_the_tiles(monkeypatch: pytest.MonkeyPatch, always: None) -> None:
    from infinitensor.partition import tile_shape

    monkeypatch.setitem(tile_shape.LEAF_ELEMENTS, "cuda", 1 << 12)
    x = some(3000, 37)
    found = set()
    for tile in (1 << 12, 1 << 14, 1 << 16, 0):
        monkeypatch.setattr(it.config, "tile_elements", tile)
        with it.init("cuda:0"):
            given = it.asarray(x)
            made = [given.sum(), given.sum(0), given.var(0), (given * 2 + 1).sum(), given.std()]
            found.add(b"".join(m.numpy().tobytes() for m in made))
    assert len(found) == 1
