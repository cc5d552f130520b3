"""The house rules that a tool can check: import rows, size smells, no paths of a machine."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src" / "infinitensor"

# A part imports itself and rows below, never a neighbour in its row, never upwards.
ROWS: tuple[tuple[str, ...], ...] = (
    ("accel", "cli"),
    ("mixture", "cleaning"),
    ("cluster",),
    ("neighbors", "metrics", "preprocessing", "decomposition"),
    ("estimators",),
    ("api",),
    ("pipeline",),
    ("analysis", "partition", "redistribute", "tasking", "memory", "engines"),
    ("runtime",),
    ("price",),
    ("devices", "storage"),
    ("ops",),
    ("ir",),
    ("threads",),
    ("dtypes", "config", "events", "native", "jit"),
    ("errors", "interrupts", "fixed_c", "lazy_torch", "compiler_process"),
)
ROW_OF = {part: row for row, parts in enumerate(ROWS, start=1) for part in parts}

# `import infinitensor` is the public face of `api`: rows above `api` may use it.
# The file behind it, __init__.py, stands above everything and may import every part.
FACE = "infinitensor"


@dataclass(frozen=True, slots=True)
class Import:
    """One import of ours: the part it reaches and the line it stands on."""

    part: str
    line: int


# --- import rows ------------------------------------------------------------------------------


def part_of(module: tuple[str, ...]) -> str:
    """('infinitensor', 'ops', 'registry') -> 'ops'; the package itself is its face."""
    if len(module) == 1:
        return FACE
    return "cli" if module[1] == "__main__" else module[1]


def module_of(file: Path, root: Path = SOURCE) -> tuple[str, ...]:
    """The dotted name of a source file, without a trailing __init__.

    A stub beside the package's own, or in a folder of stubs, is of a module that the face makes
    (`linalg`, `lib.stride_tricks`).
    """
    made = file.parent == root or not (file.parent / "__init__.py").exists()
    if file.suffix == ".pyi" and made:
        return (FACE,)
    names = (FACE, *file.relative_to(root).with_suffix("").parts)
    return names[:-1] if names[-1] == "__init__" else names


def imports_of(tree: ast.AST, package: tuple[str, ...]) -> Iterator[Import]:
    """Every import of ours in a file of `package`: at the top, in a function, for type checking."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for name in names:
                    yield from _ours(tuple(name.name.split(".")), node.lineno)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else ()
                origin = (*base, *(module.split(".") if module else ()))
                for name in names:
                    target = (*origin, name.name) if origin == (FACE,) else origin
                    yield from _ours(target, node.lineno)
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
                called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
                if called in ("import_module", "__import__"):
                    base = package if name.startswith(".") else ()
                    yield from _ours((*base, *name.strip(".").split(".")), node.lineno)
            case _:
                pass


def _ours(module: tuple[str, ...], line: int) -> Iterator[Import]:
    """An import of ours; a name that is no part (`from infinitensor import sum`) is the face."""
    if module[0] == FACE:
        part = part_of(module)
        known = part in ROW_OF or (SOURCE / part).exists() or (SOURCE / f"{part}.py").exists()
        yield Import(part if known else FACE, line)


def fault(importer: str, imported: str) -> str | None:
    """Why `importer` may not import `imported`, or None where it may."""
    if importer in (FACE, imported):
        return None
    if importer not in ROW_OF:
        return f"'{importer}' is in no import row"
    target = "api" if imported == FACE else imported
    if target not in ROW_OF:
        return f"'{imported}' is in no import row"
    if ROW_OF[target] < ROW_OF[importer]:
        return f"'{importer}' (row {ROW_OF[importer]}) imports upwards '{imported}'"
    if ROW_OF[target] == ROW_OF[importer]:
        return f"'{importer}' imports '{imported}', a neighbour or the face of its own row"
    return None


def faults_of(source: str, module: tuple[str, ...], *, is_package: bool = False) -> list[str]:
    """The faults of one file, as 'line N: why'."""
    package = module if is_package else module[:-1]
    found = (
        (import_.line, fault(part_of(module), import_.part))
        for import_ in imports_of(ast.parse(source), package)
    )
    return [f"line {line}: {why}" for line, why in found if why]


def source_files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py*") if path.suffix in (".py", ".pyi"))


def test_every_part_imports_only_itself_and_rows_below() -> None:
    faults = [
        f"{file.relative_to(REPOSITORY)} {why}"
        for file in source_files()
        for why in faults_of(
            file.read_text(encoding="utf-8"),
            module_of(file),
            is_package=file.stem == "__init__",
        )
    ]
    assert not faults, "\n" + "\n".join(faults)


def test_every_part_has_a_row() -> None:
    parts = {part_of(module_of(file)) for file in source_files()} - {FACE}
    assert parts <= ROW_OF.keys(), f"no import row for {sorted(parts - ROW_OF.keys())}"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import infinitensor.api", "upwards"),
        ("from infinitensor.pipeline import run", "upwards"),
        ("from infinitensor import api", "upwards"),
        ("from .. import api", "upwards"),
        ("from ..api.tensor import Tensor", "upwards"),
        ("def f():\n    from infinitensor import pipeline", "upwards"),
        ("if TYPE_CHECKING:\n    from infinitensor.api import Tensor", "upwards"),
        ("import importlib\nimportlib.import_module('infinitensor.api')", "upwards"),
        ("from infinitensor.memory import allocate", "neighbour"),
        ("import infinitensor as it", "upwards"),
        ("from infinitensor import compute", "upwards"),
    ],
)
def test_forbidden_import_is_found_in_every_form(source: str, why: str) -> None:
    faults = faults_of(source, (FACE, "partition", "strategy"))
    assert len(faults) == 1
    assert why in faults[0]


@pytest.mark.parametrize(
    "source",
    [
        "import numpy",
        "from infinitensor.partition.tile import Tile",
        "from . import tile",
        "from .tile import Tile",
        "from infinitensor.ir import Graph",
        "from infinitensor import errors",
        "from ..errors import InfiniTensorError",
    ],
)
def test_allowed_import_is_no_fault(source: str) -> None:
    assert faults_of(source, (FACE, "partition", "strategy")) == []


def test_estimators_may_use_the_public_face() -> None:
    assert faults_of("import infinitensor as it", (FACE, "cluster", "kmeans")) == []


def test_relative_import_in_an_init_is_resolved_from_its_own_package() -> None:
    module = (FACE, "ops")
    assert faults_of("from .registry import TABLE", module, is_package=True) == []
    assert faults_of("from ..api import Tensor", module, is_package=True) != []


# --- rooms: the rows inside a part ---------------------------------------------------------------

# A room imports itself and rooms below it. Files beside the rooms stand above them all.
ROOMS: dict[str, tuple[str, ...]] = {
    "api": (
        *("functions", "known", "convert", "tensor", "access"),
        *("small", "record", "evaluate", "eager", "session"),
    ),
    "ops": (
        *("signal", "points", "reduce", "move", "linalg", "sorting"),
        *("random", "elementwise", "create", "forms", "table", "backend"),
    ),
    "tasking": ("groups", "graph", "kernels", "triton", "c"),
    "runtime": ("run", "native", "replay", "state"),
    "storage": ("spilled", "formats", "file_io"),
}

Edges = dict[str, set[str]]


def modules() -> dict[str, Path]:
    return {".".join(module_of(file)): file for file in source_files() if file.suffix == ".py"}


def imported_modules(file: Path, known: dict[str, Path]) -> set[str]:
    """The modules of ours that a file imports: at the top, in functions, for type checkers."""
    package = module_of(file) if file.stem == "__init__" else module_of(file)[:-1]
    found = set()
    for node in _importing(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        base = package[: len(package) - node.level + 1] if node.level else ()
        origin = ".".join((*base, *(node.module.split(".") if node.module else ())))
        for alias in node.names:
            inner = f"{origin}.{alias.name}"
            found.add(inner if inner in known else origin)
    return found & known.keys()


def _importing(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def edges() -> Edges:
    known = modules()
    return {name: imported_modules(file, known) for name, file in known.items()}


def rings(graph: Edges) -> list[list[str]]:
    """Modules that reach each other, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in graph[name]:
            if other not in order:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == order[name]:
            at = stack.index(name)
            ring = stack[at:]
            del stack[at:]
            if len(ring) > 1:
                found.append(sorted(ring))

    for name in graph:
        if name not in order:
            visit(name)
    return found


def room_of(module: str) -> tuple[str, str] | None:
    """The part and the room of a module that is in one."""
    names = module.split(".")
    is_in_room = len(names) > 2 and names[2] in ROOMS.get(names[1], ())
    return (names[1], names[2]) if is_in_room else None


def upward(graph: Edges) -> list[str]:
    """Imports inside a part that go to a room above."""
    found = []
    for module, others in graph.items():
        for other in others:
            here, there = room_of(module), room_of(other)
            if here and there and here[0] == there[0]:
                rooms = ROOMS[here[0]]
                if rooms.index(there[1]) < rooms.index(here[1]):
                    found.append(f"{module} imports {other}, which is in a room above")
    return found


def test_rooms_import_only_rooms_below() -> None:
    faults = upward(edges())
    assert not faults, "\n".join(faults)


def test_no_modules_import_each_other() -> None:
    assert rings(edges()) == []


def test_every_folder_of_a_part_with_rooms_is_a_room_that_says_what_it_is_for() -> None:
    for part, rooms in ROOMS.items():
        folders = {path.parent for path in (SOURCE / part).glob("*/__init__.py")}
        assert {folder.name for folder in folders} == set(rooms)
        for folder in folders:
            text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
            assert text, folder


def test_names_of_files_are_unique() -> None:
    stems = Counter(file.stem for file in source_files() if file.suffix == ".py")
    assert {stem for stem, n in stems.items() if n > 1} <= {"__init__"}


def test_a_ring_and_an_import_upwards_are_seen() -> None:
    low, high = "infinitensor.api.session.lock", "infinitensor.api.tensor.tensor"
    assert rings({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c"]]
    assert upward({low: {high}, high: {low}}) == [f"{low} imports {high}, which is in a room above"]


# --- plans: a function of graph, mesh and config ---------------------------------------------

PLANNER = ("analysis", "partition", "price", "redistribute", "memory", "tasking", "pipeline.py")
ASK_WHILE_IT_RUNS = {"tasking/kernels/work_left.py"}
"""Files of kernels that look what is compiled when they run."""
MACHINE_MODULES = set("os shutil platform subprocess sysconfig multiprocessing importlib".split())  # noqa: SIM905
MACHINE_NAMES = {
    "infinitensor.native": {"compiler", "is_built", "is_loaded", "begin", "cache_folder"},
    "infinitensor.jit": {"has_triton", "has_numba"},
    "infinitensor.ops.table.functions": {"has_functions"},
    "infinitensor.devices": {"find_tools"},
    "infinitensor.devices.tools": {"find_tools"},
    "infinitensor.ops.backend.torch_loading": {"is_loading", "begin_loading"},
}


def asked_of_the_machine(source: str) -> list[str]:
    """What a file imports that says something about the machine it runs on."""
    found = []
    for node in _importing(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
            found += [name for name in names if name.split(".")[0] in MACHINE_MODULES]
            found += sorted(names & MACHINE_NAMES.keys())
            continue
        origin = node.module or ""
        if origin.split(".")[0] in MACHINE_MODULES:
            found.append(origin)
        names = {alias.name for alias in node.names}
        found += sorted(names & MACHINE_NAMES.get(origin, set()))
        found += sorted(f"{origin}.{name}" for name in names if f"{origin}.{name}" in MACHINE_NAMES)
    return found


def test_the_planner_asks_the_mesh_and_not_the_machine() -> None:
    faults = []
    for file in source_files():
        name = file.relative_to(SOURCE).as_posix()
        if name.split("/")[0] in PLANNER and name not in ASK_WHILE_IT_RUNS:
            asked = asked_of_the_machine(file.read_text("utf-8"))
            faults += [f"{name} imports {what}" for what in asked]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os", ["os"]),
        ("from os import cpu_count", ["os"]),
        ("def f():\n    import shutil", ["shutil"]),
        ("import importlib.util", ["importlib.util"]),
        ("from infinitensor.native import address, compiler", ["compiler"]),
        ("from infinitensor import native", ["infinitensor.native"]),
        ("import infinitensor.jit", ["infinitensor.jit"]),
        ("from infinitensor.native import CompilerError", []),
        ("from infinitensor.ir.mesh import Mesh", []),
    ],
)
def test_a_question_to_the_machine_is_seen(source: str, found: list[str]) -> None:
    assert asked_of_the_machine(source) == found


# --- the engine's border ------------------------------------------------------------------------

BEHIND = re.compile(
    r"\.(ledgers|tiers|buffers|below|lower_buffers|status)\b|(?<!\bop)\.arrays\b|engine\.devices\b"
)
"""What only the engine in this process has; another may have it elsewhere."""
AT_THE_BORDER = {
    "infinitensor.engines": {"Engine", "Kernels", "Room", "Run", "open_engine"},
    "infinitensor.runtime": {"TileTable"},
    "infinitensor.runtime.simulate": {"makespan"},
}
"""What parts above may import of these: protocols, what names stored tiles, and how long a plan
would take."""


def behind_the_engine(text: str) -> list[str]:
    """Lines that reach behind an engine's methods, and imports that do."""
    found = [line.strip() for line in text.splitlines() if BEHIND.search(line)]
    for node in _importing(ast.parse(text)):
        if isinstance(node, ast.Import):
            origins = {alias.name: {alias.name} for alias in node.names}
        else:
            origins = {node.module or "": {alias.name for alias in node.names}}
        for origin, names in origins.items():
            if origin.split(".")[:2] in (["infinitensor", "engines"], ["infinitensor", "runtime"]):
                found += sorted(f"{origin}.{n}" for n in names - AT_THE_BORDER.get(origin, set()))
    return found


def test_nothing_above_reaches_behind_an_engine() -> None:
    above = [part for row in ROWS[: ROW_OF["pipeline"]] for part in row]
    files = [file for part in above for file in SOURCE.glob(f"{part}/**/*.py")]
    assert len(files) > 100
    found = {str(f.relative_to(SOURCE)): behind_the_engine(f.read_text()) for f in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_reach_behind_an_engine_is_seen() -> None:
    assert behind_the_engine("a = session.engine.ledgers[0]\nb = engine.mesh.devices")
    assert behind_the_engine("from infinitensor.engines import LocalEngine")
    assert behind_the_engine("def f():\n    from infinitensor.runtime.run.run import Run")
    assert behind_the_engine("import infinitensor.runtime.run.run")
    assert behind_the_engine("a = table.arrays[0]")
    assert not behind_the_engine("b = engine.mesh.devices\nc = engine.budgets()\nd = op.arrays")
    assert not behind_the_engine("from infinitensor.runtime import TileTable")


# --- tests: where the path of a file says ------------------------------------------------------


def path_of_tests(file: Path) -> Path:
    """src/infinitensor/a/b/_c.py -> tests/a/b/test_c.py; a package with code of its own is a file.

    >>> path_of_tests(SOURCE / "cluster" / "_dbscan.py").relative_to(REPOSITORY).as_posix()
    'tests/cluster/test_dbscan.py'
    """
    named = file.parent if file.stem == "__init__" else file
    folder = named.parent.relative_to(SOURCE)
    return REPOSITORY / "tests" / folder / f"test_{named.stem.lstrip('_')}.py"


def has_code(file: Path) -> bool:
    """Whether a file is tested by itself: all are but packages that only hand on names."""
    if file.stem != "__init__":
        return True
    body = ast.parse(file.read_text("utf-8")).body
    return any(isinstance(n, ast.FunctionDef) and n.name[0] != "_" for n in body)


def test_every_file_has_its_tests_where_its_path_says() -> None:
    files = [file for file in source_files() if file.suffix == ".py" and has_code(file)]
    assert len(files) > 300
    without = [
        f"{file.relative_to(SOURCE)} has no {path_of_tests(file).relative_to(REPOSITORY)}"
        for file in files
        if file.parent != SOURCE or file.stem != "__init__"  # every test begins with the package
        if not path_of_tests(file).exists()
        or "def test_" not in path_of_tests(file).read_text("utf-8")
    ]
    assert not without, "\n" + "\n".join(without)


# --- sizes: a report, not a failure -----------------------------------------------------------

MOST_FUNCTION_LINES = 40
MOST_NESTING = 3
MOST_PARAMETERS = 6
MOST_FILE_LINES = 500
MOST_METHODS = 25
MOST_FOLDER_FILES = 12
MOST_IMPORTS_OF_OURS = 12
MOST_REPORTED = 30

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
NESTING = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match, ast.AsyncFor, ast.AsyncWith)


def body_lines(function: FunctionNode) -> int:
    """Lines of the body, docstring not counted."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def nesting(node: ast.AST, *, is_elif: bool = False) -> int:
    """The deepest stack of blocks below `node`; an elif is no deeper than its if."""
    elifs = (
        {id(node.orelse[0])}
        if isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
        else set()
    )
    below = max(
        (nesting(child, is_elif=id(child) in elifs) for child in ast.iter_child_nodes(node)),
        default=0,
    )
    return below + (isinstance(node, NESTING) and not is_elif)


def smells_of_function(function: FunctionNode) -> Iterator[str]:
    arguments = function.args
    n_parameters = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    if (n_lines := body_lines(function)) > MOST_FUNCTION_LINES:
        yield f"{function.name}: body of {n_lines} lines"
    if (depth := nesting(function)) > MOST_NESTING:
        yield f"{function.name}: nesting of {depth}"
    if n_parameters > MOST_PARAMETERS:
        yield f"{function.name}: {n_parameters} parameters"


def smells_of_file(source: str, module: tuple[str, ...], *, is_package: bool) -> Iterator[str]:
    tree = ast.parse(source)
    if (n_lines := source.count("\n")) > MOST_FILE_LINES:
        yield f"file of {n_lines} lines"
    if is_package and any(isinstance(node, ast.If) for node in tree.body):
        yield "an __init__ with an if"
    package = module if is_package else module[:-1]
    n_ours = len({import_.line for import_ in imports_of(tree, package)})
    if n_ours > MOST_IMPORTS_OF_OURS and module != (FACE,):
        yield f"{n_ours} imports of ours"
    for node in ast.walk(tree):
        if isinstance(node, FunctionNode):
            yield from smells_of_function(node)
        elif isinstance(node, ast.ClassDef):
            n_methods = sum(isinstance(child, FunctionNode) for child in node.body)
            if n_methods > MOST_METHODS:
                yield f"{node.name}: {n_methods} methods"


def test_size_smells_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    files = [file for file in source_files() if file.suffix == ".py"]
    smells = [
        f"{file.relative_to(REPOSITORY)}: {smell}"
        for file in files
        for smell in smells_of_file(
            file.read_text(encoding="utf-8"),
            module_of(file),
            is_package=file.stem == "__init__",
        )
    ]
    for folder, n_files in Counter(file.parent for file in files).items():
        if n_files > MOST_FOLDER_FILES:
            smells.append(f"{folder.relative_to(REPOSITORY)}: {n_files} files")
    with capsys.disabled():
        print(f"\nsize smells, to look at twice: {len(smells)}")
        for smell in smells[:MOST_REPORTED]:
            print(f"  {smell}")
        if len(smells) > MOST_REPORTED:
            print(f"  … and {len(smells) - MOST_REPORTED} more")


def test_smells_are_seen() -> None:
    branches = "".join(f"    {'el' if i else ''}if x == {i}:\n        pass\n" for i in range(5))
    deep = "    for a in x:\n     for b in a:\n      if b:\n       while b: pass\n"
    long = "    x = 1\n" * (MOST_FUNCTION_LINES + 1)
    source = f"def flat(x):\n{branches}def deep(x):\n{deep}def long(a, b, c, d, e, f, *, g):\n"
    source += long
    smells = list(smells_of_file(source, (FACE, "ir", "x"), is_package=False))
    assert smells == ["deep: nesting of 4", "long: body of 41 lines", "long: 7 parameters"]


# --- nothing of the machine it was written on -------------------------------------------------

MACHINE_PATHS = re.compile(
    r"(?<![\w./:~-])/(?:home|Users|root|work|opt|srv|tmp|private)/\w"  # an absolute path
    r"|file:/{2,3}\w"  # a path as an address
    r"|\b[A-Z]:\\{1,2}\w"  # a drive
    r"|\.\./" + "shared"  # a folder beside the repository
    r"|(?:extra-)?index-" + "url"  # a package index
)
NOT_OURS = {".git", ".venv", "build", "dist", "site"}


def repository_files() -> list[Path]:
    """Tracked and new files; without git, every file outside the folders that tools make."""
    git = shutil.which("git") or "false"
    listed = subprocess.run(
        [git, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
        return sorted(path for name in names if name and (path := REPOSITORY / name).is_file())
    return sorted(
        path
        for path in REPOSITORY.rglob("*")
        if path.is_file()
        and not NOT_OURS.intersection(path.relative_to(REPOSITORY).parts)
        and not any("cache" in part for part in path.relative_to(REPOSITORY).parts)
    )


def test_no_file_mentions_a_path_of_a_machine() -> None:
    found = [
        f"{file.relative_to(REPOSITORY)}:{number}: {line.strip()[:100]}"
        for file in repository_files()
        for number, line in enumerate(
            file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1
        )
        if MACHINE_PATHS.search(line)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "/" + "home/ada/x.npy",
        'open("/' + 'work/main/x")',
        "see ../" + "shared/ARCHITECTURE.md",
        "file:" + "///wheels",
        "pip --index-" + "url x",
    ],
)
def test_path_of_a_machine_is_seen(line: str) -> None:
    assert MACHINE_PATHS.search(line)


@pytest.mark.parametrize(
    "line", ["/usr/bin/env bash", "/proc/self/status", "docs/work/plan.md", "https://a.org/home/x"]
)
def test_other_paths_are_no_fault(line: str) -> None:
    assert not MACHINE_PATHS.search(line)


# --- numbers ----------------------------------------------------------------------------------


def numbers_of(source: str) -> Iterator[tuple[str, float]]:
    """The numbers that a module names in capitals, without a leading underscore."""
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pairs = [(name, value)]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = [(ast.unparse(each), v) for each, v in zip(names, values, strict=True)]
            case _:
                continue
        for name, value in pairs:
            if name.isupper() and all(isinstance(n, ARITHMETIC) for n in ast.walk(value)):
                number = eval(compile(ast.Expression(value), name, "eval"))
                if type(number) in (int, float):
                    yield name.lstrip("_"), number


ARITHMETIC = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)


def test_a_name_of_a_number_has_one_value_in_the_tree() -> None:
    """`FEW` says of nothing how many: `FEW_COLUMNS` does, and is found by its name."""
    found: dict[str, dict[float, str]] = {}
    for file in SOURCE.rglob("*.py"):
        for name, number in numbers_of(file.read_text(encoding="utf-8")):
            found.setdefault(name, {})[number] = str(file.relative_to(SOURCE))
    several = {name: values for name, values in found.items() if len(values) > 1}
    assert not several, several
    assert len(found) > 200


def test_numbers_are_found_alone_in_pairs_and_with_an_underscore() -> None:
    source = "FEW = 1 << 4\n_MOST = 2.0**-3\nA, B = 3, -4\nNAMES = 'x'\nlittle = 5\nC = f(1)\n"
    assert list(numbers_of(source)) == [("FEW", 16), ("MOST", 0.125), ("A", 3), ("B", -4)]
