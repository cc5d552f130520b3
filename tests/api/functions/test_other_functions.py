"""NumPy's functions that are no ops: index makers, conversions, files, text, settings, writes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest
from tests.api.functions.test_ufunc import assert_same, outcome, tensors, values

import infinitensor as it

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")

X = np.arange(12.0).reshape(3, 4)


def assert_alike(name: str, *args: Any, **kwargs: Any) -> None:
    """Ours gives what NumPy gives, and leaves the same in its arguments."""
    theirs = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    want = outcome(getattr(np, name), theirs, kwargs)
    got = outcome(getattr(it, name), tensors(list(args)), kwargs)
    assert_same(got, want, name)


# --- indices ----------------------------------------------------------------------------------


def test_grids_are_numpys() -> None:
    for key in (
        np.s_[0:3, 1:4],
        np.s_[0:5],
        np.s_[0:1:3j, 2:4],
        np.s_[0:2, 0:2.0, 5:6],
        np.s_[3:0],
    ):
        assert_same(values(it.mgrid[key]), np.mgrid[key], "mgrid")
        assert_same(values(it.ogrid[key]), np.ogrid[key], "ogrid")
    assert it.s_[1:3, ...] == np.s_[1:3, ...]
    assert it.index_exp[2] == (2,)


def test_r_and_c_put_pieces_together() -> None:
    line: Any = np.arange(3)
    table: Any = X[:, :3]
    keys: list[Any] = [(0, slice(1, 4), line), (line, 2.5)]
    keys += [("0,2", line, line), ("1,2,0", line, line)]
    for key in keys:
        assert_same(values(it.r_[tensors(key)]), np.r_[key], "r_")
    keys = [(line, line), (table, line), (table, table, 2 * table)]
    for key in keys:
        assert_same(values(it.c_[tensors(key)]), np.c_[key], "c_")
    with pytest.raises(ValueError, match="asks for a matrix"):
        it.r_["r", line]


def test_ix_selects_by_one_sequence_for_each_axis() -> None:
    x = it.asarray(X)
    mask, columns = np.array([True, False, True]), np.array([0, 3])
    np.testing.assert_array_equal(x[it.ix_(mask, columns)].numpy(), X[np.ix_(mask, columns)])
    x[it.ix_([0, 2], [1])] = -1
    assert x.numpy()[[0, 2], 1].tolist() == [-1, -1]
    assert it.ix_([], [1])[0].shape == (0, 1)
    with pytest.raises(ValueError, match="1 dimensional"):
        it.ix_([[1]])


def test_iterators_give_indices_and_values() -> None:
    x = it.asarray(X)
    assert list(it.ndindex(2, 2)) == list(np.ndindex(2, 2))
    assert list(it.ndenumerate(x)) == list(np.ndenumerate(X))
    both = it.broadcast(x, it.arange(4))
    assert (both.shape, both.ndim, both.size, both.numiter) == ((3, 4), 2, 12, 2)
    assert list(both) == list(np.broadcast(X, np.arange(4)))


def test_nditer_reads_and_writes_elements() -> None:
    x, y = it.asarray(X), X.copy()
    with it.nditer(x, flags=["multi_index"], op_flags=["readwrite"]) as elements:
        for element in elements:
            element[...] = element + elements.multi_index[0]
    np.testing.assert_array_equal(x.numpy(), y + np.arange(3)[:, None])
    sums = [float(a + b) for a, b in it.nditer([x[0], it.asarray([1.0])])]
    np.testing.assert_array_equal(sums, y[0] + 1)
    with pytest.raises(ValueError, match="read-only"):
        next(iter(it.nditer(x)))[...] = 3
    with pytest.raises(ValueError, match="external_loop"):
        it.nditer(x, flags=["external_loop"])


def test_fromfunction_gets_coordinates() -> None:
    assert_alike("fromfunction", lambda i, j: i * 10 + j, (3, 4))
    assert_alike("fromfunction", lambda i: i, (3,), dtype=int)


# --- a user's functions -----------------------------------------------------------------------


def test_vectorize_runs_on_the_host_and_is_counted() -> None:
    it.stats(reset=True)
    larger = it.vectorize(lambda a, b: a if a > b else b)
    np.testing.assert_array_equal(larger(it.asarray(X), 5.0).numpy(), np.maximum(X, 5))
    assert it.stats()["host_fallbacks"] == 1

    @it.vectorize(otypes=[float], signature="(n)->()")
    def total(line: Any) -> Any:
        return line.sum()

    np.testing.assert_array_equal(total(it.asarray(X)).numpy(), X.sum(1))
    both = it.frompyfunc(lambda a: (a, -a), 1, 2)(it.asarray(X))
    assert_same(values(both), [X, -X], "frompyfunc")
    assert it.stats()["host_fallbacks"] == 3


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_apply_along_axis_is_numpys(axis: int) -> None:
    it.stats(reset=True)
    assert_alike("apply_along_axis", lambda line: line.sum(), axis, X)
    assert_alike("apply_along_axis", lambda line: line[::-1] * 2, axis, X)
    assert_alike("apply_along_axis", lambda line: line[:2, None] + line[:3], axis, X)
    assert it.stats()["host_fallbacks"] == 0
    np.testing.assert_array_equal(
        it.apply_over_axes(it.sum, it.asarray(X), [0, 1]).numpy(),
        np.apply_over_axes(np.sum, X, [0, 1]),
    )


# --- conversions and questions ----------------------------------------------------------------


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


# --- writes -----------------------------------------------------------------------------------


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


# --- settings and text ------------------------------------------------------------------------


def test_errstate_takes_what_changes_nothing_and_refuses_the_rest() -> None:
    before = it.geterr()
    with it.errstate(all="warn", over="ignore"):
        assert it.geterr() == {**dict.fromkeys(before, "warn"), "over": "ignore"}
        assert np.isinf((1 / it.asarray([0.0])).numpy()).all()
    assert it.geterr() == before

    @it.errstate(divide="ignore")
    def quotient() -> float:
        return float(1 / it.asarray(0.0))

    assert quotient() == np.inf
    for word in ("raise", "call", "print", "log"):
        with pytest.raises(ValueError, match="floating-point errors are not noticed"):
            it.errstate(invalid=word)
        with pytest.raises(ValueError, match="floating-point errors are not noticed"):
            it.seterr(all=word)
    with pytest.raises(ValueError, match="'ignore' or 'warn' is meant"):
        it.seterr(all="loud")
    assert it.seterr(all="ignore") == before


def test_text_follows_numpys_settings() -> None:
    x = it.asarray(X / 3)
    with it.printoptions(precision=2):
        assert it.array_str(x) == np.array_str(X / 3)
        assert it.get_printoptions()["precision"] == 2
    assert it.array2string(x, precision=1) == np.array2string(X / 3, precision=1)
    assert it.array_repr(x) == repr(x)
    it.set_printoptions(precision=8)


# --- files ------------------------------------------------------------------------------------


def test_npy_and_npz_files_go_both_ways(tmp_path: Path) -> None:
    it.stats(reset=True)
    x = it.asarray(X)
    it.save(tmp_path / "x.npy", x.T)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X.T)
    loaded = it.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(loaded.numpy(), X.T)
    loaded[0] = 7
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X.T)
    for write in (it.savez, it.savez_compressed):
        write(tmp_path / "both.npz", x, name=x[0])
        with it.load(tmp_path / "both.npz") as archive:
            assert sorted(archive) == ["arr_0", "name"]
            np.testing.assert_array_equal(archive["name"].numpy(), X[0])
    stream = io.BytesIO()
    it.save(stream, it.asarray(3))
    stream.seek(0)
    assert it.load(stream).item() == 3
    assert it.stats()["bytes_written"] == 2 * X.nbytes + X.nbytes + 2 * X[0].nbytes + 8
    assert it.stats()["bytes_read"] == X.nbytes + 2 * X[0].nbytes + 8


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        it.load(tmp_path / "o.npy")
    with pytest.raises(ValueError, match="run code when they are read"):
        it.load(tmp_path / "o.npy", allow_pickle=True)


def test_text_files_go_both_ways(tmp_path: Path) -> None:
    it.savetxt(tmp_path / "x.txt", it.asarray(X), fmt="%.1f", delimiter=",")
    np.testing.assert_array_equal(it.loadtxt(tmp_path / "x.txt", delimiter=",").numpy(), X)
    columns = it.loadtxt(tmp_path / "x.txt", delimiter=",", unpack=True)
    assert_same(values(columns), list(X.T), "loadtxt")
    missing = it.genfromtxt(io.StringIO("1,,3"), delimiter=",")
    np.testing.assert_array_equal(missing.numpy(), [1, np.nan, 3])
    it.asarray(X).tofile(tmp_path / "x.bin")
    np.testing.assert_array_equal(it.fromfile(tmp_path / "x.bin").numpy(), X.reshape(-1))


# --- members ----------------------------------------------------------------------------------


def test_members_tell_what_numpys_tell() -> None:
    x = it.asarray(X)
    for index in (np.s_[...], np.s_[1:, ::2], np.s_[:, 0], np.s_[::-1]):
        for ours, theirs in ((x[index], X[index]), (x[index].T, X[index].T)):
            assert ours.strides == theirs.strides
            assert ours.flags.c_contiguous == theirs.flags.c_contiguous
            assert ours.flags["F_CONTIGUOUS"] == theirs.flags["F_CONTIGUOUS"]
            assert ours.tobytes() == theirs.tobytes()
    assert x.base is None
    assert x.flags.owndata
    row = x[0]
    assert row.base is not None
    row.base[0, 0] = 50
    assert row.tolist()[0] == 50
    assert "WRITEABLE : True" in repr(x.flags)
    with pytest.raises(KeyError, match="Unknown flag"):
        x.flags["NONSENSE"]


def test_a_tensor_can_be_made_read_only() -> None:
    x = it.asarray(X)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        x[0].setflags(write=True)


def test_methods_in_place_and_refused() -> None:
    x = it.asarray([[3, 1, 2]])
    x.sort(kind="stable")
    assert x.tolist() == [[1, 2, 3]]
    y = it.asarray([3, 1, 2])
    y.partition(1)
    assert y.tolist()[1] == 2
    with pytest.raises(ValueError, match="out of bounds"):
        y.partition(3)
    assert x.compress([True, False], axis=1).tolist() == [[1]]
    assert it.shares_memory(x.view(), x)
    assert x.view(np.uint8).shape == (*x.shape[:-1], x.itemsize * x.shape[-1])
    with pytest.raises(ValueError, match="keeps its size"):
        x.resize((2, 2))


@pytest.mark.parametrize("kind", [">i4", "<i4", ">f8", ">u2", ">c8", ">f2"])
def test_numbers_are_read_in_their_byte_order(kind: str, tmp_path: Path) -> None:
    values = np.arange(-3 if kind[1] != "u" else 0, 9).astype(kind)
    native = values.astype(values.dtype.newbyteorder("="))
    values.tofile(tmp_path / "x.bin")
    np.save(tmp_path / "x.npy", values)
    made = [
        it.frombuffer(values.tobytes(), kind),
        it.fromfile(tmp_path / "x.bin", kind),
        it.load(tmp_path / "x.npy"),
        it.asarray(values),
        it.fromiter(values.tolist(), kind),
        it.add(values, values.dtype.type(0)),
        it.where(it.ones(values.shape, bool), values, native),
    ]
    target = it.zeros(values.shape, native.dtype)
    target[:] = values
    for found in (*made, target):
        assert found.dtype == native.dtype
        np.testing.assert_array_equal(found.numpy(), native)
    if kind[1] != "c":
        assert it.fromstring("1 2", kind, sep=" ").tolist() == [1, 2]


OTHER_ORDER: dict[str, Any] = {
    "a cast": lambda kind: it.arange(3).astype(kind),
    "a new tensor": lambda kind: it.zeros(3, kind),
    "values": lambda kind: it.asarray([1, 2], dtype=kind),
    "a sum": lambda kind: it.sum(it.ones(3), dtype=kind),
    "a ufunc": lambda kind: it.add(it.ones(3), 1, dtype=kind),
}


@pytest.mark.parametrize("name", OTHER_ORDER)
def test_another_byte_order_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=r"byte order of this machine.*x\.numpy\(\)\.astype"):
        OTHER_ORDER[name](np.dtype("f8").newbyteorder("S"))


def test_a_path_of_operands_with_their_labels() -> None:
    x = it.ones((2, 2, 3))
    for path in (it.einsum_path(x, range(3)), np.einsum_path(x, [0, 0, 1], [1])):
        assert path[0] == ["einsum_path", (0,)]
    assert it.add(3, 4, signature=b"ii->i") == 7
