"""scikit-learn's estimator checks on every class that is built: its own expected failures only.

Run by `python -m tests.sklearn_swap checks`, with scikit-learn's heavy routines poisoned.
"""

from __future__ import annotations

import importlib
import inspect
import os
from typing import TYPE_CHECKING, Any

import pytest
import sklearn.utils._test_common.instance_generator as theirs
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from infinitensor.estimators.fallback import FALLBACKS

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULES = ("infinitensor.cluster", "infinitensor.neighbors")
WANTED = set(filter(None, os.environ.get("SWAP_CHECK_NAMES", "").split(",")))
SIZES = {kind.__name__: sizes for kind, sizes in theirs.INIT_PARAMS.items()}
EXPECTED = {kind.__name__: checks for kind, checks in theirs.PER_ESTIMATOR_XFAIL_CHECKS.items()}
ARGUMENTS = {kind.__name__: args for kind, args in theirs.PER_ESTIMATOR_CHECK_PARAMS.items()}


def estimators() -> Iterator[Any]:
    """An instance of each built class for each set of small sizes that scikit-learn tests."""
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            kind = getattr(module, name)
            is_built = f"{module.__name__}.{name}" not in FALLBACKS
            if not (inspect.isclass(kind) and issubclass(kind, BaseEstimator)):
                continue
            if name in WANTED or (not WANTED and is_built):
                theirs.PER_ESTIMATOR_CHECK_PARAMS[kind] = ARGUMENTS.get(name, {})
                sizes = SIZES.get(name, {})
                for one in sizes if isinstance(sizes, list) else [sizes]:
                    yield kind(**one)


@pytest.mark.filterwarnings("ignore:The default value of `copy` will change:FutureWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    list(estimators()),
    expected_failed_checks=lambda one: EXPECTED.get(type(one).__name__, {}),
)
def test_estimator(estimator: Any, check: Any) -> None:
    check(estimator)
