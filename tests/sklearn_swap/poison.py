"""scikit-learn's and SciPy's heavy routines, made to raise when our objects reach them.

A subclass that hands its work back would pass scikit-learn's tests; with these routines poisoned it
does not. scikit-learn's own objects in the same tests still reach them.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROUTINES = {
    # k-means
    "sklearn.cluster._kmeans": (
        "lloyd_iter_chunked_dense lloyd_iter_chunked_sparse elkan_iter_chunked_dense "
        "elkan_iter_chunked_sparse _minibatch_update_dense _minibatch_update_sparse "
        "_kmeans_plusplus _labels_inertia _kmeans_single_lloyd _kmeans_single_elkan "
        "_mini_batch_step"
    ),
    "sklearn.cluster._bisect_k_means": "_kmeans_single_lloyd _kmeans_single_elkan",
    # points by points
    "sklearn.cluster._dbscan": "dbscan_inner",
    "sklearn.cluster._hdbscan.hdbscan": (
        "_hdbscan_prims _hdbscan_brute mst_from_data_matrix mst_from_mutual_reachability"
    ),
    "sklearn.neighbors._base": (
        "KNeighborsMixin.kneighbors RadiusNeighborsMixin.radius_neighbors "
        "_kneighbors_from_graph _radius_neighbors_from_graph"
    ),
    "sklearn.metrics._pairwise_distances_reduction": "ArgKmin.compute RadiusNeighbors.compute",
    "sklearn.cluster._optics": (
        "_set_reach_dist _compute_core_distances_ compute_optics_graph pairwise_distances"
    ),
    # distances and scores
    "sklearn.metrics.pairwise": (
        "_euclidean_distances manhattan_distances nan_euclidean_distances "
        "haversine_distances cosine_distances pairwise_distances_argmin "
        "pairwise_distances_argmin_min pairwise_distances_chunked"
    ),
    "sklearn.metrics.cluster._unsupervised": (
        "pairwise_distances_chunked pairwise_distances silhouette_samples calinski_harabasz_score "
        "davies_bouldin_score"
    ),
    "sklearn.metrics.cluster._supervised": (
        "contingency_matrix expected_mutual_information mutual_info_score entropy "
        "pair_confusion_matrix"
    ),
    "scipy.spatial.distance": "cdist pdist",
    # the second half
    "sklearn.cluster._affinity_propagation": "_affinity_propagation euclidean_distances",
    "sklearn.cluster._mean_shift": "_mean_shift_single_seed pairwise_distances_argmin",
    "sklearn.cluster._agglomerative": "_single_linkage_tree ward_tree linkage_tree",
    "sklearn.cluster._birch": "_CFNode.insert_cf_subcluster pairwise_distances_argmin",
    "sklearn.cluster._bicluster": "_randomized_svd svds",
    "sklearn.cluster._spectral": "_spectral_embedding pairwise_kernels kneighbors_graph",
    "sklearn.manifold._spectral_embedding": "_spectral_embedding",
    "scipy.cluster.hierarchy": "ward complete average single linkage",
}
"""{module: names looked up there when they are called}; "Class.method" is a method."""

TREES = {
    "sklearn.neighbors": "KDTree BallTree",
    "sklearn.neighbors._base": "KDTree BallTree",
    "sklearn.cluster._hdbscan.hdbscan": "KDTree BallTree",
    "scipy.spatial": "KDTree cKDTree",
}
"""Compiled classes, which cannot be patched: the names through which Python reaches them are."""


class Poisoned(AssertionError):
    """Our object handed its work back to scikit-learn or SciPy."""


def is_of(module: Any, roots: tuple[str, ...]) -> bool:
    """Whether a module's name is in one of the packages."""
    return isinstance(module, str) and any(
        module == root or module.startswith(root + ".") for root in roots
    )


def _reached_from(roots: tuple[str, ...]) -> bool:
    """Whether a frame on the stack is ours, or a method working on one of our objects."""
    frame = sys._getframe(2)
    while frame is not None:
        worker = type(frame.f_locals.get("self"))
        if is_of(frame.f_globals.get("__name__"), roots) or is_of(worker.__module__, roots):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _poisoned(routine: Callable[..., Any], label: str, roots: tuple[str, ...]) -> Any:
    @functools.wraps(routine)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if _reached_from(roots):
            raise Poisoned(f"{label} did the work of {' or '.join(roots)}")
        return routine(*args, **kwargs)

    return guarded


class _PoisonedTree(type):
    """Stands for a compiled class: is, builds and answers as it does, but not for our objects."""

    _tree: Any
    _label: str
    _roots: tuple[str, ...]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if _reached_from(cls._roots):
            raise Poisoned(f"{cls._label} did the work of {' or '.join(cls._roots)}")
        return cls._tree(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._tree)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._tree, name)


def poison(roots: tuple[str, ...]) -> None:
    """Poison every routine for code and objects of these packages, for the rest of the process."""
    for module_name, names in ROUTINES.items():
        module = importlib.import_module(module_name)
        for name in names.split():
            owner, _, attribute = name.rpartition(".")
            target = getattr(module, owner) if owner else module
            found = inspect.getattr_static(target, attribute, None)
            if found is None:
                continue  # another version of scikit-learn; `test_swap` holds us to the pinned one
            label = f"{module_name}.{name}"
            if isinstance(found, classmethod | staticmethod):
                made: Any = type(found)(_poisoned(found.__func__, label, roots))
            else:
                made = _poisoned(found, label, roots)
            setattr(target, attribute, made)
    for module_name, names in TREES.items():
        module = importlib.import_module(module_name)
        for name in names.split():
            body = {
                "_tree": getattr(module, name),
                "_label": f"{module_name}.{name}",
                "_roots": roots,
            }
            setattr(module, name, _PoisonedTree(name, (), body))
