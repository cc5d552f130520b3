"""Writes that renew: computed where they belong, from shifted reads, without copies in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.on_gpu import same, some

import infinitensor as it
from infinitensor.analysis import analyse
from infinitensor.api.evaluate.bound_program import Bound

if TYPE_CHECKING:
    from collections.abc import Callable


def jacobi(np_: Any, x: Any, y: Any) -> None:
    for _ in range(3):
        x[1:-1, 1:-1] = 0.25 * (x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])


def two_arrays(np_: Any, x: Any, y: Any) -> None:
    for _ in range(2):
        y[1:-1, 1:-1] = (x[1:-1, 1:-1] + x[2:, 2:]) / 3 + y[1:-1, 1:-1]
        x[1:, :] = y[:-1, :] * 0.5 - x[1:, :]


def transposed(np_: Any, x: Any, y: Any) -> None:
    x[:, 1:] = x[::-1, :0:-1] * 2 + y.T[1:, :].T
    y[2:, :] = np_.sqrt(np_.abs(x[2:, :] + x[0])) - x[2:, :1]


def kept(np_: Any, x: Any, y: Any) -> None:
    before = x.copy() if np_ is np else x + 0
    t = x[:-1] * 2 + 1
    x[1:] = t
    y[1:] = before[1:] - t[::-1] * 3
    y[0] = 7
    y[:, 1:-1] = y[:, 2:] + x[:, :-2] + 1


def whole(np_: Any, x: Any, y: Any) -> None:
    x[...] = y * 2 + x
    y[:] = np_.where(x > 0, y, x + 1)


def inside_only(np_: Any, x: Any, y: Any) -> None:
    x[2:9, 3:11] = x[2:9, 3:11] * 2 + 1
    y[3:12] = y[3:12] + x[3:12] * 2


PROGRAMS = [jacobi, two_arrays, transposed, kept, whole, inside_only]


@pytest.fixture(params=["auto", "always", "never"])
def compile_(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it.config, "compile", request.param)
    monkeypatch.setattr(it.config, "small_elements", 0)


@pytest.mark.sampled(48)
@pytest.mark.usefixtures("compile_")
@pytest.mark.parametrize("devices", ["cpu", "cpu*3"])
@pytest.mark.parametrize("tile", [7, 40, 0])
@pytest.mark.parametrize("program", PROGRAMS)
def test_stencils_are_numpys(
    program: Callable[..., None], tile: int, devices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", tile)
    rng = np.random.default_rng(3)
    theirs = [rng.standard_normal((13, 17)) for _ in range(2)]
    with it.init(devices):
        ours = [it.asarray(a) for a in theirs]
        ours[1] = ours[1] + 0  # made here, and nobody else's
        for _ in range(2):
            program(np, *theirs)
            program(it, *ours)
            it.compute(*ours)
            for mine, wanted in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(mine.numpy(), wanted, rtol=1e-13, atol=1e-13)


def renewed(program: Callable[..., None], devices: str = "cpu") -> int:
    with it.init(devices) as session:
        x, y = (it.asarray(np.ones((13, 17))) for _ in range(2))
        program(it, x, y)
        session.drain()
        graph = Bound(session, [x._version, y._version]).detail().graph()
        return sum(node.renews for node in analyse(graph, renews=devices == "cpu").graph.nodes)


def test_a_write_of_what_is_computed_to_most_of_a_tensor_renews_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(it.config, "small_elements", 0)
    assert renewed(jacobi) == 3
    assert renewed(two_arrays) == 0  # a row is never touched: windows of tensors stay in them
    assert renewed(jacobi, "cpu*2") == 0

    def small_part(np_: Any, x: Any, y: Any) -> None:
        x[:3] = y[:3] * 2 + 1

    def read_again(np_: Any, x: Any, y: Any) -> None:
        t = y[1:] * 2 + 1
        x[1:] = t
        y[1:] = t

    assert renewed(small_part) == 0
    assert renewed(read_again) == 0


def test_a_stencil_brings_nothing_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it.config, "small_elements", 0)
    monkeypatch.setattr(it.config, "tile_elements", 64)
    with it.init("cpu"):
        x = it.asarray(np.ones((32, 16)))
        x.numpy()
        it.stats(reset=True)
        jacobi(it, x, None)
        it.compute(x)
        assert it.stats()["tasks"] == 3 * 8  # one a tile and step


def test_the_old_tensor_lives_on_where_it_is_somebody_elses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(it.config, "small_elements", 0)
    with it.init("cpu"):
        x = it.asarray(np.arange(12.0))
        x = x * 1
        view = x.numpy()
        x[1:] = x[:-1] * 2 + 1
        it.compute(x)
        np.testing.assert_array_equal(view, np.arange(12.0))
        np.testing.assert_array_equal(x.numpy()[1:], np.arange(11.0) * 2 + 1)


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_an_element_is_an_operand_of_a_stencil(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr("infinitensor.tasking.kernels.worth_compiling.COMPILED_ELEMENTS", 1)
    rng = np.random.default_rng(2)
    given, worth = rng.integers(0, 99, 300_000).astype(dtype), rng.integers(1, 9, 6).astype(dtype)

    def packed(xp: Any, best: Any, worth: Any, pair: Any) -> Any:
        for w, value in enumerate(worth, 1):
            best[w:] = xp.maximum(best[w:], best[:-w] + value)
            best[:-w] = best[w:] - worth[-1] + pair.imag[1] * pair[0, ...].real
        return best

    pair = np.array([2 + 3j, 5 + 7j]) if dtype == "float64" else np.array([2, 5])
    wanted = packed(np, given.copy(), worth, pair)
    for _ in range(2):
        found = packed(it, it.asarray(given), it.asarray(worth), it.asarray(pair))
        np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize("devices", ["cpu", "cpu*3"])
@pytest.mark.parametrize("shape", [(64, 5134), (7, 40_013), (300, 2, 301)])
def test_tiles_that_are_stored_between_each_others_rows(
    shape: tuple[int, ...], devices: str, dtype: str
) -> None:
    """Running sums have tiles of whole columns, all in one piece of memory."""
    a = np.random.default_rng(8).integers(0, 9, shape).astype(dtype)
    b = a.copy()
    with it.init(devices):
        for _ in range(2):
            theirs, ours = np.cumsum(b, axis=0, dtype=dtype), it.cumsum(a, axis=0, dtype=dtype)
            for x in (theirs, ours):
                for _ in range(4):
                    x[1:-1] = (x[:-2] + x[2:]) * x.dtype.type(2)
                x[:, 1:] = x[:, :-1] + x[:1, 1:]
            np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.usefixtures("kernels")
def test_a_stencil_is_one_task_a_step(always: None) -> None:
    def f(xp: Any, x: Any) -> list[Any]:
        x[1:-1] = (x[1:-1] + x[:-2] + x[2:]) * 0.25
        return [x]

    assert same(f, some(100, 30))["tasks"] == 1


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("shape", [(5000,), (40, 300), (7, 9, 260), (1, 1500)])
def test_a_stencil_and_what_stays_around_it(
    shape: tuple[int, ...], dtype: Any, always: None
) -> None:
    def f(xp: Any, x: Any, row: Any) -> list[Any]:
        inner = tuple(slice(1, -1) if n > 2 else slice(0, 1) for n in shape)
        before = (*inner[:-1], slice(0, -2))
        after = (*inner[:-1], slice(2, None))
        x[inner] = x[before] + x[after] * 2 - row[1:-1]
        x[..., 3:] = x[..., :-3] + 1
        x[..., :-5] = x[..., 5:] * 3
        return [x]

    given = (some(*shape) * 10).astype(dtype)
    counted = same(f, given, (some(shape[-1]) * 10).astype(dtype))
    assert counted["tasks"] == 3 or shape[0] == 1  # a row is no box of its table
