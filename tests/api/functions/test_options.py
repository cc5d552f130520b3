"""`out`, `where` and `initial` of functions that are no ufuncs: NumPy's places and casts."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from tests.api.outcomes import assert_same, outcome, tensors

import infinitensor as it
from infinitensor.api.functions.all_functions import PUBLIC
from infinitensor.api.functions.options import MOMENTS, REDUCING

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")

RNG = np.random.default_rng(1)
X = RNG.normal(size=(4, 5)).round(2)
I = RNG.integers(0, 4, (4, 5))  # noqa: E741 - integers
MASK = RNG.random((4, 5)) < 0.7
MASK[:, 0] = True


def assert_alike(name: str, *args: Any, **kwargs: Any) -> None:
    """Ours gives and writes what NumPy gives and writes."""
    theirs = {k: np.array(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
    ours = {k: tensors(v) for k, v in kwargs.items()}
    want = outcome(getattr(np, name), args, theirs)
    got = outcome(getattr(it, name), tensors(args), ours)
    assert_same(got, want, name)


@pytest.mark.parametrize("name", sorted({*REDUCING, *MOMENTS}))
@pytest.mark.parametrize(
    "options",
    [
        {"axis": 1, "out": np.zeros(4)},
        {"axis": 1, "out": np.zeros(4, np.int16)},
        {"axis": 1, "out": np.zeros((4, 1)), "keepdims": True},
        {"axis": 1, "out": np.zeros(5)},
        {"axis": 0, "where": MASK, "initial": 1},
        {"axis": (0, 1), "where": MASK[0], "initial": 0},
        {"where": MASK},
        {"axis": 1, "where": MASK, "keepdims": True},
        {"axis": 1, "initial": 3},
        {"axis": 0, "where": MASK, "initial": 1, "out": np.zeros(5)},
    ],
)
def test_reductions_take_out_where_and_initial(name: str, options: dict[str, Any]) -> None:
    for x in (X, I):
        given = dict(options)
        if name not in REDUCING or name in ("any", "all"):
            given.pop("initial", None)
        assert_alike(name, x, **given)


WIDE: dict[str, np.ndarray] = {
    "halves": np.linspace(20_000, 60_000, 20).astype(np.float16).reshape(4, 5),
    "bytes": np.linspace(60, 120, 20).astype(np.int8).reshape(4, 5),
    "words": (np.linspace(1, 1.9, 20) * 2.0**62).astype(np.int64).reshape(4, 5),
    "singles": np.linspace(1e20, 1e38, 20).astype(np.float32).reshape(4, 5),
    "truths": MASK,
}
COMPUTED = ["sum", "prod", "cumsum", "cumprod", "mean", "max", "amin", "ptp", "trace", "any"]
COMPUTED += ["nansum", "nanprod", "nancumsum", "nanmean", "nanmax", "cumulative_sum", "median"]


@pytest.mark.parametrize("wanted", [np.float64, np.complex128, np.float32])
@pytest.mark.parametrize("values", WIDE)
@pytest.mark.parametrize("name", COMPUTED)
def test_out_says_what_a_reduction_is_computed_in(name: str, values: str, wanted: Any) -> None:
    x = WIDE[values]
    options: dict[str, Any] = {} if name == "trace" else {"axis": 1}
    shape = np.shape(getattr(np, name)(x.astype(np.float64), **options))
    assert_alike(name, x, **options, out=np.zeros(shape, wanted))


@pytest.mark.parametrize("name", ["amax", "min", "sum", "prod"])
@pytest.mark.parametrize("initial", [300, 2.5, 1 + 2j, np.float32(1.5), -1])
@pytest.mark.parametrize("wanted", [None, np.int64, np.float64])
def test_a_start_is_of_the_dtype_that_is_computed_in(name: str, initial: Any, wanted: Any) -> None:
    out = {} if wanted is None else {"out": np.zeros(4, wanted)}
    assert_alike(name, WIDE["bytes"] // 60, axis=1, initial=initial, **out)


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_deviations_are_computed_in_what_out_has(name: str) -> None:
    x = WIDE["halves"]
    if not name.startswith("nan"):  # there NumPy squares in the dtype of the values
        found = getattr(it, name)(it.asarray(x), axis=1, out=it.zeros(4))
        np.testing.assert_allclose(found.numpy(), getattr(np, name)(x.astype(float), axis=1), 1e-9)
    z = X + 1j * X
    for out in (np.zeros(4), np.zeros(4, np.float32), np.zeros(4, complex)):
        assert_alike(name, z, axis=1, out=out)


def test_deviations_take_a_mask_and_a_correction() -> None:
    for name in ("var", "std"):
        assert_alike(name, X, axis=0, where=MASK, ddof=1)
        assert_alike(name, X, axis=0, where=MASK, correction=1)
        assert_alike(name, X + 1j, axis=0, where=MASK)
        assert_alike(name, X.astype(np.float32), where=MASK)


ELSEWHERE: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("argmax", (X, 1), (4,)),
    ("argmin", (X, 0), (5,)),
    ("clip", (X, -1, 1), (4, 5)),
    ("compress", (np.array([True, False, True]), X, 0), (2, 5)),
    ("concatenate", ([X, X],), (8, 5)),
    ("cumprod", (X, 1), (4, 5)),
    ("cumsum", (X, 0), (4, 5)),
    ("dot", (X, X.T), (4, 4)),
    ("einsum", ("ij->j", X), (5,)),
    ("outer", (X[0], X[1]), (5, 5)),
    ("ptp", (X, 0), (5,)),
    ("round", (X, 1), (4, 5)),
    ("stack", ([X, X],), (2, 4, 5)),
    ("take", (X, np.array([0, 2]), 1), (4, 2)),
    ("trace", (X,), ()),
]


@pytest.mark.parametrize(("name", "args", "shape"), ELSEWHERE, ids=[row[0] for row in ELSEWHERE])
def test_other_functions_write_into_out(name: str, args: Any, shape: tuple[int, ...]) -> None:
    dtype = np.int64 if name.startswith("arg") else np.float64
    assert_alike(name, *args, out=np.zeros(shape, dtype))
    assert_alike(name, *args, out=np.zeros(shape, np.complex128))
    assert_alike(name, *args, out=np.zeros(shape, np.int16))
    if not name.startswith("cum"):  # there NumPy takes it, and writes a part
        assert_alike(name, *args, out=np.zeros((*shape, 3), dtype))


def test_out_may_be_given_by_position() -> None:
    calls: tuple[Any, ...] = (
        lambda xp, x, out: xp.sum(x, 0, None, out),
        lambda xp, x, out: xp.max(x, 0, out),
        lambda xp, x, out: xp.mean(x, 0, None, out),
        lambda xp, x, out: x.cumsum(0, None, xp.zeros((4, 5))),
        lambda xp, x, out: x.sum(0, float, out),
        lambda xp, x, out: x.clip(0, 1, xp.zeros((4, 5))),
        lambda xp, x, out: xp.take(x, xp.asarray([1]), 0, xp.zeros((1, 5))),
    )
    for call in calls:
        theirs, ours = np.zeros(5), it.zeros(5)
        np.testing.assert_allclose(call(it, it.asarray(X), ours).numpy(), call(np, X, theirs))
        np.testing.assert_allclose(ours.numpy(), theirs)


def test_out_may_be_a_view_and_is_what_is_returned() -> None:
    table = it.zeros((3, 4))
    row = table[1]
    assert it.sum(it.asarray(X), 1, out=row) is row
    np.testing.assert_allclose(table.numpy(), [[0] * 4, X.sum(1), [0] * 4])


def test_clip_takes_the_options_of_a_ufunc() -> None:
    assert_alike("clip", X, -1, 1, out=np.zeros((4, 5)), where=MASK)
    assert_alike("clip", X, -1, 1, dtype=np.float32)
    assert_alike("clip", X, -1, 1, out=np.zeros((4, 5), int), casting="unsafe")
    assert_alike("clip", X, -1, 1, out=np.zeros((4, 5), int))


def test_every_function_that_takes_out_in_numpy_takes_it_here() -> None:
    missing = []
    for name, function in PUBLIC.items():
        theirs = getattr(np, name, None)
        try:
            parameters = inspect.signature(theirs).parameters  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if "out" in parameters and "out" not in inspect.signature(function).parameters:
            missing.append(name)
    assert missing == []


def test_means_of_integers_without_nan_are_written_to_integers() -> None:
    out, expected = it.zeros((), int), np.zeros((), int)
    it.nanmean([1, 3], out=out)
    np.nanmean([1, 3], out=expected)
    assert out == expected
