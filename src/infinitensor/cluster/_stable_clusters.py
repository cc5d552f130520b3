"""The clusters of a condensed tree that last longest, without a search of the tree for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster._hdbscan._tree import _condense_tree, _do_labelling

Array = Any


def stable_labels(
    linkage: Array, min_cluster_size: int, allow_single: bool, most: int | None
) -> tuple[Array, Array]:
    """Labels and probabilities by excess of mass: scikit-learn's, bit for bit.

    Its own code looks through all clusters for the children of each, which takes minutes where
    there are 20,000. The tree is condensed and points are labelled by it.
    """
    tree = _condense_tree(linkage, min_cluster_size)
    root = int(tree["parent"].min())
    chosen = _choose_clusters(tree, root, allow_single, most)
    numbers = {cluster: number for number, cluster in enumerate(chosen)}
    labels = _do_labelling(tree, set(chosen), numbers, allow_single, 0.0)
    return labels, _strengths(tree, root, np.asarray(chosen, np.intp), labels)


def _choose_clusters(tree: Array, root: int, allow_single: bool, most: int | None) -> list[int]:
    """Clusters that are more stable than what they fall apart into; none within another."""
    n = int(tree["parent"].max()) - root + 1
    parent = tree["parent"] - root
    inner = tree["cluster_size"] > 1
    child = tree["child"][inner] - root
    birth = np.zeros(max(n, int(child.max(initial=0)) + 1))
    birth[child] = tree["value"][inner]
    birth[0] = 0.0
    with np.errstate(invalid="ignore"):  # points that are equal part at infinity
        weights = (tree["value"] - birth[parent]) * tree["cluster_size"]
    stability = np.bincount(parent, weights, minlength=n).tolist()
    size = np.zeros(n, np.intp)
    size[child] = tree["cluster_size"][inner]
    size[0] = tree["cluster_size"][inner & (parent == 0)].sum()
    sizes, limit = size.tolist(), np.inf if most is None else most
    below: list[list[int]] = [[] for _ in range(n)]
    for above, one in zip(parent[inner].tolist(), child.tolist(), strict=True):
        below[above].append(one)
    stays = [True] * n
    for node in range(n - 1, -1 if allow_single else 0, -1):
        parts = 0.0
        for one in below[node]:
            parts += stability[one]
        if parts > stability[node] or sizes[node] > limit:
            stays[node], stability[node] = False, parts
    stays[0] = stays[0] and allow_single
    within = [False] * n
    for node in range(n):  # parents come first
        for one in below[node]:
            within[one] = within[node] or stays[node]
    return [root + node for node in range(n) if stays[node] and not within[node]]


def _strengths(tree: Array, root: int, chosen: Array, labels: Array) -> Array:
    """How long each point stays in its cluster, against the one that stays longest."""
    longest = np.zeros(int(tree["parent"].max()) + 1)
    np.maximum.at(longest, tree["parent"], tree["value"])
    rows = tree[tree["child"] < root]
    label = labels[rows["child"]]
    rows, label = rows[label >= 0], label[label >= 0]
    last = longest[chosen[label]] if len(rows) else np.empty(0)
    found = np.zeros(len(labels))
    whole = (last == 0) | np.isinf(rows["value"])
    with np.errstate(invalid="ignore", divide="ignore"):
        found[rows["child"]] = np.where(whole, 1.0, np.minimum(rows["value"], last) / last)
    return found
