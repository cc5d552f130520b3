"""Bars B1-B4 and B6: odd values, odd shapes, odd dtypes and foreign arrays behave as in NumPy."""

# ruff: noqa: E501 - a table reads best with one case on a line

from __future__ import annotations

import itertools
import tracemalloc
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import scipy.special
import torch

import infinitensor as it

from . import child
from .sampling import logged_rng, sample, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [time_limit(120), pytest.mark.filterwarnings("error")]

RELATIVE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12, "complex128": 1e-12}


def assert_same(ours: Any, numpys: Any, *, signs: bool = False, say: str = "") -> None:
    """Same shape, dtype and value as NumPy; NaN where NumPy has NaN; `signs`: of zero as well."""
    got, wanted = np.asarray(ours), np.asarray(numpys)
    assert got.shape == wanted.shape, f"{say}: shape {got.shape}, NumPy {wanted.shape}"
    assert got.dtype == wanted.dtype, f"{say}: dtype {got.dtype}, NumPy {wanted.dtype}"
    np.testing.assert_allclose(
        got, wanted, rtol=RELATIVE.get(str(wanted.dtype), 0), atol=0, err_msg=say
    )
    if signs and wanted.dtype.kind == "f":
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(wanted)[number], say)


# B1: special values in one tile -----------------------------------------------------------------

SPECIALS: dict[str, list[Any] | str] = {
    "nan": [np.nan],
    "two nans": [np.nan, 1.0, np.nan],
    "inf": [np.inf],
    "-inf": [-np.inf],
    "inf and -inf": [np.inf, -np.inf],
    "nan and inf": [np.inf, np.nan],
    "negative zero": [-0.0, -0.0],
    "subnormal": ["subnormal", "subnormal"],
    "all nan": "fill",
}


class Placed(NamedTuple):
    """An array with special values in one place, and how it is to be run."""

    special: str
    shape: tuple[int, ...]
    axis: Any
    dtype: str
    tile_elements: int
    devices: str

    def values(self) -> np.ndarray[Any, Any]:
        rng = logged_rng(*self)
        scale = 0.0 if self.special == "subnormal" else 1.0
        values = rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 1.0, 2.0], self.shape) * scale
        flat = values.astype(self.dtype).reshape(-1)
        what = SPECIALS[self.special]
        if what == "fill":
            flat[:] = np.nan
        else:
            tiny = np.finfo(self.dtype).smallest_subnormal * 3
            run = [tiny if value == "subnormal" else value for value in what]
            start = int(rng.integers(0, flat.size - len(run) + 1))
            flat[start : start + len(run)] = run
        return flat.reshape(self.shape)

    def tensor(self) -> it.Tensor:
        made: it.Tensor = it.asarray(self.values())
        return made


def placements(axes: dict[int, list[Any]]) -> list[Placed]:
    shapes: list[tuple[int, ...]] = [(23,), (6, 9), (3, 4, 5)]
    return [
        Placed(special, shape, axis, dtype, tile_elements, devices)
        for special, shape in itertools.product(SPECIALS, shapes)
        for axis in axes[len(shape)]
        for dtype, tile_elements, devices in itertools.product(
            ["float32", "float64"], [1, 2, 7, 64], ["cpu", "cpu*3"]
        )
    ]


ANY_AXES: dict[int, list[Any]] = {1: [None, 0], 2: [None, 0, 1, (0, 1)], 3: [None, 1, -1, (0, 2)]}
ONE_AXIS: dict[int, list[Any]] = {1: [None, 0], 2: [None, 0, 1], 3: [None, 0, -1]}
GIVEN_AXIS: dict[int, list[Any]] = {1: [0], 2: [0, 1], 3: [0, 1, -1]}

REDUCTIONS = ["sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "count_nonzero"]
ARG_REDUCTIONS = ["argmin", "argmax"]


def against_numpy(
    cases: list[Placed],
    ours: Callable[[it.Tensor, Placed], Any],
    numpys: Callable[[np.ndarray[Any, Any], Placed], Any],
    *,
    signs: bool = False,
) -> None:
    """Run every case both ways; all that differ are reported at once."""
    wrong: list[str] = []
    it.config.small_elements = 0
    for case in cases:
        it.config.tile_elements = case.tile_elements
        with np.errstate(all="ignore"):
            wanted = numpys(case.values(), case)
        with it.init(devices=case.devices):
            try:
                assert_same(ours(case.tensor(), case), wanted, signs=signs, say=str(case))
            except Exception as error:  # a table: the whole list says more than its first line
                wrong.append(f"{case}: {type(error).__name__}: {error}")
    assert not wrong, f"{len(wrong)} of {len(cases)} differ\n" + "\n".join(wrong[:6])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_special_values_in_one_tile_reduce_as_in_numpy(name: str) -> None:
    against_numpy(
        sample(placements(ANY_AXES), 24, name),
        lambda x, case: getattr(it, name)(x, axis=case.axis),
        lambda x, case: getattr(np, name)(x, axis=case.axis),
        signs=name == "prod",
    )


@pytest.mark.parametrize("name", ARG_REDUCTIONS)
def test_the_first_nan_is_what_argmin_and_argmax_find(name: str) -> None:
    against_numpy(
        sample(placements(ONE_AXIS), 40, name),
        lambda x, case: getattr(it, name)(x, axis=case.axis),
        lambda x, case: getattr(np, name)(x, axis=case.axis),
    )


def test_logsumexp_of_special_values_is_scipys() -> None:
    against_numpy(
        sample(placements(ANY_AXES), 24, "logsumexp"),
        lambda x, case: it.logsumexp(x, axis=case.axis),
        lambda x, case: scipy.special.logsumexp(x, axis=case.axis),
    )


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_special_values_reach_the_rest_of_a_scan_as_in_numpy(name: str) -> None:
    against_numpy(
        sample(placements(ONE_AXIS), 24, name),
        lambda x, case: getattr(it, name)(x, axis=case.axis),
        lambda x, case: getattr(np, name)(x, axis=case.axis),
    )


def test_sort_puts_nan_last_whichever_tile_it_was_in() -> None:
    against_numpy(
        sample(placements(GIVEN_AXIS), 32, "sort"),
        lambda x, case: it.sort(x, axis=case.axis),
        lambda x, case: np.sort(x, axis=case.axis),
    )


def test_stable_argsort_orders_nan_and_both_zeros_as_numpy_does() -> None:
    against_numpy(
        sample(placements(GIVEN_AXIS), 32, "argsort"),
        lambda x, case: it.argsort(x, axis=case.axis, stable=True),
        lambda x, case: np.argsort(x, axis=case.axis, stable=True),
    )


def test_unique_keeps_one_nan_and_one_zero_as_numpy_does() -> None:
    against_numpy(
        sample(placements({1: [None], 2: [None], 3: [None]}), 24, "unique"),
        lambda x, case: it.unique(x),
        lambda x, case: np.unique(x),
    )


ELEMENTWISE: dict[str, Callable[[Any, Any], Any]] = {
    "negative": lambda xp, x: -x,
    "absolute": lambda xp, x: abs(x),
    "sign": lambda xp, x: xp.sign(x),
    "signbit": lambda xp, x: xp.signbit(x),
    "copysign": lambda xp, x: xp.copysign(xp.ones_like(x), x),
    "floor": lambda xp, x: xp.floor(x),
    "ceil": lambda xp, x: xp.ceil(x),
    "trunc": lambda xp, x: xp.trunc(x),
    "round": lambda xp, x: xp.round(x),
    "sqrt": lambda xp, x: xp.sqrt(x),
    "square": lambda xp, x: x * x,
    "one over": lambda xp, x: 1 / x,
    "twice": lambda xp, x: x + x,
    "self minus self": lambda xp, x: x - x,
    "floor divide": lambda xp, x: x // 2,
    "remainder": lambda xp, x: x % 2,
    "power": lambda xp, x: x**2,
    "isnan": lambda xp, x: xp.isnan(x),
    "isinf": lambda xp, x: xp.isinf(x),
    "isfinite": lambda xp, x: xp.isfinite(x),
    "equals itself": lambda xp, x: x == x,
    "less": lambda xp, x: x < 0.5,
    "maximum": lambda xp, x: xp.maximum(x, xp.flip(x)),
    "minimum": lambda xp, x: xp.minimum(x, xp.flip(x)),
    "clip": lambda xp, x: xp.clip(x, -1, 1),
    "where": lambda xp, x: xp.where(x > 0, x, -x),
    "exp": lambda xp, x: xp.exp(x),
    "log": lambda xp, x: xp.log(x),
    "tanh": lambda xp, x: xp.tanh(x),
    "logaddexp": lambda xp, x: xp.logaddexp(x, x),
    "to integer and back": lambda xp, x: xp.astype(xp.astype(xp.isnan(x), np.int8), np.float32),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_special_values_pass_elementwise_as_in_numpy_down_to_the_sign_of_zero(name: str) -> None:
    of = ELEMENTWISE[name]
    # which of two equal zeros minimum and maximum give is left open by NumPy
    against_numpy(
        sample(placements({1: [None], 2: [None], 3: [None]}), 8, name),
        lambda x, case: of(it, x),
        lambda x, case: of(np, x),
        signs=name not in ("maximum", "minimum", "clip"),
    )


def test_subnormals_are_not_flushed_here_nor_in_the_users_numpy_afterwards() -> None:
    tiny = np.finfo(np.float32).smallest_subnormal
    it.config.small_elements = 0
    values = np.full(100_000, tiny * 4, np.float32)
    halved = (it.asarray(values) * np.float32(0.5) + np.float32(0)).numpy()
    assert (halved == tiny * 2).all()
    assert values[0] * np.float32(0.5) == tiny * 2


# B2: empty, 0-d, length 1 -------------------------------------------------------------------------

ODD_SHAPES: dict[str, Callable[[Any], Any]] = {
    "sum of nothing": lambda xp: xp.sum(xp.zeros((0,))),
    "sum over an empty axis": lambda xp: xp.sum(xp.zeros((0, 3)), axis=0),
    "sum along an empty tensor": lambda xp: xp.sum(xp.zeros((0, 3)), axis=1),
    "product of nothing": lambda xp: xp.prod(xp.zeros((2, 0), dtype=xp.int64), axis=1),
    "any of nothing": lambda xp: xp.any(xp.zeros((0,))),
    "all of nothing": lambda xp: xp.all(xp.zeros((0,))),
    "count of nothing": lambda xp: xp.count_nonzero(xp.zeros((0, 2))),
    "max along what is left": lambda xp: xp.max(xp.zeros((0, 3)), axis=1),
    "argmax along what is left": lambda xp: xp.argmax(xp.zeros((0, 3)), axis=1),
    "cumsum of nothing": lambda xp: xp.cumsum(xp.zeros((0,))),
    "sort of nothing": lambda xp: xp.sort(xp.zeros((0,))),
    "sort along an empty axis": lambda xp: xp.sort(xp.zeros((3, 0)), axis=1),
    "argsort of nothing": lambda xp: xp.argsort(xp.zeros((0,))),
    "unique of nothing": lambda xp: xp.unique(xp.zeros((0,))),
    "nonzero of nothing": lambda xp: xp.nonzero(xp.zeros((0, 2)))[1],
    "matmul without rows": lambda xp: xp.zeros((0, 3)) @ xp.ones((3, 2)),
    "matmul without inner axis": lambda xp: xp.ones((2, 0)) @ xp.ones((0, 3)),
    "einsum without inner axis": lambda xp: xp.einsum(
        "ik,jk->ij", xp.ones((2, 0)), xp.ones((3, 0))
    ),
    "concat with empty": lambda xp: xp.concat(
        [xp.zeros((0, 2)), xp.ones((3, 2)), xp.zeros((0, 2))]
    ),
    "stack of empty": lambda xp: xp.stack([xp.zeros((0,)), xp.zeros((0,))], axis=1),
    "reshape of empty": lambda xp: xp.reshape(xp.zeros((0, 4)), (2, 0, 7)),
    "transpose of empty": lambda xp: xp.permute_dims(xp.zeros((0, 4, 2)), (2, 0, 1)),
    "flip of empty": lambda xp: xp.flip(xp.zeros((0, 4))),
    "roll of empty": lambda xp: xp.roll(xp.zeros((0,)), 3),
    "pad of empty": lambda xp: xp.pad(xp.zeros((0,)), (2, 1)),
    "tile of empty": lambda xp: xp.tile(xp.zeros((0, 2)), (3, 1)),
    "repeat of empty": lambda xp: xp.repeat(xp.zeros((0,)), 3),
    "broadcast to empty": lambda xp: xp.broadcast_to(xp.ones((1, 3)), (0, 3)),
    "take nothing": lambda xp: xp.take(xp.ones((4, 2)), xp.zeros((0,), dtype=xp.int64), axis=0),
    "slice to nothing": lambda xp: xp.ones((5, 3))[3:3, ::-1] * 2,
    "elementwise on empty": lambda xp: xp.exp(xp.zeros((0, 3))) + xp.ones((3,)),
    "empty plus 0-d": lambda xp: xp.zeros((0,)) + xp.asarray(2.0),
    "mask that keeps none": lambda xp: xp.arange(20)[xp.arange(20) > 100],
    "sum after a mask that keeps none": lambda xp: xp.sum(xp.arange(20)[xp.arange(20) > 100]),
    "mask that empties the first tiles": lambda xp: xp.arange(50)[xp.arange(50) > 40] * 2,
    "mask that empties the last tiles": lambda xp: xp.sort(-xp.arange(50)[xp.arange(50) < 3]),
    "mask that empties the middle": lambda xp: xp.cumsum(
        xp.arange(60)[(xp.arange(60) < 5) | (xp.arange(60) > 55)]
    ),
    "max after a mask": lambda xp: xp.max(xp.arange(50)[xp.arange(50) < 3]),
    "unique after a mask": lambda xp: xp.unique((xp.arange(50) % 4)[xp.arange(50) > 44]),
    "mask of a 0-d tensor": lambda xp: xp.asarray(3.0)[xp.asarray(True)],
    "0-d sum": lambda xp: xp.sum(xp.asarray(3.5)),
    "0-d arithmetic": lambda xp: (xp.asarray(3) + xp.asarray(4.5)) / 2,
    "0-d argmax": lambda xp: xp.argmax(xp.asarray(3.5)),
    "0-d broadcast": lambda xp: xp.asarray(2) * xp.arange(20),
    "0-d reshape": lambda xp: xp.reshape(xp.asarray(2.0), (1, 1)),
    "0-d where": lambda xp: xp.where(xp.asarray(True), xp.asarray(1), xp.asarray(2.5)),
    "one value mean": lambda xp: xp.mean(xp.asarray([4.0])),
    "one value variance": lambda xp: xp.var(xp.asarray([4.0])),
    "one value sort": lambda xp: xp.sort(xp.asarray([4.0])),
    "one row matmul": lambda xp: xp.ones((1, 30)) @ xp.ones((30, 1)),
    "one by one broadcast": lambda xp: xp.ones((1, 1)) + xp.ones((17, 1)),
    "one value cumsum": lambda xp: xp.cumsum(xp.asarray([4.0])),
}


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", ODD_SHAPES)
def test_empty_zero_dimensional_and_single_tensors_have_numpys_value(name: str) -> None:
    of = ODD_SHAPES[name]
    with it.init(devices="cpu*3"):
        assert_same(of(it), of(np), say=name)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_moments_of_nothing_are_nan_without_a_warning(name: str) -> None:
    with it.init(devices="cpu*3"):
        assert np.isnan(float(getattr(it, name)(it.zeros((0,)))))
        assert np.isnan(getattr(it, name)(it.zeros((0, 5)), axis=0).numpy()).all()
        assert getattr(it, name)(it.zeros((5, 0)), axis=0).shape == (0,)


@pytest.mark.usefixtures("strict")
def test_variance_of_one_value_with_correction_one_is_nan_without_a_warning() -> None:
    with it.init(devices="cpu*3"):
        assert np.isnan(float(it.var(it.asarray([4.0]), correction=1)))


WRONG_AT_THE_CALL: dict[str, tuple[Callable[[Any], Any], str]] = {
    "shapes that do not broadcast": (lambda xp: xp.ones((3,)) + xp.ones((4,)), "3.*4"),
    "inner axes that differ": (lambda xp: xp.ones((2, 3)) @ xp.ones((4, 2)), "3.*4|4.*3"),
    "reshape to another size": (lambda xp: xp.reshape(xp.ones((6,)), (4, 2)), "6|8|4, 2"),
    "reshape with two unknowns": (lambda xp: xp.reshape(xp.ones((6,)), (-1, -1)), "(?i)one|-1"),
    "axis out of range": (lambda xp: xp.sum(xp.ones((3,)), axis=2), "(?i)axis.*2|2.*axis"),
    "axis given twice": (lambda xp: xp.sum(xp.ones((3, 3)), axis=(0, 0)), "(?i)duplicate|axis"),
    "sort of a 0-d tensor": (lambda xp: xp.sort(xp.asarray(1.0)), "(?i)axis|0-d|dimension"),
    "max of nothing": (lambda xp: xp.max(xp.zeros((0,))), "(?i)zero-size|empty|identity"),
    "argmin of nothing": (lambda xp: xp.argmin(xp.zeros((0,))), "(?i)empty|zero-size"),
    "max along nothing": (lambda xp: xp.max(xp.zeros((0, 3)), axis=0), "(?i)zero-size|empty|identity"),
    "invert a float": (lambda xp: ~xp.ones((3,)), "(?i)invert.*float|float.*invert|not supported"),
    "shift a float": (lambda xp: xp.ones((3,)) << 1, "(?i)shift|not supported"),
    "and of floats": (lambda xp: xp.ones((3,)) & xp.ones((3,)), "(?i)and|not supported"),
    "concat of other shapes": (lambda xp: xp.concat([xp.ones((2, 3)), xp.ones((2, 4))]), "3.*4"),
    "stack of other shapes": (lambda xp: xp.stack([xp.ones((2,)), xp.ones((3,))]), "(?i)shape"),
    "integer index out of range": (lambda xp: xp.ones((3,))[5], "(?i)5|out of"),
    "too many indices": (lambda xp: xp.ones((3,))[0, 0], "(?i)index|indices"),
    "mask of another length": (lambda xp: xp.ones((3,))[xp.ones((4,), dtype=xp.bool)], "3.*4|4.*3"),
    "float index": (lambda xp: xp.ones((3,))[1.5], "(?i)ind"),
    "permutation that repeats": (lambda xp: xp.permute_dims(xp.ones((2, 3)), (0, 0)), "(?i)axes|axis|repeated"),
    "squeeze of a long axis": (lambda xp: xp.squeeze(xp.ones((2, 3)), axis=0), "(?i)axis|size|one|1"),
    "broadcast to a smaller shape": (lambda xp: xp.broadcast_to(xp.ones((3,)), (2,)), "(?i)broadcast"),
    "einsum with too many labels": (lambda xp: xp.einsum("ijk->i", xp.ones((2, 2))), "(?i)ijk|subscript|label|dimension"),
    "einsum label of two sizes": (lambda xp: xp.einsum("ij,jk->ik", xp.ones((2, 3)), xp.ones((4, 2))), "3.*4|4.*3|j"),
    "write of a wrong shape": (lambda xp: xp.zeros((3,)).__setitem__(slice(0, 2), xp.ones((3,))), "3.*2|2.*3"),
    "cholesky of a rectangle": (lambda xp: xp.linalg.cholesky(xp.ones((2, 3))), "(?i)square"),
}  # fmt: skip


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", WRONG_AT_THE_CALL)
def test_what_shapes_and_dtypes_forbid_is_numpys_error_at_the_call(name: str) -> None:
    call, text = WRONG_AT_THE_CALL[name]
    with it.init(devices="cpu*3"), pytest.raises(numpys_error(call), match=text):
        call(it)  # the call itself: nothing is computed


def numpys_error(call: Callable[[Any], Any]) -> type[BaseException]:
    """What NumPy raises, as the built-in type that its own types inherit from."""
    try:
        call(np)
    except Exception as error:
        kinds = (IndexError, TypeError, ValueError, OverflowError)
        return next((kind for kind in kinds if isinstance(error, kind)), type(error))
    raise AssertionError("NumPy raises nothing here")


WRONG_VALUES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "take past the end": (
        lambda: it.take(it.arange(30), it.asarray([1, 2, 99, 3] * 5)),
        IndexError,
        "(?i)99|out of bounds",
    ),
    "integer array index past the end": (
        lambda: it.arange(30)[it.asarray([1, 2, -31, 3] * 5)] * 2,
        IndexError,
        "(?i)31|out of bounds",
    ),
    "cholesky of a matrix that is not positive": (
        lambda: it.linalg.cholesky(-it.eye(12)),
        np.linalg.LinAlgError,
        "(?i)positive",
    ),
    "solve with a singular matrix": (
        lambda: it.linalg.solve(it.zeros((4, 4)), it.ones((4,))),
        np.linalg.LinAlgError,
        "(?i)singular",
    ),
}


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", WRONG_VALUES)
def test_what_values_forbid_is_numpys_error_at_evaluation_and_the_session_goes_on(
    name: str,
) -> None:
    build, kind, text = WRONG_VALUES[name]
    with it.init(devices="cpu*3"):
        with pytest.raises(kind, match=text):
            build().numpy()
        assert it.sum(it.arange(100)).numpy() == 4950


# B3: impossible shapes ----------------------------------------------------------------------------

IMPOSSIBLE: dict[str, tuple[Any, tuple[type[Exception], ...], str]] = {
    "4 Ei elements": ((1 << 62,), (ValueError, MemoryError), "(?i)large|big|bytes|allocate|dimension"),
    "a size beyond 64 bits": ((1 << 70,), (ValueError, MemoryError, OverflowError), "(?i)large|big|bytes|dimension"),
    "a product that overflows": ((1 << 40, 1 << 40), (ValueError, MemoryError), "(?i)large|big|bytes|dimension"),
    "a product that wraps to zero": ((1 << 32, 1 << 32), (ValueError, MemoryError), "(?i)large|big|bytes|dimension"),
    "a negative size": ((3, -1), (ValueError,), "(?i)negative|-1"),
    "65 axes": ((1,) * 65, (ValueError,), "(?i)64|65|axes|dim"),
    "a float size": ((2.5,), (TypeError,), "(?i)integer|float"),
    "a text size": (("3",), (TypeError,), "(?i)integer|str"),
    "no size at all": ((None,), (TypeError,), "(?i)integer|None"),
}  # fmt: skip
MAKERS: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda shape: it.zeros(shape),
    "empty": lambda shape: it.empty(shape),
    "full": lambda shape: it.full(shape, 3.0),
    "broadcast_to": lambda shape: it.broadcast_to(it.ones((1,)), shape),
}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_shape_is_refused_at_the_call_and_allocates_nothing(
    name: str, make: str
) -> None:
    shape, kinds, text = IMPOSSIBLE[name]
    with it.init(devices="cpu", memory="64MiB"):
        it.zeros((2,))
        tracemalloc.start()
        try:
            with pytest.raises(kinds, match=text):
                MAKERS[make](shape)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak_bytes < 4 << 20


def test_reshape_to_an_overflowing_product_is_refused() -> None:
    with pytest.raises(ValueError, match=r"(?i)reshape|size|shape"):
        it.reshape(it.zeros((0,)), (1 << 40, 1 << 40, 0 + 1))


def test_a_lazy_petabyte_may_exist_and_its_corner_may_be_read_but_not_all_of_it() -> None:
    outcome = child.run(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # a plan of all its tiles
        it.init(devices="cpu*2", memory="64MiB")
        huge = it.ones((1 << 22, 1 << 25), dtype=it.float64) * 2
        reply(shape=list(huge.shape), corner=huge[:2, :3].numpy().tolist())
        begun = time.perf_counter()
        try:
            it.compute(huge)
        except it.MemoryBudgetError as error:
            reply(need=error.need_bytes, limit=error.limit_bytes)
        reply(refused_s=time.perf_counter() - begun, after=float(huge[5, 5]))
        """
    )
    assert outcome["shape"] == [1 << 22, 1 << 25]
    assert outcome["corner"] == [[2.0] * 3] * 2
    assert outcome["need"] > outcome["limit"] == 64 << 20
    assert outcome["refused_s"] < 5
    assert outcome["after"] == 2.0


# B4: dtypes across tile borders -------------------------------------------------------------------

DTYPES: dict[str, Callable[[Any], Any]] = {
    "int8 sum": lambda xp: xp.sum(xp.full((50,), 127, dtype=xp.int8)),
    "uint8 sum": lambda xp: xp.sum(xp.full((50,), 255, dtype=xp.uint8)),
    "int16 product": lambda xp: xp.prod(xp.full((12,), 3, dtype=xp.int16)),
    "int8 cumsum": lambda xp: xp.cumsum(xp.full((50,), 100, dtype=xp.int8)),
    "int64 sum wraps": lambda xp: xp.sum(xp.full((20,), (1 << 62) + 12345, dtype=xp.int64)),
    "int64 product wraps": lambda xp: xp.prod(xp.full((50,), 7, dtype=xp.int64)),
    "int64 cumsum wraps": lambda xp: xp.cumsum(xp.full((20,), (1 << 62) + 1, dtype=xp.int64)),
    "int8 addition wraps": lambda xp: xp.full((20,), 100, dtype=xp.int8) + 100,
    "uint64 subtraction wraps": lambda xp: xp.zeros((20,), dtype=xp.uint64) - xp.ones((20,), dtype=xp.uint64),
    "int8 minimum negated": lambda xp: -xp.full((20,), -128, dtype=xp.int8),
    "bool sum": lambda xp: xp.sum(xp.ones((300,), dtype=xp.bool)),
    "bool mean": lambda xp: xp.mean(xp.ones((30,), dtype=xp.bool)),
    "bool product": lambda xp: xp.prod(xp.ones((30,), dtype=xp.bool)),
    "bool cumsum": lambda xp: xp.cumsum(xp.ones((30,), dtype=xp.bool)),
    "bool addition": lambda xp: xp.ones((9,), dtype=xp.bool) + xp.ones((9,), dtype=xp.bool),
    "float16 mean does not overflow": lambda xp: xp.mean(xp.full((200,), 60000, dtype=xp.float16)),
    "float16 sum overflows": lambda xp: xp.sum(xp.full((20,), 60000, dtype=xp.float16)),
    "float16 mean of many": lambda xp: xp.mean(xp.ones((5000,), dtype=xp.float16)),
    "float16 var": lambda xp: xp.var(xp.asarray(np.arange(300) % 7, dtype=xp.float16)),
    "float32 mean keeps its dtype": lambda xp: xp.mean(xp.ones((50,), dtype=xp.float32)),
    "int32 mean": lambda xp: xp.mean(xp.arange(50, dtype=xp.int32)),
    "int32 divided": lambda xp: xp.arange(20, dtype=xp.int32) / xp.full((20,), 3, dtype=xp.int32),
    "int32 plus a float": lambda xp: xp.arange(20, dtype=xp.int32) + 1.5,
    "float32 plus a float": lambda xp: xp.ones((20,), dtype=xp.float32) + 1.5,
    "uint8 plus int8": lambda xp: xp.ones((20,), dtype=xp.uint8) + xp.ones((20,), dtype=xp.int8),
    "uint64 plus int64": lambda xp: xp.ones((20,), dtype=xp.uint64) + xp.ones((20,), dtype=xp.int64),
    "int64 plus float32": lambda xp: xp.ones((20,), dtype=xp.int64) + xp.ones((20,), dtype=xp.float32),
    "integer divided by zero": lambda xp: xp.arange(20) // 0,
    "integer modulo zero": lambda xp: xp.arange(20) % 0,
    "negative divided by zero": lambda xp: -xp.arange(20, dtype=xp.int8) // xp.zeros((20,), dtype=xp.int8),
    "float divided by zero": lambda xp: (xp.arange(20) - 5.0) / 0,
    "float floor divided by zero": lambda xp: (xp.arange(20) - 5.0) // 0,
    "smallest integer divided by -1": lambda xp: xp.full((9,), -128, dtype=xp.int8) // xp.full((9,), -1, dtype=xp.int8),
    "floor division of signs": lambda xp: (xp.arange(20) - 10) // 3,
    "modulo of signs": lambda xp: (xp.arange(20) - 10) % -3,
    "left shift past the width": lambda xp: xp.ones((9,), dtype=xp.int32) << 40,
    "integer power": lambda xp: xp.arange(20) ** 3,
    "integer power wraps": lambda xp: xp.full((9,), 10, dtype=xp.int32) ** 12,
    "sum into a given dtype": lambda xp: xp.sum(xp.full((50,), 100, dtype=xp.int8), dtype=xp.int8),
    "matmul of int8": lambda xp: xp.full((3, 40), 5, dtype=xp.int8) @ xp.full((40, 2), 5, dtype=xp.int8),
    "matmul of bool": lambda xp: xp.ones((3, 40), dtype=xp.bool) @ xp.ones((40, 2), dtype=xp.bool),
    "complex sum": lambda xp: xp.sum(xp.full((40,), 1 + 2j)),
    "large values beyond float32": lambda xp: xp.asarray([2**53 + 1] * 9) + 1,
    "max of uint64": lambda xp: xp.max(xp.full((20,), 2**64 - 1, dtype=xp.uint64)),
    "sort of uint64": lambda xp: xp.sort(xp.asarray([2**64 - 1, 5, 2**63, 1] * 4, dtype=xp.uint64)),
}  # fmt: skip


@pytest.mark.parametrize("way", ["strict", "usual"])
@pytest.mark.parametrize("name", DTYPES)
def test_dtype_and_value_are_numpys_across_tile_borders(name: str, way: str) -> None:
    of = DTYPES[name]
    if way == "strict":
        it.config.small_elements, it.config.tile_elements = 0, 7
    with np.errstate(all="ignore"):
        wanted = of(np)
    with it.init(devices="cpu*3"):
        assert_same(of(it), wanted, say=name)


OVERFLOWS: dict[str, Callable[[Any], Any]] = {
    "uint8 plus 300": lambda xp: xp.ones((20,), dtype=xp.uint8) + 300,
    "uint8 minus a negative": lambda xp: xp.ones((20,), dtype=xp.uint8) + -1,
    "int8 times 128": lambda xp: xp.ones((20,), dtype=xp.int8) * 128,
    "300 into uint8": lambda xp: xp.full((20,), 300, dtype=xp.uint8),
    "assignment of 300": lambda xp: xp.ones((20,), dtype=xp.uint8).__setitem__(3, 300),
    "in place plus 300": lambda xp: xp.ones((20,), dtype=xp.uint8).__iadd__(300),
}


@pytest.mark.parametrize("way", ["strict", "usual"])
@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_python_integer_out_of_range_is_an_overflow_error_at_the_call(
    name: str, way: str
) -> None:
    if way == "strict":
        it.config.small_elements, it.config.tile_elements = 0, 7
    with pytest.raises(OverflowError, match="out of bounds"):
        OVERFLOWS[name](np)
    with it.init(devices="cpu*3"), pytest.raises(OverflowError, match=r"300|-1|128"):
        OVERFLOWS[name](it)


@pytest.mark.parametrize("way", ["strict", "usual"])
def test_an_in_place_operation_that_would_lose_a_kind_is_refused(way: str) -> None:
    if way == "strict":
        it.config.small_elements, it.config.tile_elements = 0, 7
    with it.init(devices="cpu*3"):
        x = it.arange(20)
        with pytest.raises(TypeError, match=r"(?i)cast|same_kind"):
            x /= 2
        assert (x.numpy() == np.arange(20)).all()


# B6: foreign input --------------------------------------------------------------------------------


def _read_only() -> np.ndarray[Any, Any]:
    values = np.arange(24.0)
    values.flags.writeable = False
    return values


FOREIGN: dict[str, Callable[[], Any]] = {
    "read-only": _read_only,
    "every second": lambda: np.arange(48.0)[::2],
    "backwards": lambda: np.arange(24.0)[::-1],
    "transposed": lambda: np.arange(24.0).reshape(4, 6).T,
    "Fortran order": lambda: np.asfortranarray(np.arange(24.0).reshape(4, 6)),
    "a corner": lambda: np.arange(60.0).reshape(6, 10)[1:5, 2:8],
    "broadcast": lambda: np.broadcast_to(np.arange(6.0), (4, 6)),
    "byte-swapped": lambda: np.arange(24.0).astype(">f8"),
    "byte-swapped integers": lambda: np.arange(24).astype(">i4"),
    "not aligned": lambda: np.frombuffer(b"x" + np.arange(24.0).tobytes(), "u1")[1:].view("f8"),
    "a field of records": lambda: np.zeros(9, dtype=[("a", "i1"), ("b", "f8")])["b"] + 1.0,
    "list of lists": lambda: [[1, 2, 3], [4, 5, 6]],
    "list of tuples with a float": lambda: [(1, 2.5), (3, 4)],
    "nested with NumPy scalars": lambda: [[np.float32(1), 2], [np.int8(3), True]],
    "a range": lambda: list(range(24)),
    "a Python float": lambda: 2.5,
    "a NumPy scalar": lambda: np.float32(2.5),
    "bytes-like": lambda: memoryview(bytearray(range(24))),
    "half": lambda: np.arange(24, dtype=np.float16),
    "bool": lambda: np.arange(24) % 3 == 0,
    "complex64": lambda: np.arange(24, dtype=np.complex64) * 1j,
    "empty list": lambda: [],
}


@pytest.mark.parametrize("way", ["strict", "usual"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_array_is_taken_over_right(name: str, way: str) -> None:
    if way == "strict":
        it.config.small_elements, it.config.tile_elements = 0, 7
    foreign = FOREIGN[name]()
    wanted = np.asarray(foreign)
    wanted = wanted.astype(wanted.dtype.newbyteorder("="))
    with it.init(devices="cpu*3"):
        tensor = it.asarray(foreign)
        assert_same(tensor, wanted, say=name)
        assert_same(it.sum(tensor), np.sum(wanted), say=name)


REFUSED: dict[str, tuple[Callable[[], Any], tuple[type[Exception], ...], str]] = {
    "objects": (lambda: np.array([1, "a", None], dtype=object), (TypeError,), "(?i)object"),
    "numbers as objects": (lambda: np.array([1, 2], dtype=object), (TypeError,), "(?i)object"),
    "texts": (lambda: np.array(["a", "bc"]), (TypeError,), "(?i)str|dtype|U"),
    "bytes": (lambda: np.array([b"a", b"bc"]), (TypeError,), "(?i)bytes|dtype|S"),
    "dates": (lambda: np.array(["2026-01-01"], "M8[D]"), (TypeError,), "(?i)datetime|dtype"),
    "durations": (lambda: np.array([3], "m8[s]"), (TypeError,), "(?i)timedelta|dtype"),
    "records": (lambda: np.zeros(3, dtype=[("a", "i4")]), (TypeError,), "(?i)void|struct|dtype|record"),
    "a ragged list": (lambda: [[1, 2], [3]], (ValueError, TypeError), "(?i)inhomogeneous|ragged|shape"),
    "a text": (lambda: "abc", (TypeError,), "(?i)str|text|dtype"),
    "None": (lambda: None, (TypeError,), "(?i)None|object"),
    "a dictionary": (lambda: {"a": 1}, (TypeError,), "(?i)dict|object"),
    "a list with a text": (lambda: [1, "a"], (TypeError, ValueError), "(?i)str|dtype|convert|U"),
    "an integer beyond 64 bits": (lambda: [1 << 70], (TypeError, OverflowError), "(?i)object|large|range|int"),
    "long double": (lambda: np.ones(3, np.longdouble), (TypeError,), "(?i)longdouble|float128|dtype"),
    "a tensor without values": (lambda: torch.empty(3, device="meta"), (TypeError, ValueError), "(?i)meta"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_foreign_array_that_cannot_be_held_is_refused_at_the_call(name: str) -> None:
    make, kinds, text = REFUSED[name]
    foreign = make()
    with it.init(devices="cpu*3"), pytest.raises(kinds, match=text):
        it.asarray(foreign)


def test_a_masked_array_is_refused_or_its_mask_is_obeyed() -> None:
    masked = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(TypeError, match=r"(?i)mask"):
        it.asarray(masked)


@pytest.mark.parametrize("size", [24, 100_000])
def test_a_write_to_the_source_after_the_call_is_not_seen(size: int) -> None:
    source = np.zeros(size)
    tensor = it.asarray(source)
    later = tensor + 1
    source[:] = 99
    assert (later.numpy() == 1).all()
    assert (tensor.numpy() == 0).all()


@pytest.mark.parametrize("size", [24, 100_000])
def test_a_read_only_view_of_a_writable_array_is_not_trusted(size: int) -> None:
    source = np.zeros(size)
    view = source.view()
    view.flags.writeable = False
    tensor = it.asarray(view)
    source[:] = 99
    assert (tensor.numpy() == 0).all()


def mapped_and_changed(path: Path, mode: Any) -> it.Tensor:
    """A tensor of a memory map whose file is written to afterwards."""
    np.zeros(100_000).tofile(path)
    tensor = it.asarray(np.memmap(path, dtype=np.float64, mode=mode))
    writer = np.memmap(path, dtype=np.float64, mode="r+")
    writer[:] = 99
    writer.flush()
    return tensor


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_a_memory_map_that_changes_under_us_keeps_its_old_values(tmp_path: Path, mode: Any) -> None:
    assert (mapped_and_changed(tmp_path / "x.bin", mode).numpy() == 0).all()


def test_a_read_only_memory_map_is_its_file_and_a_change_of_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the file was changed after it was opened"):
        mapped_and_changed(tmp_path / "x.bin", "r").numpy()


@pytest.mark.parametrize("size", [24, 100_000])
def test_a_write_to_a_tensor_never_reaches_its_source(size: int) -> None:
    source = np.zeros(size)
    tensor = it.asarray(source)
    tensor[:] = 5
    tensor += 1
    it.compute(tensor)
    assert (source == 0).all()


@pytest.mark.parametrize("size", [24, 100_000])
def test_an_exported_array_does_not_change_when_the_tensor_is_written_later(size: int) -> None:
    tensor = it.asarray(np.zeros(size)) + 1
    exported = tensor.numpy()
    tensor[:] = 5
    it.compute(tensor)
    assert (np.asarray(exported) == 1).all()


@pytest.mark.parametrize("kind", ["contiguous", "transposed"])
def test_a_torch_tensor_is_copied_right(kind: str) -> None:
    source = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    if kind == "transposed":
        source = source.T
    tensor = it.asarray(source)
    wanted = source.clone().numpy()
    source += 100
    assert_same(tensor, wanted)


def test_torchs_own_settings_are_left_as_found() -> None:
    before = (
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.initial_seed(),
        torch.random.get_rng_state().sum(),
    )
    it.config.small_elements = 0
    with it.init(devices="cpu*3"):
        x = it.asarray(np.ones((300, 300), np.float32))
        it.compute(x @ x + x.mean())
    after = (
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.initial_seed(),
        torch.random.get_rng_state().sum(),
    )
    assert after == before
