"""Fourier transforms and histograms of small tensors at once, by the kernels of plans.

As programs over other ops they take several times as long to begin as to compute. What is not
plain here is recorded.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.record.late import late
from infinitensor.api.small.errstate import quietly
from infinitensor.api.small.host_values import kernel_input, small_tensor, tensors
from infinitensor.config import config
from infinitensor.dtypes import bfloat16
from infinitensor.ops.reduce.histogram import MOST_KEPT_EDGES, bin_kernel, edges_of
from infinitensor.ops.signal.fft import computed_in, transform_tile
from infinitensor.ops.signal.fft_mkl import SINGLE

if TYPE_CHECKING:
    from collections.abc import Callable

ALONG = {"fft": (-1,), "ifft": (-1,), "rfft": (-1,), "irfft": (-1,), "fft2": (-1, -2)}
"""Transforms, and the axes along which they go, in order."""


def _small_values(x: Any) -> Any:
    """The array of a small tensor on the host, or None."""
    if type(x) is not tensors[0] or not config.small_elements:
        return None
    values = kernel_input(x)
    return values if values is not None and values.size <= config.small_elements else None


def transform_now(word: str, args: Any, options: Any) -> Any:
    """A transform of all of a small tensor's last axes, cut or padded to `args[1]` points.

    None: record it.
    """
    axes = ALONG[word]
    if options or not 1 <= len(args) <= 3 - len(axes):
        return None
    values = _small_values(args[0])
    if values is None or values.dtype not in SINGLE or values.ndim < len(axes):
        return None
    if not values.size or (word == "rfft" and values.dtype.kind == "c"):
        return None
    single = word if len(axes) == 1 else "fft"
    for axis in axes:
        n = args[1] if len(args) == 2 else values.shape[axis]
        if len(args) == 1 and word == "irfft":
            n = 2 * (n - 1)
        if type(n) is not int or n < 1 or n >= 2 * late.namespace.block(n):
            return None
        axis %= values.ndim
        terms = n // 2 + 1 if word == "rfft" else n
        shape = (*values.shape[:axis], terms, *values.shape[axis + 1 :])
        out = np.empty(shape, computed_in(single, values.dtype)[1])
        if out.size > config.small_elements:
            return None
        quietly(transform_tile, np, values, out, single, axis, n, "backward")
        values = out
    session = args[0]._owner or args[0]._cell.session
    session.ways["kernel"] += len(axes)
    return small_tensor(session, values)


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
