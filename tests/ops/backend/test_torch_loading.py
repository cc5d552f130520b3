"""torch is imported while files are read, by a thread of ours, and is then as the user finds it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from infinitensor.ops.backend import torch_loading as loading

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PROGRAM = """
import sys, threading
import numpy as np
import infinitensor as it

with it.init("cpu", memory="8MiB", disk="64MiB"):
    x = it.open(sys.argv[1])
    found = (x.T @ x).numpy()
    from infinitensor.ops.backend import torch_loading as loading
    assert loading._loading, "it was imported by the main thread"
    loading._loading[0].join()  # where the library beside it multiplies nobody waits for torch
    assert "torch" in sys.modules
    import torch
    assert torch.get_num_threads() == loading.n_user_threads[0], "our workers' number is left"
    values = np.load(sys.argv[1])
    np.testing.assert_allclose(found, values.T @ values, rtol=1e-4)
"""


def test_a_product_over_a_file_loads_torch_beside_the_reads(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).random((100_000, 32), dtype=np.float32))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_kernel_that_needs_torch_has_it_imported_by_another_thread() -> None:
    program = """
import sys
from infinitensor.ops.backend import torch_loading as loading
torch = loading.wait_for_torch()
assert torch is sys.modules["torch"]
assert loading._loading and not loading._loading[0].is_alive()
assert loading.n_user_threads == [torch.get_num_threads()]
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_threads_that_ask_at_once_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    start = threading.Thread.start

    def start_late(thread: threading.Thread) -> None:
        time.sleep(0.05 * (thread.name == "infinitensor-torch"))
        start(thread)

    def ask(_: int) -> None:
        loading.begin_loading()
        loading._loading[0].join()  # an error where it was not started

    monkeypatch.setattr(loading, "_loading", [])
    monkeypatch.setattr(loading, "_load", lambda: loaded.append(True))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(threading.Thread, "start", start_late)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(ask, range(4)))
    assert loaded == [True]
