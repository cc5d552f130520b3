"""The nodes of a group, as kernels of every kind run them one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infinitensor.ir.graph import Node


class Step:
    """One node of a group: where its operands come from and where its result goes."""

    __slots__ = ("dtype", "located", "node", "out", "register", "run", "sources")

    def __init__(self, run: Any, sources: list[tuple[str, int]], node: Node) -> None:
        self.run = run
        self.sources = sources
        self.node = node
        self.dtype = node.call.outs[0].dtype
        self.out = -1
        self.register = -1
        self.located = False
