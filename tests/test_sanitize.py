"""Errors that are put into C on purpose are reported; a sample of ours has none.

`make sanitize` runs hundreds of random programs, and all tests of what is in C.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from tests.made_once import made_once
from tools.cases import drawn
from tools.sanitize import CHECKS, REPORT, TESTS, NotHereError, files, run

if TYPE_CHECKING:
    from pathlib import Path

DAY = int(time.time()) // 86400
SEED = int(os.environ.get("INFINITENSOR_TEST_SEED") or DAY * 1000)

SOURCE = """
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
static int64_t seen;
static void *add(void *by) {
  for (int k = 0; k < 100; ++k, usleep(500)) seen += *(int64_t *)by;
  return 0;
}
int64_t fill(double *x, int64_t n) { for (int64_t i = 0; i < n; ++i) x[i] = i; return 0; }
int64_t spill(double *x, int64_t n) {
  double *copy = malloc(n * sizeof(double));
  fill(copy, n + 1);
  x[0] = copy[n / 2];
  free(copy);
  return 0;
}
int64_t shift(double *x, int64_t n) { x[0] = 1 << n; return 0; }
int64_t race(double *x, int64_t n) {
  pthread_t other;
  pthread_create(&other, 0, add, &n);
  add(&n);
  pthread_join(other, 0);
  x[0] = seen;
  return 0;
}
"""
PLANTED = {
    "past what C allocates": "call('spill', x, 10_000)",
    "past a tile": "call('fill', x, 10_001)",
    "a tile that is gone": "at = address(x); del x, tile; ledger.trim(); call('fill', at, 10_000)",
    "not defined": "call('shift', x, 40)",
    "two threads": "call('race', x, 3)",
    "nothing": "call('fill', x, 10_000)",
    "random programs": "play()",
    "products while cores are shared": "multiply()",
}
SCRIPT = f"""
import os
from threading import Thread
import numpy as np
from infinitensor.devices.device import CpuDevice
from infinitensor.devices.ledger import Ledger
from infinitensor.ir.slab import slab_bytes
from infinitensor.native import address, library
from infinitensor.ops.backend import blas
from infinitensor.ops.backend.c_loops import calling
from tests.large.kinds import program_of
from tests.large.replay import played

c = library({SOURCE!r})

def call(name, array, n):
    calling(getattr(c, name))(array, n)

def play():
    for seed in range({SEED}, {SEED} + 2):
        outcome = played(program_of(seed, 200_000), "three")
        assert not outcome.fails, outcome

def multiply():
    ours, a, out = blas.find_library(), np.ones((60, 60)), np.empty((60, 60))
    if ours is not None:
        sharing = Thread(target=lambda: [(ours.enter(), ours.leave()) for _ in range(300)])
        sharing.start()
        for _ in range(300):
            blas.multiply(a, a, out)
        sharing.join()

for name, line in {PLANTED!r}.items():
    print("name:", name, flush=True)
    child = os.fork()
    if not child:
        ledger = Ledger(CpuDevice(0), 1 << 30)
        tile = ledger.take(int(slab_bytes(80_000)))
        x = ledger.device.array(tile.block, (10_000,), np.dtype("f8"))
        exec(line)
        print("to its end", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
REPORTS = {
    "address": {
        "past what C allocates": "ERROR: AddressSanitizer: heap-buffer-overflow",
        "past a tile": "ERROR: AddressSanitizer: heap-buffer-overflow",
        "a tile that is gone": "ERROR: AddressSanitizer: heap-use-after-free",
        "not defined": "runtime error: shift exponent 40 is too large",
    },
    "thread": {"two threads": "WARNING: ThreadSanitizer: data race"},
}


@pytest.fixture
def said(check: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a process says of each error that is planted."""

    def make(folder: Path) -> None:
        _, said = run(CHECKS[check], ["-c", SCRIPT])
        (folder / "said").write_text(said, "utf-8")

    try:
        folder = made_once(tmp_path_factory, f"sanitized {check}", make)
    except NotHereError as error:
        pytest.skip(str(error))
    parts = (folder / "said").read_text("utf-8").split("name: ")[1:]
    return {name: rest for name, _, rest in (part.partition("\n") for part in parts)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("check", "name"), [(c, n) for c in REPORTS for n in REPORTS[c]])
def test_what_is_wrong_in_c_is_reported(check: str, name: str, said: dict[str, str]) -> None:
    assert REPORTS[check][name] in said[name]
    assert REPORT.search(said[name])
    assert "to its end" not in said[name]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["nothing", "random programs", "products while cores are shared"])
@pytest.mark.parametrize("check", REPORTS)
def test_nothing_is_wrong_in_a_sample_of_random_programs(
    check: str, name: str, said: dict[str, str]
) -> None:
    assert said[name] == "to its end\n", f"seed {SEED} of {check}"


def test_a_few_cases_are_drawn_by_the_seed_of_a_test_that_has_more() -> None:
    some = drawn(range(100), 4, "0 a test")
    assert len(set(some)) == 4
    assert some == drawn(range(100), 4, "0 a test") != drawn(range(100), 4, "1 a test")
    assert sorted(drawn("abc", 4, "0")) == ["a", "b", "c"]


def test_a_folder_is_all_its_files() -> None:
    found = files(["tests/tasking", "tests/test_tiny.py"])
    assert "tests/tasking/test_lower.py" in found
    assert found[-1] == "tests/test_tiny.py"
    assert all(os.path.isfile(name) for name in files(TESTS))
