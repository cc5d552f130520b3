"""Graph -> Analysed: what is equal, goes in place, runs together, and depends on what."""

from infinitensor.analysis.analyse import analyse

__all__ = ["analyse"]
