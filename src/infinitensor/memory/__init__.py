"""TaskGraph, budgets -> Program: buffers for tiles, and the proof that they fit."""

from infinitensor.memory.allocate import allocate
from infinitensor.memory.stay import places
from infinitensor.memory.stream import stream

__all__ = ["allocate", "places", "stream"]
