"""Weights larger than a GPU's budget: python -m benchmarks.bench_tiers [rows] [--shares 0.75 0.1].

Layers of a network whose weights are in the host's memory pass through a budget that holds a part
of them. Beside ours: the same layers in torch with all weights on the GPU, the rate of the link,
and two loops by hand that copy from pinned memory: one layer ahead, which may hold more than the
budget, and one part of a layer ahead, as large as the budget allows. A run takes about a minute.

`--varied`: every second layer sees few rows, so that kernels take long and short in turns while
copies are alike. `--fixed-order`: the same plan with lanes that keep to the order of the program
and load one step ahead (`config.fixed_order`), in turns with ours. Both, in less than a minute:
python -m benchmarks.bench_tiers 4096 --shares 0.25 0.1 --layers 12 --varied --fixed-order
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH, FEW_ROWS = 8192, 64


def layer(relu: Callable[[Any], Any], y: Any, weight: Any, is_short: bool) -> Any:
    """One layer over all rows; or over a few of them, whose mean is added to all."""
    if not is_short:
        return relu(y @ weight)
    few = y[:FEW_ROWS] @ weight
    return y + few.mean()


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


def resident(x: Any, weights: list[Any], varied: bool) -> Callable[[], Any]:
    """Torch with all weights on the GPU."""
    import torch

    ours = [torch.from_numpy(w).cuda() for w in weights]
    given = torch.from_numpy(x).cuda()

    def work() -> Any:
        y = given
        for k, weight in enumerate(ours):
            y = layer(torch.relu, y, weight, varied and k % 2 == 1)
        return y

    return work


def n_parts_of(weight_bytes: int, room: int) -> int:
    """In how many parts a loop copies a weight that has room for two parts."""
    n_parts = 1
    while 2 * weight_bytes > room * n_parts:
        n_parts *= 2
    return n_parts


def by_hand(x: Any, pinned: list[Any], varied: bool, n_parts: int) -> Callable[[], Any]:
    """Two buffers; the next layer, or the next rows of it, is copied from pinned memory while one
    is computed. Beside the buffers it holds three times the rows."""
    import torch

    cuda: Any = torch.cuda
    given = torch.from_numpy(x).cuda()
    step = WIDTH // n_parts
    buffers = [torch.empty((step, WIDTH), device="cuda") for _ in range(2)]
    sums = [torch.empty_like(given) for _ in range(2)]
    computing, loading = cuda.Stream(), cuda.Stream()

    def work() -> Any:
        y, free, at, place = given, [None, None], 0, 0
        for k, weight in enumerate(pinned):
            is_short = varied and k % 2 == 1
            seen = y[:FEW_ROWS] if is_short else y
            out = sums[place][: len(seen)]  # y is in the other one, or what was given
            for row in range(0, WIDTH, step):
                buffer = buffers[at % 2]
                with cuda.stream(loading):
                    if free[at % 2] is not None:
                        loading.wait_event(free[at % 2])
                    buffer.copy_(weight[row : row + step], non_blocking=True)
                    loaded = loading.record_event()
                with cuda.stream(computing):
                    computing.wait_event(loaded)
                    part = seen[:, row : row + step]
                    if row:
                        out.addmm_(part, buffer)
                    else:
                        torch.mm(part, buffer, out=out)
                    free[at % 2] = computing.record_event()
                at += 1
            with cuda.stream(computing):
                if is_short:
                    y = torch.add(y, out.mean(), out=sums[1 - place])
                else:
                    y, place = out.relu_(), 1 - place
        cuda.current_stream().wait_stream(computing)
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

    def relu(y: Any) -> Any:
        return it.maximum(y, 0)

    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="?", type=int, default=2048)
    parser.add_argument("--shares", nargs="+", type=float, default=[1.2, 0.75, 0.5, 0.25, 0.1])
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--varied", action="store_true")
    parser.add_argument("--fixed-order", action="store_true")
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    weights = [0.01 * torch.randn(WIDTH, WIDTH).numpy() for _ in range(asked.layers)]
    x = rng.random((asked.rows, WIDTH), dtype=np.float32)
    total = sum(w.nbytes for w in weights)
    work = resident(x, weights, asked.varied)
    wanted = work().cpu().numpy()
    compute = sorted(seconds(work, 5))[2]
    del work
    torch.cuda.empty_cache()
    link = link_bytes_per_s()
    pinned = [torch.from_numpy(w).pin_memory() for w in weights]
    print(f"weights {total / 1e9:.2f} GB, torch {1e3 * compute:.1f} ms, {link / 1e9:.1f} GB/s")
    for share in asked.shares:
        budget = int(share * total) + 3 * x.nbytes
        with it.init("cuda:0", memory=budget, host_memory=2 * total, disk=0):
            ours, given = [it.asarray(w) for w in weights], it.asarray(x)
            runs: dict[bool, list[float]] = {False: [], True: []}
            # the first two plan and find out what stays; then in turns
            turns = [False] * 6 if not asked.fixed_order else [False, False, *[True, False] * 5]
            for is_fixed in turns:
                it.stats(reset=True)
                it.config.fixed_order = is_fixed
                began = time.perf_counter()
                y = given
                for k, weight in enumerate(ours):
                    y = layer(relu, y, weight, asked.varied and k % 2 == 1)
                it.compute(y)
                runs[is_fixed].append(time.perf_counter() - began)
            it.config.fixed_order = False
            loaded, evicted = (it.stats()[name] for name in ("bytes_loaded", "bytes_evicted"))
            np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-3, atol=1e-4)
        n_parts = n_parts_of(weights[0].nbytes, int(share * total))
        work = by_hand(x, pinned, asked.varied, n_parts)
        np.testing.assert_allclose(work().cpu().numpy(), wanted, rtol=1e-3, atol=1e-4)
        hand = seconds(work, 5)
        del work
        torch.cuda.empty_cache()
        bound = max(compute, loaded / link)
        print(
            f"budget {share:4.0%}: {shown(runs[False])} ms, bound {1e3 * bound:.1f},"
            f" loaded {loaded / 1e9:.2f} GB, written back {evicted / 1e9:.2f} GB;"
            f" by hand within it, {n_parts} parts of a layer: {shown(hand)} ms",
            flush=True,
        )
        if asked.fixed_order:
            ratio = np.median(runs[False][2:]) / np.median(runs[True])
            print(f"  fixed order: {shown(runs[True])} ms, ours / fixed {ratio:.3f}", flush=True)
    hand = seconds(by_hand(x, pinned, asked.varied, 1), 5)
    print("by hand, one layer ahead, whatever the budget:", shown(hand), "ms")


def shown(runs: list[float]) -> list[float]:
    return [round(1e3 * s, 1) for s in runs]


if __name__ == "__main__":
    main()
