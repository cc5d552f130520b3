"""The calls of ops, one object for equal arguments: plans are found again by them."""

from __future__ import annotations

from typing import Any

_calls: dict[Any, Any] = {}


def cached_rule(op: Any, specs: tuple[Any, ...], *rest: Any) -> Any:
    """The call of an op for specs and hashable arguments; the same object each time."""
    key = (op.name, specs, rest)
    call = _calls.get(key)
    if call is None:
        if len(_calls) > 65536:
            _calls.clear()
        call = _calls[key] = op.rule(*specs, *rest)
    return call
