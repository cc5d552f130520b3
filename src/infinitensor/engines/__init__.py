"""Where devices are: `engine` says what is asked of them, `local` is this process."""

from infinitensor.engines.engine import Engine
from infinitensor.engines.local import LocalEngine, open_engine
from infinitensor.engines.tiers import Room

__all__ = ["Engine", "LocalEngine", "Room", "open_engine"]
