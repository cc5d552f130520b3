"""Where devices are: `engine` says what is asked of them, `local` is this process."""

from infinitensor.engines.engine import Engine, Kernels, Run, open_engine
from infinitensor.engines.local import LocalEngine
from infinitensor.engines.tiers import Room

__all__ = ["Engine", "Kernels", "LocalEngine", "Room", "Run", "open_engine"]
