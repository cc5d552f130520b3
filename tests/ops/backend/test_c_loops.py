"""Loops in C: where they are not to be had, NumPy's words give the same values."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ops.programs import Cut
from tests.ops.table_xp import WHOLE

import infinitensor as it
from infinitensor import native
from infinitensor.config import config
from infinitensor.ops.backend import c_loops

if TYPE_CHECKING:
    from pathlib import Path

X = np.where(np.arange(300) % 7, np.random.default_rng(0).standard_normal(300), np.nan)
X[:9] = -0.0
INTEGERS = np.random.default_rng(1).integers(0, 12, 300)
POINTS = np.linspace(-1, 1, 9)
PLACES = np.random.default_rng(2).integers(-300, 300, 300)


def _written(x: Any, index: Any, rows: Any) -> Any:
    result = x.copy()
    result[index] = rows
    return result


def _added(x: Any, index: Any, rows: Any) -> Any:
    result = x.copy()
    np.add.at(result, index, rows)
    return result


PROGRAMS: dict[str, Any] = {
    "sort": (lambda xp: xp.sort(X), np.sort(X)),
    "argsort": (lambda xp: xp.argsort(X), np.argsort(X, kind="stable")),
    "sort columns": (lambda xp: xp.sort(X.reshape(60, 5), 0), np.sort(X.reshape(60, 5), 0)),
    "partition": (
        lambda xp: xp.partition(X, [40, 7, 299, 290])[[7, 40, 290, 299]],
        np.sort(X)[[7, 40, 290, 299]],
    ),
    "quantile": (
        lambda xp: xp.quantile(INTEGERS, np.array([0.1, 0.5, 0.99])),
        np.quantile(INTEGERS, [0.1, 0.5, 0.99]),
    ),
    "median": (lambda xp: xp.median(POINTS.reshape(3, 3), 0), np.median(POINTS.reshape(3, 3), 0)),
    "nan in a median": (lambda xp: xp.median(X), np.nan),
    "top k": (
        lambda xp: xp.topk(X, 50)[1],
        np.argsort(-np.where(np.isnan(X), np.inf, X), kind="stable")[:50],
    ),
    "transform of a long line": (
        lambda xp: xp.fft_rfft(POINTS.repeat(30)),
        np.fft.rfft(POINTS.repeat(30)),
    ),
    "inverse of one": (lambda xp: xp.fft_ifft(1j * INTEGERS), np.fft.ifft(1j * INTEGERS)),
    "searchsorted": (
        lambda xp: xp.searchsorted(np.sort(X), X, "right"),
        np.searchsorted(np.sort(X), X, "right"),
    ),
    "interp": (lambda xp: xp.interp(X, POINTS, POINTS**2), np.interp(X, POINTS, POINTS**2)),
    "bincount": (lambda xp: xp.bincount(INTEGERS), np.bincount(INTEGERS)),
    "sums": (lambda xp: xp.bincount(INTEGERS, INTEGERS), np.bincount(INTEGERS, INTEGERS)),
    "argmax of columns": (
        lambda xp: xp.argmax(X.reshape(60, 5), 0),
        np.argmax(X.reshape(60, 5), 0),
    ),
    "argmin of columns": (
        lambda xp: xp.argmin(INTEGERS.reshape(10, 6, 5), 1),
        np.argmin(INTEGERS.reshape(10, 6, 5), 1),
    ),
    "unique integers": (lambda xp: xp.unique(INTEGERS - 3), np.unique(INTEGERS - 3)),
    "histogram": (
        lambda xp: xp.histogram(X, 7, (-1, 1))[0],
        np.histogram(X, 7, (-1, 1))[0],
    ),
    "cumsum": (lambda xp: xp.cumsum(INTEGERS), np.cumsum(INTEGERS)),
    "mask": (lambda xp: xp._masked(X, X > 0), X[X > 0]),
    "nonzero": (lambda xp: xp.flatnonzero(X > 0), np.flatnonzero(X > 0)),
    "scatter": (
        lambda xp: xp._scatter(X, [PLACES], X, (0,), 0, "set"),
        _written(X, PLACES, X),
    ),
    "scatter add": (
        lambda xp: xp.scatter_add(INTEGERS.reshape(60, 5), PLACES[:60] % 60 - 60, np.array(1)),
        _added(INTEGERS.reshape(60, 5), PLACES[:60] % 60, 1),
    ),
    "scatter of many": (
        lambda xp: xp._scattered(X, [PLACES], X, (0,), 0, "set"),
        _written(X, PLACES, X),
    ),
    "scatter add of many": (
        lambda xp: xp.scatter_add(INTEGERS, PLACES, INTEGERS),
        _added(INTEGERS, PLACES, INTEGERS),
    ),
    "uniform": (lambda xp: xp._random_uniform(3, 1.0, 2.0, (20, 15)), None),
    "normal": (lambda xp: xp._random_normal(3, 1.0, 2.0, (20, 15)), None),
    "integers": (lambda xp: xp._random_integers(3, -5, 70, (20, 15)), None),
    "gamma": (lambda xp: xp._random_gamma(3, 0.7, (20, 15)), None),
    "cumsum columns": (
        lambda xp: xp.cumsum(INTEGERS.reshape(60, 5), 0),
        np.cumsum(INTEGERS.reshape(60, 5), 0),
    ),
}


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")
def test_a_loop_is_compiled_for_a_dtype() -> None:
    sort_lines = c_loops.loop("sort", "sort_lines", np.int16)
    assert sort_lines is not None
    out, spare = np.empty(4, np.int16), np.empty(4, np.int16)
    sort_lines(np.array([3, -1, 2, 0], np.int16), 1, 4, out, spare, 1)
    assert out.tolist() == [-1, 0, 2, 3]
    assert c_loops.loop("sort", "sort_lines", np.complex64) is None


@pytest.mark.parametrize("block", [16, 1024])
@pytest.mark.parametrize("compile_", ["auto", "never"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_with_and_without_c_the_values_are_numpys(
    monkeypatch: pytest.MonkeyPatch, name: str, compile_: str, block: int
) -> None:
    monkeypatch.setattr(config, "compile", compile_)
    program, wanted = PROGRAMS[name]
    if wanted is None:  # numbers of our own: those of the whole, without C
        with monkeypatch.context() as whole:
            whole.setattr(config, "compile", "never")
            wanted = program(Cut(WHOLE))
    np.testing.assert_allclose(program(Cut(37, block)), wanted, 1e-13, 1e-13)


def test_an_index_out_of_bounds_is_named_and_nothing_is_written() -> None:
    with pytest.raises(IndexError, match="index -8 is out of bounds for axis 0 with size 7"):
        Cut(3)._scatter(np.zeros(7), [np.array([1, -8])], np.ones(2), (0,), 0, "set")
    with pytest.raises(IndexError, match="index 40 is out of bounds for axis 0 with size 40"):
        Cut(3)._scattered(np.zeros(40), [np.arange(41)], np.ones(41), (0,), 0, "set")


def test_a_compiler_that_fails_is_named_and_numpy_does_the_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho no room >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(native, "_loaded", {})
    c_loops._functions.clear()
    try:
        with pytest.warns(RuntimeWarning, match="no room"):
            found = Cut().searchsorted(np.arange(9, dtype="u2"), np.arange(5, dtype="u2"))
        assert found.tolist() == [0, 1, 2, 3, 4]
    finally:
        c_loops._functions.clear()


def test_work_without_a_compiler_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "compiler", lambda: None)
    monkeypatch.setattr(native, "_loaded", {})
    c_loops._functions.clear()
    try:
        with it.init("cpu"):
            x = it.asarray(np.arange(100_000, dtype=np.uint32)[::-1])
            assert x.numpy()[0] == 99_999
            assert it.stats(reset=True)["eager_fallbacks"] == 0
            assert it.argsort(x, stable=True).numpy()[0] == 99_999
            assert it.stats(reset=True)["eager_fallbacks"] > 0
            assert it.stats()["eager_fallbacks"] == 0
    finally:
        c_loops._functions.clear()


@pytest.mark.skipif(bool(native.sanitizers()), reason="under checks all is compiled")
@pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_built_does_the_work_while_a_compiler_is_at_it(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The values are the same, and of the same bits once it is done."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    may_compile, build, asked = threading.Event(), native._build, []

    def build_later(source: str, *given: Any) -> Path:
        asked.append(source)
        may_compile.wait(60)
        return build(source, *given)

    program, wanted = PROGRAMS[name]
    c_loops._functions.clear()
    try:
        with monkeypatch.context() as waiting:
            waiting.setattr(native, "_build", build_later)
            waiting.setattr(
                c_loops, "library", lambda source: native._load(build(source, native.flags()))
            )
            first = program(Cut(37, 1024))
            assert not native._loaded
            may_compile.set()
        while native.n_begun():
            time.sleep(0.01)
        again = program(Cut(37, 1024))
        assert np.asarray(again).tobytes() == np.asarray(first).tobytes()
        if wanted is not None:
            np.testing.assert_allclose(first, wanted, 1e-13, 1e-13)
        assert all(map(native.is_loaded, asked))
    finally:
        may_compile.set()
        c_loops._functions.clear()


def test_a_library_is_given_what_it_calls_once() -> None:
    """Later others may be running its functions, which read that."""
    given: list[str] = []

    class Library:
        def set_look(self, function: Any) -> None:
            given.append("look")

        def set_share(self, function: Any) -> None:
            given.append("share")

    library = Library()
    for _ in range(3):
        c_loops._give_callbacks(library, "set_look, set_share")
    c_loops._give_callbacks(Library(), "set_look")
    assert given == ["look", "share", "look"]
