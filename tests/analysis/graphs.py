"""Graphs of small programs as they were recorded, before any pass has seen them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import infinitensor as it
from infinitensor.api.evaluate.bound_program import Bound

if TYPE_CHECKING:
    from infinitensor.ir.graph import Graph


def recorded_graph(session: it.Session, *tensors: Any) -> Graph:
    """The graph of waiting tensors, all of which are kept."""
    with session.guard():
        session.drain()
        return Bound(session, [tensor._version for tensor in tensors]).detail().graph()


def names(graph: Graph) -> list[str]:
    """The ops of a graph, in order."""
    return [node.op.name for node in graph.nodes]


def leaf(*shape: int) -> Any:
    """A tensor that exists."""
    return it.asarray(np.arange(float(np.prod(shape))).reshape(shape))
