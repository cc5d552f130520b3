"""Images, fractals, signals, coordinates."""

from __future__ import annotations

from typing import Any

from tests.programs.registry import program


@program(lambda rng: (rng.random((6, 7)), 0.25))
def deriche(np: Any, image: Any, alpha: float) -> Any:
    """A recursive smoothing filter, forwards and backwards along both axes."""
    decay = np.exp(-alpha)
    k = (1 - decay) ** 2 / (1 + alpha * decay - decay**2)
    a = (k, k * decay * (alpha - 1), k * decay * (alpha + 1), -k * decay**2)
    b1, b2 = 2.0**-alpha, -(decay**2)

    def along_columns(x: Any) -> Any:
        y1, y2 = np.empty_like(x), np.empty_like(x)
        y1[:, 0] = a[0] * x[:, 0]
        y1[:, 1] = a[0] * x[:, 1] + a[1] * x[:, 0] + b1 * y1[:, 0]
        for j in range(2, x.shape[1]):
            y1[:, j] = a[0] * x[:, j] + a[1] * x[:, j - 1]
            y1[:, j] += b1 * y1[:, j - 1] + b2 * y1[:, j - 2]
        y2[:, -1] = 0.0
        y2[:, -2] = a[2] * x[:, -1]
        for j in range(x.shape[1] - 3, -1, -1):
            y2[:, j] = a[2] * x[:, j + 1] + a[3] * x[:, j + 2]
            y2[:, j] += b1 * y2[:, j + 1] + b2 * y2[:, j + 2]
        return y1 + y2

    image[:] = along_columns(along_columns(image).T).T
    return image


@program(lambda rng: (7, 6, 8))
def mandelbrot_by_masks(np: Any, width: int, height: int, n_steps: int) -> Any:
    c = np.linspace(-1.75, 0.25, width) + np.linspace(-1, 1, height)[:, None] * 1j
    n = np.zeros(c.shape, dtype=np.int64)
    z = np.zeros(c.shape, dtype=np.complex128)
    for step in range(n_steps):
        near = np.less(abs(z), 2.0)
        n[near] = step
        z[near] = z[near] ** 2 + c[near]
    n[n == n_steps - 1] = 0
    return z, n


@program(lambda rng: (7, 6, 8))
def mandelbrot_by_compaction(np: Any, width: int, height: int, n_steps: int) -> Any:
    i, j = np.mgrid[0:width, 0:height]
    c = np.linspace(-2, 0.5, width)[i] + 1j * np.linspace(-1.25, 1.25, height)[j]
    escaped_at = np.zeros(c.shape, dtype=np.int64)
    escaped_as = np.zeros(c.shape, dtype=np.complex128)
    i.shape = j.shape = c.shape = width * height
    z = np.zeros(c.shape, np.complex128)
    for step in range(n_steps):
        if not len(z):
            break
        np.multiply(z, z, z)
        np.add(z, c, z)
        far = abs(z) > 2
        escaped_at[i[far], j[far]] = step + 1
        escaped_as[i[far], j[far]] = z[far]
        np.logical_not(far, far)
        z, c, i, j = z[far], c[far], i[far], j[far]
    return escaped_as.T, escaped_at.T


@program(lambda rng: (rng.random(32) + 1j * rng.random(32), 2, 5))
def stockham_fft(np: Any, x: Any, radix: int, n_levels: int) -> Any:
    n = radix**n_levels
    i, j = np.mgrid[0:radix, 0:radix]
    butterfly = np.exp(-2j * np.pi * i * j / radix)
    y = np.empty_like(x)
    y[:] = x[:]
    for level in range(n_levels):
        done, left = radix**level, radix ** (n_levels - level - 1)
        moved = np.transpose(np.reshape(y, (done, radix, left)), axes=(1, 0, 2))
        rows, columns = np.mgrid[0:radix, 0:done]
        twiddle = np.exp(-2j * np.pi * rows * columns / radix ** (level + 1))
        factors = np.repeat(np.reshape(twiddle, (radix, done, 1)), left, axis=2)
        rotated = np.reshape(moved, (n,)) * np.reshape(factors, (n,))
        y[:] = np.reshape(butterfly @ np.reshape(rotated, (radix, n // radix)), (n,))
    return y, abs(y - np.fft.fft(x)).max() < 1e-9


@program(lambda rng: tuple(rng.random(9) for _ in range(4)))
def arc_distance(np: Any, theta1: Any, phi1: Any, theta2: Any, phi2: Any) -> Any:
    half = np.sin((theta2 - theta1) / 2) ** 2
    half = half + np.cos(theta1) * np.cos(theta2) * np.sin((phi2 - phi1) / 2) ** 2
    return 2 * np.arctan2(np.sqrt(half), np.sqrt(1 - half))


@program(lambda rng: (rng.integers(0, 1000, (5, 6)), rng.integers(0, 1000, (5, 6)), 4, 3, 9))
def clip_and_combine(np: Any, x: Any, y: Any, a: int, b: int, c: int) -> Any:
    return np.clip(x, 2, 10) * a + y * b + c


@program(lambda rng: (rng.random((7, 7)),))
def trace_of_tanh(np: Any, a: Any) -> Any:
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


@program(lambda rng: (rng.integers(0, 256, (7, 8), dtype="uint8"),))
def sobel_edges(np: Any, image: Any) -> Any:
    x = np.pad(image.astype(np.float64), 1, mode="edge")
    across = x[:, 2:] - x[:, :-2]
    across = across[:-2] + 2 * across[1:-1] + across[2:]
    down = x[2:] - x[:-2]
    down = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    strength = np.hypot(across, down)
    return np.where(strength > strength.mean(), 255, 0).astype(np.uint8)


@program(lambda rng: (rng.integers(0, 8, (6, 7)),))
def equalised_histogram(np: Any, image: Any) -> Any:
    counts = np.bincount(image.ravel(), minlength=8)
    share = counts.cumsum() / image.size
    return (share[image] * 7).round().astype(image.dtype)


@program(lambda rng: (rng.random((5, 6)), 0.3))
def bilinear_rotation(np: Any, image: Any, angle: float) -> Any:
    n, m = image.shape
    i, j = np.meshgrid(np.arange(n), np.arange(m), indexing="ij")
    y = np.cos(angle) * (i - n / 2) - np.sin(angle) * (j - m / 2) + n / 2
    x = np.sin(angle) * (i - n / 2) + np.cos(angle) * (j - m / 2) + m / 2
    top = np.clip(np.floor(y).astype(np.int64), 0, n - 2)
    left = np.clip(np.floor(x).astype(np.int64), 0, m - 2)
    fy, fx = np.clip(y - top, 0, 1), np.clip(x - left, 0, 1)
    upper = image[top, left] * (1 - fx) + image[top, left + 1] * fx
    lower = image[top + 1, left] * (1 - fx) + image[top + 1, left + 1] * fx
    return upper * (1 - fy) + lower * fy


@program(lambda rng: (rng.standard_normal(24), 3.0))
def low_pass_by_fft(np: Any, signal: Any, cutoff: float) -> Any:
    spectrum = np.fft.rfft(signal)
    spectrum[np.arange(spectrum.size) > cutoff] = 0
    signal -= np.fft.irfft(spectrum, n=signal.size)
    return abs(spectrum) ** 2
