"""Loops that NumPy has no word for, written in C beside the ops that use them.

`loop("sort", "sort_lines", dtype)` is a function of `sort.c`, compiled for elements of a dtype.
It takes arrays (C-contiguous, by address), integers and floats, and runs without Python's lock. It
is None for other dtypes, where `config.compile` is "never", and where there is no compiler, which
is counted in `stats()["eager_fallbacks"]`; the op then goes over NumPy's words. A function that may
take long looks now and then whether the run stops (`look.c`); what says so leaves it.

Usual files are built with the package for usual dtypes (`fixed_c.py`): a first call does not wait,
and meanwhile a compiler makes the same for this very machine, of the same bits.
"""

from __future__ import annotations

import warnings
from ctypes import CFUNCTYPE, c_double, c_int64, c_void_p
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from infinitensor.config import config
from infinitensor.events import between_steps
from infinitensor.fixed_c import C_TYPES, LOOPS, loop_source
from infinitensor.interrupts import look, without_interrupts
from infinitensor.native import (
    NO_COMPILER,
    CompilerError,
    address,
    is_loaded,
    library,
    library_meanwhile,
    missed,
)
from infinitensor.threads import function_address

if TYPE_CHECKING:
    from collections.abc import Callable

_BUILT = {(path.rpartition("/")[2], code): file for file, (path, code) in LOOPS.items()}
"""What is built with the package, by C file and dtype."""


def loop(file: str, name: str, dtype: Any = np.float64) -> Callable[..., int] | None:
    """A C function, or None; what it returns is an integer."""
    if config.compile == "never":
        return None
    dtype = np.dtype(dtype)
    key = (file, name, dtype)
    found = _functions[key] if key in _functions else _function(file, name, dtype)
    if found is _missing:
        missed[0] += 1
        return None
    return found


def _missing(*_: Any) -> int:
    """Stands for a function that no compiler makes."""
    raise CompilerError(NO_COMPILER)


_functions: dict[tuple[str, str, np.dtype[Any]], Callable[..., int] | None] = {}
"""Those for this machine; None for other dtypes."""


def _function(file: str, name: str, dtype: np.dtype[Any]) -> Callable[..., int] | None:
    found: Callable[..., int] | None = None
    is_last = True
    try:
        if is_for(dtype):
            found = calling(compile_loop(file, name, dtype))
            is_last = is_loaded(source_for(file, dtype))
    except CompilerError as error:
        if NO_COMPILER not in str(error):
            warnings.warn(f"{error}; {file} runs over NumPy's words", RuntimeWarning, stacklevel=4)
        found = _missing
    if is_last:
        _functions[file, name, dtype] = found
    return found


def is_for(dtype: np.dtype[Any]) -> bool:
    """Whether loops are compiled for elements of a dtype."""
    return dtype.str[1:] in C_TYPES and dtype.isnative


def source_for(file: str, dtype: np.dtype[Any]) -> str:
    """A file for elements of a dtype."""
    return loop_source(file, dtype.str[1:])


def compile_loop(file: str, name: str, dtype: np.dtype[Any]) -> Any:
    """The function itself, for who calls it from C: as it was built with the package, while a
    compiler makes the one for this machine. `CompilerError` if it cannot be had."""
    text = source_for(file, dtype)
    built = _BUILT.get((file, dtype.str[1:]))
    made = (built and library_meanwhile(text, built)) or library(text)
    _give_callbacks(made, text)
    function = getattr(made, name)
    function.looks = "set_look" in text
    return function


_giving = Lock()
_given: WeakSet[Any] = WeakSet()
"""Libraries that have what they call."""


def _give_callbacks(library: Any, text: str) -> None:
    """Give a library the functions that it calls, before anybody runs one of its own: once."""
    with _giving:
        if library in _given:
            return
        if "set_look" in text:
            library.set_look(_looking)
        if "set_share" in text:
            library.set_share(c_void_p(function_address("share")))
        _given.add(library)


LEFT = -(1 << 63)
"""The return value of a function that was stopped."""
_leaving: dict[int, BaseException] = {}
"""By thread: what stopped it."""


def _looks() -> int:
    """Called by functions in C that take long: whether they are to stop."""
    try:
        between_steps()
        look()
    except BaseException as error:
        _leaving[get_ident()] = error
        return 1
    return 0


_looking = CFUNCTYPE(c_int64)(_looks)


def _left_or_done(function: Any, values: list[Any]) -> int:
    """Call a function that looks; what handlers of signals raise meanwhile leaves it."""
    with without_interrupts():  # nothing may be raised in `_looks` that it does not see
        found: int = function(*values)
        if found == LEFT:
            raise _leaving.pop(get_ident())
        return found


def calling(function: Any) -> Callable[..., int]:
    """A function of a library that takes arrays, integers and floats; None for an address is 0.

    What each place takes is what the first call gives it: a C function's places do not change.
    """
    function.restype = c_int64
    looks = getattr(function, "looks", False)

    def call(*args: Any) -> int:
        values = [_argument(value) for value in args]
        if function.argtypes is None:
            function.argtypes = [_place(value) for value in args]
        if looks:
            return _left_or_done(function, values)
        found: int = function(*values)
        return found

    return call


def _argument(value: Any) -> Any:
    kind = type(value)
    if kind is np.ndarray:
        assert value.flags.c_contiguous
        return address(value)
    if kind is int or kind is float or value is None:
        return value
    if isinstance(value, np.ndarray):  # of a kind of its own, a file's
        return _argument(value.view(np.ndarray))
    return float(value) if isinstance(value, float) else int(value)


def _place(value: Any) -> Any:
    if value is None or isinstance(value, np.ndarray):
        return c_void_p
    return c_double if isinstance(value, float) else c_int64
