"""The text of kernels over rows that are reduced and used again, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiled import compiles, needs_triton
from tests.tasking.triton.kernel_groups import one_word

from infinitensor.tasking.c.expressions import Input, Unsupported
from infinitensor.tasking.triton.triton_reduce import Reduction
from infinitensor.tasking.triton.triton_rows import (
    RowGroup,
    RowReduction,
    RowsKernel,
    rows_source,
)
from infinitensor.tasking.triton.triton_source import Group

torch = pytest.importorskip("torch")
DOUBLE = np.dtype(np.float64)


def normalised(dtype: Any = DOUBLE, kind: str = "moments", end: str = "std") -> RowGroup:
    """Rows divided by what they are reduced to, which is stored too."""
    dtype = np.dtype(dtype)
    found = RowReduction(Reduction(kind, ("in", 0), dtype), dtype, 1, end)
    step = one_word("divide", dtype, dtype, 0)
    sources = (("in", 0), ("step", 0))
    step = type(step)(step.tree, step.loop, sources, step.dtype, 0)
    group = Group((), (Input(dtype, False, False),), 2)
    return RowGroup(group, (found, step), ("full", "full", "lead"))


def test_rows_are_loaded_once_and_distances_are_from_the_mean() -> None:
    text = rows_source(normalised(), 1, 4, 8, False)
    assert text.count("tl.load(") == 1
    assert text.count("tl.store(") == 2
    assert text.count("tl.reduce(") == 2
    assert "tl.maximum(n_columns - 0.0, 0.0)" in text


def test_nothing_is_looked_at_that_would_give_other_bits() -> None:
    text = rows_source(normalised(), 2, 4, 8, True)
    kept = text[text.index("do_not_specialize=") :].splitlines()[0]
    for name in ("p0", "p2", "n0", "n1", "n_columns", "s0_0", "s2_2"):
        assert f"'{name}'" in kept
    assert "tl.max_contiguous(c * s0_2, [1, 8])" in text


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(Unsupported, match="complex64"):
        RowsKernel(normalised(np.complex64, "sum", ""))


@needs_triton
@pytest.mark.parametrize(("dtype", "n"), [("float64", 25), ("float16", 100)])
def test_they_compile(dtype: str, n: int) -> None:
    kind = getattr(torch, dtype)
    x, lead = torch.empty((2, n), dtype=kind), torch.empty(2, dtype=kind)
    launch, _ = RowsKernel(normalised(dtype)).launch_of((x, x, lead), (), (2, n))
    assert compiles(launch, [x.dtype, x.dtype, lead.dtype])
