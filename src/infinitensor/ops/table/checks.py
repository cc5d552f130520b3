"""Values that are looked at: at the call where they are known, or when they are computed."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.table.registry import broadcast_form, op

ERRORS: dict[str, type[Exception]] = {
    error.__name__: error for error in (ValueError, ZeroDivisionError, IndexError, TypeError)
}


def is_on_host(value: Any) -> bool:
    """Whether a parameter's values are known at the call."""
    return isinstance(value, Number | np.generic | np.ndarray | list | tuple)


def host_values_of(xp: Any, value: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Values that a shape depends on, as an array; a tensor is computed for them, and counted."""
    return np.asarray(value if is_on_host(value) else xp.force(value), dtype)


def _ensured_kernel(xp: Any, x: Any, holds: Any, out: Any, error: str, text: str) -> None:
    if not bool(holds.all()):
        raise ERRORS[error](text)
    out[...] = x


@op(
    "mapped",
    kernel=_ensured_kernel,
    scratch_bytes=lambda ins, outs, params: 64,
    cases=lambda rng: [
        ((rng.standard_normal((4, 3)), np.ones((4, 3), bool), "ValueError", "no"), {}),
        ((rng.integers(0, 9, 5), np.ones(1, bool), "ZeroDivisionError", "no"), {}),
        ((np.arange(5), np.arange(5) < 4, "ValueError", "not below four"), {}),
    ],
    oracle=lambda x, holds, error, text: x if holds.all() else _refuse(error, text),
    same="equal",
)
def _ensured(x: Spec, holds: Spec, error: str, text: str) -> Call:
    """x, if the condition holds everywhere; else the named error, raised when x is computed.

    On CUDA this waits for the device: an error must not be lost.
    """
    form = broadcast_form((x, holds), x.shape)
    return call(form, Spec(x.shape, x.dtype), error=error, text=text)


def _refuse(error: str, text: str) -> None:
    raise ERRORS[error](text)


def _narrowed_kernel(xp: Any, x: Any, out: Any, dtype: Any) -> None:
    here, there = np.iinfo(str(x.dtype).removeprefix("torch.")), np.iinfo(dtype)
    least, most = max(here.min, there.min), min(here.max, there.max)
    if not bool(((x >= least) & (x <= most)).all()):
        raise OverflowError(f"an integer is out of bounds for {dtype}")
    out[...] = x


@op(
    "mapped",
    name="_narrowed",
    kernel=_narrowed_kernel,
    scratch_bytes=lambda ins, outs, params: 3 * ins[0].n_elements + 64,
    cases=lambda rng: [
        ((rng.integers(-9, 9, (4, 3)), np.dtype(np.int8)), {}),
        ((np.array(200), np.dtype(np.int8)), {}),
        ((np.array(-1), np.dtype(np.uint64)), {}),
        ((np.arange(5, dtype=np.uint16), np.dtype(np.int64)), {}),
    ],
    oracle=lambda x, dtype: np.array(x.tolist(), dtype),
    same="equal",
)
def _narrow(x: Spec, dtype: Any) -> Call:
    """Integers as another dtype; an OverflowError, when computed, where one is out of bounds."""
    return call(broadcast_form((x,), x.shape), Spec(x.shape, dtype), dtype=dtype)
