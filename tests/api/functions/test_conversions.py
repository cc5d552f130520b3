"""Conversions, questions and writes that are NumPy's own functions."""

from __future__ import annotations

from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest
from tests.api.outcomes import assert_alike

import infinitensor as it

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")


X = np.arange(12.0).reshape(3, 4)


def test_conversions_are_numpys() -> None:
    assert_alike("frombuffer", b"\1\0\2\0\3\0", np.int16, 2, 2)
    assert_alike("fromstring", "1, 2,3", int, sep=",")
    assert_alike("fromiter", [1, 2, 3], float)
    assert_alike("ascontiguousarray", X.T)
    assert_alike("ascontiguousarray", 3)
    assert_alike("asfortranarray", X)
    assert_alike("asanyarray", X, np.float32)
    assert_alike("asarray_chkfinite", np.array([1, np.nan]))
    assert_alike("asarray_chkfinite", X)
    assert_alike("require", X.T, float, ["C", "W"])
    x = it.asarray(X)
    assert it.ascontiguousarray(x) is x
    assert it.asfortranarray(x).flags.f_contiguous
    assert it.isfortran(x.T)


def test_questions_are_numpys() -> None:
    assert it.common_type(it.asarray(X), it.arange(3)) is np.float64
    assert it.iscomplexobj(it.asarray(X) * 1j)
    assert not it.isrealobj(1j)
    assert it.isscalar(3)
    assert not it.isscalar(it.asarray(3))
    assert it.iterable(it.asarray(X))
    assert it.issubdtype(it.float32, np.floating)
    assert it.min_scalar_type(3) == np.uint8
    assert it.min_scalar_type(it.asarray(X)) == np.float64
    assert it.mintypecode("fd") == "d"
    with catch_warnings():
        simplefilter("ignore")  # deprecated in NumPy 2.5
        assert it.typename("d") == "double precision"
    path, text = it.einsum_path("ij,jk->ik", it.asarray(X), it.asarray(X.T))
    assert path == ["einsum_path", (0, 1)]
    assert "Optimized" in text
    assert it.euler_gamma == np.euler_gamma


def test_shared_memory_is_that_of_views() -> None:
    x = it.asarray(X)
    pairs: list[Any] = [
        (np.s_[0], np.s_[:, 0]),
        (np.s_[0], np.s_[1]),
        (np.s_[:, ::2], np.s_[:, 1::2]),
    ]
    for one, other in pairs:
        assert it.shares_memory(x[one], x[other]) == np.shares_memory(X[one], X[other])
        assert it.may_share_memory(x[one], x[other]) == np.may_share_memory(X[one], X[other])
    z = x + 1j
    assert not it.shares_memory(z.real, z.imag)
    assert it.shares_memory(z.real, z)
    assert not it.shares_memory(x, x.copy())


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((X, 3), {}),
        ((X, np.arange(4)), {}),
        ((X, -X), {"where": X > 5}),
        ((X.astype(int), X), {}),
        ((X.astype(int), X + 0.5), {"casting": "unsafe"}),
        ((X.astype(np.int8), 3), {}),
        ((X.astype(np.int8), 2.5), {}),
        ((X, np.arange(3)), {}),
        ((X[0], X), {}),
    ],
)
def test_copyto_is_numpys(args: Any, options: dict[str, Any]) -> None:
    assert_alike("copyto", *args, **options)


def test_fill_diagonal_is_numpys() -> None:
    for x in (np.zeros((4, 4)), np.zeros((3, 5)), np.zeros((7, 2)), np.zeros((3, 3, 3))):
        for value in (5, [1, 2], np.arange(3)):
            assert_alike("fill_diagonal", x, value)
            assert_alike("fill_diagonal", x, value, wrap=True)
    assert_alike("fill_diagonal", np.zeros(3), 1)
    assert_alike("fill_diagonal", np.zeros((2, 3, 3)), 1)
