"""Graphs, sequences, sparse matrices, bits: programs that index by what they read."""

from __future__ import annotations

from typing import Any

from tests.programs.registry import program


@program(lambda rng: (rng.integers(1, 90, (6, 6)),))
def floyd_warshall(np: Any, path: Any) -> None:
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))


@program(lambda rng: (rng.integers(0, 4, 7),))
def nussinov(np: Any, sequence: Any) -> Any:
    n = len(sequence)
    table = np.zeros((n, n), np.int32)
    for i in range(n - 2, -1, -1):
        for j in range(i + 1, n):
            pair = 1 if i < j - 1 and sequence[i] + sequence[j] == 3 else 0
            best = max(table[i, j - 1], table[i + 1, j], table[i + 1, j - 1] + pair)
            for k in range(i + 1, j):
                best = max(best, table[i, k] + table[k + 1, j])
            table[i, j] = best
    return table


@program(lambda rng: (rng.integers(0, 256, 6, dtype="uint8"),))
def crc16(np: Any, data: Any) -> Any:
    crc = 0xFFFF
    for byte in data:
        current = 0xFF & byte
        for _ in range(8):
            if (crc & 1) ^ (current & 1):
                crc = (crc >> 1) ^ 0x8408
            else:
                crc >>= 1
            current >>= 1
    return ((~crc & 0xFFFF) << 8 | (~crc >> 8) & 0xFF) & 0xFFFF


@program(lambda rng: (rng.integers(0, 256, 12, dtype="uint8"),))
def crc16_by_table(np: Any, data: Any) -> Any:
    table = np.arange(256, dtype=np.uint16)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint16(0x8408), table >> 1)
    crc = 0xFFFF
    for byte in data:
        crc = int(table[(crc ^ int(byte)) & 0xFF]) ^ (crc >> 8)
    return crc


def _csr(rng: Any) -> tuple[Any, ...]:
    rows = rng.random((6, 8)) * (rng.random((6, 8)) < 0.5)
    found = rows != 0
    starts = (0, *found.sum(axis=1).cumsum())
    return (rng.integers(0, 1, 7) + starts, found.nonzero()[1], rows[found], rng.random(8))


@program(_csr)
def sparse_product(np: Any, starts: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.empty(starts.size - 1, values.dtype)
    for i in range(starts.size - 1):
        part = slice(starts[i], starts[i + 1])
        y[i] = values[part] @ x[columns[part]]
    return y


@program(_csr)
def sparse_product_at_once(np: Any, starts: Any, columns: Any, values: Any, x: Any) -> Any:
    total = np.concatenate((np.zeros(1), np.cumsum(values * x[columns])))
    return total[starts[1:]] - total[starts[:-1]]


@program(lambda rng: (rng.random((7, 7)) < 0.3,))
def breadth_first(np: Any, edges: Any) -> Any:
    distance = np.full(len(edges), -1)
    front = np.zeros(len(edges), dtype=bool)
    front[0] = True
    step = 0
    while front.any():
        distance[front] = step
        front = edges[front].any(axis=0) & (distance < 0)
        step += 1
    return distance


@program(lambda rng: ((rng.random((6, 6)) < 0.4).astype(float), 4))
def page_rank(np: Any, links: Any, n_steps: int) -> Any:
    n = len(links)
    out = links.sum(axis=1)
    links[out == 0] = 1.0
    links /= links.sum(axis=1, keepdims=True)
    rank = np.full(n, 1 / n)
    for _ in range(n_steps):
        rank = 0.15 / n + 0.85 * rank @ links
    return np.argsort(-rank), rank


@program(lambda rng: (rng.integers(0, 1000, 20),))
def radix_sort(np: Any, keys: Any) -> None:
    for bit in range(10):
        ones = (keys >> bit) & 1
        zeros = 1 - ones
        place = np.where(ones == 1, zeros.sum() + np.cumsum(ones) - 1, np.cumsum(zeros) - 1)
        moved = np.empty_like(keys)
        moved[place] = keys
        keys[:] = moved


@program(lambda rng: (40,))
def sieve(np: Any, n: int) -> Any:
    prime = np.ones(n, dtype=bool)
    prime[:2] = False
    for k in range(2, int(n**0.5) + 1):
        if prime[k]:
            prime[k * k :: k] = False
    return np.nonzero(prime)[0]


@program(lambda rng: (rng.integers(0, 3, 7), rng.integers(0, 3, 8)))
def edit_distance(np: Any, a: Any, b: Any) -> Any:
    row = np.arange(len(b) + 1)
    for i in range(len(a)):
        replaced = row[:-1] + (b != a[i])
        best = np.minimum(replaced, row[1:] + 1)
        row[0] = i + 1
        for j in range(len(b)):
            row[j + 1] = min(best[j], row[j] + 1)
    return row[-1]


@program(lambda rng: (rng.integers(1, 9, 6), rng.integers(1, 9, 6), 15))
def knapsack(np: Any, weight: Any, worth: Any, room: int) -> Any:
    best = np.zeros(room + 1, dtype=worth.dtype)
    for w, value in zip(weight, worth, strict=True):
        best[w:] = np.maximum(best[w:], best[:-w] + value)
    return best[-1]
