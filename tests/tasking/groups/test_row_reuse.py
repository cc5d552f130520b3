"""Rows that are reduced and used again are one family: NumPy's values, read once, the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor import native
from infinitensor.dtypes import bfloat16
from infinitensor.tasking.kernels.work_left import WorkLeft

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.usefixtures("always"),
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(native.compiler() is None, reason="no C compiler here"),
]


EPS = {np.dtype("f8"): 2e-16, np.dtype("f4"): 1.2e-7, np.dtype("f2"): 1e-3, bfloat16: 8e-3}


def softmax(xp: Any, x: Any) -> Any:
    raised = xp.exp(x - xp.max(x, axis=-1)[..., None])
    return raised / raised.sum(axis=-1)[..., None]


def log_softmax(xp: Any, x: Any) -> Any:
    below = x - x.max(axis=-1, keepdims=True)
    return below - xp.log(xp.exp(below).sum(axis=-1, keepdims=True))


def layer_norm(xp: Any, x: Any) -> Any:
    mean, variance = x.mean(axis=-1), x.var(axis=-1)
    weight = xp.asarray(np.arange(x.shape[-1]) * 0.5)
    return (x - mean[..., None]) / xp.sqrt(variance + 1e-5)[..., None] * weight + 1


def centred(xp: Any, x: Any) -> Any:
    return x - x.mean(axis=-1, keepdims=True)


def standard(xp: Any, x: Any) -> Any:
    return (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True, ddof=1)


def by_length(xp: Any, x: Any) -> Any:
    return x / xp.sqrt((x * x).sum(axis=-1, keepdims=True))


def scaled_twice(xp: Any, x: Any) -> Any:
    y = x - x.min(axis=-1, keepdims=True)
    y = y / (y.max(axis=-1, keepdims=True) + 1)
    return y - xp.count_nonzero(y > 0.5, axis=-1, keepdims=True)


PROGRAMS: list[Callable[[Any, Any], Any]] = [
    softmax, log_softmax, layer_norm, centred, standard, by_length, scaled_twice,
]  # fmt: skip


@pytest.mark.sampled(12)
@pytest.mark.parametrize("shape", [(50, 40), (7, 5, 33), (40, 40), (3, 3000)], ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_rows_are_numpys_in_one_task_a_piece(
    program: Callable[[Any, Any], Any], shape: tuple[int, ...]
) -> None:
    for kind in (np.float32, np.float64):
        x = (np.random.default_rng(3).standard_normal(shape) * 5).astype(kind)
        with it.init("cpu"):
            t = it.asarray(x)
            it.stats(reset=True)
            got = program(it, t)
            it.compute(got)
            found = it.stats()
            wanted = program(np, x)
            assert got.dtype == wanted.dtype
            near = 100 * float(np.finfo(kind).eps)
            np.testing.assert_allclose(got.numpy(), wanted, near, 10 * near)
            assert found["tasks"] == 1
            assert found["eager_fallbacks"] == 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_bits_at_every_tile_size(
    program: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(4).standard_normal((1500, 700)).astype(np.float32)
    found = set()
    for elements, devices in ((1 << 17, "cpu"), (1 << 18, "cpu*3"), (0, "cpu")):
        monkeypatch.setattr(it.config, "tile_elements", elements)
        with it.init(devices):
            found.add(program(it, it.asarray(x)).numpy().tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("elements", [7, 100, 333])
def test_rows_that_are_cut_are_done_group_by_group(
    elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", elements)
    x = np.random.default_rng(5).standard_normal((12, 40))
    with it.init("cpu*3"):
        for program in PROGRAMS:
            np.testing.assert_allclose(program(it, it.asarray(x)).numpy(), program(np, x), 1e-11)


def test_what_is_kept_of_the_way_is_stored() -> None:
    x = np.random.default_rng(6).standard_normal((60, 50))
    with it.init("cpu"):
        t = it.asarray(x)
        top = t.max(axis=1)
        raised = it.exp(t - top[:, None])
        total = raised.sum(axis=1, keepdims=True)
        root = it.sqrt(total)
        made = [top, raised, total, root, raised / root, it.sort(top)]
        it.compute(*made)
        wanted_top = x.max(axis=1)
        wanted_raised = np.exp(x - wanted_top[:, None])
        wanted_total = wanted_raised.sum(axis=1, keepdims=True)
        wanted_root = np.sqrt(wanted_total)
        wanted = [wanted_top, wanted_raised, wanted_total, wanted_root]
        wanted += [wanted_raised / wanted_root, np.sort(wanted_top)]
        for mine, value in zip(made, wanted, strict=True):
            np.testing.assert_allclose(mine.numpy(), value, rtol=1e-13)


def test_values_that_several_reductions_read_are_made_once_and_not_stored() -> None:
    x = np.random.default_rng(12).standard_normal((40, 30))
    with it.init("cpu"):
        t = it.asarray(x)
        it.stats(reset=True)
        far = t * 2 - 1
        made = [far.argmin(axis=1), far.min(axis=1), far.sum(axis=1)]
        del far
        it.compute(*made)
        assert it.stats()["tasks"] == 1
        far_ = x * 2 - 1
        np.testing.assert_array_equal(made[0].numpy(), far_.argmin(axis=1))
        np.testing.assert_array_equal(made[1].numpy(), far_.min(axis=1))
        np.testing.assert_allclose(made[2].numpy(), far_.sum(axis=1), rtol=1e-13)


def test_a_reader_in_between_gets_what_it_reads_first() -> None:
    x = np.random.default_rng(7).standard_normal((30, 30))
    with it.init("cpu"):
        t = it.asarray(x)
        mean = t.mean(axis=1)
        ranks = it.argsort(mean)  # not over rows, and what comes next reads it
        got = (t - mean[:, None]) * ranks[:, None] + t.T
        mean_ = x.mean(axis=1)
        wanted = (x - mean_[:, None]) * np.argsort(mean_)[:, None] + x.T
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12)


def test_a_value_a_row_that_is_along_columns_is_none_of_it() -> None:
    x = np.random.default_rng(8).standard_normal((32, 32))
    with it.init("cpu"):
        t = it.asarray(x)
        np.testing.assert_allclose((t - t.mean(axis=1)).numpy(), x - x.mean(axis=1), rtol=1e-13)
        got = t - t.mean(axis=1)[::-1, None]
        np.testing.assert_allclose(got.numpy(), x - x.mean(axis=1)[::-1, None], rtol=1e-13)
        got = (t * 2)[:, ::-1] - (t * 2).max(axis=1, keepdims=True)
        wanted = (x * 2)[:, ::-1] - (x * 2).max(axis=1, keepdims=True)
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_rows_that_are_written_to_later_are_read_before() -> None:
    x = np.random.default_rng(9).standard_normal((40, 30))
    with it.init("cpu"):
        t, a = it.asarray(x), x.copy()
        made = t - t.mean(axis=1, keepdims=True)
        t[:, 1:] = 0
        wanted = a - a.mean(axis=1, keepdims=True)
        a[:, 1:] = 0
        np.testing.assert_allclose(made.numpy(), wanted, 1e-12, 1e-14)
        np.testing.assert_array_equal(t.numpy(), a)


def test_nan_and_infinity_are_where_numpy_has_them() -> None:
    x = np.random.default_rng(10).standard_normal((20, 25))
    x[3, 4], x[5, 6], x[7, 8] = np.nan, np.inf, -np.inf
    with it.init("cpu"), np.errstate(invalid="ignore"):
        for program in PROGRAMS:
            wanted = program(np, x)
            np.testing.assert_allclose(program(it, it.asarray(x)).numpy(), wanted, 1e-11, 1e-12)


def test_a_compiler_that_fails_leaves_groups_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(source: str) -> Any:
        raise native.CompilerError("cc failed")

    x = np.random.default_rng(11).standard_normal((40, 30))
    with it.init("cpu"), monkeypatch.context() as patched:
        patched.setattr("infinitensor.tasking.kernels.c_kernel.library", fails)
        for program in (softmax, standard):
            with pytest.warns(RuntimeWarning, match="cc failed; the group runs step by step"):
                got = program(it, it.asarray(x)).numpy()
            np.testing.assert_allclose(got, program(np, x), rtol=1e-12)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", [(300, 40), (7, 5, 130), (30, 2100)], ids=str)
@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8"), np.dtype("f2"), bfloat16])
def test_rows_have_the_same_bits_before_they_are_compiled_and_after(
    dtype: Any, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps go on while compilers work: the second run has what the first had."""
    it.config.compile, it.config.workers = "auto", 1  # of more each has a part of the rows
    x = np.random.default_rng(13).standard_normal(shape).astype(dtype)
    for program in (softmax, log_softmax, centred, standard, by_length):
        with it.init("cpu"), monkeypatch.context() as patched:
            t = it.asarray(x)
            patched.setattr(WorkLeft, "is_done", lambda left: False)
            by_steps = program(it, t).numpy()
            patched.setattr(WorkLeft, "is_done", lambda left: True)
            it.stats(reset=True)
            generated = program(it, t).numpy()
            assert it.stats()["tasks"] == 1
        assert by_steps.tobytes() == generated.tobytes()
        wanted = program(np, x.astype("f8"))
        near = 8 * EPS[dtype]
        np.testing.assert_allclose(generated.astype("f8"), wanted, near, 4 * near)
