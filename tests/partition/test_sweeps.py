"""Groups over the same rows are cut alike; what they are cut by, and what they are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.native import compiler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler here")


@pytest.fixture(autouse=True)
def _always() -> Iterator[None]:
    before = it.config.compile, it.config.small_elements, it.config.tile_elements
    it.config.compile, it.config.small_elements = "always", 0
    yield
    it.config.compile, it.config.small_elements, it.config.tile_elements = before


def swept(*made: Any) -> list[bool]:
    """Which steps of a plan are in one pass."""
    return [step["swept"] for step in it.plan(*made).to_dict()["steps"]]


def layouts(*made: Any) -> set[str]:
    return {step["layout"] for step in it.plan(*made).to_dict()["steps"] if step["swept"]}


def table(n: int = 2000, columns: int = 8) -> Any:
    made = it.asarray(np.ones((n, columns)))
    it.compute(made)
    return made


def test_all_are_cut_as_the_first_table_is_stored() -> None:
    it.config.tile_elements = 4096
    with it.init("cpu*2"):
        near = it.exp(table() @ it.asarray(np.ones((8, 4))))
        plan = it.plan(near.max(axis=1), near.T @ table()).to_dict()
        tasks = {step["op"]: step["tasks"] for step in plan["steps"] if step["swept"]}
        assert tasks == {"matmul": 4, "exp+max": 4}  # 512 rows of 8, for both products


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        (lambda x, c: it.exp(x @ c), [True, True]),
        (lambda x, c: x @ c, [False]),
        (lambda x, c: (x * 2).sum(1), [False]),
        (lambda x, c: (x * 2)[1:] @ c, [False, False]),
        (lambda x, c: (x * 2).T[:, ::-1] @ x, [False, False]),
        (lambda x, c: (x @ c).max(0), [False, False]),
        (lambda x, c: (x @ c).mean(0), [True, True]),
        (lambda x, c: (x @ c) @ c.T @ c, [True, True, True]),
        (lambda x, c: (x * 2).astype(int) @ c.astype(int), [False, False, False]),
        (lambda x, c: (x[:200] * 2) @ c, [False, False]),
    ],
    ids=[
        "mapped", "alone", "reduced", "other rows", "backwards", "greatest", "mean", "chain",
        "integers", "few rows",
    ],
)  # fmt: skip
def test_what_is_in_one_pass(program: Callable[[Any, Any], Any], wanted: list[bool]) -> None:
    with it.init("cpu"):
        c = it.asarray(np.ones((8, 4)))
        it.compute(c)
        assert swept(program(table(), c)) == wanted


def test_many_products_are_the_librarys() -> None:
    with it.init("cpu"):
        x = table(2000, 32)
        for columns, is_swept in ((8, True), (9, False), (63, False), (200, False)):
            c = it.asarray(np.ones((32, columns)))
            it.compute(c)
            assert swept(it.exp(x @ c)) == [is_swept] * 2
        wide = table(2000, 100)
        assert not any(swept((wide * 2).sum(0), (wide * 2).T @ x))


def test_rows_that_are_cut_are_not_swept() -> None:
    with it.init("cpu"):
        for elements, is_swept in ((4, False), (64, True)):
            it.config.tile_elements = elements
            x, c = table(300), it.asarray(np.ones((8, 4)))
            it.compute(c)
            assert swept(it.exp(x @ c)) == [is_swept] * 2


def test_little_work_and_no_compiling_leave_groups_apart() -> None:
    it.config.compile = "auto"
    with it.init("cpu"):
        x, c = table(), it.asarray(np.ones((8, 4)))
        it.compute(c)
        assert swept(it.exp(x @ c)) == [False, False]
        large = it.zeros((1 << 19, 8)) + 1
        it.compute(large)
        assert swept(it.exp(large @ c)) == [True, True]
        it.config.compile = "never"
        assert swept(it.exp(large @ c)) == [False, False]


def test_long_chains_are_several_sweeps() -> None:
    x = np.random.default_rng(2).standard_normal((300, 4))
    c = np.eye(4) * 0.9
    with it.init("cpu"):
        t, y = it.asarray(x), x
        made, m = t, it.asarray(c)
        for _ in range(50):
            made, y = it.tanh(made @ m), np.tanh(y @ c)
        plan = it.plan(made)
        assert all(step["swept"] for step in plan.to_dict()["steps"])
        assert plan.n_tasks == 4  # 100 groups, 32 a task
        np.testing.assert_allclose(made.numpy(), y, 1e-10)
