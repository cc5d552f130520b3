"""torch is imported when something of it is asked for, and not before."""

from __future__ import annotations

import subprocess
import sys

import torch

from infinitensor.lazy_torch import torch as lazy


def test_what_is_asked_for_is_torchs_own() -> None:
    assert lazy.int64 is torch.int64
    assert lazy.linalg is torch.linalg
    assert vars(lazy)["int64"] is torch.int64, "the second time it is an attribute"


def test_a_name_it_imports_does_not_import_torch() -> None:
    lines = (
        "import sys; from infinitensor.ops.table import torch_words; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
