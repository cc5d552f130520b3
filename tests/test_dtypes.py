"""Dtypes are NumPy's; bfloat16 follows float16's rules, and the two together are float32."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from infinitensor import dtypes
from infinitensor.dtypes import (
    ALL,
    NUMPYS,
    as_dtype,
    bfloat16,
    can_cast,
    dtype_of,
    float16,
    float32,
    from_numpy,
    held_as,
    kind_of,
    read_as,
    resolve_dtypes,
    result_type,
    to_numpy,
    to_torch,
)

CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
names = [dtype.name for dtype in ALL]


def swapped(dtype: Any) -> Any:
    """bfloat16 in the place of float16."""
    return bfloat16 if dtype == float16 else dtype


def test_result_types_are_numpys_and_bfloat16_takes_the_place_of_float16() -> None:
    for a, b in itertools.product(NUMPYS, NUMPYS):
        assert result_type(a, b) == np.result_type(a, b)
    for dtype in NUMPYS:
        wanted = float32 if dtype == float16 else swapped(np.result_type(float16, dtype))
        assert result_type(bfloat16, dtype) == result_type(dtype, bfloat16) == wanted
    assert result_type(bfloat16, bfloat16) == bfloat16


@pytest.mark.parametrize("number", [True, 3, 1.5, 2j])
def test_python_numbers_are_weak_and_scalars_of_numpy_are_not(number: Any) -> None:
    assert result_type(bfloat16, number) == swapped(np.result_type(float16, number))
    assert result_type(bfloat16, np.float64(1)) == np.float64
    assert result_type(np.ones(2, bfloat16), number) == result_type(bfloat16, number)


@pytest.mark.parametrize("casting", CASTINGS)
def test_casts_are_numpys_and_between_the_halves_values_change(casting: Any) -> None:
    for a, b in itertools.product(NUMPYS, NUMPYS):
        assert can_cast(a, b, casting) == np.can_cast(a, b, casting)
    for dtype in NUMPYS:
        if dtype != float16:
            assert can_cast(bfloat16, dtype, casting) == np.can_cast(float16, dtype, casting)
            assert can_cast(dtype, bfloat16, casting) == np.can_cast(dtype, float16, casting)
    assert can_cast(bfloat16, bfloat16, casting)
    between = casting in ("same_kind", "unsafe")
    assert can_cast(float16, bfloat16, casting) == can_cast(bfloat16, float16, casting) == between


def test_cast_of_nothing_is_refused() -> None:
    with pytest.raises(TypeError, match="'None' not accepted"):
        can_cast(None, float32)


@pytest.mark.parametrize("name", ["add", "true_divide", "less", "sin", "floor_divide", "isnan"])
def test_loops_of_ufuncs_are_numpys_with_bfloat16_in_the_place_of_float16(name: str) -> None:
    ufunc = getattr(np, name)
    for given in itertools.product((*NUMPYS, float), repeat=ufunc.nin):
        if all(isinstance(one, type) for one in given):
            continue
        filled = (*given, *(None,) * ufunc.nout)
        try:
            wanted = ufunc.resolve_dtypes(filled)
        except TypeError:
            with pytest.raises(TypeError, match="not"):
                resolve_dtypes(ufunc, filled)
            continue
        assert resolve_dtypes(ufunc, filled) == wanted
        if float16 in given:
            brain = tuple(swapped(x) for x in filled)
            assert resolve_dtypes(ufunc, brain) == tuple(map(swapped, wanted))


def test_loop_that_does_not_take_it_names_bfloat16() -> None:
    asked = (dtypes.int32,) * 3
    with pytest.raises(TypeError, match="from bfloat16 to dtype"):
        resolve_dtypes(np.add, (bfloat16, bfloat16, None), signature=asked)


@pytest.mark.parametrize("name", ["O", "U3", "M8[s]", "V4", "longdouble"])
def test_what_we_do_not_hold_is_said(name: str) -> None:
    with pytest.raises(TypeError, match=r"infinitensor holds no .* values"):
        as_dtype(name)
    with pytest.raises(TypeError, match=r"infinitensor holds no .* values"):
        read_as(name)


def test_other_byte_order_is_read_but_not_held() -> None:
    other = np.dtype(np.int32).newbyteorder()
    assert (read_as(other), held_as(other)) == (other, np.dtype("int32"))
    with pytest.raises(TypeError, match="byte order of this machine"):
        as_dtype(other)


@pytest.mark.parametrize("dtype", ALL, ids=names)
def test_torch_tensor_is_over_the_same_memory_there_and_back(dtype: Any) -> None:
    values = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    tensor = from_numpy(values)
    assert (tensor.dtype, dtype_of(tensor)) == (to_torch(dtype), dtype)
    back = to_numpy(tensor)
    assert back.dtype == dtype
    values[0, 0] = 1
    assert back[0, 0] == 1
    assert kind_of(dtype) in "biufc"


def test_array_that_may_not_be_written_is_taken_without_a_warning() -> None:
    values = np.arange(3.0)
    values.flags.writeable = False
    assert from_numpy(values).tolist() == [0, 1, 2]
    assert not values.flags.writeable


def test_torch_dtype_that_we_do_not_hold_is_said() -> None:
    with pytest.raises(TypeError, match=r"holds no float8_e5m2 values.*x\.float\(\)"):
        dtype_of(torch.zeros(2).to(torch.float8_e5m2))


@pytest.mark.parametrize("dtype", dtypes.REAL_FLOATING, ids=str)
def test_smallest_step_from_one_is_what_finfo_says(dtype: Any) -> None:
    eps = dtypes.finfo(dtype).eps
    one = dtype.type(1)
    assert dtype.type(1 + float(eps)) != one
    assert dtype.type(1 + float(eps) / 4) == one


@pytest.mark.parametrize("dtype", ALL, ids=names)
def test_a_dtype_is_the_object_that_numpy_has(dtype: Any) -> None:
    assert held_as(dtype.newbyteorder("=")) is dtype
    assert held_as(dtype.newbyteorder("S")) is dtype
    assert as_dtype(dtype.newbyteorder("=")) is dtype
