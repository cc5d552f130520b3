"""The two worlds a program runs in, and the comparison between them.

`Oracle` is NumPy with the one difference that our library documents: results of ops are in C order
(NumPy keeps the order of their inputs). What NumPy gives as a scalar is one in both worlds. It
also knows which values are exact, and refuses (`Undefined`) what NumPy itself does not define: a
NaN cast to an integer, an order of complex numbers, a comparison of values known only to rounding.
`Subject` is infinitensor. `replay` runs both in step and raises `Mismatch` where they part.
"""

from __future__ import annotations

import copy
import operator
import pickle
import warnings
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from .program import (
    METHOD_VIEWS,
    POOLS,
    Assign,
    AssignFlat,
    AssignPart,
    Bind,
    Call,
    Copy,
    Create,
    Drop,
    Evaluate,
    Export,
    Fill,
    Gather,
    ImportThenChange,
    IndexArray,
    InPlace,
    InPlaceAt,
    Key,
    KeyItem,
    Literal,
    NumPyScalar,
    Observe,
    Operate,
    Program,
    ReadFlat,
    Scalar,
    SortInPlace,
    Step,
    Var,
    View,
    Whole,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Callable

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "@": operator.matmul,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv,
    "//": operator.ifloordiv, "%": operator.imod, "**": operator.ipow, "&": operator.iand,
    "|": operator.ior, "^": operator.ixor, "<<": operator.ilshift, ">>": operator.irshift,
}  # fmt: skip

# May be applied to values known only to rounding, without making the error large.
SMOOTH = frozenset(
    words(
        "+ - * / @ negative positive abs square conj sin cos tanh where clip sum mean max min "
        "maximum minimum matmul tensordot einsum dot outer concat stack roll repeat tile take "
        "sort var cumulative_sum cumsum tril triu diff take_along_axis add subtract multiply divide"
    )
)
# Rounded differently by different orders of summation or different libraries.
ROUNDED = frozenset(
    words(
        "/ divide ** @ matmul tensordot einsum dot outer vecdot sum prod mean var std "
        "cumulative_sum cumsum cumulative_prod sqrt exp expm1 log log1p log2 log10 sin cos tan "
        "sinh cosh tanh asin acos atan asinh atanh hypot atan2 logaddexp reciprocal"
    )
)
EXACT_IF_INTEGER = frozenset(
    words(
        "** @ matmul tensordot einsum dot outer vecdot sum prod cumulative_sum cumsum "
        "cumulative_prod"
    )
)
ROUNDED_IF_COMPLEX = frozenset(words("* multiply square abs"))
# Discontinuous in complex numbers, which NumPy orders by real part first.
ORDERED = frozenset(words("max min maximum minimum sort clip"))
COMPARED = frozenset(words("int bool contains index hash"))
KNOWN_KINDS = "biufc"
CAP = 1e3
NUMPY_ERRORS = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError)


class Undefined(Exception):
    """NumPy gives no answer that another library could be held to."""


class Mismatch(AssertionError):
    """The two worlds gave different answers, at the end of the program it carries."""

    def __init__(self, message: str, program: Program) -> None:
        super().__init__(message)
        self.program = program


class Rounding(IntEnum):
    """How far values are known."""

    NONE = 0
    DOUBLE = 1
    SINGLE = 2
    HALF = 3


PRECISIONS = {
    "float16": Rounding.HALF,
    "float32": Rounding.SINGLE,
    "complex64": Rounding.SINGLE,
}
TOLERANCES = {
    Rounding.DOUBLE: (1e-9, 1e-9),
    Rounding.SINGLE: (1e-4, 1e-3),
    Rounding.HALF: (1e-2, 1e-2),
}


class World:
    """Named arrays of one library, and how each step acts on them."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self.values: dict[str, Any] = {}
        self.exports: dict[str, np.ndarray[Any, Any]] = {}

    # -- hooks: what differs between the worlds

    def made(self, step: Create | ImportThenChange) -> Any:
        raise NotImplementedError

    def own(self, result: Any) -> Any:
        raise NotImplementedError

    def view(self, result: Any, step: View) -> Any:
        raise NotImplementedError

    def exported(self, value: Any, how: str) -> np.ndarray[Any, Any]:
        raise NotImplementedError

    def evaluate(self, *values: Any) -> None:
        raise NotImplementedError

    def detached(self, value: Any) -> Any:
        """The right hand side of a write, or an index array."""
        return value

    def is_scalar(self, value: Any) -> bool:
        """Whether it is a value, not an array."""
        return bool(self.xp.isscalar(value))

    # -- names, operands and keys

    def __getitem__(self, name: str) -> Any:
        if name not in self.values:
            raise Undefined(f"no variable {name}")
        return self.values[name]

    def operand(self, part: Any) -> Any:
        match part:
            case Var(name):
                return self[name]
            case Scalar(value):
                return value
            case NumPyScalar() | Literal() | IndexArray():
                return part.get()
            case tuple() if any(isinstance(item, Var | Literal) for item in part):
                return [self.operand(item) for item in part]
            case _:
                return part

    def key_item(self, item: KeyItem) -> Any:
        match item:
            case int():
                return item
            case Var(name):
                return self.detached(self[name])
            case _:
                return item.get()

    def key(self, key: Key) -> Any:
        items = tuple(self.key_item(item) for item in key)
        return items[0] if len(items) == 1 else items

    # -- steps

    def run(self, step: Step) -> Any:
        """What the step lets Python see; `None` for most."""
        match step:
            case Create(name) | ImportThenChange(name):
                self.values[name] = self.made(step)
            case View(name, source, how, args):
                self.values[name] = self.view(self.viewed(self[source], how, args), step)
            case Gather(name, source, key):
                self.values[name] = self.own(self[source][self.key(key)])
            case ReadFlat(name, source, item):
                self.values[name] = self.own(self[source].flat[self.key_item(item)])
            case Operate(name, op, left, right):
                self.values[name] = self.own(OPERATORS[op](self.operand(left), self.operand(right)))
            case Call(name):
                self.values[name] = self.own(self.called(step))
            case Copy(name, source):
                self.values[name] = self.own(self.copied(self[source], step))
            case Bind(name, source):
                self.values[name] = self[source]
            case Evaluate(names):
                self.evaluate(*(self[name] for name in names))
            case Observe(source, how, observed_key, value):
                found = self[source]
                if observed_key is not None:
                    found = found[self.key(observed_key)]
                return self.observed(found, how, self.operand(value))
            case Export(name, source, how):
                self.exports[name] = self.exported(self[source], how)
            case Drop(name):
                self[name]
                del self.values[name]
            case _:
                self.write(step)
        return None

    def write(self, step: Step) -> None:
        match step:
            case Assign(target, key, value):
                self[target][self.key(key)] = self.detached(self.operand(value))
            case AssignFlat(target, item, value):
                self[target].flat[self.key_item(item)] = self.detached(self.operand(value))
            case AssignPart(target, part, value):
                setattr(self[target], part, self.detached(self.operand(value)))
            case Fill(target, value):
                self[target].fill(self.operand(value))
            case SortInPlace(target, axis):
                self[target].sort(axis)
            case InPlace(target, op, value):
                before = self[target]
                after = IN_PLACE[op](before, self.operand(value))
                if after is not before:
                    assert self.is_scalar(before), f"{step} rebinds its name"
                    self.values[target] = self.own(after)
            case InPlaceAt(target, key, op, value):
                place = self.key(key)
                item = IN_PLACE[op](self[target][place], self.operand(value))
                self[target][place] = item
            case _:
                raise NotImplementedError(step)

    def viewed(self, source: Any, how: str, args: tuple[Any, ...]) -> Any:
        if how == "index":
            return source[self.key(args)]
        if how in METHOD_VIEWS:
            return getattr(source, how)(*args)
        if how in ("T", "mT", "real", "imag"):
            return getattr(source, how)
        return getattr(self.xp, how)(source, *args)

    def called(self, step: Call) -> Any:
        args = [self.operand(arg) for arg in step.args]
        if step.is_method:
            result = getattr(args[0], step.function)(*args[1:], **dict(step.kwargs))
        else:
            result = getattr(self.xp, step.function)(*args, **dict(step.kwargs))
        return result[0] if step.function == "nonzero" else result

    def copied(self, source: Any, step: Copy) -> Any:
        match step.how:
            case "method":
                return source.copy()
            case "flatten":
                return source.flatten()
            case "astype":
                return source.astype(np.dtype(step.dtype))
            case "array":
                return self.xp.array(source)
            case "pickle":
                return pickle.loads(pickle.dumps(source))
            case "copy":
                return copy.copy(source)
            case _:
                return copy.deepcopy(source)

    def observed(self, found: Any, how: str, value: Any) -> Any:
        match how:
            case "asarray":
                return np.array(found)
            case "iterate":
                return [np.array(row) for row in found]
            case "contains":
                return value in found
            case "attributes":
                return (found.shape, np.dtype(found.dtype), found.ndim, found.size, found.nbytes)
            case "item" | "tolist":
                return getattr(found, how)()
            case "repr":
                return bool(repr(found))
            case _:
                return READERS[how](found)


def hash_but_of_nan(found: Any) -> int:
    """The hash of a scalar; 0 for a NaN, which Python hashes by the identity of the object."""
    value = hash(found)
    return 0 if bool(found != found) else value


READERS: dict[str, Callable[[Any], Any]] = {
    "float": float, "int": int, "bool": bool, "complex": complex, "index": operator.index,
    "len": len, "hash": hash_but_of_nan,
}  # fmt: skip


class Subject(World):
    """infinitensor, or a module that looks like it."""

    def made(self, step: Create | ImportThenChange) -> Any:
        if isinstance(step, ImportThenChange):
            host = step.host()
            value = self.xp.asarray(host)
            host[...] = 1
            return self.own(value)
        return self.own(create(self.xp, step))

    def own(self, result: Any) -> Any:
        assert isinstance(result, self.xp.Tensor), f"a {type(result)}, not a Tensor"
        return result

    def view(self, result: Any, step: View) -> Any:
        return self.own(result)

    def exported(self, value: Any, how: str) -> np.ndarray[Any, Any]:
        made = value.numpy() if how == "numpy" else getattr(np, how)(value)
        assert type(made) is np.ndarray, f"a {type(made)}, not an ndarray"
        return made

    def evaluate(self, *values: Any) -> None:
        self.xp.compute(*values)

    def run(self, step: Step) -> Any:
        with warnings.catch_warnings():  # NumPy warns of it; whether we do is not asked here
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            return super().run(step)


def create(xp: Any, step: Create) -> Any:
    literal = step.literal
    dtype = np.dtype(literal.dtype)
    match step.via:
        case "zeros" | "ones":
            return getattr(xp, step.via)(literal.shape, dtype=dtype)
        case "full":
            fill = POOLS[literal.dtype][literal.seed % 2]
            return xp.full(literal.shape, fill, dtype=dtype)
        case "arange":
            return xp.arange(int(np.prod(literal.shape, dtype=int)), dtype=dtype)
        case _:
            return getattr(xp, step.via)(literal.get())


class Oracle(World):
    """NumPy, with an account of which arrays share memory and which are exact."""

    def __init__(self) -> None:
        super().__init__(np)
        self.group: dict[str, int] = {}
        self.rounding: dict[int, Rounding] = {}  # of a group; absent: exact
        self.export_rounding: dict[str, Rounding] = {}
        self.shares = False  # whether the view of the last step shares memory with its source

    def made(self, step: Create | ImportThenChange) -> Any:
        if isinstance(step, ImportThenChange):
            return step.host().copy(order="K")
        return np.array(create(np, step), order="C")

    def own(self, result: Any) -> Any:
        owned = result if isinstance(result, np.generic) else np.array(result, order="C")
        if isinstance(result, int) and not isinstance(result, bool):
            owned = np.int64(result)  # `count_nonzero`
        if owned.dtype.kind not in KNOWN_KINDS or owned.dtype.name == "longdouble":
            raise Undefined(owned.dtype)
        if owned.size > 2000 or owned.ndim > 6:
            raise Undefined(owned.shape)
        return owned

    def view(self, result: Any, step: View) -> Any:
        self.shares = not self.is_scalar(result) and not self.is_scalar(self[step.source])
        if result.ndim > 6 or result.size > 2000:
            raise Undefined(result.shape)
        if step.how == "diagonal" and self[step.source].flags.writeable:
            result.flags.writeable = True  # the issue wants writes through a diagonal
        return result

    def exported(self, value: Any, how: str) -> np.ndarray[Any, Any]:
        return np.array(value, order="C")

    def evaluate(self, *values: Any) -> None:
        pass

    def observed(self, found: Any, how: str, value: Any) -> Any:
        return super().observed(found, how, value)

    def detached(self, value: Any) -> Any:
        return value.copy() if isinstance(value, np.ndarray) else value

    def run(self, step: Step) -> Any:
        self.shares = False
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rounding = self.checked(step)
            try:
                found = super().run(step)
            except NUMPY_ERRORS as error:
                self.check_error(step, error)
                raise
        self.note(step, rounding)
        return found

    def check_error(self, step: Step, error: Exception) -> None:
        """Which of two errors comes first is not asked."""
        if isinstance(step, Assign) and not isinstance(error, IndexError):
            try:
                self[step.target][self.key(step.key)]
            except IndexError:
                raise Undefined("two errors at once") from error

    # -- exactness

    def rounding_of(self, part: Any) -> Rounding:
        if isinstance(part, tuple):
            return max((self.rounding_of(item) for item in part), default=Rounding.NONE)
        if not isinstance(part, Var) or part.name not in self.group:
            return Rounding.NONE
        return self.rounding.get(self.group[part.name], Rounding.NONE)

    def note(self, step: Step, rounding: Rounding) -> None:
        match step:
            case Bind(name, source):
                self.group[name] = self.group[source]
            case View(name, source) if self.shares:
                self.group[name] = self.group[source]
            case Export(name, source):
                self.export_rounding[name] = self.rounding_of(Var(source))
            case (
                Create(name)
                | ImportThenChange(name)
                | Gather(name)
                | ReadFlat(name)
                | Operate(name)
                | Call(name)
                | Copy(name)
                | View(name)
            ):
                if isinstance(step, View):
                    rounding = self.rounding_of(Var(step.source))
                self.group[name] = max(self.group.values(), default=0) + 1
                is_float = self[name].dtype.kind in "fc"
                self.rounding[self.group[name]] = rounding if is_float else Rounding.NONE
            case Drop(name):
                del self.group[name]
            case Evaluate() | Observe():
                pass
            case _:
                if isinstance(step, InPlace) and self.is_scalar(self[step.target]):
                    before = self.rounding_of(Var(step.target))
                    self.group[step.target] = max(self.group.values()) + 1
                    self.rounding[self.group[step.target]] = before
                if self[step.target].dtype.kind in "fc":
                    group = self.group[step.target]
                    self.rounding[group] = max(rounding, self.rounding.get(group, Rounding.NONE))

    def checked(self, step: Step) -> Rounding:
        """How far the step's result is known; `Undefined` if NumPy does not define it."""
        match step:
            case Operate(_, op, left, right):
                return self.check_function(
                    op,
                    (left, right),
                    lambda: OPERATORS[op](self.operand(left), self.operand(right)),
                )
            case Call(_, function, args, _):
                return self.check_function(function, args, lambda: self.called(step))
            case InPlace(target, op, value):
                return self.check_in_place(target, (Whole("..."),), op, value)
            case InPlaceAt(target, key, op, value):
                return self.check_in_place(target, key, op, value)
            case Copy(_, source, how, dtype):
                if how == "astype":
                    check_cast(self[source], np.dtype(dtype), self.rounding_of(Var(source)))
                return self.rounding_of(Var(source))
            case Gather(_, source, _) | ReadFlat(_, source, _):
                return self.rounding_of(Var(source))
            case (
                Assign(target, _, value)
                | AssignFlat(target, _, value)
                | AssignPart(target, _, value)
                | Fill(target, value)
            ):
                check_cast(self.operand(value), self[target].dtype, self.rounding_of(value))
                if self.is_scalar(self[target]) and not isinstance(step, Assign):
                    raise Undefined("NumPy writes to an array that nobody has")
                if isinstance(value, Var):
                    check_fill(self[value.name], self[target].dtype)
                if isinstance(step, AssignPart) and np.iscomplexobj(self.operand(value)):
                    raise Undefined("a complex number as the part of one")
                if isinstance(step, AssignFlat) and isinstance(value, Literal):
                    self.check_flat(step, value.shape)
                if isinstance(step, Fill) and isinstance(value, NumPyScalar):
                    check_fill(value.get(), self[target].dtype)
                return self.rounding_of(value)
            case SortInPlace(target, _):
                if self[target].dtype.kind == "c" and self.rounding_of(Var(target)):
                    raise Undefined("an order of rounded complex numbers")
                return Rounding.NONE
            case Observe(source, how, _, _):
                if how in COMPARED and self.rounding_of(Var(source)):
                    raise Undefined("a comparison of rounded values")
                if how == "int":
                    check_cast(self[source], np.dtype("int64"), Rounding.NONE)
                return Rounding.NONE
            case _:
                return Rounding.NONE

    def check_function(
        self, function: str, parts: tuple[Any, ...], call: Callable[[], Any]
    ) -> Rounding:
        """How far the result of a function is known."""
        inexact = [self.rounding_of(part) for part in parts]
        if any(inexact) and function not in SMOOTH:
            raise Undefined(f"{function} of rounded values")
        if function in ("/", "divide") and inexact[1]:
            raise Undefined("division by a rounded value")
        if max(inexact) is Rounding.HALF:
            raise Undefined("half precision is compared at once")
        arrays = [self.operand(part) for part in parts]
        arrays = [x for part in arrays for x in (part if isinstance(part, list) else [part])]
        numbers = [np.asarray(x) for x in arrays if not isinstance(x, str | tuple | type(None))]
        check_values(function, numbers)
        try:
            result = np.asarray(call())
        except NUMPY_ERRORS as error:
            if isinstance(error, TypeError) and not fit_together(numbers):
                raise Undefined("two errors at once") from error
            return Rounding.NONE
        is_complex = any(x.dtype.kind == "c" for x in (*numbers, result))
        is_rounded = function in ROUNDED or (is_complex and function in ROUNDED_IF_COMPLEX)
        if function in EXACT_IF_INTEGER and result.dtype.kind in "bui":
            is_rounded = False
        if not is_rounded and not any(inexact):
            return Rounding.NONE
        if is_complex and function in ORDERED:
            raise Undefined("an order of rounded complex numbers")
        is_contraction = function in ("einsum", "matmul", "@", "tensordot", "vecdot", "dot")
        if is_contraction and not all(np.isfinite(x).all() for x in numbers):
            raise Undefined("libraries differ in products and sums of infinities")
        if is_complex and is_rounded and not all(np.isfinite(x).all() for x in (*numbers, result)):
            raise Undefined("libraries differ in the other part of a complex infinity")
        if any(magnitude(x) > CAP for x in (*numbers, result)):
            raise Undefined("numbers too large to be compared after rounding")
        floats = [x.dtype.name for x in (*numbers, result) if x.dtype.kind in "fc"]
        return max(*inexact, *(PRECISIONS.get(name, Rounding.DOUBLE) for name in floats))

    def check_flat(self, step: AssignFlat, shape: tuple[int, ...]) -> None:
        try:
            found = self[step.target].flat[self.key_item(step.key)]
        except NUMPY_ERRORS:
            return
        if np.shape(found) != shape:
            raise Undefined("flat repeats short values")

    def check_in_place(self, target: str, key: Key, op: str, value: Any) -> Rounding:
        try:
            item = self[target][self.key(key)]
        except NUMPY_ERRORS:
            return Rounding.NONE
        other = np.asarray(self.operand(value))
        is_scalar = self.is_scalar(self[target])
        if not is_scalar and not (
            self[target].flags.writeable and fit_together([item, other], np.shape(item))
        ):
            try:
                IN_PLACE[op](np.zeros(1, item.dtype), np.zeros_like(other, shape=(1,)))
            except TypeError as error:
                raise Undefined("two errors at once") from error
        results = []

        def call() -> Any:
            results.append(OPERATORS[op](item, self.operand(value)))
            return results[-1]

        rounding = self.check_function(op, (Var(target), value), call)
        if results and self.is_scalar(item) and not is_scalar:  # it is computed, then written
            check_cast(results[-1], self[target].dtype, rounding)
            check_fill(results[-1], self[target].dtype)
        return rounding


def fit_together(arrays: list[Any], shape: tuple[int, ...] | None = None) -> bool:
    """Whether the arrays broadcast, to the shape where one is given."""
    try:
        together = np.broadcast_shapes(*(np.shape(array) for array in arrays))
    except ValueError:
        return False
    return shape is None or bool(together == shape)


def magnitude(numbers: np.ndarray[Any, Any]) -> float:
    if numbers.dtype.kind not in KNOWN_KINDS:
        return 0.0
    finite = np.abs(numbers.astype(np.complex128))
    finite = finite[np.isfinite(finite)]
    return float(finite.max()) if finite.size else 0.0


def check_values(function: str, numbers: list[np.ndarray[Any, Any]]) -> None:
    """Refuse what C leaves undefined, and errors that depend on values."""
    if function in ("unique", "searchsorted") and any(np.isnan(x).any() for x in numbers):
        raise Undefined("NaN in a sorted set")
    integers = all(x.dtype.kind in "bui" for x in numbers)
    if function in ("<<", ">>") and ((numbers[1] < 0) | (numbers[1] > 6)).any():
        raise Undefined("a wide or negative shift")
    if function == "**" and integers and (numbers[1] < 0).any():
        raise Undefined("an integer to a negative power: known only with the values")
    if function == "reciprocal" and integers:
        raise Undefined("an integer reciprocal")


def check_cast(value: Any, dtype: np.dtype[Any], rounding: Rounding) -> None:
    numbers = np.asarray(value)
    if dtype.kind not in "bui":
        return
    if rounding:
        raise Undefined("a rounded value cast to an integer")
    if dtype.kind == "b" or numbers.dtype.kind not in "fc":
        return
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    if not (np.isfinite(numbers) & (numbers.real > least) & (numbers.real < most)).all():
        raise Undefined("a float cast to an integer that cannot hold it")


def check_fill(value: Any, dtype: np.dtype[Any]) -> None:
    """`fill`, and a write to one element, take a NumPy integer for a Python one, which has to fit;
    other writes, and those of 0-d arrays, do not: not worth following."""
    if value.ndim == 0 and value.dtype.kind in "ui" and dtype.kind in "ui":
        limits = np.iinfo(dtype)
        if not limits.min <= int(value) <= limits.max:
            raise Undefined("a NumPy integer out of bounds")


# --------------------------------------------------------------------------- comparison


def assert_same(expected: Any, actual: Any, rounding: Rounding) -> None:
    """Equal in shape, dtype and value; in value as far as it is known."""
    if isinstance(expected, np.generic):
        expected, actual = np.array(expected), np.array(actual)
    if isinstance(expected, np.ndarray):
        assert isinstance(actual, np.ndarray), f"a {type(actual)}, not an ndarray"
        assert actual.shape == expected.shape, f"shape {actual.shape}, not {expected.shape}"
        assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, not {expected.dtype}"
        assert is_close(expected, actual, rounding), f"\n{actual!r}, not\n{expected!r}"
    elif isinstance(expected, list):
        assert isinstance(actual, list), f"a {type(actual)}, not a list"
        assert len(actual) == len(expected), f"{len(actual)} items, not {len(expected)}"
        for one, other in zip(expected, actual, strict=True):
            assert_same(one, other, rounding)
    elif isinstance(expected, float | complex):
        assert type(actual) is type(expected), f"a {type(actual)}, not a {type(expected)}"
        close = is_close(np.array(expected), np.array(actual), rounding)
        assert close, f"{actual}, not {expected}"
    else:
        assert type(actual) is type(expected), f"a {type(actual)}, not a {type(expected)}"
        assert actual == expected, f"{actual}, not {expected}"


def is_close(
    expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any], rounding: Rounding
) -> bool:
    is_float = expected.dtype.kind in "fc"
    if not rounding or not is_float:
        return bool(np.array_equal(expected, actual, equal_nan=is_float))
    rtol, atol = TOLERANCES[max(rounding, PRECISIONS.get(expected.dtype.name, Rounding.DOUBLE))]
    parts = [(expected.real, actual.real), (expected.imag, actual.imag)]
    return all(np.allclose(b, a, rtol=rtol, atol=atol, equal_nan=True) for a, b in parts)


@dataclass(slots=True)
class Outcome:
    value: Any = None
    error: Exception | None = None


def outcome(world: World, step: Step, kinds: tuple[type[Exception], ...]) -> Outcome:
    try:
        return Outcome(value=world.run(step))
    except Undefined:
        raise
    except kinds as error:
        return Outcome(error=error)


def public_type(error: Exception) -> type[BaseException]:
    """The nearest class of the error that NumPy documents."""
    return next(c for c in type(error).__mro__ if c.__module__ in ("builtins", "numpy.exceptions"))


def check_step(step: Step, oracle: Oracle, subject: Subject) -> None:
    expected = outcome(oracle, step, NUMPY_ERRORS)
    actual = outcome(subject, step, (Exception,))
    if expected.error is not None:
        kind: Any = public_type(expected.error)
        if isinstance(step, AssignFlat) and kind is ValueError:
            kind = NUMPY_ERRORS  # NumPy hides the error of a single item
        got = "nothing" if actual.error is None else repr(actual.error)
        assert isinstance(actual.error, kind), f"raised {got}, NumPy {expected.error!r}"
        return
    if actual.error is not None:
        raise AssertionError(f"raised {actual.error!r}, NumPy nothing") from actual.error
    if isinstance(step, Observe):
        assert_same(expected.value, actual.value, oracle.rounding_of(Var(step.source)))
    name = getattr(step, "name", getattr(step, "target", None))
    if name in oracle.values:
        one, other = oracle[name], subject[name]
        assert tuple(other.shape) == one.shape, f"shape {other.shape}, not {one.shape}"
        assert np.dtype(other.dtype) == one.dtype, f"dtype {other.dtype}, not {one.dtype}"
        is_scalar = subject.is_scalar(other)
        assert is_scalar == oracle.is_scalar(one), f"{'a' if is_scalar else 'no'} scalar"


def check_end(program: Program, oracle: Oracle, subject: Subject) -> None:
    assert oracle.values.keys() == subject.values.keys()
    if program.together:
        subject.evaluate(*subject.values.values())
    for name, expected in oracle.values.items():
        try:
            assert_same(expected, np.array(subject[name]), oracle.rounding_of(Var(name)))
        except AssertionError as error:
            raise AssertionError(f"{name} is {error}") from error
    for name, expected in oracle.exports.items():
        try:
            assert_same(expected, subject.exports[name], oracle.export_rounding[name])
        except AssertionError as error:
            raise AssertionError(f"exported {name} is {error}") from error


def replay(program: Program, it: Any) -> None:
    """Run the program in both worlds; `Mismatch` says at which step they part."""
    oracle, subject = Oracle(), Subject(it)
    n_run, where = 0, "at the end"
    try:
        for step in program.steps:
            n_run, where = n_run + 1, f"step {n_run}: {step}"
            check_step(step, oracle, subject)
        where = "at the end"
        check_end(program, oracle, subject)
    except Undefined:
        raise
    except Exception as error:
        run = Program(program.steps[:n_run], program.together)
        raise Mismatch(f"{where}\n{error!r}\nin\n{run}", run) from error


def failure(program: Program, it: Any) -> Mismatch | None:
    try:
        replay(program, it)
    except Mismatch as error:
        return error
    except Undefined:
        return None
    return None


def minimised(found: Mismatch, it: Any) -> Mismatch:
    """The mismatch of a program without every step that can go while the worlds still part."""
    shorter = True
    while shorter:
        shorter = False
        for at in reversed(range(len(found.program.steps))):
            steps = found.program.steps
            if at >= len(steps):
                continue
            candidate = Program(steps[:at] + steps[at + 1 :], found.program.together)
            smaller = failure(candidate, it)
            if smaller is not None:
                found, shorter = smaller, True
    return found


def check(program: Program, it: Any) -> None:
    """`replay`, but what is raised is about the smallest program that still fails."""
    found = failure(program, it)
    if found is not None:
        smallest = minimised(found, it)
        raise smallest from smallest.__cause__
