"""Values that are looked at: at the call where they are known, or when they are computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.registry import broadcast_form, op

ERRORS: dict[str, type[Exception]] = {
    error.__name__: error for error in (ValueError, ZeroDivisionError, IndexError, TypeError)
}


def is_on_host(value: Any) -> bool:
    """Whether a parameter's values are known at the call."""
    return isinstance(value, bool | int | float | np.generic | np.ndarray | list | tuple)


def known(xp: Any, value: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Values that a shape depends on, as an array; a tensor is computed for them, and counted."""
    return np.asarray(value if is_on_host(value) else xp.force(value), dtype)


def _ensured_kernel(xp: Any, x: Any, holds: Any, out: Any, error: str, text: str) -> None:
    if not bool(holds.all()):
        raise ERRORS[error](text)
    out[...] = x


@op(
    "_ensured",
    "mapped",
    "x holds",
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
