"""Singular values and eigenvalues in sessions: cut where they can be, NumPy's errors and tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import strict
from tests.ops.table_xp import bind, spec_of

import infinitensor as it
from infinitensor.ops import TABLE
from infinitensor.ops.linalg import spectral
from infinitensor.ops.table.numpy_kernels import scratch_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def in_tiles_of_64() -> Iterator[None]:
    """A session of its own, since programs that ran before are counted."""
    with strict("cpu*3", 64):
        yield


@pytest.mark.usefixtures("in_tiles_of_64")
def test_no_q_of_a_tall_matrix_is_made_where_only_r_is_asked_for() -> None:
    x = it.asarray(np.random.default_rng(0).standard_normal((200, 3)))
    q, r = it.linalg.qr(x)
    assert "_qr_reflected" in str(it.plan(q))
    assert "_qr_reflected" not in str(it.plan(r))
    assert "_qr_reflected" not in str(it.plan(it.linalg.svd(x, full_matrices=False).S))


@pytest.mark.usefixtures("in_tiles_of_64")
def test_reflectors_are_made_only_where_q_is_asked_for() -> None:
    a = np.random.default_rng(0).standard_normal((200, 3))
    x = it.asarray(a)
    r, values = it.linalg.qr(x)[1], it.linalg.svd(x, full_matrices=False).S
    assert "_qr_reflectors" not in str(it.plan(r, values))
    np.testing.assert_allclose(values.numpy(), np.linalg.svd(a, compute_uv=False))
    q, other = it.linalg.qr(x)
    assert "_qr_reflectors" in str(it.plan(other))  # for Q, which may come later
    np.testing.assert_allclose(other.numpy(), r.numpy())
    np.testing.assert_allclose((q @ other).numpy(), a, atol=1e-12)


@pytest.mark.usefixtures("in_tiles_of_64")
def test_a_tall_matrix_has_only_its_small_factor_in_one_piece() -> None:
    a = np.random.default_rng(0).standard_normal((100, 4))
    u, s, vh = it.linalg.svd(it.asarray(a), full_matrices=False)
    np.testing.assert_allclose((u * s @ vh).numpy(), a, atol=1e-12)
    np.testing.assert_allclose((u.T @ u).numpy(), np.eye(4), atol=1e-12)
    assert it.stats()["whole_ops"] == 1
    steps = it.plan(it.linalg.svd(it.asarray(a), full_matrices=False).S).steps
    assert [step["shape"] for step in steps if step["whole"]] == ["(4, 4)"]


@pytest.mark.usefixtures("in_tiles_of_64")
@pytest.mark.parametrize("shape", [(17, 13), (13, 17)])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_a_square_matrix_is_factored_in_panels_with_lapacks_signs(shape: Any, mode: Any) -> None:
    a = np.random.default_rng(1).standard_normal(shape)
    it.stats(reset=True)
    found = it.linalg.qr(it.asarray(a), mode)
    wanted: Any = np.linalg.qr(a, mode)
    for one, other in zip(
        [found] if mode == "r" else found, [wanted] if mode == "r" else wanted, strict=True
    ):
        np.testing.assert_allclose(one.numpy(), other, atol=1e-12)
    assert it.stats()["whole_ops"] == 0


@pytest.mark.usefixtures("in_tiles_of_64")
def test_a_stack_is_cut_and_nothing_of_it_is_whole() -> None:
    rng = np.random.default_rng(2)
    a = rng.standard_normal((20, 3, 3))
    x = it.asarray(a)
    it.stats(reset=True)
    np.testing.assert_allclose(it.linalg.svdvals(x).numpy(), np.linalg.svdvals(a))
    np.testing.assert_allclose(it.linalg.eigvalsh(x).numpy(), np.linalg.eigvalsh(a))
    np.testing.assert_allclose(it.linalg.inv(x).numpy(), np.linalg.inv(a))
    stats = it.stats()
    assert stats["whole_ops"] == 0
    assert stats["tasks"] >= 9


def test_results_have_numpys_names() -> None:
    x = it.asarray(np.diag([3.0, 1.0, 2.0]))
    for name in ("qr", "svd", "eig", "eigh", "slogdet"):
        ours, theirs = getattr(it.linalg, name)(x), getattr(np.linalg, name)(x.numpy())
        assert type(ours).__name__ == type(theirs).__name__
        assert ours._fields == theirs._fields


_SINGULAR = np.array([np.eye(3), np.zeros((3, 3)), np.eye(3)])
_NAN = np.full((3, 3), np.nan)


@pytest.mark.usefixtures("in_tiles_of_64")
@pytest.mark.parametrize(
    ("call", "a", "text"),
    [
        (lambda a: it.linalg.inv(a), _SINGULAR, "Singular matrix"),
        (lambda a: it.linalg.inv(a[1]), _SINGULAR, "Singular matrix"),
        (lambda a: it.linalg.solve(a, it.ones((3, 2))), _SINGULAR, "Singular matrix"),
        (lambda a: it.linalg.matrix_power(a, -2), _SINGULAR, "Singular matrix"),
        (lambda a: it.linalg.cholesky(a), _SINGULAR, "not positive definite"),
        (lambda a: it.linalg.svdvals(a), _NAN, "SVD did not converge"),
        (lambda a: it.linalg.eigvals(a + 0j), _NAN, "must not contain infs or NaNs"),
    ],
)
def test_values_without_a_result_raise_when_it_is_computed(
    call: Callable[[Any], Any], a: Any, text: str
) -> None:
    waiting = call(it.asarray(a))
    with pytest.raises(it.linalg.LinAlgError, match=text):
        waiting.numpy()


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "error", "text"),
    [
        ("svd", (np.ones(3),), {}, np.linalg.LinAlgError, "1-dimensional array given"),
        ("eigh", (np.ones((2, 2)), "X"), {}, ValueError, "UPLO argument must be 'L' or 'U'"),
        ("eig", (np.ones((2, 3)),), {}, np.linalg.LinAlgError, "must be square"),
        ("pinv", (np.ones((2, 2)), 1e-3), {"rtol": 1.0}, ValueError, "can't be both set"),
        ("matrix_rank", (np.ones((2, 2)), 1.0), {"rtol": 1.0}, ValueError, "can't be both set"),
        ("lstsq", (np.ones((2, 2)), np.ones(3)), {}, np.linalg.LinAlgError, "Incompatible"),
        ("lstsq", (np.ones(2), np.ones(3)), {}, np.linalg.LinAlgError, "two-dimensional"),
        ("cond", (np.ones((0, 2)),), {}, np.linalg.LinAlgError, "not defined on empty"),
        ("matrix_power", (np.eye(2), 1.5), {}, TypeError, "exponent must be an integer"),
        ("multi_dot", ([np.eye(2)],), {}, ValueError, "at least two arrays"),
        ("multi_dot", ([np.eye(2), np.eye(3), np.eye(3)],), {}, ValueError, "not aligned"),
        ("cross", (np.ones(2), np.ones(2)), {}, ValueError, "3-dimensional vectors"),
        ("outer", (np.ones((2, 2)), np.ones(2)), {}, ValueError, "one-dimensional"),
        ("tensorinv", (np.ones((2, 2)), 0), {}, ValueError, "Invalid ind argument"),
        ("tensorsolve", (np.ones((2, 3)), np.ones(2)), {}, np.linalg.LinAlgError, "requirement"),
        ("svd", (np.eye(2, dtype="f2"),), {}, TypeError, "float16 is unsupported"),
    ],
)
def test_bad_arguments_are_refused_as_numpy_refuses_them(
    name: str, args: Any, kwargs: Any, error: Any, text: str
) -> None:
    with pytest.raises(error, match=r"."):
        getattr(np.linalg, name)(*args, **kwargs)
    with pytest.raises(error, match=text):
        getattr(it.linalg, name)(*args, **kwargs)


@pytest.mark.parametrize("name", sorted(np.linalg.__all__))
def test_linalg_has_every_name_of_numpys(name: str) -> None:
    assert hasattr(it.linalg, name)


def test_a_product_may_be_written_into_an_array() -> None:
    x, out = np.arange(6.0).reshape(2, 3), it.zeros((2, 3))
    assert it.linalg.multi_dot([x, x.T, x], out=out) is out
    np.testing.assert_allclose(out.numpy(), np.linalg.multi_dot([x, x.T, x]))
    with pytest.raises(ValueError, match="is not that of the product"):
        it.linalg.multi_dot([x, x.T], out=out)


def test_views_of_linalg_write_through() -> None:
    x = it.zeros((3, 3))
    it.linalg.diagonal(x, offset=1)[:] = 2.0
    np.testing.assert_array_equal(x.numpy(), np.diag([2.0, 2.0], 1))


@pytest.mark.parametrize("may_be_real", [False, True])
@pytest.mark.parametrize("p", [[1.0, -3, 2], [1.0, 0, 1, 0], [1, 2 + 0j], [2.0, 0], [0.0, 3]])
def test_roots_are_real_where_all_of_them_are_in_every_version_of_numpy(
    p: list[Any], may_be_real: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eigenvalues are complex since NumPy 2.5."""
    monkeypatch.setattr(spectral, "MAY_BE_REAL", may_be_real)
    found, expected = it.roots(it.asarray(np.array(p))).numpy(), np.roots(p)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, atol=1e-12)


CLAIMS: dict[str, tuple[Any, ...]] = {
    "_svd_whole": (False, 11),
    "_svdvals_whole": (4,),
    "_eigh_whole": (True, 9),
}
"""What is given besides the matrix, and how many matrices of its size may be claimed."""
MEASURED = {"_svd_whole": 6.8, "_svdvals_whole": 1.2, "_eigh_whole": 3.5}
"""How many torch's calls were seen to take with one of 1200 x 1200, results among them."""


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_of_lapack_are_those_of_its_drivers(name: str) -> None:
    *params, most = CLAIMS[name]
    a = np.zeros((1200, 1200))
    call, _ = bind(TABLE[name], (a, *params), {})
    claimed = scratch_bytes(TABLE[name], call, [spec_of(a)], call.outs)
    assert MEASURED[name] * a.nbytes < claimed < most * a.nbytes
