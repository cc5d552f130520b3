"""Write the type stubs: what the op table makes at run time, for type checkers and editors.

python tools/stubs.py           # write src/infinitensor/*.pyi and api/methods.pyi
python tools/stubs.py --check   # say whether the committed stubs are current

Parameters are those of the public functions. What a program returns is found by running the cases
of its entry: where it is not always the same (`unique` with and without counts), it is `Any`.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

import infinitensor as it
from infinitensor.api.functions.all_functions import BINARY, COMPARE, PUBLIC, UNARY
from infinitensor.api.functions.other_functions import OBJECTS
from infinitensor.ops import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SOURCE = Path(__file__).resolve().parents[1] / "src" / "infinitensor"
MODULE_CONSTANTS = {"e": "_b.float", "inf": "_b.float", "nan": "_b.float", "pi": "_b.float"}
BUILTINS = {"bool", "int", "float", "complex", "str", "tuple", "list", "dict", "object", "slice"}
BY_NAME = {
    "axis": "_Axis",
    "axes": "Any",
    "dtype": "_npt.DTypeLike | None",
    "shape": "_Shape",
    "size": "_Shape | None",
}
"""Types of parameters that have none of their own, by what they are called everywhere."""

LAZY_MODULES = ("cluster", "metrics", "neighbors")
"""Modules that are imported when they are asked for."""

VARIES = ("where",)
"""Functions whose result depends on how many arguments they get."""

HEAD = """\
# Written by tools/stubs.py; do not edit.
import builtins as _b
from collections.abc import Callable as _Callable
from collections.abc import Sequence as _Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as _np
import numpy.typing as _npt

{imports}

_ArrayLike: TypeAlias = {tensor} | _npt.ArrayLike
_Axis: TypeAlias = SupportsIndex | _Sequence[SupportsIndex] | None
_Shape: TypeAlias = SupportsIndex | _Sequence[SupportsIndex]
"""


# --- types ------------------------------------------------------------------------------------


class _Rewritten(ast.NodeTransformer):
    """An annotation in the names of the stub; `unknown` stands for `Any` and names it lacks."""

    def __init__(self, unknown: str) -> None:
        self.unknown = unknown

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in BUILTINS:
            return ast.parse(f"_b.{node.id}", mode="eval").body
        if node.id in ("Callable", "Sequence"):
            return ast.Name(f"_{node.id}")
        return ast.parse("Tensor" if node.id == "Tensor" else self.unknown, mode="eval").body


def rewritten(annotation: Any, unknown: str) -> str:
    """A parameter's or a result's type, as the stub writes it."""
    if annotation is inspect.Parameter.empty:
        return unknown
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    return ast.unparse(_Rewritten(unknown).visit(ast.parse(text, mode="eval").body))


def parameter_type(parameter: inspect.Parameter, arrays: Iterable[str]) -> str:
    """The type of a parameter, from its annotation, its role in the entry, or its name."""
    name = parameter.name
    if name in arrays or parameter.annotation == "ArrayLike":
        return "_ArrayLike" if parameter.default is not None else "_ArrayLike | None"
    if f"*{name}" in arrays:
        return "_Sequence[_ArrayLike] | Tensor"
    found = rewritten(parameter.annotation, BY_NAME.get(name, "Any"))
    is_open = parameter.default is None and found not in ("Any", "_Axis") and "None" not in found
    return f"{found} | None" if is_open else found


def result_type(name: str, function: Callable[..., Any]) -> str:
    """The type of what a function returns."""
    entry = TABLE.get(name)
    given = inspect.signature(function).return_annotation
    if entry is None:
        return rewritten(given, "Any")
    if name in VARIES:
        return "Any"
    if given not in ("Any", "Call", inspect.Signature.empty):
        return rewritten(given, "Tensor") if not str(given).endswith("Result") else "Any"
    if entry.cases is None:
        return "Tensor" if given != "Any" or entry.arrays else "Any"
    found = {kind_of_value(value) for value in results_of(name, function)}
    return found.pop() if len(found) == 1 else "Any"


def results_of(name: str, function: Callable[..., Any]) -> Iterable[Any]:
    """What the entry's own cases give, without computing it."""
    cases = TABLE[name].cases
    assert cases is not None
    for args, kwargs in cases(np.random.default_rng(0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield function(*args, **kwargs)
            except (TypeError, ValueError, IndexError, ZeroDivisionError):  # a case of an error
                continue


def kind_of_value(value: Any) -> str:
    """A value's type, tensors in a tuple one by one."""
    if type(value) in (tuple, list) and all(isinstance(one, it.Tensor) for one in value):
        inner = ", ".join(["Tensor"] * len(value)) if type(value) is tuple else "Tensor"
        return f"_b.{type(value).__name__}[{inner}]"
    if isinstance(value, it.Tensor):
        return "Tensor"
    return f"_b.{type(value).__name__}" if type(value) in (bool, int, float) else "Any"


# --- lines ------------------------------------------------------------------------------------


def definition(name: str, function: Callable[..., Any], *, method: bool = False) -> str:
    """The `def` line of a function or method that is made, not written."""
    entry = TABLE.get(name)
    arrays = () if entry is None else entry.arrays
    parameters = list(inspect.signature(function).parameters.values())
    shown = [
        parameter.replace(
            annotation=_Shown(parameter_type(parameter, arrays)),
            default=parameter.default if parameter.default is parameter.empty else _Shown("..."),
        )
        for parameter in parameters
    ]
    if method:
        shown[0] = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.Signature(shown, return_annotation=_Shown(result_type(name, function)))
    return f"def {name.rpartition('.')[2]}{signature}: ..."


class _Shown:
    """A text that a signature shows as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def written_in(value: Any) -> str | None:
    """The module that defines a class or function under its own name; None if it is made."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    name = getattr(value, "__name__", "")
    is_there = module is not None and vars(module).get(name) is value
    return module.__name__ if is_there and module is not it and module is not None else None


def line_of(name: str, value: Any) -> str:
    """The line of one public name."""
    short = name.rpartition(".")[2]
    if isinstance(value, ModuleType):
        return f"from {value.__name__.rpartition('.')[0]} import {short} as {short}"
    home = written_in(value)
    if home is not None:
        there = short if vars(sys.modules[home]).get(short) is value else value.__name__
        return f"from {home} import {there} as {short}"
    if inspect.isroutine(value):
        return definition(name, value)
    if isinstance(value, it.ufunc) and value.signature is None:
        return f"{short}: {ufunc_kind(value)}"
    kind = type(value).__name__
    return f"{short}: {kind if kind in it.__all__ else f'_b.{kind}' if kind in BUILTINS else 'Any'}"


def ufunc_kind(ufunc: it.ufunc) -> str:
    """The stub's class of ufuncs with so many inputs and outputs."""
    return f"_Ufunc{ufunc.nin}to{ufunc.nout}"


def ufunc_classes() -> list[str]:
    """A class for each number of inputs and outputs: what they take and return."""
    found = {
        (value.nin, value.nout)
        for value in PUBLIC.values()
        if isinstance(value, it.ufunc) and value.signature is None
    }
    lines = []
    for nin, nout in sorted(found):
        inputs = ", ".join(f"x{i + 1}: _ArrayLike" for i in range(nin))
        outs = ", ".join(["Tensor"] * nout)
        result, out = (outs, "Tensor") if nout == 1 else (f"_b.tuple[{outs}]",) * 2
        options = "*, where: _ArrayLike = ..., casting: _b.str = ..., order: _b.str = ..., "
        options += "dtype: _npt.DTypeLike | None = ..., **options: Any"
        taken = f"self, {inputs}, /, out: {out} | None = ..., {options}"
        lines += [
            f"class _Ufunc{nin}to{nout}(ufunc):",
            f"    def __call__({taken}) -> {result}: ...",
        ]
    return lines


def face() -> str:
    """`infinitensor/__init__.pyi`: every public name, and no other."""
    modules = {name.partition(".")[0] for name in PUBLIC if "." in name}
    names = [name for name in it.__all__ if name not in ("Tensor", *modules)]
    names += [name for name in vars(it) if name.startswith("__array_")]
    lines = [line_of(name, getattr(it, name)) for name in names]
    lines += [line_of(name, getattr(it, name)) for name in sorted(modules)]
    lines += [f"from infinitensor import {name} as {name}" for name in LAZY_MODULES]
    lines += [f"{name}: {kind}" for name, kind in MODULE_CONSTANTS.items()]
    lines += [line_of(name, value) for name, (value, _) in OBJECTS.items()]
    lines += [
        "newaxis: None",
        "ndarray = Tensor",
        "__version__: _b.str",
        "__all__: _b.list[_b.str]",
    ]
    lines = [*ufunc_classes(), *lines]
    return stub("from infinitensor.api.tensor.tensor import Tensor as Tensor", lines)


def submodule(path: str) -> str:
    """The stub of a module such as `linalg`."""
    module = sys.modules[f"infinitensor.{path}"]
    names = [name for name in vars(module) if not name.startswith("_")]
    lines = [line_of(f"{path}.{name}", getattr(module, name)) for name in sorted(names)]
    return stub("from infinitensor.api.tensor.tensor import Tensor", lines)


def submodules() -> dict[Path, str]:
    """The stubs of all of them; one that holds others is a folder."""
    paths: set[str] = set()
    for name in PUBLIC:
        while "." in name:
            name = name.rpartition(".")[0]
            paths.add(name)
    folders = {path.rpartition(".")[0] for path in paths}
    return {
        SOURCE / (path.replace(".", "/") + ("/__init__.pyi" if path in folders else ".pyi")): text
        for path, text in ((path, submodule(path)) for path in sorted(paths))
    }


def operators() -> list[str]:
    """The lines of the operators of Tensor."""
    binary = [f"{prefix}{name}" for name in BINARY for prefix in ("", "r", "i")]
    lines = [f"def __{name}__(self, other: Any) -> Tensor: ..." for name in (*binary, *COMPARE)]
    override = "  # type: ignore[override]"
    lines = [line + (override if "__eq__" in line or "__ne__" in line else "") for line in lines]
    both = "_b.tuple[Tensor, Tensor]"
    lines += [f"def __{name}__(self, other: Any) -> {both}: ..." for name in ("divmod", "rdivmod")]
    return lines + [f"def __{name}__(self) -> Tensor: ..." for name in UNARY]


def methods() -> str:
    """`api/methods.pyi`: the operators and methods that Tensor gets from the table."""
    lines = [f"    {line}" for line in operators()]
    for name, op in sorted(TABLE.items()):
        made = it.Tensor.__dict__.get(name)
        if op.method and made is not None and written_in(made) is None and name in PUBLIC:
            lines.append("    " + definition(name, PUBLIC[name], method=True))
    imports = "from infinitensor.api.tensor.tensor import Tensor"
    doc = '    """Operators and methods made from the op table."""'
    body = ["class TableMethods:", doc, "", *lines]
    return stub(imports, body)


def stub(imports: str, lines: list[str]) -> str:
    """A stub file, formatted as ruff would."""
    first = [line for line in lines if line.startswith("from ")]
    rest = [line for line in lines if not line.startswith("from ")]
    head = HEAD.format(imports="\n".join([imports, *sorted(first)]), tensor="Tensor")
    return "\n".join([head, *rest, ""])


def stubs() -> dict[Path, str]:
    """Every stub file and its text."""
    return {
        SOURCE / "__init__.pyi": face(),
        SOURCE / "api" / "methods.pyi": methods(),
        **submodules(),
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args(argv)
    for path, text in stubs().items():
        if not args.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.name} is not current: run python tools/stubs.py", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
