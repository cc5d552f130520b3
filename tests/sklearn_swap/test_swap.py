"""scikit-learn's own tests pass on what is built here, with its heavy routines out of reach.

Continuous integration runs a seeded sample, `INFINITENSOR_TEST_ALL=1` all of it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
import sklearn
from tests.sklearn_swap.__main__ import parsed, run
from tests.sklearn_swap.plugin import PLACES
from tests.sklearn_swap.poison import ROUTINES, TREES

from infinitensor.estimators.fallback import FALLBACKS

if TYPE_CHECKING:
    from pathlib import Path

ALL = os.environ.get("INFINITENSOR_TEST_ALL") == "1"
RUNS = [(run, "") for run in ("default", "cut")] if ALL else [("either", "--sample=50")]
BUILT = sorted(
    {
        name
        for module in map(importlib.import_module, set(PLACES.values()))
        for name in module.__all__
        if f"{module.__name__}.{name}" not in FALLBACKS
    }
)
CLASSES = [name for name in BUILT if name[0].isupper()]


def reported(folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """{test: its record} of a run, and what it printed."""
    report = folder / "report.json"
    given = parsed(["--poison", f"--report={report}", *filter(None, options)])
    given.rest = ["-n2"] if ALL else []
    done = run(given, capture_output=True, check=False, timeout=1700)
    text = f"{done.stdout}\n{done.stderr}"
    assert report.exists(), text
    tests: dict[str, Any] = json.loads(report.read_text())["tests"]
    assert tests, text
    return tests, text


def failures(tests: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {one['outcome']} {one.get('text', '')}"
        for name, one in tests.items()
        if one["outcome"] in ("failed", "error")
    ]


@pytest.mark.skipif(sklearn.__version__ != "1.9.1", reason="the poisoned names are of 1.9.1")
def test_every_poisoned_routine_is_there() -> None:
    for module_name, names in (*ROUTINES.items(), *TREES.items()):
        module = importlib.import_module(module_name)
        for name in names.split():
            found: Any = module
            for part in name.split("."):
                found = inspect.getattr_static(found, part, None)
            assert found is not None, f"{module_name}.{name}"


def test_a_subclass_that_changes_nothing_fails(tmp_path: Path) -> None:
    names = "KMeans,DBSCAN,silhouette_samples,pairwise_distances"
    tests, _ = reported(
        tmp_path,
        "--substitute=tests.sklearn_swap.nothing",
        f"--names={names}",
        "--sample=12",
        "sklearn.cluster.tests.test_dbscan",
        "sklearn.cluster.tests.test_k_means",
    )
    failed = failures(tests)
    assert len(failed) > len(tests) / 2
    assert any("Poisoned" in text for text in failed)


@pytest.mark.skipif(not BUILT, reason="nothing is built")
@pytest.mark.parametrize(("how", "sample"), RUNS)
def test_scikit_learns_tests_pass_on_ours(how: str, sample: str, tmp_path: Path) -> None:
    places = () if ALL else ("sklearn.cluster", "sklearn.metrics.cluster")
    tests, text = reported(tmp_path, f"--runs={how}", sample, *places)
    assert not failures(tests), "\n".join(failures(tests))
    assert {one["kind"] for one in tests.values()} <= {"public", "mixed"}
    assert sum(one.get("sklearn_fallbacks", 0) for one in tests.values()) == 0
    assert any(one["outcome"] == "passed" for one in tests.values()), text


@pytest.mark.skipif(not CLASSES, reason="no class is built")
@pytest.mark.parametrize(("how", "sample"), RUNS)
def test_estimator_checks_fail_only_where_scikit_learns_do(
    how: str, sample: str, tmp_path: Path
) -> None:
    tests, _ = reported(tmp_path, f"--runs={how}", sample, "checks")
    assert not failures(tests), "\n".join(failures(tests))
    assert sum(one.get("sklearn_fallbacks", 0) for one in tests.values()) == 0
