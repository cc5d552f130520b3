"""Keywords and small things of NumPy's functions and methods that programs use."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest
from tests.api.modes import assert_alike, mode  # noqa: F401 - a fixture

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("mode")
RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 5))
HOLES = np.where(RNG.random((6, 5)) < 0.4, np.nan, X)
HOLES[:, 1] = np.nan
MASK = RNG.random((6, 5)) < 0.6


# --- joins ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["concatenate", "concat", "stack", "hstack", "vstack"])
@pytest.mark.parametrize("casting", ["same_kind", "unsafe", "safe", "no", "wrong"])
@pytest.mark.parametrize("dtype", [None, "i4", "f4", "c16"])
def test_joins_take_a_dtype_and_a_casting_rule(name: str, casting: Any, dtype: Any) -> None:
    arrays = [X[:2], X[2:4].astype(np.float32)]
    assert_alike(
        lambda xp, x, **options: getattr(xp, name)(x, **options),
        arrays,
        dtype=dtype,
        casting=casting,
    )


@pytest.mark.parametrize("options", [{}, {"casting": "unsafe"}, {"dtype": "i4"}])
def test_joins_cast_their_parts_into_out(options: dict[str, Any]) -> None:
    def joined(xp: Any, *arrays: Any) -> Any:
        out = xp.zeros((4, 5), dtype="i4")
        made = xp.concatenate(arrays, out=out, **options)
        assert made is out
        return out

    assert_alike(joined, X[:2], X[2:4])


# --- reductions -------------------------------------------------------------------------------

NAN_OPTIONS: list[dict[str, Any]] = [
    {"where": MASK},
    {"where": MASK, "axis": 0},
    {"where": MASK[0], "axis": 1, "keepdims": True},
]
INITIAL: list[dict[str, Any]] = [{"initial": 2, **options} for options in NAN_OPTIONS]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "c16"])
@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmin", "nanmax"])
def test_nan_functions_take_a_mask_and_a_start(name: str, dtype: str) -> None:
    a = np.nan_to_num(HOLES * 9).astype(dtype) if dtype == "i4" else HOLES.astype(dtype)
    for options in (*NAN_OPTIONS, *INITIAL, {"initial": 3, "axis": 0}):
        with catch_warnings():
            simplefilter("ignore")  # NumPy's, of slices of nothing but NaN
            assert_alike(lambda xp, x, **more: getattr(xp, name)(x, **more), a, **options)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "c16"])
@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd", "var", "std"])
def test_moments_take_a_mask_and_a_mean(name: str, dtype: str) -> None:
    a = np.nan_to_num(HOLES * 9).astype(dtype) if dtype == "i4" else HOLES.astype(dtype)
    with catch_warnings():
        simplefilter("ignore")  # NumPy's, of slices of nothing but NaN
        mean = np.nanmean(a, axis=0, keepdims=True)
        known: list[dict[str, Any]] = [
            {"mean": mean, "axis": 0},
            {"mean": mean, "axis": 0, "where": MASK, "ddof": 1, "keepdims": True},
        ]
        for options in [*NAN_OPTIONS, *(known if name != "nanmean" else [])]:
            assert_alike(lambda xp, x, **more: getattr(xp, name)(x, **more), a, **options)
    if name in ("var", "std"):
        ours = getattr(it.asarray(X), name)(axis=1, mean=X.mean(1, keepdims=True))
        np.testing.assert_allclose(ours, getattr(X, name)(axis=1))


# --- NumPy's arrays as targets ----------------------------------------------------------------


@pytest.mark.parametrize("xp", [np, it])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "c16"])
def test_results_are_written_into_arrays_of_numpys(xp: Any, dtype: str) -> None:
    calls: dict[str, Any] = {
        "add": lambda m, x, out: m.add(x, 1, out=out),
        "add by position": lambda m, x, out: m.add(x, 1, out),
        "add where": lambda m, x, out: m.add(x, 1, out=out, where=MASK),
        "unsafe": lambda m, x, out: m.multiply(x, 9, out=out, casting="unsafe"),
        "clip": lambda m, x, out: m.clip(x, 0, 1, out=out),
        "cumsum": lambda m, x, out: m.add.accumulate(x, out=out),
    }

    def written(library: Any, x: Any, name: str) -> Any:
        out = np.full((6, 5), 7).astype(dtype)
        assert calls[name](xp if library is it else np, x, out) is out
        return out

    for name in calls:
        with catch_warnings():
            simplefilter("ignore")  # of complex values that lose a part
            assert_alike(written, X, name=name)
    out = np.zeros(5)
    assert xp.sum(it.asarray(X), axis=0, out=out) is out
    np.testing.assert_allclose(out, X.sum(0))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "c16"])
def test_arrays_of_numpys_change_in_place_by_tensors(dtype: str) -> None:
    def changed(library: Any, other: Any) -> np.ndarray:
        array = same = np.arange(30.0).reshape(6, 5).astype(dtype)
        array += other
        array *= 2
        array -= other
        np.add.at(array, ([0, 0], [1, 1]), other[0, 0])
        np.copyto(array, other, where=MASK)
        assert array is same
        return array

    kind = np.int64 if dtype == "i8" else np.float64
    assert_alike(changed, (X * 4).astype(kind))
    array = np.arange(5)
    with pytest.raises(TypeError, match="Cannot cast ufunc 'add' output"):
        array += it.asarray(X[0])


def test_arrays_that_cannot_be_written_are_refused() -> None:
    out = np.zeros((6, 5))
    with pytest.raises(ValueError, match="non-broadcastable output operand"):
        np.add(it.asarray(X), 1, out=out[0])
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        np.add(it.asarray(X), 1, out=out)


# --- comparisons with what is no number, elements ---------------------------------------------


@pytest.mark.parametrize(
    "other", [None, "a", b"a", object()], ids=["None", "str", "bytes", "object"]
)
@pytest.mark.parametrize("shape", [(2, 3), (0,), ()])
def test_what_is_no_number_equals_nothing(other: Any, shape: tuple[int, ...]) -> None:
    x = it.zeros(shape)
    for got, want in ((x == other, False), (x != other, True), (other == x, False)):
        np.testing.assert_array_equal(got.numpy(), np.full(shape, want), strict=True)
    with pytest.raises(TypeError, match="not supported between instances"):
        _ = x < other


def test_elements_are_taken_by_number_or_tuple() -> None:
    x = it.asarray(X)
    good: list[Any] = [(7,), (-1,), (1, 2), ((1, 2),), (np.int64(3),), ((29,),)]
    bad: list[Any] = [(30,), (-31,), (1, 2, 3), ((1,), 2), (6, 0), ("a",), (1.5,), (), ((),)]
    for index in good + bad:
        assert_alike(lambda xp, x, index: x.item(*index), X, index=index)
    assert it.asarray(3).item(0) == it.asarray(3).item(()) == 3
    with pytest.raises(ValueError, match="cannot delete array elements"):
        del x[0]


def test_extract_takes_a_condition_of_any_length() -> None:
    conditions = [MASK, [1, 0, 1], X > 0, X.astype(int), np.zeros(50), np.ones(50), []]
    for condition in conditions:
        assert_alike(lambda xp, c, x: xp.extract(c, x), condition, X)


@pytest.mark.parametrize("right", [False, True])
def test_digitize_lets_nan_be_the_end_of_the_bins(right: bool) -> None:
    x = np.array([1.0, np.nan, 5.0, 2.0, -np.inf])
    bins = [
        [0.0, 2.0, 4.0], [4.0, 2.0, 0.0], [2.0, 4.0, np.nan], [2.0, 2.0], [], [1.0],
        [2.0, 2.0, 3.0], [3.0, 3.0, 2.0], [2.0, 1.0, 3.0], [1.0, 3.0, 2.0], [np.nan, 1.0, 2.0],
        [1.0, 2.0, np.nan, np.nan], [np.nan, np.nan],
    ]  # fmt: skip
    for edges in bins:
        assert_alike(lambda xp, x, e: xp.digitize(x, e, right), x, np.array(edges))


# --- products ---------------------------------------------------------------------------------

A, B, V = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 5)), RNG.normal(size=4)


@pytest.mark.parametrize(
    "axes",
    [
        [(-2, -1), (-2, -1), (-1, -2)],
        [(-2, -1), (-2, -1), (0, 1)],
        [(1, 2), (1, 2)],
        [(1, 1), (1, 2), (0, 1)],
        [(1, 5), (1, 2), (0, 1)],
        [(1,), (1, 2), (0, 1)],
        3,
    ],
)
def test_matmul_takes_the_axes_of_its_matrices(axes: Any) -> None:
    assert_alike(lambda xp, x, y: xp.matmul(x, y, axes=axes), A, B)
    assert_alike(lambda xp, x, y: xp.matmul(x.transpose(1, 2, 0), y, axes=axes), A, B)


def test_products_take_axes_and_keep_them() -> None:
    other = RNG.normal(size=A.shape)
    asked: list[dict[str, Any]] = [
        {"axis": 0}, {"axis": 1, "keepdims": True}, {"axes": [1, 1]}, {"axes": [(1,), (1,), ()]},
        {"keepdims": True}, {"axes": [0, 0, 0], "keepdims": True}, {"axis": 9},
        {"axes": [0, 0], "axis": 0},
    ]  # fmt: skip
    for options in asked:
        assert_alike(lambda xp, x, y, **more: xp.vecdot(x, y, **more), A, other, **options)
    assert_alike(lambda xp, x, v: xp.matmul(x, v, axes=[(1, 2), 0, 0]), A, V)
    assert_alike(lambda xp, x, v: xp.matvec(x, v, axes=[(1, 2), 0, 0]), A, V)
    assert_alike(lambda xp, x, v: xp.vecmat(v, x, axes=[0, (2, 1), 0]), A, V)
    assert_alike(lambda xp, x, y: xp.matmul(x, y, axis=1), A, B)
    assert_alike(lambda xp, x, y: xp.matmul(x, y, keepdims=True), A, B)


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "i8"},
        {"dtype": "i8", "casting": "unsafe"},
        {"dtype": "f4", "casting": "same_kind"},
        {"casting": "no"},
        {"order": "F", "optimize": False},
    ],
)
def test_einsum_takes_casting_and_order(options: dict[str, Any]) -> None:
    assert_alike(lambda xp, x, y, **more: xp.einsum("abc,acd->abd", x, y, **more), A, B, **options)
    if "order" in options:
        assert it.einsum(
            "ab,bc->ac", it.ones((2, 3)), it.ones((3, 4)), **options
        ).flags.f_contiguous


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_qr_gives_the_raw_reflectors(dtype: str) -> None:
    for x in (A, A[0], A[0].T, A[:0]):
        assert_alike(lambda xp, x: tuple(xp.linalg.qr(x, "raw")), x.astype(dtype))
    with pytest.raises(ValueError, match="Unrecognized mode 'economy'"):
        it.linalg.qr(it.asarray(A), "economy")


# --- falling order ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "u1", "c16"])
def test_falling_order_is_stable_and_has_nan_last(dtype: str) -> None:
    """As in NumPy since 2.5."""
    a = np.array([[3, 1, 1, 2, 0, 3, 2], [5, 9, 5, 0, 9, 1, 1]]).astype(dtype)
    if dtype[0] in "fc":
        a[0, 1] = a[1, 4] = np.nan
    keys = np.where(np.isnan(a), -1.0, a.real.astype("f8"))
    places = np.argsort(-keys, axis=1, kind="stable")
    x = it.asarray(a)
    np.testing.assert_array_equal(it.argsort(x, descending=True).numpy(), places)
    falling = np.take_along_axis(a, places, 1)
    np.testing.assert_array_equal(it.sort(x, descending=True).numpy(), falling)
    x.sort(descending=True)
    np.testing.assert_array_equal(x.numpy(), falling)


# --- names that programs use ------------------------------------------------------------------

WORDS = np.arange(12).reshape(3, 4) * 1003


@pytest.mark.parametrize("dtype", ["i2", "u4", "i8", "f2", "f8", "c8", "c16", "u1", "?"])
def test_bytes_are_swapped_and_written_out(dtype: str) -> None:
    for a in (
        WORDS.astype(dtype),
        WORDS.astype(dtype).T[1:],
        np.array(7, dtype),
        np.ones(0, dtype),
    ):
        x = it.asarray(a)
        assert (x.byteswap().shape, x.byteswap().tobytes()) == (a.shape, a.byteswap().tobytes())
        assert bytes(x) == a.tobytes()
        assert pickle.loads(x.dumps()).numpy().tobytes() == a.tobytes()
        assert x.byteswap(inplace=True) is x
        assert x.tobytes() == a.byteswap().tobytes()


@pytest.mark.parametrize("dtype", ["i4", "u1", "f2", "i8", "c16"])
def test_fields_are_parts_of_elements(dtype: str) -> None:
    for offset in (0, 1, 4, 7, 8, -1):
        assert_alike(lambda xp, x: x.getfield(dtype, offset).astype("f4"), WORDS)  # noqa: B023
        assert_alike(lambda xp, x: x.T.getfield(dtype, offset).astype("f4"), WORDS)  # noqa: B023
    with pytest.raises(ValueError, match=r"x\.real"):
        it.asarray(WORDS).setfield(1, "i4")


def test_tensors_are_dumped_to_files(tmp_path: Path) -> None:
    x = it.asarray(WORDS)
    x.dump(tmp_path / "x.pkl")
    with (tmp_path / "y.pkl").open("wb") as file:
        x.dump(file)
    for name in ("x.pkl", "y.pkl"):
        assert pickle.loads((tmp_path / name).read_bytes()).tolist() == WORDS.tolist()


@pytest.mark.parametrize("xp", [np, it])
@pytest.mark.parametrize("name", ["equal", "not_equal"])
def test_no_number_equals_none(name: str, xp: Any) -> None:
    call = getattr(xp, name)
    for made in (call(it.asarray(X), None), call(None, it.asarray(X))):
        want = np.full(X.shape, name == "not_equal")
        np.testing.assert_array_equal(made.numpy(), want, strict=True)
    with pytest.raises(TypeError):
        xp.less(it.asarray(X), None)


def test_elements_come_as_they_are_stored() -> None:
    views: list[Any] = [
        lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::-2].T, lambda a: a[1, 1],
    ]  # fmt: skip
    theirs: Any = np.nditer
    for view in views:
        for order in ("K", "C", "F", "A"):
            found = [int(v) for v in it.nditer(view(it.asarray(WORDS)), order=order)]
            assert found == [int(v) for v in theirs(view(WORDS), order=order)]
    pair = [(int(a), int(b)) for a, b in it.nditer([it.asarray(WORDS).T, np.arange(3)])]
    assert pair == [(int(a), int(b)) for a, b in np.nditer([WORDS.T, np.arange(3)])]


def test_texts_take_a_width_a_precision_and_edges() -> None:
    x = it.asarray(X)
    assert it.array_str(x, 40, 2) == np.array_str(X, 40, 2)
    assert it.array2string(x, 40, 3, True, ",") == np.array2string(X, 40, 3, True, ",")
    assert "0.1" in it.array_repr(it.asarray([0.123456]), precision=1)
    many = np.arange(5000)
    with it.printoptions(edgeitems=2, threshold=10):
        assert str(it.asarray(many)) == str(many)


def test_polynomials_of_numpys_take_tensors() -> None:
    p = np.array([1.0, -3.0, 2.0])
    x = it.asarray(p)
    calls: list[Callable[[Any], Any]] = [
        lambda p: np.poly1d(p)(2.0),
        lambda p: np.poly1d([1, 2])(p),
        lambda p: (np.poly1d(p) * np.poly1d(p) + 1).coeffs,
        lambda p: np.poly1d(p).r,
        lambda p: np.poly1d(p).deriv().integ().coeffs,
        lambda p: np.polynomial.Polynomial(p)(0.5),
        lambda p: np.polynomial.Chebyshev([1, 2, 3])(p),
        lambda p: np.polynomial.Legendre.fit(p, p * p, 2).coef,
        lambda p: np.polynomial.polynomial.polyval(p, p),
    ]
    for call in calls:
        np.testing.assert_allclose(np.asarray(call(x)), call(p), atol=1e-12)
    assert str(np.poly1d(x)) == str(np.poly1d(p))
    assert repr(np.polynomial.Polynomial(x)) == repr(np.polynomial.Polynomial(p))


@pytest.mark.parametrize("name", ["zeros", "full", "arange", "eye", "asarray", "array", "tri"])
def test_like_must_be_an_array(name: str) -> None:
    args = {"full": (3, 7)}.get(name, (3,))
    for like in (it.ones(2), np.ones(2), None):
        made = getattr(it, name)(*args, like=like)
        assert made.tolist() == getattr(np, name)(*args).tolist()
    with pytest.raises(TypeError, match="__array_function__"):
        getattr(it, name)(*args, like=3)
