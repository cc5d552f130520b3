"""Copies between arrays of every kind: the values of NumPy's assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infinitensor.devices.copy import copy_into, read, to_host
from infinitensor.dtypes import ALL, from_numpy, to_numpy
from infinitensor.storage import NpyFile, Part

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("numpy", "torch")
SHAPES = [(3, 4), (0, 2), (), (1,)]


def made(kind: str, values: np.ndarray[Any, Any]) -> Any:
    return values.copy() if kind == "numpy" else from_numpy(values.copy())


def back(array: Any) -> np.ndarray[Any, Any]:
    return array if isinstance(array, np.ndarray) else to_numpy(array)


@pytest.mark.parametrize("out_kind", KINDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_values_are_copied_whatever_the_arrays_are(kind: str, out_kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(9)
    for shape in SHAPES:
        values = rng.integers(0, 2, shape).astype(dtype)
        out = made(out_kind, np.zeros(shape, dtype))
        copy_into(out, made(kind, values))
        np.testing.assert_array_equal(back(out), values)


@pytest.mark.parametrize("out_kind", KINDS)
def test_strides_of_both_are_their_own(out_kind: str) -> None:
    values = np.arange(12.0).reshape(3, 4)
    for given in (values.T, values[::2, ::-1], np.broadcast_to(values[0], (3, 4))):
        out = made(out_kind, np.zeros((*given.shape, 2)))
        copy_into(out[..., 1], given)
        np.testing.assert_array_equal(back(out)[..., 1], given)
        assert not back(out)[..., 0].any()


def test_values_that_may_not_be_written_are_copied() -> None:
    values = np.arange(4)
    values.flags.writeable = False
    out = made("torch", np.zeros(4, int))
    copy_into(out, values)
    assert out.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("out_kind", KINDS)
def test_part_of_a_file_is_read_into_any_array(tmp_path: Path, out_kind: str) -> None:
    values = np.arange(12, dtype=np.int32).reshape(4, 3)
    np.save(tmp_path / "x.npy", values)
    part = Part(NpyFile(tmp_path / "x.npy"))[1:, :2]
    out = made(out_kind, np.zeros((3, 2), np.int32))
    copy_into(out, part)
    np.testing.assert_array_equal(back(out), values[1:, :2])
    np.testing.assert_array_equal(read(part), values[1:, :2])


def test_arrays_of_the_host_are_shown_where_they_are() -> None:
    values = np.arange(3.0)
    assert to_host(values) is values
    shown = to_host(from_numpy(values))
    values[0] = 9
    assert shown[0] == 9
