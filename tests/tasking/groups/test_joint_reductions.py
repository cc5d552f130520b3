"""Reductions of the same data over the same axes are one pass over it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu
from tests.ir.sessions import prepared, strict
from tests.on_gpu import same, some

import infinitensor as it
from infinitensor.native import compiler
from infinitensor.tasking.groups import joint_reductions
from infinitensor.tasking.kernels import work_left

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")
A = np.random.default_rng(5).random((64, 48))


def ops(*tensors: Any, session: it.Session) -> list[str]:
    return [family.op for family in prepared(session, *tensors).program.graph.families]


@pytest.mark.parametrize("tile_elements", [256, 1 << 20])
def test_extremes_and_sums_of_rows_are_one_family(tile_elements: int) -> None:
    with strict("cpu", tile_elements, compile="always") as session:
        x = it.asarray(A)
        made = x.max(axis=1), x.min(axis=1), x.sum(axis=1)
        assert "max and min and sum" in ops(*made, session=session)
        it.compute(*made)
        np.testing.assert_array_equal(made[0].numpy(), A.max(axis=1))
        np.testing.assert_array_equal(made[1].numpy(), A.min(axis=1))
        np.testing.assert_allclose(made[2].numpy(), A.sum(axis=1), rtol=1e-13)


def test_other_axes_or_other_data_are_other_passes() -> None:
    with strict("cpu", 256, compile="always") as session:
        x, y = it.asarray(A), it.asarray(A + 1)
        found = ops(x.max(axis=1), x.min(axis=0), y.min(axis=1), session=session)
    assert not any(" and " in op for op in found)


def test_without_a_compiler_each_goes_its_way() -> None:
    with strict("cpu", 256, compile="never") as session:
        x = it.asarray(A)
        found = ops(x.max(axis=1), x.min(axis=1), session=session)
    assert {"max", "min"} <= set(found)
    assert not any(" and " in op for op in found)


def test_a_sum_has_the_same_bits_alone_and_beside_others() -> None:
    with strict("cpu", 256, compile="always"):
        alone = it.asarray(A).sum(axis=1).numpy()
        x = it.asarray(A)
        top, total = x.max(axis=1), x.sum(axis=1)
        it.compute(top, total)
        np.testing.assert_array_equal(total.numpy(), alone)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", [it.float16, it.bfloat16, np.float32, np.float64], ids=str)
@pytest.mark.parametrize("axis", [0, 1, (0, 2), (1, 2)])
@pytest.mark.parametrize("name", ["sum", "mean", "std", "var", "max"])
def test_what_ends_in_another_dtype_or_step_has_the_bits_of_its_steps(
    name: str, axis: Any, dtype: Any
) -> None:
    given = np.random.default_rng(6).standard_normal((40, 30, 70)).astype(dtype)
    found = []
    for how in ("never", "always"):
        with strict("cpu", 1 << 14, compile=how) as session:
            made = getattr(it.asarray(given), name)(axis=axis)
            families = prepared(session, made).program.graph.families
            assert how == "never" or all(family.in_c is not None for family in families)
            found.append(made.numpy())
    assert found[0].dtype == found[1].dtype == dtype
    np.testing.assert_array_equal(found[0], found[1])
    wanted = getattr(given.astype("f8"), name)(axis=axis)
    rtol = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-5}.get(np.dtype(dtype).name, 1e-12)
    np.testing.assert_allclose(found[1].astype("f8"), wanted, rtol=rtol, atol=rtol)


# on a GPU, and in NumPy where there is none


def ops_on_a_gpu(program: Any, tile_elements: int = 1 << 20, plans_triton: bool = True) -> set[str]:
    """The ops of the tasks that a program over two matrices becomes."""
    with (
        fake_gpu(plans_triton=plans_triton),
        strict("cuda:0", tile_elements, compile="always") as session,
    ):
        made = program(it.asarray(A), it.asarray(A + 1))
        return {family.op for family in prepared(session, *made).program.graph.families}


@pytest.mark.usefixtures("kernels")
def test_mean_and_variance_are_one_task(always: None) -> None:
    counts = same(lambda xp, x: [x.mean(0), x.var(0), x.max(0)], some(5000, 50))
    assert counts["tasks"] == 1


@pytest.mark.parametrize("tile_elements", [96, 1 << 20])
def test_reductions_of_rows_are_one_family_in_tiles_on_a_gpu(tile_elements: int) -> None:
    found = ops_on_a_gpu(lambda x, y: [x.max(1), x.sum(1), x.mean(1)], tile_elements)
    assert "max and sum and mean" in found


def test_other_axes_other_data_and_other_views_are_other_passes() -> None:
    found = ops_on_a_gpu(lambda x, y: [x.max(1), x.min(0), y.sum(1), x[1:].prod(1)])
    assert {"max", "min", "sum", "prod"} <= found


def test_rows_that_are_cut_are_combined_by_themselves() -> None:
    def program(x: Any, y: Any) -> list[Any]:
        tall = x.reshape(-1, 2)
        return [tall.max(0), tall.sum(0)]

    found = ops_on_a_gpu(program, 96)
    assert {"max", "sum"} <= found
    assert not any(" and " in op for op in found)


def test_without_triton_each_goes_its_way_on_a_gpu() -> None:
    found = ops_on_a_gpu(lambda x, y: [x.max(1), x.min(1)], plans_triton=False)
    assert {"max", "min"} <= found


def test_what_is_written_later_is_read_before() -> None:
    def program(x: Any, y: Any) -> list[Any]:
        made = [x.max(1), x.min(1)]
        x[0] = 5.0
        return [*made, x]

    assert "max and min" not in ops_on_a_gpu(program)


def chains(xp: Any, a: Any, b: Any, axis: Any) -> dict[str, Any]:
    """Reductions of what steps make, of what these read, and one of the steps."""
    t = xp.abs(a) * 2
    u = xp.maximum(t, b) + t
    return {
        "total": xp.sum(t, axis=axis),
        "most": xp.max(u, axis=axis),
        "mean": xp.mean(t, axis=axis),
        "deviation": xp.std(u - 1, axis=axis),
        "least": xp.min(a, axis=axis),
        "steps": u,
    }


@pytest.mark.sampled(10)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4"])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("shape", [(700, 13), (40, 300), (30, 20, 40), (3, 1, 200), (5, 4)])
def test_reductions_after_steps_have_the_same_bits_together_and_apart(
    shape: tuple[int, ...], axis: Any, dtype: str
) -> None:
    rng = np.random.default_rng(3)
    a, b = ((rng.normal(size=n) * 9).astype(dtype) for n in (shape, shape[-1:]))
    wanted = chains(np, a.astype("f8"), b.astype("f8"), axis)
    for device, tile_elements in (("cpu", 1 << 10), ("cpu", 1 << 20), ("cpu*2", 1 << 10)):
        with strict(device, tile_elements, compile="always"):
            x, y = it.asarray(a), it.asarray(b)
            together = chains(it, x, y, axis)
            it.compute(*together.values())
            for name, made in together.items():
                alone = chains(it, x, y, axis)[name]
                np.testing.assert_array_equal(made.numpy(), alone.numpy(), err_msg=name)
                rough = {"f2": 2e-2, "f4": 1e-4}.get(dtype, 1e-10)
                fits = np.abs(wanted[name]) < 60_000  # in a half
                np.testing.assert_allclose(
                    made.numpy()[fits], wanted[name][fits], rtol=rough, atol=rough
                )


@pytest.mark.parametrize("tile_elements", [256, 1 << 20])
def test_what_only_reductions_read_is_not_stored(tile_elements: int) -> None:
    with strict("cpu", tile_elements, compile="always") as session:
        x = it.asarray(A)
        t = it.abs(x) * 3
        made = t.sum(axis=0), t.max(axis=0), x.min(axis=0)
        del t
        graph = prepared(session, *made).program.graph
        assert "sum and max and min" in [family.op for family in graph.families]
        assert A.shape not in {tuple(tiles.boxes[:, :, 1].max(axis=0)) for tiles in graph.tiles[1:]}
        it.compute(*made)
        np.testing.assert_array_equal(made[1].numpy(), (A * 3).max(axis=0))


def test_what_is_written_between_is_not_joined() -> None:
    """The second reads the rows as they are after the write."""
    with strict("cpu", 1 << 10, compile="always"):
        t = it.asarray(A) * 2
        before = t.sum(axis=0)
        t[3:9] = 0
        after = it.max(t, axis=0)
        it.compute(before, after)
        wanted = A * 2
        np.testing.assert_allclose(before.numpy(), wanted.sum(axis=0))
        wanted[3:9] = 0
        np.testing.assert_array_equal(after.numpy(), wanted.max(axis=0))


def test_reductions_of_other_views_or_axes_are_apart() -> None:
    with strict("cpu", 1 << 20, compile="always") as session:
        t = it.asarray(A[:48]) + 1
        found = ops(
            t.sum(axis=0), t.T.max(axis=0), t.min(axis=1), t[:, ::-1].max(axis=0), session=session
        )
    assert not any(" and " in op for op in found)


def test_reductions_after_steps_are_called_by_c() -> None:
    """And so is a step that is stored beside them."""
    with strict("cpu", 256, compile="always"):
        x = it.asarray(A)
        before = it.stats()
        for _ in range(4):
            before = it.stats()
            t = it.exp(x)
            it.compute(t.sum(), t.max(), t)
        n_tasks = it.stats()["tasks"] - before["tasks"]
        assert 0 < n_tasks == it.stats()["tasks_in_c"] - before["tasks_in_c"]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_one_mean_after_steps_is_ended_by_c_too(name: str, axis: int | None, dtype: str) -> None:
    values = A.astype(dtype)

    def program(x: Any, xp: Any = it) -> Any:
        return getattr(xp, name)(xp.tanh(x) * 2, axis=axis)

    with strict("cpu", 0, compile="always"):
        x = it.asarray(values)
        for _ in range(20):  # few tasks are bound once they are repeated
            it.stats(reset=True)
            made = program(x).numpy()
        counts = it.stats()
    with strict("cpu", 0, compile="never"):
        np.testing.assert_array_equal(made, program(it.asarray(values)).numpy())
    assert counts["tasks"] == counts["tasks_in_c"] > 0
    np.testing.assert_allclose(made, program(values, np), 1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1"])
@pytest.mark.parametrize("n_columns", [1, 2, 3, 4, 7, 15])
def test_columns_that_are_lined_up_together_have_the_bits_of_one_by_one(
    n_columns: int, dtype: str
) -> None:
    rng = np.random.default_rng(n_columns)
    values = (rng.standard_normal((2500, n_columns)) * 50).astype(dtype)
    for given in (values, values[::-1], values[::2], np.asfortranarray(values)):
        made = []
        for compiles in ("always", "never"):
            with strict("cpu", 0, compile=compiles):
                x = it.asarray(given)
                results = x.sum(axis=0), x.max(axis=0), it.var(x, axis=0), (x * 2).min(axis=0)
                made.append([result.numpy() for result in results])
        for ours, steps in zip(*made, strict=True):
            np.testing.assert_array_equal(ours, steps)
        np.testing.assert_array_equal(made[0][1], given.max(axis=0))


def test_nobody_waits_for_the_compiler_of_a_large_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for; until it has it, the loops that steps have make the same bits."""
    begun: list[str] = []
    monkeypatch.setattr(work_left, "is_built", lambda source: False)
    monkeypatch.setattr(work_left, "is_compiled", lambda source: False)
    monkeypatch.setattr(work_left, "begin", begun.append)
    monkeypatch.setattr(work_left, "_N_CORES", 2)
    monkeypatch.setattr(joint_reductions, "left_of", lambda in_c: work_left.WorkLeft(in_c.source))
    values = np.random.default_rng(5).standard_normal((3000, 2800), np.float32)
    found = []
    for how in ("auto", "never"):
        monkeypatch.setattr(it.config, "compile", how)
        with it.init("cpu"):
            found.append(it.sum(it.asarray(values), axis=0).numpy())
    assert begun
    np.testing.assert_array_equal(found[0], found[1])
