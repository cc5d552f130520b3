"""TaskGraph, budgets -> Program: buffers for tiles, and the proof that they fit."""

from infinitensor.memory.allocate import allocate

__all__ = ["allocate"]
