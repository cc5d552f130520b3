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


X = np.arange(24.0).reshape(2, 3, 4)
SEEN: dict[str, Any] = {
    "rfftn of an axis twice": lambda xp, x: xp.fft.rfftn(x, axes=(1, 1)),
    "ifftshift of an axis twice": lambda xp, x: xp.fft.ifftshift(x, axes=(1, 1)),
    "one point": lambda xp, x: xp.fft.ihfft(x, n=True),
    "sign of NaN": lambda xp, x: xp.linalg.slogdet(
        xp.where(x[0, :3, :3] == 1, np.nan, x[0, :, :3])
    ),
    "repeat by a float": lambda xp, x: xp.repeat(x, 4.7),
    "roll by a float": lambda xp, x: xp.roll(x, 1.5, axis=1),
    "split by a float": lambda xp, x: xp.hsplit(x, 3.0),
    "clip in a dtype": lambda xp, x: xp.clip(x, [2], None, dtype="u1", casting="unsafe"),
    "sum of nothing": lambda xp, x: xp.nansum(x[..., :0], axis=2, where=xp.asarray([True])),
    "mean in bytes": lambda xp, x: xp.mean(x - 9.7 + 1j, 1, dtype="i1", where=np.True_),
    "variance in a complex dtype": lambda xp, x: xp.var(x, dtype=complex),
    "axis of a number": lambda xp, x: xp.max(x[0, 0, 0], axis=np.array(0)),
    "norm along a float": lambda xp, x: xp.linalg.norm(x, axis=1.0),
    "qr by an old name": lambda xp, x: abs(xp.linalg.qr(x, mode="full")[1]),
    "coordinates of two dtypes": lambda xp, x: xp.histogram2d(x[0, 0].astype("f4"), x[0, 1])[1],
    "indices that are booleans": lambda xp, x: xp.unravel_index(x[0] > 3, (2, 3))[0],
}


@pytest.mark.parametrize("seen", SEEN)
def test_calls_once_seen_to_differ_do_not(seen: str) -> None:
    with strict("cpu", 0), catch_warnings():
        simplefilter("ignore")
        want = odd.outcome(lambda: SEEN[seen](np, X))
        got = odd.outcome(lambda: odd.host(SEEN[seen](it, it.asarray(X))))
    assert not isinstance(want, tuple)
    assert [(a.dtype, a.shape) for a in got] == [(a.dtype, a.shape) for a in want]
    assert all(odd.close(a, b) for a, b in zip(got, want, strict=True))


def test_what_owns_its_values_may_be_written_again() -> None:
    x = it.asarray(X)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    view = x[0]
    x.flags.writeable = True
    x[0] = 1
    assert x[0, 0, 0] == 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True


def test_flat_is_not_assigned_by_an_empty_index() -> None:
    with pytest.raises(IndexError, match="0-D index"):
        it.asarray(X).flat[()] = 5
