"""The table of estimators and scores is current."""

from __future__ import annotations

from tools.estimator_names import PAGE, names, page


def test_the_committed_table_is_current() -> None:
    committed = PAGE.read_text(encoding="utf-8")
    assert committed == page(), "run python tools/reference.py and commit docs/clustering.md"


def test_every_name_of_scikit_learns_clustering_is_there() -> None:
    import sklearn.cluster
    import sklearn.metrics.cluster

    assert set(sklearn.cluster.__all__) == set(names()["cluster"])
    assert set(sklearn.metrics.cluster.__all__) <= set(names()["metrics"])
