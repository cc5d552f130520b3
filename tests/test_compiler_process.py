"""A compiler in a process of its own, with a Triton that notes what it is asked to compile."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infinitensor import compiler_process
from infinitensor.compiler_process import CompilerProcess, Look, is_kept, load

if TYPE_CHECKING:
    from collections.abc import Iterator

TRITON = {
    "__init__.py": '__version__ = "0"\n',
    "backends/__init__.py": "",
    "backends/compiler.py": "def GPUTarget(*said):\n    return said\n",
    "runtime/__init__.py": """
class Driver:
    def set_active(self, driver):
        self.active = driver
driver = Driver()
""",
    "runtime/cache.py": """
import os
from pathlib import Path
class Manager:
    def __init__(self, key):
        self.folder = Path(os.environ["TRITON_CACHE_DIR"]) / key
    def get_file(self, name):
        path = self.folder / name
        return str(path) if path.exists() else None
    def put(self, data, name, binary=True):
        self.folder.mkdir(parents=True)
        (self.folder / name).write_text(data)
get_cache_manager = Manager
""",
}
KERNEL = """
import json, os, sys, time
from triton.runtime import driver
class Kernel:
    def warmup(self, *args, grid, **how):
        print("what a compiler says")
        if "seconds" in how:
            time.sleep(how["seconds"])
        if "exit" in how:
            os._exit(how["exit"])
        if "fail" in how:
            raise ValueError("no such word")
        target = driver.active.get_current_target()
        said = [(a.dtype, a.data_ptr()) if hasattr(a, "dtype") else a for a in args]
        names = [name for name in ("infinitensor", "torch", "numpy")
                 if hasattr(sys.modules.get(name), "__file__")]
        with open(os.environ["SEEN"], "a") as file:
            file.write(json.dumps([said, how, target, grid, names]) + "\\n")
run = Kernel()
"""
WAIT_S = 60
SOURCE = '''
def run(x: int, n):
    """What Triton reads back."""
    return x + n
'''


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What kernels were compiled, a line each."""
    for name, text in TRITON.items():
        path = tmp_path / "triton" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    yield tmp_path / "seen"
    for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
        del sys.modules[name]  # before that of this machine is put back


def asked(**how: Any) -> dict[str, Any]:
    """A kernel of two arrays and two numbers."""
    arrays = [("torch.float32", 0), ("torch.int64", 8)]
    return {
        "source": KERNEL,
        "capability": 90,
        "arrays": arrays,
        "numbers": [0.5, 3],
        "how": {"BLOCK": 64, **how},
    }


def test_it_compiles_what_it_is_given_for_the_gpu_that_is_named(seen: Path) -> None:
    process = CompilerProcess()
    assert not is_kept(asked())
    assert process.compile(asked())
    assert process.compile({**asked(num_warps=8), "capability": 80, "numbers": [float("inf")]})
    assert is_kept(asked()), "whoever comes next need not ask"
    assert not is_kept(asked(num_warps=4))
    process.close()
    first, second = map(json.loads, seen.read_text().splitlines())
    looks = [["torch.float32", 0], ["torch.int64", 8]]
    assert first == [[*looks, 0.5, 3], {"BLOCK": 64}, ["cuda", 90, 32], [1, 1, 1], []]
    assert second[:3] == [
        [*looks, float("inf")],
        {"BLOCK": 64, "num_warps": 8},
        ["cuda", 80, 32],
    ]


def test_a_kernel_that_fails_or_ends_the_process_is_said_and_the_next_is_compiled(
    seen: Path,
) -> None:
    process = CompilerProcess()
    assert not process.compile(asked(fail=1))
    assert not process.compile(asked(exit=3))
    assert not seen.exists()
    assert process.compile(asked())
    assert not is_kept(asked(fail=1))
    process.close()


def test_who_waits_for_a_kernel_need_not_once_it_is_stopped(seen: Path) -> None:
    process = CompilerProcess()
    said: list[bool] = []
    waiting = threading.Thread(target=lambda: said.append(process.compile(asked(seconds=WAIT_S))))
    waiting.start()
    while process._process is None:
        time.sleep(0.001)
    process.stop()
    waiting.join(WAIT_S / 2)
    assert said == [False]
    assert not process.compile(asked()), "and nothing is compiled any more"
    process.close()
    process.close()


def test_without_a_process_nothing_is_compiled(seen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere")
    process = CompilerProcess()
    assert not process.compile(asked())
    monkeypatch.undo()


def test_it_ends_with_the_one_that_started_it(seen: Path) -> None:
    """However that ends."""
    code = f"""
import os, sys
sys.path.insert(0, {str(seen.parent)!r})
from infinitensor.compiler_process import CompilerProcess
process = CompilerProcess()
assert process.compile({asked()!r})
print(process._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    pid = int(found.stdout)
    until = time.monotonic() + WAIT_S
    while _runs(pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_what_is_loaded_is_what_a_process_loads(seen: Path) -> None:
    """Triton keeps kernels by the module's name and the text of a function."""
    source = "def run(x):\n    return __name__\n"
    assert load(source) is load(source)
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            "import runpy, sys; load = runpy.run_path(sys.argv[1])['load'];"
            "print(load(sys.argv[2])(0))",
            compiler_process.__file__,
            source,
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    assert child.stdout.strip() == load(source)(0)


def test_a_look_has_an_alignment_and_no_memory() -> None:
    look = Look("torch.float32", 8)
    assert (look.dtype, look.data_ptr()) == ("torch.float32", 8)


def test_source_is_loaded_once_and_its_text_is_found_again() -> None:
    kernel = load(SOURCE)
    assert kernel(2, 3) == 5
    assert load(SOURCE) is kernel
    assert load(SOURCE + "\n") is not kernel
    assert inspect.getsource(kernel).strip() == SOURCE.strip()
    assert kernel.__annotations__ == {"x": int}, "types, not text: Triton looks at them"
