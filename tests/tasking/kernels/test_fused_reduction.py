"""Groups that end with a reduction: leaf by leaf in one pass, whatever the tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.analysis.graphs import leaf, recorded_graph
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor import native
from infinitensor.dtypes import bfloat16
from infinitensor.partition import tile_shape
from infinitensor.tasking.c.expressions import Unsupported
from infinitensor.tasking.kernels.fused_reduction import (
    folds_alone,
    folds_of,
    merge_pairwise,
    reduced_axes,
)

in_c = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")


def node_of(shape: tuple[int, ...], word: str, axis: Any) -> Any:
    """The node of a reduction of a tensor of this shape."""
    with strict("cpu") as session:
        return recorded_graph(session, getattr(it, word)(leaf(*shape), axis=axis)).nodes[-1]


@pytest.mark.parametrize(
    ("axis", "wanted"), [(0, (-3,)), (-1, (-1,)), ((0, 2), (-3, -1)), (None, (-3, -2, -1))]
)
def test_reduced_axes_are_counted_from_the_last(axis: Any, wanted: tuple[int, ...]) -> None:
    assert reduced_axes(node_of((2, 3, 4), "sum", axis)) == wanted


def test_several_reductions_of_an_operand_have_a_fold_each() -> None:
    nodes = [node_of((40, 50), word, 1) for word in ("sum", "max", "var")]
    assert [fold.kind for fold in folds_alone(nodes)] == ["sum", "max", "moments"]


def test_a_few_elements_have_no_fold() -> None:
    few = node_of((5, 4, 3), "sum", 1)
    with pytest.raises(Unsupported, match="short rows"):
        folds_of([few], [("in", 0)])
    assert folds_alone([few]) == []
    with pytest.raises(Unsupported, match="nothing to reduce"):
        folds_of([node_of((1, 1), "sum", 1)], [("in", 0)])
    assert len(folds_alone([node_of((40, 50, 60), "sum", (0, 2))])) == 1


def programs(x: Any, axis: Any) -> tuple[Any, ...]:
    """Sums and moments of a tensor, as it is and after steps, with operands of other shapes."""
    y, z = (x - x[..., :1]) * 2, x[:1] + x * 0.5
    of_steps = (it.sum(y, axis=axis), it.var(z, axis=axis), it.mean(y * z, axis=axis))
    return it.sum(x, axis=axis), it.mean(x, axis=axis), it.std(x, axis=axis, ddof=1), *of_steps


@pytest.mark.sampled(16)
@in_c
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((700, 13), 0), ((700, 13), 1), ((700, 13), None), ((40, 300), 0), ((40, 300), (0, 1)),
        ((30, 20, 40), (0, 2)), ((30, 20, 40), 1), ((30, 40, 3), (1, 2)), ((30, 40, 3), 1),
        ((9000, 20), None), ((20, 9000), 1), ((9000,), 0), ((3, 1, 200), (1, 2)),
    ],
)  # fmt: skip
def test_sums_have_the_same_bits_generated_and_step_by_step(
    shape: tuple[int, ...], axis: Any, dtype: str, order: Any
) -> None:
    x = np.asarray(np.random.default_rng(0).normal(size=shape) * 100, dtype, order=order)
    made = []
    for compile_when in ("never", "always"):
        with strict("cpu", 1 << 12, compile=compile_when):
            made.append([np.asarray(one) for one in programs(it.asarray(x), axis)])
    for step_by_step, generated in zip(*made, strict=True):
        np.testing.assert_array_equal(step_by_step, generated)
    for found, wanted in zip(
        made[0][:3], (x.sum(axis), x.mean(axis), x.std(axis, ddof=1)), strict=True
    ):
        np.testing.assert_allclose(
            found,
            wanted,
            rtol=1e-4 if dtype == "f4" else 1e-11,
            atol=2e-2 if dtype == "f4" else 1e-9,
        )


@pytest.mark.sampled(8)
@in_c
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), bfloat16])
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("shape", [(700, 13), (3, 5000), (40, 300), (0, 30)])
def test_halves_are_summed_as_floats_generated_and_step_by_step(
    shape: tuple[int, ...], axis: Any, dtype: Any
) -> None:
    x = (np.random.default_rng(0).normal(size=shape) * 3).astype(dtype)
    made = []
    for compile_when in ("never", "always"):
        with strict("cpu", 1 << 12, compile=compile_when):
            t = it.asarray(x)
            found = [t.sum(axis), (t * 2 + 1).sum(axis), (t - 1).any(axis), t.var(axis)]
            found += [t.mean(axis), (t * 3).std(axis)]
            it.compute(*found)
            made.append([one.numpy().astype("f8") for one in found])
    for step_by_step, generated in zip(*made, strict=True):
        np.testing.assert_array_equal(step_by_step, generated)
    wanted = x.astype("f8").sum(axis)
    np.testing.assert_allclose(made[1][0], wanted, rtol=1e-2, atol=1e-1)


@pytest.mark.sampled(8)
@in_c
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), bfloat16])
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("shape", [(700, 13), (3, 5000), (40, 300), (700, 1)])
def test_extremes_of_halves_are_numpys(shape: tuple[int, ...], axis: Any, dtype: Any) -> None:
    x = (np.random.default_rng(1).normal(size=shape) * 3).astype(dtype)
    x[0, :2], x[1, 0] = np.inf, -np.inf
    for unknown in (False, True):
        x[2, -1] = np.nan if unknown else 0
        wide, less = x.astype("f8"), (x - dtype.type(2)).astype("f8")
        other = None if axis is None else 1 - axis
        with strict("cpu", 1 << 12, compile="always"):
            t = it.asarray(x)
            found = [t.max(axis), (t - 2).min(axis), it.max(t.T, other)]
            it.compute(*found)
            wanted = [wide.max(axis), less.min(axis), wide.max(axis)]
            for made, theirs in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(made.numpy().astype("f8"), theirs)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_neighbours_are_merged_pairwise_until_one_is_left(n: int) -> None:
    """In floating point the order shows: pairs, then pairs of pairs."""
    parts = np.random.default_rng(n).standard_normal((n, 4)).astype("f4") * 1e3

    def pairwise(values: list[Any]) -> Any:
        while len(values) > 1:
            pairs = [a + b for a, b in zip(values[::2], values[1::2], strict=False)]
            values = pairs + ([values[-1]] if len(values) % 2 else [])
        return values[0]

    node = node_of((40, 50), "sum", 1)
    (found,) = merge_pairwise(node, (parts[: n // 2],), (parts[n // 2 :],))
    np.testing.assert_array_equal(found, pairwise(list(parts)))


@in_c
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("word", ["sum", "max", "any", "std", "argmin", "prod", "count_nonzero"])
def test_a_reduction_of_steps_is_numpys_and_has_the_same_bits_in_every_tile(
    word: str, axis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tile_shape.LEAF_ELEMENTS, "cpu", 64)
    x = np.random.default_rng(3).standard_normal((70, 90)) * 0.7
    found = set()
    for tile in (64, 1024, 1 << 20):
        with strict("cpu*2", tile, compile="always"):
            made = getattr(it, word)(it.asarray(x) * 1.5 - 0.25, axis=axis).numpy()
            found.add(made.tobytes())
    np.testing.assert_allclose(made, getattr(np, word)(x * 1.5 - 0.25, axis=axis), rtol=1e-11)
    assert len(found) == 1


@in_c
def test_leaves_that_do_not_divide_an_axis_leave_nothing_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(tile_shape.LEAF_ELEMENTS, "cpu", 64)
    x = np.random.default_rng(4).integers(-9, 9, (37, 53)).astype("f8")
    with strict("cpu", 1 << 20, compile="always"):
        t = it.asarray(x)
        made = [(t * 2 + 1).sum(1), (t * 2 + 1).sum(0), (t - 1).max(), (t * 3).var(0)]
        it.compute(*made)
        wanted = [(x * 2 + 1).sum(1), (x * 2 + 1).sum(0), (x - 1).max(), (x * 3).var(0)]
        for mine, theirs in zip(made, wanted, strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-13)
