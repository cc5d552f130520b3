"""The compilers of this machine: looked for when a session starts, a part of its mesh."""

from __future__ import annotations

from infinitensor.ir.mesh import Tools
from infinitensor.jit import has_numba, has_triton
from infinitensor.native import compiler
from infinitensor.ops.table.functions import has_functions


def find_tools() -> Tools:
    """The tools of this machine as they are now."""
    return Tools(compiler() is not None, has_numba(), has_triton(), has_functions())
