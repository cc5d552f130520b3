"""Scalars are values: what NumPy gives as a scalar is one, in every size, place and mode."""

from __future__ import annotations

import copy
import inspect
import math
import operator
import pickle
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.functions.all_functions import PUBLIC
from infinitensor.api.functions.options import numpys
from infinitensor.ops import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.local

N = {"small": 23, "large": 70_001, "strict": 23}


@pytest.fixture(scope="module", params=tuple(N))
def n(request: pytest.FixtureRequest) -> Iterator[int]:
    """Elements: few, more than are computed at once, and few in tiles of seven on three devices."""
    session = strict("cpu*3", 7) if request.param == "strict" else it.init("cpu")
    with session:
        yield N[request.param]


LOOKS: dict[str, Callable[[Any], Any]] = {
    "waits": lambda s: None,
    "printed": str,
    "formatted": "{}".format,
    "shown": repr,
    "item": lambda s: s.item(),
    "copied": copy.copy,
    "exported": np.asarray,
    "looked up": hash,
    "computed": it.compute,
    "made an array": it.array,
}
SCALARS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda xp, x: x.sum(),
    "mean": lambda xp, x: xp.mean(x),
    "max": lambda xp, x: x.max(),
    "element": lambda xp, x: x[3],
    "element of a view": lambda xp, x: x[::2][1:][2],
    "flat": lambda xp, x: x.flat[4],
    "product": lambda xp, x: x @ x,
    "reduced": lambda xp, x: xp.add.reduce(x),
    "argmax": lambda xp, x: x.argmax(),
    "cast": lambda xp, x: x.argmax().astype("int8"),
    "of scalars": lambda xp, x: x.sum() * x[2] + 1,
    "root": lambda xp, x: xp.sqrt(x.sum()),
    "negative": lambda xp, x: -x.min(),
    "norm": lambda xp, x: xp.linalg.norm(x),
    "median": lambda xp, x: xp.median(x),
    "of an array without axes": lambda xp, x: xp.asarray(3.0) + 1,
    "element of one": lambda xp, x: xp.asarray(3.0)[()],
    "rounded": lambda xp, x: xp.round(x.mean(), 2),
    "transposed": lambda xp, x: x.sum().T.reshape(()).squeeze().real,
    "imaginary": lambda xp, x: x.sum().imag,
    "pickled": lambda xp, x: pickle.loads(pickle.dumps(x.sum())),
}


def numbers(n: int, dtype: str = "float64") -> Any:
    return (np.arange(n) % 90 + 1).astype(dtype)


@pytest.mark.parametrize("kind", SCALARS)
def test_an_in_place_operator_binds_a_new_value(kind: str, n: int) -> None:
    theirs: Any = SCALARS[kind](np, numbers(n))
    assert type(theirs) is not np.ndarray
    for name, look in LOOKS.items():
        ours = same = SCALARS[kind](it, it.asarray(numbers(n)))
        look(ours)
        for op, by in (("iadd", 1), ("itruediv", 3), ("ipow", np.float32(2))):
            changed, expected = (getattr(operator, op)(s, by) for s in (ours, theirs))
            assert changed is not ours, name
            assert changed.dtype == expected.dtype
            np.testing.assert_allclose(changed.numpy(), expected, rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(same.numpy(), theirs, rtol=1e-12, err_msg=name)


def test_history_is_not_rewritten(n: int) -> None:
    losses = []
    for xp in (np, it):
        loss, history = xp.asarray(numbers(n)).sum(), []
        for _ in range(4):
            history.append(loss)
            loss -= 1
            loss /= 2
        losses.append([float(value) for value in history])
    assert losses[0] == losses[1]


IN_PLACE = ("iadd", "isub", "imul", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift")


@pytest.mark.parametrize("by", [np.int32(1000), np.int8(3), 2, np.uint16(7)], ids=repr)
def test_in_place_operators_promote_as_those_of_scalars(by: Any, n: int) -> None:
    for name in IN_PLACE:
        ours, theirs = (xp.asarray(numbers(n, "int8")).max() for xp in (it, np))
        with np.errstate(all="ignore"):
            expected = getattr(operator, name)(theirs, by)
        found = getattr(operator, name)(ours, by)
        assert (found.dtype, found.item()) == (expected.dtype, expected.item()), name


def test_a_scalar_that_takes_an_array_is_an_array(n: int) -> None:
    s = t = it.asarray(numbers(n)).sum()
    s += it.ones(3)
    s[0] = 4
    assert s.shape == (3,)
    assert float(t) == numbers(n).sum()


def test_nothing_is_computed_before_someone_looks() -> None:
    with it.init("cpu"):
        x = it.asarray(numbers(N["large"]))
        s = x.sum()
        t = s
        s += 1
        s /= 2
        y = it.zeros(3)
        y[1] = s
        u = round(s, 1) + abs(-s) + s.astype("float32") + s[()] + s.copy() + it.array(s)
        counts = it.zeros(N["large"], dtype="int8")
        counts[3] = x.argmax()
        z = x.sum(initial=s)
        assert it.stats()["tasks"] == 0
        assert all(v._version.node is not None for v in (s, t, u, z, counts))
        assert float(t) + 1 == 2 * float(s)


def test_a_value_cannot_be_written(n: int) -> None:
    s = it.asarray(numbers(n)).sum()
    for index in ((), ..., 0, None):
        with pytest.raises(TypeError, match="does not support item assignment"):
            s[index] = 1
    with pytest.raises(TypeError, match="does not support item assignment"):
        s.fill(1)
    with pytest.raises(TypeError, match="does not support item assignment"):
        s.flat[0] = 1
    with pytest.raises(TypeError, match="return arrays must be of ArrayType"):
        it.add(1.0, it.ones(()), out=s)
    with pytest.raises(TypeError, match="return arrays must be of ArrayType"):
        it.sum(it.ones(3), out=s)
    with pytest.raises(AttributeError, match="not writable"):
        s.real = 1
    with pytest.raises(AttributeError, match="not writable"):
        s.shape = (1,)
    assert not s.flags.writeable
    assert s.base is None
    assert float(s) == numbers(n).sum()


def test_a_mask_updates_a_result_as_the_array_api_does(n: int) -> None:
    """Libraries that know no NumPy write so to what functions gave them."""
    for look in (LOOKS["waits"], LOOKS["printed"]):
        s = it.asarray(numbers(n)).sum()
        look(s)
        t = s.T
        s[it.asarray(np.array(False))] = 3.0
        assert float(s) == numbers(n).sum()
        s[it.asarray(np.array(True))] = 3.0
        assert float(s) == 3
        assert float(t) == numbers(n).sum()
        with pytest.raises(TypeError, match="does not support item assignment"):
            t[np.array(True)] = 3.0


VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "ellipsis": lambda xp, s: s[...],
    "new axis": lambda xp, s: s[None],
    "reshape": lambda xp, s: s.reshape(1, 1),
    "ravel": lambda xp, s: s.ravel(),
    "expand_dims": lambda xp, s: xp.expand_dims(s, 0),
    "atleast_1d": lambda xp, s: xp.atleast_1d(s),
    "asarray": lambda xp, s: xp.asarray(s),
    "array": lambda xp, s: xp.array(s),
    "cast": lambda xp, s: xp.asarray(s, dtype="float32"),
    "copy": lambda xp, s: xp.copy(s),
    "mask": lambda xp, s: s[True],
}


@pytest.mark.parametrize("name", VIEWS)
def test_arrays_made_of_a_value_have_memory_of_their_own(name: str, n: int) -> None:
    for look in (LOOKS["waits"], LOOKS["printed"]):
        s = it.asarray(numbers(n)).sum()
        look(s)
        made, theirs = VIEWS[name](it, s), VIEWS[name](np, numbers(n).sum())
        assert (made.shape, made.dtype) == (theirs.shape, theirs.dtype)
        made[...] = 7
        same = made
        made += 1
        assert made is same
        assert made.numpy().tolist() == np.full(theirs.shape, 8).tolist()
        assert float(s) == numbers(n).sum()


ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "zeros": lambda xp, x: xp.zeros(()),
    "asarray": lambda xp, x: xp.asarray(3.0),
    "ellipsis": lambda xp, x: x[..., 0],
    "reshape": lambda xp, x: x[:1].reshape(()),
    "squeeze": lambda xp, x: x[:1].squeeze(),
    "where": lambda xp, x: xp.where(x[0] > 0, x[1], x[2]),
    "tensordot": lambda xp, x: xp.tensordot(x, x, 1),
    "out": lambda xp, x: x.sum(out=xp.zeros(())),
    "ufunc with out": lambda xp, x: xp.add(1.0, x[0], out=xp.zeros(())),
    "copy": lambda xp, x: xp.zeros(()).copy(),
    "astype": lambda xp, x: xp.zeros((), dtype="int8").astype("float64"),
    "like": lambda xp, x: xp.zeros_like(x[0]),
    "full": lambda xp, x: xp.full((), 2.5),
    "pickle": lambda xp, x: pickle.loads(pickle.dumps(xp.zeros(()))),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_what_numpy_gives_as_an_array_stays_one(name: str, n: int) -> None:
    theirs, ours = (ARRAYS[name](xp, xp.asarray(numbers(n))) for xp in (np, it))
    assert isinstance(theirs, np.ndarray)
    assert not theirs.shape
    same = ours
    ours += 1
    theirs += 1
    assert ours is same
    assert float(ours) == float(theirs)
    ours[...] = 5
    assert float(same) == 5
    with pytest.raises(TypeError, match="unhashable"):
        hash(ours)
    with pytest.raises(TypeError, match="__round__"):
        round(ours)


def test_a_view_through_an_ellipsis_writes_through(n: int) -> None:
    x = it.asarray(numbers(n))
    view = x[..., 0]
    view += 41
    assert float(x[0]) == 42


def test_scalars_are_indices_as_integers_are(n: int) -> None:
    """They make views; arrays of integers without axes make copies."""
    x = it.asarray(numbers(n))[: n // 2 * 2].reshape(2, -1)
    row = x[it.asarray(np.array([0, 1]))[1]]
    row[...] = 5
    copied = x[it.asarray(np.array(0))]
    copied[...] = 7
    assert x[:, 1].tolist() == [2, 5]
    assert it.isscalar(x[it.asarray(np.array(0)), 1])


# --- numbers ----------------------------------------------------------------------------------

LIKE_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "hash": hash,
    "in a dict": lambda s: {s: 1}[s.item()],
    "in a set": lambda s: len({s, s.item(), s + 0}),
    "round": round,
    "round to digits": lambda s: round(s, 1).item(),
    "round to tens": lambda s: round(s, -1).item(),
    "floor": math.floor,
    "ceil": math.ceil,
    "is_integer": lambda s: s.is_integer(),
    "as_integer_ratio": lambda s: s.as_integer_ratio(),
    "numerator": lambda s: int(s.numerator),
    "denominator": lambda s: s.denominator,
    "bit_count": lambda s: s.bit_count(),
    "list": lambda s: [0] * s,
    "list behind": lambda s: s * [1, 2],
    "tuple": lambda s: (0,) * s,
    "text": lambda s: "ab" * s,
    "in place": lambda s: getattr(operator, "imul")([1], s),  # noqa: B009 - it has no types
    "divmod": lambda s: [v.item() for v in divmod(s, 3)],
    "divmod behind": lambda s: [v.item() for v in divmod(9, s)],
    "pow": lambda s: pow(s, 2).item(),
    "index": operator.index,
    "int": int,
    "float": float,
    "complex": complex,
    "bool": bool,
    "str": str,
    "format": lambda s: f"{s}",
    "format to digits": lambda s: f"{s:8.2f}",
    "format of integers": lambda s: f"{s:05d}",
    "percent": lambda s: "%.3f" % s,  # noqa: UP031 - another way to a number
    "len": len,
    "in": lambda s: 1 in s,
    "iter": list,
    "isscalar": None,  # type: ignore[dict-item]
    "range": lambda s: list(range(s)),
    "slice": lambda s: [1, 2, 3][:s],
    "sum": lambda s: sum([s, s]).item(),
    "max": lambda s: max(s, 2),
    "sorted": lambda s: [float(v) for v in sorted([s, 1, s + 1])],
}
LIKE_NUMBERS["isscalar"] = lambda s: (it if isinstance(s, it.Tensor) else np).isscalar(s)


def outcome(function: Callable[[Any], Any], value: Any) -> Any:
    with catch_warnings():
        simplefilter("ignore", np.exceptions.ComplexWarning)
        try:
            return function(value)
        except (TypeError, ValueError, AttributeError) as error:
            return type(error)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "uint16"])
@pytest.mark.parametrize("look", ["waits", "printed", "computed"])
def test_values_are_numbers_as_numpys_scalars_are(dtype: str, look: str, n: int) -> None:
    values = numbers(n, dtype) % 5 + (numbers(n, dtype) / 3 if dtype[0] == "f" else 0)
    values = values.astype(dtype)
    for name, function in LIKE_NUMBERS.items():
        ours, theirs = it.asarray(values)[3], values[3]
        LOOKS[look](ours)
        found, expected = outcome(function, ours), outcome(function, theirs)
        assert found == expected, name
        assert type(found) is type(expected) or isinstance(found, it.Tensor), name


@pytest.mark.parametrize("dtype", ["bool", "complex128", "complex64"])
def test_truths_and_complex_values_too(dtype: str, n: int) -> None:
    values = (numbers(n) * (1 if dtype == "bool" else 1 + 2j)).astype(dtype)
    for name, function in LIKE_NUMBERS.items():
        if name in ("max", "sorted", "divmod", "divmod behind"):
            continue
        found, expected = (outcome(function, v) for v in (it.asarray(values)[3], values[3]))
        assert found == expected, name


def test_trunc_is_for_every_real_number(n: int) -> None:
    for dtype in ("float64", "float32", "int64", "uint8"):
        assert math.trunc(it.asarray(numbers(n, dtype)).max()) == (90 if n > 90 else 23)
    with pytest.raises(TypeError, match="__trunc__"):
        math.trunc(it.asarray(numbers(n, "complex64"))[0])


def test_text_has_all_digits_as_numpys_has(n: int) -> None:
    for values in (1 / 3, np.float32(1 / 3), 1e300, 7, True, 1 / 3 + 2j):
        assert str(it.asarray(values)) == str(np.asarray(values))
        assert str(it.asarray(np.full(n, values))[1]) == str(np.full(n, values)[1])
    assert repr(it.asarray(1 / 3)) == "Tensor(0.3333333333333333, shape=(), dtype=float64)"


def test_an_integer_that_does_not_fit_is_not_written(n: int) -> None:
    """NumPy's scalars have to fit an element, its arrays wrap."""
    most = it.asarray(np.full(n, 1000)).max()
    x = it.zeros(n, dtype="int8")
    x[2] = it.asarray(np.array(1000))
    x[[3]] = most
    assert x[:4].tolist() == [0, 0, -24, -24]

    def write() -> None:
        x[0] = most
        x.tolist()

    with pytest.raises(OverflowError, match="out of bounds"):
        write()
    y = it.zeros(n, dtype="int8")
    y[0] = it.asarray(np.full(n, 100)).max()
    assert y[:2].tolist() == [100, 0]


# --- every function ---------------------------------------------------------------------------

V, M, Z, ZI = np.linspace(0.5, 3, 5), np.eye(2) * 2 + 0.5, np.array(1.5), np.array(1)
S, SI, SB = np.float64(1.5), np.int64(1), np.True_
ONE, VI = np.array([1.5]), np.arange(5)
CALLS: tuple[tuple[Any, ...], ...] = (
    *((x,) for x in (Z, ZI, np.array(True), np.array(1 + 2j), S, SI, SB, np.complex128(1j))),
    *((x,) for x in (V, VI, V > 1, M, ONE, 3.0, 2, [V, V], [S, S])),
    *((x, y) for x in (Z, S, V) for y in (Z, S, V, 0, 1, (), 0.5, float, "f4")),
    *((x, y) for x in (ZI, SI, VI, 1) for y in (ZI, SI, VI, 0, (3,), [1, 2])),
    *((M, M), (M, 0), (M, None), (M, "fro"), (M, V[:2]), (V, None), (V, np.inf), (V, 50)),
    *((SB, S, S), (np.array(True), Z, Z), (Z, Z, Z), (S, S, S), (S, 0, 1), (Z, 0, 1), (Z, (), ())),
    *((0.7, V, V), (Z, V, V), (S, V, V), (V, V, 1), (0, [Z, Z]), (SI, [S, S]), (S, (), ())),
    *(("i,i->", V, V), ("ii", M), ("->", Z), ((), 1.5), ((), Z), ((), S), ((),), ((), float)),
    *(([1, 2], Z), ([1, 2], S), ([1, 2], 3.0), (S, [True]), (V, [0]), (V, np.array(0)), (ONE, ())),
    *((V[:3], V[:3]), (V[:2], V[:2]), (M[0], M), ((ZI,), (3,)), ((SI,), (3,))),
)
OPTIONS: tuple[dict[str, Any], ...] = (
    *({}, {"axis": 0}, {"keepdims": True}, {"axis": None}),
    *({"where": np.array(True)}, {"where": np.array(True), "initial": 1}, {"mean": np.array(1.0)}),
)
OPEN = {
    "real": "of an array it is a view of it",
    "imag": "likewise",
}
NAMES = sorted(
    name
    for name in PUBLIC
    if callable(numpys(name)) and not isinstance(numpys(name), type) and "random" not in name
)


def parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def ours_of(value: Any) -> Any:
    """A NumPy argument as ours: an array as an array, a scalar as a value."""
    if isinstance(value, np.generic):
        return it.asarray(np.array([value]))[0]
    if isinstance(value, np.ndarray):
        return it.asarray(value)
    return type(value)(map(ours_of, value)) if type(value) in (list, tuple) else value


def calls_of(name: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], list[Any]]]:
    """Calls of NumPy's function with a result that has no axes."""
    like, op = numpys(name), TABLE.get(name)
    taken = inspect.signature(PUBLIC[name]).parameters
    tried = [(args, given) for args in CALLS for given in OPTIONS if taken.keys() >= given.keys()]
    if op is not None and op.cases is not None:
        tried += op.cases(np.random.default_rng(0))
    for args, given in tried:
        try:
            made = parts(like(*copy.deepcopy(args), **given))
        except Exception:  # a call that is none
            continue
        if any(isinstance(one, np.ndarray | np.generic) and not one.ndim for one in made):
            yield args, given, made


@pytest.mark.parametrize("mode", ["default", "strict"])
def test_every_function_gives_a_scalar_where_numpy_does(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # `save` is among them, and writes what it is given
    n_compared, wrong = 0, []
    with strict("cpu*3", 7) if mode == "strict" else it.init("cpu"), catch_warnings():
        simplefilter("ignore")
        for name in NAMES:
            for args, given, theirs in calls_of(name):
                try:
                    ours = parts(PUBLIC[name](*map(ours_of, args), **given))
                except Exception:  # what is refused here has tests of its own
                    continue
                for one, other in zip(theirs, ours, strict=False):
                    if not isinstance(other, it.Tensor) or other.shape or np.ndim(one):
                        continue
                    n_compared += 1
                    if it.isscalar(other) != isinstance(one, np.generic | int | float):
                        wrong.append((name, args, given))
    assert n_compared > 1000
    assert {name for name, *_ in wrong} <= OPEN.keys(), wrong[:5]


@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_reduction_over_no_axes_is_a_copy(shape: tuple[int, ...]) -> None:
    x = it.ones(shape)
    reduced = it.subtract.reduce(x, axis=())
    x += 1
    assert reduced.tolist() == np.ones(shape).tolist()


def test_a_boolean_scalar_to_the_second_power_is_an_integer() -> None:
    power: Any = np.array([True, False]).any()
    ours = it.asarray([True, False]).any()
    power **= 2
    ours **= 2
    assert ours.dtype == power.dtype == np.int64
    assert (it.asarray([True]) ** 2).dtype == (np.array([True]) ** 2).dtype


def test_what_cannot_be_written_says_so_before_the_value_is_looked_at() -> None:
    x = it.broadcast_to(it.ones(1), (3,))
    with pytest.raises(ValueError, match="read-only"):
        x.fill(1j)
