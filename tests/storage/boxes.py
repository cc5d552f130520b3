"""Random arrays, boxes and memory for tests of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

if TYPE_CHECKING:
    from infinitensor.ir.region import Box

KINDS = ("?", "i1", "<i2", ">i4", "<i8", "u1", ">u2", "<f2", ">f4", "<f4", "<f8", ">c8", "<c16")


def slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(lo, hi) for lo, hi in box)


def whole(values: np.ndarray[Any, Any]) -> Box:
    return tuple((0, n) for n in values.shape)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Values of any order of bytes and axes, up to a few thousand."""
    shape = tuple(draw(st.lists(st.integers(0, 13), max_size=4)))
    kind = np.dtype(draw(st.sampled_from(KINDS)))
    seed = draw(st.integers(0, 2**32 - 1))
    n = int(np.prod(shape))
    values = np.random.default_rng(seed).integers(0, 2, n * kind.itemsize, dtype=np.uint8)
    made = values.view(kind).reshape(shape)
    return np.asarray(made, order=draw(st.sampled_from("CF")))


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> Box:
    """Any box of an array, empty ones too."""
    ends = [sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in shape]
    return tuple((lo, hi) for lo, hi in ends)


@st.composite
def memory(draw: st.DrawFn, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Memory of this shape with any strides, negative ones too."""
    steps = [draw(st.sampled_from((1, 1, 2, -1))) for _ in shape]
    held = np.zeros([n * abs(step) for n, step in zip(shape, steps, strict=True)], dtype)
    held = np.asarray(held, order=draw(st.sampled_from("CF")))
    index: Any = (..., *(slice(None, None, step) for step in steps))
    taken: np.ndarray[Any, Any] = held[index]
    return taken
