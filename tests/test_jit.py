"""Kernels by their source: loaded once, launched through Triton first and straight from then on."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from infinitensor import jit
from infinitensor.jit import Launch, Launches, kinds_of, picker, triton_module


@pytest.mark.parametrize("places", [[], [1], [2, 0], [0, 0, 3]])
def test_picked_elements_are_those_at_their_places(places: list[int]) -> None:
    values = ["a", "b", "c", "d"]
    assert list(picker(places)(values)) == [values[k] for k in places]


def test_equal_tiles_have_one_signature_and_others_another() -> None:
    def kind(tile: Any) -> int:
        (found,) = kinds_of([tile])
        return found

    base = torch.zeros(64)
    assert kind(base[:16]) == kind(torch.zeros(64)[:16]) == kinds_of([base[:16], base])[0]
    different = [
        base[:16],
        base[:15],
        base[:32:2],
        base[1:17],  # as long, but begins elsewhere
        base[:16].reshape(4, 4),
        torch.zeros(16, dtype=torch.int32),
    ]
    assert len({kind(tile) for tile in different}) == len(different)
    assert kinds_of([]) == ()


def test_launches_are_made_once_a_signature_and_few_are_kept() -> None:
    made: list[tuple[int, ...]] = []

    def make(shape: tuple[int, ...], tiles: Any) -> str:
        made.append(shape)
        return f"launch {len(made)}"

    launches = Launches(make)
    tile = torch.zeros(8)
    assert launches.get((8,), [tile]) == launches.get((8,), [torch.zeros(8)]) == "launch 1"
    assert launches.get((4,), [tile]) == "launch 2"
    for n in range(1000):
        launches.get((n,), [tile])
        assert len(launches.known) <= 65


class Kernel:
    """A kernel of Triton's: what its first launch is given, and what later ones are."""

    def __init__(self, is_compiled: bool) -> None:
        self.first: list[Any] = []
        self.later: list[Any] = []
        self.is_compiled = is_compiled

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def start(*args: Any, **constants: Any) -> Any:
            self.first.append((grid, args, constants))
            if not self.is_compiled:
                return None
            run = lambda *given: self.later.append(given)  # noqa: E731
            return SimpleNamespace(function="f", packed_metadata="m", run=run)

        return start


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Kernel:
    kernel = Kernel(request.param)
    monkeypatch.setattr(jit, "load", lambda source: kernel)
    monkeypatch.setattr(jit, "options", lambda: {"enable_fp_fusion": False})
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda gpu: 77, raising=False)
    return kernel


@pytest.mark.parametrize("launched", [True], indirect=True)
def test_second_launch_goes_straight_to_the_driver_with_the_same_arguments(
    launched: Kernel,
) -> None:
    launch = Launch("source", 5, [100, 3], n_warps=8, BLOCK=64)
    tile = torch.zeros(4)
    assert not launch.is_ready
    launch([tile], [0.5])
    assert launch.is_ready
    how = {"BLOCK": 64, "enable_fp_fusion": False, "num_warps": 8}
    assert launched.first == [((5, 1, 1), (tile, 0.5, 100, 3), how)]
    launch([tile], [1.5])
    launch([4096], [2.5], n_programs=9)  # an address will do
    handles = (77, "f", "m", None, None, None)
    assert launched.later == [
        (5, 1, 1, *handles, tile.data_ptr(), 1.5, 100, 3, 64),
        (9, 1, 1, *handles, 4096, 2.5, 100, 3, 64),
    ]
    start, n_programs, before, after = launch.bound([2.5])
    assert (n_programs, before, after) == (5, handles[1:], (2.5, 100, 3, 64))
    assert start is not None


@pytest.mark.parametrize("launched", [False], indirect=True)
def test_interpreter_makes_no_kernel_so_every_launch_is_a_first_one(launched: Kernel) -> None:
    launch = Launch("source", 5, [], n_stages=3, fused=True)
    for n_programs in (0, 2):
        launch([torch.zeros(4)], n_programs=n_programs)
    assert [grid for grid, *_ in launched.first] == [(5, 1, 1), (2, 1, 1)]
    assert launched.first[0][2]["enable_fp_fusion"] is True
    assert launched.first[0][2]["num_stages"] == 3
    assert not launch.is_ready


def test_asking_for_compilers_imports_none() -> None:
    code = (
        "import sys; from infinitensor.jit import has_numba, has_triton; has_triton(); has_numba();"
        "print([name for name in ('triton', 'numba') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_sums_of_products_round_twice_by_default() -> None:
    pytest.importorskip("triton")
    assert jit.options()["enable_fp_fusion"] is False


class Compiled(Kernel):
    """A kernel that is compiled without being launched."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__(is_compiled=True)
        self.error = error
        self.go = threading.Event()
        self.seen: list[Any] = []

    def warmup(self, *args: Any, grid: tuple[int, ...], **how: Any) -> Any:
        assert self.go.wait(60)
        self.seen.append((args, grid, how))
        if self.error is not None:
            raise self.error
        return SimpleNamespace(run=None)


class Process:
    """A compiler's process, or none."""

    def __init__(self, works: bool) -> None:
        self.works = works
        self.asked: list[Any] = []
        self.is_stopped = False

    def compile(self, asked: dict[str, Any]) -> bool:
        self.asked.append(asked)
        return self.works

    def stop(self) -> None:
        self.is_stopped = True

    def close(self) -> None:
        pass


@pytest.mark.parametrize("error", [None, RuntimeError("no such instruction")])
@pytest.mark.parametrize("works", [True, False])
def test_what_is_asked_for_is_compiled_beside_and_no_tile_is_held(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, works: bool
) -> None:
    kernel, process = Compiled(error), Process(works)
    monkeypatch.setattr(jit, "load", lambda source: kernel)
    monkeypatch.setattr(jit, "options", dict)
    monkeypatch.setattr(jit, "is_kept", lambda asked: False)
    monkeypatch.setattr(jit, "CompilerProcess", lambda: process)
    monkeypatch.setattr(jit, "_compiler", jit._Compiler())
    monkeypatch.setattr(torch.cuda, "device", lambda number: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda number: (9, 0))
    launch = Launch("source", 5, [100], BLOCK=64)
    assert not launch.is_compiled
    tile = torch.zeros(64)
    address, seen = tile.data_ptr() & 15, weakref.ref(tile)
    assert not launch.ask([tile], [0.5])
    del tile
    assert seen() is None, "the memory of a tile is its owner's to give back"
    assert jit.n_compiling() == 1
    kernel.go.set()
    wait_for(jit._compiler, 1)
    other = torch.zeros(64)
    assert launch.ask([other], [0.5]), "an error too is for who launches it"
    assert launch.is_compiled
    assert not launch.is_ready
    (((look, *numbers), grid, how),) = kernel.seen  # asked for twice, compiled once
    assert (look.dtype, look.data_ptr()) == (torch.float32, address)
    assert (numbers, grid) == ([0.5, 100], (5, 1, 1))
    assert how == {"BLOCK": 64, "num_warps": 4}
    given = {"source": "source", "capability": 90, "arrays": [("torch.float32", address)]}
    assert process.asked == [{**given, "numbers": numbers, "how": how}]
    assert jit.n_compiled_here() == (not works)
    jit._compiler.close()


def wait_for(compiler: jit._Compiler, n_done: int) -> None:
    until = time.monotonic() + 60
    while compiler.n_done < n_done and time.monotonic() < until:
        time.sleep(0.001)
    assert compiler.n_done == n_done


class Slow:
    """A launch that is compiled when it is let go."""

    def __init__(self, go: threading.Event) -> None:
        self.go = go
        self.seen: list[Any] = []

    def compile(self, process: Any) -> None:
        self.seen.append(process)
        assert self.go.wait(60)
        raise ValueError("no such word")


@pytest.mark.parametrize(("n_cores", "n_processes"), [(1, 1), (2, 1), (8, 2), (64, 4)])
def test_as_many_processes_compile_as_programs_can_spare_cores(
    monkeypatch: pytest.MonkeyPatch, n_cores: int, n_processes: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: n_cores)
    compiler, go = jit._Compiler(), threading.Event()
    launches = [Slow(go) for _ in range(6)]
    for launch in launches:
        compiler.put(launch)  # type: ignore[arg-type]
    go.set()
    wait_for(compiler, 6)
    assert len(compiler._served) == n_processes
    assert {len(launch.seen) for launch in launches} == {1}
    compiler.close()


def test_one_process_is_enough_for_one_kernel_after_another() -> None:
    compiler, go = jit._Compiler(), threading.Event()
    go.set()
    for n in range(3):
        compiler.put(Slow(go))  # type: ignore[arg-type]
        wait_for(compiler, n + 1)
    assert len(compiler._served) == 1
    compiler.close()


def test_programs_go_on_after_short_turns_of_who_uses_triton() -> None:
    before = sys.getswitchinterval()
    with contextlib.suppress(ValueError), jit._short_turn():
        assert sys.getswitchinterval() == pytest.approx(jit.TURN_S)
        raise ValueError
    assert sys.getswitchinterval() == before


def test_a_process_ends_while_kernels_wait_to_be_compiled() -> None:
    code = """
import time
from infinitensor import jit
class Slow:
    def compile(self, process):
        time.sleep(0.3)
jit._compiler.put(Slow()); jit._compiler.put(Slow()); jit._compiler.put(Slow())
print("done")
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (0, "done\n", "")


def test_run_is_the_last_kernel_of_a_module() -> None:
    first, last = (
        "@triton.jit\ndef first(x):\n    pass\n\n\n",
        "@triton.jit\ndef last(x):\n    pass\n",
    )
    source = triton_module(first, last)
    assert source.startswith("import triton\nimport triton.language as tl\n\n\n@triton.jit\n")
    assert source.endswith("def last(x):\n    pass\n\n\nrun = last\n")
