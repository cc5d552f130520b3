"""Odd arguments: the same values, dtypes and shapes as NumPy's, or the same kind of error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest
from tests.api import odd
from tests.ir.sessions import strict

import infinitensor as it

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.local
CALLS = {"small": 1, "large": 2, "strict": 1}
"""Of each function."""


@pytest.mark.parametrize("mode", CALLS)
def test_odd_calls_give_what_numpys_give(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample; `python -m tests.api.odd` makes more."""
    monkeypatch.chdir(tmp_path)
    wrong = []
    with odd.session(mode):
        for name in odd.names():
            for call in odd.odd_calls(name, 0, CALLS[mode]):
                found = odd.difference(call)
                if odd.is_wrong(call, found):
                    wrong.append(f"{name} ({call.said}): {found}")
    assert not wrong


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64])
def test_numpys_integers_leave_nothing_in_later_calls(kind: Any) -> None:
    """They are equal to Python's, so a call made with them was found again, eight bits wide."""
    x = np.arange(24.0).reshape(4, 6)
    with strict("cpu", 0), catch_warnings():
        simplefilter("error")
        for n in (kind(4), 4):
            made = it.fft.irfft(it.asarray(x), n=n, axis=kind(1))
            np.testing.assert_allclose(made.numpy(), np.fft.irfft(x, 4, 1), atol=1e-12)
        made = it.fft.irfft2(it.asarray(x))
        np.testing.assert_allclose(made.numpy(), np.fft.irfft2(x), atol=1e-12)
        assert it.zeros((kind(100), kind(100))).sum().item() == 0
        assert it.tile(it.ones(3), kind(100)).sum().item() == 300
        assert it.broadcast_to(it.ones(1), kind(100)).shape == (100,)
        axis: Any = it.asarray(0)
        assert it.fft.fft(it.asarray(x), axis=axis).shape == x.shape


@pytest.mark.parametrize("axis", [True, 1.0, np.float32(1)], ids=repr)
def test_what_is_equal_to_an_axis_is_none(axis: Any) -> None:
    """Also after a call with the axis it is equal to."""
    x = it.asarray(np.arange(6.0).reshape(2, 3))
    with strict("cpu", 0):
        x = it.asarray(np.arange(6.0).reshape(2, 3))
        assert it.sum(x, axis=1).tolist() == [3, 12]
        with pytest.raises(TypeError, match="integer"):
            it.sum(x, axis=axis)
