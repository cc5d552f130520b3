"""Runs of a file that are apart, read in C: NumPy's slices, and errors that name the file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples

from infinitensor import events, native
from infinitensor.storage.file_io import strided_read
from infinitensor.storage.file_io.strided_read import read_points, read_runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUES = np.random.default_rng(4).integers(0, 256, 4000, dtype=np.uint8)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    if strided_read._function("read_runs") is None:
        pytest.skip("no compiler here")
    (tmp_path / "x").write_bytes(VALUES.tobytes())
    file = os.open(tmp_path / "x", os.O_RDONLY)
    yield file
    os.close(file)


def rows(n: int, n_bytes: int, apart: int) -> np.ndarray[Any, Any]:
    """Rows with memory between them, all of it 99."""
    return np.full((n, n_bytes + apart), 99, np.uint8)


@given(
    offset=st.integers(0, 100),
    step=st.integers(1, 60),
    n=st.integers(1, 40),
    n_bytes=st.integers(1, 40),
    apart=st.integers(0, 3),
    window=st.integers(1, 50),
)
@examples(50)
def test_runs_are_the_rows_of_the_strided_view(
    file: int, offset: int, step: int, n: int, n_bytes: int, apart: int, window: int
) -> None:
    held = rows(n, n_bytes, apart)
    assert read_runs(file, "x", offset, step, window, held[:, :n_bytes]) == n
    at = offset + step * np.arange(n)[:, None] + np.arange(n_bytes)
    np.testing.assert_array_equal(held[:, :n_bytes], VALUES[at])
    assert (held[:, n_bytes:] == 99).all()


@given(st.data())
@examples(40)
def test_points_are_read_at_their_offsets_in_any_order_in_several_calls(
    file: int, data: st.DataObject
) -> None:
    n, n_bytes = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 20))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    offsets = rng.integers(0, VALUES.size - n_bytes, n)
    order = rng.permutation(n)
    held = rows(n, n_bytes, 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(strided_read, "ELEMENTS_A_CALL", data.draw(st.integers(1, 50)))
        assert read_points(file, "x", offsets, order, 4, held[:, :n_bytes]) == n
    np.testing.assert_array_equal(held[:, :n_bytes], VALUES[offsets[:, None] + np.arange(n_bytes)])
    assert (held[:, n_bytes:] == 99).all()


def test_runs_beyond_the_end_of_the_file_are_not_counted(file: int) -> None:
    out = np.empty((5, 10), np.uint8)
    assert read_runs(file, "x", VALUES.size - 45, 20, 4, out) == 2  # the third is cut
    np.testing.assert_array_equal(out[1], VALUES[-25:-15])
    offsets = np.array([0, VALUES.size - 5, 7])
    assert read_points(file, "x", offsets, np.array([0, 2, 1]), 4, out[:3]) == 2


def test_error_of_the_system_names_the_file() -> None:
    if strided_read._function("read_runs") is None:
        pytest.skip("no compiler here")
    out = np.empty((2, 3), np.uint8)
    with pytest.raises(OSError, match=r"Bad file descriptor: 'x\.npy'"):
        read_runs(-1, "x.npy", 0, 5, 2, out)
    with pytest.raises(OSError, match=r"Bad file descriptor: 'x\.npy'"):
        read_points(-1, "x.npy", np.array([0, 9]), np.array([0, 1]), 2, out)


def test_hooks_that_want_every_read_get_it(file: int) -> None:
    out = np.full((2, 3), 99, np.uint8)
    with events.on("file", lambda **what: None):
        assert read_runs(file, "x", 0, 5, 2, out) is None
        assert read_points(file, "x", np.array([0, 9]), np.array([0, 1]), 2, out) is None
    assert (out == 99).all()


def test_without_a_compiler_nothing_is_done_and_that_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strided_read, "_function", lambda name: None)
    before = native.missed[0]
    assert read_runs(-1, "x", 0, 5, 2, np.empty((2, 3), np.uint8)) is None
    assert native.missed[0] == before + 1
