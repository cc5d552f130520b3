"""Fourier transforms up to a medium size, and small histograms, at once by the kernels of plans.

As programs over other ops they take several times as long to begin as to compute. What is not
plain here is recorded.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.api.eager.moved import move
from infinitensor.api.record.late import late
from infinitensor.api.record.record import host_view
from infinitensor.api.session.cell import Ref
from infinitensor.api.small.errstate import quietly
from infinitensor.api.small.host_values import (
    kernel_input,
    own,
    small_tensor,
    tensors,
    values_of,
)
from infinitensor.config import config
from infinitensor.dtypes import bfloat16
from infinitensor.ir.op import Spec
from infinitensor.ops.reduce.histogram import MOST_KEPT_EDGES, bin_kernel, edges_of
from infinitensor.ops.signal.fft import computed_in, is_in_pieces, transform_tile
from infinitensor.ops.signal.fft_mkl import SINGLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Version

ALONG = {"fft": (-1,), "ifft": (-1,), "rfft": (-1,), "irfft": (-1,), "fft2": (-1, -2)}
"""Transforms, and the axes along which they go, in order."""


def _small_values(x: Any) -> Any:
    """The array of a small tensor on the host, or None."""
    if type(x) is not tensors[0] or not config.small_elements:
        return None
    values = kernel_input(x)
    return values if values is not None and values.size <= config.small_elements else None


class Step(NamedTuple):
    """One of the transforms of a call: along which axis, to how many points, and what it makes."""

    word: str
    axis: int
    n: int
    made: Spec


@lru_cache(4096)
def _steps(
    word: str, shape: tuple[int, ...], dtype: np.dtype[Any], given: tuple[Any, ...]
) -> tuple[Step, ...] | None:
    """The transforms of a call, in order; None for what is not plain."""
    axes = ALONG[word]
    if dtype not in SINGLE or len(shape) < len(axes) or 0 in shape:
        return None
    if word == "rfft" and dtype.kind == "c":
        return None
    single, steps = word if len(axes) == 1 else "fft", []
    for axis in axes:
        n = given[0] if given else shape[axis]
        if not given and word == "irfft":
            n = 2 * (n - 1)
        if type(n) is not int or n < 1:
            return None
        axis %= len(shape)
        shape = (*shape[:axis], n // 2 + 1 if word == "rfft" else n, *shape[axis + 1 :])
        dtype = computed_in(single, dtype)[1]
        steps.append(Step(single, axis, n, Spec(shape, dtype)))
    return tuple(steps)


def transform_now(word: str, args: Any, options: Any) -> Any:
    """A transform of all of a tensor's last axes, cut or padded to `args[1]` points.

    None, record it: its values are not on the host, of more than a medium size, or not plain.
    """
    if options or not 1 <= len(args) <= 3 - len(ALONG[word]) or not config.small_elements:
        return None
    x = args[0]
    if type(x) is not tensors[0] or (len(args) == 2 and type(args[1]) is not int):
        return None
    values = values_of(x)
    if type(values) is not np.ndarray:
        return None
    steps = _steps(word, values.shape, values.dtype, args[1:])
    if steps is None or any([is_in_pieces(late.namespace, s.n, s.made.dtype) for s in steps]):
        return None
    session, limit = x._owner or x._cell.session, config.small_elements
    if values.size > limit or max([step.made.n_elements for step in steps]) > limit:
        return _transform_more(session, values, steps)
    for step in steps:
        out = np.empty(step.made.shape, step.made.dtype)
        _transform(values, step, out)
        values = out
    session.ways["kernel"] += len(steps)
    return own(session, values)


def _transform_more(session: Session, values: np.ndarray, steps: tuple[Step, ...]) -> Any:
    """The same in memory of the ledger; None where there is no room."""
    made: list[Version] = []
    for step in steps:
        fill = partial(_transform, values, step)
        version = move(session, step.made, "_fft_axis", fill)
        if version is None:
            return None
        made[:] = [version]  # the one before lives until here
        values = host_view(Ref(version, None, step.made.dtype))
    return late.fresh(session, made[0])


def _transform(values: np.ndarray, step: Step, out: np.ndarray) -> None:
    quietly(transform_tile, np, values, out, step.word, step.axis, step.n, "backward")


@lru_cache(16, typed=True)
def _bins(number: int, low: float, high: float, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The edges of bins for values of a dtype, and these as float64."""
    edges = edges_of(late.namespace, np.empty(0, dtype), number, (low, high), None)
    return edges, edges.astype(np.float64, copy=False)


def histogram_now(args: Any, options: Any) -> Any:
    """The counts of a small tensor in so many bins between two numbers, and their edges.

    None: record it.
    """
    if options or len(args) != 3 or type(args[1]) is not int or type(args[2]) is not tuple:
        return None
    if not {int, float}.issuperset(map(type, args[2])) or len(args[2]) != 2:
        return None
    values = _small_values(args[0])
    if values is None or values.dtype.kind not in "iuf" or values.dtype == bfloat16:
        return None
    if not values.size or not 0 < args[1] <= MOST_KEPT_EDGES:
        return None
    edges, wide = _bins(args[1], *args[2], values.dtype)
    (number,) = quietly(bin_kernel, np, values.reshape(-1), wide, None)
    session = args[0]._owner or args[0]._cell.session
    session.ways["kernel"] += 1
    return small_tensor(session, number), small_tensor(session, edges.copy())


AT_ONCE: dict[str, Callable[[Any, Any], Any]] = {
    "histogram": histogram_now,
    **{f"fft.{word}": partial(transform_now, word) for word in ALONG},
}
"""Functions that ask one of these first."""
