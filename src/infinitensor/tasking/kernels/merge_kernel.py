"""Partial results merged by generated code: the tree of `merge_tree` and what ends it, in one pass.

Its steps are those of an op's `combine` and `finish`, so that the bits are the same. A program
whose merges are calls that C makes needs no thread of Python's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from infinitensor.config import config
from infinitensor.ops.forms.reduction import COMBINES
from infinitensor.ops.table.numpy_kernels import half_of
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input, Unsupported
from infinitensor.tasking.kernels.c_calls import Mapped, Parted
from infinitensor.tasking.kernels.c_kernel import compiled_kernel
from infinitensor.tasking.kernels.work_left import left_of_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from infinitensor.ir.graph import Node
    from infinitensor.ir.mesh import Target
    from infinitensor.tasking.kernels.c_kernel import Compiled

Dtype: TypeAlias = "np.dtype[Any]"
Source: TypeAlias = "tuple[str, int]"
"""Where a value is from: an operand, or a step."""
Parts: TypeAlias = "tuple[Source, ...]"

DOUBLE, INT64 = np.dtype(np.float64), np.dtype(np.int64)
MERGE_WORK = 1 << 16
"""The cost of a merge from Python, as elements of a kernel: threads of Python's wait for it."""
ENDS = ("mean", "var", "std")
"""Ops whose result is not what is merged, but what a last step makes of it."""


def merge_in_c(
    node: Node, n_members: Sequence[int], is_last: bool, target: Target
) -> Parted | None:
    """The calls of tasks that merge so many partial results of a node each, and end them if nothing
    is left to merge; None where C does not do what NumPy does."""
    op, call = node.op, node.call
    if config.compile == "never" or target.kind != "cpu" or not target.compiles or call.tail:
        return None
    if op.combine is None or op.combine.name not in (*COMBINES, "moments"):
        return None
    ends = is_last and op.kind == "reduction" and op.finish is not None
    if ends and op.name not in ENDS:
        return None
    parts, outs = call.parts, tuple(spec.dtype for spec in call.outs)
    params = dict(call.params) if ends else {}
    end = (op.name, params.get("n", params.get("ddof"))) if ends else ("", 0)
    given, made = parts or outs, outs if is_last else parts or outs
    try:
        kernels = {n: _kernel(op.combine.name, end, n, given, made) for n in set(n_members)}
    except Unsupported:
        return None
    sources = tuple(sorted(kernel.source for kernel in kernels.values()))
    left = None if config.compile == "always" else left_of_all(sources)
    mapped = Mapped(kernels[max(n_members)], left, counts=MERGE_WORK)

    def calls_of(i: int, arrays: list[np.ndarray]) -> Iterator[tuple[Compiled, list[Any], Any]]:
        shape = arrays[0].shape
        *before, out = (x.reshape(shape) for x in arrays)  # results may have axes of one element
        if out.size:
            yield kernels[n_members[i]], before, out

    return Parted(mapped, calls_of, lambda i: [*given * n_members[i], *made])


@lru_cache(maxsize=256)
def _kernel(
    name: str, end: tuple[str, Any], n: int, given: tuple[Dtype, ...], made: tuple[Dtype, ...]
) -> Compiled:
    """The kernel that merges n partial results of some dtypes, and stores them in others."""
    if any(dtype.kind == "c" for dtype in (*given, *made)):
        raise Unsupported("merges of complex numbers")
    steps = _Steps()
    pieces = [tuple(("in", k + part) for part in range(len(given))) for k in _starts(given, n)]

    def merge(a: Parts, b: Parts) -> Parts:
        if name == "moments":
            return steps.join(a, b, given[2])
        return (steps.add(COMBINES[name], (given[0],) * 2, (*a, *b), given[0]),)

    merged = _tree(pieces, merge)
    if end[0] == "mean":
        merged = (steps.add("divide", given, merged, given[0], end[1]),)
    elif end[0]:
        merged = (steps.variance(merged, given[2], end[1], end[0] == "std"),)
    dtypes = given if len(merged) == len(given) else given[-1:]
    for k, (source, dtype) in enumerate(zip(merged, dtypes, strict=True)):
        steps.store(source, dtype, made[k], k)
    inputs = tuple(Input(dtype, False, False) for dtype in given * n)
    return compiled_kernel(tuple(steps.found), inputs, len(made))


def _starts(given: Sequence[Dtype], n: int) -> range:
    return range(0, len(given) * n, len(given))


def _tree(pieces: Sequence[Parts], merge: Callable[[Parts, Parts], Parts]) -> Parts:
    """As `merge_tree`."""
    if len(pieces) == 1:
        return pieces[0]
    half = half_of(len(pieces))
    return merge(_tree(pieces[:half], merge), _tree(pieces[half:], merge))


class _Steps:
    """The steps of a merge, in order."""

    def __init__(self) -> None:
        self.found: list[GroupStep] = []

    def add(
        self, word: str, loop: Sequence[Dtype], sources: Parts, dtype: Dtype, *numbers: float
    ) -> Source:
        """One more step, whose result may have another dtype than it is computed in."""
        args = [Arg(k) for k in range(len(sources))]
        tree = Term(word, (*args, *numbers))
        self.found.append(GroupStep(tree, tuple(loop), sources, dtype, -1))
        return ("step", len(self.found) - 1)

    def store(self, source: Source, dtype: Dtype, made: Dtype, out: int) -> None:
        """Write a value to an output."""
        self.found.append(GroupStep(Term("cast", (Arg(0),)), (dtype,), (source,), made, out))

    def join(self, a: Parts, b: Parts, dtype: Dtype) -> Parts:
        """Chan's rule, as `moments.py` has it: counts, means and squared distances from them."""
        two = (dtype, dtype)
        n = self.add("add", (INT64, INT64), (a[0], b[0]), INT64)
        share = self.add("divide", (DOUBLE, DOUBLE), (b[0], n), dtype)
        weight = self.add("multiply", two, (share, a[0]), dtype)
        delta = self.add("subtract", two, (b[1], a[1]), dtype)
        squared = self.add("multiply", two, (delta, delta), dtype)
        moved = self.add("multiply", two, (delta, share), dtype)
        mean = self.add("add", two, (a[1], moved), dtype)
        both = self.add("add", two, (a[2], b[2]), dtype)
        apart = self.add("multiply", two, (squared, weight), dtype)
        return n, mean, self.add("add", two, (both, apart), dtype)

    def variance(self, merged: Parts, dtype: Dtype, ddof: float, is_root: bool) -> Source:
        """The end of `var` and `std`."""
        degrees = self.add("subtract", (DOUBLE,), merged[:1], DOUBLE, ddof)
        degrees = self.add("maximum", (DOUBLE,), (degrees,), dtype, 0.0)
        made = self.add("divide", (dtype, dtype), (merged[2], degrees), dtype)
        return self.add("sqrt", (dtype,), (made,), dtype) if is_root else made
