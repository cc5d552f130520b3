"""Factorizations and triangular solves by loops over rows, columns and elements."""

from __future__ import annotations

from typing import Any

from tests.programs.registry import program


def dominant(rng: Any, n: int) -> Any:
    a = rng.random((n, n))
    a.flat[:: n + 1] += n
    return a


def positive(rng: Any, n: int) -> Any:
    a = dominant(rng, n)
    return a @ a.T


@program(lambda rng: (positive(rng, 6),))
def cholesky_by_elements(np: Any, a: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[j, :j]) / a[j, j]
        a[i, i] = np.sqrt(a[i, i] - np.dot(a[i, :i], a[i, :i]))


@program(lambda rng: (positive(rng, 6),))
def cholesky_by_columns(np: Any, a: Any) -> Any:
    n = len(a)
    for k in range(n):
        a[k, k] **= 0.5
        a[k + 1 :, k] /= a[k, k]
        for j in range(k + 1, n):
            a[j:, j] -= a[j:, k] * a[j, k]
    return np.tril(a)


@program(lambda rng: (positive(rng, 7),))
def cholesky_of_the_library(np: Any, a: Any) -> None:
    a[:] = np.linalg.cholesky(a) + np.triu(a, k=1)


@program(lambda rng: (dominant(rng, 6),))
def lu_by_elements(np: Any, a: Any) -> None:
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, n):
            a[i, j] -= a[i, :i] @ a[:i, j]


@program(lambda rng: (dominant(rng, 7),))
def lu_by_outer_products(np: Any, a: Any) -> Any:
    for k in range(a.shape[0] - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return np.prod(np.diagonal(a))


@program(lambda rng: (rng.random((5, 5)), rng.random(5)))
def elimination_with_pivots(np: Any, a: Any, b: Any) -> Any:
    n = len(b)
    for k in range(n):
        p = k + int(np.argmax(abs(a[k:, k])))
        a[[k, p]] = a[[p, k]]
        b[k], b[p] = b[p], b[k]
        factor = a[k + 1 :, k] / a[k, k]
        a[k + 1 :, k:] -= factor[:, None] * a[k, k:]
        b[k + 1 :] -= factor * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x


@program(lambda rng: (dominant(rng, 6), rng.random(6)))
def lu_and_two_solves(np: Any, a: Any, b: Any) -> Any:
    lu_by_elements(np, a)
    x, y = np.zeros_like(b), np.zeros_like(b)
    for i in range(len(b)):
        y[i] = b[i] - a[i, :i] @ y[:i]
    for i in reversed(range(len(b))):
        x[i] = (y[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x, y


@program(lambda rng: (dominant(rng, 12), rng.random(12)))
def forward_substitution(np: Any, low: Any, b: Any) -> Any:
    x = np.empty_like(b)
    for i in range(b.shape[0]):
        x[i] = (b[i] - low[i, :i] @ x[:i]) / low[i, i]
    return x


@program(lambda rng: (rng.random((7, 5)),))
def gram_schmidt(np: Any, a: Any) -> Any:
    n = a.shape[1]
    q = np.zeros_like(a)
    r = np.zeros((n, n), dtype=a.dtype)
    for k in range(n):
        r[k, k] = np.sqrt(np.dot(a[:, k], a[:, k]))
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, n):
            r[k, j] = np.dot(q[:, k], a[:, j])
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


@program(lambda rng: (rng.random((7, 4)),))
def householder(np: Any, a: Any) -> Any:
    m, n = a.shape
    q = np.eye(m)
    for k in range(n):
        v = a[k:, k].copy()
        v[0] += np.copysign(np.linalg.norm(v), v[0])
        v /= np.linalg.norm(v)
        a[k:, k:] -= 2 * np.outer(v, v @ a[k:, k:])
        q[:, k:] -= 2 * np.outer(q[:, k:] @ v, v)
    return q


@program(lambda rng: (rng.random(9) / 9,))
def levinson_durbin(np: Any, r: Any) -> Any:
    y = np.empty_like(r)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, r.size):
        beta *= 1 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


@program(lambda rng: (positive(rng, 6), rng.random(6)))
def conjugate_gradients(np: Any, a: Any, b: Any) -> Any:
    x = np.zeros_like(b)
    r = b - a @ x
    p = r.copy()
    size = r @ r
    n_steps = 0
    while np.sqrt(size) > 1e-6:
        ap = a @ p
        step = size / (p @ ap)
        x += step * p
        r -= step * ap
        size, before = r @ r, size
        p = r + size / before * p
        n_steps += 1
    return x, n_steps


@program(lambda rng: (*(rng.random(9) for _ in range(4)),))
def tridiagonal_solve(np: Any, low: Any, middle: Any, high: Any, d: Any) -> None:
    middle += 2
    for i in range(1, len(d)):
        w = low[i] / middle[i - 1]
        middle[i] -= w * high[i - 1]
        d[i] -= w * d[i - 1]
    d[-1] /= middle[-1]
    for i in range(len(d) - 2, -1, -1):
        d[i] = (d[i] - high[i] * d[i + 1]) / middle[i]
