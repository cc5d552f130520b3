"""Modules that stand in for another project's: its names are ours, its internals are absent."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

used: str | None = None
"""What of the other project's own the test that runs has used."""
running = False
"""Whether a test runs now; while modules are collected, absent things are harmless."""


class Absent:
    """What only the other project has. A test that uses it is skipped; its mention is harmless."""

    def __init__(self, name: str) -> None:
        """Known by its full name."""
        self._name = name

    def _used(self, *args: object, **kwargs: object) -> Any:
        if running:
            global used
            used = self._name
            pytest.skip(f"out of scope: {self._name}")
        return self

    def _no(self, *args: object) -> bool:
        self._used()
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}")

    def __call__(self, *args: object, **kwargs: object) -> Any:
        # as a decorator it leaves the function as it is, until the test runs
        if not running and len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return self._used()

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    __enter__ = __exit__ = __getitem__ = __int__ = __index__ = __len__ = __iter__ = _used
    __add__ = __sub__ = __mul__ = __or__ = __and__ = _used
    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _no


class StandIn(ModuleType):
    """A module of the other project: `given` first, then ours; the rest is absent.

    A name that NumPy has and we do not is an AttributeError: that is a failure, not an absence.
    """

    def __init__(self, name: str, given: Mapping[str, Any], ours: Any, numpys: Any) -> None:
        """Ours and NumPy's are the modules that answer to this name."""
        super().__init__(name)
        self.__path__: list[str] = []
        self._given, self._ours, self._numpys = given, ours, numpys

    def __getattr__(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        if name.startswith("__"):
            raise AttributeError(name)
        ours, numpys = getattr(self._ours, name, None), getattr(self._numpys, name, None)
        if isinstance(ours, ModuleType):
            return sys.modules.setdefault(
                f"{self.__name__}.{name}", StandIn(f"{self.__name__}.{name}", {}, ours, numpys)
            )
        if ours is not None:
            return ours
        if numpys is not None and not isinstance(numpys, ModuleType):
            raise AttributeError(f"{self.__name__} has no {name!r}; NumPy has")
        return Absent(f"{self.__name__}.{name}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for a project's modules, and its own sources where `sources` names them."""

    def __init__(self, roots: Sequence[str], make: Callable[[str], ModuleType]) -> None:
        """For modules under `roots`; `make` gives the stand-in of a name."""
        self._roots, self._make = tuple(roots), make
        self.sources: dict[str, Path] = {}

    def find_spec(
        self, fullname: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A source of the checkout, or a stand-in."""
        for name, folder in self.sources.items():
            if fullname == name or fullname.startswith(name + "."):
                return source_spec(fullname, folder.joinpath(*fullname[len(name) + 1 :].split(".")))
        if fullname.split(".")[0] in self._roots:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The stand-in."""
        return self._make(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """A stand-in has no code."""


def source_spec(name: str, path: Path) -> importlib.machinery.ModuleSpec | None:
    """The module of a file or of a package's folder."""
    if path.is_dir():
        return importlib.util.spec_from_file_location(
            name, path / "__init__.py", submodule_search_locations=[str(path)]
        )
    return importlib.util.spec_from_file_location(name, path.with_suffix(".py"))
