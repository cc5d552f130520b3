"""From a table entry to callables on tiles: `run(ins, outs, at)`, the same for every kind of op.

On a CPU tiles are NumPy arrays and `xp` is numpy; on CUDA they are torch tensors and `xp` is torch.
"""

from __future__ import annotations

from inspect import isgeneratorfunction
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.config import config
from infinitensor.dtypes import HALVES, to_torch
from infinitensor.events import between_steps, lane
from infinitensor.ir.mesh import Target
from infinitensor.lazy_torch import torch
from infinitensor.ops.table.scalar import Arg, Term, evaluate, n_inner
from infinitensor.ops.table.words import EAGER, OF_HALVES, WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from infinitensor.ir.graph import Node
    from infinitensor.ir.op import At, Call, Op, Spec

    Run = Callable[[Sequence[Any], Sequence[Any], At | None], None]

CPU = Target("cpu")


def namespace(device_kind: str) -> Any:
    """The array module that kernels on this kind of device get as `xp`."""
    if device_kind == "cpu":
        return np
    import torch

    return torch


def lower(op: Op, call: Call, device_kind: str) -> Run:
    """The kernel of an op that writes its outputs directly."""
    if op.kind == "elementwise":
        return _lower_elementwise(op, call, device_kind)
    xp = namespace(device_kind)
    kernel = op.kernel_for(device_kind)
    if isgeneratorfunction(kernel):
        kernel = stepwise(kernel)
    params = dict(call.params)
    single = len(call.outs) == 1
    located = op.located or op.kind in ("creation", "gather")

    def run(ins: Sequence[Any], outs: Sequence[Any], at: At | None) -> None:
        out = outs[0] if single else tuple(outs)
        if located:
            kernel(xp, *ins, out=out, at=at, **params)
        else:
            kernel(xp, *ins, out=out, **params)

    return run


_scalars: dict[Any, Any] = {}


def device_scalar(value: Any, dtype: Any, device: Any) -> Any:
    """A scalar as a 0-d tensor on a device. Equal ones are made once, and without waiting for the
    device: by a fill on the stream that will read it, not by a copy."""
    plain = value.item() if hasattr(value, "item") else value
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    key = (type(plain), plain, str(plain), dtype, device, stream)  # -0.0 == 0.0, but not as text
    found = _scalars.get(key)
    if found is None:
        if isinstance(plain, int) and not -(2**63) <= plain < 2**63:
            found = torch.from_numpy(np.array(value)).to(device, dtype)
        else:
            found = torch.full((), plain, dtype=dtype, device=device)
        if lane.read is None:  # what is recorded has its value only once it is started
            if len(_scalars) > 1024:
                _scalars.clear()
            _scalars[key] = found
    if lane.read is not None:
        lane.read.append(found)
    return found


def stepwise(kernel: Callable[..., Generator[None, None, Any]]) -> Callable[..., Any]:
    """A loop op: the kernel yields between its steps, and may be left there."""

    def run(*args: Any, **kwargs: Any) -> Any:
        steps = kernel(*args, **kwargs)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            between_steps()

    return run


def _lower_elementwise(op: Op, call: Call, device_kind: str) -> Run:
    words = EAGER[device_kind]
    tree = op.expression
    assert isinstance(tree, Term)
    if device_kind != "cpu":
        loop = tuple(to_torch(dtype) for dtype in call.loop)

        word = words[tree.word] if _is_plain(tree) else None

        def run_torch(ins: Sequence[Any], outs: Sequence[Any], at: At | None) -> None:
            (out,) = outs
            args = [
                (x if x.dtype is dtype else x.to(dtype))
                if isinstance(x, torch.Tensor)
                else device_scalar(x, dtype, out.device)
                for x, dtype in zip(ins, loop, strict=True)
            ]
            if word is None:
                evaluate(tree, words, tuple(args), out)
            else:
                word(*args, out=out)

        return run_torch
    if any(dtype in HALVES for dtype in call.loop):
        words = OF_HALVES
    if _is_plain(tree):
        word = words[tree.word]

        def run_word(ins: Sequence[Any], outs: Sequence[Any], at: At | None) -> None:
            word(*ins, out=outs[0])

        return run_word

    def run_tree(ins: Sequence[Any], outs: Sequence[Any], at: At | None) -> None:
        args = [np.asarray(x).astype(d, copy=False) for x, d in zip(ins, call.loop, strict=True)]
        evaluate(tree, words, tuple(args), outs[0])

    return run_tree


def _is_plain(tree: Term) -> bool:
    """Whether it is one word of the operands as they come."""
    return tree.args == tuple(Arg(i) for i in range(len(tree.args)))


def lower_partial(
    op: Op, call: Call, device_kind: str, leaves: tuple[tuple[int, int], ...] = ()
) -> Callable[..., tuple[Any, ...]]:
    """The first half of a reduction: tiles to partial results, contracted axes gone.

    `run(ins, at)`; of pairs also `run(ins, at, before)`, which goes on from a result so far.

    `leaves` gives (axis, leaf length), outermost first. A tile is reduced leaf by leaf and leaves
    are merged in a tree by index, the innermost axis first, so that the result does not depend on
    how many leaves a tile holds. Empty: association changes nothing.
    """
    xp = namespace(device_kind)
    kernel = op.kernel_for(device_kind)
    params = dict(call.params)
    labels = call.form.inputs[0]
    contracted = call.form.contracted
    axes = tuple(axis for axis, label in enumerate(labels) if label in contracted)

    def run(
        ins: Sequence[Any], at: At | None, before: tuple[Any, ...] | None = None
    ) -> tuple[Any, ...]:
        located: dict[str, Any] = {"at": at} if op.located else {}
        if before is not None:
            located["before"] = before
        if not leaves:
            return tuple(kernel(xp, *ins, axes=axes, **located, **params))
        return by_leaf(ins[0], 0)

    def by_leaf(tile: Any, depth: int) -> tuple[Any, ...]:
        if depth == len(leaves):
            return tuple(kernel(xp, tile, axes=axes, **params))
        axis, leaf = leaves[depth]
        n = tile.shape[axis]
        if n <= leaf:
            return by_leaf(tile, depth + 1)
        before = (slice(None),) * axis
        pieces = [
            by_leaf(tile[(*before, slice(at, min(at + leaf, n)))], depth + 1)
            for at in range(0, n, leaf)
        ]
        return merge_tree(op, xp, pieces)

    return run


def merge_tree(op: Op, xp: Any, parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Neighbours merged pairwise until one is left: the order is fixed by the index.

    What comes first is merged first, as far as it goes: little is held at a time.
    """
    assert op.combine is not None
    n = len(parts)
    if n == 1:
        return parts[0]
    half = half_of(n)
    return op.combine.merge(xp, merge_tree(op, xp, parts[:half]), merge_tree(op, xp, parts[half:]))


def half_of(n: int) -> int:
    """How many of n neighbours are on the left of the last merge: a power of two.

    >>> [half_of(n) for n in (2, 3, 5, 8, 9)]
    [1, 2, 4, 4, 8]
    """
    return 1 << (n - 1).bit_length() - 1


def add_tree(parts: Sequence[np.ndarray], out: np.ndarray) -> None:
    """`merge_tree` of arrays that are added, into one that is there."""
    n = len(parts)
    if n == 1:
        out[...] = parts[0]
        return
    half = half_of(n)
    left, right = parts[0], parts[half]
    if half > 1:
        left = out
        add_tree(parts[:half], left)
    if n - half > 1:
        right = np.empty_like(out)
        add_tree(parts[half:], right)
    np.add(left, right, out=out)


def combine_scratch(n_members: int, part_bytes: int) -> int:
    """Bytes that `merge_tree` may allocate for at most 8 tuples of partial results: two of them are
    merged into one; of more there is one for each level, and what two of the last become."""
    return (2 if n_members <= 2 else 4) * part_bytes


def added_scratch(n_members: int, part_bytes: int) -> int:
    """Bytes that `add_tree` allocates: the right half of all levels but the lowest.

    >>> [added_scratch(n, 1) for n in (1, 2, 3, 4, 5, 8)]
    [0, 0, 1, 1, 2, 2]
    """
    return max((n_members - 1).bit_length() - 1, 0) * part_bytes


def lower_finish(
    op: Op, call: Call, device_kind: str
) -> Callable[[Sequence[Any], Sequence[Any]], None]:
    """The second half of a reduction: merged partial results into the outputs.

    Partial results have the kept labels' axes (then `tail`); outputs may have size-1 axes besides.
    """
    xp = namespace(device_kind)
    params = dict(call.params)
    finish = op.finish
    single = len(call.outs) == 1

    def run(parts: Sequence[Any], outs: Sequence[Any]) -> None:
        if finish is None:
            for part, out in zip(parts, outs, strict=True):
                out[...] = part.reshape(out.shape)
            return
        n_tail = len(call.tail)
        kept = tuple(parts[0].shape)
        targets = tuple(
            out.reshape(kept) if n_tail or len(out.shape) != len(kept) else out for out in outs
        )
        finish(xp, *parts, out=targets[0] if single else targets, **params)

    return run


def is_one_call(op: Op, call: Call, ins: Sequence[Spec], outs: Sequence[Spec]) -> bool:
    """Whether a GPU runs an elementwise op by one torch function, straight into its output."""
    tree, dtype = op.expression, outs[0].dtype
    return (
        isinstance(tree, Term)
        and WORDS[tree.word].one_call
        and all(isinstance(arg, Arg) for arg in tree.args)
        and dtype in (np.float32, np.float64)
        and all(loop == dtype for loop in call.loop)
        and all(spec.dtype == dtype or spec.n_elements == 1 for spec in ins)
    )


def scratch_rule(op: Op, target: Target) -> Callable[..., int]:
    """Bytes that an op declares its kernels for a target to allocate."""
    is_compiled = target.compiles and (target.kind == "cuda" or config.compile != "never")
    without = "torch" if target.kind == "cuda" else "numpy"
    if not is_compiled and without in op.scratches:
        return op.scratches[without]
    return op.scratches.get(target.kind, op.scratch_bytes)


def scratch_bytes(
    op: Op, call: Call, ins: Sequence[Spec], outs: Sequence[Spec], target: Target = CPU
) -> int:
    """Bytes that one task of this op may allocate besides its tiles, from the shapes of the
    tiles."""
    declared = scratch_rule(op, target)(ins, outs, dict(call.params))
    if op.kind == "elementwise":
        widest = max((spec.dtype.itemsize for spec in (*ins, *outs)), default=8)
        n_arrays = n_inner(op.expression)
        if n_arrays:  # operands are cast to the loop's dtypes first
            n_arrays += len(ins)
        if target.kind != "cpu" and not is_one_call(op, call, ins, outs):
            n_arrays += len(ins) + 4  # operands are cast first; words are several torch calls
        declared += n_arrays * prod(outs[0].shape) * max(widest, 8)
    return declared


def task_scratch(node: Node, ins: Sequence[Spec], outs: Sequence[Spec], target: Target) -> int:
    """Bytes that one task of a node may allocate besides its tiles: less where these need no
    copy."""
    op = node.op
    plain = op.plain_scratch if scratch_rule(op, target) is op.scratch_bytes else None
    if plain and all(o.access is None or o.access.keeps_lines for o in node.operands):
        return plain(ins, outs, dict(node.call.params))
    return scratch_bytes(op, node.call, ins, outs, target)
