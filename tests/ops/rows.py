"""Rows of the matrix of an op: inputs that follow from its line in the table, in every condition.

A row names a level of each factor: dtype, shape, how an operand comes to be (a plain tensor, a
view, another layout), tiling and devices. `given(op, row)` makes NumPy arguments from it.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from tests.ops.pairwise import pairwise_rows

from infinitensor.dtypes import NUMPYS
from infinitensor.ops import TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import Op

Row = dict[str, Any]
Given = tuple[tuple[Any, ...], dict[str, Any]]

EVERYTHING = os.environ.get("INFINITENSOR_TEST_ALL") == "1"
SEED = int(os.environ.get("INFINITENSOR_TEST_SEED", "0"))
DEVICES = tuple(
    os.environ.get("INFINITENSOR_TEST_DEVICES", "cpu,cpu*2,cpu*3,cpu*4").replace(" ", "").split(",")
)
ON_CPU = all(name.startswith("cpu") for name in DEVICES)
TILES = (1, 7, 1 << 20) if ON_CPU else (7, 1 << 20)
N_SAMPLED = 12 if ON_CPU else 8
"""Rows of each op in a run that is not of everything; a program has half: its ops have rows too."""

FORMS = ("plain", "transposed", "reversed", "sliced", "rows", "columns", "blocks", "made")
DTYPES = tuple(dtype.name for dtype in NUMPYS)
AS_GIVEN = "as given"
SECOND = ("same", "other", "int", "float", "complex", "bool", "0-d", "scalar")
VALUES = ("finite", "special")

SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "0-d": ((), (), ()),
    "empty": ((0,), (0,), (0,)),
    "empty axis": ((4, 0, 3), (1, 3), (0, 1)),
    "ones": ((1,), (1,), (1,)),
    "size-1 axes": ((5, 1, 6), (5, 1, 1), (1, 1, 6)),
    "line": ((23,), (23,), (23,)),
    "matrix": ((5, 11), (5, 11), (5, 11)),
    "outer": ((13, 1), (7,), (13, 7)),
    "cube": ((3, 1, 5), (4, 1), (3, 4, 5)),
}
REDUCED = {
    "0-d": (),
    "empty": (0,),
    "empty axis": (4, 0, 3),
    "ones": (1, 1),
    "size-1 axes": (5, 1, 6),
    "line": (23,),
    "matrix": (13, 7),
    "cube": (3, 4, 5),
}
MULTIPLIED = {
    "uneven": ((13, 7), (7, 5)),
    "dot": ((17,), (17,)),
    "row": ((7,), (7, 11)),
    "column": ((13, 7), (7,)),
    "stack": ((2, 5, 4), (4, 3)),
    "stacks": ((2, 1, 5, 4), (3, 4, 2)),
    "none": ((0, 7), (7, 5)),
    "nothing": ((5, 0), (0, 3)),
    "ones": ((1, 1), (1, 1)),
    "outer": ((9, 1), (1, 8)),
}
BY_INTEGERS = frozenset(("power", "pow", "left_shift", "right_shift"))
BY_INTEGERS |= {"bitwise_left_shift", "bitwise_right_shift"}
FINITE_ON_GPU = {
    **dict.fromkeys(
        ("power", "pow", "float_power", "log2", "cosh", "sinh"),
        "torch and NumPy give complex numbers with infinite parts different NaN",
    ),
    "reciprocal": "torch's 1 / 0 is NaN in both parts where NumPy's has an infinity",
}
"""What a run on a GPU leaves out, and why: NaN, infinities and zeros of these ops. No dtype is."""
# Float arrays of the cases of these chapters may be of any dtype; of the others, only floating.
ANY_DTYPE = frozenset(("take", "mask", "sort", "searchsorted", "scan", "matmul", "fft"))
ANY_DTYPE |= {"gather", "join", "pad", "repeat", "diagonal"}
ANY_DTYPE |= {"reduction", "moments", "argminmax_topk", "logsumexp"}
ANY_DTYPE |= {"closeness", "nan", "products", "quantile", "lexsort_partition", "selection", "sets"}
ANY_DTYPE |= {"reshape", "convolve", "statistics"}
FLOATING_ONLY = frozenset(("factor", "solve", "norm", "spectral"))


def chapter(op: Op) -> str:
    """The file that enters an op."""
    return op.rule.__module__.rpartition(".")[2] if op.kind != "elementwise" else "elementwise"


def is_random(op: Op) -> bool:
    """Whether an op has no values to compare with NumPy's."""
    return op.random or op.name.startswith("random.")


def factors(op: Op) -> dict[str, Sequence[Any]]:
    """The factors of an op and their levels; none: nothing to test follows from its line."""
    where: dict[str, Sequence[Any]] = {"tile": TILES, "devices": DEVICES}
    if is_random(op):
        return {"case": range(len(RANDOM.get(op.name, ()))), **where}
    if op.name in CHANGING:
        return {"case": range(len(CHANGING[op.name])), "form": FORMS, **where}
    if op.kind == "elementwise" and op.cases is None:
        made: dict[str, Sequence[Any]] = {"dtype": DTYPES, "shape": tuple(SHAPES), "form": FORMS}
        if len(op.arrays) > 1:
            made["second"] = SECOND
        return {**made, "values": VALUES, **where}
    if op.kind == "reduction" and not op.name.startswith("_"):
        return {
            "dtype": DTYPES,
            "shape": tuple(REDUCED),
            "axis": range(6),
            "keepdims": (False, True),
            "form": FORMS,
            "values": VALUES,
            **where,
        }
    if op.name == "matmul":
        return {
            "dtype": DTYPES,
            "shape": tuple(MULTIPLIED),
            "form": FORMS,
            "second": ("same", "other"),
            **where,
        }
    return cases_of(op)


def cases_of(op: Op) -> dict[str, Sequence[Any]]:
    """The factors of an op that brings its own cases."""
    n_cases = len(op.cases(np.random.default_rng(0))) if op.cases is not None else 0
    made: dict[str, Sequence[Any]] = {"case": range(n_cases), "form": FORMS}
    if "topk" in op.name or op.name.startswith("_fft"):  # real numbers only, or by the word
        made["dtype"] = (AS_GIVEN, *(name for name in DTYPES if "complex" not in name))
    elif chapter(op) in ANY_DTYPE and not op.name.startswith(("_scan", "_merge")):
        made["dtype"] = (AS_GIVEN, *DTYPES)
    elif chapter(op) in FLOATING_ONLY:
        made["dtype"] = (AS_GIVEN, "float32", "complex64", "complex128")
    return {**made, "tile": TILES, "devices": DEVICES}


@cache
def rows(name: str) -> tuple[Row, ...]:
    """The rows of an op: all pairs of levels, or as many as a sample has."""
    op = TABLE[name]
    levels = factors(op)
    seed = SEED * 7919 + crc32(name.encode())
    own: list[Row] = []
    if op.cases is not None and "case" not in levels:  # its own cases besides those of its kind
        own = _sampled(cases_of(op), seed + 1, N_SAMPLED)
    n_rows = N_SAMPLED // 2 if op.kind == "program" else N_SAMPLED
    return (*own, *_sampled(levels, seed, n_rows))


def _sampled(levels: dict[str, Sequence[Any]], seed: int, n_rows: int) -> list[Row]:
    made = pairwise_rows(levels, seed)
    return list(made if EVERYTHING else islice(made, n_rows))


# --- values -----------------------------------------------------------------------------------


def values(
    dtype: Any, shape: tuple[int, ...], rng: np.random.Generator, special: bool = False
) -> Any:
    """Random values; `special`: the last few are those that bite, such as NaN or borders."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        made = rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
        info = np.iinfo(dtype)
        biting: list[Any] = [info.max, info.min, info.max - 1, 0]
    else:
        made = (rng.standard_normal(shape) * 3).astype(dtype)
        if dtype.kind == "c":
            made = made + (1j * rng.standard_normal(shape)).astype(dtype)
        tiny = np.finfo(dtype).smallest_subnormal
        biting = [-0.0, np.nan, np.inf, tiny, -np.inf, 0.0]
        if dtype.kind == "c":
            biting = [-0.0, complex(np.nan, 1), tiny, 0.0]
    made = np.asarray(made, dtype)
    if special and made.size:
        flat = made.reshape(-1)
        some = biting[: max(1, made.size // 2)]
        flat[len(flat) - len(some) :] = some
        made = flat.reshape(shape)
    return made


def as_another(array: Any, dtype: str) -> Any:
    """A case's array with the values another dtype has for them."""
    target = np.dtype(dtype)
    with np.errstate(all="ignore"):
        if target.kind == "b":
            return np.asarray(array.real > 0)
        if target.kind in "iu":
            whole = np.nan_to_num(np.rint(array.real * 4), nan=0, posinf=99, neginf=-99)
            return np.asarray(np.abs(whole) if target.kind == "u" else whole).astype(target)
        made = array.astype(target) if target.kind == "c" else array.real.astype(target)
        return np.asarray(made)


# --- arguments --------------------------------------------------------------------------------


def given(op: Op, row: Row, rng: np.random.Generator) -> Given:
    """The NumPy arguments of a row."""
    if "case" in row:
        return _given_case(op, row)
    if op.kind == "reduction":
        return _given_reduction(op, row, rng)
    special = row.get("values") == "special" and (ON_CPU or op.name not in FINITE_ON_GPU)
    if op.name == "matmul":
        left, right = MULTIPLIED[row["shape"]]
        other = _second_dtype(row)
        return (values(row["dtype"], left, rng), values(other, right, rng)), {}
    shapes = SHAPES[row["shape"]]
    n = len(op.arrays)
    args = [values(row["dtype"], shapes[0], rng, special)]
    if op.name in ("_where", "_chosen"):
        args[0] = values("bool", shapes[0], rng)
    args += [_second(row, shapes[i], rng, special) for i in range(1, n)]
    if op.name == "reciprocal" and not ON_CPU and args[0].dtype.kind in "iub":
        args[0] = np.where(
            args[0] == 0, args[0].dtype.type(3), args[0]
        )  # 1 // 0 is whatever the machine makes of it
    if op.name in BY_INTEGERS and np.asarray(args[1]).dtype.kind in "iub":
        args[1] = abs(args[1]) % 7 if not isinstance(args[1], np.ndarray) else _exponents(args[1])
    if op.name == "_clip":
        args[1:] = [np.minimum(*args[1:]), np.maximum(*args[1:])]
    if (
        n > 1
        and row["second"] != "same"
        and row["tile"] == 7
        and op.name not in BY_INTEGERS | {"_where", "_chosen", "_clip"}
    ):
        args.reverse()
    return tuple(args), {}


def _exponents(array: Any) -> Any:
    return (
        array if array.dtype.kind == "b" else (np.abs(array.astype(float)) % 7).astype(array.dtype)
    )


def _second_dtype(row: Row) -> str:
    if row["second"] != "other":
        return str(row["dtype"])
    return DTYPES[(DTYPES.index(row["dtype"]) * 5 + 3) % len(DTYPES)]


def _second(row: Row, shape: tuple[int, ...], rng: np.random.Generator, special: bool) -> Any:
    scalars = {"int": 3, "float": 2.5, "complex": 1.5 - 2j, "bool": True}
    if row["second"] in scalars:
        return scalars[row["second"]]
    if row["second"] == "0-d":
        return values(row["dtype"], (), rng)
    if row["second"] == "scalar":
        return values(row["dtype"], (), rng)[()]
    return values(_second_dtype(row), shape, rng, special)


def axis_choices(ndim: int) -> list[Any]:
    """Every way to name axes: none, each, from behind, pairs, all, no axis at all."""
    made: list[Any] = [None, (), *range(ndim), *range(-ndim, 0)]
    return [*made, *combinations(range(ndim), 2), tuple(reversed(range(ndim)))]


def _given_reduction(op: Op, row: Row, rng: np.random.Generator) -> Given:
    shape = REDUCED[row["shape"]]
    choices = axis_choices(len(shape))
    if op.name in ("argmin", "argmax"):
        choices = [axis for axis in choices if not isinstance(axis, tuple)]
    step = -(-len(choices) // 6)
    some = choices[row["axis"] * step :][:step] or choices
    axis = some[int(rng.integers(len(some)))]
    x = values(row["dtype"], shape, rng, row["values"] == "special")
    return (x,), {"axis": axis, "keepdims": row["keepdims"]}


def _given_case(op: Op, row: Row) -> Given:
    case: int = row["case"]
    if op.name in RANDOM:
        return RANDOM[op.name][case]
    if op.name in CHANGING:
        return CHANGING[op.name][case]
    assert op.cases is not None
    args, kwargs = op.cases(np.random.default_rng(0))[case]
    dtype = row.get("dtype", AS_GIVEN)
    if dtype != AS_GIVEN:
        args = tuple(_recast(arg, dtype) for arg in args)
        kwargs = {name: _recast(value, dtype) for name, value in kwargs.items()}
    return args, kwargs


def _recast(arg: Any, dtype: str) -> Any:
    if isinstance(arg, np.ndarray | np.generic) and arg.dtype.kind in "fc":
        return as_another(arg, dtype)
    if isinstance(arg, list | tuple):
        return type(arg)(_recast(one, dtype) for one in arg)
    return arg


_LINE, _TABLE = np.arange(23.0), np.arange(35.0).reshape(5, 7)
_I = np.array([3, -1, 3, 0, 11])
CHANGING: dict[str, list[Given]] = {
    "put": [
        ((_LINE, _I, np.arange(5.0)), {}),
        ((_TABLE, _I, np.array([7.5, -1.0])), {}),
        ((_TABLE, _I * 9, np.array(2.0)), {"mode": "wrap"}),
        ((_LINE.astype(np.int16), _I * 9, np.array([4])), {"mode": "clip"}),
        ((_LINE, _I[:0], np.array([4.0])), {}),
    ],
    "putmask": [
        ((_LINE, _LINE > 7, np.arange(5.0)), {}),
        ((_TABLE, _TABLE % 3 == 0, np.arange(35).reshape(5, 7)), {}),
        ((_TABLE.astype(np.int16), _TABLE > 4, 3), {}),
        ((_TABLE, _TABLE > 4, np.zeros(0)), {}),
    ],
    "place": [
        ((_LINE, _LINE > 7, np.arange(5.0)), {}),
        ((_TABLE, _TABLE % 3 == 0, np.array([1, 2])), {}),
        ((_TABLE, _TABLE < 0, np.array([1, 2])), {}),
    ],
    "put_along_axis": [
        ((_TABLE, _I[:4].reshape(1, 4) % 5, np.array(9.0), 1), {}),
        ((_TABLE, np.array([[4, 0, 1, 2, 3, 0, 4]]), np.arange(7.0), 0), {}),
        ((_LINE, _I, np.arange(5.0), 0), {}),
    ],
    "_write": [
        ((_LINE, np.s_[2:17:3], np.arange(5.0)), {}),
        ((_LINE, np.s_[::-2], 4.0), {}),
        ((_TABLE, np.s_[1:, ::3], np.arange(3.0)), {}),
        ((_TABLE, np.s_[::-1, 5], np.arange(5)), {}),
        ((_TABLE, np.s_[3], np.float32(0.1)), {}),
        ((_TABLE.astype(np.int8), np.s_[...], 77.9), {}),
        ((_TABLE, np.s_[2:2], 5.0), {}),
        ((np.array(3.0), np.s_[...], 8), {}),
        ((_TABLE, _TABLE > 17, -1.0), {}),
        ((_TABLE, (_I[:4],), np.arange(28.0).reshape(4, 7)), {}),
    ],
}
"""Ops that change their first argument. `_write` is `x[region] = value`."""

_KEY = np.int64(20240229)
_THREE = np.array([0.4, 1.0, 2.0])
_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "beta": (0.5, 0.7),
    "binomial": (9, 0.3),
    "chisquare": (3.0,),
    "exponential": (2.0,),
    "f": (3.0, 5.0),
    "gamma": (0.5, 2.0),
    "geometric": (0.3,),
    "gumbel": (1.0, 2.0),
    "laplace": (1.0, 2.0),
    "logistic": (1.0, 2.0),
    "lognormal": (1.0, 0.5),
    "logseries": (0.4,),
    "negative_binomial": (3.0, 0.4),
    "noncentral_chisquare": (3.0, 1.0),
    "noncentral_f": (3.0, 5.0, 1.0),
    "pareto": (3.0,),
    "poisson": (6.0,),
    "power": (3.0,),
    "rayleigh": (2.0,),
    "standard_t": (3.0,),
    "triangular": (-1.0, 0.25, 2.0),
    "vonmises": (1.0, 2.0),
    "wald": (1.0, 2.0),
    "weibull": (1.5,),
    "zipf": (4.0,),
}
"""Parameters of distributions that a number of 0.4 to 2 times the last is still one of."""
RANDOM: dict[str, list[Given]] = {
    "_random_bits": [
        ((_KEY, (23,)), {}),
        ((_KEY, (5, 3, 2)), {}),
        ((_KEY, ()), {}),
        ((_KEY, (0, 2)), {}),
    ],
    "_random_uniform": [
        ((_KEY, 0.0, 1.0, (23,)), {}),
        ((_KEY, -2.0, 5.0, (5, 7)), {"dtype": np.float32}),
    ],
    "_random_normal": [
        ((_KEY, 0.0, 1.0, (23,)), {}),
        ((_KEY, 3.0, 0.5, (5, 7)), {"dtype": np.float32}),
    ],
    "_random_integers": [
        ((_KEY, np.int64(-3), np.uint64(9), (23,)), {}),
        ((_KEY, np.int64(0), np.uint64(200), (5, 7)), {"dtype": np.uint8}),
    ],
    "random.uniform": [((), {}), ((-1, 3, (5, 7)), {}), ((0, 1, (23,)), {"dtype": np.float32})],
    "random.random": [((), {}), (((13, 3),), {}), ((0,), {}), ((23, np.float32), {})],
    "random.normal": [((), {}), ((1.0, 2.0, (5, 7)), {}), ((0, 1, 23), {"dtype": np.float32})],
    "random.standard_normal": [((), {}), (((13, 3),), {}), ((23, np.float32), {})],
    "random.permutation": [((23,), {}), ((_TABLE,), {}), ((_TABLE, 1), {})],
    "_random_open": [((_KEY, (5, 7)), {}), ((_KEY, ()), {})],
    "_random_gamma": [((_KEY, 0.3, (23,)), {}), ((_KEY, np.arange(5.0), (3, 5)), {"log": True})],
    "_random_poisson": [((_KEY, 3.0, (23,)), {}), ((_KEY, np.arange(5.0) * 9, (3, 5)), {})],
    "_random_binomial": [
        ((_KEY, 9.0, 0.4, (23,)), {}),
        ((_KEY, np.array([[9.0], [200.0]]), np.array([0.0, 0.1, 0.9]), (4, 2, 3)), {}),
    ],
    "_random_hypergeometric": [
        ((_KEY, 9.0, 5.0, 4.0, (23,)), {}),
        ((_KEY, np.array([[9.0], [200.0]]), 50.0, np.array([0.0, 9.0, 40.0]), (4, 2, 3)), {}),
    ],
    "random.hypergeometric": [((9, 5, 4, (5, 3)), {}), ((9, 5, np.array([4, 0]), (3, 2)), {})],
    "random.multivariate_hypergeometric": [(([3, 4, 5], 6), {"size": (4,)})],
    "_random_zipf": [((_KEY, 2.0, (23,)), {}), ((_KEY, np.array([1.1, 4.0]), (3, 2)), {})],
    "_random_vonmises": [((_KEY, 2.0, (23,)), {}), ((_KEY, np.array([0.0, 1e7]), (3, 2)), {})],
    **{
        f"random.{name}": [
            ((*some, (5, 3)), {}),
            ((*some[:-1], _THREE * some[-1]), {"size": (2, 3)}),
        ]
        for name, some in _PARAMETERS.items()
    },
    "random.integers": [
        ((10,), {}),
        ((-5, 5, (5, 7)), {}),
        ((0, 255, 23, np.uint8), {"endpoint": True}),
        ((0, 2**63, 23, np.uint64), {}),
        ((np.array([0, 5, -3]), np.array([[9], [7]])), {}),
    ],
    "random.randint": [((6,), {"size": (5, 3)})],
    "random.random_integers": [((6,), {"size": (5, 3)})],
    "random.standard_cauchy": [((23,), {})],
    "random.standard_exponential": [(((5, 3),), {}), ((23, np.float32), {})],
    "random.standard_gamma": [((2.0, (5, 3)), {}), ((_THREE, (2, 3), np.float32), {})],
    "random.dirichlet": [((_THREE,), {"size": (4,)})],
    "random.multinomial": [((20, [0.2, 0.3, 0.5]), {"size": (4,)})],
    "random.multivariate_normal": [
        (([1.0, 2.0], [[2.0, 1.0], [1.0, 2.0]]), {"size": (5,), "method": method})
        for method in ("svd", "eigh", "cholesky")
    ],
    "random.permuted": [((_TABLE,), {}), ((_TABLE, 1), {}), ((_TABLE, 0), {})],
    "random.shuffle": [((_TABLE.copy(),), {})],
    "random.choice": [
        ((9, (5, 3)), {}),
        ((_TABLE, 4), {"axis": 1, "replace": False}),
        ((3, (5, 3)), {"p": [0.2, 0.3, 0.5]}),
        ((_THREE, 2), {"p": [0.2, 0.3, 0.5], "replace": False}),
    ],
    "random.bytes": [((11,), {})],
    "random.rand": [((5, 3), {}), ((), {})],
    "random.randn": [((5, 3), {}), ((), {})],
    **{f"random.{name}": [(((5, 3),), {})] for name in ("random_sample", "ranf", "sample")},
}
"""Arguments of the random ops: their values depend on the key alone."""
