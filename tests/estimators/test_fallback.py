"""Names that are not built run scikit-learn's code, say so, and are otherwise ours."""

from __future__ import annotations

import pickle
import subprocess
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest
import sklearn.cluster
from numpy.testing import assert_array_equal
from sklearn.base import clone

import infinitensor as it
from infinitensor.estimators.fallback import FALLBACKS, fallbacks

if TYPE_CHECKING:
    from pathlib import Path

X = np.random.default_rng(0).normal(size=(60, 3))


@pytest.fixture
def made() -> ModuleType:
    """A module with names that scikit-learn runs, whatever is built elsewhere."""
    module = ModuleType("infinitensor_unbuilt")
    names = ("Birch", "KMeans", "AgglomerativeClustering", "estimate_bandwidth")
    vars(module).update(fallbacks(module.__name__, sklearn.cluster, names))
    for name in names:
        del FALLBACKS[f"{module.__name__}.{name}"]
    sys.modules[module.__name__] = module
    return module


def counted() -> int:
    return int(it.stats()["sklearn_fallbacks"])


def test_importing_the_library_does_not_import_scikit_learn() -> None:
    program = (
        "import sys, infinitensor as it; assert 'sklearn' not in sys.modules; it.cluster.Birch"
    )
    program += "; assert 'sklearn.cluster' in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_fit_is_counted_once_and_is_scikit_learns(made: ModuleType) -> None:
    before = counted()
    labels = made.AgglomerativeClustering(4).fit_predict(X)
    assert counted() == before + 1
    assert_array_equal(labels, sklearn.cluster.AgglomerativeClustering(4).fit_predict(X))
    birch = made.Birch(n_clusters=2).partial_fit(X[:30]).partial_fit(X[30:])
    assert counted() == before + 3
    birch.predict(X)
    assert counted() == before + 3


def test_a_function_is_counted(made: ModuleType) -> None:
    before = counted()
    assert made.estimate_bandwidth(X) == sklearn.cluster.estimate_bandwidth(X)
    assert made.estimate_bandwidth(X=X) == sklearn.cluster.estimate_bandwidth(X)
    assert counted() == before + 2


def test_a_made_class_pickles_and_clones_as_ours(made: ModuleType) -> None:
    model = made.KMeans(3, n_init=1, random_state=0).fit(X)
    loaded = pickle.loads(pickle.dumps(model))
    assert type(loaded) is made.KMeans
    assert_array_equal(loaded.labels_, model.labels_)
    assert type(clone(model)) is made.KMeans
    assert repr(made.KMeans(3)) == "KMeans(n_clusters=3)"


def test_tensors_and_paths_are_read(made: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    wanted = made.KMeans(3, n_init=1, random_state=0).fit(X).labels_
    for given in (it.asarray(X), path, str(path)):
        assert_array_equal(made.KMeans(3, n_init=1, random_state=0).fit(given).labels_, wanted)


def test_a_name_that_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match=r"'infinitensor.cluster' has no attribute 'KMeens'"):
        _ = it.cluster.KMeens
