"""einsum of small tensors: the bits of plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.config import config
from infinitensor.dtypes import bfloat16

PRODUCTS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("bij,bkj->bik", (4, 13, 60), (4, 2, 60)),
    ("bij,bjk->bki", (4, 13, 16), (4, 16, 2)), ("ij,j->i", (3, 4), (4,)), ("i,i->", (7,), (7,)),
    ("bhid,bhjd->bhij", (2, 3, 5, 4), (2, 3, 6, 4)), ("ij,kj->ik", (5, 4), (6, 4)),
    ("ij,kj->ki", (5, 4), (6, 4)), ("ij,ij->i", (3, 4), (3, 4)), ("i,j->ij", (3,), (4,)),
    ("bij,bjk->bk", (3, 4, 5), (3, 5, 6)), ("ij,jk->ik", (3, 1), (4, 5)),
    ("bij,bjk->bk", (6, 9, 32), (6, 32, 41)), ("bi,bij->bj", (3, 40), (3, 40, 7)),
    ("bij,bj->bi", (3, 7, 40), (3, 40)), ("bj,bij->bi", (3, 40), (3, 7, 40)),
    ("bij,bj->ib", (3, 7, 40), (3, 40)), ("ij,jk->k", (30, 17), (17, 5)),
    ("ij,jk->i", (30, 17), (17, 5)), ("ij,jk->", (30, 17), (17, 5)), ("bi,bi->b", (3, 4), (3, 4)),
    ("bij,bkl->b", (3, 4, 5), (3, 2, 6)), ("bij,bjk->bk", (0, 4, 5), (0, 5, 6)),
    ("bij,bjk->bk", (3, 0, 5), (3, 5, 6)), ("bij,bjk->bk", (3, 4, 5), (3, 1, 6)),
    ("ij, jk -> ki", (30, 17), (17, 5)), ("bij,bij->b", (3, 4, 5), (3, 4, 5)),
    ("bij,bji->bi", (3, 4, 5), (3, 5, 4)), ("ij,ij->ji", (3, 4), (3, 4)),
    ("ij,ij->j", (0, 4), (0, 4)), ("ij,ij->i", (3, 1), (3, 4)), ("ij,ji->", (3, 4), (4, 3)),
    ("...ij,jk->...ik", (2, 3, 4), (4, 5)),
]  # fmt: skip
SUMS = [
    ("ij->i", (3, 40)), ("ij->j", (30, 4)), ("ij->", (30, 4)), ("ijk->ik", (3, 4, 5)),
    ("ij->ji", (3, 4)), ("ii->i", (4, 4)), ("ij->ij", (3, 4)),
]  # fmt: skip


def planned(subscripts: str, *arrays: Any) -> Any:
    config.small_elements = 0
    try:
        return it.einsum(subscripts, *map(it.asarray, arrays)).numpy()
    finally:
        config.small_elements = type(config)().small_elements


@pytest.mark.parametrize("kind", ["f4", "f8", "c8", "f2", bfloat16, "i8"])
@pytest.mark.parametrize(("subscripts", "left", "right"), PRODUCTS)
def test_products_have_the_bits_of_plans(
    subscripts: str, left: tuple[int, ...], right: tuple[int, ...], kind: Any
) -> None:
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal(shape) * 3).astype(kind) for shape in (left, right))
    made = it.einsum(subscripts, it.asarray(a), it.asarray(b)).numpy()
    wanted = planned(subscripts, a, b)
    assert made.dtype == wanted.dtype
    assert made.shape == wanted.shape
    assert made.tobytes() == wanted.tobytes()


SEVERAL = [
    ("ni,ij,nj->n", (30, 4), (4, 17), (30, 17)), ("ij,jk,kl->il", (5, 4), (4, 6), (6, 3)),
    ("ij,jk,ki->", (5, 4), (4, 6), (6, 5)), ("i,ij,j->", (5,), (5, 4), (4,)),
    ("bij,bjk,bk->bi", (3, 5, 4), (3, 4, 6), (3, 6)), ("ij,ij,ij->i", (5, 4), (5, 4), (5, 4)),
    ("ni,ij,nj->n", (0, 4), (4, 17), (0, 17)), ("ni,ij,nj->n", (30, 4), (4, 1), (30, 17)),
    ("ni,ij,nj", (30, 4), (4, 17), (30, 17)), ("ii,ij,jk->k", (4, 4), (4, 5), (5, 6)),
    ("ji,ij,kj->jk", (5, 4), (4, 5), (7, 5)), ("i,j,k->ijk", (3,), (4,), (5,)),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["f4", "f8", "c8", "f2", bfloat16, "i8"])
@pytest.mark.parametrize(("subscripts", "first", "second", "third"), SEVERAL)
def test_products_of_several_have_the_bits_of_plans(
    subscripts: str,
    first: tuple[int, ...],
    second: tuple[int, ...],
    third: tuple[int, ...],
    kind: Any,
) -> None:
    rng = np.random.default_rng(0)
    arrays = [(rng.standard_normal(shape) * 3).astype(kind) for shape in (first, second, third)]
    made = it.einsum(subscripts, *map(it.asarray, arrays)).numpy()
    wanted = planned(subscripts, *arrays)
    assert made.dtype == wanted.dtype
    assert made.shape == wanted.shape
    assert made.tobytes() == wanted.tobytes()


def test_a_bilinear_form_is_made_at_once() -> None:
    rng = np.random.default_rng(0)
    x, y, z = (it.asarray(rng.random(shape, np.float32)) for shape in ((9, 4), (4, 6), (9, 6)))
    it.einsum("ni,ij,nj->n", x, y, z)
    it.stats(reset=True)
    it.einsum("ni,ij,nj->n", x, y, z)
    ways = {name for name, n in it.stats()["ways"].items() if n}
    assert ways == {"numpy"}


@pytest.mark.parametrize("kind", ["f4", "f2", "i8", "?"])
@pytest.mark.parametrize(("subscripts", "shape"), SUMS)
def test_sums_have_the_bits_of_plans(subscripts: str, shape: tuple[int, ...], kind: str) -> None:
    a = (np.random.default_rng(1).standard_normal(shape) * 3).astype(kind)
    made, wanted = it.einsum(subscripts, it.asarray(a)).numpy(), planned(subscripts, a)
    assert made.dtype == wanted.dtype
    assert made.tobytes() == wanted.tobytes()


def test_a_product_of_matrices_is_made_at_once() -> None:
    x = it.asarray(np.ones((4, 5, 6), np.float32))
    it.einsum("bij,bkj->bik", x, x)
    it.stats(reset=True)
    assert float(it.einsum("bij,bkj->bik", x, x)[0, 0, 0]) == 6
    assert it.stats()["ways"]["numpy"] == 1


def test_what_does_not_fit_is_said_as_before() -> None:
    x = it.ones((3, 4))
    with pytest.raises(ValueError, match="einsum"):
        it.einsum("ij,jk->ik", x, x)
    with pytest.raises(ValueError, match="einsum"):
        it.einsum("ij->k", x)
