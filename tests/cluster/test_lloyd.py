"""Lloyd's iteration: what it prints, where empty clusters go."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import numpy as np
import pytest
import sklearn.cluster
from tests.cluster.sets import agrees, blobs

from infinitensor.cluster import KMeans

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("algorithm", ["lloyd", "elkan"])
@pytest.mark.parametrize("tol", [0, 1e-2])
def test_what_is_printed_is_what_scikit_learn_prints(algorithm: str, tol: float) -> None:
    x = blobs(500, 4, 5, 2)
    texts = []
    for one in (KMeans, sklearn.cluster.KMeans):
        with redirect_stdout(io.StringIO()) as text:
            one(5, random_state=3, algorithm=algorithm, tol=tol, verbose=1).fit(x)
        texts.append([word[:9] for word in text.getvalue().split()])
    assert texts[0] == texts[1]


def test_empty_clusters_go_to_the_farthest_points() -> None:
    x = blobs(400, 3, 4, 8)
    init = np.concatenate([x[:3], np.full((3, 3), 1e3)])
    ours, theirs = (one(6, init=init).fit(x) for one in (KMeans, sklearn.cluster.KMeans))
    agrees(ours, theirs, "float64")
