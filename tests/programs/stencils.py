"""Grids that are changed in place by their neighbours."""

from __future__ import annotations

from typing import Any

from tests.programs.registry import program


@program(lambda rng: (rng.random(19), rng.random(19), 3))
def jacobi_1d(np: Any, a: Any, b: Any, n_steps: int) -> None:
    for _ in range(n_steps):
        b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3
        a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3


@program(lambda rng: (rng.random((7, 8)), rng.random((7, 8)), 2))
def jacobi_2d(np: Any, a: Any, b: Any, n_steps: int) -> None:
    def step(old: Any, new: Any) -> None:
        new[1:-1, 1:-1] = 0.2 * (
            old[1:-1, 1:-1] + old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        )

    for _ in range(n_steps):
        step(a, b)
        step(b, a)


@program(lambda rng: (rng.random((5, 5, 6)), 2))
def heat_3d(np: Any, t: Any, n_steps: int) -> Any:
    inner = (slice(1, -1),) * 3

    def second_difference(field: Any, axis: int) -> Any:
        def moved(by: int) -> Any:
            end = field.shape[axis] - 1 + by
            return field[tuple(slice(1 + by, end) if k == axis else s for k, s in enumerate(inner))]

        return moved(1) - 2 * moved(0) + moved(-1)

    for _ in range(n_steps):
        change = sum(second_difference(t, axis) for axis in range(3))
        t[inner] += 0.125 * change
    return t.sum()


@program(lambda rng: (rng.random((6, 6)), 2))
def gauss_seidel(np: Any, a: Any, n_sweeps: int) -> None:
    n, m = a.shape
    for _ in range(n_sweeps):
        for i in range(1, n - 1):
            a[i, 1:-1] += a[i - 1, :-2] + a[i - 1, 1:-1] + a[i - 1, 2:]
            a[i, 1:-1] += a[i + 1, :-2] + a[i + 1, 1:-1] + a[i + 1, 2:] + a[i, 2:]
            for j in range(1, m - 1):
                a[i, j] += a[i, j - 1]
                a[i, j] /= 9


@program(lambda rng: (rng.random((9, 9)), 2))
def red_black(np: Any, u: Any, n_sweeps: int) -> Any:
    for _ in range(n_sweeps):
        for first in (0, 1):
            for row, start in ((1, 1 + first), (2, 2 - first)):
                inside = u[row:-1:2, start:-1:2]
                up, down = u[row - 1 : -2 : 2, start:-1:2], u[row + 1 :: 2, start:-1:2]
                left = u[row:-1:2, start - 1 : -2 : 2]
                right = u[row:-1:2, start + 1 :: 2]
                inside[:] = (up + down + left + right)[: inside.shape[0], : inside.shape[1]] / 4
    return abs(u).max()


@program(lambda rng: (rng.random((7, 7)), 2))
def alternating_directions(np: Any, u: Any, n_steps: int) -> Any:
    """Peaceman and Rachford: half a step implicit along columns, half along rows."""
    n = u.shape[0]
    r = 0.3
    for _ in range(n_steps):
        for along in (u, u.T):
            p = np.zeros((n, n))
            q = np.empty_like(u)
            q[0] = along[0]
            for j in range(1, n - 1):
                low = 1 + 2 * r - r * p[j - 1, 1:-1]
                p[j, 1:-1] = r / low
                middle = along[j, 1:-1]
                right = middle + r * (along[j, :-2] - 2 * middle + along[j, 2:])
                q[j, 1:-1] = (right + r * q[j - 1, 1:-1]) / low
            for j in range(n - 2, 0, -1):
                along[j, 1:-1] = p[j, 1:-1] * along[j + 1, 1:-1] + q[j, 1:-1]
    return u.mean()


@program(lambda rng: (*(rng.random((6, 7)) for _ in range(3)), rng.random(4)))
def maxwell_2d(np: Any, ex: Any, ey: Any, hz: Any, source: Any) -> None:
    for t in range(source.size):
        ey[0] = source[t]
        ey[1:] -= 0.5 * np.diff(hz, axis=0)
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


@program(lambda rng: ((rng.random((6, 9)) < 0.4).astype("int64"), 3))
def game_of_life(np: Any, cells: Any, n_steps: int) -> Any:
    for _ in range(n_steps):
        around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        n = sum(np.roll(cells, shift, axis=(0, 1)) for shift in around)
        cells[...] = (n == 3) | ((n == 2) & (cells == 1))
    return np.argwhere(cells)


@program(lambda rng: (rng.random(24), 0.4, 5))
def advection_by_upwind_and_wave_by_leapfrog(np: Any, u: Any, c: float, n_steps: int) -> Any:
    before = u.copy()
    for _ in range(n_steps):
        u[1:] -= c * (u[1:] - u[:-1])
        after = 2 * u - before + c * c * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        before, u[:] = u.copy(), after
    return before


@program(lambda rng: (rng.integers(0, 9, (6, 6)), 3))
def sandpile(np: Any, grains: Any, n_steps: int) -> Any:
    for _ in range(n_steps):
        topple = grains >= 4
        grains[topple] -= 4
        grains[1:] += topple[:-1]
        grains[:-1] += topple[1:]
        grains[:, 1:] += topple[:, :-1]
        grains[:, :-1] += topple[:, 1:]
        if not topple.any():
            break
    return grains.sum()
