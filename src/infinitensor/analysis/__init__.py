"""Graph -> Analysed: what is equal, what goes in place, what runs together, what depends on what."""

from infinitensor.analysis.analyse import analyse

__all__ = ["analyse"]
