"""Matrix products, whole and by rows."""

from __future__ import annotations

from typing import Any

from tests.programs.registry import program


def matrices(*shapes: tuple[int, ...]) -> Any:
    return lambda rng: tuple(rng.random(shape) for shape in shapes)


@program(matrices((9, 7), (7,)))
def a_transposed_a_x(np: Any, a: Any, x: Any) -> Any:
    return (a @ x) @ a


@program(matrices((9, 7), (7,), (9,)))
def biconjugate_kernel(np: Any, a: Any, p: Any, r: Any) -> Any:
    return r @ a, a @ p


@program(matrices((6, 8), (6, 5), (5, 8)))
def general_product(np: Any, c: Any, a: Any, b: Any) -> None:
    c[:] = 1.5 * a @ b + 0.5 * c


@program(matrices((6, 8), (6, 5), (5, 4), (4, 8)))
def two_products(np: Any, d: Any, a: Any, b: Any, c: Any) -> None:
    d *= 0.5
    d += 2.0 * a @ b @ c


@program(matrices((5, 6), (6, 4), (4, 7), (7, 3)))
def three_products(np: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return np.linalg.multi_dot([a, b, c, d]), (a @ b) @ (c @ d)


@program(matrices((8, 8), (8,), (8,), (8,), (8,)))
def product_and_transposed(np: Any, a: Any, x1: Any, x2: Any, y1: Any, y2: Any) -> None:
    x1 += a @ y1
    x2 += y2 @ a


@program(matrices((8, 8), *[(8,)] * 8))
def rank_two_update_and_products(
    np: Any, a: Any, u1: Any, v1: Any, u2: Any, v2: Any, w: Any, x: Any, y: Any, z: Any
) -> None:
    a += np.outer(u1, v1) + np.outer(u2, v2)
    x += 1.2 * y @ a + z
    w += 1.5 * a @ x


@program(matrices((9, 9), (9, 9), (9,)))
def sum_of_products(np: Any, a: Any, b: Any, x: Any) -> Any:
    return 1.5 * a @ x + 1.2 * b @ x


@program(matrices((3, 4, 5), (5, 5)))
def product_along_the_last_axis(np: Any, a: Any, c: Any) -> None:
    r, q, p = a.shape
    a[:] = np.reshape(np.reshape(a, (r, q, 1, p)) @ c, (r, q, p))


@program(matrices((5, 6), (5, 5), (5, 6)))
def symmetric_product(np: Any, c: Any, a: Any, b: Any) -> None:
    c *= 1.2
    for i in range(c.shape[0]):
        row = np.empty((c.shape[1],), dtype=c.dtype)
        for j in range(c.shape[1]):
            c[:i, j] += 1.5 * b[i, j] * a[i, :i]
            row[j] = b[:i, j] @ a[i, :i]
        c[i] += 1.5 * b[i] * a[i, i] + 1.5 * row


@program(matrices((6, 6), (6, 4)))
def symmetric_rank_k(np: Any, c: Any, a: Any) -> None:
    for i in range(a.shape[0]):
        c[i, : i + 1] *= 1.2
        for k in range(a.shape[1]):
            c[i, : i + 1] += 1.5 * a[i, k] * a[: i + 1, k]


@program(matrices((6, 6), (6, 4), (6, 4)))
def symmetric_rank_2k(np: Any, c: Any, a: Any, b: Any) -> None:
    for i in range(a.shape[0]):
        c[i, : i + 1] *= 1.2
        for k in range(a.shape[1]):
            c[i, : i + 1] += a[: i + 1, k] * 1.5 * b[i, k] + b[: i + 1, k] * 1.5 * a[i, k]


@program(matrices((6, 6), (6, 4)))
def triangular_product(np: Any, a: Any, b: Any) -> None:
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
    b *= 1.5


@program(lambda rng: (rng.random((6, 6)) + rng.random((6, 6)).T, 6))
def power_iteration(np: Any, a: Any, n_steps: int) -> Any:
    v = np.ones(a.shape[0])
    for _ in range(n_steps):
        v = a @ v
        v /= np.linalg.norm(v)
    return v @ a @ v, v


@program(matrices((3, 4, 5), (4, 6), (5, 6)))
def candecomp_step(np: Any, x: Any, b: Any, c: Any) -> Any:
    rank = b.shape[1]
    unfolded = x.reshape(len(x), -1)
    khatri_rao = np.einsum("jr,kr->jkr", b, c).reshape(-1, rank)
    gram = (b.T @ b) * (c.T @ c)
    return np.linalg.solve(gram + np.eye(rank), (unfolded @ khatri_rao).T).T
