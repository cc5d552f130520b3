"""Program -> tiles: event-driven, in windows of ready tasks, with a table of what lies where."""

from infinitensor.runtime.few import Few, few_of
from infinitensor.runtime.reads import tables_with_reads
from infinitensor.runtime.run import Run
from infinitensor.runtime.table import TileTable
from infinitensor.runtime.workers import Workers

__all__ = ["Few", "Run", "TileTable", "Workers", "few_of", "tables_with_reads"]
