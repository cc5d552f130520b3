"""Reductions: NumPy's values, dtypes and errors, in any pieces, on both kinds of device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.table_xp import WHOLE, TableXp

from infinitensor.dtypes import NUMPYS, bfloat16
from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE
from infinitensor.ops.table.numpy_kernels import lower_partial, merge_tree

STEPS = (1, 2, 7, WHOLE)
DEVICES = ("cpu", "cuda")
PLAIN = ("sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "count_nonzero")
NAMES = (*PLAIN, "amin", "amax", "ptp", "argmin", "argmax", "logsumexp", "topk")


def same(got: Any, want: Any, note: Any = "") -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), note
    tolerance = {"float16": 4e-3, "float32": 2e-5, "complex64": 2e-5}.get(want.dtype.name, 1e-11)
    np.testing.assert_allclose(got, want, tolerance, tolerance, err_msg=str(note))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_every_case_is_numpys(name: str, device: str) -> None:
    op = TABLE[name]
    assert op.cases is not None
    for args, kwargs in op.cases(np.random.default_rng(0)):
        want = (op.oracle or getattr(np, name))(*args, **kwargs)
        for step in STEPS:
            got = TableXp(step, device).call(name, *args, **kwargs)
            if isinstance(want, tuple):
                for one, other in zip(got, want, strict=True):
                    same(one, other, (kwargs, step))
            else:
                same(got, want, (kwargs, step))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [*PLAIN, "argmin", "argmax"])
@pytest.mark.parametrize("dtype", NUMPYS, ids=str)
def test_every_dtype_and_axis(name: str, dtype: np.dtype[Any], device: str) -> None:
    rng = np.random.default_rng(2)
    x = (rng.integers(0, 4, (4, 5)) + (0.5 if dtype.kind in "fc" else 0)).astype(dtype)
    if dtype.kind == "c":
        x = (x + 1j * rng.integers(0, 3, (4, 5))).astype(dtype)
    for axis in (None, 0, -1):
        want = getattr(np, name)(x, axis=axis)
        for step in (2, WHOLE):
            same(TableXp(step, device).call(name, x, axis=axis), want, (axis, step))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [*PLAIN, "argmin", "argmax"])
def test_nan_and_infinities(name: str, device: str) -> None:
    x = np.array([[1.0, np.nan, np.inf], [np.inf, -np.inf, 2.0], [3.0, 3.0, 3.0], [0.0, -0.0, 5.0]])
    for axis in (None, 0, 1):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(x, axis=axis)
        for step in STEPS:
            same(TableXp(step, device).call(name, x, axis=axis), want, (axis, step))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.uint64, np.int64])
def test_extremes_of_64_bit_integers(dtype: Any, device: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([3, info.max, info.min, info.max - 1], dtype)
    for name in ("min", "max", "argmin", "argmax", "sum", "prod"):
        with np.errstate(all="ignore"):
            same(TableXp(1, device).call(name, x), getattr(np, name)(x), name)
    values, where = TableXp(1, device).call("topk", x, 2)
    assert list(where) == [1, 3]
    assert values[0] == info.max


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["sum", "prod", "any", "all", "count_nonzero"])
def test_empty_axes_give_the_identity(name: str, device: str) -> None:
    for shape, axis in (((0, 3), 0), ((0, 3), 1), ((3, 0), None), ((0,), None)):
        x = np.zeros(shape)
        same(TableXp(2, device).call(name, x, axis=axis), getattr(np, name)(x, axis=axis))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_moments_of_nothing_are_nan(name: str, device: str) -> None:
    x = np.zeros((0, 3))
    same(TableXp(2, device).call(name, x, axis=0), getattr(np, name)(x, axis=0))
    same(
        TableXp(2, device).call(name, np.ones(3), ddof=3) if name != "mean" else np.ones(1),
        (np.var(np.ones(3), ddof=3) if name != "mean" else np.ones(1)),
    )


@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax"])
def test_a_reduction_without_identity_refuses_nothing_only_where_it_must(name: str) -> None:
    rule = TABLE[name].rule
    with pytest.raises(ValueError, match=r"zero-size array|empty sequence"):
        rule(Spec((0, 3), np.dtype(float)), axis=0)
    assert TABLE["max"].rule(Spec((0, 3), np.dtype(float)), axis=1).outs[0].shape == (0,)


def test_the_message_of_an_empty_minimum_is_numpys() -> None:
    message = "zero-size array to reduction operation minimum which has no identity"
    with pytest.raises(ValueError, match=message):
        TABLE["min"].rule(Spec((0,), np.dtype(float)))


@pytest.mark.parametrize("name", [*PLAIN, "argmin", "logsumexp"])
def test_bad_axes_name_the_op_the_axis_and_the_shape(name: str) -> None:
    x = Spec((2, 3), np.dtype(float))
    with pytest.raises(np.exceptions.AxisError, match=rf"{name}: axis 2 .*\(2, 3\)"):
        TABLE[name].rule(x, axis=2)
    if name != "argmin":
        with pytest.raises(ValueError, match="duplicate value in 'axis'"):
            TABLE[name].rule(x, axis=(0, -2))


@pytest.mark.parametrize("device", DEVICES)
def test_half_precision_sums_do_not_overflow_on_the_way(device: str) -> None:
    x = np.full(4000, 20.0, np.float16)
    assert TableXp(100, device).call("mean", x) == np.float16(20)
    assert TableXp(100, device).call("sum", np.tile(np.array([2e4, -2e4], np.float16), 50)) == 0


@pytest.mark.parametrize("device", DEVICES)
def test_variance_keeps_its_digits_far_from_zero(device: str) -> None:
    x = np.random.default_rng(0).normal(size=1000) + 1e8
    for step in (3, 100, WHOLE):
        np.testing.assert_allclose(TableXp(step, device).call("var", x), np.var(x), 1e-7)


@pytest.mark.parametrize("device", DEVICES)
def test_logsumexp_at_the_borders(device: str) -> None:
    rows = np.array(
        [[-np.inf] * 3, [np.inf, 0, 1], [-np.inf, -800, -np.inf], [np.nan, 1, 2], [-1e4, 1e4, 0]]
    )
    want = np.array([-np.inf, np.inf, -800, np.nan, 1e4])
    for step in STEPS:
        np.testing.assert_allclose(TableXp(step, device).call("logsumexp", rows, axis=1), want)
    assert TableXp(1, device).call("logsumexp", np.zeros(0)) == -np.inf


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint16, bool, np.float16])
def test_topk_orders_ties_by_index_and_nan_as_largest(
    dtype: Any, largest: bool, device: str
) -> None:
    x = np.random.default_rng(3).integers(0, 4, (3, 23)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[0, ::3] = np.nan
        x[1, ::4] = -np.inf
        x[2, ::4] = np.inf
    oracle = TABLE["topk"].oracle
    assert oracle is not None
    for k in (0, 1, 4, 23):
        for step in STEPS:
            got = TableXp(step, device).call("topk", x, k, largest=largest)
            for one, other in zip(got, oracle(x, k, -1, largest), strict=True):
                np.testing.assert_array_equal(one, other)


def test_topk_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="k=4 is not between 0 and 3"):
        TableXp().call("topk", np.zeros(3), 4)
    with pytest.raises(TypeError, match="no order"):
        TableXp().call("topk", np.zeros(3, complex), 1)


def test_argmin_over_all_axes_counts_in_c_order_whatever_the_cut() -> None:
    x = np.zeros((5, 6))
    x[3, 1] = x[1, 4] = -1
    for step in STEPS:
        assert TableXp(step).call("argmin", x) == np.argmin(x)


def test_reversed_views_are_reduced() -> None:
    x = np.arange(24.0).reshape(4, 6)[::-1, ::-2]
    for name in ("sum", "argmax", "var", "topk"):
        got = TableXp(2).call(name, x, *((2,) if name == "topk" else ()))
        want = TABLE["topk"].oracle(x, 2) if name == "topk" else getattr(np, name)(x)  # type: ignore[misc]
        np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "logsumexp"])
def test_leaves_fix_the_bits_whatever_a_tile_holds(name: str) -> None:
    op = TABLE[name]
    x = np.random.default_rng(0).normal(size=(16, 3))
    call = op.rule(Spec(x.shape, x.dtype), axis=0)
    partial = lower_partial(op, call, "cpu", ((0, 2),))
    whole = partial([x], None)
    for n in (2, 4, 8):
        merged = merge_tree(op, np, [partial([x[i : i + n]], None) for i in range(0, 16, n)])
        for one, other in zip(merged, whole, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), ()])
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), bfloat16], ids=str)
@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_of_halves_are_found_by_their_bits(
    name: str, dtype: np.dtype[Any], axes: tuple[int, ...]
) -> None:
    kernel: Any = TABLE[name].kernel
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(40, 30)) * 9).astype(dtype)
    x[0, 0], x[1, 1], x[2, 2:4], x[5] = np.inf, -np.inf, np.nan, -0.0
    x[6, 6], x[7] = -np.asarray(np.nan, dtype), np.float32(1e-7)
    for given in (x, x[::-3, ::2], x.T, x[:0].T if axes == (1,) else x[:, :1]):
        own = tuple(axis for axis in axes if given.shape[axis])
        (made,) = kernel(np, given, axes=own, dtype=dtype)
        assert made.dtype == dtype
        wide = given.astype("f8")
        with np.errstate(invalid="ignore"):
            wanted = getattr(np, name)(wide, axis=own) if own else wide
        np.testing.assert_array_equal(made.astype("f8"), wanted)
