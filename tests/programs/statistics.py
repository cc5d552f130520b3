"""Tables of data: moments, histograms, clusters."""

from __future__ import annotations

from typing import Any

from tests.programs.registry import program


@program(lambda rng: (rng.random((8, 6)),))
def correlation(np: Any, data: Any) -> Any:
    n, m = data.shape
    stddev = np.std(data, axis=0)
    stddev[stddev <= 0.1] = 1.0
    data -= np.mean(data, axis=0)
    data /= np.sqrt(float(n)) * stddev
    corr = np.eye(m, dtype=data.dtype)
    for i in range(m - 1):
        corr[i + 1 :, i] = corr[i, i + 1 :] = data[:, i] @ data[:, i + 1 :]
    return corr


@program(lambda rng: (rng.random((8, 6)),))
def covariance(np: Any, data: Any) -> Any:
    n, m = data.shape
    data -= data.mean(axis=0)
    cov = np.zeros((m, m), dtype=data.dtype)
    for i in range(m):
        cov[i:, i] = cov[i, i:] = data[:, i] @ data[:, i:] / (n - 1.0)
    return cov


@program(lambda rng: (rng.random((8, 6)),))
def covariance_of_the_library(np: Any, data: Any) -> Any:
    return np.cov(np.transpose(data))


@program(lambda rng: (rng.random(60), rng.random(60), 5))
def azimuthal_integration_by_histogram(np: Any, values: Any, radius: Any, n_bins: int) -> Any:
    count, edges = np.histogram(radius, n_bins)
    total = np.histogram(radius, n_bins, weights=values)[0]
    return total / count, edges


@program(lambda rng: (rng.random(60), rng.random(60), 5))
def azimuthal_integration_by_masks(np: Any, values: Any, radius: Any, n_bins: int) -> Any:
    top = radius.max()
    means = np.zeros(n_bins, dtype=np.float64)
    for i in range(n_bins):
        inside = np.logical_and(top * i / n_bins <= radius, radius < top * (i + 1) / n_bins)
        means[i] = values[inside].mean()
    return means


@program(lambda rng: (rng.integers(0, 6, 50),))
def frequencies(np: Any, words: Any) -> Any:
    names, counts = np.unique(words, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return names[order], counts[order], np.cumsum(counts[order]) / words.size


@program(lambda rng: (rng.random((20, 3)), rng.random((4, 3)), 3))
def k_means(np: Any, x: Any, centers: Any, n_steps: int) -> Any:
    for _ in range(n_steps):
        distance = ((x[:, None, :] - centers[None, :, :]) ** 2).sum(axis=-1)
        label = distance.argmin(axis=1)
        for k in range(len(centers)):
            members = x[label == k]
            if len(members):
                centers[k] = members.mean(axis=0)
    return label


@program(lambda rng: (rng.random((12, 3)), rng.random(12) < 0.5, 5))
def logistic_regression(np: Any, x: Any, y: Any, n_steps: int) -> Any:
    w = np.zeros(x.shape[1])
    for _ in range(n_steps):
        p = 1 / (1 + np.exp(-(x @ w)))
        w -= 0.5 * (x.T @ (p - y)) / len(y)
    loss = -np.mean(np.where(y, np.log(p), np.log1p(-p)))
    return w, loss


@program(lambda rng: (rng.random((9, 4)),))
def ranks_and_trimmed_means(np: Any, x: Any) -> Any:
    order = np.argsort(x, axis=0)
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(len(x))[:, None], axis=0)
    x.sort(axis=0)
    return ranks, x[2:-2].mean(axis=0)


@program(lambda rng: (rng.random(40), 8))
def moving_averages(np: Any, x: Any, n: int) -> Any:
    total = np.cumsum(x)
    total[n:] = total[n:] - total[:-n]
    return total[n - 1 :] / n, np.convolve(x, np.ones(n) / n, mode="valid")


@program(lambda rng: (rng.random(9), rng.random(9) + 1))
def black_scholes(np: Any, price: Any, strike: Any) -> Any:
    def normal_cdf(d: Any) -> Any:
        k = 1 / (1 + 0.2316419 * abs(d))
        powers = k[:, np.newaxis] ** np.arange(1, 6)
        weights = np.array([0.31938153, -0.356563782, 1.781477937, -1.821255978, 1.330274429])
        tail = np.exp(-d * d / 2) / np.sqrt(2 * np.pi) * (powers @ weights)
        return np.where(d > 0, 1 - tail, tail)

    d1 = (np.log(price / strike) + 0.045) / 0.3
    call = price * normal_cdf(d1) - strike * np.exp(-0.02) * normal_cdf(d1 - 0.3)
    return call, call - price + strike * np.exp(-0.02)
