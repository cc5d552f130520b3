"""Where devices are: `local` is this process."""

from infinitensor.engines.local import Engine, LocalEngine, open_engine
from infinitensor.engines.tiers import Room

__all__ = ["Engine", "LocalEngine", "Room", "open_engine"]
