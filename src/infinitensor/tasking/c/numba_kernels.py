"""A group's steps through Numba, where there is no C compiler: the same words, as Python source.

About 0.3 s for each group and kind of operands, in this process only; without Numba groups run step
by step. Reductions are NumPy's, of what the loop wrote.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import HALVES
from infinitensor.native import CompilerError
from infinitensor.ops.table.scalar import Arg
from infinitensor.tasking.c.expressions import (
    CONSTANT,
    Unsupported,
    expression,
    word_and_operands,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.tasking.c.expressions import GroupStep, Input

_NUMBERS = {"inf": "np.inf", "-inf": "-np.inf", "nan": "np.nan"}


@lru_cache(maxsize=1024)
def jitted_kernel(parts: tuple[GroupStep, ...], inputs: tuple[Input, ...], n_outs: int) -> Jitted:
    """The steps of a group in one loop; compiled at its first call."""
    return Jitted(parts, inputs, n_outs)


class Jitted:
    """`jitted(ins, outs, shape)`, as `Compiled` without reductions."""

    def __init__(
        self, parts: tuple[GroupStep, ...], inputs: tuple[Input, ...], n_outs: int
    ) -> None:
        self.lines = list(_steps(parts, inputs))
        self.inputs = inputs
        self.n_outs = n_outs
        self.functions: dict[int, Any] = {}

    def __call__(self, ins: Sequence[Any], outs: Sequence[Any], shape: tuple[int, ...]) -> None:
        arrays = [
            x if given.scalar else np.asarray(x) for given, x in zip(self.inputs, ins, strict=True)
        ]
        every = [*(x for x, g in zip(arrays, self.inputs, strict=True) if not g.scalar), *outs]
        flat = all(x.shape == shape and x.flags.c_contiguous for x in every) or not shape

        def keep(x: Any) -> Any:
            return x.reshape(-1) if flat else np.broadcast_to(x, shape)

        args = [
            given.dtype.type(x) if given.scalar else keep(x)
            for given, x in zip(self.inputs, arrays, strict=True)
        ]
        targets = [out.reshape(-1) if flat else out for out in outs]
        function = self.function(1 if flat else len(shape))
        try:
            function(*args, *targets)
        except Exception as error:
            raise CompilerError(f"Numba failed: {error}") from error

    def function(self, ndim: int) -> Any:
        """The loops over so many axes."""
        if ndim not in self.functions:
            import numba

            space: dict[str, Any] = {"np": np}
            exec("\n".join(self.source(ndim)), space)
            made = numba.njit(nogil=True, error_model="numpy")(space["run"])
            self.functions[ndim] = made
        return self.functions[ndim]

    def source(self, ndim: int) -> list[str]:
        """Its text."""
        names = [f"x{k}" for k in range(len(self.inputs))] + [f"o{k}" for k in range(self.n_outs)]
        at = ", ".join(f"i{axis}" for axis in range(ndim))
        lines = [f"def run({', '.join(names)}):"]
        for axis in range(ndim):
            lines.append(f"{'  ' * (axis + 1)}for i{axis} in range(o0.shape[{axis}]):")
        for k, given in enumerate(self.inputs):
            lines.append("  " * (ndim + 1) + f"e{k} = x{k}" + ("" if given.scalar else f"[{at}]"))
        return lines + ["  " * (ndim + 1) + line.replace("[at]", f"[{at}]") for line in self.lines]


def _steps(parts: Sequence[GroupStep], inputs: Sequence[Input]) -> list[str]:
    """One line a step, and one for each that is stored."""
    lines = []
    for k, part in enumerate(parts):
        if not {part.dtype, *part.loop}.isdisjoint(HALVES):
            raise Unsupported("halves")
        args = []
        for (where, at), loop in zip(part.sources, part.loop, strict=True):
            name = f"e{at}" if where == "in" else f"s{at}"
            args.append((_cast(name, loop), loop))
        if part.tree.word == CONSTANT:
            text = repr(part.tree.args[0])
        else:
            text = args[0][0] if part.tree.word == "cast" else _text(part.tree, args)[0]
        lines.append(f"s{k} = {_cast(text, part.dtype)}")
        if part.stored >= 0:
            lines.append(f"o{part.stored}[at] = s{k}")
    return lines


def _cast(text: str, dtype: np.dtype[Any]) -> str:
    return f"np.{'bool_' if dtype.name == 'bool' else dtype.name}({text})"


def _text(tree: Any, args: Sequence[tuple[str, np.dtype[Any]]]) -> tuple[str, np.dtype[Any]]:
    """Python text and dtype of a tree; dtypes, and what is refused, are as in C."""
    if isinstance(tree, Arg):
        return args[tree.index]
    _, dtype = expression(tree, args)
    word, _, given = word_and_operands(tree, lambda e: _text(e, args), _number)
    if not word.numba:
        raise Unsupported(f"{word.name} of {dtype}")
    texts = [text for text, _ in given]
    return word.numba.format(**dict(zip("xyz", texts, strict=False))), dtype


def _number(value: Any, dtype: np.dtype[Any]) -> str:
    return _cast(_NUMBERS.get(repr(value), repr(value)), dtype)
