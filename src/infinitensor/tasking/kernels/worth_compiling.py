"""Whether generated code of a group is worth compiling, and has the bits of its steps."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from infinitensor.config import config
from infinitensor.dtypes import HALVES
from infinitensor.ir.op import n_points
from infinitensor.ops.forms.fold_order import has_short_rows, is_short
from infinitensor.ops.table.words import WORDS
from infinitensor.ops.table.work import calls_blocks, work_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from infinitensor.ir.graph import Node
    from infinitensor.ir.mesh import Target, Tools
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.tasking.c.group_step import Step

COMPILED_ELEMENTS = 1 << 23
"""Elements times work of their steps from which a group is worth a tenth of a second of compiling.
"""
HALF_WORK = 8
"""By how much more steps of halves count: each makes floats of what it reads and halves of what it
makes, in our loops (`with_half_loops`) or, where these are not built, in NumPy's, one by one."""
SHORT_WORK = 2
"""By how much an element takes longer where a reduction begins anew for a few of them."""
DIVISIONS = ("floor_divide", "remainder")
CONSTANTS = ("zeros", "ones", "empty")
"""Creations that are one number everywhere, which they are made with."""


def is_worth_compiling(plan: GroupPlan, work: int, n_alike: int = 0) -> bool:
    """Whether a group is compiled: by its work (an element's is given), so that equal programs are
    compiled alike."""
    if config.compile != "auto":
        return config.compile == "always"
    n_elements = max(prod(plan.space.sizes), n_alike)
    last = plan.space.last
    times = SHORT_WORK if last.op.kind == "reduction" and has_short_rows(last.shapes[0]) else 1
    return n_elements * max(work, 1) * times >= COMPILED_ELEMENTS


def work_by_steps(nodes: Iterable[Node]) -> int:
    """The cost of nodes for each element while they run step by step."""
    return sum(work_of(node) * (HALF_WORK if _has_halves(node) else 1) for node in nodes)


def _has_halves(node: Node) -> bool:
    return any(x in HALVES for x in (*node.call.loop, *(spec.dtype for spec in node.call.outs)))


def may_become_worth(steps: list[Step], last: Node, target: Target) -> bool:
    """Whether a group of little work is compiled once it has run often.

    Only where generated code computes the same bits: results must not depend on how often a
    program has run.
    """
    if config.compile != "auto":
        return False
    if target.kind == "cpu":  # reductions have one order there (`fold_order.py`)
        is_several = len(steps) > 1 or (bool(steps) and last.op.kind == "reduction")
        is_slow = is_several or any(
            _goes_one_by_one(step.node) or reads_across(step.node) for step in steps
        )
        return is_slow and all(is_exact(step, target.tools) for step in steps)
    if last.op.kind == "reduction" and not _is_same_in_any_order(last):
        return False
    return bool(steps) and all(_is_as_torch(step.node) for step in steps)


def is_slow_alone(node: Node, plan: GroupPlan, target: Target, n_alike: int) -> bool:
    """Whether generated code of the same bits is faster than NumPy's function on CPUs, for how
    operands are: halves, broadcast along short rows, or with their own rows across.

    NumPy begins anew for each short row, and for each element of a line across many. Its own loops
    take halves one by one, and integers that they divide.
    """
    if target.kind != "cpu" or not target.compiles:
        return False
    if _goes_one_by_one(node):
        return _is_exact_node(node, target.tools)
    shape = node.call.outs[0].shape
    is_spread = is_short(shape, ()) and any(
        operand.value >= 0 and seen != shape
        for operand, seen in zip(node.operands, node.shapes, strict=False)
    )
    if not reads_across(node) and not (is_spread and is_worth_compiling(plan, 1, n_alike)):
        return False
    return _is_exact_node(node, target.tools)


def _goes_one_by_one(node: Node) -> bool:
    """Whether NumPy's own loops take one element after another, where C takes several at a time:
    halves, quotients and remainders of integers."""
    loop = node.call.loop
    divides = node.op.kind == "elementwise" and node.op.expression.word in DIVISIONS
    return any(dtype in HALVES or (divides and dtype.kind in "iu") for dtype in loop)


def reads_across(node: Node) -> bool:
    """Whether neighbours in memory are in different rows of an operand, as of a transposed one."""
    return any(x.access is not None and x.access.is_across for x in node.operands)


def has_same_bits(nodes: Sequence[Node], target: Target) -> bool:
    """Whether generated code of these nodes has the bits of their steps, on a CPU: elementwise
    ones, and reductions, which have one order (`fold_order.py`)."""
    if config.compile != "auto":
        return False
    return all(
        node.op.kind == "reduction"
        or node.op.name in CONSTANTS
        or _is_exact_node(node, target.tools)
        for node in nodes
    )


def is_exact(step: Step, tools: Tools) -> bool:
    """Whether generated code of a step has its bits, on a CPU."""
    return step.node.op.name in CONSTANTS or _is_exact_node(step.node, tools)


def _is_exact_node(node: Node, tools: Tools) -> bool:
    """Whether generated code has the bits of a step: NumPy's, or those of the same function."""
    op = node.op
    if op.kind != "elementwise":
        return False
    words = [WORDS[word] for word in op.expression.words()]
    is_complex = any(dtype.kind == "c" for dtype in node.call.loop)
    if not all(word.exact and (word.exact_complex or not is_complex) for word in words):
        return False
    if tools.has_functions and tools.has_compiler:
        return True
    return not is_complex and not calls_blocks(op, "f")


def have_bits_of_steps(nodes: Sequence[Node]) -> bool:
    """Whether steps have the bits of whatever is planned for these nodes on a GPU, if all of it is
    in one piece: generated code of each is steps' too, or all of them together are less work than
    it is worth.
    """
    written = any(node.region is not None for node in nodes)  # code that writes is always generated
    mapped = [node for node in nodes if node.op.kind == "elementwise"]
    rounded = [n for n in nodes if n.op.kind == "reduction" and not _is_same_in_any_order(n)]
    # groups that are alike count together, each with all that it reads and that reads it
    if rounded:
        n_reduced = sum(n_points(node.op, node.call) for node in rounded)
        if not _is_little(n_reduced * _most_work(nodes)):
            return False
    if all(_is_as_torch(node) or _is_complex(node) for node in mapped):
        return True
    work = sum(node.call.outs[0].n_elements * work_of(node) for node in mapped)
    return not written and _is_little(work)


def _most_work(nodes: Sequence[Node]) -> int:
    """The most work that nodes do together for each element which read of each other, step by step
    or by reductions."""
    family_of: dict[int, list[Node]] = {}
    families: dict[int, list[Node]] = {}
    for node in nodes:
        if node.op.kind not in ("elementwise", "reduction"):
            continue
        joined = [node]
        for operand in node.operands:
            other = family_of.get(operand.value, joined)
            if other is joined:
                continue
            few, joined = sorted((other, joined), key=len)
            joined += few
            families.pop(id(few), None)
            family_of.update((value, joined) for member in few for value in member.outs)
        family_of.update((value, joined) for value in node.outs)
        families[id(joined)] = joined
    return max((sum(map(work_of, family)) for family in families.values()), default=0)


def _is_little(work: int) -> bool:
    """Whether no group of so much work in all is compiled before it is repeated."""
    return work * SHORT_WORK < COMPILED_ELEMENTS


def _is_complex(node: Node) -> bool:
    """Whether Triton has no code for it."""
    return any(dtype.kind == "c" for dtype in node.call.loop)


def _is_same_in_any_order(node: Node) -> bool:
    """Whether a reduction has the same bits however it is cut: on a GPU generated code cuts it
    another way than steps do. (Of a zero and its negative a library may find either the largest.)
    """
    return node.call.outs[0].dtype.kind in "biu"


def _is_as_torch(node: Node) -> bool:
    """Whether Triton computes what torch does on a GPU, bit for bit."""
    op = node.op
    if op.name in CONSTANTS:
        return True
    if op.kind != "elementwise" or _is_complex(node):
        return False
    return all(WORDS[word].as_torch for word in op.expression.words())
