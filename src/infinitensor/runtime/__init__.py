"""Program -> tiles: event-driven, in windows of ready tasks, with a table of where tiles are."""

from infinitensor.runtime.native.called_again import CalledAgain
from infinitensor.runtime.native.workers import Workers
from infinitensor.runtime.replay.few_kernels import Few, few_of
from infinitensor.runtime.run.run import Run
from infinitensor.runtime.state.tile_table import TileTable

__all__ = ["CalledAgain", "Few", "Run", "TileTable", "Workers", "few_of"]
