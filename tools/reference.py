"""Write docs/reference.md: every public name, from the library itself.

python tools/reference.py           # write the page, and what else follows from the table
python tools/reference.py --check   # say whether the committed page is current
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

import infinitensor as it
from infinitensor import errors, events
from infinitensor.api.functions.all_functions import HELPERS, PUBLIC
from infinitensor.api.functions.other_functions import KINDS as FAMILY_KINDS
from infinitensor.api.functions.other_functions import OBJECTS
from infinitensor.api.functions.random import MEMBERS as RANDOM
from infinitensor.api.functions.view_functions import VIEWS
from infinitensor.api.session.array_api import QUESTIONS
from infinitensor.api.session.session import COUNTS
from infinitensor.dtypes import TYPES
from infinitensor.ops import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference.md"
SUBMODULES = ("fft", "lib.stride_tricks", "linalg", "random")
ALSO_WRITTEN = ("tools.stubs", "tools.coverage_table", "tools.estimator_names")
"""Tools beside this one whose files follow from the table too."""

SESSION = ("close", "stats")
"""What users call on a session; its other members are for the library."""

HELPER_KINDS = {
    "array": "conversion",
    "asarray": "conversion",
    "astype": "elementwise",
    "broadcast_arrays": "view",
    "broadcast_to": "view",
    "compute": "evaluation",
    "copy": "elementwise",
    "csr": "conversion",
    "expand_dims": "view",
    "from_dlpack": "conversion",
    "map_tiles": "user's kernel",
    "random.default_rng": "generator",
    "random.get_state": "setting",
    "random.seed": "setting",
    "random.set_state": "setting",
    "ravel": "view or copy",
    "reshape": "view or copy",
}
HELPER_KINDS = {**FAMILY_KINDS, **HELPER_KINDS}
"""Functions that are not in the op table."""

KINDS = """\
| kind | what runs |
|---|---|
| elementwise | one formula per element, tile by tile; joins a group with its neighbours |
| creation | tiles are made in place; joins a group with its reader |
| mapped | each output tile needs the input tiles with the same labels |
| gather | an output tile needs another box of its input |
| reduction | partial results for each tile, merged in a fixed tree |
| contraction | partial products for each tile, added in a fixed tree |
| update | changes tiles in place, or a copy of them where the old version lives on |
| program | calls of other ops; after the colon, the kinds of those it calls by name |
| view | nothing: another way to look at the same cell |
| question | nothing: the answer follows from dtypes and shapes |
| conversion | values from outside are copied into tiles, or onto the host if they are few |
| user's kernel | the given function on tiles, cut as `form` allows |"""

STATS = {
    "bytes_moved": "Bytes that went from one device to another.",
    "tasks": "Tasks that ran.",
    "tasks_in_c": "Those of them that C ran, without Python, because they are generated code.",
    "tasks_in_waves": "Those of them that were steps of a stencil, several of which went over the "
    "tensor together, in cache.",
    "plan_hits": "Evaluations whose plan was in the cache (plans made by `explain()` count too).",
    "plan_misses": "Plans that had to be made.",
    "peak_bytes": "{(device, tier): the most bytes held so far}; `reset` starts from what is held.",
    "whole_ops": "Calls that ran with an operand in one piece.",
    "forced_evaluations": (
        "Evaluations that nobody asked for: a shape depended on values, or too much was waiting."
    ),
    "evaluations": "Evaluations that ran a plan.",
    "tiles_rebuilt": "Lost tiles that were made again.",
    "ways": "{way: calls that took it}; what each way is for is in docs/architecture.md.",
    "small_calls": "Calls on few elements that ran at once, on host values: the sum of those ways.",
    "smaller_blocks": "Blocks of sorts, scans and factorisations that were made smaller because "
    "memory is little: last bits of library kernels may differ.",
    "unplanned_failures": "New programs on a GPU of which a call raised while they ran without a "
    "plan: they were planned and run again, which says what is wrong.",
    "bytes_loaded": "Bytes that came to a device from a lower tier: spilled tiles, and what is "
    "read of opened files.",
    "bytes_evicted": "Bytes that left a device for a lower tier; what can be read or made again "
    "leaves without being written, and is not counted.",
    "bytes_not_pinned": "Bytes of stored tensors that went to files because the system would pin "
    "no more memory for GPUs, although `host_memory` allows it.",
    "bytes_read": "Bytes of the user's files that were read: by `load` and the like, and of "
    "opened files each time (spilled tiles of stored tensors are among them).",
    "bytes_written": "Bytes of tensors that `save` and the like have written to files.",
    "eager_fallbacks": "Groups worth generating code for that ran step by step: no compiler, or a "
    "word or dtype that generated code does not do as NumPy does. Searches and k-means on a GPU "
    "that no kernel is for (docs/clustering.md) are among them, and orders of products in an "
    "einsum of more than two operands that NumPy was asked for: opt_einsum is not installed.",
    "borrowed_products": "Products of matrices by the BLAS that NumPy or SciPy bring, for want of "
    "one beside torch (its wheels for x86); counted for the whole process.",
    "products_by_mkl": "Products of matrices by MKL, which torch's file for x86 has: shapes that "
    "were multiplied often, where it gives the same bits; counted for the whole process.",
    "transforms_before_mkl": "Fourier transforms that NumPy made, for they were the first of the "
    "process, while a thread loaded MKL; counted for the whole process.",
    "not_compiled": "{C file of ours: why it could not be compiled}; what it does is done in "
    "Python, which takes microseconds more for each call. Empty where it was built with the "
    "package, where there is a compiler with the headers of Python and NumPy, and with "
    '`compile = "never"`, which asks for none.',
    "kernels_compiled_by_threads": "Kernels of a GPU that no compiler's process made (it could "
    "not be started, or ended), but a thread, which takes Python's lock meanwhile.",
    "kernels_compiling": "Kernels that are compiled while programs go on, or will be: until "
    "then the steps that they stand for run one by one, with the same bits.",
    "not_prebuilt": "{C file of ours: why it is not used as it was built with the package}: it is "
    "compiled at run time and kept in the cache. Empty where the package was installed with a C "
    "compiler, or from a wheel.",
    "host_arrays": (
        "Arrays that NumPy got through `__array__`: `np.asarray(x)`, and what NumPy and others do "
        "by themselves (`np.ascontiguousarray(x)`, `np.nditer(x)`, a tensor in a list)."
    ),
    "host_fallbacks": "Calls of `vectorize` and `frompyfunc`: their values came to the host.",
    "sklearn_fallbacks": "Fits and calls of estimators and scores that are not built yet and ran "
    "scikit-learn's code (docs/clustering.md lists them).",
}
"""What each name in `it.stats()` counts."""

EVENTS = {
    "allocate": "A ledger hands out memory.",
    "task_start": "A task is about to run.",
    "tile_commit": "A task has made a tile.",
    "run_start": "A run begins or goes on.",
    "run_end": "A run ended or was stopped.",
    "evaluated": "An evaluation is done and what it made is stored.",
    "file": "A file is opened, read, written, synced, renamed or removed.",
}
"""What each name that `it.events.on` takes reports."""

CONSTANTS = {
    "e": "Euler's number.",
    "inf": "Infinity.",
    "nan": "Not a number.",
    "newaxis": "None, for indexing.",
    "ndarray": "Another name of `Tensor`.",
    "pi": "The circle's number.",
    **{name: text for name, (_, text) in OBJECTS.items()},
}


# --- what a name is ---------------------------------------------------------------------------


def first_sentence(text: str | None) -> str:
    """The first sentence of a docstring, on one line."""
    words = " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())
    head, dot, _ = words.partition(". ")
    return head + "." if dot else words


def plain(signature: inspect.Signature) -> str:
    """A signature without annotations."""
    parameters = []
    for parameter in signature.parameters.values():
        default = parameter.default
        if isinstance(default, type) and issubclass(default, np.generic):
            default = _Name(default.__name__)
        parameters.append(parameter.replace(annotation=inspect.Parameter.empty, default=default))
    return str(inspect.Signature(parameters))


class _Name:
    """A default that is shown by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def kind_of(name: str) -> str:
    """What kind of op a public function is."""
    if name in VIEWS:
        return "view"
    if name in QUESTIONS:
        return "question"
    if name in HELPERS or name in HELPER_KINDS:
        return HELPER_KINDS[name]
    kind = TABLE[name].kind
    if kind != "program":
        return kind
    called = {TABLE[op].kind for op in called_ops(name)} - {"program"}
    return f"program: {', '.join(sorted(called))}" if called else "program: view"


@functools.cache
def called_ops(name: str) -> set[str]:
    """Ops that a program calls on `xp`, itself, through others and through functions beside it."""
    found: set[str] = set()
    todo: list[Any] = []
    read: set[Any] = set()

    def enter(op: str) -> None:
        if op in TABLE and op not in found:
            found.add(op)
            if TABLE[op].kind == "program":
                todo.append(TABLE[op].rule)

    enter(name)
    while todo:
        function = todo.pop()
        if function in read:
            continue
        read.add(function)
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
            if isinstance(node, ast.Name) and inspect.isfunction(
                beside := function.__globals__.get(node.id)
            ):
                todo.append(beside)
            elif isinstance(node, ast.Attribute):
                dotted = ast.unparse(node)
                if dotted.startswith("xp."):
                    enter(dotted.removeprefix("xp."))
                    enter(dotted.removeprefix("xp.").replace("_", ".", 1))
    return found


def cut_of(name: str) -> str:
    """Whether a function is cut into tiles, or needs an operand in one piece."""
    if name not in TABLE:
        return "cut" if kind_of(name) in ("elementwise", "user's kernel", "conversion") else ""
    if TABLE[name].whole:
        return "whole"
    return "cut, whole at need" if any(TABLE[op].whole for op in called_ops(name)) else "cut"


def public_functions() -> dict[str, Callable[..., Any]]:
    """Functions by their full names, those of the submodules too."""
    members = {n: f for n, f in RANDOM.items() if inspect.isfunction(f)}
    return {**PUBLIC, **members}


def tensor_members() -> dict[str, Any]:
    """Methods and properties of a Tensor."""
    return {
        name: inspect.getattr_static(it.Tensor, name)
        for name in dir(it.Tensor)
        if not name.startswith("_")
    }


def public_members(kind: type) -> dict[str, Any]:
    """Methods and properties of a class that it defines itself."""
    return {
        name: getattr(kind, name)
        for name, member in vars(kind).items()
        if not name.startswith("_")
        and (kind is not it.Session or name in SESSION)
        and (inspect.isfunction(member) or isinstance(member, property | classmethod))
    }


def error_classes() -> list[type]:
    """The errors users may meet."""
    return [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, errors.InfiniTensorError)
    ]


def field_docs(kind: type) -> dict[str, str]:
    """The text below each field of a dataclass."""
    tree = ast.parse(inspect.cleandoc(inspect.getsource(kind)))
    found: dict[str, str] = {}
    assert isinstance(tree.body[0], ast.ClassDef)
    body = tree.body[0].body
    for statement, after in pairwise(body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[statement.target.id] = str(after.value.value)
    return found


def undocumented() -> list[str]:
    """Public names that say nothing of themselves."""
    missing = [name for name, f in public_functions().items() if not first_sentence(f.__doc__)]
    for name in it.__all__:
        value = getattr(it, name)
        if not first_sentence(inspect.getdoc(value)):
            missing.append(name)
    for name, member in tensor_members().items():
        if not first_sentence(member.__doc__):
            missing.append(f"Tensor.{name}")
    for kind in (it.Csr, it.Session, it.Plan, it.Memory, it.Mesh, it.Config, it.ufunc):
        for name, member in public_members(kind).items():
            if not first_sentence(member.__doc__):
                missing.append(f"{kind.__name__}.{name}")
    missing += [kind.__name__ for kind in error_classes() if not first_sentence(kind.__doc__)]
    documented = field_docs(it.Config)
    for field in dataclasses.fields(it.Config):
        if field.name not in documented:
            missing.append(f"config.{field.name}")
    missing += [f"stats: {name}" for name in (*COUNTS, "peak_bytes") if name not in STATS]
    missing += [f"event: {name}" for name in events.NAMES if name not in EVENTS]
    return sorted(set(missing))


# --- the page ---------------------------------------------------------------------------------


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(*heads: str) -> list[str]:
    return [row(*heads), "|" + "---|" * len(heads)]


def function_rows(names: list[str]) -> Iterator[str]:
    functions = public_functions()
    for name in names:
        function = functions[name]
        yield row(
            f"`{name}{plain(inspect.signature(function))}`",
            first_sentence(function.__doc__),
            kind_of(name),
            cut_of(name),
        )


def member_rows(kind: type, members: dict[str, Any]) -> Iterator[str]:
    functions = public_functions()
    for name, member in sorted(members.items(), key=lambda item: item[0].lower()):
        if isinstance(member, property):
            shown = f"`.{name}`"
        elif kind is it.Tensor and "*args" in str(inspect.signature(member)) and name in TABLE:
            signature = inspect.signature(functions[name])
            shown = f"`.{name}{plain(_without_first(signature))}`"
        elif inspect.ismethod(member):
            shown = f"`{kind.__name__}.{name}{plain(inspect.signature(member))}`"
        else:
            shown = f"`.{name}{plain(_without_first(inspect.signature(member)))}`"
        yield row(shown, first_sentence(member.__doc__))


def _without_first(signature: inspect.Signature) -> inspect.Signature:
    rest = list(signature.parameters.values())[1:]
    return inspect.Signature(rest)


def functions_section() -> list[str]:
    names = sorted(public_functions())
    plain_names = [name for name in names if "." not in name]
    lines = ["## Functions", "", "`infinitensor.` comes before each name.", ""]
    lines += [*table("call", "what it gives", "kind", "cut or whole"), *function_rows(plain_names)]
    for submodule in SUBMODULES:
        mine = [name for name in names if name.startswith(f"{submodule}.")]
        lines += ["", f"### {submodule}", ""]
        lines += [*table("call", "what it gives", "kind", "cut or whole"), *function_rows(mine)]
    classes = [name for name, member in RANDOM.items() if inspect.isclass(member)]
    lines += ["", "`random.Generator` (made by `random.default_rng`) and `random.RandomState` have"]
    lines += ["these functions as methods, with streams of their own. Classes:"]
    lines += [", ".join(f"`{name}`" for name in sorted(classes)) + "."]
    return lines


def classes_section() -> list[str]:
    lines = ["## Tensor", "", first_sentence(it.Tensor.__doc__), ""]
    lines += [
        "Operators: `+ - * / // % ** @ & | ^ << >> ~`, `abs`, `divmod`, all comparisons, each with",
        "its reflected form; `+=` and the like change the tensor in place. Also `len`, `in`,",
        "iteration, `bool`, `int`, `float`, `complex`, `index`, `format`, `copy`, `deepcopy`,",
        "`pickle`, `np.asarray`, DLPack.",
        "",
        *table("member", "what it is"),
        *member_rows(it.Tensor, tensor_members()),
    ]
    for kind in (it.Csr, it.Session, it.Plan, it.Memory, it.Mesh, it.ufunc):
        lines += ["", f"## {kind.__name__}", "", first_sentence(kind.__doc__), ""]
        if kind in (it.Plan, it.Memory):
            names = ", ".join(f"`.{field.name}`" for field in dataclasses.fields(kind))
            lines += [f"Fields: {names}.", ""]
        if kind is it.ufunc:
            names = ", ".join(f"`.{name}`" for name in vars(it.add) if not name.startswith("_"))
            lines += [
                f"Elementwise functions that NumPy has as ufuncs are such. Fields: {names}.",
                "",
            ]
        lines += [*table("member", "what it is"), *member_rows(kind, public_members(kind))]
    return lines


def session_section() -> list[str]:
    lines = ["## Sessions, plans, counts", "", *table("call", "what it gives")]
    for name in ("init", "shutdown", "plan", "explain", "memory", "stats"):
        function = getattr(it, name)
        lines.append(
            row(f"`{name}{plain(inspect.signature(function))}`", first_sentence(function.__doc__))
        )
    lines += ["", "### config", "", "`config` is the one `Config` of this process."]
    lines += [
        "It is read at each evaluation; `devices`, `memory` and `workers` when a session opens."
    ]
    lines += ["Each field is also `INFINITENSOR_<NAME>` in the environment.", ""]
    lines += table("field", "default", "meaning")
    meanings = field_docs(it.Config)
    for field in dataclasses.fields(it.Config):
        shown = f"{field.default:,}" if type(field.default) is int else repr(field.default)
        lines.append(row(f"`{field.name}`", shown, meanings.get(field.name, "")))
    lines += ["", "### stats", "", *table("name", "meaning")]
    lines += [row(f"`{name}`", STATS[name]) for name in STATS]
    lines += [
        "",
        "### events",
        "",
        "`events.on(name, callback)` calls `callback(**what)` each time",
    ]
    lines += ["until the hook it returns is taken off. What a hook raises is raised at that place."]
    lines += ["", *table("name", "when"), *(row(f"`{n}`", EVENTS[n]) for n in events.NAMES)]
    lines += ["", "### errors", "", *table("error", "is also", "when")]
    for kind in error_classes():
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        lines.append(row(f"`{kind.__name__}`", bases, first_sentence(kind.__doc__)))
    return lines


def values_section() -> list[str]:
    lines = ["## Dtypes and constants", ""]
    lines += ["NumPy's types, as dtypes, for scalars, and for their families:", ""]
    lines += [", ".join(f"`{name}`" for name in TYPES) + ".", ""]
    lines += [*table("constant", "value"), *(row(f"`{n}`", CONSTANTS[n]) for n in CONSTANTS)]
    return lines


def page() -> str:
    """The whole reference."""
    counted = public_functions()
    head = [
        "# Reference",
        "",
        "<!-- Written by tools/reference.py; do not edit. -->",
        "",
        f"{len(counted)} functions and {len(tensor_members())} members of `Tensor`. A function has",
        "NumPy's meaning unless its text says otherwise; all texts are in the docstrings.",
        "",
        KINDS,
        "",
        "*cut*: the work is divided into tiles and over devices. *whole at need*: some shapes or",
        "arguments need an operand in one piece, which `stats` counts.",
        "",
    ]
    sections = (session_section(), functions_section(), classes_section(), values_section())
    return "\n".join([*head, *("\n".join([*lines, ""]) for lines in sections)])


def names_on_the_page() -> set[str]:
    """Every public name that the page must show."""
    names = {n for n in it.__all__ if not isinstance(getattr(it, n), ModuleType)}
    names |= set(public_functions()) | set(SUBMODULES) | set(CONSTANTS)
    names |= {f".{name}" for name in tensor_members()}
    names |= {field.name for field in dataclasses.fields(it.Config)}
    names |= {*COUNTS, "peak_bytes", *events.NAMES, "errors", "events", "config"}
    return names | {kind.__name__ for kind in error_classes()}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args(argv)
    if args.check:
        if PAGE.read_text(encoding="utf-8") == page():
            return 0
        print("docs/reference.md is not current: run python tools/reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    for name in ALSO_WRITTEN:
        subprocess.run([sys.executable, "-m", name], cwd=PAGE.parents[1], check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
