"""Fourier transforms by MKL's: NumPy's values for every layout, and plans that are kept."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor import threads
from infinitensor.api.functions.namespace import namespace
from infinitensor.events import lane
from infinitensor.ops.signal import fft_mkl
from infinitensor.ops.signal.fft import is_in_pieces
from infinitensor.ops.signal.fft_mkl import SINGLE, find_library, transform_lines

pytestmark = pytest.mark.skipif(find_library() is None, reason="a torch without MKL")
RNG = np.random.default_rng(7)
WORDS = ("fft", "ifft", "rfft", "irfft")


def some(shape: tuple[int, ...], dtype: str) -> Any:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def check(x: Any, word: str, axis: int, n: int, norm: str = "backward") -> None:
    wanted = getattr(np.fft, word)(x, n, axis, norm)
    out = np.empty(wanted.shape, wanted.dtype)
    assert transform_lines(x, out, word, axis, n, norm)
    is_single = SINGLE[x.dtype]
    scale = np.abs(wanted).max(initial=0) + 1e-30
    np.testing.assert_allclose(out / scale, wanted / scale, 0, 3e-6 if is_single else 1e-13)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1,), 0), ((7,), 0), ((3, 4), 0), ((3, 4), 1), ((5, 40, 60), 1), ((40, 6, 5), 1),
     ((9, 50, 1), 1), ((300, 37), 0), ((37, 300), 1), ((20000, 3), 1), ((3, 20000), 0)],
)  # fmt: skip
def test_every_layout_has_numpys_values(
    shape: tuple[int, ...], axis: int, dtype: str, word: str
) -> None:
    if word == "rfft" and dtype[0] == "c":
        return
    x = some(shape, dtype if word != "irfft" else {"f4": "c8", "f8": "c16"}.get(dtype, dtype))
    length = shape[axis] if word != "irfft" else 2 * (shape[axis] - 1)
    for n in {length, length + 3, max(length - 2, 1)} - {0}:
        for norm in ("backward", "ortho", "forward"):
            check(x, word, axis, n, norm)


@pytest.mark.parametrize("n", [2, 3, 16, 97, 182, 1024])
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_contiguous_lines_have_the_same_bits_whoever_is_beside_them(n: int, dtype: str) -> None:
    x = some((23, n), dtype)
    whole = np.empty((23, n), "c8" if dtype == "f4" else "c16")
    transform_lines(x, whole, "fft", 1, n, "backward")
    for row in range(23):
        alone = np.empty_like(whole[:1])
        transform_lines(x[row : row + 1], alone, "fft", 1, n, "backward")
        assert alone.tobytes() == whole[row].tobytes()


def test_what_is_not_in_order_is_copied() -> None:
    x = some((12, 20), "c8")
    for view in (x[::2], x[:, ::-1], x.T, np.broadcast_to(x[:1], (3, 20))):
        check(view, "fft", 0, view.shape[0])
        check(view, "fft", 1, view.shape[1])
    out = np.zeros((20, 12), "c8").T
    assert transform_lines(x, out, "fft", 1, 20, "backward")
    np.testing.assert_allclose(out, np.fft.fft(x), 1e-4, 1e-4)


def test_nan_and_infinity_spread_over_their_line_alone() -> None:
    x = some((4, 10), "f8")
    x[1, 3], x[2, 0] = np.nan, np.inf
    out = np.empty((4, 10), "c16")
    assert transform_lines(x, out, "fft", 1, 10, "backward")
    assert not np.isfinite(out[1:3]).any()
    np.testing.assert_allclose(out[::3], np.fft.fft(x[::3]))


def test_of_nothing_there_is_nothing() -> None:
    assert transform_lines(np.zeros((0, 4)), np.empty((0, 4), complex), "fft", 1, 4, "ortho")


def test_a_plan_is_made_once_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fft_mkl, "_plans", {})
    monkeypatch.setattr(fft_mkl, "MOST_LINE_PLANS", 3)
    x = some((8, 30), "f4")
    for _ in range(3):
        check(x, "fft", 1, 30)
    (plan,) = fft_mkl._plans.values()
    assert plan.n == 30
    for n in (31, 32, 33, 34, 35):
        check(x, "fft", 1, n)
        assert len(fft_mkl._plans) <= 3
    monkeypatch.setattr(fft_mkl, "MOST_PLANNED_POINTS", 50)
    check(x, "fft", 1, 40)
    assert [kept.n for kept in fft_mkl._plans.values()] == [40]


def test_one_plan_serves_several_threads() -> None:
    given = [some((50, 96), "c8") for _ in range(4)]
    made = [np.empty_like(x) for x in given]

    def work(k: int) -> None:
        for _ in range(50):
            transform_lines(given[k], made[k], "fft", 1, 96, "backward")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, out in zip(given, made, strict=True):
        np.testing.assert_allclose(out, np.fft.fft(x), 1e-4, 1e-4)


# --- long lines -------------------------------------------------------------------------------


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are taken as matrices however short they are."""
    monkeypatch.setattr(fft_mkl, "_plans", {})
    monkeypatch.setattr(fft_mkl, "LONG_LINE_BYTES", 1)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    "n", [4, 15, 36, 97, 225, 256, 1001, 31 * 33, 47 * 47, 40 * 1009, 5 * 7013]
)
def test_a_line_in_pieces_has_numpys_values(n: int, dtype: str, word: str) -> None:
    if word == "rfft" and dtype[0] == "c":
        return
    length = n // 2 + 1 if word == "irfft" else n
    for n_lines, norm in ((1, "backward"), (3, "ortho"), (2, "forward")):
        x = some((n_lines, length), dtype if word != "irfft" else {"f4": "c8"}.get(dtype, "c16"))
        check(x, word, 1, n, norm)


@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize("word", WORDS)
def test_a_long_line_has_the_same_bits_however_many_share_it(
    word: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 1 << 18
    x = some((3, n // 2 + 1 if word == "irfft" else n), dtype)
    x = x.real if word == "rfft" else x.astype({"f4": "c8"}.get(dtype, dtype))
    makes = getattr(np.fft, word)(x[0])
    made = []
    for n_threads in (1, 2, 5):
        monkeypatch.setattr(threads._n_threads, "value", n_threads)
        for lines in (x, x[:1]):
            out = np.empty((len(lines), len(makes)), makes.dtype)
            assert transform_lines(lines, out, word, 1, n, "backward")
            made.append(out[:1])
    assert all(one.tobytes() == made[0].tobytes() for one in made)
    np.testing.assert_allclose(made[0][0] / n**0.5, makes / n**0.5, 1e-4, 1e-4)


@pytest.mark.usefixtures("cut")
def test_imaginary_parts_at_the_ends_of_half_a_spectrum_do_not_count() -> None:
    for n in (48, 63, 64, 90, 225):
        x = some((n // 2 + 1,), "c16") * 1e3
        check(x, "irfft", 0, n)


@pytest.mark.usefixtures("cut")
def test_nan_and_infinity_spread_over_a_line_in_pieces() -> None:
    for bad in (np.nan, np.inf):
        x = some((3, 960), "f4")
        x[1, 77] = bad
        out = np.empty((3, 481), "c8")
        assert transform_lines(x, out, "rfft", 1, 960, "backward")
        assert not np.isfinite(out[1]).any()
        np.testing.assert_allclose(out[::2], np.fft.rfft(x[::2]), 1e-4, 1e-4)


def test_a_long_line_in_one_memory_is_one_piece() -> None:
    x = some((1 << 18,), "f4")
    made = it.fft.rfft(it.asarray(x))
    assert not is_in_pieces(namespace, len(x), x.dtype)
    np.testing.assert_allclose(made.numpy(), np.fft.rfft(x), 1e-3, 1e-2)


# --- first transforms -------------------------------------------------------------------------

FIRST = """
import os, sys
import numpy as np
import infinitensor as it
from infinitensor.ops.signal import fft_mkl

x = np.random.default_rng(0).standard_normal((64, 1000))
before = np.fft.fft2(x).tobytes()
made = [it.fft.fft2(it.asarray(x)).numpy() for _ in range(2)]
assert all(one.tobytes() == before for one in made)
assert it.stats()["transforms_before_mkl"] == 4
small = it.fft.rfft(it.asarray(x.astype("f2"))).numpy()
np.testing.assert_allclose(small, np.fft.rfft(x.astype("f2")), 1e-2, 1e-1)
if not os.fork():
    os._exit(not np.allclose(it.fft.fft2(it.asarray(x)).numpy(), made[0]))
assert not os.wait()[1]
while fft_mkl.first.work <= fft_mkl.FIRST_WORK:
    it.fft.fft2(it.asarray(x))
n = it.stats()["transforms_before_mkl"]
late = it.fft.fft2(it.asarray(x)).numpy()
np.testing.assert_allclose(late, made[0], 1e-9, 1e-9)
assert late.tobytes() != before
assert it.stats(reset=True)["transforms_before_mkl"] == n
assert it.stats()["transforms_before_mkl"] == 0
assert "torch" not in sys.modules
"""


def test_the_first_transforms_of_a_process_wait_for_nothing_and_are_numpys() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_which_are_first_depends_on_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    monkeypatch.setattr(fft_mkl, "first", fft_mkl.First())
    monkeypatch.setattr(fft_mkl, "begin_loading", lambda: begun.append(1))
    monkeypatch.setattr(fft_mkl, "is_of_user", lambda: False)
    each = fft_mkl.FIRST_WORK // 20
    assert [fft_mkl.is_numpys(each, 2) for _ in range(12)] == [True] * 10 + [False] * 2
    assert len(begun) == 11
    assert fft_mkl.first.n_made == 10
    monkeypatch.setattr(fft_mkl, "first", fft_mkl.First())
    monkeypatch.setattr(lane, "is_worker", True)  # several at a time, in no order
    assert not fft_mkl.is_numpys(each, 2)
    monkeypatch.setattr(lane, "is_worker", False)
    monkeypatch.setattr(fft_mkl, "is_of_user", lambda: True)
    assert not fft_mkl.is_numpys(each, 2)


# --- whole calls ------------------------------------------------------------------------------


def test_a_transform_of_medium_size_runs_at_once() -> None:
    before = it.stats()["ways"].get("moved", 0)
    x = it.asarray(some((300, 400), "f4"))
    made = it.fft.fft2(x)
    assert it.stats()["ways"]["moved"] == before + 2
    np.testing.assert_allclose(made.numpy(), np.fft.fft2(x.numpy()), 1e-3, 1e-3)


def test_without_the_library_others_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fft_mkl, "find_library", lambda: None)
    x = some((3, 8), "f8")
    assert not transform_lines(x, np.empty((3, 8), complex), "fft", 1, 8, "backward")
    np.testing.assert_allclose(it.fft.fft(it.asarray(x)).numpy(), np.fft.fft(x))


def test_where_mkl_makes_no_plan_another_transforms_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: Any, *_: Any) -> Any:
        raise fft_mkl.NoPlanError("MKL makes no plan: 3")

    monkeypatch.setattr(fft_mkl, "_plans", {})
    monkeypatch.setattr(fft_mkl.Plan, "_descriptor", refuse)
    x = some((5, 11), "c16")
    with pytest.warns(RuntimeWarning, match="no plan: 3; torch or NumPy"):
        assert not transform_lines(x, np.empty_like(x), "fft", 1, 11, "backward")
