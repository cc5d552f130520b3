"""Ops that have their operands in one piece: one with all cores, or several, each with one.

Such an op is one task. In a worker it would have that worker's core; the library that solves or
factors has all of them in the thread that asks, but gains little from the second where a matrix is
small. So matrices that wait for nothing of each other are taken two at a time.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from infinitensor.api.evaluate.waiting import waiting_nodes
from infinitensor.api.session.version import Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.api.session.version import Node

LARGE_MATRIX_ELEMENTS = 1 << 17
"""Elements of a matrix from which a second core gains on factoring it."""
HUGE_MATRIX_ELEMENTS = 1 << 20
"""Elements of a matrix from which it gains nearly all there is to gain."""
BESIDE_WHOLE_TIMES = 16
"""How much more than what is in one piece a program may be that runs in the caller's thread."""
TURNS = 2
"""Ops for each worker that wait, so that several run side by side."""


def runs_in_caller(nodes: Sequence[Node], n_elements: int) -> bool:
    """Whether most of the work is in ops of one piece that have to run one after the other.

    Or are so large that all cores are as good for one as each for its own.
    """
    pieces = [node for node in nodes if node.op.whole or _is_one_threaded(node)]
    n_whole = sum(prod(shape) for node in pieces for shape in node.shapes)
    if not pieces or not BESIDE_WHOLE_TIMES * n_whole >= n_elements > 0:
        return False
    if len(pieces) == 1 or max(prod(node.shapes[0]) for node in pieces) > HUGE_MATRIX_ELEMENTS:
        return True
    return 2 * _longest(nodes, pieces) > len(pieces)


def _is_one_threaded(node: Node) -> bool:
    """Whether a library factors one large matrix."""
    return (
        node.op.threaded
        and len(node.shapes[0]) == 2
        and prod(node.shapes[0]) > LARGE_MATRIX_ELEMENTS
    )


def _longest(nodes: Sequence[Node], pieces: Sequence[Node]) -> int:
    """How many of some calls wait for each other at most; nodes are in recorded order."""
    counted = {node.seq for node in pieces}
    depth: dict[int, int] = {}
    for node in nodes:
        before = [v.node.seq for v in node.inputs if type(v) is Version and v.node is not None]
        deepest = max((depth.get(seq, 0) for seq in before), default=0)
        depth[node.seq] = deepest + (node.seq in counted)
    return max(depth.values())


def waits_for_more(version: Version, n_workers: int) -> bool:
    """Whether what a version waits for has ops of one piece, and too few yet to be run at once.

    An evaluation for each of them would have one core for each.
    """
    if version.node is None or n_workers < 2:
        return False
    n = sum(node.op.whole for node in waiting_nodes([version]))
    return 0 < n < TURNS * n_workers
