"""Joining and splitting are inverse, along any axis and for any dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse
from tests.ops.table_xp import WHOLE, TableXp

import infinitensor as it
from infinitensor.ops.move.join import LONG_ROW_BYTES

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


X = RNG.normal(size=(4, 6, 5))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("pieces", [1, [2], [0, 1, 1, 9], [3, 1], [-2]])
def test_pieces_joined_again_are_the_array(axis: int, pieces: Any) -> None:
    parts = it.split(it.asarray(X), pieces, axis)
    wants = np.split(X, pieces, axis)
    assert [part.shape for part in parts] == [want.shape for want in wants]
    agree(lambda xp, a: xp.split(a, pieces, axis), X)
    if pieces != [3, 1]:
        np.testing.assert_array_equal(it.concatenate(parts, axis).numpy(), X)


@pytest.mark.parametrize("axis", [0, 1, -1, -3])
def test_unstacking_is_the_inverse_of_stacking(axis: int) -> None:
    back = it.stack(it.unstack(it.asarray(X), axis=axis), axis=axis)
    np.testing.assert_array_equal(back.numpy(), X)
    agree(lambda xp, a: xp.array_split(a, 4, axis), X)


def test_joining_is_associative_and_nothing_changes_nothing() -> None:
    a, b, c = (it.asarray(X[i, :, : i + 1]) for i in range(3))
    left = it.concatenate([it.concatenate([a, b], 1), c], 1)
    right = it.concatenate([a, it.concatenate([b, c], 1)], 1)
    np.testing.assert_array_equal(left.numpy(), right.numpy())
    none = it.zeros((6, 0))
    np.testing.assert_array_equal(it.concatenate([none, a, none], 1).numpy(), a.numpy())


def test_pieces_are_views() -> None:
    x = it.asarray(X.copy())
    it.split(x, 2, 1)[1][...] = 0.0
    assert (x.numpy()[:, 3:] == 0).all()
    assert (x.numpy()[:, :3] == X[:, :3]).all()


@pytest.mark.parametrize("one", ["?", "i1", "u8", "f2", "c8"])
@pytest.mark.parametrize("other", ["i8", "f4"])
def test_the_dtype_of_joined_arrays_is_numpys(one: str, other: str) -> None:
    x, y = np.arange(9).astype(one), np.arange(4).astype(other)
    for word in ("concatenate", "hstack"):
        agree(lambda xp, a, b, word=word: getattr(xp, word)([a, b]), x, y)
    agree(lambda xp, a, b: xp.concatenate([a, b], dtype="c16"), x, y)
    agree(lambda xp, a, b: xp.concatenate([a, b], dtype="f4", casting="unsafe"), x.real, y)


def test_stacks_by_name_take_fewer_axes_as_numpy_does() -> None:
    x, y = np.arange(5), np.arange(5) * 2.5
    for word in ("vstack", "hstack", "dstack", "column_stack"):
        agree(lambda xp, a, b, word=word: getattr(xp, word)([a, b]), x, y)
        agree(lambda xp, a, b, word=word: getattr(xp, word)([a, b]), 1, 2.5)


def test_what_does_not_join_or_split_is_refused_as_by_numpy() -> None:
    refuse(lambda xp, a: xp.concatenate([a, a[0]]), X, match="same number of dimensions")
    refuse(lambda xp, a: xp.concatenate([a, a[:, 1:]]), X, match="along dimension 1")
    refuse(lambda xp, a: xp.concatenate([a, a], 3), X, match="axis 3")
    refuse(lambda xp, a: xp.concatenate([a[0, 0, 0]]), X, match="zero-dimensional")
    refuse(lambda xp, a: xp.concatenate([]), X, match="at least one array")
    refuse(lambda xp, a: xp.concatenate([a], dtype="i4"), X, match="Cannot cast")
    refuse(lambda xp, a: xp.stack([a, a[1:]]), X, match="same shape")
    refuse(lambda xp, a: xp.split(a, 3)[0], X, match="equal division")
    refuse(lambda xp, a: xp.array_split(a, 0)[0], X, match="larger than 0")
    refuse(lambda xp, a: xp.hsplit(a[0, 0, 0], 1)[0], X, match="1 or more dimensions")
    refuse(lambda xp, a: xp.vsplit(a[0, 0], 1)[0], X, match="2 or more dimensions")


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["uint16", "float16", "float32", "complex128", "bool"])
def test_long_rows_are_joined_by_one_call_of_torch_on_a_gpu(
    axis: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All parts, however many; not short rows, casts and parts that are not contiguous."""
    joined: list[int] = []
    cat = torch.cat

    def noted(parts: list[Any], *how: Any, **options: Any) -> Any:
        joined.append(len(parts))
        return cat(parts, *how, **options)

    monkeypatch.setattr(torch, "cat", noted)
    shapes = [(5, 3, LONG_ROW_BYTES), (5, 3, LONG_ROW_BYTES)]
    parts = [RNG.integers(0, 2, shape).astype(dtype) for shape in shapes * 6]
    xp = TableXp(WHOLE, "cuda")

    def agrees(parts: list[np.ndarray], axis: int) -> bool:
        found = xp.call("_concatenate", parts, axis)
        np.testing.assert_array_equal(found, np.concatenate(parts, axis), strict=True)
        return bool(joined) and joined.pop() == len(parts)

    assert agrees(parts, axis)
    assert not agrees([part[..., :1] for part in parts], 2)
    assert not agrees([parts[0], parts[1].real.astype("i8")], axis)
