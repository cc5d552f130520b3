"""Programs that are run in budgets smaller than their data (`bench_budgets`, and its tests).

Each has files (arrays by name, made from a seed) and a function of a namespace (ours or NumPy) and
the opened files that says what is computed, as lists of tensors that are asked for together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Files = dict[str, np.ndarray]


@dataclass(frozen=True)
class BudgetProgram:
    """A program: its files for a size (1.0: what the benchmark runs), and what it computes.

    `results(xp, files, compute)`: `compute(*tensors)` is called where a user would ask for values.
    """

    files: Callable[[float], Files]
    results: Callable[[Any, Mapping[str, Any], Callable[..., Any]], list[Any]]
    tolerance: float


def normal(seed: int, *shape: int, dtype: Any = np.float32, scale: float = 1.0) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return (scale * values).astype(dtype)


def side(size: float, n: int, multiple: int = 8) -> int:
    """A side of a matrix, so that its elements grow with the size."""
    root: float = size**0.5
    return max(multiple, round(n * root / multiple) * multiple)


def chain_files(size: float) -> Files:
    n = side(size, 2048)
    return {name: normal(k, n, n, dtype=np.float64) for k, name in enumerate("abcde")}


def chain(xp: Any, files: Mapping[str, Any], compute: Callable[..., Any]) -> list[Any]:
    """(A B) + (C (D E)), the chain of EinDecomp's experiments."""
    a, b, c, d, e = (files[name] for name in "abcde")
    found = (a @ b) + (c @ (d @ e))
    compute(found)
    return [found]


def ffnn_files(size: float) -> Files:
    n, d, h, o = side(size, 1024), side(size, 8192), side(size, 4096), side(size, 2048)
    return {
        "x": normal(1, n, d),
        "y": normal(2, n, o),
        "w1": normal(3, d, h, scale=d**-0.5),
        "w2": normal(4, h, o, scale=h**-0.5),
    }


def ffnn(xp: Any, files: Mapping[str, Any], compute: Callable[..., Any]) -> list[Any]:
    """One step of gradient descent of a network with one hidden layer; new weights come out."""
    x, y, w1, w2 = (files[name] for name in ("x", "y", "w1", "w2"))
    n = x.shape[0]
    hidden = xp.maximum(x @ w1, 0)
    error = (hidden @ w2 - y) / n
    back = (error @ w2.T) * (hidden > 0)
    new1, new2 = w1 - 0.1 * (x.T @ back), w2 - 0.1 * (hidden.T @ error)
    compute(new1, new2)
    return [new1, new2]


N_BLOCKS, HEAD = 12, 128
MATRICES = ("q", "k", "v", "o", "gate", "up", "down")


def llama_files(size: float) -> Files:
    """Weights of blocks with the shape of LLaMA-7B's (d : f = 4096 : 11008, heads of 128)."""
    d = side(size, 512, HEAD)
    f = d * 11008 // 4096
    shapes = {"gate": (d, f), "up": (d, f), "down": (f, d)}
    files = {"x": normal(0, side(size, 256), d)}
    for block in range(N_BLOCKS):
        for k, name in enumerate(MATRICES):
            rows, columns = shapes.get(name, (d, d))
            weight = normal(100 * block + k, rows, columns, scale=rows**-0.5)
            files[f"{name}{block}"] = weight
    return files


def llama(xp: Any, files: Mapping[str, Any], compute: Callable[..., Any]) -> list[Any]:
    """Three passes of the same prompt through all blocks: weights are only ever read."""
    passes = []
    for _ in range(3):
        x = files["x"]
        for k in range(N_BLOCKS):
            x = block(xp, x, {name: files[f"{name}{k}"] for name in MATRICES})
        compute(x)
        passes.append(x)
    return passes[-1:]


def block(xp: Any, x: Any, w: dict[str, Any]) -> Any:
    """Attention and a gated network, each behind a norm and added to what came in."""
    n, d = x.shape
    heads = d // HEAD
    y = x / xp.sqrt(xp.mean(x * x, axis=1, keepdims=True) + 1e-5)
    q, k, v = (xp.reshape(y @ w[name], (n, heads, HEAD)) for name in ("q", "k", "v"))
    scores = xp.einsum("ihe,jhe->hij", q, k) / HEAD**0.5
    weights = xp.exp(scores - xp.max(scores, axis=2, keepdims=True))
    weights = weights / xp.sum(weights, axis=2, keepdims=True)
    x = x + xp.reshape(xp.einsum("hij,jhe->ihe", weights, v), (n, d)) @ w["o"]
    y = x / xp.sqrt(xp.mean(x * x, axis=1, keepdims=True) + 1e-5)
    gate = y @ w["gate"]
    return x + (gate / (1 + xp.exp(-gate)) * (y @ w["up"])) @ w["down"]


def points_files(size: float) -> Files:
    return {"x": normal(7, int(500_000 * size), 64)}


def kmeans(xp: Any, files: Mapping[str, Any], compute: Callable[..., Any]) -> list[Any]:
    """Five iterations with sixteen centers; the centers come out of each."""
    x = files["x"]
    centers = np.array(x[:16])
    for _ in range(5):
        given = xp.asarray(centers)
        near = xp.argmax(2 * (x @ given.T) - xp.sum(given * given, axis=1), axis=1)
        one = xp.astype(xp.expand_dims(near, 1) == xp.arange(16), np.float32)
        sums, counts = one.T @ x, xp.sum(one, axis=0)
        compute(sums, counts)
        centers = np.asarray(sums) / np.asarray(counts)[:, None]
    return [centers]


def pca(xp: Any, files: Mapping[str, Any], compute: Callable[..., Any]) -> list[Any]:
    """The mean, the covariance, its eigenvectors, and what is seen along eight of them."""
    x = files["x"]
    mean = xp.mean(x, axis=0)
    centred = x - mean
    covariance = centred.T @ centred / x.shape[0]
    compute(covariance, mean)
    vectors = np.linalg.eigh(np.asarray(covariance))[1][:, ::-1][:, :8]
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(8)])
    seen = (x - mean) @ xp.asarray(vectors)
    compute(seen)
    return [covariance, xp.sum(seen * seen, axis=0)]


def tall_files(size: float) -> Files:
    n = int(250_000 * size)
    return {"x": normal(8, n, 128) * np.linspace(2, 1, 128, dtype=np.float32)}


def cholesky_files(size: float) -> Files:
    n = side(size, 3072)
    root = normal(9, n, n, dtype=np.float64)
    return {"a": root @ root.T / n + np.eye(n)}


def cholesky(xp: Any, files: Mapping[str, Any], compute: Callable[..., Any]) -> list[Any]:
    found = xp.linalg.cholesky(files["a"])
    compute(found)
    return [found]


def sort_files(size: float) -> Files:
    return {"x": normal(10, int(16_000_000 * size), dtype=np.float64)}


def sort(xp: Any, files: Mapping[str, Any], compute: Callable[..., Any]) -> list[Any]:
    found = xp.sort(files["x"])
    compute(found)
    return [found]


PROGRAMS = {
    "chain": BudgetProgram(chain_files, chain, 1e-9),
    "ffnn": BudgetProgram(ffnn_files, ffnn, 1e-2),  # what is just above 0 may be just below
    "llama": BudgetProgram(llama_files, llama, 1e-3),
    "kmeans": BudgetProgram(points_files, kmeans, 1e-3),
    "pca": BudgetProgram(tall_files, pca, 2e-3),
    "cholesky": BudgetProgram(cholesky_files, cholesky, 1e-9),
    "sort": BudgetProgram(sort_files, sort, 0.0),
}
