"""Particles, fluids, quantum transport, weather."""

from __future__ import annotations

from typing import Any

from tests.programs.registry import program


def _accelerations(np: Any, position: Any, mass: Any) -> Any:
    parts = [position[:, k : k + 1] for k in range(3)]
    apart = [p.T - p for p in parts]
    inverse = sum(d**2 for d in apart) + 0.1**2
    inverse[inverse > 0] = inverse[inverse > 0] ** -1.5
    return np.hstack([(d * inverse) @ mass for d in apart])


def _energies(np: Any, position: Any, velocity: Any, mass: Any) -> Any:
    kinetic = 0.5 * np.sum(mass * velocity**2)
    apart = [position[:, k : k + 1].T - position[:, k : k + 1] for k in range(3)]
    inverse = np.sqrt(sum(d**2 for d in apart))
    inverse[inverse > 0] = 1.0 / inverse[inverse > 0]
    return kinetic, np.sum(np.triu(-(mass * mass.T) * inverse, 1))


@program(lambda rng: (rng.random((5, 1)), rng.random((5, 3)), rng.random((5, 3)), 3, 0.05))
def n_body(np: Any, mass: Any, position: Any, velocity: Any, n_steps: int, dt: float) -> Any:
    velocity -= np.mean(mass * velocity, axis=0) / np.mean(mass)
    acceleration = _accelerations(np, position, mass)
    kinetic = np.ndarray(n_steps + 1, dtype=np.float64)
    potential = np.ndarray(n_steps + 1, dtype=np.float64)
    kinetic[0], potential[0] = _energies(np, position, velocity, mass)
    for i in range(n_steps):
        velocity += acceleration * dt / 2.0
        position += velocity * dt
        acceleration = _accelerations(np, position, mass)
        velocity += acceleration * dt / 2.0
        kinetic[i + 1], potential[i + 1] = _energies(np, position, velocity, mass)
    return kinetic, potential


def _divergence_source(u: Any, v: Any, dx: float, dt: float) -> Any:
    ux, uy = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx), (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dx)
    vx, vy = (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx), (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dx)
    return (ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2


def _transport(f: Any, u: Any, v: Any, dx: float, dt: float) -> Any:
    middle = f[1:-1, 1:-1]
    left, right, up, down = f[1:-1, :-2], f[1:-1, 2:], f[:-2, 1:-1], f[2:, 1:-1]
    carried = u[1:-1, 1:-1] * (middle - left) + v[1:-1, 1:-1] * (middle - up)
    spread = right + left + up + down - 4 * middle
    return middle - dt / dx * carried + 0.1 * dt / dx**2 * spread


@program(lambda rng: (*(rng.random((6, 7)) / 10 for _ in range(3)), 2, 2))
def cavity_flow(np: Any, u: Any, v: Any, p: Any, n_steps: int, n_sweeps: int) -> None:
    dx, dt = 0.2, 0.001
    b = np.zeros_like(p)
    for _ in range(n_steps):
        un, vn = u.copy(), v.copy()
        b[1:-1, 1:-1] = _divergence_source(u, v, dx, dt)
        for _ in range(n_sweeps):
            pn = p.copy()
            around = pn[1:-1, 2:] + pn[1:-1, :-2] + pn[2:, 1:-1] + pn[:-2, 1:-1]
            p[1:-1, 1:-1] = (around - dx**2 * b[1:-1, 1:-1]) / 4
            p[:, -1] = p[:, -2]
            p[0] = p[1]
            p[:, 0] = p[:, 1]
            p[-1] = 0
        u[1:-1, 1:-1] = _transport(un, un, vn, dx, dt) - dt / dx * (p[1:-1, 2:] - p[1:-1, :-2]) / 2
        v[1:-1, 1:-1] = _transport(vn, un, vn, dx, dt) - dt / dx * (p[2:, 1:-1] - p[:-2, 1:-1]) / 2
        for wall in (u[0], u[:, 0], u[:, -1], v[0], v[-1], v[:, 0], v[:, -1]):
            wall[:] = 0
        u[-1] = 1


@program(lambda rng: (rng.random((5, 7)), rng.random((5, 7)), 0.02))
def channel_flow_until_steady(np: Any, u: Any, v: Any, tolerance: float) -> Any:
    """Periodic along the channel: a column of neighbours is put at either end before each step."""
    dx, dt = 0.3, 0.02
    n_steps, change = 0, 1.0
    while change > tolerance:
        un = np.concatenate((u[:, -1:], u, u[:, :1]), axis=1)
        vn = np.concatenate((v[:, -1:], v, v[:, :1]), axis=1)
        u[1:-1] = _transport(un, un, vn, dx, dt) + dt
        v[1:-1] = _transport(vn, un, vn, dx, dt)
        u[[0, -1]] = 0
        v[[0, -1]] = 0
        change = abs((np.sum(u) - np.sum(un[:, 1:-1])) / np.sum(u))
        n_steps += 1
    return n_steps


@program(lambda rng: (rng.random((8, 8, 3)), rng.random((4, 4, 3)), rng.random((4, 4, 3))))
def horizontal_diffusion(np: Any, field: Any, out: Any, rate: Any) -> None:
    middle = field[1:-1, 1:-1]
    lap = 4 * middle - field[2:, 1:-1] - field[:-2, 1:-1] - field[1:-1, 2:] - field[1:-1, :-2]

    def limited(flux: Any, gradient: Any) -> Any:
        return np.where(flux * gradient > 0, 0, flux)

    inner = middle[1:-1, 1:-1]
    flux_x = limited(np.diff(lap[:, 1:-1], axis=0), np.diff(middle[:, 1:-1], axis=0))
    flux_y = limited(np.diff(lap[1:-1], axis=1), np.diff(middle[1:-1], axis=1))
    out[...] = inner - rate * (np.diff(flux_x, axis=0) + np.diff(flux_y, axis=1))


@program(lambda rng: (rng.random((3, 4, 5)), rng.random((4, 4, 5)), rng.random((3, 4, 5))))
def vertical_advection(np: Any, tendency: Any, wind: Any, u: Any) -> None:
    levels = tendency.shape[2]
    c = np.ndarray(tendency.shape, dtype=tendency.dtype)
    d = np.ndarray(tendency.shape, dtype=tendency.dtype)
    for k in range(levels):
        above = -0.125 * (wind[1:, :, k] + wind[:-1, :, k]) if k else 0.0
        below = 0.125 * (wind[1:, :, k + 1] + wind[:-1, :, k + 1]) if k < levels - 1 else 0.0
        middle = 3.0 - above - below
        d[:, :, k] = 3.0 * u[:, :, k] + tendency[:, :, k]
        if k:
            d[:, :, k] -= above * (u[:, :, k - 1] - u[:, :, k])
            middle = middle - c[:, :, k - 1] * above
            d[:, :, k] -= d[:, :, k - 1] * above
        if k < levels - 1:
            d[:, :, k] -= below * (u[:, :, k + 1] - u[:, :, k])
        c[:, :, k] = below / middle
        d[:, :, k] /= middle
    column = d[:, :, -1].copy()
    for k in range(levels - 1, -1, -1):
        if k < levels - 1:
            column[:] = d[:, :, k] - c[:, :, k] * column
        tendency[:, :, k] = 3.0 * (column - u[:, :, k])


@program(lambda rng: (rng.random((4, 6)) * 40 + 250, rng.random((4, 6)) / 50, 2))
def cloud_scheme(np: Any, t: Any, q: Any, n_steps: int) -> Any:
    """Condensation and rain down the levels, with masks as cloud schemes have them."""
    rain = np.zeros(t.shape[0])
    cover = np.zeros_like(t)
    for _ in range(n_steps):
        for k in range(t.shape[1]):
            ice = t[:, k] < 273.15
            a = np.where(ice, 21.9, 17.3)
            b = np.where(ice, 7.7, 35.9)
            saturated = 0.0038 * np.exp(a * (t[:, k] - 273.15) / (t[:, k] - b))
            excess = np.maximum(q[:, k] - saturated, 0.0)
            q[:, k] -= excess
            t[:, k] += 2490.0 * excess
            cover[excess > 0, k] = 1.0 - np.exp(-excess[excess > 0] * 1e3)
            rain += 0.7 * excess
            dry = np.logical_and(q[:, k] < 0.5 * saturated, rain > 0)
            back = np.minimum(rain, 0.1 * saturated)
            q[dry, k] += back[dry]
            rain[dry] -= back[dry]
    return rain, cover


def _complex(rng: Any, *shape: int) -> Any:
    return rng.random(shape) + 1j * rng.random(shape)


@program(
    lambda rng: (
        rng.integers(0, 3, (3, 2)),
        _complex(rng, 3, 2, 2, 2, 2),
        _complex(rng, 2, 2, 3, 2, 2),
        _complex(rng, 2, 3, 2, 2, 2),
        _complex(rng, 2, 2, 3, 2, 2) * 0,
    )
)
def self_energies(np: Any, neighbour: Any, dh: Any, g: Any, d: Any, sigma: Any) -> None:
    for k in range(g.shape[0]):
        for e in range(g.shape[1]):
            for w in range(min(e + 1, d.shape[0])):
                for a in range(neighbour.shape[0]):
                    for b in range(neighbour.shape[1]):
                        for i in range(dh.shape[2]):
                            left = g[k, e - w, neighbour[a, b]] @ dh[a, b, i]
                            sigma[k, e, a] += left @ (dh[a, b, 0] * d[w, a, b, i, 0])


@program(lambda rng: (_complex(rng, 3, 4, 4), _complex(rng, 3) * 2, rng.random((4, 3))))
def contour_integral(np: Any, ham: Any, points: Any, y: Any) -> Any:
    p0 = np.zeros(y.shape, dtype=np.complex128)
    p1 = np.zeros(y.shape, dtype=np.complex128)
    for z in points:
        t = np.zeros(ham.shape[1:], dtype=np.complex128)
        for n in range(len(ham)):
            t += np.power(z, 1.0 - n) * ham[n]
        x = np.linalg.solve(t, y)
        if abs(z) < 1.0:
            x = -x
        p0 += x
        p1 += z * x
    return p0, p1
