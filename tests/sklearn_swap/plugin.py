"""Run scikit-learn's own tests with our classes and functions in the place of its own.

A pytest plugin, for a run outside this repository's own configuration (`run.py` starts one):

    python -m tests.sklearn_swap --poison --names KMeans,DBSCAN sklearn.cluster

A test module that asks a module of scikit-learn for a public name that is built here gets ours;
everybody else, scikit-learn's internals among them, gets scikit-learn's. Each test is classified:

public   uses ours, and nothing private
mixed    uses ours, and private names or attributes of scikit-learn too
private  only private names: it tests scikit-learn's internals and says nothing of ours
other    none of both; deselected, as are private ones, unless --swap-others
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import json
import random
import sys
import types
import zlib
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from _pytest.assertion import rewrite
from sklearn.base import BaseEstimator
from tests.sklearn_swap.poison import poison

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACES = {
    "sklearn.cluster": "infinitensor.cluster",
    "sklearn.neighbors": "infinitensor.neighbors",
    "sklearn.metrics": "infinitensor.metrics",
    "sklearn.metrics.cluster": "infinitensor.metrics",
}
FEW_TILES = 12
"""Into how many tiles the points of a fit are cut in a cut run (3 to 50, as they divide)."""

swapped: dict[int, str] = {}
"""Our objects by identity, and their names."""
reports: dict[str, dict[str, Any]] = {}


# --- swapping ---------------------------------------------------------------------------------


class SwappedModule(types.ModuleType):
    """A module of scikit-learn in which test modules find our objects."""

    def __getattribute__(self, name: str) -> Any:
        ours = types.ModuleType.__getattribute__(self, "__dict__").get("__ours__", {})
        if name in ours and is_test(sys._getframe(1).f_globals.get("__name__", "")):
            return ours[name]
        return types.ModuleType.__getattribute__(self, name)


def is_test(module: str) -> bool:
    """Whether a module is one of scikit-learn's tests."""
    parts = module.split(".")
    return parts[0] == "sklearn" and ("tests" in parts or parts[-1].startswith("test_"))


def put(module_name: str, name: str, ours: Any) -> None:
    module = importlib.import_module(module_name)
    if not isinstance(module, SwappedModule):
        module.__class__ = SwappedModule
        vars(module)["__ours__"] = {}
    vars(module)["__ours__"][name] = ours


def install(substitute: str, names: set[str]) -> None:
    """Swap: the names given, or all that are built."""
    from infinitensor.estimators.fallback import FALLBACKS

    for place in PLACES.values():
        importlib.import_module(place)  # which fills the table of what is not built
    unbuilt = set(map(id, FALLBACKS.values()))
    for home, place in PLACES.items():
        theirs = importlib.import_module(home)
        ours = importlib.import_module(substitute or place)
        for name in theirs.__all__:
            their, our = getattr(theirs, name), getattr(ours, name, None)
            is_wanted = name in names if names else id(our) not in unbuilt
            if our is None or our is their or isinstance(their, types.ModuleType) or not is_wanted:
                continue
            our = measured(our) if inspect.isfunction(our) else our
            swapped[id(our)] = name
            put(home, name, our)
            defined_in = getattr(their, "__module__", home)
            if defined_in != home and defined_in.startswith("sklearn"):
                put(defined_in, name, our)
    missing = names - set(swapped.values())
    if missing:
        raise pytest.UsageError(f"not to be swapped: {sorted(missing)}")


def measured(function: Any) -> Any:
    """In a cut run, a function's first array is cut as the points of a fit are.

    A fitted estimator is cut as it was when it was fitted.
    """
    import infinitensor as it

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if it.config.small_elements == 0:
            first = args[0] if args else next(iter(kwargs.values()), ())
            if not isinstance(first, BaseEstimator):
                shape = getattr(first, "shape", None) or (len(first),)
                it.config.tile_elements = max(1, int(np.prod(shape)) // FEW_TILES)
        return function(*args, **kwargs)

    return run


# --- classification ---------------------------------------------------------------------------


def uses_of(function: Any, seen: set[int], depth: int = 4) -> Iterator[tuple[str, Any]]:
    """(name, object) of the globals a function uses, helpers of its module followed; attributes
    come as ('.name', None)."""
    function = inspect.unwrap(function)
    if not inspect.isfunction(function) or id(function) in seen:
        return
    seen.add(id(function))
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [const for const in code.co_consts if inspect.iscode(const)]
        for name in code.co_names:
            if name not in function.__globals__:
                yield f".{name}", None
                continue
            value = function.__globals__[name]
            yield name, value
            if depth and getattr(value, "__module__", None) == function.__module__:
                yield from uses_of(value, seen, depth - 1)


def inside(value: Any, depth: int = 3) -> Iterator[Any]:
    """A value, its type, and what containers hold."""
    yield value
    yield type(value)
    if isinstance(value, functools.partial):
        yield from inside(value.func, depth)
    if depth and isinstance(value, list | tuple | set | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from inside(one, depth - 1)


@functools.cache
def private_imports(path: str) -> frozenset[str]:
    """Names that a test file imports from private corners of the swapped modules."""
    found = set()
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(tuple(PLACES)):
            for alias in node.names:
                if any(p.startswith("_") for p in (*str(node.module).split("."), alias.name)):
                    found.add(alias.asname or alias.name)
    return frozenset(found)


def classify(item: Any) -> tuple[str, list[str]]:
    """What a test is to us, and the names of ours that it uses."""
    ours, is_private = set(), False
    values = list(getattr(getattr(item, "callspec", None), "params", {}).values())
    imported = private_imports(str(item.path))
    for name, value in uses_of(item.function, set()):
        values.append(value)
        attribute = name.removeprefix(".")
        if name.startswith("."):
            # a method that is called on a module: `neighbors.NearestNeighbors`
            ours |= {attribute} & set(swapped.values())
            is_inner = attribute.startswith("_") and not attribute.startswith("__")
            is_private |= is_inner and not hasattr(rewrite, attribute)  # of rewritten assertions
        elif id(value) not in swapped:
            is_private |= name in imported
    for value in values:
        ours |= {swapped[id(one)] for one in inside(value) if id(one) in swapped}
    kind = ("mixed" if is_private else "public") if ours else "private" if is_private else "other"
    return kind, sorted(ours)


# --- pytest -----------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sklearn_swap")
    group.addoption("--swap-substitute", default="", help="one module instead of infinitensor's")
    group.addoption(
        "--swap-names", default="", help="only these names; default: all that are built"
    )
    group.addoption("--swap-poison", action="store_true", help="heavy routines raise for ours")
    group.addoption("--swap-runs", default="default", choices=["default", "cut", "either"])
    group.addoption("--swap-sample", type=int, default=0, help="only so many, by --swap-seed")
    group.addoption("--swap-seed", type=int, default=0)
    group.addoption("--swap-others", action="store_true", help="run private and other tests too")
    group.addoption("--swap-report", default="", help="a JSON file")


def pytest_configure(config: pytest.Config) -> None:
    substitute = config.getoption("--swap-substitute")
    config.addinivalue_line("markers", "no_check_spmatrix: scikit-learn's own")
    if not swapped:
        install(substitute, set(filter(None, config.getoption("--swap-names").split(","))))
        if config.getoption("--swap-poison"):
            poison((substitute or "infinitensor",))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    kept: list[Any] = []
    dropped: list[Any] = []
    for item in items:
        kind, names = classify(item)
        if not is_test(item.module.__name__):
            kind, names = "check", []
        item.user_properties.append(("swap", {"kind": kind, "names": names}))
        is_ours = kind in ("public", "mixed", "check") or config.getoption("--swap-others")
        (kept if is_ours else dropped).append(item)
    if n_wanted := config.getoption("--swap-sample"):
        draw = random.Random(config.getoption("--swap-seed"))
        chosen = set(draw.sample(kept, min(n_wanted, len(kept))))
        dropped += [item for item in kept if item not in chosen]
        kept = [item for item in kept if item in chosen]
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


@pytest.fixture(autouse=True)
def swap_run(request: pytest.FixtureRequest) -> Iterator[None]:
    """A default run, or one on three devices in which the points of each fit are cut."""
    run = request.config.getoption("--swap-runs")
    if run == "either":
        run = ("default", "cut")[zlib.crc32(request.node.nodeid.encode()) % 2]
    before = counted()
    if run == "cut":
        with cut():
            yield
            counts = counted()
    else:
        yield
        counts = {name: n - before[name] for name, n in counted().items()}
    request.node.user_properties.append(("counts", {**counts, "run": run}))


def counted() -> dict[str, int]:
    import infinitensor as it

    return {name: int(it.stats()[name]) for name in ("sklearn_fallbacks", "tasks", "small_calls")}


class cut:
    """Three devices, no shortcut for few elements, and tiles that cut each fit's points."""

    def __enter__(self) -> None:
        import infinitensor as it
        from infinitensor.estimators.points import Points

        self.before = it.config.small_elements, it.config.tile_elements, Points.__init__
        init = Points.__init__

        def made(points: Any, *args: Any, **kwargs: Any) -> None:
            init(points, *args, **kwargs)
            # a query is cut as the fit was: its few rows would cut that into thousands of tiles
            if sys._getframe(1).f_locals.get("reset", True):
                it.config.tile_elements = max(1, points.n * points.d // FEW_TILES)

        Points.__init__ = made  # type: ignore[method-assign, assignment]
        it.config.small_elements, it.config.tile_elements = 0, 7
        self.session = it.init("cpu*3")

    def __exit__(self, *error: object) -> None:
        import infinitensor as it
        from infinitensor.estimators.points import Points

        self.session.__exit__(None, None, None)
        it.config.small_elements, it.config.tile_elements, Points.__init__ = self.before  # type: ignore[method-assign]


def pytest_runtest_logreport(report: Any) -> None:
    found = dict(report.user_properties)
    if "swap" not in found or hasattr(report, "context"):  # a subtest reports for itself
        return
    old = reports.setdefault(report.nodeid, {"outcome": "passed", **found["swap"]})
    old.update(found.get("counts", {}))
    if report.outcome != "passed" and old["outcome"] == "passed":
        was = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        old.update(outcome=was, text=str(getattr(report, "longreprtext", ""))[-800:])
    elif hasattr(report, "wasxfail") and report.when == "call":
        old["outcome"] = "xpassed"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for one in reports.values():
        kinds[one["kind"]][one["outcome"]] += 1
        for name in one["names"]:
            names[name][one["outcome"]] += 1
    terminalreporter.section("scikit-learn's tests on ours")
    for title, found in (("kind", kinds), ("name", names)):
        for key, count in sorted(found.items()):
            shown = ", ".join(f"{n} {outcome}" for outcome, n in sorted(count.items()))
            terminalreporter.write_line(f"{title} {key:32} {count.total():5}  {shown}")
    if path := config.getoption("--swap-report"):
        summary = {"swapped": sorted(set(swapped.values())), "tests": reports}
        Path(path).write_text(json.dumps(summary, indent=1), encoding="utf-8")
