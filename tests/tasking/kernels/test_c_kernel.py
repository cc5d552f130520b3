"""Generated C on arrays of every shape and stride: which walk a call makes, and its scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor import native
from infinitensor.ir.call_tables import ALONE
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input
from infinitensor.tasking.c.fold_loops import Fold
from infinitensor.tasking.kernels import c_kernel
from infinitensor.tasking.kernels.c_kernel import (
    Compiled,
    compiled_kernel,
    copy_kernel,
    strides_of,
)

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(native.compiler() is None, reason="no C compiler here"),
]
DOUBLE = np.dtype(np.float64)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (3, 1), (2, 3, 4), (0, 3), (2, 1, 3)])
def test_any_shape_broadcast_and_stride(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    dtype = np.dtype(np.float64)
    tree = Term("add", (Term("multiply", (Arg(0), Arg(1))), Arg(2)))
    x = rng.standard_normal(shape[::-1]).T
    row = rng.standard_normal((*shape[:-1], 1)) if shape else rng.standard_normal(())
    inputs = (Input(dtype, False, False), Input(dtype, False, True), Input(dtype, True, False))
    run = compiled_kernel(
        (GroupStep(tree, (dtype,) * 3, (("in", 0), ("in", 1), ("in", 2)), dtype, 0),), inputs, 1
    )
    wide = np.full((*shape[:-1], 2 * shape[-1]) if shape else (), np.nan)
    out = wide[..., ::2] if shape else wide
    run([x, row, np.float64(0.25)], [out], shape)
    np.testing.assert_array_equal(out, x * row + 0.25)


def add_times(dtype: Any, *, is_scalar: bool = False) -> Compiled:
    """x * 2 + y, or with a number y."""
    kind = np.dtype(dtype)
    tree = Term("add", (Term("add", (Arg(0), Arg(0))), Arg(1)))
    inputs = (Input(kind, False, False), Input(kind, is_scalar, False))
    return compiled_kernel(
        (GroupStep(tree, (kind, kind), (("in", 0), ("in", 1)), kind, 0),), inputs, 1
    )


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("f4", 0.1),
        ("f8", -1e300),
        ("i8", -(2**63)),
        ("u8", 2**64 - 1),
        ("u8", 2**63),
        ("i1", -3),
        ("c16", 1 - 2j),
    ],
)
def test_scalars_reach_c_with_all_their_bits(dtype: str, value: Any) -> None:
    x, out = np.zeros(5, dtype), np.empty(5, dtype)
    add_times(dtype, is_scalar=True)([x, np.dtype(dtype).type(value)], [out], (5,))
    np.testing.assert_array_equal(out, np.full(5, value, dtype))


@pytest.mark.parametrize("dtype", ["?", "i2", "f4", "c8"])
def test_a_copy_is_of_any_strides(dtype: str) -> None:
    x = np.arange(60).reshape(3, 4, 5).astype(dtype)
    for view in (x, x.T, x[::-1, :, ::2], x[:, 1:1], np.broadcast_to(x[0], (2, 4, 5)), x[0, 0, 0]):
        out = np.zeros(view.shape, dtype)
        copy_kernel(out.dtype)([view], [out], view.shape)
        np.testing.assert_array_equal(out, view)


def test_neighbouring_axes_of_equal_strides_are_walked_as_one() -> None:
    kernel, x = add_times("f8"), np.zeros((4, 5, 6))
    walk = kernel.walk([x, x, x], x.shape)
    assert (walk.n_rows, walk.n) == (1, 120)
    walk = kernel.walk([x, np.zeros(6), x], x.shape)
    assert (walk.n_rows, walk.n) == (20, 6)
    walk = kernel.walk([x.transpose(0, 2, 1), x.transpose(0, 2, 1), np.zeros((4, 6, 5))], (4, 6, 5))
    assert walk.n_rows * walk.n == 120
    assert walk.n_rows > 1


def test_a_walk_is_kept_for_tiles_alike_and_few_are() -> None:
    kernel, x = Compiled((), (Input(DOUBLE, False, False),), 0, (), (), (-1,), False), np.zeros(9)
    assert kernel.walk([x], (9,)) is kernel.walk([x + 1], (9,))
    for n in range(200):
        kernel.walk([np.zeros(n)], (n,))
    assert len(kernel.walks) <= 65


def test_a_reduced_line_is_its_axes_whatever_the_strides() -> None:
    """It decides the order of rounding."""
    folds, given = (Fold("sum", ("in", 0), DOUBLE, DOUBLE, True),), (Input(DOUBLE, False, False),)
    x, sums = np.zeros((40, 50, 20)), np.zeros(40)
    alone = Compiled((), given, 0, folds, (-2, -1), (-1,), False).walk([x, sums], x.shape)
    assert (alone.n_rows, alone.n, alone.n_same, alone.scattered) == (2000, 20, 50, [])
    kernel = Compiled((), given, 0, folds, (-2, -1), (-2, -1), False)
    for tile, scattered in ((x, []), (np.asfortranarray(x), [0]), (np.zeros((40, 50, 30)), [0])):
        walk = kernel.walk([tile[..., :20], sums], x.shape)
        assert (walk.n_rows, walk.n, walk.n_same, walk.scattered) == (40, 1000, 1, scattered)


def test_what_becomes_one_element_is_walked_line_after_line() -> None:
    folds, given = (Fold("sum", ("in", 0), DOUBLE, DOUBLE, True),), (Input(DOUBLE, False, False),)
    kernel, x, sums = (
        Compiled((), given, 0, folds, (-3, -1), (-1,), False),
        np.ones((9, 4, 100)),
        np.zeros(4),
    )
    walk = kernel.walk([x, sums], x.shape)
    assert (walk.n_rows, walk.n, walk.n_same) == (36, 100, 9)
    kernel([x], [sums], x.shape)
    np.testing.assert_array_equal(sums, 900)


def test_strides_of_a_tile_are_zero_where_one_value_stands_for_all() -> None:
    x = np.zeros((4, 1, 6))
    assert strides_of(x, 3, ()) == [48, 0, 8]
    assert strides_of(x, 4, ()) == [0, 48, 0, 8]
    assert strides_of(np.zeros((4, 6)), 3, (1,)) == [48, 0, 8]


@pytest.mark.parametrize("shape", [(40_000,), (300, 70), (3, 9000), (70, 300)])
@pytest.mark.parametrize("n_threads", [2, 5])
def test_a_kernel_that_python_starts_is_shared_and_gives_the_same(
    shape: tuple[int, ...], n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(c_kernel, "n_sharing", lambda: n_threads)
    run = add_times("f8")
    rng = np.random.default_rng(2)
    for x in (rng.random(shape), rng.random(shape[::-1]).T):
        row, out = rng.random(shape[-1:]), np.zeros(shape)
        walk = run.walk([x, row, out], shape)
        for _ in range(40):  # alone, then with others
            out[:] = 0
            run([x, row], [out], shape)
            np.testing.assert_array_equal(out, x + x + row)
        assert walk.form is not None
        assert walk.times[2] >= 40 or walk.by == ALONE
    out = rng.random(40_001)
    wanted = out[:-1] * 2 + out[1:]
    run([out[:-1], out[1:]], [out[1:]], (40_000,))  # what is written is read elsewhere
    assert out[1] == wanted[0]


def test_columns_that_threads_reduce_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).standard_normal((1846, 63)).astype("f4")
    found = []
    for n_threads in (1, 4):
        monkeypatch.setattr(c_kernel, "n_sharing", lambda n=n_threads: n)
        with strict("cpu", 1 << 20, compile="always", workers=2):
            x = it.compute(it.asarray(values))
            for _ in range(30):
                y = it.compute(it.std(it.tanh(it.exp(-it.abs(x * x))), axis=0))
                found.append(y.numpy().tobytes())
    assert len(set(found)) == 1
