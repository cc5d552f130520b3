"""Weights larger than a GPU's budget: python -m benchmarks.bench_tiers [rows] [--shares 0.75 0.1].

Layers of a network whose weights lie in the host's memory pass through a budget that holds a part
of them. Beside ours: the same layers in torch with all weights on the GPU, the rate of the link,
and a loop by hand that copies one layer ahead from pinned memory. A run takes about a minute.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

N_LAYERS, WIDTH = 24, 8192


def seconds(work: Callable[[], object], n: int) -> list[float]:
    import torch

    found = []
    for _ in range(n):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return found


def resident(x: Any, weights: list[Any]) -> Callable[[], Any]:
    """Torch with all weights on the GPU."""
    import torch

    ours = [torch.from_numpy(w).cuda() for w in weights]
    given = torch.from_numpy(x).cuda()

    def work() -> Any:
        y = given
        for weight in ours:
            y = torch.relu(y @ weight)
        return y

    return work


def by_hand(x: Any, weights: list[Any]) -> Callable[[], Any]:
    """Two buffers; the next layer is copied from pinned memory while one is computed."""
    import torch

    cuda: Any = torch.cuda
    pinned = [torch.from_numpy(w).pin_memory() for w in weights]
    given = torch.from_numpy(x).cuda()
    buffers = [torch.empty(w.shape, device="cuda") for w in pinned[:2]]
    computing, loading = cuda.Stream(), cuda.Stream()

    def work() -> Any:
        y, free = given, [None, None]
        for k, weight in enumerate(pinned):
            with cuda.stream(loading):
                if free[k % 2] is not None:
                    loading.wait_event(free[k % 2])
                buffers[k % 2].copy_(weight, non_blocking=True)
                loaded = loading.record_event()
            with cuda.stream(computing):
                computing.wait_event(loaded)
                y = torch.relu(y @ buffers[k % 2])
                free[k % 2] = computing.record_event()
        return y

    return work


def link_bytes_per_s() -> float:
    import torch

    host = torch.empty(1 << 28, dtype=torch.uint8).pin_memory()
    device = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    taken = seconds(lambda: device.copy_(host, non_blocking=True), 9)
    return (1 << 28) / sorted(taken)[4]


def main() -> None:
    import torch

    import infinitensor as it

    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="?", type=int, default=2048)
    parser.add_argument("--shares", nargs="+", type=float, default=[1.2, 0.75, 0.5, 0.25, 0.1])
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    weights = [0.01 * torch.randn(WIDTH, WIDTH).numpy() for _ in range(N_LAYERS)]
    x = rng.random((asked.rows, WIDTH), dtype=np.float32)
    total = sum(w.nbytes for w in weights)
    work = resident(x, weights)
    wanted = work().cpu().numpy()
    compute = sorted(seconds(work, 5))[2]
    del work
    torch.cuda.empty_cache()
    link = link_bytes_per_s()
    print(f"weights {total / 1e9:.2f} GB, torch {1e3 * compute:.1f} ms, {link / 1e9:.1f} GB/s")
    for share in asked.shares:
        budget = int(share * total) + 3 * x.nbytes
        with it.init("cuda:0", memory=budget, host_memory=2 * total, disk=0):
            ours, given = [it.asarray(w) for w in weights], it.asarray(x)
            runs = []
            for _ in range(6):
                it.stats(reset=True)
                began = time.perf_counter()
                y = given
                for weight in ours:
                    y = it.maximum(y @ weight, 0)
                it.compute(y)
                runs.append(time.perf_counter() - began)
            loaded, evicted = (it.stats()[name] for name in ("bytes_loaded", "bytes_evicted"))
            np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-3, atol=1e-4)
        bound = max(compute, loaded / link)
        print(
            f"budget {share:4.0%}: {[round(1e3 * s, 1) for s in runs]} ms, bound {1e3 * bound:.1f},"
            f" loaded {loaded / 1e9:.2f} GB, written back {evicted / 1e9:.2f} GB",
            flush=True,
        )
    print("by hand, one layer ahead:", [round(1e3 * s, 1) for s in seconds(by_hand(x, weights), 5)])


if __name__ == "__main__":
    main()
