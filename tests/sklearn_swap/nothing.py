"""The control: scikit-learn's classes and functions under another name, changed in nothing."""

from __future__ import annotations

import functools
import importlib
import inspect
import types
from typing import Any


def _function(their: Any) -> Any:
    @functools.wraps(their)
    def run(*args: Any, **kwargs: Any) -> Any:
        return their(*args, **kwargs)

    return run


def _class(their: type) -> type:
    body = {"__module__": __name__}
    return types.new_class(their.__name__, (their,), exec_body=lambda space: space.update(body))


for _home in ("sklearn.metrics.cluster", "sklearn.metrics", "sklearn.neighbors", "sklearn.cluster"):
    _module = importlib.import_module(_home)
    for _name in _module.__all__:
        _their = getattr(_module, _name)
        if inspect.isclass(_their) and _name not in ("KDTree", "BallTree", "DistanceMetric"):
            globals()[_name] = _class(_their)
        elif inspect.isfunction(_their):
            globals()[_name] = _function(_their)
