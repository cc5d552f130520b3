"""Generated C, compiled once for each source, kept between processes, called without Python's lock.

A kernel takes about 0.1 s to compile; the library of a source is found again by its hash in a
folder that only its owner may write to.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import stat
import struct
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinitensor.tasking.generate import source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.tasking.generate import Input, Part

FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fwrapv")
"""No -ffast-math: it breaks NaN and flushes subnormals of the whole process."""


class CompilerError(Exception):
    """There is no compiler, or it does not take what was generated."""


_lock = threading.Lock()
_loaded: dict[str, Any] = {}


def compiler() -> str | None:
    """The C compiler of this machine, if it has one."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")


def cache_folder() -> Path:
    """Where libraries are kept; made for the user alone."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "infinitensor" / "kernels"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise OSError(f"{folder} can be written to by others")
    return folder


def library(source: str) -> Any:
    """The compiled function of a source, from memory, from the folder, or from the compiler."""
    with _lock:
        if source not in _loaded:
            _loaded[source] = _load(source)
        return _loaded[source]


def _load(source: str) -> Any:
    cc = compiler()
    if cc is None:
        raise CompilerError("no C compiler")
    text = "\n".join((source, cc, *FLAGS, _machine()))
    name = hashlib.sha256(text.encode()).hexdigest()[:32]
    try:
        folder = cache_folder()
    except OSError:  # no home, or one that others may write to: compile for this process
        folder = Path(tempfile.mkdtemp(prefix="infinitensor-"))
    path = folder / f"{name}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as work:
            (Path(work) / "kernel.c").write_text(source)
            made = subprocess.run(
                [cc, *FLAGS, "-shared", "-fPIC", "-o", "kernel.so", "kernel.c", "-lm"],
                cwd=work,
                capture_output=True,
                text=True,
                check=False,
            )
            if made.returncode:
                raise CompilerError(f"{cc} failed: {made.stderr[-2000:]}")
            os.replace(Path(work) / "kernel.so", path)
    run = ctypes.CDLL(str(path)).run
    run.restype = None
    run.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_void_p] * 4
    return run


def _machine() -> str:
    """What -march=native depends on: a shared home must not mix machines."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line for line in file if line.startswith(("flags", "Features", "model name"))]
        return "".join(sorted(set(lines)))
    except OSError:
        return os.uname().machine


def compiled_kernel(
    parts: Sequence[Part], inputs: Sequence[Input], n_outs: int
) -> Callable[[Sequence[Any], Sequence[Any], tuple[int, ...]], None]:
    """`run(ins, outs, shape)`: the steps of a group in one pass; compiled at its first call."""
    source = source_of(parts, inputs, n_outs)
    scalars = [k for k, given in enumerate(inputs) if given.scalar]
    packer = struct.Struct("".join("d" if inputs[k].dtype.kind == "f" else "q" for k in scalars))
    wide = [k for k in scalars if inputs[k].dtype == "uint64"]
    arrays = [k for k, given in enumerate(inputs) if not given.scalar]
    has_rows = any(given.row for given in inputs)
    shapes: dict[Any, Any] = {}

    def run(ins: Sequence[Any], outs: Sequence[Any], shape: tuple[int, ...]) -> None:
        function = library(source)
        tiles = [ins[k] for k in arrays]
        tiles += outs
        key = (shape, *[(tile.shape, tile.strides) for tile in tiles])
        walk = shapes.get(key)
        if walk is None:
            if len(shapes) > 64:
                shapes.clear()
            walk = shapes[key] = Walk(shape, tiles, has_rows)
        values = [ins[k] for k in scalars]
        for k in wide:
            at = scalars.index(k)
            values[at] = int(values[at]) - (int(values[at]) >> 63 << 64)
        pointers = (ctypes.c_void_p * len(tiles))(
            *[tile.__array_interface__["data"][0] for tile in tiles]
        )
        function(
            walk.n_rows, walk.n, walk.n_outer, walk.shape, pointers, walk.steps,
            packer.pack(*[v.item() if hasattr(v, "item") else v for v in values]),
        )  # fmt: skip

    return run


class Walk:
    """How a shape is walked over arrays: the last axis inside, neighbours that lie alike as one."""

    __slots__ = ("n", "n_outer", "n_rows", "shape", "steps")

    def __init__(self, shape: tuple[int, ...], tiles: Sequence[Any], has_rows: bool) -> None:
        last = len(shape) - 1
        axes = [
            (n, [_stride(tile, axis - len(shape)) for tile in tiles])
            for axis, n in enumerate(shape)
            if n != 1 or (axis == last and has_rows)
        ] or [(1, [0] * len(tiles))]
        merged = [axes[-1]]
        for n, strides in reversed(axes[:-1]):
            inner_n, inner = merged[-1]
            if all(s == t * inner_n for s, t in zip(strides, inner, strict=True)) and any(inner):
                merged[-1] = (n * inner_n, inner)
            else:
                merged.append((n, strides))
        merged.reverse()
        self.n = merged[-1][0]
        self.n_outer = len(merged) - 1
        self.n_rows = 1
        for n, _ in merged[:-1]:
            self.n_rows *= n
        lengths = [n for n, _ in merged[:-1]]
        steps = [s for _, strides in merged for s in strides]
        self.shape = (ctypes.c_int64 * max(len(lengths), 1))(*lengths)
        self.steps = (ctypes.c_int64 * len(steps))(*steps)


def _stride(tile: Any, axis: int) -> int:
    """The step of an axis counted from the last; 0 where one value stands for all."""
    if -axis > tile.ndim or tile.shape[axis] == 1:
        return 0
    return int(tile.strides[axis])
