"""InfiniTensor: NumPy programs over global tensors, cut into tiles and run on every device."""

from __future__ import annotations

import importlib as _importlib
import sys as _sys
import types as _types
from typing import Any as _Any

import numpy as _np

from infinitensor import errors, events
from infinitensor.api.convert.csr import Csr
from infinitensor.api.evaluate.explain import Plan, explain, plan
from infinitensor.api.functions.all_functions import MEMBERS as _MEMBERS
from infinitensor.api.functions.all_functions import PUBLIC as _PUBLIC
from infinitensor.api.functions.other_functions import OBJECTS as _OBJECTS
from infinitensor.api.functions.random import MEMBERS as _RANDOM
from infinitensor.api.functions.ufunc import ufunc
from infinitensor.api.session.array_api import VERSION as _ARRAY_API
from infinitensor.api.session.array_api import __array_namespace_info__ as __array_namespace_info__
from infinitensor.api.session.memory_report import Memory, memory
from infinitensor.api.session.session import Session, current_session, init, shutdown
from infinitensor.api.tensor.tensor import Tensor
from infinitensor.config import Config, config
from infinitensor.dtypes import TYPES as _TYPES
from infinitensor.errors import (
    CorruptTileError,
    DeviceOutOfMemoryError,
    InfiniTensorError,
    LayoutError,
    LostTileError,
    MemoryBudgetError,
    SessionClosedError,
    SpillSpaceError,
    TaskError,
)
from infinitensor.ir.mesh import Mesh

__version__ = "0.1.0"
__array_api_version__ = _ARRAY_API
e, pi, inf, nan, newaxis = _np.e, _np.pi, _np.inf, _np.nan, None
ndarray = Tensor
globals().update(_TYPES)
globals().update({_name: _object for _name, (_object, _) in _OBJECTS.items()})


def stats(reset: _Any = False) -> dict[str, _Any]:
    """Counters of this session: tasks, bytes, plan hits, fall-backs, peaks.

    >>> import infinitensor as it
    >>> with it.init("cpu"):
    ...     it.stats()["sklearn_fallbacks"]
    0
    """
    return current_session().stats(reset)


for _name, _function in {**_PUBLIC, **_MEMBERS, **_RANDOM}.items():
    *_heads, _tail = _name.split(".")
    _module = _sys.modules[__name__]
    for _head in _heads:
        _full = f"{_module.__name__}.{_head}"
        if _full not in _sys.modules:
            _path = _full.removeprefix(f"{__name__}.")
            _sys.modules[_full] = _types.ModuleType(_full, f"NumPy's `{_path}` over tensors.")
            setattr(_module, _head, _sys.modules[_full])
        _module = _sys.modules[_full]
    setattr(_module, _tail, _function)

__all__ = [
    "Config",
    "CorruptTileError",
    "Csr",
    "DeviceOutOfMemoryError",
    "InfiniTensorError",
    "LayoutError",
    "LostTileError",
    "Memory",
    "MemoryBudgetError",
    "Mesh",
    "Plan",
    "Session",
    "SessionClosedError",
    "SpillSpaceError",
    "TaskError",
    "Tensor",
    "config",
    "errors",
    "events",
    "explain",
    "init",
    "memory",
    "plan",
    "shutdown",
    "stats",
    "ufunc",
    *_TYPES,
    *sorted({name.partition(".")[0] for name in _PUBLIC}),
]


_ESTIMATORS = ("cluster", "metrics", "neighbors")
"""Modules that are imported when they are asked for: scikit-learn comes with them."""


def __dir__() -> list[str]:
    """The names for users; modules of the library's own are not among them."""
    more = ("e", "inf", "nan", "ndarray", "newaxis", "pi", "__version__", "__doc__")
    return sorted({*__all__, *_ESTIMATORS, *_OBJECTS, *_heads_of({**_MEMBERS, **_RANDOM}), *more})


def _heads_of(names: _Any) -> set[str]:
    return {name.partition(".")[0] for name in names}


def __getattr__(name: str) -> _Any:
    if name in _ESTIMATORS:
        return _importlib.import_module(f"{__name__}.{name}")
    import difflib

    near = difflib.get_close_matches(name, __dir__(), 3, 0.5)
    hint = f"; the nearest are {', '.join(near)}" if near else ""
    raise AttributeError(f"infinitensor has no {name!r}{hint}")
