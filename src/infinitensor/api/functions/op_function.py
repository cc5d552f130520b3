"""The function that users call for an op of the table.

It takes arguments as NumPy does, asks the op for a `Call`, once for each kind of arguments, and
records it.
"""

from __future__ import annotations

import inspect
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from infinitensor.api.access.scalars import as_value, gives_values
from infinitensor.api.convert.asarray import asarray, operand
from infinitensor.api.convert.foreign import holds_tensors
from infinitensor.api.functions.namespace import namespace
from infinitensor.api.functions.options import numpys
from infinitensor.api.functions.ufunc import ufunc
from infinitensor.api.known.known_calls import Quick
from infinitensor.api.known.known_programs import remembering
from infinitensor.api.known.ladder import looked_up
from infinitensor.api.record.record import host_view, record
from infinitensor.api.session.array_api import MAX_AXES
from infinitensor.api.session.call_cache import cached_rule
from infinitensor.api.session.cell import Ref
from infinitensor.api.session.signatures import binder, forwarder, plain, plain_integer
from infinitensor.api.tensor.tensor import Tensor, fresh, from_values, session_of
from infinitensor.config import config
from infinitensor.dtypes import bfloat16, float32, result_type
from infinitensor.ir.op import At, Spec
from infinitensor.ir.region import whole_box
from infinitensor.ops import TABLE
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.ops.table.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session.session import Session
    from infinitensor.api.session.version import Version
    from infinitensor.ir.op import Call, Op

COMPARISONS = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))
LOOKED_AT = COMPARISONS | {"_where"}
"""Ops that look at the value of a Python integer: it may be beyond the dtype, if that counts."""
NO_OPTIONS: dict[str, Any] = {}
_bound: dict[Any, Any] = {}
_ufuncs: dict[np.ufunc, ufunc] = {}
"""Names of one ufunc are one object, as in NumPy."""
Made = TypeVar("Made")


def bound_call(op: Op | None, key: Any, rule: Callable[[], Made]) -> Made:
    """The call of an op for given specs: made once, so that equal calls are one object."""
    if holds_tensors(key):  # to look it up would compute it
        return rule()
    try:
        found: Made | None = _bound.get(key)
    except TypeError:
        try:
            key = _hashable(key)
            found = _bound.get(key)
        except TypeError:
            return rule()
    if found is None:
        found = rule()
        if op is not None:
            for spec in cast("Call", found).outs:
                check_shape(op.name, spec.shape, spec.dtype)
        if len(_bound) > 65536:
            _bound.clear()
        _bound[key] = found
    return found


def _hashable(key: Any) -> Any:
    """A key in which lists (of lengths, of axes) can be looked up; they are not equal to tuples."""
    if isinstance(key, tuple | list):
        return (type(key), *map(_hashable, key))
    return key


def check_shape(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse what no memory could name; anything else may exist as long as it is not computed."""
    if len(shape) > MAX_AXES:
        raise ValueError(f"{name}: {len(shape)} axes; the most is {MAX_AXES}")
    n_bytes = prod(shape) * dtype.itemsize
    if max(shape, default=0) >= 1 << 62 or n_bytes >= 1 << 62:
        raise ValueError(f"{name}: array is too big: shape {shape} would take {n_bytes} bytes")


def public_function(op: Op) -> Callable[..., Any]:
    """The function users call for an op of the table: a ufunc where NumPy has one."""
    if op.kind == "program":
        made = _program_function(op)
    elif op.kind == "elementwise" and len(inspect.signature(op.rule).parameters) == len(op.arrays):
        made = _elementwise_function(op)
    else:
        made = _op_function(op)
    like = numpys(op.name)
    if isinstance(like, np.ufunc):
        tree = op.expression
        is_numpys = (
            isinstance(tree, Term)
            and all(isinstance(arg, Arg) for arg in tree.args)
            and WORDS[tree.word].numpy is like
        )
        return _ufuncs.setdefault(like, ufunc(made, like, op.doc, is_numpys))
    if op.wide:
        made = _in_float32(made)
    made = _lock_session(made)
    if op.kind == "program":
        made = remembering(op, made)
    made.__name__ = made.__qualname__ = op.name.rsplit(".", 1)[-1]
    made.__doc__ = op.doc
    made.__module__ = "infinitensor"
    return made


def _in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of bfloat16 values by way of float32; its result is rounded once."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        dtypes = [x if isinstance(x, np.dtype) else getattr(x, "dtype", None) for x in given]
        if bfloat16 not in dtypes:
            return function(*args, **kwargs)
        named = [x for x in given if isinstance(x, np.dtype)]
        meant = named[0] if named else result_type(*(x for x in dtypes if x is not None))
        made = function(*map(_wide, args), **{name: _wide(x) for name, x in kwargs.items()})
        if meant != bfloat16:
            return made
        if not isinstance(made, tuple):
            return _rounded(made)
        parts = tuple(map(_rounded, made))
        return type(made)(*parts) if hasattr(made, "_fields") else parts

    wrapper.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    # calls are known by dtypes, and of bfloat16 none is: they are made with float32
    wrapper.quick = getattr(function, "quick", None)  # type: ignore[attr-defined]
    return wrapper


def _wide(value: Any) -> Any:
    if isinstance(value, np.dtype):
        return float32 if value == bfloat16 else value
    return value.astype(float32) if getattr(value, "dtype", None) == bfloat16 else value


def _rounded(value: Any) -> Any:
    return value.astype(bfloat16) if getattr(value, "dtype", None) == float32 else value


def _lock_session(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under the session's lock.

    Between looking at an operand and recording that it is read, no other thread may use it up.
    """
    quick: Quick | None = getattr(function, "quick", None)
    if quick is not None and any(name.startswith("*") for name in quick.op.arrays):
        again = quick.call_many_again
    elif quick is not None:
        again = quick.call_again

    def unknown(*args: Any, **kwargs: Any) -> Any:
        with session_of((*args, *kwargs.values())).guard():
            return function(*args, **kwargs)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        made = None if quick is None else again(args, kwargs)
        return unknown(*args, **kwargs) if made is None else made

    wrapper.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    wrapper.quick = quick  # type: ignore[attr-defined]
    looked_up[wrapper] = unknown
    return wrapper


def _elementwise_function(op: Op) -> Callable[..., Any]:
    n_args = len(op.arrays)
    names = op.arrays
    quick = Quick(op)
    is_value = gives_values(op)
    is_equality = op.name in ("equal", "not_equal")

    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            args = _by_name(op, names, args, kwargs)
        if len(args) != n_args:
            raise TypeError(
                f"{op.name}() takes {n_args} arguments ({', '.join(names)}), got {len(args)}"
            )
        if np.ndarray in map(type, args):  # a call is known by the tensors that they become
            args = tuple(map(_as_tensor, args))
            made = quick.call_again(args, NO_OPTIONS)
            if made is not None:
                return made
        session = session_of(args)
        if is_equality and (args[0] is None) != (args[1] is None):
            other = asarray(args[0] if args[1] is None else args[1])
            return other == None if op.name == "equal" else other != None  # noqa: E711
        found = [operand(session, arg) for arg in args]
        specs = tuple(spec for _, spec in found)
        call = bound_call(op, (op.name, specs), lambda: op.rule(*specs))
        operands = [value for value, _ in found]
        for i, spec in enumerate(specs):
            if not isinstance(operands[i], Ref):
                if (
                    op.name in COMPARISONS
                    and spec.weak is int
                    and _is_outside(operands[i], call.loop[i])
                ):
                    return _compare_outside(op.name, args, i)
                operands[i] = _typed(operands[i], call.loop[i], wraps=op.name == "_where")
        looked_at = op.name in LOOKED_AT and int in map(type, args)
        if not looked_at or (op.name in COMPARISONS and call.loop[0].kind == "f"):
            quick.learn(args, NO_OPTIONS, call)
        made = fresh(session, record(session, op, call, operands)[0])
        return as_value(made) if is_value else made

    function.__signature__ = inspect.signature(op.rule)  # type: ignore[attr-defined]
    function.quick = quick  # type: ignore[attr-defined]
    return function


def _as_tensor(value: Any) -> Any:
    """An array of NumPy's as the operand that it becomes."""
    return asarray(value) if type(value) is np.ndarray and value.dtype.kind in "biufc" else value


def _by_name(
    op: Op, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    values = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise TypeError(f"{op.name}() got an unexpected keyword argument {name!r}")
        if name in values:
            raise TypeError(f"{op.name}() got multiple values for argument {name!r}")
        values[name] = value
    return tuple(values[name] for name in names if name in values)


def _typed(value: Any, dtype: np.dtype[Any], wraps: bool = False) -> Any:
    """A scalar in the dtype it is computed in.

    A Python integer that does not fit is an error, but wraps in `where`, as in NumPy.
    """
    if isinstance(value, np.generic) or wraps:
        return np.asarray(value).astype(dtype)[()]
    if dtype == bfloat16 and type(value) is int:
        value = float(value)  # ml_dtypes takes 64 bits only
    return np.array(value, dtype=dtype)[()]


def _is_outside(value: int, dtype: np.dtype[Any]) -> bool:
    if dtype.kind not in "iu":
        return False
    info = np.iinfo(dtype)
    return not info.min <= value <= info.max


def _compare_outside(name: str, args: tuple[Any, ...], i: int) -> Any:
    """An integer beyond the dtype compares as an infinity would."""
    far = np.float64(np.inf if args[i] > 0 else -np.inf)
    changed = list(args)
    changed[i] = far
    return getattr(namespace, name)(*changed)


def _op_function(op: Op) -> Callable[..., Any]:
    signature = inspect.signature(op.rule)
    array_names = {name.lstrip("*"): name.startswith("*") for name in op.arrays}
    for name in array_names:
        if name not in signature.parameters:
            raise ValueError(f"op {op.name!r}: no parameter {name!r} in {signature}")

    array_names = {n: array_names[n] for n in signature.parameters if n in array_names}
    bind = binder(op.name, signature)
    takes_arrays = op.kind in ("reduction", "contraction", "mapped")
    positional_only = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
    ]
    defaults = {name: parameter.default for name, parameter in signature.parameters.items()}

    quick = Quick(op)
    is_value = gives_values(op)

    def function(*args: Any, **kwargs: Any) -> Any:
        given = bind(*args, **kwargs)
        session = session_of(given.values())
        operands: list[Any] = []
        for name, many in array_names.items():
            value = given[name]
            if value is defaults[name]:
                continue
            if many:
                found = [operand(session, one) for one in value]
                operands += [o for o, _ in found]
                given[name] = tuple(spec for _, spec in found)
            else:
                if takes_arrays and type(value) is not Tensor:
                    value = asarray(value)  # their kernels take arrays only
                one, given[name] = operand(session, value)
                operands.append(one)
        given = {name: plain(value) for name, value in given.items()}
        positional = {name: given.pop(name) for name in positional_only}
        kinds = tuple(map(type, given.values()))  # True and 1.0 are equal to 1, but no axes
        key = (op.name, tuple(positional.items()), tuple(given.items()), kinds)
        call = bound_call(op, key, lambda: op.rule(*positional.values(), **given))
        quick.learn(args, kwargs, call)
        if op.kind == "update":
            versions = [update_version(session, op, call, operands)]
        else:
            if call.loop:
                operands = [
                    o if isinstance(o, Ref) else _typed(o, d)
                    for o, d in zip(operands, call.loop, strict=True)
                ]
            versions = record(session, op, call, operands)
        made = [fresh(session, version) for version in versions]
        if is_value:
            made = [as_value(one) for one in made]
        return made[0] if len(made) == 1 else tuple(made)

    function.__signature__ = signature  # type: ignore[attr-defined]
    function.quick = quick  # type: ignore[attr-defined]
    return function


def update_version(session: Session, op: Op, call: Call, operands: list[Any]) -> Version:
    """The next version of the first operand, by an op that changes tiles in place."""
    base: Ref = operands[0]
    small = base.version.host is not None and prod(base.shape) <= config.small_elements
    if base.view is not None or small:
        copy = TABLE["_copy"]
        made = record(session, copy, cached_rule(copy, (Spec(base.shape, base.dtype),)), [base])
        base = Ref(made[0], None, base.dtype)
    rest = [
        o if isinstance(o, Ref) else from_values(session, np.asarray(o))._ref()
        for o in operands[1:]
    ]
    if small and all(o.version.host is not None for o in (base, *rest)):
        ins = [host_view(o) for o in rest]
        boxes = (whole_box(base.shape), *(whole_box(x.shape) for x in ins))
        kernel = op.kernel_for("cpu")
        kernel(np, *ins, out=base.version.host, at=At(boxes[:1], boxes), **dict(call.params))
        return base.version
    return record(session, op, call, [base, *rest])[0]


def _program_function(op: Op) -> Callable[..., Any]:
    signature = inspect.signature(op.rule)
    _, *given = signature.parameters.values()
    shown = [str(parameter.annotation).replace("Array", "Any") for parameter in given]
    given = [
        p.replace(annotation=text) if "Array" in str(p.annotation) else p
        for p, text in zip(given, shown, strict=True)
    ]
    public = signature.replace(parameters=given)
    array_names = {name.lstrip("*"): name.startswith("*") for name in op.arrays}
    converters: dict[str, Callable[[Any], Any]] = {
        name: _asarrays
        if many or public.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        else _asarray_if_any
        for name, many in array_names.items()
    }
    for name, parameter in public.parameters.items():
        if name not in converters and str(parameter.annotation) in ("int", "int | None"):
            converters[name] = plain_integer
    function = forwarder(op.name, public, op.rule, namespace, converters)
    function.__signature__ = public  # type: ignore[attr-defined]
    return function


def _asarrays(values: Any) -> Any:
    if values is None:
        return None
    if not hasattr(values, "__getitem__"):
        raise TypeError(
            'arrays to stack must be passed as a "sequence" type such as list or tuple.'
        )
    return tuple([asarray(one) for one in values])


def _asarray_if_any(value: Any) -> Any:
    return value if value is None else asarray(value)
