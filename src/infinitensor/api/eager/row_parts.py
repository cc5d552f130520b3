"""Rows of arrays on the host, at once, by all workers: no plan, no tiles, parts are shared out.

For those who know that rows are few enough for one memory, and go over them many times.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.eager.whole_array import at_once
from infinitensor.api.session.session import current_session
from infinitensor.interrupts import without_interrupts
from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE
from infinitensor.ops.table.numpy_kernels import lower_finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.op import Call

PARTS_EACH = 2
"""Parts for each worker: one that is held up leaves some to the others."""


def parts_of(n: int, least: int) -> list[tuple[int, int]]:
    """Where n rows are cut, so that every worker has some and no part has fewer than `least`."""
    n_workers = current_session().engine.n_workers
    n_parts = max(min(PARTS_EACH * n_workers, n // max(least, 1)), 1) if n_workers > 1 else 1
    borders = [n * i // n_parts for i in range(n_parts + 1)]
    return list(pairwise(borders))


def share(parts: list[tuple[int, int]], work: Callable[[int, int], None]) -> None:
    """Call `work(begin, end)` for each part, in all workers."""
    if len(parts) == 1:
        work(*parts[0])
        return
    left = parts[::-1]

    def job() -> None:
        while True:
            try:
                begin, end = left.pop()
            except IndexError:
                return
            work(begin, end)

    session = current_session()
    with session.guard(), without_interrupts():
        session.engine.share(job, len(parts))


@lru_cache(1024)
def _call_of(name: str, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Call:
    rule: Any = TABLE[name].rule
    found: Call = rule(*(Spec(shape, dtype) for shape, dtype in operands), **dict(params))
    return found


def in_parts(name: str, least: int, *arrays: np.ndarray, **params: Any) -> Any:
    """The result of an op of the table for arrays whose rows, the first label, are shared out.

    An op with an exact combine, or without one. Parts have at least `least` rows.
    """
    parts = parts_of(len(arrays[0]), least)
    if len(parts) == 1:
        return at_once(name, *arrays, **params)
    op = TABLE[name]
    call = _call_of(name, tuple([(x.shape, x.dtype) for x in arrays]), tuple(params.items()))
    kernel, form = op.kernel_for("cpu"), call.form
    outs = [np.empty(spec.shape, spec.dtype) for spec in call.outs]
    found: list[Any] = []

    def work(begin: int, end: int) -> None:
        def part(values: Any, labels: Any) -> Any:
            axes = [slice(begin, end) if label == 0 else slice(None) for label in labels]
            return values[tuple(axes)]

        tiles = [part(x, labels) for x, labels in zip(arrays, form.inputs, strict=True)]
        if op.kind == "reduction":
            found.append(kernel(np, *tiles, axes=(0,), **dict(call.params)))
            return
        made = [part(out, labels) for out, labels in zip(outs, form.outputs, strict=True)]
        kernel(np, *tiles, out=made[0] if len(made) == 1 else tuple(made), **dict(call.params))

    share(parts, work)
    if op.kind == "reduction":
        assert op.combine is not None
        assert op.combine.exact, "parts come in any order"
        total = found[0]
        for one in found[1:]:
            total = op.combine.merge(np, total, one)
        lower_finish(op, call, "cpu")(total, outs)
    return outs[0] if len(outs) == 1 else tuple(outs)
