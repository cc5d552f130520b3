"""NumPy's arrays begin at a line of the caches; the rest of their memory is as NumPy's own."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from tests.reliability import child

import infinitensor as it
from infinitensor.native import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")

SIZES = [0, 1, 15, 16, 100, 2047, 2048, 2049, 5000, 100_000, 3_000_000]


@pytest.mark.parametrize("n", SIZES)
def test_arrays_of_two_kilobytes_or_more_begin_at_a_line(n: int) -> None:
    made = [np.empty(n, np.uint8), np.zeros(n, np.uint8), np.ones(n, np.uint8) + np.uint8(1)]
    for x in made:
        assert x.ctypes.data % (64 if n >= 2048 else 16) == 0
    assert not made[1].any()
    assert (made[2] == 2).all()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("wanted", SIZES)
def test_arrays_keep_what_they_hold_when_they_are_resized(n: int, wanted: int) -> None:
    x = np.arange(n, dtype=np.uint32).astype(np.uint8)
    x.resize(wanted, refcheck=False)
    n_kept = min(n, wanted)
    np.testing.assert_array_equal(x[:n_kept], np.arange(n_kept, dtype=np.uint32).astype(np.uint8))
    assert not x[n_kept:].any()


def test_what_cannot_be_had_is_an_error() -> None:
    with pytest.raises(MemoryError, match="Unable to allocate"):
        np.empty(1 << 60, np.uint8)


def test_results_at_once_begin_at_a_line() -> None:
    with it.init("cpu"):
        x = it.asarray(np.arange(3000.0))
        for made in (x + x, x[1:] * 2, it.sqrt(x), x.copy(), it.cumsum(x), x.astype(np.float32)):
            assert made.numpy().ctypes.data % 64 == 0


SCRIPT = """
import json
import numpy as np
from numpy._core.multiarray import get_handler_name
before = [np.ones(5000), np.ones(5)]
import infinitensor as it
after = [np.ones(5000), np.ones(5)]
names = [get_handler_name(x) for x in (*before, *after)]
before[0].resize(9000, refcheck=False)
assert before[0][:5000].all()
del before, after
print(json.dumps(names))
"""


def test_arrays_of_before_go_back_to_whom_they_are_of() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env=child.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    ours = "infinitensor"
    assert json.loads(done.stdout) == ["default_allocator", "default_allocator", ours, ours]
