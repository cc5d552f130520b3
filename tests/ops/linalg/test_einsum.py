"""einsum: any order of operands and contractions gives the same sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


def _matrices(*shapes: tuple[int, ...]) -> list[Any]:
    return [RNG.integers(-5, 6, shape).astype("f8") for shape in shapes]


def test_a_chain_is_the_same_in_every_order_of_its_products() -> None:
    a, b, c = _matrices((4, 9), (9, 5), (5, 8))
    at_once = it.einsum("ij,jk,kl->il", *map(it.asarray, (a, b, c))).numpy()
    left = it.einsum("ik,kl->il", it.einsum("ij,jk", it.asarray(a), b), c).numpy()
    right = it.einsum("ij,jl->il", it.asarray(a), it.einsum("jk,kl", it.asarray(b), c)).numpy()
    for found in (at_once, left, right):
        np.testing.assert_array_equal(found, a @ b @ c)


@pytest.mark.parametrize("text", ["ij,jk->ki", "ij,jk", "i...,...->i...", "ij,kl->", "ij,jk->ikj"])
def test_two_operands_may_change_places_with_their_labels(text: str) -> None:
    x, y = _matrices((5, 9), (9, 4)) if "..." not in text else _matrices((5, 9), (9,))
    agree(lambda xp, a, b: xp.einsum(text, a, b), x, y)
    if "->" in text:
        (first, second), kept = text.split("->")[0].split(","), text.split("->")[1]
        swapped = it.einsum(f"{second},{first}->{kept}", it.asarray(y), it.asarray(x))
        np.testing.assert_array_equal(swapped.numpy(), np.einsum(text, x, y))


@pytest.mark.parametrize("text", ["iij->j", "iii", "ij->ji", "ij->", "jij->ji", "...ij->...", "ii"])
def test_one_operand_is_transposed_summed_or_read_on_its_diagonal(text: str) -> None:
    shape = {"iij->j": (6, 6, 4), "iii": (5, 5, 5), "jij->ji": (4, 3, 4), "...ij->...": (3, 4, 5)}
    agree(lambda xp, a: xp.einsum(text, a), _matrices(shape.get(text, (6, 6)))[0])


def test_subscripts_as_lists_are_those_of_the_text() -> None:
    x, y = _matrices((4, 6), (6, 5))
    agree(lambda xp, a, b: xp.einsum(a, [0, 1], b, [1, 2], [2, 0]), x, y)
    agree(lambda xp, a, b: xp.einsum(a, [..., 1], b, [1, 2]), x, y)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "f4", "c16"])
def test_sums_are_made_in_the_dtype_of_the_operands(dtype: str) -> None:
    x, y = ((RNG.random(shape) * 3).astype(dtype) for shape in [(5, 8), (8, 3)])
    agree(lambda xp, a, b: xp.einsum("ij,jk->ik", a, b), x, y, rtol=1e-6)
    agree(lambda xp, a, b: xp.einsum("ij,jk->ik", a, b, dtype="c16"), x, y, rtol=1e-6)


def test_sums_over_nothing_are_zero() -> None:
    agree(lambda xp, a, b: xp.einsum("ij,jk->ik", a, b), np.ones((3, 0)), np.ones((0, 4)))
    agree(lambda xp, a, b: xp.einsum("ij,j->", a, b), np.ones((0, 4)), np.ones(4))
    agree(lambda xp, a: xp.einsum(",->", a, a), 3.0)


def test_what_names_no_sum_is_refused_as_by_numpy() -> None:
    x = np.ones((2, 3))
    refuse(lambda xp, a: xp.einsum("ij,jk", a), x, match="names 2 operands")
    refuse(lambda xp, a: xp.einsum("ijk", a), x, match="axes")
    refuse(lambda xp, a: xp.einsum("ii", a), x, match="label 'i' has size 2")
    refuse(lambda xp, a: xp.einsum("ij,jk", a, a), x, match="label 'j' has size")
    refuse(lambda xp, a: xp.einsum("ij->ik", a), x, match="output label 'k'")
    refuse(lambda xp, a: xp.einsum("ij->ii", a), x, match="a label twice")
    refuse(lambda xp, a: xp.einsum("i!->i", a), x, match="no list of labels")
    refuse(lambda xp, a: xp.einsum("ij->", a, dtype="i4"), x, match="could not be cast")


SAME_LABELS = ("nj,nj->n", "nj,jn->j", "ij,ij->", "bij,bji->b", "bij,jib->ji", "...j,...j->...")


@pytest.mark.parametrize("text", SAME_LABELS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i2", "u1", "?", "c16"])
def test_operands_with_the_same_labels_are_summed_element_by_element(text: str, dtype: str) -> None:
    terms = text.split("->")[0].replace("...", "bi").split(",")
    for sizes in ((3, 4, 5, 6), (3, 4, 0, 6), (1, 1, 1, 1), (0, 4, 5, 0)):
        of = dict(zip("bijn", sizes, strict=True))
        given = [RNG.integers(0, 3, [of[c] for c in term]).astype(dtype) for term in terms]
        agree(lambda xp, a, b: xp.einsum(text, a, b), *given)
        agree(lambda xp, a, b: xp.einsum(text, a, b), given[0][:1], given[1])


@pytest.mark.parametrize("dtype", [np.dtype("f2"), np.dtype(it.bfloat16)], ids=str)
def test_products_of_halves_are_summed_as_floats_and_rounded_once(dtype: Any) -> None:
    x, y = (RNG.standard_normal((300, 7)).astype(dtype) for _ in "12")
    found = it.einsum("nj,nj->n", it.asarray(x), it.asarray(y)).numpy()
    assert found.dtype == dtype
    wanted = np.einsum("nj,nj->n", x.astype("f8"), y.astype("f8"))
    step = np.spacing(np.abs(wanted).astype("f4")) * 2.0 ** (24 - (11 if dtype == "f2" else 8))
    assert (np.abs(found.astype("f8") - wanted) <= 0.51 * step + 1e-5).all()


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ni,ij,nj->n", ((50, 3), (3, 4), (50, 4))),
        ("ij,jk,ik->", ((5, 6), (6, 7), (5, 7))),
        ("bij,bjk->bk", ((3, 5, 6), (3, 6, 4))),
        ("bij,jk,bk->b", ((3, 5, 6), (6, 7), (3, 7))),
        ("i,i,i->i", ((9,), (9,), (9,))),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i8"])
def test_bilinear_forms_and_labels_of_one_operand_are_numpys(
    text: str, shapes: Any, dtype: str
) -> None:
    given = [RNG.integers(-2, 3, shape).astype(dtype) for shape in shapes]
    agree(lambda xp, *xs: xp.einsum(text, *xs), *given)
    given = [np.asfortranarray(np.repeat(x, 2, 0)[::2]) for x in given]
    agree(lambda xp, *xs: xp.einsum(text, *xs), *given)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("bij,bkj->bik", [(3, 4, 5), (3, 6, 5)]),
        ("bij,bkj->kbi", [(3, 4, 5), (3, 6, 5)]),
        ("bij,bkj->bik", [(1, 4, 5), (3, 6, 5)]),
        ("bij,bkj->bik", [(3, 4, 1), (3, 6, 5)]),
        ("bij,bkj->ik", [(3, 4, 5), (3, 6, 5)]),
        ("bij,kj->ki", [(3, 4, 5), (6, 5)]),
        ("ij,jk->", [(4, 5), (5, 6)]),
        ("ij,k->ijk", [(4, 5), (6,)]),
        ("ii,ij->j", [(4, 4), (4, 5)]),
        ("ij,ji->i", [(4, 5), (5, 4)]),
        ("bij,bkj->bik", [(0, 4, 5), (0, 6, 5)]),
    ],
)
@pytest.mark.parametrize("dtypes", [("f8", "f8"), ("f4", "f8"), ("i4", "f4"), ("?", "i8")])
def test_products_of_two_are_numpys_in_whatever_way(
    text: str, shapes: list[tuple[int, ...]], dtypes: tuple[str, str]
) -> None:
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 3, s).astype(d) for s, d in zip(shapes, dtypes, strict=True)]
    expected = np.einsum(text, *given)
    found = it.einsum(text, *map(it.asarray, given))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)
