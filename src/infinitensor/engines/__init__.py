"""Where devices are: `local` is this process."""

from infinitensor.engines.local import Engine, LocalEngine, open_engine

__all__ = ["Engine", "LocalEngine", "open_engine"]
