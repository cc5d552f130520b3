"""Named products: their algebra, their shapes, and what does not fit together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.against_numpy import agree, refuse

import infinitensor as it

pytestmark = pytest.mark.usefixtures("in_small_tiles")

RNG = np.random.default_rng(24)


def _whole(*shape: int) -> Any:
    return RNG.integers(-6, 7, shape).astype("f8")


def test_kronecker_products_mix_with_matrix_products() -> None:
    a, b, c, d = (it.asarray(_whole(*s)) for s in [(2, 3), (4, 2), (3, 2), (2, 3)])
    one, other = it.kron(a, b) @ it.kron(c, d), it.kron(a @ c, b @ d)
    np.testing.assert_array_equal(one.numpy(), other.numpy())
    agree(lambda xp, x, y: xp.kron(x, y), _whole(3), _whole(2, 1, 4))


def test_a_cross_product_is_at_right_angles_and_turns_its_sign() -> None:
    a, b = it.asarray(_whole(9, 3)), it.asarray(_whole(9, 3))
    across = it.cross(a, b)
    np.testing.assert_array_equal((across * a).sum(-1).numpy(), 0)
    np.testing.assert_array_equal((across + it.cross(b, a)).numpy(), 0)
    agree(lambda xp, x, y: xp.cross(x, y, 0, -1, 0), _whole(3, 5), _whole(5, 3))
    agree(lambda xp, x, y: xp.cross(x, y, axis=0), _whole(3, 5), _whole(3, 5))


TENSORDOTS: list[Any] = [
    (0, (2, 3, 2), (3, 2)),
    (1, (2, 3, 4), (4, 3, 2)),
    (2, (2, 4, 3), (4, 3, 5)),
    (((0, 1), (1, 0)), (4, 3, 4), (3, 4, 5)),
    (([2], [0]), (2, 3, 4), (4, 3, 2)),
    (((-1,), (-3,)), (2, 3, 4), (4, 3, 2)),
]


@pytest.mark.parametrize(("axes", "x", "y"), TENSORDOTS, ids=range(len(TENSORDOTS)))
def test_tensordot_over_any_axes_is_numpys(axes: Any, x: Any, y: Any) -> None:
    agree(lambda xp, a, b: xp.tensordot(a, b, axes), _whole(*x), _whole(*y))


def test_dot_inner_outer_and_vdot_of_any_ranks_are_numpys() -> None:
    for x, y in [((), (4,)), ((3, 4), (4,)), ((4,), (5, 4, 2)), ((2, 3, 4), (4,))]:
        agree(lambda xp, a, b: xp.dot(a, b), _whole(*x), _whole(*y))
    for x, y in [((2, 3, 4), (5, 4)), ((4,), (2, 4)), ((), ()), ((3, 0), (2, 0))]:
        agree(lambda xp, a, b: xp.inner(a, b), _whole(*x), _whole(*y))
    agree(lambda xp, a, b: xp.outer(a, b), _whole(2, 3), _whole(0))
    agree(lambda xp, a, b: xp.vdot(a, b), _whole(2, 3) + 1j, _whole(3, 2) - 2j)


def test_products_of_vectors_conjugate_the_first() -> None:
    a, b, m = _whole(3, 5) + 1j * _whole(3, 5), _whole(3, 5) * 1j, _whole(5, 4) + 2j
    agree(lambda xp, x, y: xp.vecdot(x, y), a, b)
    agree(lambda xp, x, y: xp.vecdot(x, y, axis=0), a, b)
    agree(lambda xp, x, y: xp.vecmat(x, y), a, m)
    agree(lambda xp, x, y: xp.matvec(x, y), m.T, a)
    length = it.vecdot(it.asarray(a), it.asarray(a)).numpy()
    np.testing.assert_array_equal(length.imag, 0)


@pytest.mark.parametrize("dtype", ["?", "i2", "u8", "f4"])
def test_products_have_the_dtype_of_numpys(dtype: str) -> None:
    x, y = (RNG.integers(0, 3, 6).astype(dtype) for _ in range(2))
    for word in ("dot", "inner", "outer", "vdot", "vecdot", "kron"):
        agree(lambda xp, a, b, word=word: getattr(xp, word)(a, b), x, y)


def test_what_does_not_fit_together_is_refused_as_by_numpy() -> None:
    x, y = np.ones((2, 3)), np.ones((4, 5))
    refuse(lambda xp, a, b: xp.dot(a, b), x, y, match=r"3 \(dim 1\) != 4 \(dim 0\)")
    refuse(lambda xp, a, b: xp.inner(a, b), x, y, match="not aligned")
    refuse(lambda xp, a, b: xp.vdot(a, b), x, y, match="do not pair up")
    refuse(lambda xp, a, b: xp.vecdot(a, b), x, y, match="differ in size")
    refuse(lambda xp, a, b: xp.matvec(a, b), x, y, match="do not fit together")
    refuse(lambda xp, a, b: xp.tensordot(a, b, 1), x, y, match="shape-mismatch")
    refuse(lambda xp, a, b: xp.tensordot(a, a, ([0, 0], [0, 0])), x, y, match="duplicate axes")
    refuse(lambda xp, a, b: xp.cross(a, b), x, y, match="incompatible dimensions")
