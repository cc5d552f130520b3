"""Functions with scikit-learn's signature and parameter checks, taking what only we understand."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from sklearn.utils._param_validation import validate_params

from infinitensor.estimators.points import open_if_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable


def like(
    their: Callable[..., Any], *points: str, asks: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: a function checked by the constraints of scikit-learn's function.

    Parameters named in `points` may also be paths of files, and arrays on a GPU. If it `asks` an
    estimator, that checks the parameters which these constraints leave out.
    """
    constraints = their._skl_parameter_constraints  # type: ignore[attr-defined]
    names = list(inspect.signature(their).parameters)

    def enter(ours: Callable[..., Any]) -> Callable[..., Any]:
        checked = validate_params(constraints, prefer_skip_nested_validation=not asks)(ours)

        @functools.wraps(checked)
        def run(*args: Any, **kwargs: Any) -> Any:
            given = [
                open_if_elsewhere(value) if name in points else value
                for name, value in zip(names, args, strict=False)
            ]
            kwargs |= {name: open_if_elsewhere(kwargs[name]) for name in points if name in kwargs}
            return checked(*given, *args[len(given) :], **kwargs)

        return run

    return enter
