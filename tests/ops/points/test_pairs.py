"""Searches over pairs decide as float64 does, whatever float32 leaves open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict
from tests.ops.points.scales import SCALES

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.ops.points import pairs_numpy, prim
from infinitensor.ops.points.pairs import exact, neighbour_order
from infinitensor.ops.points.pairs_c import Search, is_compiled

needs_c = pytest.mark.skipif(not is_compiled(), reason="no C compiler")


def counts_in_c(x: Any, limit: float) -> tuple[Any, int]:
    total = np.zeros(len(x))
    asked = Search("count", x, x, limit, sum=total, enough=np.inf).run()
    return total, asked


@needs_c
@pytest.mark.parametrize("d", [3, 8, 16, 64])
@pytest.mark.parametrize("name", SCALES)
def test_counts_are_those_of_float64_at_a_radius_that_is_a_distance(name: str, d: int) -> None:
    scale, offset = SCALES[name]
    rng = np.random.default_rng(d)
    x = rng.standard_normal((150, d)) * scale + offset
    squares = exact(x, x)
    for quantile in (0.02, 0.5, 1.0):
        limit = float(np.quantile(squares, quantile, method="nearest"))
        for at in (limit, np.nextafter(limit, 0), np.nextafter(limit, np.inf)):
            found, _ = counts_in_c(x, float(at))
            np.testing.assert_array_equal(found, (squares <= at).sum(1))


@needs_c
def test_a_radius_far_above_the_points_holds_all_of_them() -> None:
    x = np.random.default_rng(0).standard_normal((90, 12))
    for limit in (1e6, 1e30, 1e80, 1e300, np.inf):
        np.testing.assert_array_equal(counts_in_c(x, limit)[0], 90)


@needs_c
def test_products_decide_nearly_all_pairs_of_centred_points() -> None:
    x = np.random.default_rng(0).standard_normal((600, 16))
    limit = float(np.quantile(exact(x, x), 0.05))
    _, asked = counts_in_c(x, limit)
    assert asked < 600 * 600 * 0.002


@needs_c
def test_integer_points_full_of_ties_are_counted_exactly() -> None:
    x = np.random.default_rng(0).integers(0, 3, (300, 10)).astype(float)
    squares = exact(x, x)
    for limit in range(8):
        np.testing.assert_array_equal(counts_in_c(x, float(limit))[0], (squares <= limit).sum(1))


@pytest.mark.parametrize("d", [2, 9])
def test_every_row_is_in_the_order_once(d: int) -> None:
    x = np.random.default_rng(0).standard_normal((1000, d))
    x[::3] = x[0]
    order = neighbour_order(x)
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))


def test_an_order_of_leaves_has_small_boxes() -> None:
    x = np.random.default_rng(0).uniform(size=(4096, 2))
    leaves = x[neighbour_order(x)].reshape(-1, 32, 2)
    if is_compiled():
        assert np.ptp(leaves, axis=1).mean() < 0.15


def _searches(x: Any, y: Any) -> dict[str, Any]:
    """Every search, over points that stand in for labels, groups and cores too."""
    n, m = len(x), len(y)
    number = np.arange(m)
    group, core = number % 5, (number % 7) / 7
    same = np.arange(n), np.arange(n) % 5, (np.arange(n) % 7) / 7
    return {
        "count": call_op("_pairs_count", y, x, 2.0),
        "weigh": call_op("_pairs_weigh", y, number / 4, x, 2.0),
        "top": call_op("_pairs_top", y, number, x, 6),
        "least": call_op("_pairs_least", y, number % 13, x, 2.0),
        "unite": call_op("_pairs_unite", y, number, x, np.arange(n), 1.0, max(n, m), False),
        "edge": call_op("_pairs_edge", y, number, group, core, x, *same, 5),
    }


def _values(found: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [one.numpy() for one in (value if isinstance(value, tuple) else (value,))]
        for name, value in found.items()
    }


@pytest.mark.parametrize("d", [2, 11])
@pytest.mark.parametrize(("devices", "tile"), [("cpu", 0), ("cpu*3", 300), ("cpu*2", 2000)])
def test_searches_are_the_same_under_every_cut(devices: str, tile: int, d: int) -> None:
    rng = np.random.default_rng(d)
    x, y = rng.standard_normal((130, d)), rng.integers(-1, 2, (170, d)).astype(float)
    with np.errstate(all="ignore"):
        whole = _values(_searches(x, y))
    with strict(devices, tile):
        cut = _values(_searches(x, y))
    for name, parts in whole.items():
        for a, b in zip(parts, cut[name], strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


@needs_c
@pytest.mark.parametrize("d", [2, 11])
def test_without_a_compiler_searches_are_the_same(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(d)
    x, y = rng.integers(-1, 2, (90, d)).astype(float), rng.standard_normal((70, d))
    in_c = _values(_searches(x, y))
    monkeypatch.setattr(it.config, "compile", "never")
    monkeypatch.setitem(pairs_numpy.BLOCK, "cpu", 500)
    in_words = _values(_searches(x, y))
    for name, parts in in_c.items():
        for a, b in zip(parts, in_words[name], strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


@needs_c
def test_edges_of_nodes_come_in_the_same_order_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    graph = (9, rng.integers(0, 9, 50), rng.integers(0, 7, 50), rng.uniform(size=50))
    in_c = prim._adjacent(*graph)
    monkeypatch.setattr(it.config, "compile", "never")
    for a, b in zip(in_c, prim._adjacent(*graph), strict=True):
        np.testing.assert_array_equal(a, b)


def test_points_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"_pairs_count: points of shapes \(3, 2\) and \(4, 5\)"):
        call_op("_pairs_count", np.ones((4, 5)), np.ones((3, 2)), 1.0)


@pytest.mark.gpu
@pytest.mark.parametrize("d", [2, 11, 40])
def test_searches_on_a_gpu_are_those_of_a_cpu(d: int) -> None:
    rng = np.random.default_rng(d)
    x, y = rng.integers(-1, 2, (900, d)).astype(float), rng.standard_normal((700, d))
    with it.init("cpu"):
        there = _values(_searches(x, y))
    with it.init("cuda"):
        here = _values(_searches(x, y))
    for name, parts in there.items():
        for a, b in zip(parts, here[name], strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)
