"""Loops that NumPy has no word for, written in C beside the ops that use them.

`loop("sort", "sort_lines", dtype)` is a function of `sort.c`, compiled for elements of a dtype.
It takes arrays (C-contiguous, by address), integers and floats, and runs without Python's lock. It
is None for other dtypes, where `config.compile` is "never", and where there is no compiler, which
is counted in `stats()["eager_fallbacks"]`; the op then goes over NumPy's words. A function that may
take long looks now and then whether the run stops (`look.c`); what says so leaves it.
"""

from __future__ import annotations

import re
import warnings
from ctypes import CFUNCTYPE, c_double, c_int64, c_void_p
from functools import cache
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.config import config
from infinitensor.events import between_steps
from infinitensor.interrupts import look, without_interrupts
from infinitensor.native import NO_COMPILER, CompilerError, address, library, missed
from infinitensor.threads import function_address

if TYPE_CHECKING:
    from collections.abc import Callable

_C_NAMES = {"f4": "float", "f8": "double", "b1": "uint8_t"}
_C_NAMES |= {f"i{n}": f"int{8 * n}_t" for n in (1, 2, 4, 8)}
_C_NAMES |= {f"u{n}": f"uint{8 * n}_t" for n in (1, 2, 4, 8)}
_C_NAMES["V16"] = "__attribute__((aligned(8))) unsigned __int128"  # aligned as complex numbers


_INCLUDED = re.compile(r'^#include "(\w+\.c)"$', re.MULTILINE)
"""Files that others include, `keys.c`, `apart.c`, `products.c`, `look.c`: put in before
compiling."""


def loop(file: str, name: str, dtype: Any = np.float64) -> Callable[..., int] | None:
    """A C function, or None; what it returns is an integer."""
    if config.compile == "never":
        return None
    found = _function(file, name, np.dtype(dtype))
    if found is _missing:
        missed[0] += 1
        return None
    return found


def _missing(*_: Any) -> int:
    """Stands for a function that no compiler makes."""
    raise CompilerError(NO_COMPILER)


@cache
def _paths() -> dict[str, Path]:
    return {path.name: path for path in Path(__file__).parents[1].rglob("*.c")}


def source(name: str) -> str:
    """A C file of the ops, which has its name alone, with what it includes."""
    text = _paths()[name].read_text()
    return _INCLUDED.sub(lambda found: source(found[1]), text)


@cache
def _function(file: str, name: str, dtype: np.dtype[Any]) -> Callable[..., int] | None:
    if not is_for(dtype):
        return None
    try:
        return calling(compile_loop(file, name, dtype))
    except CompilerError as error:
        if NO_COMPILER not in str(error):
            warnings.warn(f"{error}; {file} runs over NumPy's words", RuntimeWarning, stacklevel=4)
        return _missing


def is_for(dtype: np.dtype[Any]) -> bool:
    """Whether loops are compiled for elements of a dtype."""
    return dtype.str[1:] in _C_NAMES and dtype.isnative


def source_for(file: str, dtype: np.dtype[Any]) -> str:
    """A file for elements of a dtype."""
    is_float = int(dtype.kind == "f")
    c_name = _C_NAMES[dtype.str[1:]]
    head = f"#include <stdint.h>\ntypedef {c_name} T;\n#define IS_FLOAT {is_float}\n"
    head += f"#define IS_SIGNED {int(dtype.kind == 'i')}\n#define BITS {8 * dtype.itemsize}\n"
    return head + source(f"{file}.c")


def compile_loop(file: str, name: str, dtype: np.dtype[Any]) -> Any:
    """The function itself, for who calls it from C; `CompilerError` if it cannot be had."""
    text = source_for(file, dtype)
    made = library(text)
    if "set_look" in text:
        made.set_look(_looking)
    if "set_share" in text:
        made.set_share(c_void_p(function_address("share")))
    function = getattr(made, name)
    function.looks = "set_look" in text
    return function


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
