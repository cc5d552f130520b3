"""Several groups as one family: each task runs them on one block of rows after another.

A block stays in cache (`block_kernel.py`), so that rows are read from memory once, and what is
between groups is never stored. Rows may have other lengths in other groups; at the end sums over
all of them may be left.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.ir.region import piece_boxes
from infinitensor.ops.table.numpy_kernels import lower, lower_finish
from infinitensor.tasking.c.fold_loops import is_result
from infinitensor.tasking.graph.batching import end_batch
from infinitensor.tasking.graph.fetch_tasks import bring_fetches
from infinitensor.tasking.graph.scratch import group_scratch
from infinitensor.tasking.groups.combine import combine, partial_tiles
from infinitensor.tasking.kernels.block_calls import BlockCalls
from infinitensor.tasking.kernels.block_kernel import Blocks, Buffer, Stage, scratch_bytes
from infinitensor.tasking.kernels.by_steps import reduce_kernel
from infinitensor.tasking.kernels.c_kernel import compiled_kernel
from infinitensor.tasking.kernels.choose_kernel import (
    Fused,
    first_choice,
    fused_kernel,
    group_inputs,
    in_time,
)
from infinitensor.tasking.kernels.fused_reduction import merge_pairwise
from infinitensor.tasking.kernels.thread_scratch import scratch
from infinitensor.tasking.kernels.work_left import left_of_all
from infinitensor.tasking.kernels.worth_compiling import work_by_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infinitensor.ir.graph import Group, Node
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.ir.region import Cuts
    from infinitensor.tasking.c.few_columns import RowKernel
    from infinitensor.tasking.graph.lowering import Lowering


class Member(NamedTuple):
    """A group of a family: its kernel is generated from its steps, or one over rows of few
    columns, with which it may end them all."""

    g: int
    group: Group
    plan: GroupPlan
    fused: Fused | None
    few: RowKernel | None = None
    ends: bool = False


class Due(NamedTuple):
    """When the kernels of a family are compiled: at once if that is `worth` it, else when steps
    have paid for it; and whether steps go on meanwhile, because they have the same bits."""

    worth: bool = True
    waits: bool = False


class Rows(NamedTuple):
    """Groups that become one family; `leaving` are the values that others read or keep, `cuts`
    those of the axes before the last."""

    members: list[Member]
    inside: frozenset[int]
    leaving: list[int]
    cuts: Cuts
    devices: np.ndarray
    due: Due = Due()


def generated_member(lowering: Lowering, g: int) -> Member | None:
    """A group whose steps, and the reduction of rows at their end, are one generated kernel."""
    group, plan = lowering.plan.analysed.groups[g], lowering.plan.groups[g]
    fused = fused_kernel(lowering.graph, group, plan, lowering.target, False, n_alike=1 << 62)
    if fused.in_c is None or not all(is_result(fold, plan.space.last) for fold in fused.folds):
        return None
    return Member(g, group, plan, fused)


def leaving_values(
    lowering: Lowering, several: Sequence[int], inside: frozenset[int]
) -> list[int] | None:
    """Of the values inside a family those that others read or keep; None where one of these comes
    before the last of the family."""
    own, leaving = set(several), set(inside & frozenset(lowering.graph.kept))
    for value in inside:
        read = [g for g in lowering.readers.get(value, ()) if g not in own]
        if read and read[0] < several[-1]:
            return None
        if read:
            leaving.add(value)
    return sorted(leaving)


class _Family:
    """The arrays and stages of a family: operands, then outputs, then what is added up over all
    rows, then buffers between stages."""

    def __init__(self, lowering: Lowering, rows: Rows) -> None:
        self.graph = lowering.graph
        self.rows = rows
        self.n_lead = len(rows.cuts)
        self.columns: list[Any] = []
        self.dtypes: list[np.dtype[Any]] = []
        """Of the columns."""
        self.transposed: set[int] = set()
        """Columns whose rows are the last axis."""
        self.upright: set[int] = set()
        """Columns that are vectors where a kernel has matrices."""
        reads = [self.add_columns(lowering, member) for member in rows.members]
        self.places = {v: len(self.columns) + k for k, v in enumerate(rows.leaving)}
        self.n_outs = len(self.columns) + len(rows.leaving)
        self.ends = [member for member in rows.members if member.ends]
        self.n_given = self.n_outs + len(self.ends)
        self.narrow = {at for v, at in self.places.items() if self.is_narrow(v)} | self.upright
        self.buffers: list[Buffer] = []
        self.stages: list[Stage] = []
        self.passes: dict[int, int] = {}
        """The stage that reduces an array, and nothing else, by its place."""
        for member, own in zip(rows.members, reads, strict=True):
            ins = tuple(self.places[k] if inside else k for inside, k in own)
            (self.add_stages if member.few is None else self.add_few)(member, ins)

    def is_narrow(self, value: int) -> bool:
        """Whether it is one value a row."""
        return self.graph.specs[value].shape[self.n_lead :] in ((), (1,))

    def add_columns(self, lowering: Lowering, member: Member) -> list[tuple[bool, int]]:
        """For each operand of a member: (True, value inside) or (False, its column)."""
        inside = self.rows.inside
        bring_fetches(lowering, member.g, member.plan.space.last, inside)
        columns = iter(lowering.columns(member.g, len(self.rows.devices), inside))
        found = []
        for n, i in group_inputs(self.graph, member.group):
            operand = self.graph.nodes[n].operands[i]
            if operand.value in inside:
                found.append((True, operand.value))
                continue
            self.dtypes.append(lowering.operand_dtype(operand))
            if member.few is not None and len(self.graph.nodes[n].shapes[i]) == 1:
                self.upright.add(len(self.columns))
            elif i == 0 and _is_added(member):
                self.transposed.add(len(self.columns))
            found.append((False, len(self.columns)))
            self.columns.append(next(columns))
        return found

    def place(self, value: int) -> int:
        """The place of a value: among the outputs, or in a buffer of its own."""
        if value not in self.places:
            spec = self.graph.specs[value]
            tail = () if self.is_narrow(value) else spec.shape[self.n_lead :]
            self.places[value] = self.add_buffer(spec.dtype, tail)
        return self.places[value]

    def add_buffer(self, dtype: np.dtype[Any], tail: tuple[int, ...]) -> int:
        self.buffers.append(Buffer(dtype, tail))
        at = self.n_given + len(self.buffers) - 1
        if not tail:
            self.narrow.add(at)
        return at

    def add_few(self, member: Member, ins: tuple[int, ...]) -> None:
        """The kernel of a product, or of a sum over all rows."""
        assert member.few is not None
        tail = (1,)  # a row and a column of each array are walked over
        if not member.ends:
            out = self.place(member.plan.space.outs[0][0])
            self.stages.append(Stage(member.few, ins, (out,), tail, rows_of=(1, 0, 1)))
            return
        out = self.n_outs + self.ends.index(member)
        if len(member.plan.space.last.shapes[-1]) == 1:  # x.T @ v, as v.T @ x
            ins = ins[::-1]
        rows_of = (1, 1, 0) if _is_added(member) else (1, member.plan.leaves[0][1])
        self.stages.append(Stage(member.few, ins, (out,), tail, rows_of=rows_of))

    def add_stages(self, member: Member, ins: tuple[int, ...]) -> None:
        """The kernel of a member."""
        assert member.fused is not None
        in_c, folds, last = member.fused.in_c, member.fused.folds, member.plan.space.last
        values = [value for value, _ in member.plan.space.outs]
        tail = (member.plan.space.sizes if folds else last.call.outs[0].shape)[self.n_lead :]
        if not folds:
            outs = tuple(self.place(value) for value in values)
            self.stages.append(Stage(in_c, ins, outs, tail))
            return
        (fold,) = folds
        outs = tuple(self.place(value) for value in values[:-1])
        parts = [self.add_buffer(dtype, ()) for dtype in fold.parts[:-1]]
        parts.append(self.place(values[-1]))
        before = self.passes.get(ins[0], -1) if len(member.group.nodes) == 1 else -1
        if before >= 0:  # rows are looked at once for all
            stage = self.stages[before]
            all_folds, short = (*stage.in_c.folds, fold), stage.in_c.short
            in_c = compiled_kernel((), stage.in_c.inputs, 0, all_folds, (-1,), short=short)
            self.stages[before] = stage._replace(in_c=in_c, outs=(*stage.outs, *parts))
            return
        if len(member.group.nodes) == 1:
            self.passes[ins[0]] = len(self.stages)
        self.stages.append(Stage(in_c, ins, (*outs, *parts), tail))

    def args(
        self, member: Member, made: dict[int, Any], given: Iterator[Any], lead: tuple[int, ...]
    ) -> list[Any]:
        """The inputs of a member: results of members before it, and inputs of the task."""
        found = []
        for n, k in group_inputs(self.graph, member.group):
            node = self.graph.nodes[n]
            value, seen = node.operands[k].value, node.shapes[k]
            if value not in self.rows.inside:
                found.append(next(given))
            elif k == 0 and _is_added(member) and len(seen) == 2:
                found.append(made[value].T)
            else:
                found.append(made[value].reshape(*lead, *seen[self.n_lead :]))
        return found

    def run(self, ends: list[_End]) -> tuple[Any, BlockCalls | None]:
        """The kernel: all stages block by block, with what they end with; group by group where the
        compiler fails, or until it is done. And the same as a call that C makes."""
        blocks = Blocks(self.stages, self.buffers, frozenset(self.narrow), scratch)
        boxes = piece_boxes(self.rows.cuts, tuple(range(self.n_lead)), ())
        leads = [tuple(box) for box in (boxes[:, :, 1] - boxes[:, :, 0]).tolist()]
        is_narrow = [k in self.narrow for k in range(len(self.columns), self.n_outs)]
        n_outs, transposed = len(is_narrow), sorted(self.transposed)

        def fast(ins: list[Any], outs: list[Any], i: int) -> None:
            arrays = list(ins)
            for k in transposed:
                arrays[k] = arrays[k].T
            arrays += [
                x if not narrow or x.ndim == len(leads[i]) else x[..., 0]
                for x, narrow in zip(outs, is_narrow, strict=False)
            ]
            sums = [end.zeros(leads[i][0]) for end in ends]
            blocks([*arrays, *sums], leads[i])
            for end, made, out in zip(ends, sums, outs[n_outs:], strict=True):
                end.put(made, out)

        def slow(ins: list[Any], outs: list[Any], i: int) -> None:
            made = dict(zip(self.rows.leaving, outs, strict=False))
            left = zip(ends, outs[n_outs:], strict=True)
            given = iter(ins)
            for member in self.rows.members:
                args = self.args(member, made, given, leads[i])
                if member.ends:
                    end, out = next(left)
                    end.alone(args, [out], i)
                    continue
                targets = []
                for value, _ in member.plan.space.outs:
                    spec = self.graph.specs[value]
                    shape = (*leads[i], *spec.shape[self.n_lead :])
                    targets.append(made.setdefault(value, np.empty(shape, spec.dtype)))
                is_cut_alike = len(member.plan.devices) == len(boxes)
                run = product_run(member) if member.fused is None else member.fused.by_steps
                run(args, targets, i if is_cut_alike else 0)

        run, left = first_choice(fast, slow, boxes), None
        if self.rows.due.waits:
            left = left_of_all(blocks.sources)
            run = in_time(run, slow, self.work_of_steps() // max(len(boxes), 1), left)
        if ends or transposed or self.upright:
            return run, None
        dtypes = [*self.dtypes, *(self.graph.specs[v].dtype for v in self.rows.leaving)]
        return run, BlockCalls(blocks, leads, dtypes, left)

    def work_of_steps(self) -> int:
        """Elements times the work of the steps of all members."""
        nodes = self.graph.nodes
        return sum(
            prod(m.plan.space.sizes) * work_by_steps(nodes[n] for n in m.group.nodes)
            for m in self.rows.members
        )

    def scratch_of_steps(self, lowering: Lowering) -> int:
        """Bytes that a task takes group by group: what is between them, and what one takes."""
        if not self.rows.due.waits:
            return 0
        n_rows = prod(max(b - a for a, b in pairwise(borders)) for borders in self.rows.cuts)
        specs = [self.graph.specs[v] for v in self.rows.inside.difference(self.rows.leaving)]
        between = n_rows * sum(prod(s.shape[self.n_lead :]) * s.dtype.itemsize for s in specs)
        own = [
            group_scratch(lowering, m.g, (), m.fused, m.plan)
            for m in self.rows.members
            if m.fused is not None
        ]
        return between + max(own)


def _is_added(member: Member) -> bool:
    """Whether it is a product that sums over all rows: its first operand is transposed."""
    return member.ends and member.plan.space.last.op.kind == "contraction"


def product_run(member: Member) -> Any:
    """The library's product."""
    node = member.plan.space.last
    product = lower(node.op, node.call, "cpu")
    return lambda ins, outs, i: product(ins, outs, None)


def sum_run(member: Member, is_cut: bool) -> Any:
    """NumPy's sum over rows."""
    reduce = reduce_kernel(member.plan.space.last, member.plan, "cpu", is_cut)
    return lambda ins, outs, i: reduce(ins[0], outs, i)


class _End:
    """A sum over the rows of a task: a product, or the sum of every leaf."""

    def __init__(self, member: Member, is_cut: bool) -> None:
        self.node: Node = member.plan.space.last
        self.leaf = 0 if _is_added(member) else member.plan.leaves[0][1]
        self.is_cut = is_cut
        call = self.node.call
        self.finish = None if not self.leaf else lower_finish(self.node.op, call, "cpu")
        self.shape = self.node.shapes[0][1:] if self.leaf else call.outs[0].shape
        self.dtype = call.parts[0] if self.leaf else call.outs[0].dtype
        self.alone = sum_run(member, is_cut) if self.leaf else product_run(member)
        """The same by itself."""

    def n_bytes(self, n_rows: int) -> int:
        """Bytes for so many rows, and as many again while leaves are merged."""
        n_leaves = -(-n_rows // self.leaf) if self.leaf else 1
        return 2 * n_leaves * prod(self.shape) * self.dtype.itemsize

    def zeros(self, n_rows: int) -> np.ndarray:
        """Zeros to add to."""
        n_leaves = (-(-n_rows // self.leaf),) if self.leaf else ()
        return np.zeros((*n_leaves, *self.shape), self.dtype)

    def put(self, made: np.ndarray, out: Any) -> None:
        """Write the sums into the output."""
        if self.finish is None:
            out[...] = made
            return
        parts = merge_pairwise(self.node, (made,))
        if self.is_cut:
            out[...] = parts[0]
        else:
            self.finish(parts, [out])


def lower_rows(lowering: Lowering, rows: Rows) -> None:
    """One family for several groups."""
    end_batch(lowering)
    made = _Family(lowering, rows)
    is_cut = any(len(borders) > 2 for borders in rows.cuts)
    pieces = np.arange(len(rows.devices))
    n_rows = prod(max(b - a for a, b in pairwise(borders)) for borders in rows.cuts)
    ends = [_End(member, is_cut) for member in made.ends]
    sets = [[lowering.new_tiles(value)] for value in rows.leaving]
    ended = [member.plan.space.outs[0][0] for member in made.ends]
    if is_cut:
        sets += [partial_tiles(lowering, member.plan) for member in made.ends]
    else:
        sets += [[lowering.new_tiles(value)] for value in ended]
    run, in_c = made.run(ends)
    in_blocks = scratch_bytes(made.buffers) + sum(end.n_bytes(n_rows) for end in ends)
    family = lowering.add_family(
        op=" and ".join(dict.fromkeys(m.plan.space.last.op.name for m in rows.members)),
        site=rows.members[-1].plan.space.last.site,
        devices=rows.devices,
        run=run,
        in_c=in_c,
        reads=tuple(made.columns),
        writes=tuple((tiles.first + pieces).astype(np.int32) for (tiles,) in sets),
        scratch_bytes=max(in_blocks, made.scratch_of_steps(lowering)),
        seconds=sum(lowering.seconds(member.plan) for member in rows.members),
        values=(*rows.leaving, *([] if is_cut else ended)),
        n_groups=len(rows.members),
        sources=tuple(stage.in_c.source for stage in made.stages if rows.due.worth),
    )
    lowering.edges.of_columns(family)
    if is_cut:
        for member, value, parts in zip(made.ends, ended, sets[len(rows.leaving) :], strict=True):
            combine(lowering, member.plan, parts, [lowering.new_tiles(value)])
