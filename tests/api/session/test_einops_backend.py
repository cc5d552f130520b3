"""einops on tensors: by its own functions and by those of the array-API mode."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import infinitensor as it

einops: Any = pytest.importorskip("einops")
pytest.importorskip("einops.array_api")

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("strict_or_default")]

X = np.arange(24.0).reshape(2, 3, 4)
CALLS: dict[str, Any] = {
    "rearrange": lambda e, x: e.rearrange(x, "a b c -> c (a b)"),
    "split an axis": lambda e, x: e.rearrange(x, "a b (h w) -> (a h) w b", h=2),
    "reduce": lambda e, x: e.reduce(x, "a b c -> a c", "mean"),
    "reduce to a scalar": lambda e, x: e.reduce(x, "a b c ->", "max"),
    "pool": lambda e, x: e.reduce(x, "a b (c two) -> a b c", "sum", two=2),
    "repeat": lambda e, x: e.repeat(x, "a b c -> a (b two) c", two=2),
    "pack": lambda e, x: e.pack([x, x[0]], "* b c")[0],
    "unpack": lambda e, x: e.unpack(x, [[1], [2]], "a * c")[1],
}


@pytest.mark.parametrize("mode", ["plain", "array_api"])
@pytest.mark.parametrize("name", CALLS)
def test_it_rearranges_tensors(name: str, mode: str) -> None:
    library = einops if mode == "plain" else einops.array_api
    found = CALLS[name](library, it.asarray(X))
    assert isinstance(found, it.Tensor)
    np.testing.assert_array_equal(found.numpy(), CALLS[name](einops, X))


def test_it_contracts_tensors() -> None:
    found = einops.einsum(it.asarray(X), it.asarray(X), "a b c, a d c -> b d")
    np.testing.assert_allclose(found.numpy(), np.einsum("abc,adc->bd", X, X))


def test_rearranging_computes_nothing() -> None:
    x = it.asarray(X) + 0
    it.stats(reset=True)
    assert einops.rearrange(x, "a b c -> b (a c)").shape == (3, 8)
    assert it.stats()["tasks"] == 0


def test_einops_may_be_imported_after_us_but_is_not_imported_by_us() -> None:
    program = (
        "import sys, infinitensor as it; assert 'einops' not in sys.modules; import einops; "
        "assert einops.rearrange(it.ones((2, 3)), 'a b -> b a').shape == (3, 2)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=120)
