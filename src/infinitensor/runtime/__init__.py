"""Program -> tiles: event-driven, in windows of ready tasks, with a table of what lies where."""

from infinitensor.runtime.reads import tables_with_reads
from infinitensor.runtime.run import Run
from infinitensor.runtime.table import TileTable
from infinitensor.runtime.workers import Workers

__all__ = ["Run", "TileTable", "Workers", "tables_with_reads"]
