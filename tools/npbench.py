"""Run the kernels of an NPBench checkout unchanged on tensors, and compare with NumPy.

    python tools/npbench.py PATH [name ...] [--strict | --default] [--preset S] [--limit 60]

What a user with one changed import would do: arrays are given as `it.asarray(a)`, and `np` in the
kernel's module is `infinitensor`; nothing else is changed. Results and every array argument (many
kernels change theirs) must have NumPy's shape, dtype and values, within NPBench's own tolerance.
`tasks` and `small` are what `it.stats()` counted: tasks over tiles, calls on small host values;
fall-backs are named. A default run takes NPBench's preset (S unless given).

A strict run (tiles of 7 elements on three devices, no small path) takes the smallest sizes: the
preset's, but none above 9, or what `NEEDED` says where a kernel asks for more or would go on for
longer. That is every loop, branch and view of the kernel over several tiles; the run fails if a
call of its took the small path. Preset S itself is 10^5 to 10^7 tiles of 7 elements, hours at 0.1
to 0.5 ms a task, of the same tasks again: of the first 22 kernels one ends within a minute
(arc_distance, 25 000 tasks, 13 s). `--full` keeps the preset's sizes.

`--session cuda` (or `cpu`) asks what a user of a fresh session waits for: every kernel once in one
process, with an empty cache of kernels and then with the one that this left; the seconds that
first calls take above NumPy's.
NPBench (github.com/spcl/npbench) is not part of this repository; PATH is a checkout of it.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import infinitensor as it

if TYPE_CHECKING:
    from types import ModuleType

STRICT = {"small_elements": 0, "tile_elements": 7}
FEW = 9
"""What every size is cut down to in a strict run, unless the kernel needs more."""
NEEDED: dict[str, dict[str, Any]] = {
    "arc_distance": {"N": 60},  # else two tiles for three devices
    "channel_flow": {"nx": 5, "ny": 5, "nit": 2, "nu": 3.0},  # runs until it is steady
    "contour_integral": {"NR": 4, "NM": 5, "slab_per_bc": 2, "num_int_pts": 4},
    "lenet": {"N": 1, "H": 16, "W": 16},
    "nbody": {"N": 6, "tEnd": 0.15},
    "resnet": {"N": 2, "W": 4, "H": 4, "C1": 4, "C2": 1},
    "scattering_self_energies": {"NE": 2, "NA": 3},
    "spmv": {"M": 12, "N": 12, "nnz": 40},
    "stockham_fft": {"R": 2, "K": 5},
}
FALL_BACKS = ("whole_ops", "host_fallbacks", "eager_fallbacks")


def kernels(root: Path) -> list[str]:
    return sorted(path.stem for path in (root / "bench_info").glob("*.json"))


def load(root: Path, info: dict[str, Any], suffix: str) -> ModuleType:
    folder = root / "npbench" / "benchmarks" / info["relative_path"]
    path = folder / f"{info['module_name']}{suffix}.py"
    spec = importlib.util.spec_from_file_location(f"npbench_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arguments(root: Path, info: dict[str, Any], sizes: dict[str, Any]) -> list[Any]:
    """The arguments of a kernel, made by the benchmark's own `initialize`."""
    known = dict(sizes)
    if "init" in info:
        init = info["init"]
        made = getattr(load(root, info, ""), init["func_name"])(
            *(known[name] for name in init["input_args"])
        )
        names = init["output_args"]
        known.update(zip(names, made if len(names) > 1 else (made,), strict=True))
    return [known[name] for name in info["input_args"]]


def sizes_of(name: str, info: dict[str, Any], preset: str, few: bool) -> dict[str, Any]:
    sizes = dict(info["parameters"][preset])
    if few:
        sizes = {k: min(n, FEW) if isinstance(n, int) else n for k, n in sizes.items()}
        sizes |= NEEDED.get(name, {})
    return sizes


def difference(info: dict[str, Any], ours: Any, theirs: Any) -> str:
    """The difference between a result and NumPy's: nothing, if they are the same."""
    if isinstance(theirs, tuple | list):
        pairs = zip(ours, theirs, strict=True)
        return "; ".join(filter(None, (difference(info, a, b) for a, b in pairs)))
    a, b = np.asarray(ours), np.asarray(theirs)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"{a.shape} {a.dtype}, NumPy has {b.shape} {b.dtype}"
    rtol, atol = info.get("rtol", 1e-5), info.get("atol", 1e-8)
    if np.allclose(a, b, rtol, atol, equal_nan=True):
        return ""
    error = float(np.linalg.norm(a - b) / np.linalg.norm(b))
    return "" if error < info.get("norm_error", 1e-5) else f"differs by {error:.2g}"


def first_calls(root: Path, names: list[str], preset: str, device: str) -> None:
    """Seconds of NumPy's first call and of ours, of every kernel, in this process: a line each."""
    with it.init(device):
        it.compute(it.asarray(np.arange(3.0)) + 1)  # the device itself is not what is asked
        for name in names:
            info = json.loads((root / "bench_info" / f"{name}.json").read_text())["benchmark"]
            module = load(root, info, "_numpy")
            theirs = arguments(root, info, sizes_of(name, info, preset, few=False))
            ours = [
                it.asarray(a) if isinstance(a, np.ndarray) else a for a in copy.deepcopy(theirs)
            ]
            found: dict[str, Any] = {"kernel": name}
            for library, xp, given in (("numpy", np, theirs), ("ours", it, ours)):
                module.np = xp  # type: ignore[attr-defined]
                begun = time.perf_counter()
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        made = getattr(module, info["func_name"])(*given)
                        tensors = [x for x in (*given, *_flat(made)) if isinstance(x, it.Tensor)]
                        if tensors:
                            it.compute(*tensors)
                except Exception as error:
                    found["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
                found[library] = time.perf_counter() - begun
            print(json.dumps(found), flush=True)


def session(root: Path, names: list[str], preset: str, device: str) -> None:
    """Print what first calls of all kernels take above NumPy, without and with kept kernels."""
    asked = [
        sys.executable,
        __file__,
        str(root),
        *names,
        "--preset",
        preset,
        "--in-session",
        device,
    ]
    with tempfile.TemporaryDirectory() as cache:
        kept = {"XDG_CACHE_HOME": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
        for kernels_are in ("an empty cache", "a filled cache"):
            done = subprocess.run(
                asked, env={**os.environ, **kept}, stdout=subprocess.PIPE, text=True, check=False
            )
            found = [json.loads(text) for text in done.stdout.splitlines()]
            above = {one["kernel"]: one["ours"] - one["numpy"] for one in found}
            worst = sorted(above, key=lambda k: -above[k])[:12]
            total = sum(one["numpy"] for one in found)
            print(
                f"{len(found)} kernels, {kernels_are}: {sum(above.values()):.2f} s above NumPy's"
                f" {total:.2f} s; most: " + ", ".join(f"{k} {above[k]:.3f}" for k in worst),
                flush=True,
            )
            for one in found:
                if "error" in one:
                    print(f"  {one['kernel']}: {one['error']}", flush=True)


def attempt(root: Path, name: str, strict: bool, preset: str, full: bool) -> dict[str, Any]:
    """One kernel: seconds, what was counted, and an error or nothing."""
    info = json.loads((root / "bench_info" / f"{name}.json").read_text())["benchmark"]
    module = load(root, info, "_numpy")
    kernel = getattr(module, info["func_name"])
    theirs = arguments(root, info, sizes_of(name, info, preset, strict and not full))
    if strict:
        for key, value in STRICT.items():
            setattr(it.config, key, value)
    given = copy.deepcopy(theirs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's own, of divisions by zero
        start = time.perf_counter()
        expected = kernel(*theirs)
        numpy_s = time.perf_counter() - start
    with it.init("cpu*3" if strict else "cpu"):
        ours = [it.asarray(a) if isinstance(a, np.ndarray) else a for a in given]
        module.np = it  # type: ignore[attr-defined]
        it.stats(reset=True)
        start = time.perf_counter()
        result = kernel(*ours)
        tensors = [x for x in (*ours, *_flat(result)) if isinstance(x, it.Tensor)]
        it.compute(*tensors)
        seconds = time.perf_counter() - start
        counts = it.stats()
        wrong = [difference(info, result, expected)] if expected is not None else []
        wrong += [difference(info, a, b) for a, b in zip(ours, theirs, strict=True)]
    error = "; ".join(filter(None, wrong))
    if not error and not counts["tasks"] and not counts["small_calls"]:
        error = "nothing ran here"
    if not error and strict and counts["small_calls"]:
        error = "not all of it ran in tiles"
    return {"seconds": seconds, "numpy_s": numpy_s, "error": error, "counts": counts}


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def child(pipe: Any, *task: Any) -> None:
    try:
        found = attempt(*task)
        found["counts"].pop("peak_bytes")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(place) if f.filename.endswith("_numpy.py")), 0)
        text = str(error).splitlines()[0] if str(error) else ""
        found = {"error": f"line {line}: {type(error).__name__}: {text}"}
    pipe.send(found)


def run(limit_s: float, *task: Any) -> dict[str, Any]:
    """A kernel in a process of its own, so that nothing is left of it and time ends it."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(theirs, *task))
    process.start()
    theirs.close()
    try:
        if not ours.poll(limit_s):
            process.kill()
            return {"error": f"more than {limit_s:g} s"}
        return dict(ours.recv())
    except EOFError:
        return {"error": f"the process ended with {process.exitcode}"}
    finally:
        process.join()


def line(name: str, kind: str, found: dict[str, Any]) -> str:
    counts = found.get("counts", {})
    fell = ", ".join(f"{k} {counts[k]}" for k in FALL_BACKS if counts.get(k))
    seconds = f"{found['seconds']:9.3f}" if "seconds" in found else f"{'-':>9}"
    numpy_s = f"{found['numpy_s']:9.3f}" if "numpy_s" in found else f"{'-':>9}"
    return (
        f"{name:26} {kind:8} {'no' if found['error'] else 'ok':3} {seconds} {numpy_s} "
        f"{counts.get('tasks', 0):9} {counts.get('small_calls', 0):9}  {found['error'] or fell}"
    ).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, help="a checkout of NPBench")
    parser.add_argument("names", nargs="*", help="kernels; all unless given")
    parser.add_argument("--strict", action="store_true", help="only strict runs")
    parser.add_argument("--default", action="store_true", help="only default runs")
    parser.add_argument("--preset", default="S", help="NPBench's sizes: S, M, L or paper")
    parser.add_argument("--full", action="store_true", help="the preset's sizes in strict runs too")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one run")
    parser.add_argument("--session", metavar="DEVICE", help="first calls of all in one process")
    parser.add_argument("--in-session", metavar="DEVICE", help="the same, in this process")
    args = parser.parse_args()
    if args.session or args.in_session:
        ask = session if args.session else first_calls
        ask(
            args.path,
            args.names or kernels(args.path),
            args.preset,
            args.session or args.in_session,
        )
        return
    importlib.import_module("torch")  # once, not in each kernel's process
    kinds = [k for k in ("default", "strict") if getattr(args, k)] or ["default", "strict"]
    good = dict.fromkeys(kinds, 0)
    names = args.names or kernels(args.path)
    print(
        f"{'kernel':26} {'run':8} {'ok':3} {'s':>9} {'NumPy s':>9} {'tasks':>9} {'small':>9}  note"
    )
    for name in names:
        for kind in kinds:
            found = run(args.limit, args.path, name, kind == "strict", args.preset, args.full)
            good[kind] += not found["error"]
            print(line(name, kind, found), flush=True)
    for kind in kinds:
        print(f"{kind}: {good[kind]} of {len(names)}")


if __name__ == "__main__":
    main()
