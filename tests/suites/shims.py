"""What each suite finds where it looks for the other project."""

from __future__ import annotations

import builtins
import functools
import importlib
import math
import os
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from tests.suites import stand_in
from tests.suites.stand_in import Finder, StandIn

import infinitensor as it

OURS: Any = np if os.environ.get("INFINITENSOR_SUITE_REFERENCE") else it
"""What is tested: this library, or NumPy in its place to see whether a test is about NumPy."""

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


class OldPolynomial:
    """CuPy's helpers ask whether a result is a poly1d; a test that makes one is out of scope."""

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        """Skip the test."""
        return stand_in.Absent("poly1d")()


def cupy(checkout: Path) -> None:
    """`cupy` is this library; `cupy.testing` is CuPy's own, from the checkout."""
    util = StandIn("cupy._util", {"PerformanceWarning": type("Slow", (Warning,), {})}, None, None)
    core = StandIn("cupy._core", {"internal": SimpleNamespace(prod=math.prod)}, None, None)
    given = {
        "poly1d": OldPolynomial,
        "exceptions": np.exceptions,
        "asnumpy": lambda x, *args, **kwargs: np.asarray(x),
        "get_array_module": lambda *args: OURS,
        "_core": core,
    }
    cuda = SimpleNamespace(
        runtime=SimpleNamespace(is_hip=False, getDeviceCount=lambda: 1, runtimeGetVersion=int),
        Stream=SimpleNamespace(null=SimpleNamespace(synchronize=lambda: None)),
        driver=SimpleNamespace(_is_cuda_python=lambda: False, get_build_version=int),
    )
    states = SimpleNamespace(_random_states={})
    random = {
        "_generator": states,
        "reset_states": lambda: setattr(states, "_random_states", {}),
    }

    def make(name: str) -> ModuleType:
        fixed: dict[str, ModuleType] = {
            "cupy.exceptions": np.exceptions,
            "cupy._core": core,
            "cupy._util": util,
        }
        if name in fixed:
            return fixed[name]
        first, _, rest = name.partition(".")
        if first != "cupy":
            return StandIn(name, {}, None, None)
        more = {"": given, "random": random, "cuda": vars(cuda)}.get(rest, {})
        return StandIn(name, more, counterpart(OURS, rest), counterpart(np, rest))

    finder = Finder(("cupy", "cupyx", "cupy_backends"), make)
    finder.sources["cupy.testing"] = checkout / "cupy" / "testing"
    sys.meta_path.insert(0, finder)
    if OURS is it:  # CuPy's way to the host
        setattr(it.Tensor, "get", lambda self, *args, **kwargs: np.asarray(self))  # noqa: B010
    for name in ("cupy.cuda", "cupy.random", "cupy.testing"):
        importlib.import_module(name)


def cupynumeric(checkout: Path) -> None:
    """`cupynumeric` is this library, on a machine without GPUs."""
    runtime = SimpleNamespace(num_gpus=0, num_procs=1, cusolver_has_geev=lambda: True)
    given: dict[str, dict[str, Any]] = {
        "legate.core": {"LEGATE_MAX_DIM": 4},
        "cupynumeric.runtime": {"runtime": runtime},
        "cupynumeric._utils": {"is_np2": True},
        "cupynumeric.linalg": {"LinAlgError": np.linalg.LinAlgError},
    }

    def make(name: str) -> ModuleType:
        first, _, rest = name.partition(".")
        both = (OURS, np) if first == "cupynumeric" else (None, None)
        return StandIn(name, given.get(name, {}), *(counterpart(each, rest) for each in both))

    sys.meta_path.insert(0, Finder(("cupynumeric", "legate"), make))
    sys.path.insert(0, str(checkout / "tests" / "integration"))


def xarray(checkout: Path | None) -> None:
    """`array_api_strict` is this library."""
    given = {"__version__": "9.0", "Array": it.Tensor}

    def make(name: str) -> ModuleType:
        return StandIn(name, given, it, None)

    sys.meta_path.insert(0, Finder(("array_api_strict",), make))


def scipy(checkout: Path | None) -> None:
    """Nothing stands in: `backend` adds this library to SciPy's list."""


def backend(metafunc: pytest.Metafunc) -> None:
    """SciPy's fixture `xp` gives this library, and only it."""
    import pytest

    for fixture in metafunc._arg2fixturedefs.get("xp", ()):
        if fixture.baseid.endswith("scipy") or fixture.baseid == "":
            mine = pytest.param(it, id="infinitensor", marks=pytest.mark.array_api_backends)
            fixture.params = (mine,)  # type: ignore[misc]
    if (conftest := sys.modules.get("scipy.conftest")) is not None:
        conftest.xp_known_backends.add("infinitensor")


def counterpart(module: Any, rest: str) -> Any:
    """The submodule of a dotted name, None where there is none."""
    for part in filter(None, rest.split(".")):
        module = getattr(module, part, None)
    return module if isinstance(module, ModuleType) else None


def numpy(checkout: Path | None) -> None:
    """Test modules are rewritten when they are collected: see `ours_for_numpys`."""

    def wrap(self: it.Tensor, array: Any, *context: Any) -> it.Tensor:
        return it.asarray(array)

    setattr(it.Tensor, "__array_wrap__", wrap)  # noqa: B010  # the protocol of ndarray's subclasses


HELD = "?bhilqpBHILQPefdFD"


class Namespace(ModuleType):
    """NumPy's namespace with our functions and our array in it; says when one of them was taken."""

    touched = False

    def __init__(self, ours: Any, numpys: Any) -> None:
        """Of two modules of one name."""
        super().__init__(numpys.__name__)
        self._ours, self._numpys = ours, numpys

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._numpys, name)
        if not stand_in.running and name != "typecodes":  # parameters of tests are NumPy's
            return value
        if is_assertion(value):
            return on_host(value)
        if name == "typecodes":  # tests go over all of them; the dtypes that are held are in scope
            return {kind: "".join(c for c in codes if c in HELD) for kind, codes in value.items()}
        mine = swapped(name, value, self._ours)
        if mine is value:
            return value
        if not isinstance(mine, ModuleType):
            Namespace.touched = True
        return mine


class Draws:
    """A generator of NumPy's random numbers, whose arrays are tensors."""

    def __init__(self, generator: Any) -> None:
        """Of a Generator or a RandomState."""
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        drawn = getattr(self._generator, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            found = drawn(*map(hosted, args), **{k: hosted(v) for k, v in kwargs.items()})
            return it.array(found) if isinstance(found, np.ndarray) else found

        return call


PAIRS = ((it, np), (it.linalg, np.linalg), (it.fft, np.fft), (it.random, np.random))


def swapped(name: str, value: Any, ours: Any) -> Any:
    """Our function, array or module for NumPy's; types, constants and what we lack stay NumPy's."""
    if value is np.ndarray:
        return it.Tensor
    if value is np.random.default_rng or value is np.random.RandomState:
        return lambda *args, **kwargs: Draws(value(*args, **kwargs))
    if value is np.testing:
        return Namespace(None, value)
    mine = getattr(ours, name, None)
    if mine is None:
        return value
    if isinstance(value, ModuleType):
        return Namespace(mine, value) if isinstance(mine, ModuleType) else value
    kinds = (FunctionType, BuiltinFunctionType, np.ufunc)
    is_function = isinstance(value, kinds) or type(value).__name__.startswith("_ArrayFunction")
    is_function |= ours is it.random and callable(value) and not isinstance(value, type)
    return mine if is_function or name in {"r_", "c_", "s_", "mgrid", "ogrid"} else value


def ours_for_numpys(module: ModuleType) -> None:
    """Give a test module our functions for NumPy's, and assertions that take our arrays."""
    for name, value in list(vars(module).items()):
        if value is np:
            setattr(module, name, Namespace(it, np))
        elif isinstance(value, ModuleType):
            if value.__name__ in {"numpy.linalg", "numpy.fft"}:
                ours = getattr(it, value.__name__.partition(".")[2])
                setattr(module, name, Namespace(ours, value))
        elif is_assertion(value):
            setattr(module, name, on_host(cast("Any", value)))
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for attribute, function in list(vars(value).items()):
                if type(function) in {list, tuple}:
                    setattr(value, attribute, type(function)(map(ours_of, function)))
                elif ours_of(function) is not function:
                    setattr(value, attribute, staticmethod(ours_of(function)))
        elif not name.startswith("_") and not hasattr(builtins, name):
            for ours, numpys in PAIRS:
                if getattr(numpys, name, None) is value:
                    setattr(module, name, noted(swapped(name, value, ours), value))


def ours_of(value: Any) -> Any:
    """Our function for one of NumPy's, by its name; anything else as it is."""
    name = getattr(value, "__name__", "")
    for ours, numpys in PAIRS if isinstance(name, str) and not isinstance(value, type) else ():
        if getattr(numpys, name, None) is value:
            return swapped(name, value, ours)
    return value


def is_assertion(value: Any) -> bool:
    """Whether it is one of numpy.testing, whatever a module calls it."""
    name = getattr(value, "__name__", "")
    return name.startswith(("assert", "_assert")) and getattr(np.testing, name, None) is value


def noted(mine: Any, value: Any) -> Any:
    """Our function, which says that it was called; NumPy's own value as it is."""
    if mine is value or not isinstance(mine, FunctionType | BuiltinFunctionType | type(it.where)):
        return mine

    @functools.wraps(mine)
    def call(*args: Any, **kwargs: Any) -> Any:
        Namespace.touched = True
        return mine(*args, **kwargs)

    return call


def on_host(check: Callable[..., Any]) -> Callable[..., Any]:
    """An assertion of numpy.testing that takes our arrays for NumPy's.

    One about what is raised calls a function: its arguments are left alone.
    """
    if check.__name__.startswith(("assert_raises", "assert_warns", "assert_no_warnings")):
        return check

    @functools.wraps(check)
    def checked(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # a failure names the line of the test
        return check(*map(hosted, args), **{k: hosted(v) for k, v in kwargs.items()})

    return checked


def hosted(value: Any) -> Any:
    """NumPy's form of our arrays: a 0-d one is NumPy's scalar, as most such results are there."""
    if isinstance(value, it.Tensor):
        return np.asarray(value)[()]
    if type(value) in {list, tuple}:
        return type(value)(map(hosted, value))
    return value


def running(yes: bool) -> None:
    """Tell the stand-ins whether a test runs."""
    stand_in.running, stand_in.used = yes, None
    Namespace.touched = False
