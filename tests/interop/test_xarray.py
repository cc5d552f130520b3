"""xarray holds tensors as it holds arrays, and computes with them lazily."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it

xr: Any = pytest.importorskip("xarray")

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("strict_or_default")]

X = np.arange(24.0).reshape(2, 3, 4) - 3
CALLS: dict[str, Any] = {
    "arithmetic": lambda d: d * 2 + d.isel(a=0),
    "a ufunc": lambda d: np.exp(d / 10),
    "mean": lambda d: d.mean("a"),
    "mean of all": lambda d: d.mean(),
    "sum": lambda d: d.sum(("a", "c")),
    "deviation": lambda d: d.std("b"),
    "maximum": lambda d: d.max("c"),
    "isel": lambda d: d.isel(c=slice(1, 3)),
    "isel by a list": lambda d: d.isel(b=[0, 2]),
    "sel by a label": lambda d: d.sel(b=2),
    "concat": lambda d: xr.concat([d, d + 1], "a"),
    "where": lambda d: d.where(d > 3),
    "transpose": lambda d: d.transpose("c", "a", "b"),
    "dot": lambda d: xr.dot(d, d, dim="c"),
    "stack": lambda d: d.stack(z=("a", "b")),
    "fillna": lambda d: d.where(d > 3).fillna(0),
    "roll": lambda d: d.roll(b=1),
    "a Dataset": lambda d: xr.Dataset({"v": d}).mean("a")["v"],
}


def array(values: Any) -> xr.DataArray:
    return xr.DataArray(values, dims=("a", "b", "c"), coords={"b": [1, 2, 3]})


@pytest.mark.parametrize("name", CALLS)
def test_it_computes_with_tensors(name: str) -> None:
    found, expected = CALLS[name](array(it.asarray(X))), CALLS[name](array(X))
    assert isinstance(found.data, it.Tensor)
    assert found.dims == expected.dims
    np.testing.assert_allclose(found.data.numpy(), expected.data, rtol=1e-12)


def test_it_shows_a_corner_of_a_tensor() -> None:
    assert "Tensor" in repr(array(it.asarray(X)))
    assert array(it.asarray(X)).to_numpy().tolist() == X.tolist()
