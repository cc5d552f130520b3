"""Plan -> Moves: from the layout a tensor is made in to the regions each task reads."""

from infinitensor.redistribute.route import route

__all__ = ["route"]
