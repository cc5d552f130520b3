"""`out`, `where` and `initial` for the functions that have them in NumPy, where NumPy has them.

Which functions those are, and at which place `out` may be given by position, NumPy's own
signatures say. Ufuncs take their options themselves.
"""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access import copies, scalars
from infinitensor.api.functions.ufunc import apply_mask, mask_of, single_target, store_result
from infinitensor.api.known.ladder import looked_up
from infinitensor.api.record.late import call_op, function_named
from infinitensor.api.small.numpy_table import NUMPYS_OWN
from infinitensor.api.tensor.tensor import Tensor, session_of
from infinitensor.dtypes import as_dtype, can_cast, resolve_dtypes
from infinitensor.ir.op import Spec
from infinitensor.ops.forms.reduction import mean_dtype
from infinitensor.ops.reduce.ufunc_reduce import REDUCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REDUCING = {reduction: ufunc for ufunc, reduction in REDUCTIONS.items()}
REDUCING |= {"amax": "maximum", "amin": "minimum"}
"""Reductions that a ufunc's `reduce` is, with `initial` and `where`."""

INEXACT = ("nanmean", "nanstd", "nanvar")
"""Functions whose results NumPy writes to no integers."""
MOMENTS = ("mean", "var", "std")
"""Reductions that take `where`, and no `initial`."""

SUMS = {
    **dict.fromkeys(("sum", "cumsum", "cumulative_sum", "trace", "nansum", "nancumsum"), "add"),
    **dict.fromkeys(("mean", "var", "std", "nanmean"), "add"),
    **dict.fromkeys(("prod", "cumprod", "cumulative_prod", "nanprod", "nancumprod"), "multiply"),
}
"""Functions whose `out` has a say in what they are computed in, and the ufunc that NumPy asks."""

CASTING = {
    **dict.fromkeys(
        (*REDUCING, *SUMS, "nanvar", "nanmax", "nanmin", "median", "nanmedian"), "unsafe"
    ),
    "std": "same_kind",
    "choose": "unsafe",
    "dot": "no",
}
"""How a result may be cast into `out`; "same_kind" where nothing is said."""

COPIED_BACK = frozenset(("argmin", "argmax"))
"""Here NumPy asks that `out` can be cast to the result, safely, and then copies without asking."""
TAKING = frozenset(("take", "compress"))
"""Here it did so before 2.5, and has another rule since: it is asked."""

BY_UFUNCS = frozenset(
    ("fix", "isneginf", "isposinf", "quantile", "percentile", "nanquantile", "nanpercentile")
)
"""These end in a ufunc, which broadcasts what it makes to `out`."""

JOINS = frozenset(("concatenate", "concat", "stack"))
"""Here the parts are cast into `out`, not what they are together."""

UFUNC_LIKE: dict[str, dict[str, Any]] = {
    "clip": {"where": True, "dtype": None, "casting": "same_kind"}
}
"""Functions that hand the options of a ufunc on."""


def numpys(name: str) -> Any:
    """NumPy's function of a public name, or None."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def with_options(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the options that NumPy's function of this name has besides."""
    masks = name in REDUCING or name in MOMENTS
    defaults: dict[str, Any] = {"out": None, **({"initial": None, "where": True} if masks else {})}
    defaults |= {"mean": None} if name in MOMENTS else {}
    like = numpys(name)
    if name not in UFUNC_LIKE and _has_none(like, defaults):
        return function  # most: to read signatures of all takes a tenth of an import
    try:
        theirs = inspect.signature(like).parameters
    except (TypeError, ValueError):  # no such function, or one that does not say
        return function
    ours = inspect.signature(function)
    added = {n: d for n, d in defaults.items() if n in theirs and n not in ours.parameters}
    added |= UFUNC_LIKE.get(name, {})
    if not added:
        return function
    public = _extended(ours, theirs, added)
    n_plain = min(list(public.parameters).index(option) for option in added)
    # what is asked with these options may be another call; what has none was looked up before
    plain_call = looked_up.get(function, function) if name in NUMPYS_OWN else function
    if "out" in added and public.parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY:
        n_plain = 64  # after *operands: none comes by position

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= n_plain and (not kwargs or kwargs.keys().isdisjoint(added)):
            return plain_call(*args, **kwargs)
        try:
            bound = public.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        given = {option: bound.arguments.pop(option, added[option]) for option in added}
        out = single_target(given.pop("out", None))
        if out is not None and name in JOINS:
            _check_join(name, bound.arguments, out)
        if out is not None and name in INEXACT:
            _check_inexact(name, bound.arguments["a"], out)
        with session_of((*args, *kwargs.values())).guard():
            plain = inspect.BoundArguments(ours, bound.arguments)
            if name in UFUNC_LIKE:
                return _as_ufunc(name, plain, out, **given)
            if out is not None and name in SUMS and bound.arguments.get("dtype") is None:
                bound.arguments["dtype"] = _computed_in(name, next(iter(plain.args)), out)
            if out is not None and name in REDUCING and name not in SUMS:
                return _reduce_options(name, plain.arguments, **given, out=out)
            if out is not None and name == "ptp":
                return _ptp(out, **plain.arguments)
            if any(value is not added[option] for option, value in given.items()):
                found = _reduce_options(name, plain.arguments, **given)
            else:
                found = function(*plain.args, **plain.kwargs)
            return found if out is None else _into(name, found, out, plain.arguments)

    def _as_ufunc(
        name: str, plain: Any, out: Tensor | None, where: Any, dtype: Any, casting: str
    ) -> Tensor:
        if dtype is not None:
            for key, value in plain.arguments.items():
                if value is not None:
                    x = call_op("asarray", value)
                    plain.arguments[key] = copies.cast(x, as_dtype(dtype), False, casting)
        found: Tensor = function(*plain.args, **plain.kwargs)
        mask = mask_of(where)
        if out is None:
            return apply_mask(found, mask)
        _check_cast(name, found, out, casting)
        return store_result(found, out, mask, "unsafe")

    wrapper.__signature__ = public  # type: ignore[attr-defined]
    for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(wrapper, attribute, getattr(function, attribute))
    wrapper.quick = getattr(function, "quick", None)  # type: ignore[attr-defined]
    return wrapper


def _has_none(function: Any, names: dict[str, Any]) -> bool:
    """Whether a function of NumPy's that is written in Python has no parameter of these names."""
    code = getattr(getattr(function, "__wrapped__", None), "__code__", None)
    if code is None:
        return function is None
    return names.keys().isdisjoint(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _extended(ours: inspect.Signature, theirs: Any, added: dict[str, Any]) -> inspect.Signature:
    """Our signature with NumPy's options, by position where NumPy has them there."""
    kinds = inspect.Parameter
    parameters = list(ours.parameters.values())
    for option, default in added.items():
        kind = theirs[option].kind if option in theirs else kinds.KEYWORD_ONLY
        n_positional = sum(p.kind <= kinds.POSITIONAL_OR_KEYWORD for p in parameters)
        by_position = kind is kinds.POSITIONAL_OR_KEYWORD
        at = min(list(theirs).index(option), n_positional) if by_position else len(parameters)
        parameters.insert(at, kinds(option, kind, default=default))
    return inspect.Signature(sorted(parameters, key=lambda parameter: parameter.kind))


def _into(name: str, found: Any, out: Tensor, given: Mapping[str, Any]) -> Tensor:
    """Write what a function made into `out`, which must have its shape, or one to broadcast to."""
    casting = CASTING.get(name, "same_kind")
    if name == "einsum":  # where NumPy is asked to optimize, it copies without asking
        casting = given.get("casting", "unsafe" if given.get("optimize") else "safe")
    if name in BY_UFUNCS:
        _check_cast(name, found, out, casting)
        return store_result(found, out, None, "unsafe")
    if found.shape != out.shape or (casting == "no" and found.dtype != out.dtype):
        raise ValueError(
            f"{name}: output array is not acceptable: out has shape {out.shape} and dtype "
            f"{out.dtype}, the result {found.shape} and {found.dtype}"
        )
    if name in TAKING:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.take(np.zeros(1, found.dtype), [0], out=np.zeros(1, out.dtype))
    elif name in COPIED_BACK:
        _check_cast(name, out, found, "safe")
    else:
        _check_cast(name, found, out, casting)
    return store_result(found, out, None, "unsafe")


def _check_cast(name: str, source: Tensor, target: Tensor, casting: Any) -> None:
    if not can_cast(source.dtype, target.dtype, casting):
        raise TypeError(
            f"{name}: Cannot cast array data from {source.dtype!r} to {target.dtype!r} "
            f"according to the rule {casting!r}: see `out`"
        )


def _check_inexact(name: str, a: Any, out: Tensor) -> None:
    """Means without NaN are not written to integers, as NumPy refuses it."""
    if call_op("asarray", a).dtype.kind in "fc" and out.dtype.kind not in "fc":
        raise TypeError(f"{name}: if a is inexact, then out must be inexact: it has {out.dtype}")


def _check_join(name: str, given: dict[str, Any], out: Tensor) -> None:
    """Arrays joined into `out` take its dtype."""
    if given.get("dtype") is not None:
        raise TypeError(
            f"{name}() only takes `out` or `dtype` as an argument, but both were provided."
        )
    given["dtype"] = out.dtype


def _computed_in(name: str, a: Any, out: Tensor) -> np.dtype[Any]:
    """The dtype of a sum, a product or a moment where only `out` gives one."""
    summed = call_op("asarray", a).dtype
    if name.removeprefix("nan") in MOMENTS:
        summed = mean_dtype(Spec((), summed), None)
    given = (out.dtype, summed, None)
    loop = resolve_dtypes(getattr(np, SUMS[name]), given, casting="unsafe", reduction=True)
    return loop[0]


def _ptp(out: Tensor, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """From the least to the largest: NumPy has the largest in `out` meanwhile."""
    largest = function_named("maximum").reduce(a, axis, out=out, keepdims=keepdims)
    least = function_named("minimum").reduce(a, axis, keepdims=keepdims)
    return function_named("subtract")(largest, least, out=out)


def _reduce_options(
    name: str,
    given: dict[str, Any],
    initial: Any = None,
    where: Any = True,
    mean: Any = None,
    out: Any = None,
) -> Any:
    """A reduction of the values where a mask is True, from a start on, or around a mean."""
    a = given.pop("a")
    if name in REDUCING:
        axis = given.pop("axis", None)
        reduce = function_named(REDUCING[name]).reduce
        if np.ndim(initial):
            raise ValueError(f"{name}: initial must be a number: {initial!r}")
        given |= {} if initial is None else {"initial": initial}
        return reduce(a, axis, where=where, out=out, **given)
    x, mask = call_op("asarray", a), mask_of(where)
    if mean is not None:
        return _around(name, x, mask, call_op("asarray", mean), **given)
    return _moment(name, x, mask, **given)


def _moment(
    name: str,
    a: Tensor,
    where: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float | None = None,
) -> Any:
    """Mean, variance or deviation of the values where a mask is True."""
    mask = call_op("broadcast_to", where, a.shape)
    kind = call_op(name, a[(slice(0, 1),) * a.ndim], dtype=dtype).dtype
    n = call_op("count_nonzero", mask, axis=axis, keepdims=True)
    # of complex numbers a sum in a real dtype has one part, a distance has both
    parts = name != "mean" and a.dtype.kind == "c" and kind.kind != "c"
    kept = a if parts else a.astype(kind, copy=False)
    mean = call_op("divide", _total(kept, mask, axis), n)
    if name == "mean":
        found = mean
    else:
        away = call_op("subtract", kept, mean)
        square = call_op("square", call_op("absolute", away))
        left = call_op("maximum", n - (ddof if correction is None else correction), 0)
        found = call_op("divide", _total(square, mask, axis), left)
    found = call_op("sqrt", found) if name == "std" else found
    found = copies.cast(found, kind, False, "unsafe")
    if keepdims:
        return found
    axes = tuple(range(a.ndim)) if axis is None else axis
    return scalars.as_value(found.squeeze(axes)) if a.ndim else found


def _around(
    name: str,
    a: Tensor,
    mask: Tensor | None,
    mean: Tensor,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float | None = None,
) -> Any:
    """The variance or deviation from a mean that is known."""
    if correction is not None and ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    if dtype is None and a.dtype.kind in "biu":
        dtype = np.float64
    away = call_op("subtract", a, mean)
    square = away * away if away.dtype.kind != "c" else call_op("square", call_op("absolute", away))
    where = {} if mask is None else {"where": mask}
    counted = call_op("broadcast_to", True if mask is None else mask, a.shape)
    n = call_op("count_nonzero", counted, axis=axis, keepdims=keepdims)
    total = call_op("sum", square, axis=axis, dtype=dtype, keepdims=keepdims, **where)
    left = call_op("maximum", n - (ddof if correction is None else correction), 0)
    found = copies.cast(call_op("divide", total, left), total.dtype, False, "unsafe")
    return call_op("sqrt", found) if name == "std" else found


def _total(x: Tensor, mask: Tensor, axis: Any) -> Any:
    return call_op("sum", call_op("_where", mask, x, x.dtype.type(0)), axis=axis, keepdims=True)
