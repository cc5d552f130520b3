"""Bits read as another dtype, and arrays given by their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.api.modes import assert_alike, mode  # noqa: F401 - a fixture

import infinitensor as it

pytestmark = pytest.mark.usefixtures("mode")
VIEWS: list[Any] = [lambda x: x, lambda x: x.T, lambda x: x[..., ::2], lambda x: x[..., 1:]]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "u1", "c16"])
@pytest.mark.parametrize("wanted", ["f8", "i4", "u1", "c16", "u2", None])
def test_bits_are_read_as_another_dtype(dtype: str, wanted: Any) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 8), (16,), (0, 4), ()):
        x = np.asarray(rng.integers(-9, 99, shape)).astype(dtype)
        for view in VIEWS if shape else VIEWS[:2]:
            assert_alike(lambda xp, x, see: see(x).view(*([wanted] if wanted else [])), x, see=view)


def test_bits_cannot_be_written() -> None:
    seen = it.ones(3).view("u8")
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 0


def test_arrays_may_be_given_by_name() -> None:
    x = np.arange(6).reshape(2, 3)
    assert_alike(lambda xp, x: xp.transpose(a=x), x)
    assert_alike(lambda xp, x: xp.flip(m=x, axis=0), x)
    assert_alike(lambda xp, x: xp.broadcast_to(array=x, shape=(2, 2, 3)), x)
    assert_alike(lambda xp, x: xp.squeeze(), x)


def test_scalars_that_are_parts_of_a_base_get_other_shapes() -> None:
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=50), rng.normal(size=(1, 1)), rng.normal(size=(3, 7)) * (1 + 2j)):
        for shape in ((1,), (-1,), (1, 1), ()):
            assert_alike(lambda xp, x, s: xp.max(x).reshape(s), x, s=shape)
            assert_alike(lambda xp, x, s: x[0, ..., 0].reshape(s) if x.ndim > 1 else 0, x, s=shape)
            assert_alike(lambda xp, x, s: x.real.reshape(-1)[-1].reshape(s), x, s=shape)
            assert_alike(lambda xp, x, s: x.reshape(-1)[-1].imag.reshape(s), x, s=shape)
        assert_alike(lambda xp, x: xp.broadcast_to(x.reshape(-1)[-1].real, (2, 3)), x)
        assert_alike(lambda xp, x: x.reshape(-1)[0][None, ...], x)
    x = rng.normal(size=(1, 40))
    for axis in (None, (0, 1)):
        assert_alike(lambda xp, x, axis: xp.quantile(x, 0.3, axis=axis).reshape(-1), x, axis=axis)
        assert_alike(lambda xp, x, axis: xp.quantile(x, 0.3, axis=axis)[None], x, axis=axis)
