"""Ctrl-C in fits and searches that would take a minute: heard soon, and the next call is right."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from .sampling import WHOLE, logged_rng, time_limit
from .test_interrupt import Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = time_limit(600)

CALLS = {
    "DBSCAN": "cluster.DBSCAN(eps=4.0).fit(x).labels_",
    "DBSCAN of few features": "cluster.DBSCAN(eps=0.5).fit(x[:, :6]).labels_",
    "HDBSCAN": "cluster.HDBSCAN(copy=True).fit(x).labels_",
    "KMeans": "cluster.KMeans(n, random_state=0, tol=0, max_iter=2000).fit(x).labels_",
    "MiniBatchKMeans": "cluster.MiniBatchKMeans(n, random_state=0, max_iter=2000, "
    "max_no_improvement=None, batch_size=9000).fit(x).labels_",
    "BisectingKMeans": "cluster.BisectingKMeans(n, random_state=0, n_init=5, tol=0).fit(x).labels_",
    "kmeans_plusplus": "cluster.kmeans_plusplus(x, 2 * n, random_state=0, n_local_trials=40)[1]",
    "kneighbors": "neighbors.NearestNeighbors(n_neighbors=9).fit(x).kneighbors()[1]",
    "kneighbors by another metric": "neighbors.NearestNeighbors(n_neighbors=9, metric='canberra', "
    "algorithm='brute').fit(x).kneighbors()[1]",
    "radius_neighbors": "neighbors.NearestNeighbors(radius=2.0).fit(x)."
    "radius_neighbors_graph().indices",
    "silhouette_score": "metrics.silhouette_score(x, y)",
    "pairwise_distances_argmin": "metrics.pairwise_distances_argmin(x, x)",
    "manhattan": "metrics.pairwise_distances_argmin(x, x, metric='manhattan')",
}
SCRIPT = f"""
import warnings
from infinitensor import cluster, metrics, neighbors

warnings.simplefilter("ignore")
calls = {CALLS!r}
rng = np.random.default_rng(5)
many = rng.normal(size=(300_000, 32)).astype("f4")
labels = rng.integers(0, 8, len(many))

def call(name, size, n):
    return eval(calls[name], globals() | dict(x=many[:size], y=labels[:size], n=n))

reply(ready=True)
for command in sys.stdin:
    name = command.strip()
    before = call(name, 700, 8)
    caught = None
    try:
        reply(started=True)
        call(name, len(many), 300)
        time.sleep(60)
    except KeyboardInterrupt:
        caught = time.monotonic()
    reply(caught=caught, same=bool(np.array_equal(before, call(name, 700, 8))))
"""


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interrupted]:
    running = Interrupted(tmp_path_factory.mktemp("child"), SCRIPT)
    try:
        assert running.answer()["ready"]
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_in_a_long_call_is_heard_and_the_next_call_is_right(
    name: str, child: Interrupted
) -> None:
    rng = logged_rng("ctrl-c in a long call", name)
    for _ in range(10 if WHOLE else 1):
        child.say(name)
        child.answer()
        time.sleep(float(rng.uniform(0.2, 6.0)))
        sent = time.monotonic()
        child.process.send_signal(signal.SIGINT)
        outcome = child.answer()
        print(f"{name}: heard after {outcome['caught'] - sent:.2f} s")
        assert outcome["caught"] - sent < 20, "Ctrl-C is not heard"  # busy machines; else 1 s
        assert outcome["same"]
