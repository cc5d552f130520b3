"""The op table. A chapter file adds lines with the functions here; nothing else knows the ops.

A *rule* is a plain function with the public signature: it gets a `Spec` for each array parameter
and the other arguments as the user gave them, checks them, and returns a `Call`. Its errors are the
user's errors.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from infinitensor.dtypes import resolve_dtypes
from infinitensor.ir.op import AxisForm, Call, Op, Spec
from infinitensor.ops.table.scalar import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Array: TypeAlias = Any
else:

    class Array:
        """A tensor parameter of a program, as its annotation says."""


TABLE: dict[str, Op] = {}


def add(op: Op) -> Op:
    """Put an op in the table; a name is taken once."""
    if op.name in TABLE:
        raise ValueError(f"op {op.name!r} is in the table already")
    TABLE[op.name] = op
    return op


def op(
    kind: Any, *, name: str = "", space: str = "", arrays: str | None = None, **entry: Any
) -> Callable[[Callable[..., Call]], Op]:
    """Decorator: the rule below it becomes an op; its docstring is the public one.

    The op has the name of the rule, and its tensor parameters are those annotated as `Spec` (of a
    program: as `Array`), or as a sequence of them. `name` (one or more) and `arrays`, separated by
    spaces, say otherwise; `space` is the submodule that it goes to.
    """

    def enter(rule: Callable[..., Call]) -> Op:
        tensors = _tensor_parameters(rule) if arrays is None else tuple(arrays.split())
        doc = inspect.getdoc(rule) or ""
        made = []
        for own in (name or rule.__name__).split():
            full = f"{space}.{own}" if space else own
            usual: dict[str, Any] = {"method": hasattr(np.ndarray, full)}
            usual |= {"same": "equal"} if kind == "gather" else {}  # it moves values
            made.append(add(Op(full, kind, rule, tensors, doc, **usual | entry)))
        return made[0]

    return enter


def _tensor_parameters(rule: Callable[..., Call]) -> tuple[str, ...]:
    """The parameters annotated as a tensor; with a star those that are a sequence of them."""
    names = []
    for name, annotation in rule.__annotations__.items():
        text = getattr(annotation, "__name__", annotation)
        if name != "return" and text in ("Spec", "Spec | None", "Array"):
            names.append(name)
        elif name != "return" and text in ("Sequence[Spec]", "Sequence[Array]"):
            names.append(f"*{name}")
    return tuple(names)


def program(arrays: str | None = None, **entry: Any) -> Callable[[Callable[..., Any]], Op]:
    """Decorator: a function `f(xp, ...)` over other ops becomes a public function without `xp`."""
    return op("program", arrays=arrays, **entry)


def broadcast_form(specs: Sequence[Spec], shape: tuple[int, ...]) -> AxisForm:
    """Elementwise over `shape`: label i is output axis i; size-1 and missing axes are broadcast."""
    ndim = len(shape)
    inputs = []
    for spec in specs:
        lead = ndim - spec.ndim
        inputs.append(
            tuple(
                None if n == 1 and shape[lead + axis] != 1 else lead + axis
                for axis, n in enumerate(spec.shape)
            )
        )
    return AxisForm(shape, tuple(inputs), (tuple(range(ndim)),))


def elementwise(
    name: str,
    expression: Callable[..., Any],
    doc: str,
    *,
    dtype: np.ufunc | Callable[..., tuple[np.dtype[Any], ...]] | None = None,
    **entry: Any,
) -> Op:
    """An elementwise op in one line.

    `expression(e, x, y)` is written over the scalar vocabulary `e` (`ops/table/scalar.py`). `dtype`
    gives the loop dtypes and the output's: NumPy's ufunc of that name by default, or a
    function of the specs that returns (*inputs, output).

    >>> from infinitensor.ops.table.registry import TABLE
    >>> TABLE["hypot"].kind
    'elementwise'
    """
    names = list(inspect.signature(expression).parameters)[1:]
    resolve = dtype if dtype is not None else getattr(np, name)

    def rule(*specs: Spec) -> Call:
        try:
            shape = np.broadcast_shapes(*(spec.shape for spec in specs))
        except ValueError:
            shapes = " ".join(str(spec.shape).replace(" ", "") for spec in specs)
            raise ValueError(
                f"{name}: operands could not be broadcast together with shapes {shapes}; "
                "sizes must be equal or 1, counted from the last axis"
            ) from None
        loop = resolve_loop(resolve, specs)
        return Call(broadcast_form(specs, shape), (Spec(shape, loop[-1]),), (), loop[:-1])

    rule.__name__ = name
    rule.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
    )
    entry.setdefault("method", hasattr(np.ndarray, name))
    entry.setdefault("same", "equal")
    traced = trace(expression, len(names))
    return add(Op(name, "elementwise", rule, tuple(names), doc, expression=traced, **entry))


def resolve_loop(resolve: Any, specs: Sequence[Spec]) -> tuple[np.dtype[Any], ...]:
    """Loop and output dtypes of an elementwise call, by NumPy's own rules."""
    if isinstance(resolve, np.ufunc):
        given = tuple(_weak_or_dtype(spec) for spec in specs)
        found = resolve_dtypes(resolve, (*given, *(None,) * resolve.nout))
        return tuple(found[: resolve.nin + 1])
    return tuple(resolve(*specs))


def _weak_or_dtype(spec: Spec) -> Any:
    return spec.weak if spec.weak in (int, float, complex) else spec.dtype
