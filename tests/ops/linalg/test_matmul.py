"""Products: NumPy's rank rules, dtypes and errors; contracted labels cut and added."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import prepared, strict
from tests.ops.table_xp import WHOLE, TableXp

import infinitensor as it
from infinitensor import native
from infinitensor.dtypes import ALL
from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE
from infinitensor.ops.linalg.einsum import contraction_path, parse_subscripts
from infinitensor.ops.linalg.matmul import product, torch_view

STEPS = (1, 2, 7, WHOLE)
DEVICES = ("cpu", "cuda")
NAMES = ("matmul", "_einsum", "einsum", "tensordot", "dot", "inner", "outer", "vdot", "vecdot")


STACKS = [
    ((3, 5, 6), (3, 6, 7)),
    ((40, 60, 50), (40, 50, 60)),
    ((2, 300, 200), (2, 200, 300)),
    ((5, 1, 7), (5, 7, 9)),
    ((5, 7, 9), (1, 9, 1)),
    ((7, 9), (4, 9, 3)),
    ((4, 1, 9), (9, 1)),
    ((2, 3, 50, 8), (3, 8, 50)),
    ((2, 1, 1, 4, 5), (1, 3, 2, 5, 4)),
    ((0, 4, 5), (0, 5, 6)),
    ((3, 0, 5), (3, 5, 6)),
    ((3, 4, 0), (3, 0, 6)),
]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "f2", "i4"])
@pytest.mark.parametrize(("left", "right"), STACKS)
def test_stacks_of_matrices_are_multiplied_one_by_one(
    dtype: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(1)
    x, y = ((10 * rng.standard_normal(shape)).astype(dtype) for shape in (left, right))
    tolerance = {"f4": 1e-4, "c8": 1e-4, "f2": 3e-2}.get(dtype, 1e-10)
    for a in (x, x[::-1], x.swapaxes(-1, -2).copy().swapaxes(-1, -2)):
        want = a @ y
        out = np.full(want.shape, 7, want.dtype)
        product(np, a, y, out)
        np.testing.assert_allclose(out, want, rtol=tolerance, atol=30 * tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_every_case_is_numpys(name: str, device: str) -> None:
    op = TABLE[name]
    assert op.cases is not None
    for args, kwargs in op.cases(np.random.default_rng(0)):
        want = np.asarray((op.oracle or getattr(np, name))(*args, **kwargs))
        for step in STEPS:
            got = np.asarray(TableXp(step, device).call(name, *args, **kwargs))
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            tolerance = 1e-5 if want.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(got, want, tolerance, tolerance, err_msg=str(args[0]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_matmul_of_every_dtype(dtype: np.dtype[Any], device: str) -> None:
    rng = np.random.default_rng(0)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        x, y = (rng.integers(info.min, info.max, s, dtype, True) for s in ((5, 9), (9, 4)))
    else:
        x, y = (rng.normal(size=s).astype(dtype) for s in ((5, 9), (9, 4)))
    want = x @ y
    for step in (4, WHOLE):
        got = TableXp(step, device).call("matmul", x, y)
        assert got.dtype == dtype
        if dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
        else:
            tolerance = {2: 2e-2, 4: 1e-5}.get(dtype.itemsize, 1e-6)
            np.testing.assert_allclose(got, want, tolerance, tolerance)


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (4, 2)), ((3,), (2, 2)), ((), (3,)), ((2, 3, 4), (3, 4, 5)), ((2, 2), ())]
)
def test_shapes_that_do_not_fit_raise_and_are_named(a: Any, b: Any) -> None:
    f8 = np.dtype(float)
    with pytest.raises(
        ValueError, match="matmul: .*" + str(a).replace("(", r"\(").replace(")", r"\)")
    ):
        TABLE["matmul"].rule(Spec(a, f8), Spec(b, f8))


@pytest.mark.parametrize(
    "subscripts",
    ["ij,jk->ik", "ij,jk", "ij,ij", "ij,kl->", "i...,i...->...", "...,...", "ij,j->", "ij,ji->ij"],
)
@pytest.mark.parametrize("step", [1, 2, WHOLE])
def test_einsum_reads_subscripts_as_numpy_does(subscripts: str, step: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 4))
    y = rng.normal(size=4) if subscripts == "ij,j->" else rng.normal(size=(4, 4))
    got = TableXp(step).call("einsum", subscripts, x, y)
    np.testing.assert_allclose(got, np.einsum(subscripts, x, y), 1e-12, 1e-12)


def test_einsum_stretches_axes_of_size_1() -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.arange(2.0).reshape(2, 1)
    for text in ("ij,ij->ij", "ij,ij->i", "ij,ij->"):
        np.testing.assert_allclose(TableXp(1).call("einsum", text, x, y), np.einsum(text, x, y))


@pytest.mark.parametrize("subscripts", ["jr,kr->jkr", "jr,kr->rkj", "ij,ij->ji", "i,j->ij"])
@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.bool_, np.int16, np.complex64])
def test_einsum_that_sums_nothing_is_a_product_of_elements(subscripts: str, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    terms = subscripts.split("->")[0].split(",")
    given = [(rng.standard_normal((5,) * len(term)) * 9).astype(dtype) for term in terms]
    made = it.einsum(subscripts, *map(it.asarray, given))
    wanted = np.einsum(subscripts, *given)
    assert made.dtype == wanted.dtype
    np.testing.assert_array_equal(made.numpy(), wanted)


def test_einsum_takes_label_lists_and_repeated_labels() -> None:
    x = np.arange(27.0).reshape(3, 3, 3)
    np.testing.assert_allclose(
        TableXp(2).call("einsum", x[0], [0, 1], x[1], [1, 2], [0, 2]), x[0] @ x[1]
    )
    for text in ("iii->i", "iij->j", "iij", "iji->ij"):
        np.testing.assert_allclose(TableXp(2).call("einsum", text, x), np.einsum(text, x))


def test_einsum_of_four_operands_works_without_opt_einsum(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    args = [rng.normal(size=s) for s in ((3, 4), (4, 5), (5, 6), (6, 2))]
    text = "ab,bc,cd,de->ae"
    for missing in (False, True):
        if missing:
            monkeypatch.setitem(sys.modules, "opt_einsum", None)
        before = native.missed[0]
        path = contraction_path(
            ["ab", "bc", "cd", "de"], "ae", dict(zip("abcde", (3, 4, 5, 6, 2), strict=True))
        )
        assert sum(len(step) - 1 for step in path) == 3
        assert native.missed[0] - before == missing
        np.testing.assert_allclose(TableXp(2).call("einsum", text, *args), np.einsum(text, *args))


@pytest.mark.parametrize(
    ("subscripts", "ndims", "match"),
    [
        ("ij,jk", (2,), "names 2 operands"),
        ("i!->i", (1,), "no list of labels"),
        ("ij->k", (2,), "in no operand"),
        ("ij->ii", (2,), "twice"),
        ("...ijk", (2,), "more axes"),
    ],
)
def test_bad_subscripts_are_explained(subscripts: str, ndims: tuple[int, ...], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        parse_subscripts(subscripts, ndims)


def test_bad_sizes_name_the_label() -> None:
    with pytest.raises(ValueError, match="label 'j' has size 3 in one operand and 4"):
        TableXp().call("einsum", "ij,jk", np.ones((2, 3)), np.ones((4, 2)))
    with pytest.raises(ValueError, match="name 2 axes"):
        TableXp().call("einsum", "ij->", np.ones(3))


def test_dot_says_which_axes_are_not_aligned() -> None:
    with pytest.raises(
        ValueError, match=r"shapes \(2, 3\) and \(4,\) not aligned: 3 \(dim 1\) != 4"
    ):
        TableXp().call("dot", np.ones((2, 3)), np.ones(4))


def test_read_only_and_reversed_tiles_need_no_warning() -> None:
    x = np.arange(12.0).reshape(3, 4)[::-1, ::-1]
    y = np.arange(8.0).reshape(4, 2)
    y.flags.writeable = False
    np.testing.assert_allclose(TableXp(2).call("matmul", x, y), x @ y)
    assert torch_view(y).data_ptr() == y.ctypes.data


@pytest.mark.parametrize("subscripts", ["ij,jk->ki", "ij,kl->ljik", "ij,jk,kl->li", "ij,ij->ji"])
def test_what_einsum_makes_of_several_operands_is_no_view(subscripts: str) -> None:
    operands = [np.arange(9.0).reshape(3, 3) + k for k in range(subscripts.count(",") + 1)]
    found = it.einsum(subscripts, *map(it.asarray, operands))
    flat = found.reshape(-1)
    found[...] = 7.0
    assert found.base is None
    assert set(flat.tolist()) == {7.0}


@pytest.mark.parametrize("subscripts", [
    "ij,jk->ik", "ij,jk->ki", "ji,jk->ik", "ij,kj->ik", "ji,kj->ki", "ij,j->i", "j,ij->i",
    "ij,i->j", "i,ij->j", "i,i->", "ij,jk,kl->il",
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int16", "bool"])
def test_einsum_of_matrices_and_vectors_is_their_product(subscripts: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    sizes = dict(zip("ijkl", (30, 40, 50, 20), strict=True))
    terms = subscripts.split("->")[0].split(",")
    given = [(rng.random([sizes[c] for c in term]) * 4).astype(dtype) for term in terms]
    wanted = np.einsum(subscripts, *given)
    with strict("cpu", 0) as session:
        made = it.einsum(subscripts, *map(it.asarray, given))
        nodes = prepared(session, made).analysed.graph.nodes
        assert {node.op.name for node in nodes} == {"matmul"}
        assert made.dtype == wanted.dtype
        np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-5)


def test_einsum_of_more_axes_or_a_stretched_one_is_no_product_of_matrices() -> None:
    x, y = np.arange(24.0).reshape(2, 3, 4), np.arange(8.0).reshape(4, 2)
    for subscripts, left in (("bij,jk->bik", x), ("ij,ij->i", x[:, 0]), ("ij,jk->ik", x[0, :, :1])):
        right = y.T if subscripts == "ij,ij->i" else y
        np.testing.assert_allclose(
            it.einsum(subscripts, it.asarray(left), it.asarray(right)).numpy(),
            np.einsum(subscripts, left, right),
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(300, 2000), (2000, 300), (150, 130), (700, 400)])
def test_a_matrix_times_its_transpose_is_symmetric_to_the_bit(
    shape: tuple[int, int], dtype: Any
) -> None:
    rng = np.random.default_rng(8)
    a = rng.standard_normal(shape).astype(dtype)
    if a.dtype.kind == "c":
        a += 1j * rng.standard_normal(shape)
    with it.init("cpu"):
        x = it.asarray(a)
        for ours, theirs in (
            (x @ x.T, a @ a.T),
            (x.T @ x, a.T @ a),
            (x[5:, ::2] @ x[5:, ::2].T, a[5:, ::2] @ a[5:, ::2].T),
            (x[::-1] @ x.T, a[::-1] @ a.T),
            (x[:70] @ x[70:140].T, a[:70] @ a[70:140].T),
        ):
            tolerance = np.finfo(dtype).eps * max(shape)
            np.testing.assert_allclose(
                ours.numpy(), theirs, rtol=tolerance, atol=tolerance * abs(theirs).max()
            )
        made = (x @ x.T if shape[0] < shape[1] else x.T @ x).numpy()
        if max(shape) == 2000:
            np.testing.assert_array_equal(made, made.T)


@pytest.mark.parametrize(("workers", "pieces"), [(2, 1), (16, 1), (64, 5)])
def test_pieces_of_a_gram_matrix_are_added_where_its_parts_are_too_few_for_all_workers(
    workers: int, pieces: int
) -> None:
    """However many work: shorter ones would read less than they make."""
    it.config.workers = workers
    with it.init("cpu"):
        x = it.zeros((300, 2000))
        it.compute(x)
        assert f"{pieces} tasks  (300, 300)           1×1 tile" in (x @ x.T).explain()


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64"])
def test_rows_of_several_matrices_are_multiplied_as_one(dtype: str) -> None:
    rng = np.random.default_rng(3)
    wide = (rng.random((12, 30, 2, 40)) * 9).astype(dtype)
    y = (rng.random((40, 25)) * 9).astype(dtype)
    shapes = [wide, wide[:, :, :1], wide[:, ::2], wide.transpose(1, 0, 2, 3), wide[:, :, :0]]
    for x in (*shapes, wide[..., :20]):
        right = y[: x.shape[-1]]
        made = (it.asarray(x) @ it.asarray(right)).numpy()
        np.testing.assert_allclose(made, x @ right, rtol=1e-5 if dtype == "float32" else 1e-12)
        assert made.shape == (*x.shape[:-1], 25)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("transposed", [False, True])
def test_many_matrices_times_one_are_put_apart(dtype: str, transposed: bool) -> None:
    """Pieces of a result that are apart, in little memory and on several devices."""
    rng = np.random.default_rng(0)
    x, y = rng.random((9, 884, 9, 2)).astype(dtype), rng.random((2, 5)).astype(dtype)
    for devices, memory in (("cpu", "24MiB"), ("cpu*3", None)):
        with it.init(devices, memory=memory):
            seen = it.rot90(it.asarray(x) + 0)
            made, wanted = (seen @ y).copy(), np.rot90(x) @ y
            if transposed:
                seen = it.rot90(it.asarray(x.transpose(0, 1, 3, 2)) + 0)
                made, wanted = (it.asarray(y.T) @ seen).copy(), wanted.transpose(0, 1, 3, 2)
            np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-6)
