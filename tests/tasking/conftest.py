"""What tests of generated code share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fake_gpu import fake_gpu
from tests.triton_in_numpy import triton_in_numpy

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def always() -> Iterator[None]:
    """Everything is compiled, whatever its size."""
    before = it.config.compile, it.config.small_elements
    it.config.compile, it.config.small_elements = "always", 0
    yield
    it.config.compile, it.config.small_elements = before


@pytest.fixture(params=["in NumPy", pytest.param("on a GPU", marks=pytest.mark.gpu)])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """Generated kernels run on a GPU, and in NumPy where there is none."""
    if request.param == "on a GPU":
        yield
        return
    with fake_gpu(plans_triton=True), triton_in_numpy():
        yield
