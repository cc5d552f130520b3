"""Which steps of a program are generated, how they round, and what runs step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.on_gpu import same, some
from tests.triton_in_numpy import triton_in_numpy

import infinitensor as it
from infinitensor import jit
from infinitensor.ir.mesh import Target, Tools
from infinitensor.tasking.triton import triton_group, triton_launch


def test_what_several_steps_read_alike_is_one_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a tensor that is read as it is, and by its rows and columns: three, however often."""
    started: list[int] = []
    monkeypatch.setattr(jit.Launch, "__call__", lambda self, tiles, *_: started.append(len(tiles)))
    monkeypatch.setattr(it.config, "compile", "always")
    monkeypatch.setattr(it.config, "small_elements", 0)
    with fake_gpu(plans_triton=True), it.init("cuda:0"):
        x, square = it.asarray(np.ones(40)), it.asarray(np.ones((40, 40)))
        it.compute(square * x + x[:, None] * square - (square / x[:, None]) * x)
    assert started == [4]


def started(monkeypatch: pytest.MonkeyPatch, program: Any) -> list[jit.Launch]:
    """The launches of a program over a million numbers."""
    found: list[jit.Launch] = []
    monkeypatch.setattr(jit.Launch, "__call__", lambda self, *_: found.append(self))
    with fake_gpu(plans_triton=True), it.init("cuda:0"):
        it.compute(program(it.asarray(some(1 << 20))))
    return found


def long_program(x: Any) -> Any:
    y = it.sqrt(x / (x + 2)) / x
    for k in range(14):
        y = y * x + k
    return y


def test_only_long_groups_check_their_divisions_together(
    monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    [late] = started(monkeypatch, long_program)
    assert "if is_far:" in late.source
    [short] = started(monkeypatch, lambda x: x / (x + 2) / x)
    assert "tl.div_rn(" in short.source
    assert "is_far" not in short.source


def test_fused_rounding_reaches_the_text_the_compiler_and_the_plan(
    monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    [exact] = started(monkeypatch, long_program)
    key = it.config.key()
    monkeypatch.setattr(it.config, "rounding", "fused")
    [fused] = started(monkeypatch, long_program)
    [summed] = started(monkeypatch, lambda x: (x / (x + 2)).sum())[:1]
    assert "enable_fp_fusion" not in exact.how
    for launch in (fused, summed):
        assert launch.how["enable_fp_fusion"] is True
        assert "div_rn" not in launch.source
        assert "quotient" not in launch.source
    assert it.config.key() != key


def test_powers_of_e_are_triton_s_own_where_rounding_is_fused(
    monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    for rounding, name in (("numpy", "libdevice.exp("), ("fused", "tl.exp(")):
        monkeypatch.setattr(it.config, "rounding", rounding)
        [single] = started(monkeypatch, lambda x: it.exp(x * 2 + 1))
        assert name in single.source
        [double] = started(monkeypatch, lambda x: it.exp(x.astype("f8") * 2 + 1))
        assert "libdevice.exp(" in double.source


def test_a_rounding_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"config\.rounding = .exact.: write"):
        monkeypatch.setattr(it.config, "rounding", "exact")


def test_on_cpus_fused_rounding_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = some(1 << 16), some(1 << 16) + 9
    found = []
    for rounding in ("numpy", "fused"):
        monkeypatch.setattr(it.config, "rounding", rounding)
        monkeypatch.setattr(it.config, "compile", "always")
        with it.init("cpu"):
            a, b = it.asarray(x), it.asarray(y)
            found.append((it.sqrt(b) / (a * b + 0.3) - a * a).numpy())
    np.testing.assert_array_equal(found[0], found[1])


def test_without_triton_groups_run_step_by_step_and_say_so() -> None:
    def steps(ins: list[Any], outs: list[Any], i: int) -> None:
        outs.append(i)

    without = Target("cuda", Tools(has_triton=False))
    run, eager = triton_group.generate_or_steps(
        lambda: pytest.fail("asked for code"), steps, without
    )
    assert eager
    assert run is steps


def test_what_triton_fails_on_is_said_once_and_runs_step_by_step() -> None:
    class Broken(Exception):
        __module__ = "triton.errors"

    def broken(ins: list[Any], outs: list[Any], i: int) -> None:
        raise Broken("no room")

    def steps(ins: list[Any], outs: list[Any], i: int) -> None:
        outs.append(i)

    run, eager = triton_group.generate_or_steps(lambda: broken, steps, Target("cuda"))
    assert not eager
    made: list[Any] = []
    with pytest.warns(RuntimeWarning, match="no room; the group runs step by step"):
        run([], made, 3)
    run([], made, 4)
    assert made == [3, 4]


@pytest.mark.usefixtures("kernels")
def test_what_several_steps_read_alike_is_read_once_and_other_parts_are_not(always: None) -> None:
    x = np.random.default_rng(1).uniform(1, 2, 300)
    square = np.random.default_rng(2).uniform(1, 2, (300, 300))

    def program(xp: Any, x: Any, square: Any) -> list[Any]:
        down = (x * 2)[:, None]
        return [square * x + down * x - square / x, square[1:] + square[:-1] * square[1:]]

    same(program, x, square, rtol=1e-14)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int, always: None) -> None:
    def f(xp: Any, *arrays: Any) -> list[Any]:
        rng = np.random.default_rng(seed)
        pool = list(arrays)
        for _ in range(12):
            a, b = (pool[k] for k in rng.integers(0, len(pool), 2))
            match rng.integers(0, 8):
                case 0:
                    pool.append(a * np.float32(0.5) + b)
                case 1:
                    pool.append(xp.where(a > b, a, xp.sqrt(xp.abs(b))))
                case 2:
                    pool.append(a - b.mean(0))
                case 3:
                    pool.append(xp.maximum(a, b.max(1, keepdims=True)) * np.float32(0.25))
                case 4:
                    pool.append((a[::-1] + b) / 2)
                case 5 if a is not arrays[0]:
                    a[1:-1] = (a[:-2] + b[2:]) * np.float32(0.5)
                case 6 if a is not arrays[0]:
                    a[:, 2:] = b[:, 2:] * 2 - a[:, :-2]
                case _:
                    pool.append(xp.exp(-xp.abs(a)) * b)
        return [*pool[-4:], pool[-1].sum(1), pool[-2].var(0)]

    same(f, some(41, 29), some(41, 29) + 1, some(41, 29) * 2, rtol=1e-3)


@pytest.mark.gpu
def test_what_is_not_generated_is_counted(always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        return [xp.bitwise_count(x) * 2 + 1]

    assert same(f, np.arange(1, 50))["eager_fallbacks"] == 1


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions_that_are_the_same_in_any_order_are_compiled_beside(
    monkeypatch: pytest.MonkeyPatch, axis: int | None
) -> None:
    """Steps run until all their kernels are there; sums of floats are not asked for."""
    asked: list[Any] = []

    def is_there(launch: Any, *given: Any) -> bool:
        asked.append(launch)
        return asked.count(launch) > 2

    monkeypatch.setattr(triton_launch, "can_start", is_there)
    monkeypatch.setattr(triton_group, "can_start", is_there)  # of rows, which are one kernel
    monkeypatch.setattr(it.config, "small_elements", 0)
    x = some(300, 70)
    programs: list[Any] = [
        lambda xp, x: xp.any(x > 2, axis=axis),
        lambda xp, x: xp.all(x * 2 < 5, axis=axis),
        lambda xp, x: xp.count_nonzero(x > 0.5, axis=axis),
        lambda xp, x: xp.sum(xp.where(x > 0, 3, -4), axis=axis),
    ]
    with fake_gpu(plans_triton=True), triton_in_numpy() as launches, it.init("cuda:0"):
        tensor = it.compute(it.asarray(x))
        for program in programs:
            wanted, before = program(np, x), len(launches)
            for _ in range(6):
                found = it.compute(program(it, tensor)).numpy()
                np.testing.assert_array_equal(found, wanted)
                assert found.dtype == wanted.dtype
            assert len(launches) > before
        n_asked = len(asked)
        for _ in range(4):
            it.compute(it.sum(tensor * 2, axis=axis))
        assert len(asked) == n_asked
