"""Joining on a GPU: every axis, number and dtype of parts, and parts that are views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.compiled import compiles, needs_triton
from tests.on_gpu import some
from tests.triton_in_numpy import triton_in_numpy

import infinitensor as it
from infinitensor.ops.move import join_triton

if TYPE_CHECKING:
    from collections.abc import Iterator

torch = pytest.importorskip("torch")
DTYPES = ["bool", "uint8", "int16", "float16", "float32", "int64", "complex64", "complex128"]
CASES: list[tuple[list[tuple[int, ...]], int]] = [
    ([(3000,), (17,)], 0),
    ([(70, 34), (9, 34), (1, 34)], 0),
    ([(70, 34), (70, 1), (70, 6)], 1),
    ([(6, 40, 5), (6, 3, 5)], 1),
    ([(40, 30, 1)] * 3, 2),
    ([(600, 2)] * 8, 1),
]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(join_triton, "can_start", lambda *given: True)
    with triton_in_numpy(join_triton) as found:
        yield found


def parts_of(shapes: list[tuple[int, ...]], dtype: str) -> list[np.ndarray]:
    return [np.abs(some(*shape) * 50 + k).astype(dtype) for k, shape in enumerate(shapes)]


@pytest.mark.parametrize(("shapes", "axis"), CASES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_are_joined_as_numpy_does(
    launches: list[Any], shapes: list[tuple[int, ...]], axis: int, dtype: str
) -> None:
    parts = parts_of(shapes, dtype)
    wanted = np.concatenate(parts, axis)
    out = torch.empty_like(torch.from_numpy(wanted))
    assert join_triton.join([torch.from_numpy(x) for x in parts], axis, out)
    np.testing.assert_array_equal(out.numpy(), wanted)
    assert len(launches) == 1


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize(("axis", "step"), [(0, 1), (0, 7), (1, 1), (1, 3)])
def test_parts_may_be_views(launches: list[Any], axis: int, step: int, dtype: str) -> None:
    """As `roll` has them: words are as wide as everything is aligned to."""
    (x,) = parts_of([(61, 43)], dtype)
    given = torch.from_numpy(x)
    n = x.shape[axis]
    parts = [given.narrow(axis, n - step, step), given.narrow(axis, 0, n - step)]
    out = torch.empty_like(given)
    assert join_triton.join(parts, axis, out)
    np.testing.assert_array_equal(out.numpy(), np.roll(x, step, axis))
    assert len(launches) == 1


def test_what_is_no_rows_is_left_to_torch(launches: list[Any]) -> None:
    x = torch.from_numpy(some(50, 40).astype("float32"))
    out = torch.empty((100, 40), dtype=x.dtype)
    assert not join_triton.join([x, x.to(torch.float64)], 0, out), "it is cast"
    assert not join_triton.join([x, x.T.contiguous().T], 0, out), "it goes across"
    assert not join_triton.join([x[:25]] * 9, 0, out), "these are many"
    assert not join_triton.join([x], 0, x.clone()), "this is a copy"
    assert not join_triton.join([x[:4], x[:4]], 0, out[:8]), "these are few"
    assert not launches


@needs_triton
@pytest.mark.parametrize(("axis", "n_parts"), [(0, 2), (1, 2), (1, 5)])
def test_kernels_compile(axis: int, n_parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [torch.from_numpy(x) for x in parts_of([(70, 34)] * n_parts, "float32")]
    found: list[Any] = []
    monkeypatch.setattr(join_triton, "can_start", lambda *given: found.append(given))
    monkeypatch.setattr(join_triton, "can_write", lambda out: True)
    out = torch.cat(parts, axis)
    assert not join_triton.join(parts, axis, out)
    ((launch, tiles),) = found
    assert compiles(launch, [tile.dtype for tile in tiles])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "complex128"])
def test_joins_on_a_gpu(dtype: str) -> None:
    parts = parts_of([(700, 34), (90, 34)], dtype)
    with it.init("cuda:0"):
        x, y = it.compute(*map(it.asarray, parts))
        for _ in range(6):
            for axis, other in ((0, y), (1, x)):
                made = it.compute(it.concatenate([x, other], axis=axis))
                wanted = np.concatenate([x.numpy(), other.numpy()], axis)
                np.testing.assert_array_equal(made.numpy(), wanted)
            rolled = it.compute(it.roll(x, 3, axis=1))
            np.testing.assert_array_equal(rolled.numpy(), np.roll(parts[0], 3, 1))
