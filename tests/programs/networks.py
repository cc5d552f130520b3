"""Layers of neural networks, written out."""

from __future__ import annotations

from typing import Any

from tests.programs.registry import program


def floats(*shapes: tuple[int, ...]) -> Any:
    return lambda rng: tuple(rng.random(shape, dtype="float32") for shape in shapes)


def relu(np: Any, x: Any) -> Any:
    return np.maximum(x, 0)


def convolved(np: Any, x: Any, weights: Any) -> Any:
    k = weights.shape[0]
    n, height, width = x.shape[0], x.shape[1] - k + 1, x.shape[2] - k + 1
    out = np.empty((n, height, width, weights.shape[3]), dtype=np.float32)
    for i in range(height):
        for j in range(width):
            window = x[:, i : i + k, j : j + k, :, np.newaxis]
            out[:, i, j, :] = np.sum(window * weights[np.newaxis], axis=(1, 2, 3))
    return out


def pooled(np: Any, x: Any) -> Any:
    n, height, width, channels = x.shape
    out = np.empty([n, height // 2, width // 2, channels], dtype=x.dtype)
    for i in range(height // 2):
        for j in range(width // 2):
            out[:, i, j] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2], axis=(1, 2))
    return out


def normalised(np: Any, x: Any) -> Any:
    mean = np.mean(x, axis=0, keepdims=True)
    std = np.std(x, axis=0, keepdims=True)
    return (x - mean) / np.sqrt(std + 1e-5)


@program(floats((2, 3, 9)), rtol=1e-5)
def softmax(np: Any, x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


@program(floats((4, 3), (3, 8), (8,), (8, 5), (5,)), rtol=1e-5)
def perceptron(np: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return softmax(np, relu(np, relu(np, x @ w1 + b1) @ w2 + b2))


@program(floats((2, 5, 5, 2), (2, 2, 2, 3), (3,)), rtol=1e-5)
def convolution_with_bias(np: Any, x: Any, weights: Any, bias: Any) -> Any:
    return convolved(np, x, weights) + bias


@program(
    floats((1, 12, 12, 1), (3, 3, 1, 2), (2,), (2, 2, 2, 3), (3,), (12, 5), (5,)),
    rtol=1e-4,
    is_slow=True,
)
def le_net(np: Any, x: Any, c1: Any, b1: Any, c2: Any, b2: Any, w: Any, b: Any) -> Any:
    x = pooled(np, relu(np, convolved(np, x, c1) + b1))
    x = pooled(np, relu(np, convolved(np, x, c2) + b2))
    return np.reshape(x, (x.shape[0], -1)) @ w + b


@program(floats((2, 4, 4, 3), (1, 1, 3, 2), (3, 3, 2, 2), (1, 1, 2, 3)), rtol=1e-3)
def residual_block(np: Any, x: Any, c1: Any, c2: Any, c3: Any) -> Any:
    n, height, width, _ = x.shape
    padded = np.zeros((n, height + 2, width + 2, c1.shape[3]))
    padded[:, 1:-1, 1:-1, :] = convolved(np, x, c1)
    y = relu(np, normalised(np, padded))
    y = relu(np, normalised(np, convolved(np, y, c2)))
    return relu(np, normalised(np, convolved(np, y, c3)) + x)


@program(floats((3, 2, 4), (4, 20), (5, 20), (20,)), rtol=1e-5)
def recurrent_cell(np: Any, xs: Any, w: Any, u: Any, b: Any) -> Any:
    h = c = np.zeros((xs.shape[1], u.shape[0]), dtype=xs.dtype)
    for x in xs:
        i, f, o, g = np.split(x @ w + h @ u + b, 4, axis=1)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
    return h, c


@program(floats((2, 5, 4), (2, 5, 4), (2, 5, 4)), rtol=1e-5)
def causal_attention(np: Any, q: Any, k: Any, v: Any) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(np.float32(q.shape[-1]))
    scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    return softmax(np, scores) @ v


@program(floats((6, 3), (3, 5), (5, 2), (6, 2)), rtol=1e-4)
def gradient_steps(np: Any, x: Any, w1: Any, w2: Any, y: Any) -> Any:
    losses = []
    for _ in range(2):
        hidden = np.tanh(x @ w1)
        wrong = hidden @ w2 - y
        losses.append(float(np.mean(wrong**2)))
        back = (wrong @ w2.T) * (1 - hidden**2)
        w2 -= 0.1 * hidden.T @ wrong / len(x)
        w1 -= 0.1 * x.T @ back / len(x)
    return np.array(losses)
