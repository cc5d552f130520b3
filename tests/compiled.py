"""Generated Triton is compiled for a GPU of compute capability 9.0, where Triton is installed: no
GPU is needed for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infinitensor.compiler_process import CompilerProcess
from infinitensor.jit import Launch, has_triton, options

if TYPE_CHECKING:
    from collections.abc import Sequence

needs_triton = pytest.mark.skipif(not has_triton(), reason="Triton is not installed")
CAPABILITY = 90


def compiles(launch: Launch, arrays: Sequence[Any], scalars: Sequence[float] = ()) -> bool:
    """Whether a launch over arrays of these dtypes compiles."""
    process = CompilerProcess()
    asked: dict[str, Any] = {
        "source": launch.source,
        "capability": CAPABILITY,
        "arrays": [(str(dtype), 0) for dtype in arrays],
        "numbers": [*scalars, *launch.numbers],
        "how": {**launch.constants, **options(), **launch.how},
    }
    try:
        return process.compile(asked)
    finally:
        process.close()
