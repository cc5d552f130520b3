"""Functions that put elements of small tensors elsewhere are NumPy's own, with our bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.config import config
from infinitensor.dtypes import bfloat16

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("counted_session")

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def _calls(x: Any, line: Any) -> list[Call]:
    """Calls of an array of two axes and one of one axis, each a name, arguments and options."""
    borders = [
        (1,), (((1, 2), (0, 3)),), (2, "constant"), (1, "edge"), ((1, 2), "reflect"),
        (3, "symmetric"), (((2, 1), (0, 0)), "wrap"), (0,), (2, "linear_ramp"), (1, "maximum"),
    ]  # fmt: skip
    return [
        ("append", (x, 3), {}),
        ("append", (x, 2.5), {}),
        ("append", (line, [7, 8]), {}),
        ("append", (x, x), {"axis": 0}),
        ("append", ([1, 2], line), {}),
        ("vstack", ([line, line],), {}),
        ("vstack", ((x, x[:1]),), {}),
        ("vstack", ([x, [[1] * x.shape[1]]],), {}),
        ("hstack", ([x, x[:, :1]],), {}),
        ("hstack", ([line, 3, line[:2]],), {}),
        ("block", ([[x, x], [x, x]],), {}),
        ("block", ([line, 5],), {}),
        ("block", (x,), {}),
        *(("pad", (x, *more), {}) for more in borders),
        ("pad", (x, 2), {"constant_values": ((1, 0), (0, 1))}),
        ("pad", (line, (0, 4)), {"mode": "reflect", "reflect_type": "odd"}),
        ("delete", (x, 1), {}),
        ("delete", (x, [0, -1], 1), {}),
        ("delete", (x, slice(None, None, 2), 0), {}),
        ("delete", (line, []), {}),
        ("insert", (x, 1, 1), {}),
        ("insert", (x, [0, 2], 5, 1), {}),
        ("insert", (x, -1, line[: x.shape[1]], 0), {}),
        ("insert", (line, slice(0, 2), 1), {}),
        ("tile", (x, (2, 1)), {}),
        ("tile", (line, [2, 3]), {}),
        ("tile", (x, (0, 2)), {}),
        ("choose", (x > 0, [x, 1]), {}),
        ("choose", (x > 0, (x, x), "wrap"), {}),
        ("lexsort", ((line, line[::-1]),), {}),
        ("lexsort", (x,), {"axis": 0}),
        ("meshgrid", (line, x[:1].reshape(-1)), {}),
        ("meshgrid", (line, 3.0), {"indexing": "ij"}),
        ("meshgrid", (line, line), {"sparse": True}),
        ("meshgrid", (), {}),
        ("indices", ((2, 3),), {}),
        ("indices", ((),), {}),
    ]


def _table_calls(x: Any, line: Any) -> list[Call]:
    """Likewise, of the functions that `numpy_table.py` has with the same reason."""
    return [
        ("flatnonzero", (x,), {}),
        ("argwhere", (x,), {}),
        ("argwhere", (line,), {}),
        ("compress", (line > 0, line), {}),
        ("compress", (x[:, :1].reshape(-1) > 0, x), {"axis": 0}),
        ("compress", (x > 0, x), {}),
        ("compress", (line, line), {}),
        ("extract", (x > 0, x), {}),
        ("extract", (x, x), {}),
        ("extract", (line > 0, x), {}),
        ("diag", (line,), {}),
        ("diag", (line, -2), {}),
        ("diag", (x,), {}),
        ("diagflat", (x,), {}),
        ("diagflat", (line, 1), {}),
        ("digitize", (x, line), {}),
        ("digitize", (x, line[:1]), {"right": True}),
        ("full_like", (x, 1), {}),
        ("full_like", (line, 2.5), {}),
        ("full_like", (x, 300), {}),
        ("full_like", (x, float("nan")), {}),
        ("full_like", (x, 1j), {}),
        *(
            ("unique", (x + 0,), dict.fromkeys(asked, True))
            for asked in (
                ("return_index",),
                ("return_inverse",),
                ("return_counts",),
                ("return_index", "return_inverse", "return_counts"),
            )
        ),
    ]


def _bits(made: Any) -> Any:
    """What can be compared of a result: for each array its dtype, its shape and its bytes."""
    if isinstance(made, tuple | list):
        return [_bits(one) for one in made]
    values = np.asarray(made)
    return values.dtype, values.shape, values.tobytes()


def _outcome(function: Callable[..., Any], args: Any, options: Any) -> Any:
    """The bits that a call makes, or what it says."""
    try:
        return _bits(function(*args, **options))
    except Exception as error:  # compared
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("calls", [_calls, _table_calls])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "u1", "?", "c8"])
@pytest.mark.parametrize("shape", [(4, 5), (1, 1), (3, 0), (0, 2)], ids=str)
def test_small_calls_have_the_bits_and_words_of_those_that_are_not_small(
    calls: Callable[[Any, Any], list[Call]],
    dtype: str,
    shape: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a = np.random.default_rng(0).integers(-2, 3, shape).astype(dtype)
    if a.size > 3 and a.dtype.kind in "fc":
        a.flat[:4] = np.nan, -0.0, 0.0, np.inf
    changes: tuple[Callable[[Any], Any], ...] = (
        lambda x: x, lambda x: x.T, lambda x: x[::-1, ::-1],
    )  # fmt: skip
    for change in changes:
        outcomes: list[list[Any]] = []
        for limit in (65_536, 0):
            monkeypatch.setattr(config, "small_elements", limit)
            x = change(it.asarray(a))
            asked = calls(x, it.asarray(np.arange(-2, 4).astype(dtype)))
            outcomes.append([_outcome(getattr(it, n), args, more) for n, args, more in asked])
        theirs = calls(change(a), np.arange(-2, 4).astype(dtype))
        for call, ours, planned in zip(theirs, *outcomes, strict=True):
            assert ours == planned, call
            wanted = _outcome(getattr(np, call[0]), call[1], call[2])
            if not isinstance(wanted, tuple) or not isinstance(wanted[1], str):
                assert ours == wanted, call


def test_they_are_numpys_own_calls_and_have_arrays_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "small_elements", 65_536)
    x, line = it.asarray(np.arange(12.0).reshape(3, 4)), it.asarray(np.arange(4.0))
    mask = line > 1
    calls: list[Call] = [
        ("append", (x, 3), {}),
        ("vstack", ([line] * 90,), {}),
        ("hstack", ([line],), {}),
        ("pad", (x, 0), {}),
        ("pad", (x, 2, "reflect"), {}),
        ("delete", (line, []), {}),
        ("insert", (line, 0, 1), {}),
        ("tile", (line, (1,)), {}),
        ("block", (line,), {}),
        ("meshgrid", (line,), {}),
        ("indices", ((2, 3),), {}),
        ("compress", (mask, line), {}),
        ("full_like", (line, 2), {}),
        ("unique", (mask,), {"return_inverse": True}),
    ]
    for name, args, options in calls:
        before = it.stats()["ways"]["numpy"]
        made = getattr(it, name)(*args, **options)
        assert it.stats()["ways"]["numpy"] == before + 1, name
        made = made[0] if isinstance(made, tuple) else made
        made[:] = 9
    assert x.numpy().tolist() == np.arange(12.0).reshape(3, 4).tolist()
    assert line.tolist() == [0, 1, 2, 3]


def test_results_that_are_not_small_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "small_elements", 65_536)
    x = it.asarray(np.arange(60_000.0))
    few = x[:300]
    assert it.append(x, x).shape == (120_000,)
    before = it.stats()["ways"]["numpy"]
    assert it.pad(x, (0, 6_000)).shape == (66_000,)
    assert it.tile(few, (300, 1)).shape == (300, 300)
    assert it.meshgrid(few, few)[0].shape == (300, 300)
    assert it.insert(few.reshape(1, 300), [0] * 300, 1, 0).shape == (301, 300)
    assert it.diag(few).shape == (300, 300)
    assert it.stats()["ways"]["numpy"] == before
    assert it.indices((300, 300)).shape == (2, 300, 300)


def test_words_and_dtypes_of_ours_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "small_elements", 65_536)
    x = it.asarray(np.arange(4.0))
    short = it.append(x.astype(bfloat16), x.astype(bfloat16))
    assert short.dtype == bfloat16
    assert it.vstack([x, x], dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="negative values"):
        it.pad(x, -1)
    with pytest.raises(IndexError, match="out of bounds"):
        it.delete(x, 9)
