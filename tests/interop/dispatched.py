"""SciPy's and scikit-learn's array-API functions on tensors, beside the same on NumPy arrays.

SciPy reads SCIPY_ARRAY_API when it is imported, so this runs in a process of its own:
`SCIPY_ARRAY_API=1 python -m tests.interop.dispatched scipy` prints what differs, as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 3))
LABELS = (X[:, 0] > 0).astype(np.int64)
GUESS = (X[:, 0] > 0.3).astype(np.int64)
TARGET = 2 * X[:, 1] - X[:, 2]


def scipy_calls() -> dict[str, Callable[[Any], Any]]:
    """Name and function of the arrays."""
    from scipy import cluster, fft, integrate, special, stats

    return {
        "special.expit": lambda a: special.expit(a(X)),
        "special.erf": lambda a: special.erf(a(X)),
        "special.gammaln": lambda a: special.gammaln(a(X)),
        "special.xlogy": lambda a: special.xlogy(a(X), a(X) ** 2),
        "special.logsumexp": lambda a: special.logsumexp(a(X), axis=0),
        "special.softmax": lambda a: special.softmax(a(X), axis=1),
        "stats.zscore": lambda a: stats.zscore(a(X)),
        "stats.skew": lambda a: stats.skew(a(X)),
        "stats.kurtosis": lambda a: stats.kurtosis(a(X)),
        "stats.ttest_ind": lambda a: stats.ttest_ind(a(X[:9]), a(X[9:])).pvalue,
        "stats.pearsonr": lambda a: stats.pearsonr(a(X[:, 0]), a(X[:, 1])).statistic,
        "stats.gmean": lambda a: stats.gmean(a(X) ** 2),
        "stats.sem": lambda a: stats.sem(a(X)),
        "stats.entropy": lambda a: stats.entropy(a(X) ** 2),
        "cluster.vq.whiten": lambda a: cluster.vq.whiten(a(X)),
        "cluster.vq.vq": lambda a: cluster.vq.vq(a(X), a(X[:3]))[0],
        "cluster.hierarchy.linkage": lambda a: cluster.hierarchy.linkage(a(X)),
        "fft.rfft": lambda a: fft.rfft(a(X), axis=0),
        "integrate.trapezoid": lambda a: integrate.trapezoid(a(X), axis=0),
    }


def sklearn_calls() -> dict[str, Callable[[Any], Any]]:
    """Name and function of the arrays."""
    from sklearn import metrics, preprocessing
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import Ridge
    from sklearn.naive_bayes import GaussianNB

    return {
        "StandardScaler": lambda a: preprocessing.StandardScaler().fit_transform(a(X)),
        "MinMaxScaler": lambda a: preprocessing.MinMaxScaler().fit_transform(a(X)),
        "Normalizer": lambda a: preprocessing.Normalizer().fit_transform(a(X)),
        "LabelEncoder": lambda a: preprocessing.LabelEncoder().fit_transform(a(LABELS + 3)),
        "PCA, full": lambda a: abs(PCA(2, svd_solver="full").fit_transform(a(X))),
        "PCA, eigh": lambda a: abs(PCA(2, svd_solver="covariance_eigh").fit_transform(a(X))),
        "LinearDiscriminantAnalysis": lambda a: (
            LinearDiscriminantAnalysis().fit(a(X), a(LABELS)).predict(a(X))
        ),
        "Ridge": lambda a: Ridge(solver="svd").fit(a(X), a(TARGET)).predict(a(X)),
        "GaussianNB": lambda a: GaussianNB().fit(a(X), a(LABELS)).predict_proba(a(X)),
        "accuracy_score": lambda a: metrics.accuracy_score(a(LABELS), a(GUESS)),
        "f1_score": lambda a: metrics.f1_score(a(LABELS), a(GUESS)),
        "confusion_matrix": lambda a: metrics.confusion_matrix(a(LABELS), a(GUESS)),
        "r2_score": lambda a: metrics.r2_score(a(TARGET), a(TARGET * 0.9)),
        "mean_squared_error": lambda a: metrics.mean_squared_error(a(TARGET), a(TARGET * 0.9)),
        "roc_auc_score": lambda a: metrics.roc_auc_score(a(LABELS), a(TARGET)),
        "euclidean_distances": lambda a: metrics.pairwise.euclidean_distances(a(X)),
        "cosine_similarity": lambda a: metrics.pairwise.cosine_similarity(a(X)),
        "rbf_kernel": lambda a: metrics.pairwise.rbf_kernel(a(X)),
    }


def difference(call: Callable[[Any], Any]) -> str | None:
    """What is wrong with a call on tensors; None if nothing is."""
    expected = np.asarray(call(np.asarray))
    try:
        found = call(it.asarray)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if not isinstance(found, it.Tensor | float):
        return f"gave a {type(found).__name__}"
    if isinstance(found, it.Tensor) and found.dtype != expected.dtype:
        return f"gave {found.dtype}, not {expected.dtype}"
    if not np.allclose(np.asarray(found), expected, rtol=1e-9, atol=1e-12):
        return f"gave {found}, not {expected}"
    return None


def main() -> None:
    """Every call of a library; prints {name: what is wrong}."""
    warnings.simplefilter("error")
    if sys.argv[1] == "scipy":
        calls = scipy_calls()
    else:
        import sklearn

        sklearn.set_config(array_api_dispatch=True)
        calls = sklearn_calls()
    print(json.dumps({name: wrong for name, call in calls.items() if (wrong := difference(call))}))


if __name__ == "__main__":
    main()
