"""A program as data: a tuple of small steps over named arrays.

A step says what to do, never in which library: `worlds.py` runs the same steps over NumPy and over
infinitensor. `str(program)` is Python source in which `xp` is either, so that a failing program can
be pasted into a shell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np


def words(text: str) -> tuple[str, ...]:
    """Names, as one reads them in a list."""
    return tuple(text.split())


SMALL = (-3, -2, -1, 0, 1, 2, 3, 5, 7)
POOLS: dict[str, tuple[Any, ...]] = {
    "bool": (False, True),
    "int8": (*SMALL, -128, 100, 127),
    "uint8": (0, 1, 2, 3, 5, 7, 11, 200, 255),
    "int32": (*SMALL, 11, -(2**31), 2**31 - 1),
    "int64": (*SMALL, 11, 13, 2**40, -(2**62)),
    "float32": (-8.0, -2.5, -1.0, -0.75, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 6.25),
    "float64": (-8.0, -2.5, -1.0, -0.75, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 6.25),
    "complex128": (0j, 1 + 0j, 1j, -1 - 1j, 2 - 0.5j, -0.25 + 3j, 1.5 + 2j, -3 + 0j, 5 - 2j),
}
SPECIAL = (float("nan"), float("inf"), -float("inf"), -0.0)
DTYPES = tuple(POOLS)


# ---------------------------------------------------------------------------- operands


@dataclass(frozen=True, slots=True)
class Var:
    """A live variable."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Scalar:
    """A Python scalar: weak in NumPy's promotion."""

    value: bool | int | float | complex

    def __str__(self) -> str:
        if isinstance(self.value, float) and not np.isfinite(self.value):
            return f"float('{self.value}')"
        return f"({self.value})" if isinstance(self.value, complex) else repr(self.value)


@dataclass(frozen=True, slots=True)
class NumPyScalar:
    """A NumPy scalar: as strong as an array in NumPy's promotion."""

    dtype: str
    value: bool | int | float | complex

    def get(self) -> Any:
        return np.dtype(self.dtype).type(self.value)

    def __str__(self) -> str:
        return f"np.{np.dtype(self.dtype).type.__name__}({Scalar(self.value)})"


@dataclass(frozen=True, slots=True)
class Literal:
    """An ndarray; its values follow from the seed, one in three seeds adds NaN and infinities."""

    dtype: str
    shape: tuple[int, ...]
    seed: int = 0

    def get(self) -> np.ndarray[Any, Any]:
        pool = POOLS[self.dtype]
        if self.dtype.startswith("float") and self.seed % 3 == 2:
            pool = pool + SPECIAL
        picks = np.random.default_rng(self.seed).integers(len(pool), size=self.shape)
        return np.asarray(np.array(pool, self.dtype)[picks])

    def __str__(self) -> str:
        values = str(self.get().tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
        shaped = f".reshape({self.shape})" if 0 in self.shape else ""
        return f"np.array({values}, '{self.dtype}'){shaped}"


Operand: TypeAlias = Var | Scalar | NumPyScalar | Literal


# -------------------------------------------------------------------------------- keys


@dataclass(frozen=True, slots=True)
class Slice:
    start: int | None
    stop: int | None
    step: int | None

    def get(self) -> slice:
        return slice(self.start, self.stop, self.step)

    def __str__(self) -> str:
        ends = [self.start, self.stop] + ([self.step] if self.step is not None else [])
        return ":".join("" if end is None else str(end) for end in ends)


@dataclass(frozen=True, slots=True)
class Whole:
    """`None` or `...` in a key."""

    text: str

    def get(self) -> Any:
        return None if self.text == "None" else Ellipsis

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class IndexArray:
    """An integer or boolean array in a key, as an ndarray or as a list."""

    shape: tuple[int, ...]
    values: tuple[int, ...] | tuple[bool, ...]
    is_mask: bool = False
    is_list: bool = False

    def get(self) -> Any:
        array = np.array(self.values, bool if self.is_mask else np.int64).reshape(self.shape)
        return array.tolist() if self.is_list else array

    def __str__(self) -> str:
        array = np.array(self.values, bool if self.is_mask else np.int64).reshape(self.shape)
        if self.is_list:
            return str(array.tolist())
        dtype = "bool" if self.is_mask else "int64"
        shaped = f".reshape({self.shape})" if 0 in self.shape else ""
        return f"np.array({array.tolist()}, '{dtype}'){shaped}"


KeyItem: TypeAlias = int | Slice | Whole | IndexArray | Var
Key: TypeAlias = tuple[KeyItem, ...]


def key_text(key: Key) -> str:
    if not key:
        return "()"
    return ", ".join(map(str, key)) + ("," if len(key) == 1 and key[0] == Whole("None") else "")


# ------------------------------------------------------------------------------- steps


@dataclass(frozen=True, slots=True)
class Create:
    """A new array from values; `via` is the function that makes it."""

    name: str
    literal: Literal
    via: str = "asarray"  # asarray, array, zeros, ones, full, arange, zeros_like

    def __str__(self) -> str:
        dtype, shape = f"np.dtype('{self.literal.dtype}')", self.literal.shape
        match self.via:
            case "zeros" | "ones":
                return f"{self.name} = xp.{self.via}({shape}, dtype={dtype})"
            case "full":
                fill = Scalar(POOLS[self.literal.dtype][self.literal.seed % 2])
                return f"{self.name} = xp.full({shape}, {fill}, dtype={dtype})"
            case "arange":
                return f"{self.name} = xp.arange({np.prod(shape, dtype=int)}, dtype={dtype})"
            case _:
                return f"{self.name} = xp.{self.via}({self.literal})"


@dataclass(frozen=True, slots=True)
class ImportThenChange:
    """A tensor from an ndarray of some memory order, which is overwritten straight after."""

    name: str
    literal: Literal
    order: str  # C, F, reversed, strided

    def host(self) -> np.ndarray[Any, Any]:
        values = self.literal.get()
        match self.order:
            case "C":
                return values
            case "F":
                return np.array(values, order="F")
            case "reversed" if values.ndim:
                return np.flip(np.flip(values).copy())
            case _:
                wide = np.zeros((*values.shape, 2), values.dtype)
                wide[..., 0] = values
                return wide[..., 0]

    def __str__(self) -> str:
        return (
            f"host = {self.literal}  # in memory: {self.order}\n"
            f"{self.name} = xp.asarray(host) if xp is not np else host.copy('K')\nhost[...] = 1"
        )


@dataclass(frozen=True, slots=True)
class View:
    """A view of the source: one of `VIEWS`."""

    name: str
    source: str
    how: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        if self.how == "index":
            return f"{self.name} = {self.source}[{key_text(self.args)}]"
        if self.how in ("T", "mT", "real", "imag"):
            return f"{self.name} = {self.source}.{self.how}"
        args = ", ".join(map(str, self.args))
        if self.how in METHOD_VIEWS:
            return f"{self.name} = {self.source}.{self.how}({args})"
        return f"{self.name} = xp.{self.how}({self.source}, {args})"


METHOD_VIEWS = ("transpose", "swapaxes", "reshape", "ravel", "diagonal", "squeeze")
FUNCTION_VIEWS = ("permute_dims", "expand_dims", "flip", "broadcast_to", "moveaxis")
VIEWS = ("index", "T", "mT", "real", "imag", *METHOD_VIEWS, *FUNCTION_VIEWS)


@dataclass(frozen=True, slots=True)
class Gather:
    """A read through index arrays: a copy."""

    name: str
    source: str
    key: Key

    def __str__(self) -> str:
        return f"{self.name} = {self.source}[{key_text(self.key)}]"


@dataclass(frozen=True, slots=True)
class ReadFlat:
    """A read through `flat`: a copy."""

    name: str
    source: str
    key: KeyItem

    def __str__(self) -> str:
        return f"{self.name} = {self.source}.flat[{self.key}]"


@dataclass(frozen=True, slots=True)
class Assign:
    """`target[key] = value`."""

    target: str
    key: Key
    value: Operand

    def __str__(self) -> str:
        return f"{self.target}[{key_text(self.key)}] = {self.value}"


@dataclass(frozen=True, slots=True)
class AssignFlat:
    """`target.flat[key] = value`."""

    target: str
    key: KeyItem
    value: Operand

    def __str__(self) -> str:
        return f"{self.target}.flat[{self.key}] = {self.value}"


@dataclass(frozen=True, slots=True)
class AssignPart:
    """`target.real = value` or `target.imag = value`."""

    target: str
    part: str
    value: Operand

    def __str__(self) -> str:
        return f"{self.target}.{self.part} = {self.value}"


@dataclass(frozen=True, slots=True)
class Fill:
    """`target.fill(value)`."""

    target: str
    value: Operand

    def __str__(self) -> str:
        return f"{self.target}.fill({self.value})"


@dataclass(frozen=True, slots=True)
class SortInPlace:
    """`target.sort(axis)`."""

    target: str
    axis: int

    def __str__(self) -> str:
        return f"{self.target}.sort({self.axis})"


@dataclass(frozen=True, slots=True)
class InPlace:
    """`target op= value`."""

    target: str
    op: str
    value: Operand

    def __str__(self) -> str:
        return f"{self.target} {self.op}= {self.value}"


@dataclass(frozen=True, slots=True)
class InPlaceAt:
    """`target[key] op= value`: a read, an in-place operator and a write, as Python has it."""

    target: str
    key: Key
    op: str
    value: Operand

    def __str__(self) -> str:
        return f"{self.target}[{key_text(self.key)}] {self.op}= {self.value}"


@dataclass(frozen=True, slots=True)
class Operate:
    """`name = left op right` by Python's operator."""

    name: str
    op: str
    left: Operand
    right: Operand

    def __str__(self) -> str:
        return f"{self.name} = {self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class Call:
    """`name = xp.function(*args, **kwargs)`, or the method of the first argument."""

    name: str
    function: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    is_method: bool = False

    def __str__(self) -> str:
        shown = [argument_text(arg) for arg in self.args]
        named = [f"{key}={value!r}" for key, value in self.kwargs]
        if self.is_method:
            call = f"{shown[0]}.{self.function}({', '.join(shown[1:] + named)})"
        else:
            call = f"xp.{self.function}({', '.join(shown + named)})"
        return f"{self.name} = {call}" + ("[0]" if self.function == "nonzero" else "")


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy by one of the ways there are."""

    name: str
    source: str
    how: str  # method, array, copy, deepcopy, pickle, flatten, astype
    dtype: str = ""

    def __str__(self) -> str:
        match self.how:
            case "method":
                made = f"{self.source}.copy()"
            case "flatten":
                made = f"{self.source}.flatten()"
            case "astype":
                made = f"{self.source}.astype(np.dtype('{self.dtype}'))"
            case "array":
                made = f"xp.array({self.source})"
            case "pickle":
                made = f"pickle.loads(pickle.dumps({self.source}))"
            case _:
                made = f"copy.{self.how}({self.source})"
        return f"{self.name} = {made}"


@dataclass(frozen=True, slots=True)
class Bind:
    """Another name for the same thing."""

    name: str
    source: str

    def __str__(self) -> str:
        return f"{self.name} = {self.source}"


@dataclass(frozen=True, slots=True)
class Evaluate:
    """`it.compute(...)`: nothing in NumPy."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"xp is np or xp.compute({', '.join(self.names)})"


@dataclass(frozen=True, slots=True)
class Observe:
    """Something read out by Python, and compared at once: one of `OBSERVATIONS`."""

    source: str
    how: str
    key: Key | None = None
    value: Operand | None = None

    def __str__(self) -> str:
        read = self.source if self.key is None else f"{self.source}[{key_text(self.key)}]"
        match self.how:
            case "contains":
                return f"print({self.value} in {read})"
            case "iterate":
                return f"print([np.asarray(row) for row in {read}])"
            case "item" | "tolist":
                return f"print({read}.{self.how}())"
            case "asarray":
                return f"print(np.asarray({read}))"
            case "index":
                return f"print(operator.index({read}))"
            case "attributes":
                return f"print({read}.shape, {read}.dtype)"
            case _:
                return f"print({self.how}({read}))"


OBSERVATIONS = (
    "asarray", "float", "int", "bool", "complex", "index", "len", "item", "tolist", "contains",
    "iterate", "attributes", "repr", "hash",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Export:
    """An ndarray handed out, which no later write may change."""

    name: str
    source: str
    how: str  # asarray, numpy, array

    def __str__(self) -> str:
        made = f"{self.source}.numpy()" if self.how == "numpy" else f"np.{self.how}({self.source})"
        return f"{self.name} = {made} if xp is not np else {self.source}.copy()"


@dataclass(frozen=True, slots=True)
class Drop:
    """`del name`: its views live on."""

    name: str

    def __str__(self) -> str:
        return f"del {self.name}"


Step: TypeAlias = (
    Create | ImportThenChange | View | Gather | ReadFlat | Assign | AssignFlat | AssignPart | Fill
    | SortInPlace | InPlace | InPlaceAt | Operate | Call | Copy | Bind | Evaluate | Observe | Export
    | Drop
)  # fmt: skip


def argument_text(argument: Any) -> str:
    if isinstance(argument, tuple) and any(isinstance(part, Var) for part in argument):
        return f"[{', '.join(map(str, argument))}]"
    return repr(argument) if isinstance(argument, str) else str(argument)


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in order; at the end every live variable is compared, `together` after one compute."""

    steps: tuple[Step, ...]
    together: bool = False

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))
