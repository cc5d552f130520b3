"""Broadcasting, weak scalars, cuts and casts of elementwise ops."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.ops.table_xp import WHOLE, TableXp

import infinitensor as it
from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE

STEPS = (1, 2, 7, WHOLE)
DEVICES = ("cpu", "cuda")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "shapes", [((3, 8), (8,)), ((3, 1), (1, 9)), ((), (5,)), ((0, 3), (1,)), ((), ()), ((1,), (1,))]
)
def test_broadcast_operands_give_the_value_of_the_whole(
    shapes: Any, step: int, device: str
) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=shape) for shape in shapes)
    got = TableXp(step, device).call("arctan2", np.asarray(x), np.asarray(y))
    np.testing.assert_allclose(got, np.arctan2(x, y), 1e-14)


@pytest.mark.parametrize("step", STEPS)
def test_negative_strides_are_read(step: int) -> None:
    x = np.arange(20.0).reshape(4, 5)[::-1, ::-2]
    np.testing.assert_array_equal(TableXp(step).call("add", x, x.T[:, ::-1].T), x + x.T[:, ::-1].T)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scalar", [2, 2.5, 1j, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, np.float32, np.complex64, bool])
@pytest.mark.parametrize("name", ["add", "multiply", "less", "power", "maximum"])
def test_python_scalars_are_weak(name: str, dtype: Any, scalar: Any, device: str) -> None:
    if (
        device == "cuda"
        and (isinstance(scalar, complex) or dtype == np.complex64)
        and name == "power"
    ):
        pytest.skip("complex powers differ in the last bits")
    x = np.array([0, 1, 3]).astype(dtype)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x, scalar)
    got = TableXp(WHOLE, device).call(name, x, scalar)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, 1e-3 if want.dtype == np.float16 else 1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["less", "greater_equal", "equal", "not_equal"])
@pytest.mark.parametrize("bound", [300, -1, 2**40])
def test_comparison_with_an_int_beyond_the_dtype(name: str, bound: int, device: str) -> None:
    x = np.array([0, 255], np.uint8)
    for args in ((x, bound), (bound, x)):
        want = getattr(np, name)(*args)
        np.testing.assert_array_equal(TableXp(WHOLE, device).call(name, *args), want)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "source", [bool, np.int16, np.uint32, np.float16, np.float64, np.complex64]
)
@pytest.mark.parametrize("target", [bool, np.int8, np.uint64, np.float32, np.complex128])
def test_cast_is_astype(source: Any, target: Any, device: str) -> None:
    x = np.array([[0, 1, 3], [7, 0, 100]]).astype(source)
    want = (x.real if np.iscomplexobj(x) and np.dtype(target).kind not in "cb" else x).astype(
        target
    )
    for step in STEPS:
        got = TableXp(step, device).call("_cast", x, target)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["where", "clip", "round", "around", "divmod", "angle", "_cast"])
def test_cases_of_the_ops_that_are_no_ufunc(name: str, device: str) -> None:
    op = TABLE[name]
    assert op.cases is not None
    for args, kwargs in op.cases(np.random.default_rng(0)):
        want = (op.oracle or getattr(np, name))(*args, **kwargs)
        for step in STEPS:
            got = TableXp(step, device).call(name, *args, **kwargs)
            for one, other in zip(
                got if isinstance(got, tuple) else (got,),
                want if isinstance(want, tuple) else (want,),
                strict=True,
            ):
                assert one.dtype == other.dtype
                np.testing.assert_allclose(one, other, 1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, bool])
@pytest.mark.parametrize("number", [300, -1, 2**63, 2**70])
@pytest.mark.parametrize("small_elements", [0, 1 << 16])
def test_where_takes_integers_as_the_installed_numpy_does(
    number: int, dtype: Any, small_elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "small_elements", small_elements)
    x = np.array([0, 1, 1]).astype(dtype)
    for branches in ((number, x), (x, number)):
        try:
            want = np.where(x == 0, *branches)
        except OverflowError as error:
            with pytest.raises(OverflowError, match=re.escape(str(error))):
                it.where(x == 0, *(it.asarray(b) if b is x else b for b in branches)).numpy()
        else:
            got = it.where(x == 0, *(it.asarray(b) if b is x else b for b in branches)).numpy()
            np.testing.assert_array_equal(got, want, strict=True)


def test_where_takes_the_dtype_of_its_branches() -> None:
    condition = np.array([True, False])
    x = np.array([1, 2], np.float32)
    for other in (1, 2.5, np.float64(3), np.int64(3), True):
        want = np.where(condition, x, other)
        got = TableXp().call("where", condition, x, other)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_shapes_that_do_not_broadcast_raise_at_the_call() -> None:
    f8 = np.dtype(float)
    with pytest.raises(ValueError, match="could not be broadcast together"):
        TABLE["add"].rule(Spec((2, 3), f8), Spec((4,), f8))


def test_bool_minus_is_refused_as_in_numpy() -> None:
    flag = Spec((2,), np.dtype(bool))
    with pytest.raises(TypeError, match="boolean negative"):
        TABLE["negative"].rule(flag)
    with pytest.raises(TypeError, match="boolean subtract"):
        TABLE["subtract"].rule(flag, flag)
