"""Names that are not built yet: scikit-learn's own code, counted as `sklearn_fallbacks`."""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING, Any

from infinitensor.api.session.session import current_session
from infinitensor.estimators.points import on_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FALLBACKS: dict[str, Any] = {}
"""Every name that runs scikit-learn's code, as 'infinitensor.cluster.Birch'."""

TEXT = "scikit-learn's `{}`: its own code, on host arrays; not built here yet."

COUNTED = ("fit", "partial_fit")
"""The methods of an estimator that are counted: they do its work, others use what they learned."""


def fallbacks(module: str, theirs: types.ModuleType, names: Iterable[str]) -> dict[str, Any]:
    """scikit-learn's classes and functions of these names, as names of one of our modules.

    A class is a subclass that changes nothing, so that it pickles as ours. `fit`, `partial_fit`
    and functions take what only we understand (tensors, arrays on a GPU, paths) as host arrays,
    and add one to `it.stats()["sklearn_fallbacks"]`.
    """
    made = {}
    for name in names:
        their = getattr(theirs, name)
        make = _estimator if inspect.isclass(their) else _function
        made[name] = FALLBACKS[f"{module}.{name}"] = make(module, name, their)
    return made


def _estimator(module: str, name: str, their: type) -> type:
    body = {
        "__module__": module,
        "__doc__": TEXT.format(name),
        **{
            method: _count_calls(getattr(their, method))
            for method in COUNTED
            if hasattr(their, method)
        },
    }
    return types.new_class(name, (their,), exec_body=lambda space: space.update(body))


def _function(module: str, name: str, their: Callable[..., Any]) -> Callable[..., Any]:
    made = _count_calls(their)
    made.__module__, made.__doc__ = module, TEXT.format(name)
    return made


def _count_calls(their: Callable[..., Any]) -> Callable[..., Any]:
    points = next((name for name in inspect.signature(their).parameters if name != "self"), None)

    @functools.wraps(their)
    def run(*args: Any, **kwargs: Any) -> Any:
        current_session().counts["sklearn_fallbacks"] += 1
        bound = inspect.signature(their).bind_partial(*args, **kwargs)
        for name, value in bound.arguments.items():
            if name != "self":
                bound.arguments[name] = on_host(value, may_be_path=name == points)
        return their(*bound.args, **bound.kwargs)

    return run
