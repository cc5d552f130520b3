"""Running sums and products: every case in pieces, on both kinds of kernel, one pass and two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict
from tests.ops.programs import Cut, check_cases, ops_of

import infinitensor as it
from infinitensor import native
from infinitensor.api.functions.namespace import namespace
from infinitensor.dtypes import NUMPYS
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.reduce import scan
from infinitensor.ops.reduce.scan import running_sums

STEPS = [1, 2, 7, 1000]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ops_of("scan"))
def test_pieces_give_the_value_of_the_whole(name: str, kind: str, step: int) -> None:
    for block in (2, 8, 1024):
        check_cases(name, step, block, kind)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("block", [4, 64])
@pytest.mark.parametrize("dtype", NUMPYS, ids=str)
def test_every_dtype_adds_up_in_numpys_dtype(dtype: Any, block: int, kind: str) -> None:
    x = np.random.default_rng(0).integers(0, 4, (3, 30)).astype(dtype)
    xp = Cut(7, block, kind)
    for got, wanted in (
        (xp.cumsum(x, 1), np.cumsum(x, 1)),
        (xp.cumsum(x), np.cumsum(x)),
        (
            xp.cumprod(x % 3 if x.dtype.kind in "iu" else x, 0),
            np.cumprod(x % 3 if x.dtype.kind in "iu" else x, 0),
        ),
        (
            xp.cumsum(x, 1, "f8" if x.dtype.kind != "c" else "c16"),
            np.cumsum(x, 1, "f8" if x.dtype.kind != "c" else "c16"),
        ),
    ):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)  # small integers: exact in every dtype


def test_bits_depend_on_the_block_and_not_on_the_cut() -> None:
    x = np.random.default_rng(0).standard_normal(1000)
    wanted = Cut(1000, 64).cumsum(x)
    for step in (1, 7, 64, 100):
        assert Cut(step, 64).cumsum(x).tobytes() == wanted.tobytes()


def test_nan_and_infinity_run_on() -> None:
    x = np.array([1.0, np.inf, 2.0, -np.inf, 3.0, np.nan, 4.0])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(Cut(2, 2).cumsum(x), np.cumsum(x))
        np.testing.assert_array_equal(Cut(2, 2).cumprod(x), np.cumprod(x))


@pytest.mark.parametrize(
    ("name", "args", "error", "text"),
    [
        ("cumsum", (np.ones((2, 2)), 3), np.exceptions.AxisError, "axis 3 is out of bounds"),
        ("cumulative_sum", (np.ones((2, 2)),), ValueError, "``axis`` argument is required"),
        ("diff", (np.array(1.0),), ValueError, "at least one dimensional"),
        ("diff", (np.ones(3), -1), ValueError, "non-negative but got -1"),
        ("diff", (np.ones(3), 1, 2), np.exceptions.AxisError, "axis 2 is out of bounds"),
    ],
)
def test_bad_arguments_raise_at_the_call(name: str, args: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        Cut().run(name, args, {})


@pytest.mark.parametrize("tile", [0, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_a_running_product_keeps_its_zeros_and_infinities_whatever_follows(
    dtype: Any, tile: int
) -> None:
    large = np.finfo(dtype).max / 2
    rng = np.random.default_rng(3)
    n = 300_000 if not tile else 60
    lines = rng.choice([large, 1 / large, 1.0, 3.0], (3, n)).astype(dtype)
    lines[0, 0], lines[1, n // 2] = 0, 0
    before = (it.config.small_elements, it.config.tile_elements)
    try:
        it.config.small_elements, it.config.tile_elements = (0, 7) if tile else before
        with it.init("cpu*3" if tile else "cpu"), np.errstate(all="ignore"):
            for line in lines:
                np.testing.assert_array_equal(it.cumprod(it.asarray(line)).numpy(), line.cumprod())
    finally:
        it.config.small_elements, it.config.tile_elements = before


@pytest.mark.skipif(native.compiler() is None, reason="one thread walks tile by tile")
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u8"])
@pytest.mark.parametrize("n", [1 << 18, (1 << 18) + 1, (1 << 19) + (1 << 15), 1_000_003])
def test_a_line_walked_by_threads_has_the_bits_of_two_passes(
    n: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(n).integers(0, 1 << 20, n).astype(dtype) / 3
    x = x.astype(dtype)
    if dtype[0] == "f":
        x[:9] = -0.0
    with strict("cpu", 0, workers=3):
        together = it.cumsum(it.asarray(x))
        assert "_scan_lines" in str(it.plan(together))
        found = together.numpy()
        monkeypatch.setattr(type(namespace), "n_hands", lambda self, n_bytes: 0)
        apart = it.cumsum(it.asarray(x))
        assert "_scan_totals" in str(it.plan(apart))
        assert found.tobytes() == apart.numpy().tobytes()
    wanted = np.cumsum(x, dtype="f8") if dtype[0] == "f" else np.cumsum(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.skipif(native.compiler() is None, reason="lines are walked tile by tile")
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("shape", [(1, 40_000), (2, 33_000), (3, 2, 65_537), (7, 33_000), (41, 0)])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_long_lines_have_the_bits_of_two_passes_on_any_number_of_threads(
    shape: tuple[int, ...], dtype: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(1).integers(-(1 << 20), 1 << 20, shape).astype(dtype) / 3
    x = x.astype(dtype)
    if x.size and dtype[0] == "f":
        x[0, ..., :9], x[-1, ..., 0] = -0.0, np.nan
    with strict("cpu", 0, workers=workers):
        given = it.asarray(x)
        together = it.cumsum(given, axis=-1)
        assert ("_scan_lines" in str(it.plan(together))) == (x.size > 0)
        found = together.numpy()
        again = it.cumsum(given + 0, axis=-1).numpy()  # by tasks of C
        monkeypatch.setattr(type(namespace), "n_hands", lambda self, n_bytes: 0)
        apart = it.cumsum(it.asarray(x), axis=-1).numpy()
    if dtype[0] == "f":
        again[0, ..., :9] = np.where(again[0, ..., :9] == 0, -0.0, again[0, ..., :9])
    assert found.tobytes() == apart.tobytes() == again.tobytes()


@pytest.mark.skipif(native.compiler() is None, reason="columns are walked tile by tile")
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("shape", [(40_000, 1), (33_000, 3), (2, 33_000, 70), (65_537, 33), (0, 9)])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_long_columns_have_the_bits_of_two_passes_on_any_number_of_threads(
    shape: tuple[int, ...], dtype: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(1).integers(-(1 << 20), 1 << 20, shape).astype(dtype) / 3
    x, axis = x.astype(dtype), len(shape) - 2
    if x.size and dtype[0] == "f":
        x[..., :9, 0], x[..., -1, -1] = -0.0, np.nan
    with strict("cpu", 0, workers=workers):
        given = it.asarray(x)
        together = it.cumsum(given, axis=axis)
        assert ("_scan_lines" in str(it.plan(together))) == (x.size > 0)
        found = together.numpy()
        again = it.cumsum(given * 1, axis=axis).numpy()  # by tasks of C
        monkeypatch.setattr(type(namespace), "n_hands", lambda self, n_bytes: 0)
        apart = it.cumsum(it.asarray(x), axis=axis).numpy()
    assert found.tobytes() == apart.tobytes() == again.tobytes()
    wanted = np.cumsum(x, axis)
    scale = np.nanmax(np.abs(wanted), initial=0)
    np.testing.assert_allclose(found, wanted, 1e-3, 1e-3 * scale)


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler")
def test_columns_of_what_a_program_makes_are_one_task() -> None:
    x = np.random.default_rng(0).standard_normal((9000, 40))
    with strict("cpu", 0, workers=2):
        a = it.asarray(x)
        made = it.cumsum(a * a, axis=0) * 0.5
        assert "_scan_axis       1 tasks" in str(it.plan(made))
        np.testing.assert_array_equal(made.numpy(), np.cumsum(x * x, axis=0) * 0.5)


def test_a_line_that_takes_much_of_memory_is_walked_tile_by_tile() -> None:
    with strict("cpu", 0, memory="64MiB"):
        assert "_scan_totals" in str(it.plan(it.cumsum(it.zeros(2_000_000) + 1)))


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint64"])
@pytest.mark.parametrize(
    ("view", "axis", "is_in_c"),
    [
        (lambda x: x, 1, True),
        (lambda x: x[100:900], 1, True),
        (lambda x: x.reshape(100, 10, 700), 1, True),
        (lambda x: x[:, 3:], 1, False),
        (lambda x: x.T, 0, False),
        (lambda x: x[::-1], 1, False),
    ],
    ids=["rows", "some rows", "the middle", "parts of rows", "transposed", "backwards"],
)
def test_running_sums_of_tiles_that_are_stored_in_one_piece_are_tasks_of_c(
    view: Any, axis: int, is_in_c: bool, dtype: str
) -> None:
    values = (9 * np.random.default_rng(4).random((1000, 700))).astype(dtype)
    wanted = np.cumsum(view(values), axis)
    with strict("cpu", 1 << 14):
        x = it.asarray(values)
        it.compute(x)
        for _ in range(4):  # a program that is repeated is run by C
            it.stats(reset=True)
            found = it.cumsum(view(x), axis).numpy()
            np.testing.assert_array_equal(found, wanted)
        assert (it.stats()["tasks_in_c"] > 0) == is_in_c


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("n", [1, 7, 8, 9, 15, 16, 17, 33, 100])
def test_lines_of_every_length_have_the_bits_of_one_addition_after_another(n: int) -> None:
    for dtype in ("float32", "float64", "int16"):
        x = (9 * np.random.default_rng(n).standard_normal((5, n))).astype(dtype)
        out = np.empty_like(x)
        scan = loop("scan", "scan", x.dtype)
        assert scan is not None
        scan(x, 5, n, 1, None, out)
        np.testing.assert_array_equal(out, np.add.accumulate(x, axis=1, dtype=dtype))
        carry = x[:, 0].copy()
        scan(x, 5, n, 1, carry, out)
        np.testing.assert_array_equal(
            out, carry[:, None] + np.add.accumulate(x, axis=1, dtype=dtype)
        )


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (700, 190), (3, 50_000), (5, 40, 700), (90, 1)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1", "?"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_share_lines_without_other_bits(
    shape: tuple[int, ...], dtype: str, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "n_sharing", lambda: n_threads)
    x = (np.random.default_rng(3).standard_normal(shape) * 50).astype(dtype)
    if x.dtype.kind == "f" and x.size > 9:
        x.flat[7], x.flat[-1] = np.nan, np.inf
    for axis in range(x.ndim):
        np.testing.assert_array_equal(running_sums(x, axis), np.cumsum(x, axis))
        other_way = np.moveaxis(x, 0, -1)
        np.testing.assert_array_equal(running_sums(other_way, axis), np.cumsum(other_way, axis))


@pytest.mark.parametrize("dtype", ["i4", "u1", "i8"])
def test_a_long_line_of_small_integers_is_walked_in_their_sums_dtype(dtype: str) -> None:
    x = np.random.default_rng(4).integers(0, 100, 300_000).astype(dtype)
    made = it.cumsum(it.asarray(x))
    assert made.dtype == np.cumsum(x).dtype
    np.testing.assert_array_equal(made.numpy(), np.cumsum(x))
