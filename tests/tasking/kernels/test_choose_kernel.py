"""Which kernel a group gets: generated, in time, or step by step."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu, with_tools

import infinitensor as it
from infinitensor import native
from infinitensor.ir.mesh import Tools
from infinitensor.jit import Launch
from infinitensor.ops.table.functions import has_functions
from infinitensor.tasking.kernels import work_left, worth_compiling
from infinitensor.tasking.kernels.c_kernel import Compiled, compiled_kernel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(native.compiler() is None, reason="no C compiler here"),
]
as_it_is_used = pytest.mark.skipif(
    bool(native.sanitizers()), reason="under checks all is compiled, and what does not is an error"
)


def test_a_group_that_c_cannot_do_runs_step_by_step_and_is_counted(always: None) -> None:
    with it.init("cpu"):
        x = it.asarray(np.arange(1, 20))
        wanted = np.gcd(np.arange(1, 20), 6) * 2 + 1
        np.testing.assert_array_equal((it.gcd(x, 6) * 2 + 1).numpy(), wanted)
        assert it.stats()["eager_fallbacks"] == 1


def test_what_is_one_number_everywhere_is_part_of_generated_code(always: None) -> None:
    mask = np.arange(40).reshape(5, 8) % 3 == 0
    with it.init("cpu"):
        given = it.asarray(mask)
        for dtype in (np.int64, np.float32, np.complex128, np.bool_):
            made = it.zeros((5, 8), dtype=dtype)
            made[given] = 1
            wanted = np.zeros((5, 8), dtype=dtype)
            wanted[mask] = 1
            np.testing.assert_array_equal(made.numpy(), wanted, strict=True)
            sums = it.where(given, it.ones((5, 8), dtype=dtype), 0).sum(0)
            np.testing.assert_array_equal(sums.numpy(), np.where(mask, wanted, 0).sum(0))
        assert it.stats()["eager_fallbacks"] == 0


@as_it_is_used
def test_a_compiler_that_fails_is_named_in_a_warning_and_the_group_still_runs(
    always: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho no room >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(native, "_loaded", {})
    with it.init("cpu"):
        given = np.arange(20.0)
        x = it.asarray(given)
        y = it.copysign(x * 2.125 + 1, 5 - x) - x  # what no other test has compiled here
        with pytest.warns(RuntimeWarning, match="no room"):
            np.testing.assert_array_equal(
                y.numpy(), np.copysign(given * 2.125 + 1, 5 - given) - given
            )


def calls_of_compiled(monkeypatch: pytest.MonkeyPatch) -> list[Compiled]:
    """The kernels that Python calls from now on."""
    calls: list[Compiled] = []
    run = Compiled.__call__

    def counted(self: Compiled, *args: Any) -> None:
        calls.append(self)
        run(self, *args)

    monkeypatch.setattr(Compiled, "__call__", counted)
    return calls


def until_compiled(program: Callable[[], Any], calls: list[Compiled]) -> list[bytes]:
    """What the runs of a program give up to the first that is compiled."""
    found, limit = [], time.monotonic() + 60
    while not len(calls) + it.stats()["tasks_in_c"] and time.monotonic() < limit:
        found.append(program().numpy().tobytes())
    return found


@as_it_is_used
def test_little_work_is_compiled_once_it_has_run_often_and_its_bits_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_left, "PAID_OFF", 600_000)
    monkeypatch.setattr(work_left, "is_built", lambda source: False)
    calls = calls_of_compiled(monkeypatch)
    x = it.asarray(np.random.default_rng(3).normal(size=80_000).astype(np.float32))
    it.stats(reset=True)
    found = until_compiled(lambda: (x * 1.7 + 0.3) / (x - 2.5), calls)
    assert len(calls) + it.stats()["tasks_in_c"] > 0
    assert len(found) > 2
    assert len(set(found)) == 1
    calls.clear()
    with with_tools(Tools(has_functions=False)), it.init("cpu"):
        x = it.asarray(x.numpy())
        for _ in range(8):  # what does not round as a step does stays as it is
            it.exp(x * 1.7 + 0.3).numpy()
        assert not calls
        assert it.stats()["tasks_in_c"] == 0


@as_it_is_used
@pytest.mark.skipif(not has_functions(), reason="functions are NumPy's here")
def test_little_work_of_functions_is_compiled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_left, "PAID_OFF", 600_000)
    monkeypatch.setattr(work_left, "is_built", lambda source: False)
    calls = calls_of_compiled(monkeypatch)
    x = it.asarray(np.random.default_rng(3).normal(size=80_000).astype(np.float32))
    it.stats(reset=True)
    found = until_compiled(lambda: it.exp(x * 1.7 + 0.3) / (x - 2.5), calls)
    assert len(calls) + it.stats()["tasks_in_c"] > 0
    assert len(found) > 2
    assert len(set(found)) == 1


@as_it_is_used
@pytest.mark.parametrize("shape", [(80_000,), (400, 700), (9_000, 30)])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_reductions_of_little_work_are_compiled_too_and_their_bits_stay(
    shape: tuple[int, ...], axis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_left, "PAID_OFF", 600_000)
    monkeypatch.setattr(work_left, "is_built", lambda source: False)
    data = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    x = it.asarray(data)
    found = []
    for _ in range(12):
        y = x * 1.7 + 0.3
        made = [y.sum(axis=axis), x.var(axis=axis), x.mean(axis=axis), (x > 1).any(axis=axis)]
        it.compute(*made)
        found.append(b"".join(one.numpy().tobytes() for one in made))
    assert len(set(found)) == 1
    np.testing.assert_allclose(made[1].numpy(), data.var(axis), rtol=1e-4)
    np.testing.assert_array_equal(made[3].numpy(), (data > 1).any(axis))


@as_it_is_used
def test_little_work_runs_compiled_where_that_was_compiled_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr(
        "infinitensor.api.evaluate.unplanned.UNPLANNED_ELEMENTS", 0
    )  # all is planned
    compiled_kernel.cache_clear()
    x = np.random.default_rng(3).normal(size=(3, 40_000))

    def made(n: int) -> np.ndarray:
        y = it.asarray(x[:, :n])
        found: np.ndarray = ((y * 1.7 + 0.3) / (y - 2.5)).numpy()
        return found

    eager = made(30_000)
    assert not native._loaded
    with monkeypatch.context() as patch:
        patch.setattr(it.config, "compile", "always")
        made(30_001)
        assert native._loaded
    native._loaded.clear()
    compiled_kernel.cache_clear()
    monkeypatch.setattr(subprocess, "run", None)  # would fail if it compiled again
    again = made(30_002)[:, :30_000]
    assert native._loaded
    assert np.ascontiguousarray(again).tobytes() == eager.tobytes()


@pytest.mark.parametrize(
    "program",
    [
        lambda y: (y * 1.7 + 0.3) / (y - 2.5),
        lambda y: it.exp(y) - y,
        lambda y: (y * y - 1).sum(axis=1),
        lambda y: (y * 100).astype("int32") * 31 % 7,
    ],
    ids=["quotient", "function", "sum", "integers"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_first_run_of_much_work_does_not_wait_for_a_compiler(
    program: Callable[[Any], Any], dtype: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr("infinitensor.api.evaluate.unplanned.UNPLANNED_ELEMENTS", 0)
    monkeypatch.setattr(worth_compiling, "COMPILED_ELEMENTS", 1)
    compiled_kernel.cache_clear()
    may_compile, build = threading.Event(), native._build

    def build_later(*given: Any) -> Path:
        may_compile.wait(60)
        return build(*given)

    monkeypatch.setattr(native, "_build", build_later)
    with it.init("cpu"):
        x = it.compute(it.asarray(np.random.default_rng(3).random((30, 9000)).astype(dtype)))
        try:
            first = program(x).numpy()
            assert not native._loaded
            assert it.stats()["kernels_compiling"] > 0
        finally:
            may_compile.set()
        while it.stats()["kernels_compiling"]:
            time.sleep(0.01)
        again = program(x).numpy()
        assert native._loaded
        assert again.tobytes() == first.tobytes()


def _worked_on_a_gpu(monkeypatch: pytest.MonkeyPatch, memory: str) -> tuple[list[bool], int]:
    """Whether each ask for the kernel of a group of much work found it compiled, and how many
    kernels waited for the compiler; no kernel is ever compiled."""
    asked: list[bool] = []
    n_waited: list[int] = []

    def noted(self: Launch, *given: Any) -> bool:
        asked.append(False)
        return False

    def waited(self: Launch, *given: Any) -> None:
        n_waited.append(1)

    monkeypatch.setattr(Launch, "ask", noted)
    monkeypatch.setattr(Launch, "_launch_first", waited)
    monkeypatch.setattr(it.config, "small_elements", 0)
    values = np.arange(1.0 * (1 << 21))
    with (
        fake_gpu(plans_triton=True),
        with_tools(Tools(has_triton=True)),
        it.init("cuda:0", memory=memory),
    ):
        x = it.asarray(values)
        made = it.compute(it.sqrt(x * 2 + 1) - x)
        if not n_waited:
            np.testing.assert_allclose(made.numpy(), np.sqrt(values * 2 + 1) - values, 1e-12)
    return asked, len(n_waited)


def test_a_first_run_of_much_work_on_a_gpu_goes_by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel is asked for at once; only where steps had no room it is waited for."""
    assert _worked_on_a_gpu(monkeypatch, "4GiB") == ([False], 0)
    asked, n_waited = _worked_on_a_gpu(monkeypatch, "200MiB")
    assert (asked, n_waited) == ([], 1)
