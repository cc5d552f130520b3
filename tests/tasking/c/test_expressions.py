"""Generated C computes what NumPy computes, in every dtype, layout and order of memory."""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.tasking.words import operands

import infinitensor as it
from infinitensor import native
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input, Unsupported, expression
from infinitensor.tasking.c.loops import source_of
from infinitensor.tasking.kernels import choose_kernel, work_left
from infinitensor.tasking.kernels.c_kernel import Compiled, compiled_kernel

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(native.compiler() is None, reason="no C compiler here"),
]
as_it_is_used = pytest.mark.skipif(
    bool(native.sanitizers()), reason="under checks all is compiled, and what does not is an error"
)
DOUBLE = np.dtype(np.float64)
ULPS = 8
"""How far two values of a function may be apart: NumPy's vector functions promise 4 units in the
last place (on x86 they use them all), the functions of C libraries 3."""


def test_plain_arithmetic_has_numpys_bits() -> None:
    dtype = np.dtype(np.float32)
    x, y, _ = operands(dtype)
    tree = Term("add", (Term("multiply", (Arg(0), Arg(1))), Arg(1)))
    run = compiled_kernel(
        (GroupStep(tree, (dtype, dtype), (("in", 0), ("in", 1)), dtype, 0),),
        (Input(dtype, False, False),) * 2,
        1,
    )
    out = np.empty(64, dtype)
    run([x, y], [out], (64,))
    with np.errstate(all="ignore"):
        assert out.tobytes() == (x * y + y).tobytes()  # no fused multiply-add


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (3, 1), (2, 3, 4), (0, 3), (2, 1, 3)])
def test_any_shape_broadcast_and_stride(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    dtype = np.dtype(np.float64)
    tree = Term("add", (Term("multiply", (Arg(0), Arg(1))), Arg(2)))
    x = rng.standard_normal(shape[::-1]).T
    row = rng.standard_normal((*shape[:-1], 1)) if shape else rng.standard_normal(())
    inputs = (Input(dtype, False, False), Input(dtype, False, True), Input(dtype, True, False))
    run = compiled_kernel(
        (GroupStep(tree, (dtype,) * 3, (("in", 0), ("in", 1), ("in", 2)), dtype, 0),), inputs, 1
    )
    wide = np.full((*shape[:-1], 2 * shape[-1]) if shape else (), np.nan)
    out = wide[..., ::2] if shape else wide
    run([x, row, np.float64(0.25)], [out], shape)
    np.testing.assert_array_equal(out, x * row + 0.25)


def test_what_c_does_otherwise_than_numpy_is_refused() -> None:
    with pytest.raises(Unsupported, match="cast from float64 to uint8"):
        source_of(
            [
                GroupStep(
                    Term("cast", (Arg(0),)), (np.dtype(float),), (("in", 0),), np.dtype(np.uint8), 0
                )
            ],
            [Input(np.dtype(float), False, False)],
            1,
        )
    with pytest.raises(Unsupported, match="gcd of int64"):
        expression(Term("gcd", (Arg(0), Arg(0))), [("x", np.dtype(np.int64))])
    with pytest.raises(Unsupported, match="maximum of complex128"):
        expression(Term("maximum", (Arg(0), Arg(0))), [("x", np.dtype(complex))])


def program(np_: Any, x: Any, y: Any, z: Any) -> list[Any]:
    # sums of what is positive: a function's last places stay last places
    a = np_.where(x > 0.5, np_.exp(x) * (y * y) + z * z, np_.maximum(x, 0.3) - 2) / 3
    n = (np_.abs(x) * 10).astype(np.int64) * 3 - 1
    return [
        a,
        (np_.sqrt(np_.abs(x)) * 2 + 1).sum(1),
        ((x - x.mean(0)) / x.std(0)).max(),
        n & 7,
        ((x[::-1, ::-3] * 2 - 1) / y[::-1]).T,
        np_.logical_and(x > 0, n < 5) | (x == z),
    ]


@pytest.mark.parametrize("tile", [0, 7, 100])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_program_with_generated_code_gives_numpys_values(
    tile: int, kind: Any, always: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", tile)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s).astype(kind) for s in ((37, 53), (37, 1), (53,))]
    with it.init("cpu*2"):
        got = program(it, *map(it.asarray, given))
        it.compute(*got)
        for mine, wanted in zip(got, program(np, *given), strict=True):
            assert mine.dtype == wanted.dtype
            np.testing.assert_allclose(mine.numpy(), wanted, 2 * ULPS * float(np.finfo(kind).eps))
        # neither exp of 37 rows nor a where is a reason to fall back
        assert it.stats()["eager_fallbacks"] == 0


def test_a_group_that_c_cannot_do_runs_step_by_step_and_is_counted(always: None) -> None:
    with it.init("cpu"):
        x = it.asarray(np.arange(1, 20))
        wanted = np.gcd(np.arange(1, 20), 6) * 2 + 1
        np.testing.assert_array_equal((it.gcd(x, 6) * 2 + 1).numpy(), wanted)
        assert it.stats()["eager_fallbacks"] == 1


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u4", "u8"])
def test_integers_that_c_leaves_undefined_are_numpys(kind: str, always: None) -> None:
    ends = np.iinfo(kind)
    bits = 8 * np.dtype(kind).itemsize
    some = [ends.min, ends.max, 0, 1, 2, 3, 7, bits - 1, bits, bits + 1]
    if ends.min:
        some += [-1, -2, -7, ends.min + 1]
    a = np.repeat(np.array(some, kind), len(some))
    b = np.tile(np.array(some, kind), len(some))
    with it.init("cpu"), np.errstate(all="ignore"):
        x, y = it.asarray(a), it.asarray(b)
        for mine, wanted in (
            (x // y + 1, a // b + 1),
            (x % y + 1, a % b + 1),
            ((x << y) + 1, (a << b) + 1),
            ((x >> y) + 1, (a >> b) + 1),
            (~x + 1, ~a + 1),
            (x.clip(2, 7) * 3, a.clip(2, 7) * 3),
        ):
            np.testing.assert_array_equal(mine.numpy(), wanted, strict=True)
        assert it.stats()["eager_fallbacks"] == 0


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
        x = it.asarray(np.arange(20.0))
        y = x * 2.125 + 1
        with pytest.warns(RuntimeWarning, match="no room"):
            np.testing.assert_array_equal(y.numpy(), np.arange(20.0) * 2.125 + 1)


def test_libraries_are_kept_for_the_next_process_where_only_their_owner_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    source = source_of(
        [GroupStep(Term("negative", (Arg(0),)), (DOUBLE,), (("in", 0),), DOUBLE, 0)],
        [Input(DOUBLE, False, False)],
        1,
    )
    native.library(source)
    folder = native.cache_folder()
    (kept,) = folder.iterdir()
    assert os.stat(folder).st_mode & 0o777 == 0o700
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr(subprocess, "run", None)  # would fail if it compiled again
    native.library(source)
    folder.chmod(0o777)  # now others may have put something there
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    shared = native.cache_folder()
    assert (
        shared == tmp_path / "temporary" / f"infinitensor-{os.getuid()}/infinitensor/{folder.name}"
    )
    assert os.stat(shared).st_mode & 0o777 == 0o700
    assert kept.exists()
    shared.parent.chmod(0o777)
    alone = native.cache_folder()
    assert alone not in (folder, shared)
    assert alone == native.cache_folder()


@as_it_is_used
def test_little_work_is_compiled_once_it_has_run_often_and_its_bits_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_left, "PAID_OFF", 600_000)
    monkeypatch.setattr(work_left, "is_built", lambda source: False)
    calls = []
    run = Compiled.__call__

    def counted(self: Compiled, *args: Any) -> None:
        calls.append(self)
        run(self, *args)

    monkeypatch.setattr(Compiled, "__call__", counted)
    x = it.asarray(np.random.default_rng(3).normal(size=80_000).astype(np.float32))
    it.stats(reset=True)
    found = [((x * 1.7 + 0.3) / (x - 2.5)).numpy().tobytes() for _ in range(8)]
    n_in_c = it.stats()["tasks_in_c"]
    assert 0 < len(calls) + n_in_c < 8
    assert len(set(found)) == 1
    calls.clear()
    for _ in range(8):  # what does not round as NumPy does stays as it is
        it.exp(x * 1.7 + 0.3).numpy()
        (x * 1.7 + 0.3 - x).sum().numpy()
    assert not calls
    assert n_in_c == it.stats()["tasks_in_c"]


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
        patch.setattr(choose_kernel, "COMPILED_ELEMENTS", 1)
        made(30_001)
        assert native._loaded
    native._loaded.clear()
    compiled_kernel.cache_clear()
    monkeypatch.setattr(subprocess, "run", None)  # would fail if it compiled again
    again = made(30_002)[:, :30_000]
    assert native._loaded
    assert np.ascontiguousarray(again).tobytes() == eager.tobytes()


def test_work_that_shrinks_at_each_step_is_compiled_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr(choose_kernel, "COMPILED_ELEMENTS", 1 << 19)
    values = np.random.default_rng(3).normal(size=(400, 400))
    x, y = it.asarray(values), values.copy()
    for k in range(12):
        x[:, k:] -= 2 * (x[:, k:] * 0.25)
        y[:, k:] -= 2 * (y[:, k:] * 0.25)
    assert x.numpy().tobytes() == y.tobytes()
    assert len(native._loaded) == 3  # and one that copies, and one that calls both


@as_it_is_used
@pytest.mark.parametrize(
    ("chain", "is_compiled"),
    [
        (lambda xp, x: x * x + 1.0, False),
        (lambda xp, x: xp.exp(x) + 1.0, True),
        (lambda xp, x: x * (x + 1j) + 1j, True),
        (lambda xp, x: abs(x + 1j) + 1.0, True),
    ],
    ids=["sums", "function", "complex", "absolute"],
)
def test_steps_count_by_their_work_when_compiling_is_weighed(
    chain: Any, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose_kernel, "COMPILED_ELEMENTS", 600_000)
    monkeypatch.setattr(
        "infinitensor.api.evaluate.unplanned.UNPLANNED_ELEMENTS", 0
    )  # all is planned
    worth: list[bool] = []
    weighed = choose_kernel.is_worth_compiling

    def noted(*args: Any) -> bool:
        worth.append(weighed(*args))
        return worth[-1]

    monkeypatch.setattr(choose_kernel, "is_worth_compiling", noted)
    values = np.random.default_rng(3).normal(size=100_000)
    np.testing.assert_allclose(chain(it, it.asarray(values)).numpy(), chain(np, values), rtol=1e-13)
    assert worth == [is_compiled]
