"""bfloat16: the rules of float16, and values that are those of float32, rounded."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
import torch
from tests.ir.sessions import strict
from tests.ops.table_xp import WHOLE, TableXp

import infinitensor as it
from infinitensor.dtypes import ALL, HALVES, NUMPYS, bfloat16, float16, float32, result_type
from infinitensor.ops import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ELEMENTWISE = sorted(
    name
    for name, op in TABLE.items()
    if op.kind == "elementwise" and isinstance(getattr(np, name, None), np.ufunc)
)
UNIT = 2.0**-8
"""Half a step between numbers around 1: what one rounding may cost."""


@pytest.fixture(params=["strict", "default", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def session(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "default":
        yield
        return
    with strict("cpu*3") if request.param == "strict" else strict(request.param, 0):
        yield


def given(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(bfloat16)


def rounded(values: Any) -> Any:
    array = np.asarray(values)
    return array.astype(bfloat16) if array.dtype == float32 else array


def assert_same(got: Any, wanted: Any, roundings: int = 1) -> None:
    """Same shape, dtype and values; sums in another order may round the other way."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    tolerance = 2 * roundings * UNIT if wanted.dtype == bfloat16 else 1e-5
    np.testing.assert_allclose(got.astype(wide), wanted.astype(wide), tolerance, tolerance / 8)


# --- rules ------------------------------------------------------------------------------------


def test_it_is_a_dtype_by_name_and_by_type() -> None:
    assert it.dtype("bfloat16") == it.zeros(2, dtype=it.bfloat16).dtype == bfloat16
    assert it.bfloat16(1.5) == 1.5
    assert it.finfo(it.bfloat16).eps == it.finfo(it.ones(2, dtype="bfloat16")).eps == 2 * UNIT
    assert it.isdtype(bfloat16, "real floating")
    assert it.isdtype(bfloat16, ("integral", it.bfloat16))
    assert not it.isdtype(float32, bfloat16)


@pytest.mark.parametrize("other", ALL, ids=str)
def test_it_promotes_as_float16_does_and_the_two_give_float32(other: Any) -> None:
    as_half = np.result_type(float16, other) if other in NUMPYS else float16
    wanted = float32 if other == float16 else bfloat16 if as_half == float16 else as_half
    assert result_type(bfloat16, other) == it.promote_types(other, bfloat16) == wanted
    assert (it.ones(2, dtype=bfloat16) + it.ones(2, dtype=other)).dtype == wanted
    try:
        theirs = np.add(np.ones(2, bfloat16), np.ones(2, other)).dtype
    except TypeError:
        return
    assert theirs == wanted  # what ml_dtypes says where it says something


@pytest.mark.parametrize("number", [True, 3, 1.5, 2j])
def test_python_numbers_are_weak(session: None, number: Any) -> None:
    made = number + it.asarray(given((5,)))
    assert made.dtype == (np.complex64 if isinstance(number, complex) else bfloat16)


def test_casts_between_the_halves_are_of_the_same_kind_and_not_safe() -> None:
    assert [it.can_cast(a, b) for a in HALVES for b in HALVES] == [True, False, False, True]
    assert it.can_cast(float16, bfloat16, "same_kind")
    assert it.can_cast(it.uint8, bfloat16)
    assert not it.can_cast(it.int16, bfloat16)
    assert not it.can_cast(bfloat16, it.int64, "same_kind")


# --- elementwise ------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_ops_are_those_of_float32_rounded(name: str, device: str) -> None:
    """Or raise what float16 raises."""
    n = len(TABLE[name].arrays)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 7.0, 100.0, np.inf, -np.inf, np.nan]
    grid = np.meshgrid(*[np.array(special, bfloat16)] * n)
    xs = [np.ascontiguousarray(g.ravel()) for g in grid]
    like = getattr(np, name)
    xp = TableXp(WHOLE, device)
    with np.errstate(all="ignore"):
        try:
            dtype = like(*(x.astype(float16) for x in xs)).dtype
        except TypeError:
            with pytest.raises(TypeError, match=r"ufunc|bfloat16"):
                xp.call(name, *xs)
            return
        values = special_values(name, xs, like)
    got = xp.call(name, *xs)
    assert got.dtype == (bfloat16 if dtype == float16 else dtype)
    tolerance = 0 if device == "cpu" else 2 * UNIT  # assert_allclose knows no NaN of bfloat16
    np.testing.assert_allclose(got.astype("f8"), values.astype("f8"), tolerance, tolerance / 16)


def special_values(name: str, xs: list[Any], like: Callable[..., Any]) -> Any:
    """The values by NumPy: of float32, but for those about the neighbours of a number."""
    if name in ("spacing", "nextafter"):
        return like(*xs)
    return rounded(like(*(x.astype(float32) for x in xs)))


# --- everything else --------------------------------------------------------------------------

CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "chain": lambda xp, x, y: xp.exp(-(x * x)) + xp.where(x > 0, x, 1.0),
    "clip": lambda xp, x, y: xp.clip(x, -0.5, 0.5),
    "sum": lambda xp, x, y: x.sum(),
    "sum rows": lambda xp, x, y: x.sum(0),
    "prod": lambda xp, x, y: xp.prod(x[:2], axis=1),
    "mean": lambda xp, x, y: x.mean(1),
    "var": lambda xp, x, y: xp.var(x, axis=0),
    "std": lambda xp, x, y: x.std(),
    "max": lambda xp, x, y: x.max(0),
    "argmin": lambda xp, x, y: x.argmin(1),
    "any": lambda xp, x, y: (x > 2).any(1),
    "count": lambda xp, x, y: xp.count_nonzero(x > 0),
    "cumsum": lambda xp, x, y: xp.cumsum(x, axis=1),
    "matmul": lambda xp, x, y: x @ y,
    "matmul long": lambda xp, x, y: x.reshape(1, -1) @ x.reshape(-1, 1),
    "einsum": lambda xp, x, y: xp.einsum("ij,jk->k", x, y),
    "tensordot": lambda xp, x, y: xp.tensordot(x, y, 1),
    "sort": lambda xp, x, y: xp.sort(x, axis=0),
    "argsort": lambda xp, x, y: xp.argsort(x, axis=1, kind="stable"),
    "partition": lambda xp, x, y: xp.sort(xp.partition(x, 3)[:, :3]),
    "median": lambda xp, x, y: xp.median(x),
    "quantile": lambda xp, x, y: xp.quantile(x, 0.3, axis=1),
    "unique": lambda xp, x, y: xp.unique(xp.round(x)),
    "searchsorted": lambda xp, x, y: xp.searchsorted(xp.sort(x[0]), x[1]),
    "take": lambda xp, x, y: xp.take(x, [3, 0, 3], axis=0),
    "index": lambda xp, x, y: x[[0, 2], 1:][:, ::-2],
    "mask": lambda xp, x, y: x[x > 0],
    "transposed": lambda xp, x, y: x.T[2:5],
    "concatenate": lambda xp, x, y: xp.concatenate([x, y.T], axis=0),
    "pad": lambda xp, x, y: xp.pad(x, 1),
    "diff": lambda xp, x, y: xp.diff(x, axis=0),
    "norm": lambda xp, x, y: xp.linalg.norm(x, axis=1),
    "convolve": lambda xp, x, y: xp.convolve(x[0], y[:, 0]),
    "fft": lambda xp, x, y: xp.fft.rfft(x, axis=1),
    "to float64": lambda xp, x, y: x.astype(np.float64),
    "to int": lambda xp, x, y: (x * 8).astype(np.int32),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_float32_rounded(session: None, name: str) -> None:
    x, y = given((9, 11)), given((11, 9), 1)
    wanted = CASES[name](np, x.astype(float32), y.astype(float32))
    before = it.stats()
    got = CASES[name](it, it.asarray(x), it.asarray(y))
    assert_same(got, rounded(wanted), roundings=3 if name in ("chain", "unique") else 1)
    assert it.stats()["host_fallbacks"] == before["host_fallbacks"]


def test_sums_are_accumulated_in_float32(session: None) -> None:
    """Added up in bfloat16, ones stop at 256."""
    x = it.ones((40, 40), dtype=it.bfloat16)
    assert float(x.sum()) == 1600
    assert float((x.reshape(1, -1) @ x.reshape(-1, 1))[0, 0]) == 1600
    assert float(it.einsum("ij,ij->", x, x)) == 1600
    assert float(it.cumsum(x)[-1]) == 1600


def test_groups_are_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it.config, "compile", "always")
    x = given((30, 20))
    with strict("cpu*2", 100):
        made = ((it.asarray(x) * 2 + 1) / 3).sum(0)
        assert_same(made, rounded(((x.astype("f4") * 2 + 1) / 3).sum(0)), roundings=3)


def test_nan_is_sorted_last(session: None) -> None:
    x = np.array([2, np.nan, -np.inf, 1, np.nan, -1, 5, 3, -7], bfloat16)
    wanted = np.sort(x.astype("f4"))
    np.testing.assert_array_equal(it.sort(it.asarray(x)).astype("f4").numpy(), wanted)
    assert np.isnan(it.asarray(x).max().item())


def test_writes_and_updates_keep_the_dtype(session: None) -> None:
    theirs = given((6, 7)).astype(float32)
    ours = it.asarray(theirs.astype(bfloat16))
    for x in (theirs, ours):
        x[2] = 0.5
        x[:, 1] += 1.5
        x[x > 1] = 1
        x[[0, 3]] *= 2
        (np if x is theirs else it).add.at(x, [1, 1], 1)
    assert_same(ours, rounded(theirs), roundings=3)


def test_creation(session: None) -> None:
    for made, wanted in (
        (it.arange(20, dtype=it.bfloat16), np.arange(20)),
        (it.linspace(0, 1, 9, dtype=it.bfloat16), np.linspace(0, 1, 9)),
        (it.full((3, 4), 2.5, dtype="bfloat16"), np.full((3, 4), 2.5)),
        (it.eye(4, dtype=it.bfloat16), np.eye(4)),
        (it.asarray([1, 2.5], dtype=it.bfloat16), np.array([1, 2.5])),
        (it.zeros_like(it.asarray(given((3,)))), np.zeros(3)),
    ):
        assert made.dtype == bfloat16
        np.testing.assert_array_equal(made.numpy(), wanted.astype(bfloat16))
    drawn = it.random.default_rng(0).random(100)
    np.testing.assert_array_equal(drawn.astype(it.bfloat16), drawn.numpy().astype(bfloat16))


REFUSED: dict[str, Callable[[Any], Any]] = {
    "ufunc 'bitwise_and' not supported": lambda x: x & x,
    "'gcd' did not contain a loop .*bfloat16": lambda x: it.gcd(x, x),
    "bfloat16 is unsupported in linalg": lambda x: it.linalg.inv(x),
    "from bfloat16 to": lambda x: it.add(x, x, out=it.zeros((3, 3), dtype=it.int32)),
    "function of bfloat16 scalars": lambda x: it.vectorize(abs)(x),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_done_is_a_type_error_that_says_so(text: str) -> None:
    with pytest.raises(TypeError, match=text):
        REFUSED[text](it.ones((3, 3), dtype=it.bfloat16))


# --- in and out -------------------------------------------------------------------------------


def test_text_pickle_and_files_keep_it(session: None, tmp_path: Path) -> None:
    x = given((5, 4))
    ours = it.asarray(x)
    assert repr(it.asarray([1.5, 2], dtype="bfloat16")) == (
        "Tensor([1.5, 2], shape=(2,), dtype=bfloat16)"
    )
    it.save(tmp_path / "x.npy", ours)
    it.savez(tmp_path / "x.npz", x=ours)
    buffer = io.BytesIO()
    it.save(buffer, ours)
    buffer.seek(0)
    for back in (
        pickle.loads(pickle.dumps(ours)),
        it.load(tmp_path / "x.npy"),
        it.load(tmp_path / "x.npz")["x"],
        it.load(buffer),
    ):
        assert back.dtype == bfloat16
        np.testing.assert_array_equal(back.numpy(), x)


def test_torch_and_dlpack_both_ways(session: None) -> None:
    x = given((5, 4))
    there = torch.utils.dlpack.from_dlpack(it.asarray(x))
    assert there.dtype == torch.bfloat16
    np.testing.assert_array_equal(there.float().cpu().numpy(), x.astype("f4"))
    there = there.cpu() + 1
    for back in (it.asarray(there), it.from_dlpack(there), it.from_dlpack(Foreign(there))):
        assert back.dtype == bfloat16
        np.testing.assert_array_equal(back.numpy(), x + ml_dtypes.bfloat16(1))


def test_memory_of_the_host_goes_out_as_a_copy() -> None:
    x = it.ones(3, dtype=it.bfloat16)
    torch.utils.dlpack.from_dlpack(x).zero_()
    assert float(x.sum()) == 3
    with pytest.raises(BufferError, match="nobody can for bfloat16"):
        x.__dlpack__(copy=False, max_version=(1, 0))


class Foreign:
    """An array of a library that we do not know."""

    dtype = "bfloat16"

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()
