"""Draws random programs.

The generator runs NumPy beside itself, so that it knows every shape and draws steps that mean
something; a step that NumPy does not define is dropped, one that NumPy refuses stays (a few a
program): the other world must refuse it too.

hypothesis draws the seed of a program, not each choice in it: its own draws are so skewed towards
the first of every list that a thousand programs leave a third of the functions out. Failing
programs are made small by `worlds.minimised`, which knows steps, not by hypothesis.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from .program import (
    DTYPES,
    OBSERVATIONS,
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
    Operand,
    Operate,
    Program,
    ReadFlat,
    Scalar,
    Slice,
    SortInPlace,
    Step,
    Var,
    View,
    Whole,
    words,
)
from .worlds import IN_PLACE, NUMPY_ERRORS, OPERATORS, Oracle, Undefined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
Shape = tuple[int, ...]

SIZES = (0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 9)
NDIMS = (0, 1, 1, 2, 2, 2, 3)
SCALARS = (0, 1, 2, 3, -1, True, 0.5, 2.0, -2.5, 7, 1j, 1 - 2j, 300, float("inf"), float("nan"))
NAMES = tuple("abcdefgh")
N_ERRORS = 2

UNARY = words(
    "negative positive abs square sign logical_not bitwise_invert floor ceil trunc round isnan "
    "isinf isfinite conj sqrt exp expm1 log log1p log2 log10 sin cos tan sinh cosh tanh asin acos "
    "atan asinh atanh reciprocal"
)
BINARY = words(
    "add subtract multiply divide floor_divide remainder maximum minimum hypot atan2 logaddexp "
    "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor equal not_equal less "
    "less_equal greater greater_equal"
)
REDUCTIONS = words(
    "sum prod max min mean var std any all argmax argmin count_nonzero cumulative_sum "
    "cumulative_prod sort argsort"
)
METHODS = frozenset(words("sum prod max min mean var std any all argmax argmin argsort"))
MOVES = words(
    "concat stack roll repeat tile take where clip tril triu diff nonzero unique searchsorted "
    "take_along_axis"
)
CONTRACTIONS = ("matmul", "@", "tensordot", "einsum", "outer", "vecdot", "dot")


class Generator:
    """One program in the making."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.oracle = Oracle()
        self.steps: list[Step] = []
        self.n_errors = 0

    # -- small draws

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def integer(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def one_in(self, n: int) -> bool:
        return self.integer(1, n) == n

    def live(self) -> list[str]:
        return list(self.oracle.values)[::-1]

    def source(self, wanted: Callable[[Any], bool] = lambda _: True) -> str:
        """A live variable, of those wanted; `Undefined` if there is none."""
        names = [name for name in self.live() if wanted(self.oracle[name])]
        if not names:
            raise Undefined("no such variable")
        return self.pick(names)

    def array(self, name: str) -> np.ndarray[Any, Any]:
        return self.oracle[name]  # type: ignore[no-any-return]

    def new_name(self) -> str:
        """A free name, or one that is taken over when all are in use."""
        free = [name for name in NAMES if name not in self.oracle.values]
        return free[0] if free else self.pick(NAMES)

    def shape(self) -> Shape:
        return tuple(self.pick(SIZES) for _ in range(self.pick(NDIMS)))

    def literal(self, shape: Shape, dtype: str | None = None) -> Literal:
        return Literal(dtype or self.pick(DTYPES), shape, self.integer(0, 63))

    def scalar(self) -> Scalar | NumPyScalar:
        if self.one_in(3):
            dtype = self.pick(DTYPES)
            return NumPyScalar(dtype, Literal(dtype, (), self.integer(0, 63)).get().item())
        return Scalar(self.pick(SCALARS))

    # -- shapes that fit

    def smaller_shape(self, shape: Shape) -> Shape:
        """A shape that broadcasts to the one given."""
        kept = shape[self.integer(0, len(shape)) :] if self.one_in(2) else shape
        return tuple(1 if self.one_in(4) else size for size in kept)

    def value_for(self, shape: Shape, *, both_ways: bool = False) -> Operand:
        """Something that broadcasts to the shape (or, both ways, with it)."""
        if self.one_in(3):
            return self.scalar()
        if self.one_in(2):
            return self.literal(self.smaller_shape(shape))
        names = [n for n in self.live() if broadcasts(self.array(n).shape, shape, both_ways)]
        if self.one_in(30):
            names = self.live()
        return Var(self.pick(names)) if names else self.literal(self.smaller_shape(shape))

    # -- keys

    def slice(self, size: int) -> Slice:
        if self.one_in(4):
            return Slice(None, None, self.pick((None, -1, 2)))
        ends = [None if self.one_in(3) else self.integer(-size - 1, size + 1) for _ in range(2)]
        return Slice(ends[0], ends[1], self.pick((None, 1, -1, 2, -2, 3)))

    def basic_key(self, shape: Shape) -> Key:
        items: list[KeyItem] = []
        for size in shape:
            if size and self.one_in(4):
                items.append(self.integer(-size, size - 1))
            else:
                items.append(self.slice(size))
        if items and self.one_in(25):
            items[0] = shape[0] + 1
        if self.one_in(3):
            first = self.integer(0, len(items))
            last = self.integer(first, len(items))
            items[first:last] = [Whole("...")]
        else:
            items = items[: self.integer(1, len(items))] if items else items
        if self.one_in(4) and len(shape) < 4:
            items.insert(self.integer(0, len(items)), Whole("None"))
        return tuple(items)

    def index_array(self, size: int, shape: Shape, *, may_miss: bool = True) -> IndexArray:
        n = int(np.prod(shape, dtype=int))
        if size == 0 and n:
            raise Undefined("an index into nothing")
        values = tuple(self.integer(-size, size - 1) for _ in range(n))
        if n and may_miss and self.one_in(25):
            values = (size, *values[1:])
        return IndexArray(shape, values, is_list=len(shape) == 1 and n > 0 and self.one_in(3))

    def mask(self, shape: Shape) -> IndexArray:
        n = int(np.prod(shape, dtype=int))
        bits = np.random.default_rng(self.integer(0, 63)).integers(3, size=n) == 0
        return IndexArray(shape, tuple(bits.tolist()), is_mask=True)

    def array_key(self, shape: Shape) -> Key:
        """A key with index arrays: a mask, integer arrays, or both with slices between."""
        if self.one_in(3):
            names = [n for n in self.live() if indexes(self.array(n), shape)]
            if names:
                return (Var(self.pick(names)),)
        if not shape or self.one_in(3):
            first = self.integer(0, len(shape))
            last = self.integer(first, len(shape))
            if first == last and shape:
                first, last = 0, len(shape)
            return (*(self.slice(n) for n in shape[:first]), self.mask(shape[first:last]))
        items: list[KeyItem] = [self.slice(size) for size in shape]
        arrays = self.pick(((3,), (2,), (4,), (2, 2), (0,), (1,)))
        first = self.integer(0, len(shape) - 1)
        items[first] = self.index_array(shape[first], arrays)
        if len(shape) > 1 and self.one_in(2):
            second = (first + self.integer(1, len(shape) - 1)) % len(shape)
            match self.integer(0, 2):
                case 0:
                    items[second] = self.index_array(shape[second], arrays)
                case 1:
                    may_miss = arrays != (0,)  # NumPy checks no index that selects nothing
                    items[second] = self.index_array(shape[second], (1,), may_miss=may_miss)
                case _ if shape[second]:
                    items[second] = self.integer(-shape[second], shape[second] - 1)
        items = items[: first + 1] if self.one_in(3) else items
        if self.one_in(5):
            items.insert(self.integer(0, len(items)), Whole("None"))
        return tuple(items)

    def any_key(self, shape: Shape) -> Key:
        return self.array_key(shape) if self.one_in(3) else self.basic_key(shape)

    def taken(self, name: str, key: Key) -> Shape:
        """The shape of `name[key]`; of `name` where the key is an error."""
        try:
            found: Shape = np.shape(self.array(name)[self.oracle.key(key)])
        except NUMPY_ERRORS:
            found = self.array(name).shape
        return found

    # -- emitting

    def emit(self, step: Step) -> bool:
        """Run and keep the step; false where NumPy refuses it."""
        try:
            self.oracle.run(step)
        except NUMPY_ERRORS:
            if self.n_errors == N_ERRORS:
                raise Undefined("errors enough") from None
            self.n_errors += 1
            self.steps.append(step)
            return False
        self.steps.append(step)
        return True

    # -- steps, one method each

    def create(self) -> None:
        via = self.pick(("asarray", "asarray", "asarray", "array", "zeros", "ones", "full"))
        literal = self.literal(self.shape())
        if via == "full" and literal.dtype in ("float32", "float64"):
            literal = Literal(literal.dtype, literal.shape, 0)
        self.emit(Create(self.new_name(), literal, via))

    def arange(self) -> None:
        dtype = self.pick(("int8", "int32", "int64", "uint8", "float32", "float64"))
        self.emit(Create(self.new_name(), Literal(dtype, (self.integer(0, 40),)), "arange"))

    def import_then_change(self) -> None:
        order = self.pick(("C", "F", "reversed", "strided"))
        self.emit(ImportThenChange(self.new_name(), self.literal(self.shape()), order))

    def index_view(self) -> None:
        source = self.source()
        key = self.basic_key(self.array(source).shape)
        self.emit(View(self.new_name(), source, "index", key))

    def transposed_view(self) -> None:
        source = self.source(lambda x: x.ndim > 0)
        ndim = self.array(source).ndim
        axis = self.integer(-ndim, ndim - 1)
        other = self.integer(0, ndim - 1)
        order = tuple(self.random.sample(range(ndim), ndim))
        how, args = self.pick(
            (
                ("T", ()),
                ("mT", ()),
                ("transpose", order),
                ("permute_dims", (order,)),
                ("swapaxes", (axis, other)),
                ("moveaxis", (axis, other)),
                ("flip", (axis,)),
                ("flip", (None,)),
            )
        )
        self.emit(View(self.new_name(), source, how, args))

    def reshaped_view(self) -> None:
        source = self.source()
        shape = self.array(source).shape
        how = self.pick(("reshape", "reshape", "ravel", "squeeze", "expand_dims"))
        args: tuple[Any, ...] = ()
        match how:
            case "reshape":
                args = (self.factored(int(np.prod(shape, dtype=int))),)
            case "expand_dims":
                args = (self.integer(-len(shape) - 1, len(shape)),)
            case "squeeze":
                ones = [axis for axis, size in enumerate(shape) if size == 1]
                args = (self.pick(ones),) if ones and self.one_in(2) else ()
        self.emit(View(self.new_name(), source, how, args))

    def factored(self, n: int) -> Shape:
        """A shape of n elements, at times with a -1 or of the wrong size."""
        if n == 0:
            return self.pick(((0,), (0, 3), (2, 0), (3, 0, 1)))
        first = self.pick([d for d in range(1, n + 1) if n % d == 0])
        second = self.pick([d for d in range(1, n // first + 1) if (n // first) % d == 0])
        shape = self.pick(
            ((n,), (first, n // first), (first, second, n // first // second), (-1, first))
        )
        return (*shape, 2) if self.one_in(25) else shape

    def part_view(self) -> None:
        source = self.source()
        is_complex = self.array(source).dtype.kind == "c"
        how = self.pick(("real", "imag")) if is_complex else "real"
        self.emit(View(self.new_name(), source, how))

    def diagonal_view(self) -> None:
        source = self.source(lambda x: x.ndim > 1)
        ndim = self.array(source).ndim
        axes = self.random.sample(range(ndim), 2)
        args = (self.integer(-2, 2), *axes) if self.one_in(2) else (self.integer(-1, 1),)
        self.emit(View(self.new_name(), source, "diagonal", args))

    def broadcast_view(self) -> None:
        source = self.source(lambda x: x.ndim < 4)
        shape = self.array(source).shape
        wider = tuple(self.pick((1, 3, 4)) if size == 1 else size for size in shape)
        lead = self.pick(((), (2,), (1,)))
        self.emit(View(self.new_name(), source, "broadcast_to", ((*lead, *wider),)))

    def gather(self) -> None:
        source = self.source()
        self.emit(Gather(self.new_name(), source, self.array_key(self.array(source).shape)))

    def flat_key(self, size: int) -> KeyItem:
        if size and self.one_in(3):
            return self.index_array(size, (self.integer(1, 4),))
        if size and self.one_in(3):
            return self.integer(-size, size - 1)
        return self.slice(size)

    def read_flat(self) -> None:
        source = self.source()
        self.emit(ReadFlat(self.new_name(), source, self.flat_key(self.array(source).size)))

    def assign(self) -> None:
        target = self.source()
        if self.one_in(6) and self.array(target).ndim:
            self.assign_repeated(target)
            return
        key = self.any_key(self.array(target).shape)
        self.emit(Assign(target, key, self.value_for(self.taken(target, key))))

    def assign_repeated(self, target: str) -> None:
        """One element written several times: the last value stays."""
        key: Key = (replace(self.index_array(self.array(target).shape[0], (5,)), is_list=False),)
        self.emit(Assign(target, key, self.literal(self.taken(target, key))))

    def assign_overlapping(self) -> None:
        """`x[1:] = x[:-1]`, backwards, reversed, or a matrix onto its transpose."""
        target = self.source(lambda x: x.ndim > 0 and x.size > 1)
        array = self.array(target)
        key: Key
        if array.ndim == 2 and array.shape[0] == array.shape[1] and self.one_in(2):
            view, key = View(self.new_name(), target, "T"), (Whole("..."),)
        else:
            axis = self.integer(0, array.ndim - 1)
            lead = (Slice(None, None, None),) * axis
            by = self.integer(1, 2)
            read, written = self.pick(
                (
                    (Slice(None, -by, None), Slice(by, None, None)),
                    (Slice(by, None, None), Slice(None, -by, None)),
                    (Slice(None, None, -1), Slice(None, None, None)),
                    (Slice(None, None, -1), Slice(None, None, 1)),
                )
            )
            view = View(self.new_name(), target, "index", (*lead, read))
            key = (*lead, written)
        if view.name == target or not self.emit(view):
            return
        op = self.pick(("+", "-", "*", "|", "^"))
        match self.integer(0, 3):
            case 0:
                self.emit(InPlaceAt(target, key, op, Var(view.name)))
            case 1 if self.array(view.name).shape == array.shape:
                self.emit(InPlace(target, op, Var(view.name)))
            case 2 if self.array(view.name).shape == array.shape:
                self.emit(Operate(self.new_name(), op, Var(target), Var(view.name)))
            case _:
                self.emit(Assign(target, key, Var(view.name)))

    def assign_flat(self) -> None:
        target = self.source()
        key = self.flat_key(self.array(target).size)
        try:
            shape = np.shape(self.array(target).flat[self.oracle.key_item(key)])
        except IndexError:
            shape = ()
        value = self.literal(shape) if shape and self.one_in(2) else self.scalar()
        self.emit(AssignFlat(target, key, value))

    def assign_part(self) -> None:
        target = self.source(lambda x: x.dtype.kind == "c" or self.one_in(3))
        part = self.pick(("real", "imag"))
        self.emit(AssignPart(target, part, self.value_for(self.array(target).shape)))

    def fill(self) -> None:
        self.emit(Fill(self.source(), self.scalar()))

    def sort_in_place(self) -> None:
        target = self.source(lambda x: x.ndim > 0)
        ndim = self.array(target).ndim
        self.emit(SortInPlace(target, self.integer(-ndim, ndim - 1)))

    def exponent(self, op: str, value: Operand) -> Operand:
        """Powers and shifts are kept small."""
        if op == "**":
            return Scalar(self.pick((2, 3, 0, 2.0, 0.5)))
        return Scalar(self.integer(0, 6)) if op in ("<<", ">>") else value

    def in_place(self) -> None:
        target = self.source()
        op = self.pick(tuple(IN_PLACE))
        value = self.exponent(op, self.value_for(self.array(target).shape))
        self.emit(InPlace(target, op, value))

    def in_place_at(self) -> None:
        target = self.source()
        key = self.any_key(self.array(target).shape)
        op = self.pick(tuple(IN_PLACE))
        value = self.exponent(op, self.value_for(self.taken(target, key)))
        self.emit(InPlaceAt(target, key, op, value))

    def operate(self) -> None:
        left = self.source()
        op = self.pick([op for op in OPERATORS if op != "@"])
        right = self.exponent(op, self.value_for(self.array(left).shape, both_ways=True))
        if op not in ("**", "<<", ">>") and self.one_in(4):
            self.emit(Operate(self.new_name(), op, right, Var(left)))
        else:
            self.emit(Operate(self.new_name(), op, Var(left), right))

    def call_unary(self) -> None:
        self.emit(Call(self.new_name(), self.pick(UNARY), (Var(self.source()),)))

    def call_binary(self) -> None:
        left = self.source()
        right = self.value_for(self.array(left).shape, both_ways=True)
        if isinstance(right, Scalar | NumPyScalar) and not self.one_in(3):
            right = Var(left)
        self.emit(Call(self.new_name(), self.pick(BINARY), (Var(left), right)))

    def call_reduction(self) -> None:
        source = self.source()
        ndim = self.array(source).ndim
        function = self.pick(REDUCTIONS)
        axis: Any = self.integer(-ndim, ndim - 1) if ndim else None
        kwargs: tuple[tuple[str, Any], ...] = ()
        if function.startswith(("cum", "sort", "argsort")):
            if not ndim:
                raise Undefined("an order of nothing")
            kwargs = (("axis", axis),)
            if function == "argsort":
                kwargs = (*kwargs, ("kind", "stable")) if self.one_in(9) else kwargs
                kwargs = (*kwargs, ("stable", True)) if len(kwargs) == 1 else kwargs
        else:
            choices = [None, axis] if function.startswith("arg") else [None, axis, (), (0, -1)]
            axis = self.pick(choices)
            if axis == (0, -1) and ndim < 2 and not self.one_in(5):
                axis = None
            kwargs = () if axis is None else (("axis", axis),)
            if self.one_in(3):
                kwargs = (*kwargs, ("keepdims", True))
            if function in ("var", "std") and self.one_in(3):
                kwargs = (*kwargs, ("ddof", 1))
        is_method = function in METHODS and self.one_in(2)
        self.emit(Call(self.new_name(), function, (Var(source),), kwargs, is_method))

    def call_move(self) -> None:
        source = self.source()
        array = self.array(source)
        x = Var(source)
        function = self.pick(MOVES)
        args, kwargs = self.move_arguments(function, x, array)
        self.emit(Call(self.new_name(), function, args, kwargs))

    def move_arguments(
        self, function: str, x: Var, array: np.ndarray[Any, Any]
    ) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
        if function in ("where", "clip", "unique", "nonzero", "searchsorted"):
            return self.value_arguments(function, x, array), ()
        if array.ndim == 0:
            raise Undefined("no axis")
        axis = self.integer(-array.ndim, array.ndim - 1)
        along = (("axis", axis),)
        size = array.shape[axis]
        match function:
            case "concat" | "stack":
                others = [n for n in self.live() if self.array(n).shape == array.shape]
                return ((x, Var(self.pick(others))),), along
            case "roll":
                return (x, self.integer(-3, 3)), along
            case "repeat":
                return (x, self.integer(0, 3)), along
            case "tile":
                return (x, self.pick(((2,), (1, 2), (0,), (2, 1, 2)))), ()
            case "take":
                return (x, self.index_array(size, (self.integer(0, 4),))), along
            case "tril" | "triu":
                return (x,), (("k", self.integer(-2, 2)),)
            case "diff":
                return (x,), along
            case _:
                shape = [1] * array.ndim
                shape[axis] = self.integer(0, 3)
                return (x, replace(self.index_array(size, tuple(shape)), is_list=False)), along

    def value_arguments(
        self, function: str, x: Var, array: np.ndarray[Any, Any]
    ) -> tuple[Any, ...]:
        match function:
            case "where":
                other = self.value_for(array.shape, both_ways=True)
                masks = [n for n in self.live() if self.array(n).dtype == bool]
                masks = [n for n in masks if broadcasts(self.array(n).shape, array.shape, True)]
                mask = Var(self.pick(masks)) if masks else self.mask(array.shape)
                return (mask, x, other) if self.one_in(2) else (mask, other, x)
            case "clip":
                return x, Scalar(self.pick((0, 1))), Scalar(self.pick((2, 5)))
            case "searchsorted":
                bins = Create(self.new_name(), Literal("int64", (self.integer(0, 9),)), "arange")
                self.emit(bins)
                if bins.name == x.name:
                    raise Undefined("the name was taken over")
                return Var(bins.name), x
            case _:
                return (x,)

    def contract(self) -> None:
        left = self.source(lambda x: x.ndim > 0)
        array = self.array(left)
        function = self.pick(CONTRACTIONS)
        right: Any
        match function:
            case "vecdot":
                right = self.literal(array.shape)
            case "outer":
                left = self.source(lambda x: x.ndim == 1)
                right = self.literal((self.integer(0, 4),))
            case "einsum":
                left = self.source(lambda x: x.ndim == 2)
                rows = self.array(left).shape[1]
                form = self.pick(("ij,jk->ik", "ij,jk->ki", "ij,jk->i", "ij,jk", "ij,jk->"))
                right = self.literal((rows, self.pick(SIZES)))
                self.emit(Call(self.new_name(), "einsum", (form, Var(left), right)))
                return
            case _:
                right = self.literal((array.shape[-1], *self.pick(((), (2,), (0,), (5,)))))
        if function == "@":
            self.emit(Operate(self.new_name(), "@", Var(left), right))
            return
        kwargs = (("axes", 1),) if function == "tensordot" else ()
        name = self.new_name()
        if isinstance(right, Literal) and self.emit(Create(name, right)):
            if name == left:
                raise Undefined("the name was taken over")
            self.emit(Call(self.new_name(), function, (Var(left), Var(name)), kwargs))

    def copy(self) -> None:
        ways = ("method", "array", "copy", "deepcopy", "pickle", "flatten", "astype", "astype")
        how = self.pick(ways)
        dtype = self.pick(DTYPES) if how == "astype" else ""
        self.emit(Copy(self.new_name(), self.source(), how, dtype))

    def bind(self) -> None:
        """Two names for one thing, mostly a scalar, and one of them changes it or is bound anew."""
        source = self.source(lambda x: x.ndim == 0 or self.one_in(3))
        name = self.new_name()
        if name != source and self.emit(Bind(name, source)):
            op = self.pick(tuple(IN_PLACE))
            value = self.exponent(op, self.value_for(self.array(name).shape))
            self.emit(InPlace(self.pick((name, source)), op, value))

    def evaluate(self) -> None:
        names = self.live()
        chosen = names if self.one_in(3) else [self.pick(names)]
        self.emit(Evaluate(tuple(chosen)))

    def observe(self) -> None:
        source = self.source()
        array = self.array(source)
        how = self.pick(OBSERVATIONS)
        key: Key | None = None
        if how in ("float", "int", "bool", "complex", "index", "item") and not self.one_in(5):
            if array.size == 0:
                raise Undefined("no element")
            key = tuple(self.integer(-size, size - 1) for size in array.shape)
        value = self.scalar() if how == "contains" else None
        self.emit(Observe(source, how, key, value))

    def export(self) -> None:
        name = f"exported_{len(self.oracle.exports)}"
        self.emit(Export(name, self.source(), self.pick(("asarray", "numpy", "array"))))

    def drop(self) -> None:
        if len(self.oracle.values) > 1:
            self.emit(Drop(self.source()))


WEIGHTS: dict[Callable[[Generator], None], int] = {
    Generator.evaluate: 4,
    Generator.observe: 4,
    Generator.export: 3,
    Generator.create: 3,
    Generator.arange: 1,
    Generator.import_then_change: 1,
    Generator.index_view: 8,
    Generator.transposed_view: 4,
    Generator.reshaped_view: 5,
    Generator.part_view: 2,
    Generator.diagonal_view: 2,
    Generator.broadcast_view: 2,
    Generator.gather: 3,
    Generator.read_flat: 1,
    Generator.assign: 10,
    Generator.assign_overlapping: 5,
    Generator.assign_flat: 2,
    Generator.assign_part: 2,
    Generator.fill: 1,
    Generator.sort_in_place: 1,
    Generator.in_place: 6,
    Generator.in_place_at: 4,
    Generator.operate: 7,
    Generator.call_unary: 4,
    Generator.call_binary: 3,
    Generator.call_reduction: 6,
    Generator.call_move: 4,
    Generator.contract: 2,
    Generator.copy: 3,
    Generator.bind: 3,
    Generator.drop: 2,
}
STEP_MAKERS = tuple(make for make, weight in WEIGHTS.items() for _ in range(weight))


def broadcasts(shape: Shape, to: Shape, both_ways: bool) -> bool:
    try:
        together = np.broadcast_shapes(shape, to)
    except ValueError:
        return False
    return both_ways or bool(together == to)


def indexes(array: np.ndarray[Any, Any], shape: Shape) -> bool:
    """Whether the array can be the key of an array of this shape."""
    if array.ndim == 0 or not shape:
        return False
    if array.dtype == bool:
        return bool(array.shape == shape[: array.ndim])
    if array.dtype.kind != "i":
        return False
    return bool(((array >= -shape[0]) & (array < shape[0])).all())


def program_of(seed: int, most_steps: int = 24) -> Program:
    """The program of this seed: a few arrays and up to `most_steps` draws of a step."""
    making = Generator(seed)
    making.create()
    for _ in range(making.integer(6, most_steps)):
        make = making.pick(STEP_MAKERS)
        try:
            if not making.oracle.values:
                making.create()
            make(making)
        except Undefined:
            continue
    return Program(tuple(making.steps), together=making.one_in(2))


def programs() -> st.SearchStrategy[Program]:
    """Programs of seeds that hypothesis draws."""
    return st.integers(0, 2**32 - 1).map(program_of)
