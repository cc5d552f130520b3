"""Products in one memory are cut into few large pieces; their values do not depend on it."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict

import infinitensor as it
from infinitensor.partition import Multiplied, is_in_one_piece
from infinitensor.partition.contraction_cuts import LARGE_SIDES

SHORTEST = LARGE_SIDES[-1][0]


def cuts_of(rows: int, k: int, columns: int, workers: int = 2, dtype: str = "float32") -> Any:
    with strict("cpu", 0, workers=workers) as session:
        x, y = it.zeros((rows, k), dtype), it.zeros((k, columns), dtype)
        return prepared(session, x @ y).plan.groups[-1].cuts


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize(
    ("rows", "k", "columns"),
    [
        (8192, 8192, 8192),
        (4096, 4096, 4096),
        (8000, 500, 4000),
        (600, 2000, 60_000),
        (9000, 700, 900),
    ],
)
def test_a_large_product_has_equal_pieces_whoever_works(
    rows: int, k: int, columns: int, workers: int
) -> None:
    cuts = cuts_of(rows, k, columns, workers)
    assert cuts == cuts_of(rows, k, columns, 1)
    high, wide, inner = (np.diff(cut) for cut in cuts)
    assert inner.tolist() == [k]
    assert len(high) * len(wide) > 1
    assert max(high) - min(high) <= len(high)
    assert max(wide) - min(wide) <= len(wide)
    assert max(high) <= 1024 or max(high) * max(wide) * k * 4 <= 1 << 33
    assert min(high) * min(wide) >= SHORTEST**2 // 2


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((600, 257, 257), "float32"), ((16, 2, 300, 300), "float32"), ((300, 257, 257), "float16")],
)
def test_stacks_of_matrices_are_cut_between_matrices(
    shape: tuple[int, ...], dtype: str, workers: int
) -> None:
    *stack, rows, k = shape
    with strict("cpu", 0, workers=workers) as session:
        x, y = it.zeros(shape, dtype), it.zeros((*stack, k, rows + 3), dtype)
        plan = prepared(session, x @ y).plan
    cuts = plan.groups[-1].cuts
    n_pieces = [len(cut) - 1 for cut in cuts]
    assert np.prod(n_pieces) == np.prod(n_pieces[: len(stack)]) > 1


@pytest.mark.parametrize("shape", [(64, 40, 300), (128, 105, 105), (3, 50, 32, 100)])
def test_a_stack_of_little_work_is_one_call_which_threads_share(shape: tuple[int, ...]) -> None:
    *stack, rows, k = shape
    with strict("cpu", 0, workers=8) as session:
        x, y = (
            it.zeros((prod(stack), rows, k), "float32"),
            it.zeros((prod(stack), k, rows), "float32"),
        )
        plan = prepared(session, x @ y).plan
    assert all(len(cut) == 2 for cut in plan.groups[-1].cuts)


@pytest.mark.parametrize("shape", [(64, 40, 300), (128, 105, 105), (3, 50, 32, 100)])
def test_stacks_whose_elements_are_used_a_few_times_are_not_cut_along_what_is_summed(
    shape: tuple[int, ...],
) -> None:
    *stack, rows, k = shape
    with strict("cpu", 0, workers=8) as session:
        x, y = it.zeros(shape, "int32"), it.zeros((*stack, k, rows), "int32")
        plan = prepared(session, x @ y).plan
    n_pieces = [len(cut) - 1 for cut in plan.groups[-1].cuts]
    assert np.prod(n_pieces) == np.prod(n_pieces[: len(stack)]) > 1


def test_pieces_that_would_take_seconds_are_cut_further_but_not_to_nothing() -> None:
    high, wide, inner = (np.diff(cut) for cut in cuts_of(3000, 500_000, 3000))
    assert inner.tolist() == [500_000]
    assert max(high) <= SHORTEST
    assert max(wide) <= SHORTEST
    assert min(high) > SHORTEST // 2


@pytest.mark.parametrize(
    "product",
    [
        lambda x, y: x @ y,
        lambda x, y: y.T @ x.T,
        lambda x, y: x[:1000, 3:] @ y[3:],
        lambda x, y: x[::-1] @ y,
        lambda x, y: x.astype("float64") @ y,
        lambda x, y: x @ y[:, ::2],
        lambda x, y: x.astype("float16") @ y.astype("float16"),
    ],
    ids=["straight", "transposed", "parts", "backwards", "two dtypes", "steps", "halves"],
)
def test_products_in_large_pieces_are_numpys_however_operands_are_stored(product: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((1100, 70), "f4"), rng.random((70, 1500), "f4")
    with strict("cpu", 0):
        made = product(it.asarray(a), it.asarray(b)).numpy()
    wanted = product(a, b)
    assert made.dtype == wanted.dtype
    np.testing.assert_allclose(made, wanted, rtol=1e-2 if wanted.dtype == np.float16 else 1e-4)


def test_products_that_need_copies_of_their_operands_have_small_ones() -> None:
    with strict("cpu", 0) as session:
        x, y = it.zeros((8192, 8192), "float32"), it.zeros((8192, 8192), "float64")
        (*_, copied) = prepared(session, x @ y).plan.groups
        (*_, plain) = prepared(session, y @ (y + 1)).plan.groups
    assert [max(np.diff(cut)) for cut in copied.cuts] == [512, 512, 8192]
    assert [max(np.diff(cut)) for cut in plain.cuts] == [1024, 1024, 8192]


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize(
    ("rows", "k", "columns"), [(8, 2047, 128), (2, 2000, 200), (3000, 16, 20), (1, 1000, 500)]
)
def test_a_product_of_little_work_is_one_call(
    rows: int, k: int, columns: int, workers: int
) -> None:
    assert all(len(cut) == 2 for cut in cuts_of(rows, k, columns, workers))


def drawn_operands(rng: Random) -> tuple[it.Tensor, it.Tensor]:
    """Two operands of a product, views of larger matrices in some layout, or of one."""
    dtype = rng.choice(("float32", "float64", "float16", "int64", "complex64"))
    rows, k, columns = (round(2 ** rng.uniform(0, 11)) for _ in range(3))
    x, y = it.zeros((rows, k), dtype), it.zeros((k, columns), dtype)
    match rng.randrange(6):
        case 0:
            x = it.zeros((k, rows + 1), dtype).T[1:]
        case 1:
            x, y = it.zeros((k, 3), dtype)[:, 1], y
        case 2:
            x, y = y.T, y
        case 3:
            y = it.zeros((2 * k, columns), dtype)[::2]
        case 4:
            n = rng.randint(1, 20)
            x, y = it.zeros((n, rows, k), dtype), it.zeros((n, k, columns), dtype)
    return x, y


@pytest.mark.parametrize("workers", [1, 2, 16])
def test_what_is_said_to_be_in_one_piece_is_one_task(workers: int) -> None:
    rng = Random(workers)
    n_in_one = 0
    with strict("cpu", 0, workers=workers) as session:
        for _ in range(120):
            x, y = drawn_operands(rng)
            made = x @ y
            node = made._version.node
            assert node is not None
            operands = [
                Multiplied(value, shape, value.dtype, access)
                for value, shape, access in zip(
                    node.inputs, node.shapes, node.accesses, strict=True
                )
            ]
            if is_in_one_piece(node.call, operands, session.engine.mesh):
                n_in_one += 1
                cuts = prepared(session, made).plan.groups[-1].cuts
                assert all(len(cut) <= 2 for cut in cuts), (x.shape, y.shape, x.dtype, cuts)
    assert 20 < n_in_one < 120


def test_products_are_not_said_to_be_in_one_piece_on_several_devices() -> None:
    with strict("cpu*2", 0) as session:
        x = it.zeros((20, 30))
        node = (x @ x.T)._version.node
        assert node is not None
        operands = [
            Multiplied(x, x.shape, x.dtype, None),
            Multiplied(x, x.shape[::-1], x.dtype, None),
        ]
        assert not is_in_one_piece(node.call, operands, session.engine.mesh)
