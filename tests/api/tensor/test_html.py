"""A tensor in a notebook: its text, and a rectangle a tile in the colour of its device."""

from __future__ import annotations

import re

import numpy as np
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.tensor.html import draw


def test_rectangles_are_the_tiles_and_fill_the_picture() -> None:
    with strict("cpu*3"):
        x = it.asarray(np.arange(60.0).reshape(6, 10)) + 1
        x.numpy()
        layout = x.layout
        assert layout is not None
        drawn = draw(x, "values")
        sizes = re.findall(r'width="([\d.]+)" height="([\d.]+)" fill', drawn)
        assert len(sizes) == layout.n_tiles
        assert abs(sum(float(w) * float(h) for w, h in sizes) - 240 * 120) < 60
        owners = {layout.owner(i) for i in range(layout.n_tiles)}
        assert len(set(re.findall(r'fill="(#\w+)"', drawn))) == len(owners)


def test_the_head_has_shape_and_dtype_and_the_text_is_kept() -> None:
    with strict("cpu"):
        for x in (it.zeros((2, 3), dtype="i2"), it.zeros(()), it.zeros((0, 4))):
            drawn = draw(x, "the text")
            assert f"Tensor {x.shape} {x.dtype}" in drawn
            assert "<pre>the text</pre>" in drawn


def test_a_tensor_that_waits_is_not_computed_for_its_picture() -> None:
    with strict("cpu"):
        x = it.ones(50) * 3
        drawn = draw(x, "")
        assert x._version.is_waiting
        assert "waiting" in drawn
        assert "<svg" not in drawn
