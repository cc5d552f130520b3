"""TaskGraph, budgets -> Program: buffers for tiles, and the proof that they fit."""

from infinitensor.memory.allocate import allocate
from infinitensor.memory.best_order import stream
from infinitensor.memory.residency import places

__all__ = ["allocate", "places", "stream"]
