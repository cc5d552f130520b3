"""Budgets smaller than the working set: python -m benchmarks.bench_budgets [names] [--size 0.25].

With `--device cuda` on a GPU, all in one process: what is printed as the process's is then torch's
peak of reserved memory, less what it had reserved before, and torch may reserve no more than the
budget and `SEGMENT_BYTES` (`set_per_process_memory_fraction`). Each runs twice there, and the
second run is printed.

Seven programs over files, each with 100, 75, 50, 25 and 10 % of what it is planned to take when
there is room for everything. Every run is a process of its own, its result is compared with NumPy's
and, bit for bit, with that of the run with room. Printed: bytes loaded and evicted, beside LRU and
TURNIP's write-back-always with the same tiles in the same order (`policies`); the peak of the plan,
of the ledger, and of the process as the system sees it (resident peak), less what it took before
its first program. Where we may make a control group the kernel ends a process that takes more than
that and its budget, `BUFFER_BYTES` on top.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.budget_programs import PROGRAMS
from benchmarks.control_group import VARIABLE, control_group, given_group
from benchmarks.policies import POLICIES, Recorder, traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.control_group import Group

SHARES = (1.0, 0.75, 0.5, 0.25, 0.1)
ROOM = 16 << 30
BUFFER_BYTES = 64 << 20
"""The stated overhead on a CPU, beyond what a process took before: stacks and buffers of threads,
of libraries and of the allocator, and plans."""
SEGMENT_BYTES = 64 << 20
"""The stated overhead on a GPU: torch takes memory in segments of 2 and 20 MiB, and library kernels
have workspaces."""


class OfNumPy:
    """NumPy under the names that programs use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def astype(self, x: Any, dtype: Any) -> Any:
        return x.astype(dtype)


def make(name: str, size: float, folder: Path) -> None:
    """The files of a program, and what NumPy makes of them."""
    program = PROGRAMS[name]
    files = program.files(size)
    for key, values in files.items():
        np.save(folder / f"{key}.npy", values)
    results = program.results(OfNumPy(), files, lambda *tensors: None)
    for k, values in enumerate(results):
        np.save(folder / f"result-{k}.npy", np.asarray(values))


def run(
    name: str, folder: Path, budget: int, device: str = "cpu", group: Group | None = None
) -> dict[str, Any]:
    """One run in this process: what it took, moved and found; an error where it does not fit.

    The limit of a control group is lifted before its results are compared with NumPy's."""
    import infinitensor as it

    program = PROGRAMS[name]
    names = [path.stem for path in folder.glob("*.npy") if not path.stem.startswith("result-")]
    room: dict[str, Any] = {"host_memory": "8GiB", "disk": "32GiB", "spill_dir": str(folder)}
    with it.init(device, memory=budget, **room) as session:
        with Recorder(budget, session.engine.mesh.n_concurrent) as recorder:
            files = {key: it.open(folder / f"{key}.npy") for key in names}
            began = time.perf_counter()
            try:
                results = program.results(it, files, it.compute)
            except it.MemoryBudgetError as error:
                return {"does_not_fit": str(error)}
            seconds = time.perf_counter() - began
        outside = outside_bytes() if device == "cpu" else reserved_bytes()
        if group is not None:
            group.lift()
        found: dict[str, Any] = {"seconds": seconds, "outside": outside}
        stats = it.stats()
        found["loaded"], found["evicted"] = stats["bytes_loaded"], stats["bytes_evicted"]
        found["ledger"] = max(stats["peak_bytes"].values())
        plans = [planned.program for planned in session.plans.values()]
        found["plan"] = max((max(p.peak_bytes.values()) for p in plans), default=0)
        found["smaller"] = stats["smaller_blocks"] > 0 or any(
            planned.tile_elements != it.config.tile_elements for planned in session.plans.values()
        )
        found["parts"] = sorted({planned.part_elements for planned in session.plans.values()})
        values = [np.asarray(result) for result in results]
        del results, files
    for policy in POLICIES:
        found[policy] = traffic(recorder.programs, policy)
    found["bits"] = hashlib.sha256(b"".join(v.tobytes() for v in values)).hexdigest()
    found["error"] = max(
        float(np.abs(v - wanted).max() / max(np.abs(wanted).max(), 1e-300))
        for k, v in enumerate(values)
        for wanted in [np.load(folder / f"result-{k}.npy")]
    )
    assert found["error"] <= program.tolerance, f"{name}: {found['error']} from NumPy's"
    return found


def warm_up(device: str = "cpu") -> None:
    """Load what any program loads: kernels, torch, threads."""
    import torch  # noqa: F401 - some products need it, and it is 150 MB that no plan counts

    import infinitensor as it

    with it.init(device, memory="64MiB"):
        x = it.asarray(np.ones((700, 700)))
        it.compute(it.tanh(x @ x) + 1, it.linalg.cholesky(it.eye(9)), it.sort(x, axis=None))


def outside_bytes() -> int:
    """The most that this process has taken since its peak was last forgotten, as the system says:
    resident pages, mapped files included."""
    return status_bytes("VmHWM")


def reserved_bytes() -> int:
    """The most that torch has taken of the GPU since its peak was last forgotten."""
    import torch

    return int(torch.cuda.max_memory_reserved())


def on_gpu(name: str, folder: Path, budget: int) -> dict[str, Any]:
    """One run on a GPU, in this process: torch may reserve what the budget says, and no more."""
    import torch

    warm_up("cuda:0")
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    allowed = before + budget + SEGMENT_BYTES
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(allowed / total, 1.0))
    try:
        run(name, folder, budget, "cuda:0")  # kernels of tiles of this size are compiled here
        return {"before": before, **run(name, folder, budget, "cuda:0")}
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def status_bytes(key: str) -> int:
    return 1024 * int(Path("/proc/self/status").read_text().split(f"{key}:")[1].split()[0])


def one(name: str, folder: Path, budget: int) -> None:
    """What a child does: warm up, note what it has taken by then, run, and say what it found."""
    group = given_group()
    if group is not None:
        group.join()
    warm_up()
    before = status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the resident peak begins anew
    if group is not None:
        group.limit(group.own_bytes() + budget + BUFFER_BYTES)
    found = run(name, folder, budget, group=group)
    print(json.dumps({"before": before, "group": group is not None, **found}))


def child(name: str, folder: Path, budget: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.bench_budgets", "--one", name, str(folder)]
    with control_group() as group:
        given = {} if group is None else {VARIABLE: str(group.path)}
        done = subprocess.run(
            [*command, str(budget)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **given},
        )
    if done.returncode:
        raise RuntimeError(f"{name} with {budget} bytes:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(
    name: str, size: float, shares: tuple[float, ...] = SHARES, device: str = "cpu"
) -> Iterator[dict[str, Any]]:
    """A program with room for everything, and in each of its budgets."""
    measured = child if device == "cpu" else on_gpu
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        make(name, size, folder)
        roomy = measured(name, folder, ROOM)
        yield {"name": name, "share": None, "budget": ROOM, "same": True, **roomy}
        for share in shares:
            budget = int(share * roomy["plan"])
            found = measured(name, folder, budget)
            same = found.get("bits") == roomy["bits"]
            is_cut = found.get("parts") != roomy["parts"]
            row = {"name": name, "share": share, "budget": budget, "same": same, "is_cut": is_cut}
            yield row | found


def line(row: dict[str, Any]) -> str:
    """One row of a Markdown table."""
    share = "room" if row["share"] is None else f"{row['share']:.0%}"
    if "does_not_fit" in row:
        return f"| {row['name']} | {share} | does not fit | | | | | | | |"

    def mb(n_bytes: float) -> str:
        return f"{n_bytes / 1e6:.0f}"

    moved = [(row["loaded"], row["evicted"]), *(row[policy] for policy in POLICIES)]
    bits = "same" if row["same"] else "smaller tiles" if row["smaller"] else "other"
    if bits == "other" and row["is_cut"]:
        bits = "products in parts"
    cells = [
        row["name"],
        share,
        "" if row["share"] is None else mb(row["budget"]),
        mb(row["plan"]),
        mb(row["ledger"]),
        mb(row["outside"] - row["before"]),
        *(f"{mb(loaded)} + {mb(evicted)}" for loaded, evicted in moved),
        f"{bits}, {row['seconds']:.3g} s",
    ]
    return f"| {' | '.join(cells)} |"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_budgets")
    parser.add_argument("names", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--size", type=float, default=1.0, help="of the files: 1 is 75 to 210 MB")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=3, help="one run, in this process")
    args = parser.parse_args(argv)
    if args.one:
        name, folder, budget = args.one
        one(name, Path(folder), int(budget))
        return 0
    print(
        "| program | budget | MB | plan | ledger | process | loaded + evicted: ours | LRU "
        "| write back | bits, time |\n" + "|---" * 10 + "|"
    )
    for name in args.names:
        for row in table(name, args.size, device=args.device):
            print(json.dumps(row) if args.json else line(row), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
