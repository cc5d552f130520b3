"""The words of a job: the same in C and in Python, and what they cannot be made of."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from infinitensor import native
from infinitensor.ir.call_tables import IMAGINARY_PART, REAL, REAL_PART, WHOLE
from infinitensor.runtime.native import c_job

SCALARS: list[Any] = [
    2.5, -3, True, np.float32(0.1), np.int16(-7), np.uint64(2**64 - 1), 2**63, -(2**63), -1, 1 + 2j,
    np.complex64(3 - 4j), np.inf, np.bool_(True),
]  # fmt: skip
FORMS = [c_job.in_python, c_job.fill]


def words_of(fill: Any, arrays: list[np.ndarray], scalars: Any, codes: list[int]) -> bytes:
    words = np.full(3 + len(arrays) + len(codes), -5, np.int64)
    fill(words.data, 16, arrays, scalars, codes)
    assert words[0] == words[1] == words[-1] == -5
    return words.tobytes()


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("n_arrays", [0, 1, 3])
def test_words_are_those_of_python(n_arrays: int, kind: Any) -> None:
    arrays = [np.arange(12.0).reshape(3, 4)[k:, ::-1] for k in range(n_arrays)]
    codes = []
    for number, value in enumerate(SCALARS):
        is_whole = isinstance(value, (int, np.integer, np.bool_))
        if isinstance(value, (complex, np.complexfloating)):
            codes += [4 * number + REAL_PART, 4 * number + IMAGINARY_PART]
        else:
            codes += [4 * number + REAL, *([4 * number + WHOLE] if is_whole else [])]
    wanted, found = (words_of(form, arrays, kind(SCALARS), codes) for form in FORMS)
    assert found == wanted
    for k, array in enumerate(arrays):
        address = array.__array_interface__["data"][0]
        assert struct.unpack_from("q", found, 16 + 8 * k) == (address,)
    first = struct.unpack_from("dd", found, 16 + 8 * n_arrays)
    assert first == (2.5, -3.0)


@pytest.mark.parametrize("fill", FORMS)
def test_what_is_no_number_is_refused(fill: Any) -> None:
    for how in (REAL, WHOLE):
        with pytest.raises((TypeError, ValueError)):
            words_of(fill, [], ["x"], [how])
    with pytest.raises(AttributeError):
        words_of(fill, [], [None], [REAL_PART])
    with pytest.raises(IndexError):
        words_of(fill, [], [1.0], [4])


@pytest.mark.skipif(c_job.fill is c_job.in_python, reason="it was not compiled")
def test_c_writes_nothing_beyond_the_job() -> None:
    words = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="too many words"):
        c_job.fill(words.data, 8, [words, words], [], [])
    with pytest.raises(ValueError, match="too many words"):
        c_job.fill(words.data, -8, [], [], [])
    with pytest.raises(TypeError, match="arrays"):
        c_job.fill(words.data, 0, [None], [], [])
    with pytest.raises(TypeError, match="three lists"):
        c_job.fill(words.data, 0, [], None, [])  # type: ignore[arg-type]
    assert not words.any()


@pytest.mark.skipif(native.compiler() is None, reason="there is no C")
def test_calls_take_numbers() -> None:
    from infinitensor.runtime.native.c_team import c_functions

    for call in (c_functions().alone, c_functions().together):
        with pytest.raises(Exception, match=r".+"):
            call("x", "y", "z", "w")
