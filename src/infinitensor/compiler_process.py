"""Triton's compiler in a process of its own.

A thread that compiles takes Python's lock for parts of a second, and programs wait for it. A
process takes nothing but a core: it compiles what it is given into Triton's cache, where whoever
launches the kernel finds it. The process runs this file and imports nothing of the package; it
needs no GPU. It ends with the one that started it, however that ends: with its standard input.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import linecache
import os
import signal
import subprocess
import sys
import threading
import types
from typing import Any

START = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
NICENESS = 5
"""By how much other processes come before compilers."""

_lock = threading.Lock()
_loaded: dict[str, Any] = {}


class Look:
    """What Triton looks at of an array: no array, whose memory a compiler must not hold."""

    __slots__ = ("address", "dtype")

    def __init__(self, dtype: Any, address: int) -> None:
        self.dtype = dtype
        self.address = address

    def data_ptr(self) -> int:
        """An address with the same alignment."""
        return self.address


def load(source: str) -> Any:
    """The kernel `run` of a source. Triton reads the text of a function back: it finds it here."""
    with _lock:
        if source not in _loaded:
            name = f"infinitensor_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
            path = f"<{name}>"
            linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
            made: dict[str, Any] = {"__name__": name}
            # not with this file's own `annotations`: Triton would not see the types of arguments
            exec(compile(source, path, "exec", dont_inherit=True), made)
            _loaded[source] = made["run"]
        return _loaded[source]


def is_kept(asked: dict[str, Any]) -> bool:
    """Whether a process has compiled this before, and Triton's cache has it."""
    return _mark(asked).get_file("compiled") is not None


def _mark(asked: dict[str, Any]) -> Any:
    """A place in Triton's cache that says that a kernel is there."""
    import triton
    from triton.runtime.cache import get_cache_manager

    text = json.dumps([triton.__version__, asked], sort_keys=True)
    return get_cache_manager(hashlib.sha256(text.encode()).hexdigest())


class CompilerProcess:
    """The process, as the one that started it sees it. One thread asks it, another may stop it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.is_stopped = False

    def compile(self, asked: dict[str, Any]) -> bool:
        """Have a kernel compiled (`compile_kernel` says what is asked); False: it is not."""
        if self.is_stopped:
            return False
        try:
            process = self._process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:  # no process, or it has ended
            answer = ""
        if not answer:  # what comes next may not end the compiler: it gets another
            self.close()
        return answer == "compiled\n"

    @staticmethod
    def _start() -> subprocess.Popen[str]:
        paths = [path for path in sys.path if path]
        return subprocess.Popen(
            [sys.executable, "-c", START, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            text=True,
        )

    def stop(self) -> None:
        """Compile no more; who waits for a kernel need not."""
        self.is_stopped = True
        process = self._process
        if process is not None:
            process.kill()  # in the midst of a kernel too: Triton's cache takes only whole ones

    def close(self) -> None:
        """End the process, and wait for that."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):  # what it was given last is still there
                    pipe.close()


# In the process -----------------------------------------------------------------------------------


class _NoDevice:
    """What Triton asks of a GPU's driver before it compiles."""

    def __init__(self) -> None:
        self.capability = 0

    def get_current_target(self) -> Any:
        """The kind of GPU for which kernels are compiled."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        """Triton keeps kernels by device: one for each kind."""
        return self.capability

    def get_current_stream(self, device: int) -> int:
        """Nothing is started on it."""
        return 0


def compile_kernel(
    driver: _NoDevice,
    source: str,
    capability: int,
    arrays: list[tuple[str, int]],
    numbers: list[float],
    how: dict[str, Any],
) -> None:
    """Compile the kernel of a source into Triton's cache.

    `capability` is the GPU's (90 for 9.0), `arrays` the dtypes and alignments of its arrays,
    `numbers` what follows them, `how` its constants and options by name.
    """
    driver.capability = capability
    looks = [Look(dtype, address) for dtype, address in arrays]
    load(source).warmup(*looks, *numbers, grid=(1, 1, 1), **how)


def serve() -> None:
    """Compile what each line of standard input asks for, and say of each whether that was done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: meant for the program
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Triton prints is no answer
    # Triton asks for torch's class of tensors, which nothing here is; torch takes seconds to import
    sys.modules["torch"] = types.ModuleType("torch")
    sys.modules["torch"].Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
    from triton.runtime import driver

    no_device = _NoDevice()
    driver.set_active(no_device)
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            compile_kernel(no_device, **asked)
            _mark(asked).put("", "compiled", binary=False)
            answers.write("compiled\n")
        except Exception:  # it is raised again where the kernel is launched
            answers.write("failed\n")
        answers.flush()


if __name__ == "__main__":
    serve()
