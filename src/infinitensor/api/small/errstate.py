"""Floating-point errors: ignored, as `errstate` may ask for; it can ask for nothing else."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

try:  # what np.errstate sets, at an eighth of its cost
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    ERRORS: Any = _extobj_contextvar
    SILENT: Any = _make_extobj(all="ignore")
    silence: Callable[[Any], Any] = _extobj_contextvar.set
    restore: Callable[[Any], Any] = _extobj_contextvar.reset
except ImportError:
    ERRORS, SILENT = None, {"all": "ignore"}
    silence = lambda how: np.seterr(**how)  # noqa: E731
    restore = lambda how: np.seterr(**how)  # noqa: E731


def quietly(function: Callable[..., Any], *args: Any) -> Any:
    """NumPy's function without floating-point warnings: lazy calls could give none either."""
    token = silence(SILENT)
    try:
        return function(*args)
    finally:
        restore(token)


KINDS = ("divide", "over", "under", "invalid")
_state = dict.fromkeys(KINDS, "ignore")


def _check_settings(all: Any, given: dict[str, Any]) -> dict[str, str]:
    """The settings that are asked for; what would have to be noticed element by element is not."""
    wanted = {kind: all if value is None else value for kind, value in given.items()}
    for kind, value in wanted.items():
        if value in ("raise", "call", "print", "log"):
            raise ValueError(
                f"{kind}={value!r}: tensors are computed later and elsewhere, where floating-point "
                "errors are not noticed; use 'ignore' or 'warn', and look for them with "
                "it.isfinite(x).all()"
            )
        if value not in (None, "ignore", "warn"):
            raise ValueError(f"{kind}={value!r}: 'ignore' or 'warn' is meant")
    return {kind: value for kind, value in wanted.items() if value is not None}


def geterr() -> dict[str, str]:
    """The settings of `seterr`; no warning is ever given, whatever they say.

    >>> import infinitensor as it
    >>> it.geterr()["divide"]
    'ignore'
    """
    return dict(_state)


def seterr(
    all: Any = None, divide: Any = None, over: Any = None, under: Any = None, invalid: Any = None
) -> dict[str, str]:
    """Accept 'ignore' and 'warn' for each kind of floating-point error; returns the old settings.

    Neither does anything: no warning is given. What would have to stop a program is refused.

    >>> import infinitensor as it
    >>> sorted(it.seterr(all="ignore"))
    ['divide', 'invalid', 'over', 'under']
    """
    before = geterr()
    given = {"divide": divide, "over": over, "under": under, "invalid": invalid}
    _state.update(_check_settings(all, given))
    return before


class errstate(contextlib.ContextDecorator):
    """`seterr` for a block or a function.

    >>> import infinitensor as it
    >>> with it.errstate(divide="ignore"):
    ...     float(1 / it.asarray(0.0))
    inf
    """

    def __init__(
        self,
        *,
        call: Any = None,
        all: Any = None,
        divide: Any = None,
        over: Any = None,
        under: Any = None,
        invalid: Any = None,
    ) -> None:
        if call is not None:
            raise ValueError("call=: tensors are computed later and elsewhere; it is not called")
        given = {"divide": divide, "over": over, "under": under, "invalid": invalid}
        self._wanted = _check_settings(all, given)
        self._before: list[dict[str, str]] = []

    def __enter__(self) -> None:
        self._before.append(seterr(**self._wanted))

    def __exit__(self, *error: object) -> None:
        seterr(**self._before.pop())
