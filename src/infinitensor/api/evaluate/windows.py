"""Windows: the part of a stored tensor that an evaluation touches stands for the tensor.

`x[i]` in a loop names another row each time, but does the same with it. So what is planned, and
what a plan is found again by, is the hull of everything an evaluation reads and writes of a stored
tensor, with the borders of the tiles it touches; the hull's offset is bound when it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.ir.region import whole_box
from infinitensor.ir.view import Access

if TYPE_CHECKING:
    from infinitensor.api.session.version import Node
    from infinitensor.ir.region import Box

Reads = tuple[Any, ...]
"""The operands of a node: (value number, access), or -1 for a scalar."""


class Hulls:
    """The hull of reads of each leaf, while a program is numbered; a leaf read whole has none."""

    def __init__(self) -> None:
        self.hulls: dict[int, Box | None] = {}
        self.roots: dict[int, int] = {}
        """Versions made by plain writes -> the leaf they started from."""
        self.chains: dict[int, list[int]] = {}

    def leaf(self, number: int) -> None:
        """A leaf enters, touched nowhere so far."""
        self.hulls[number] = ()

    def node(self, node: Node, operands: Reads, outs: tuple[int, ...]) -> None:
        """A node touches what it reads and what it writes."""
        for k, operand in enumerate(operands):
            if operand == -1:
                continue
            number, access = operand
            root = self.roots.get(number, number)
            if self.hulls.get(root) is None:
                continue
            if k == 0 and node.region is not None:
                self.roots[outs[0]] = root
                self.chains.setdefault(root, []).append(outs[0])
                self._touch(root, node.region, node.shapes[1])
            elif access is None:
                self.hulls[root] = None
            else:
                self._touch(root, access, node.shapes[k])

    def _touch(self, root: int, access: Access, shape: tuple[int, ...]) -> None:
        if 0 in shape:
            return
        box = access.base_box(whole_box(shape))
        before = self.hulls[root]
        if before:
            box = tuple((min(p, r), max(q, s)) for (p, q), (r, s) in zip(before, box, strict=True))
        self.hulls[root] = box

    def windows(
        self, shapes: dict[int, tuple[int, ...]], used_up: set[int], kept: set[int]
    ) -> dict[int, Box]:
        """The leaves that a part stands for, with that part.

        A leaf that is written to must be this evaluation's own, and only its last version may be
        kept: then the rest of its tiles is the rest of that version.
        """
        found = {}
        for number, hull in self.hulls.items():
            if not hull or hull == whole_box(shapes[number]):
                continue
            chain = self.chains.get(number)
            if chain and (number not in used_up or kept.intersection(chain) != {chain[-1]}):
                continue
            found[number] = hull
        return found


def shift_access(access: Access, window: Box) -> Access:
    """An access to a base as an access to a window of it."""
    axes = tuple(
        None if axis is None else (axis[0], axis[1] - window[axis[0]][0], axis[2])
        for axis in access.axes
    )
    fixed = tuple(
        at if at < 0 else max(at - lo, 0) for at, (lo, _) in zip(access.fixed, window, strict=True)
    )
    return Access(axes, fixed, access.part)
