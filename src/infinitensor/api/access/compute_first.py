"""Tensors that wait, computed before a small part of them is written, or read again and again.

Once they are in the one memory that NumPy can reach, each such call costs what NumPy's does, and no
plan.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from infinitensor.api.access import masked_items
from infinitensor.api.eager import numpy_loops
from infinitensor.api.eager.moved import move
from infinitensor.api.eager.whole_array import small_kernel
from infinitensor.api.evaluate.evaluate import compute_if_read_often, evaluate
from infinitensor.api.record.late import is_tensor
from infinitensor.api.session.version import Version
from infinitensor.config import config
from infinitensor.ir.op import Spec

if TYPE_CHECKING:
    import numpy as np

    from infinitensor.api.session.cell import BaseTensor
    from infinitensor.api.session.session import Session

LIGHT = 32
"""Waiting calls up to which a value may be computed for the sake of a small write."""


def compute_before_write(tensor: BaseTensor, shape: tuple[int, ...], value: Any) -> None:
    """Compute a tensor that waits before a small part of it is changed.

    A program that writes rows or elements goes on writing them; once the tensor is in the one
    memory that NumPy can reach, each write costs what NumPy's does, and no plan. A value that is
    still much work is left to wait, and the write with it.
    """
    if not 0 < prod(shape) <= config.small_elements:
        return
    make_copy(tensor)
    version = tensor._version
    if version.node is None:
        return
    if masked_items.is_selection(version):
        return
    session = tensor._session
    if not session.engine.mesh.is_one_memory:
        if not is_tensor(value) and prod(version.shape) <= config.small_elements:
            _make_constant(session, version)
        return
    waiting = [version]
    if is_tensor(value) and value._version.node is not None:
        if not _is_light(value._version, version):
            return
        waiting.append(value._version)
    evaluate(session, waiting)


def make_copy(tensor: BaseTensor) -> None:
    """Make a copy of host values of medium size that waits, now: it is about to be changed."""
    node = None if tensor._owner is not None else tensor._cell.version.node
    if node is None or node.op.name != "_copy" or node.accesses[0] is not None:
        return
    source = node.inputs[0].host
    if source is None or source.size <= config.small_elements:
        return
    made = Spec(source.shape, source.dtype)
    version = move(tensor._session, made, "_copy", lambda out: _copy_into(out, source))
    if version is not None:
        tensor._cell.show(version)


def _copy_into(out: np.ndarray, source: np.ndarray) -> None:
    if not numpy_loops.into(None, out, source):
        out[...] = source


def _make_constant(session: Session, version: Version) -> None:
    """Zeros and the like that wait to be made on a GPU: on the host, where they are written to."""
    node = version.node
    assert node is not None
    if node.op.kind == "creation" and not node.inputs:
        with session.guard():
            session.ways["kernel"] += 1
            (version.host,) = small_kernel(node.op, node.call)([])
            version.node = None
            session.graveyard.append(node)


def compute_parts_read_often(session: Session, args: tuple[Any, ...]) -> bool:
    """`compute_if_read_often` of the tensors among the arguments of a call."""
    given = [x for x in args if is_tensor(x) and x._owner is None]
    return compute_if_read_often(session, [(x._version, x.size) for x in given])


def is_for_later(tensor: BaseTensor, value: Any) -> bool:
    """Whether a value waits for so much that a write of it waits too, however small it is."""
    if not is_tensor(value) or value._owner is not None or value._version.node is None:
        return False
    base = tensor._version
    return base.node is None or not _is_light(value._version, base)


def _is_light(version: Version, base: Version) -> bool:
    """Whether what a version waits for, beside a base, is a few small calls."""
    seen: set[int] = set()
    stack = [version]
    while stack:
        node = stack.pop().node
        if node is None or node.seq in seen:
            continue
        seen.add(node.seq)
        work = max(prod(node.call.form.sizes), *(spec.n_elements for spec in node.call.outs))
        if len(seen) > LIGHT or work > config.small_elements:
            return False
        stack += [v for v in node.inputs if type(v) is Version and v is not base]
    return True
