"""Every op of the table, cut every way, on one to four devices, is NumPy's.

Strict runs: nothing takes the small path. Each op has rows (`rows.py`) in which every pair of
factor levels meets; a run takes the first rows of each op, `INFINITENSOR_TEST_ALL=1` all of them,
`INFINITENSOR_TEST_SEED` others. `INFINITENSOR_TEST_DEVICES="cuda:0,cuda:0*4"` runs it on a GPU.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings, simplefilter

import numpy as np
import pytest
from tests.ops.pairwise import pairwise_rows
from tests.ops.rows import (
    CHANGING,
    DEVICES,
    FINITE_ON_GPU,
    ON_CPU,
    RANDOM,
    factors,
    given,
    is_random,
    rows,
)

import infinitensor as it
from infinitensor.api.functions.all_functions import PUBLIC
from infinitensor.api.functions.namespace import namespace
from infinitensor.api.functions.options import numpys
from infinitensor.api.session.session import current_session
from infinitensor.ops import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infinitensor.ir.op import Op

NAMES = sorted(name for name, op in TABLE.items() if not is_random(op))
RANDOM_NAMES = sorted(name for name, op in TABLE.items() if is_random(op))

ULP = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}
ULP |= {"complex64": ULP["float32"], "complex128": ULP["float64"]}
N_ULP = {"equal": 4, "close": 512} if ON_CPU else {"equal": 64, "close": 4096}


# --- sessions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=DEVICES)
def devices(request: pytest.FixtureRequest) -> Iterator[str]:
    """A strict session on these devices, shared by the ops."""
    with strict(request.param):
        yield request.param


@contextmanager
def strict(devices: str) -> Iterator[None]:
    """Everything through record, plan, tiles and devices."""
    before = (it.config.small_elements, it.config.tile_elements)
    it.config.small_elements = 0
    try:
        with it.init(devices):
            yield
    finally:
        it.config.small_elements, it.config.tile_elements = before


# --- operands ---------------------------------------------------------------------------------


def operand(array: Any, form: str) -> Any:
    """A tensor with these values that came to be in this way."""
    ndim, size = np.ndim(array), np.size(array)
    if form == "transposed" and ndim > 1:
        return it.asarray(np.ascontiguousarray(array.T)).T
    if form == "reversed" and ndim:
        return it.asarray(array[(slice(None, None, -1),) * ndim])[(slice(None, None, -1),) * ndim]
    if form == "sliced" and ndim:
        base = np.ones((*array.shape[:-1], 2 * array.shape[-1] + 3), array.dtype)
        base[..., 1:-2:2] = array
        return it.asarray(base)[..., 1:-2:2]
    if form in ("rows", "columns", "blocks") and size and ndim:
        wanted = {"rows": (3, 1), "columns": (1, 3), "blocks": (2, 2)}[form]
        pieces = [min(n, wanted[i > 0]) for i, n in enumerate(array.shape)]
        return it.asarray(array).relayout(*pieces)
    if form == "made":
        return it.copy(it.asarray(array))
    return it.asarray(array)


def operands(op: Op, value: Any, form: str) -> Any:
    """Arguments with tensors in place of arrays."""
    if isinstance(value, np.ndarray) or (
        isinstance(value, np.generic) and op.kind != "elementwise"
    ):
        return operand(np.asarray(value), form) if isinstance(value, np.ndarray) else value
    if isinstance(value, list) and any(isinstance(one, np.ndarray) for one in value):
        return [operands(op, one, form) for one in value]
    return value


# --- results ----------------------------------------------------------------------------------


def function_of(op: Op) -> Callable[..., Any]:
    """The op as programs over it call it; internal ops have one too."""
    inner: Callable[..., Any] = getattr(namespace, op.name.replace(".", "_"))
    return it.astype if op.name == "_cast" else PUBLIC.get(op.name, inner)


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a call gives: values, or the error it raises."""
    try:
        return function(*args, **kwargs)
    except (
        TypeError,
        ValueError,
        IndexError,
        ZeroDivisionError,
        OverflowError,
        np.linalg.LinAlgError,
    ) as error:
        return error


def wanted(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NumPy's outcome."""
    oracle = op.oracle or numpys(op.name)
    with np.errstate(all="ignore"), catch_warnings():
        simplefilter("ignore")
        return outcome(oracle, *args, **kwargs)


def computed(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], form: str) -> Any:
    """Ours."""

    def run() -> Any:
        # NumPy gives it in the same places; torch's is a UserWarning.
        filterwarnings("ignore", "Casting complex values to real discards")
        ours = {name: operands(op, value, form) for name, value in kwargs.items()}
        mine = [operands(op, arg, form) for arg in args]
        counts = current_session().counts
        before = counts["host_arrays"]
        made = arrays(function_of(op)(*mine, **ours))
        assert counts["host_arrays"] == before, "NumPy took values to the host"
        return made

    with catch_warnings():
        return outcome(run)


def arrays(made: Any) -> Any:
    """NumPy arrays of a result, computed together."""
    if isinstance(made, tuple | list):
        it.compute(*made)
        return [arrays(one) for one in made]
    return made.numpy() if isinstance(made, it.Tensor) else made


def assert_same(op: Op, got: Any, want: Any, ulp: float = 0.0) -> None:
    """Structure, dtype, shape and values; the place of NaN and the sign of zero too.

    `ulp` is the relative step of the coarsest input.
    """
    if isinstance(want, Exception) or isinstance(got, Exception):
        if isinstance(got, Exception) and not isinstance(want, Exception):
            raise got
        assert isinstance(got, type(want)) or isinstance(want, type(got)), f"{got!r}, not {want!r}"
        return
    if op.compared is not None:
        got, want, op = op.compared(got), op.compared(want), replace(op, compared=None)
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(op, one, other, ulp)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    ulp = max(ULP[want.dtype.name], ulp if op.same == "close" else 0.0) * N_ULP[op.same]
    scale = 0.0 if ON_CPU else 1 / N_ULP["equal"]
    if op.same == "close" and want.size:
        size = np.abs(want[np.isfinite(want)].astype(np.complex128))
        scale = float(size.max(initial=0.0)) + (1.0 if op.kind != "elementwise" else 0.0)
    if want.dtype == np.float16:
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=ulp, atol=ulp * scale)
    if op.kind == "elementwise" and want.dtype.kind == "f" and ON_CPU:
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


# --- the tests --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_in_tiles_and_on_devices_an_op_is_numpys(name: str, devices: str) -> None:
    op = TABLE[name]
    failures = []
    for k, row in enumerate(rows(name)):
        if row["devices"] != devices:
            continue
        it.config.tile_elements = row["tile"]
        args, kwargs = given(op, row, np.random.default_rng(k))
        try:
            if name in CHANGING:
                assert_changed(name, args, kwargs, row["form"])
            else:
                want = wanted(op, args, kwargs)
                got = computed(op, args, kwargs, row["form"])
                assert_same(
                    op,
                    got,
                    want,
                    max((ULP.get(str(getattr(a, "dtype", "")), 0.0) for a in args), default=0.0),
                )
        except Exception as error:  # the other rows say whether it is the row or the op
            failures.append(f"{row} {described(args)} {kwargs}: {type(error).__name__}: {error}")
    assert not failures, f"{len(failures)} rows fail\n" + "\n\n".join(failures)


def described(args: tuple[Any, ...]) -> str:
    """Arguments in short."""
    return ", ".join(
        f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a) for a in args
    )


def assert_changed(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], form: str) -> None:
    """A function that changes its first argument leaves in it what NumPy's leaves."""
    expected = np.array(args[0])
    x = operand(args[0], form)
    rest = [
        a if name == "_write" and i == 0 else operands(TABLE[name], a, form)
        for i, a in enumerate(args[1:])
    ]
    with np.errstate(all="ignore"), catch_warnings():
        simplefilter("ignore")
        if name == "_write":
            expected[args[1]] = args[2]
        else:
            getattr(np, name)(expected, *args[1:], **kwargs)
    if name == "_write":
        x[rest[0]] = rest[1]
    else:
        getattr(namespace, name)(x, *rest, **kwargs)
    np.testing.assert_array_equal(x.numpy(), expected)
    assert x.dtype == expected.dtype


_REFERENCE: dict[tuple[str, int], Any] = {}


@pytest.mark.parametrize("name", RANDOM_NAMES)
def test_random_numbers_depend_on_neither_tiles_nor_devices(name: str, devices: str) -> None:
    op = TABLE[name]
    for row in rows(name):
        if row["devices"] != devices:
            continue
        args, kwargs = given(op, row, np.random.default_rng(0))
        it.config.tile_elements = row["tile"]
        it.random.seed(5)
        got = computed(op, args, kwargs, "plain")
        if isinstance(got, Exception):
            raise got
        key = (name, row["case"])
        if key not in _REFERENCE:
            _REFERENCE[key] = reference(op, args, kwargs)
        want = _REFERENCE[key]
        assert (np.shape(got), np.asarray(got).dtype) == (np.shape(want), np.asarray(want).dtype)
        exact = ON_CPU and name != "random.multivariate_normal"  # it ends with a matrix product
        if exact or np.asarray(want).dtype.kind != "f":
            np.testing.assert_array_equal(got, want, str(row))
        else:
            np.testing.assert_allclose(got, want, 1e-5, 1e-6, err_msg=str(row))


def reference(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The numbers of one tile on one CPU."""
    before = it.config.tile_elements
    it.config.tile_elements = 1 << 20
    try:
        with it.init("cpu"):
            it.random.seed(5)
            return computed(op, args, kwargs, "plain")
    finally:
        it.config.tile_elements = before


@pytest.mark.parametrize("name", sorted(TABLE))
def test_something_to_test_follows_from_every_line(name: str) -> None:
    op = TABLE[name]
    levels = factors(op)
    assert levels, name
    assert all(len(some) for some in levels.values()), (
        f"{name} has no cases; give its line `cases=`"
    )
    assert op.oracle or is_random(op) or name in CHANGING or numpys(name), f"{name} needs an oracle"


def test_no_table_of_this_suite_names_an_op_that_is_gone() -> None:
    assert set(RANDOM) | set(CHANGING) <= set(TABLE)


def test_every_pair_of_levels_is_in_a_row() -> None:
    levels = {"a": range(5), "b": range(4), "c": range(3), "d": range(2)}
    made = list(pairwise_rows(levels, 1))
    for one in levels:
        for other in levels:
            if one < other:
                pairs = {(row[one], row[other]) for row in made}
                assert len(pairs) == len(levels[one]) * len(levels[other])
    assert len(made) <= 26


def test_what_a_gpu_run_leaves_out_is_listed_and_little() -> None:
    assert set(FINITE_ON_GPU) <= set(TABLE)
    assert len(FINITE_ON_GPU) <= 8, "every dtype of every op runs on a GPU; keep it so"
