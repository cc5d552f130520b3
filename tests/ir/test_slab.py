"""Slab sizes: large enough, not much larger, and never smaller for more."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from infinitensor.ir.slab import slab_bytes

from .budget import examples

near_powers = st.builds(lambda e, d: max((1 << e) + d, 0), st.integers(0, 45), st.integers(-3, 3))
counts = st.integers(0, 1 << 45) | st.integers(0, 5000) | near_powers


@given(counts)
@examples(200)
def test_a_slab_holds_its_tile_and_wastes_an_eighth_at_most(n: int) -> None:
    slab = int(slab_bytes(n))
    assert n <= slab <= 1.125 * n + 64
    assert slab % 64 == 0
    assert int(slab_bytes(slab)) == slab


@given(counts, counts)
@examples(200)
def test_more_bytes_never_take_a_smaller_slab(a: int, b: int) -> None:
    assert int(slab_bytes(min(a, b))) <= int(slab_bytes(max(a, b)))


def test_arrays_give_what_numbers_give() -> None:
    sizes = np.concatenate([np.arange(3000), 1 << np.arange(40)])
    np.testing.assert_array_equal(slab_bytes(sizes), [int(slab_bytes(int(n))) for n in sizes])
    assert (np.diff(slab_bytes(np.arange(100_000))) >= 0).all()
