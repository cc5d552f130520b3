"""Ufuncs: elementwise functions as objects, with NumPy's options and methods.

One class serves them all. What a ufunc promises (loops, casting, identity) is asked of NumPy's own
ufunc of that name; what it computes is the function that the op table made.
"""

from __future__ import annotations

import inspect
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from infinitensor.api.access import copies, scalars, setitem
from infinitensor.api.access.compute_first import make_copy
from infinitensor.api.access.small_items import was_changed_at
from infinitensor.api.functions.core_axes import CORE_OPTIONS, Places
from infinitensor.api.known.known_calls import calls_in_c
from infinitensor.api.known.ladder import ladder
from infinitensor.api.record.late import call_op
from infinitensor.api.session.array_api import MAX_AXES
from infinitensor.api.small import small_calls
from infinitensor.api.small.numpy_table import broadcast_fits, product, product_fits
from infinitensor.api.tensor.tensor import Tensor, session_of
from infinitensor.dtypes import NUMPYS, as_dtype, bfloat16, resolve_dtypes
from infinitensor.ops.forms.reduction import sum_dtype
from infinitensor.ops.reduce.ufunc_reduce import REDUCTIONS, REORDERABLE
from infinitensor.ops.table.functions import with_our_loops

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.api.known.known_calls import Quick

    Dtype = np.dtype[Any]

_NOT_GIVEN: Any = np._NoValue
_CHARACTERS = frozenset("->" + "".join(dtype.char for dtype in NUMPYS) + "qQ")
OPTIONS = {
    False: """Elements are computed where `where` is True, in `dtype`, and written into `out` where
one is given, if `casting` allows it. `order` and `subok` are accepted: tensors have one of each.
Methods, as of `numpy.ufunc`: `reduce`, `accumulate`, `reduceat`, `outer`, `at`.""",
    True: """`axes`, or `axis` where the operands have one each, say which axes are multiplied;
`keepdims` keeps them. It is computed in `dtype`, and written into `out` where one is given, if
`casting` allows it. `order` and `subok` are accepted: tensors have one of each.""",
}
"""The options of every ufunc: those that work by element, and those on whole axes."""
_IGNORED = ("order", "subok")
"""Options about memory order and subclasses: tensors have one of each."""


class Calls:
    """The facts that a call of a ufunc asks first: slots, where C finds them too."""

    __slots__ = ("_call", "_n_inputs", "_quick")
    _call: Callable[..., Any]
    """The ladder, for calls without options."""
    _n_inputs: int
    _quick: Quick | None
    """The calls that are known."""


class ufunc(Calls):
    """An elementwise function with `out`, `where`, `dtype` and `casting`, and NumPy's methods.

    >>> import infinitensor as it
    >>> it.add.reduce(it.arange(5)).item(), it.multiply.outer([1, 2], [3, 4]).tolist()
    (10, [[3, 4], [6, 8]])
    >>> x = it.zeros(3)
    >>> it.add(x, 1, out=x, where=it.asarray([True, False, True])).tolist()
    [1.0, 0.0, 1.0]
    """

    def __init__(
        self, function: Callable[..., Any], like: np.ufunc, doc: str, is_numpys: bool
    ) -> None:
        self._function = function
        self._like = like
        self._is_numpys = is_numpys
        """Whether its CPU kernel is NumPy's ufunc: then small tensors need nothing else."""
        self._quick = getattr(function, "quick", None)
        self._call = ladder(*self._numpys_own(), self._quick, self._record)
        if self._quick is not None:
            self._quick.unknown = ladder(*self._numpys_own(), None, self._record)
        self.__name__ = self.__qualname__ = like.__name__
        self.__module__ = "infinitensor"
        self.__signature__ = _call_signature(function, like)
        plain = [p.replace(annotation=p.empty) for p in self.__signature__.parameters.values()]
        call = f"{like.__name__}{inspect.Signature(plain)}"
        self.__doc__ = f"{inspect.cleandoc(doc)}\n\n    {call}\n\n{OPTIONS[bool(like.signature)]}"
        self.nin, self.nout, self.nargs = like.nin, like.nout, like.nargs
        self._n_inputs = like.nin
        self.identity, self.signature = like.identity, like.signature
        self.types = [loop for loop in like.types if _CHARACTERS.issuperset(loop)]
        self.ntypes = len(self.types)

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"

    def __reduce__(self) -> str:
        return self.__name__

    def __call__(self, *args: Any, **options: Any) -> Any:
        """The function of the inputs; `out` may follow them by position."""
        if options or len(args) != self.nin:
            if self._is_numpys and not options and len(args) == self.nin + 1 == self.nargs:
                found = small_calls.stored_in(self._like, args[:-1], args[-1])
            elif self._is_numpys and options.keys() == {"out"} and len(args) == self.nin:
                found = small_calls.stored_in(self._like, args, options["out"])
            else:
                found = None
            return self._with_options(args, options) if found is None else found
        return self._call(*args)

    def _record(self, *args: Any) -> Any:
        with session_of(args).guard():
            return self._function(*args)

    def _numpys_own(self) -> tuple[Any, Any]:
        """NumPy's function with the same bits, where there is one, and what says if it fits."""
        if self._like is np.matmul:
            return product, product_fits
        return (with_our_loops(self._like), broadcast_fits) if self._is_numpys else (None, None)

    # options

    def _with_options(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        inputs, outs = self._operands(args, options)
        given = {name: value for name, value in options.items() if name not in _IGNORED}
        where = given.pop("where", True) if self.signature is None else True
        casting = given.pop("casting", "same_kind")
        wanted = _loop_signature(self._like, given)
        places = None
        if self.signature is not None and not given.keys().isdisjoint(CORE_OPTIONS):
            asked = {name: given.pop(name, None) for name in CORE_OPTIONS}
            inputs = [call_op("asarray", x) for x in inputs]
            places = Places(self._like, [x.ndim for x in inputs], **asked)
            inputs = places.move_axes(inputs)
        for name in given:
            raise TypeError(f"{self.__name__}() got an unexpected keyword argument {name!r}")
        with session_of((*inputs, *outs)).guard():
            has_target = any(out is not None for out in outs)
            if wanted is not None or has_target or casting != "same_kind":
                loop = self._loop(inputs, outs, wanted, casting)
                if wanted is not None:
                    inputs = [_as_loop(x, d) for x, d in zip(inputs, loop, strict=False)]
            made = self._function(*inputs, **given)
            made = made if places is None else places.put_back(made)
            results = made if self.nout > 1 else (made,)
            mask = mask_of(where)
            found = [
                apply_mask(r, mask) if out is None else store_result(r, out, mask, "unsafe")
                for r, out in zip(results, outs, strict=True)
            ]
        return tuple(found) if self.nout > 1 else found[0]

    def _operands(
        self, args: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[list[Any], list[Tensor | None]]:
        """Inputs, and a target or None for each output, however they were given."""
        if not self.nin <= len(args) <= self.nargs:
            were = "was" if len(args) == 1 else "were"
            raise TypeError(
                f"{self.__name__}() takes from {self.nin} to {self.nargs} positional arguments but "
                f"{len(args)} {were} given"
            )
        outs: Any = args[self.nin :]
        if any(out is Ellipsis for out in outs):
            raise TypeError("out=... is only allowed as a keyword argument.")
        if "out" in options:
            if outs:
                raise TypeError("cannot specify 'out' as both a positional and keyword argument")
            outs = options.pop("out")
            if not isinstance(outs, tuple):
                if self.nout > 1 and outs is not None and outs is not Ellipsis:
                    raise TypeError("'out' must be a tuple of arrays")
                outs = (outs,) * self.nout
            elif any(out is Ellipsis for out in outs):
                raise TypeError("must use `...` as `out=...` and not per-operand/in a tuple")
            if len(outs) != self.nout:
                raise ValueError("The 'out' tuple must have exactly one entry per ufunc output")
        targets = [target(out) for out in outs]
        return list(args[: self.nin]), targets + [None] * (self.nout - len(targets))

    def _loop(
        self, inputs: Sequence[Any], outs: Sequence[Tensor | None], wanted: Any, casting: str
    ) -> tuple[Dtype, ...]:
        """The dtypes of the loop NumPy would run; its errors where a cast is not allowed."""
        given = (
            *(_weak_or_dtype(x) for x in inputs),
            *(None if out is None else out.dtype for out in outs),
        )
        wanted = wanted or (None,) * self.nargs
        found: Any = resolve_dtypes(self._like, given, signature=wanted, casting=casting)
        return found  # type: ignore[no-any-return]

    def resolve_dtypes(
        self,
        dtypes: Any,
        *,
        signature: Any = None,
        casting: Any = None,
        reduction: bool = False,
    ) -> tuple[Dtype, ...]:
        """The dtypes that operands of these dtypes are computed in and give, as NumPy's ufunc says.

        >>> import numpy as np
        >>> import infinitensor as it
        >>> it.add.resolve_dtypes((np.dtype("i4"), float, None))
        (dtype('float64'), dtype('float64'), dtype('float64'))
        """
        asked = {"signature": signature, "casting": casting}
        given = {name: value for name, value in asked.items() if value is not None}
        return self._like.resolve_dtypes(dtypes, reduction=reduction, **given)

    # methods

    def _only_binary(self, method: str) -> None:
        if self.signature is not None:
            raise RuntimeError("Reduction not defined on ufunc with signature")
        if self.nin != 2:
            raise ValueError(f"{method} only supported for binary functions")
        if self.nout != 1:
            raise ValueError(f"{method} only supported for functions returning a single value")

    def _in_loop(self, array: Any, dtype: Any, out: Tensor | None) -> Tensor:
        """An array in the dtype it is reduced in, which `out` has a say in."""
        x = call_op("asarray", array)
        kind = None if dtype is None else as_dtype(dtype)
        if kind is None and out is None and self.__name__ in ("add", "multiply"):
            kind = sum_dtype(x, None)
        given = (None if out is None else out.dtype, x.dtype, None)
        loop: Any = resolve_dtypes(
            self._like, given, signature=(kind, None, None), casting="unsafe", reduction=True
        )
        read: Tensor = copies.cast(x, loop[0], False, "unsafe")
        return read

    def reduce(
        self,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = _NOT_GIVEN,
        where: Any = True,
    ) -> Any:
        """The values along axes made one by applying the ufunc between them.

        >>> import infinitensor as it
        >>> it.subtract.reduce([10, 2, 3]).item()
        5
        """
        self._only_binary("reduce")
        into = single_target(out)
        x = self._in_loop(array, dtype, into)
        with session_of((x, into)).guard():
            axes = _axes(axis, x.ndim)
            if len(axes) > 1 and self.__name__ not in REORDERABLE:
                raise ValueError(
                    f"reduction operation {self.__name__!r} is not reorderable, "
                    "so at most one axis may be specified"
                )
            start = None if initial is _NOT_GIVEN or initial is None else _start(initial, x.dtype)
            mask = mask_of(where)
            if initial is None or (start is None and self.identity is None):
                self._check_not_empty(x, axes)
            found = self._reduce_axes(x, axes, start, mask)
            if keepdims:
                found = found.reshape(
                    tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
                )
            return stored_reduction(self.__name__, found, into)

    def _check_not_empty(self, x: Tensor, axes: tuple[int, ...]) -> None:
        if not prod(x.shape[axis] for axis in axes):
            raise ValueError(
                f"zero-size array to reduction operation {self.__name__} which has no identity: "
                f"shape {x.shape}"
            )

    def _reduce_axes(
        self, x: Tensor, axes: tuple[int, ...], start: Any, mask: Tensor | None
    ) -> Tensor:
        """Without the axes. `start` comes first; only what the mask has counts."""
        name = self.__name__
        if mask is not None:
            if start is None and self.identity is None:
                raise ValueError(
                    f"reduction operation {name!r} does not have an identity, so to use a where "
                    "mask one has to specify 'initial'"
                )
            if name not in REORDERABLE:
                return self._fold_axes(x, axes, start, mask)
            if np.broadcast_shapes(mask.shape, x.shape) != x.shape:
                raise ValueError(
                    f"{name}.reduce: a mask of shape {mask.shape} does not fit {x.shape}"
                )
            # a place that does not count takes the identity; without one the ufunc is idempotent
            x = call_op("_where", mask, x, self._neutral(x.dtype, start))
        if not prod(x.shape[axis] for axis in axes):
            fill = self._neutral(x.dtype, start) if start is None else start
            kept = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
            return call_op("full", kept, fill, dtype=x.dtype)  # type: ignore[no-any-return]
        if name in REDUCTIONS:
            more = {"dtype": x.dtype} if name in ("add", "multiply") else {}
            found = call_op(REDUCTIONS[name], x, axis=axes, **more)
        elif name in REORDERABLE:
            found = call_op(f"_reduce_{name}", x, axes)
        elif start is not None:
            return self._fold_axes(x, axes, start, None)
        else:
            found = call_op("_fold", x, axes[0], name) if axes else copies.copy_tensor(x)
        return found if start is None else self._function(start, found)  # type: ignore[no-any-return]

    def _neutral(self, dtype: Dtype, start: Any) -> Any:
        identity = start if self.identity is None else self.identity
        return np.asarray(0 if identity is None else identity).astype(dtype)[()]

    def _fold_axes(
        self, x: Tensor, axes: tuple[int, ...], start: Any, mask: Tensor | None
    ) -> Tensor:
        """From a start on, value by value: for ufuncs whose order matters."""
        lines = call_op("moveaxis", x, axes[0], 0) if axes else x[None]
        total = call_op("full", lines.shape[1:], start, dtype=x.dtype)
        counts = None if mask is None else call_op("broadcast_to", mask, x.shape)
        if counts is not None:
            counts = call_op("moveaxis", counts, axes[0], 0) if axes else counts[None]
        for i in range(lines.shape[0]):
            value = self._function(total, lines[i])
            total = value if counts is None else call_op("_where", counts[i], value, total)
        return total  # type: ignore[no-any-return]

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """The results of reducing ever more values along an axis.

        >>> import infinitensor as it
        >>> it.maximum.accumulate([1, 3, 2, 5]).tolist()
        [1, 3, 3, 5]
        """
        self._only_binary("accumulate")
        into = single_target(out)
        x = self._in_loop(array, dtype, into)
        if not x.ndim:
            raise TypeError("cannot accumulate on a scalar")
        axis = normalize_axis_index(axis, x.ndim)
        with session_of((x, into)).guard():
            found = call_op("_accumulate", x, axis, self.__name__, x.dtype)
            return stored_reduction(self.__name__, found, into)

    def reduceat(
        self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None
    ) -> Any:
        """Segments of an axis, each reduced: from an index to the next one.

        The indices are computed now.

        >>> import infinitensor as it
        >>> it.add.reduceat(it.arange(8), [0, 4, 5]).tolist()
        [6, 4, 18]
        """
        self._only_binary("reduceat")
        into = single_target(out)
        x = self._in_loop(array, dtype, into)
        if not x.ndim:
            raise TypeError("cannot reduceat on a scalar")
        axis = normalize_axis_index(axis, x.ndim)
        known = call_op("force", indices) if isinstance(indices, Tensor) else np.asarray(indices)
        places = known if known.size else np.zeros(0, np.intp)
        starts = tuple(places.astype(np.intp, casting="same_kind").tolist())
        for start in starts:
            if not 0 <= start < x.shape[axis]:
                raise IndexError(
                    f"index {start} out-of-bounds in {self.__name__}.reduceat [0, {x.shape[axis]})"
                )
        with session_of((x, into)).guard():
            found = call_op("_reduceat", x, axis, self.__name__, starts)
            return stored_reduction(self.__name__, found, into)

    def outer(self, A: Any, B: Any, /, **options: Any) -> Any:
        """The ufunc of every pair of a value of A and one of B; the axes of A come first.

        >>> import infinitensor as it
        >>> it.subtract.outer([1, 2], [10, 20]).tolist()
        [[-9, -19], [-8, -18]]
        """
        if self.signature is not None:
            raise TypeError("method outer is not allowed in ufunc with non-trivial signature")
        if self.nin != 2:
            raise ValueError("outer product only supported for binary functions")
        first, second = call_op("asarray", A), call_op("asarray", B)
        if first.ndim + second.ndim > MAX_AXES:
            raise ValueError(
                f"{self.__name__}.outer: {first.ndim + second.ndim} axes; the most is {MAX_AXES}"
            )
        return self(first.reshape((*first.shape, *(1,) * second.ndim)), second, **options)

    def at(self, a: Any, indices: Any, b: Any = None, /) -> None:
        """Apply the ufunc in place at indices; an index that repeats counts each time.

        >>> import infinitensor as it
        >>> x = it.zeros(3)
        >>> it.add.at(x, [0, 2, 0], 1)
        >>> x.tolist()
        [2.0, 0.0, 1.0]
        """
        if self.signature is not None:
            raise TypeError("method at is not allowed in ufunc with non-trivial signature")
        if self.nout != 1:
            raise ValueError("Only single output ufuncs supported at this time")
        if self.nin == 2 and b is None:
            raise ValueError("second operand needed for ufunc")
        if self.nin == 1 and b is not None:
            raise ValueError("second operand provided when ufunc is unary")
        if isinstance(a, np.ndarray):
            changed = call_op("asarray", a)
            self.at(changed, indices, b)
            a[...] = changed.numpy()
            return
        if not isinstance(a, Tensor):
            raise TypeError(
                f"{self.__name__}.at: the first operand must be a Tensor, got {type(a)}"
            )
        make_copy(a)
        if self._is_numpys and was_changed_at(a, indices, b, self._like):
            return
        value = call_op("asarray", 0 if b is None else b)
        setitem.apply_at(a, indices, value, self._like)


if calls_in_c is not None:
    calls_in_c(ufunc)


# --- options, one by one ----------------------------------------------------------------------


def target(out: Any) -> Tensor | None:
    """An `out` that can be written: a tensor, or an array of NumPy's, which is the caller's own.

    None and ... ask for a new tensor.
    """
    if out is None or out is Ellipsis:
        return None
    if isinstance(out, np.ndarray):
        as_dtype(out.dtype)
        if not out.flags.writeable:
            raise ValueError("output array is read-only")
        return cast("Tensor", out)
    if not isinstance(out, Tensor):
        raise TypeError(
            f"return arrays must be of ArrayType: out must be a Tensor, got {type(out)}"
        )
    if out._is_value:
        raise TypeError("return arrays must be of ArrayType: out is a scalar, which has no memory")
    if out._frozen:
        raise ValueError("output array is read-only")
    return out


def single_target(out: Any) -> Tensor | None:
    """The `out` of a function with one output: a tensor, or a tuple with it."""
    if isinstance(out, tuple):
        if len(out) != 1:
            raise ValueError("The 'out' tuple must have exactly one entry")
        (out,) = out
    return target(out)


def mask_of(where: Any) -> Tensor | None:
    """The mask that `where` means; None: everything."""
    if where is True:
        return None
    if hasattr(where, "dtype") and where.dtype != np.bool_:
        raise TypeError(
            f"Cannot cast array data from {where.dtype!r} to dtype('bool') "
            "according to the rule 'safe': where takes a mask"
        )
    return call_op("asarray", where, dtype=np.bool_)  # type: ignore[no-any-return]


def apply_mask(result: Tensor, mask: Tensor | None) -> Tensor:
    """A result without a target: zero where the mask is False (NumPy leaves it open)."""
    if mask is None:
        return result
    made: Tensor = call_op("_where", mask, result, result.dtype.type(0))
    return scalars.as_value(made)


def store_result(result: Tensor, out: Tensor, mask: Tensor | None, casting: str) -> Tensor:
    """Write a result into `out`, which must have the shape all operands broadcast to."""
    shapes = [result.shape, out.shape] + ([] if mask is None else [mask.shape])
    shape = np.broadcast_shapes(*shapes)
    if shape != out.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {_tight(out.shape)} doesn't match the "
            f"broadcast shape {_tight(shape)}"
        )
    value = copies.cast(result, out.dtype, False, casting)
    if isinstance(out, np.ndarray):
        return _stored_outside(value, out, mask)
    setitem.replace(out, value if mask is None else call_op("_where", mask, value, out))
    return out


def _stored_outside(value: Tensor, out: Any, mask: Tensor | None) -> Any:
    """Write values into an array of NumPy's: they are computed now."""
    value._session.counts["host_arrays"] += 1
    np.copyto(out, value.numpy(), where=True if mask is None else mask.numpy())
    return out


def stored_reduction(name: str, result: Tensor, out: Tensor | None) -> Tensor:
    """Write what a reduction made into `out`, which must have exactly its shape."""
    if out is None:
        return scalars.as_value(result)
    if out.shape != result.shape:
        raise ValueError(
            f"output parameter for reduction operation {name} has the wrong shape: "
            f"found {out.shape} but expected {result.shape}"
        )
    return store_result(result, out, None, "unsafe")


def _tight(shape: tuple[int, ...]) -> str:
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    if not ndim and axis in (0, -1):  # NumPy reduces a scalar along its missing axis
        return ()
    return tuple(sorted(normalize_axis_tuple(axis, ndim)))


def _weak_or_dtype(value: Any) -> Any:
    if type(value) in (int, float, complex):
        return type(value)
    if isinstance(value, Tensor | np.generic):
        return as_dtype(value.dtype)
    return as_dtype(call_op("asarray", value).dtype)


def _typed(value: Any, dtype: Dtype) -> Any:
    """A scalar in a dtype: a Python integer that does not fit is an error."""
    if isinstance(value, Tensor):
        return value.astype(dtype, copy=False)
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value).astype(dtype)[()]
    return np.array(value).astype(dtype)[()] if type(value) is not int else dtype.type(value)


def _start(value: Any, dtype: Dtype) -> Any:
    """The start of a reduction: one number, as if it were written into an array."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise ValueError("setting an array element with a sequence.")
        return value.astype(dtype, copy=False)
    made = np.empty((), dtype)
    made[()] = float(value) if dtype == bfloat16 and type(value) is int else value
    return made[()]


def _as_loop(value: Any, dtype: Dtype) -> Any:
    """An operand in the dtype of the loop."""
    if type(value) in (bool, int, float, complex) or isinstance(value, np.generic):
        return _typed(value, dtype)
    return copies.cast(call_op("asarray", value), dtype, False, "unsafe")


def _loop_signature(like: np.ufunc, options: dict[str, Any]) -> Any:
    """The loop that `dtype`, `signature` or `sig` asks for; None: any."""
    dtype = options.pop("dtype", None)
    if "sig" in options and "signature" in options:
        raise TypeError("cannot specify both 'sig' and 'signature'")
    loop = options.pop("signature", options.pop("sig", None))
    if dtype is not None:
        if loop is not None:
            raise TypeError("cannot specify both 'signature' and 'dtype'")
        return (None,) * like.nin + (as_dtype(dtype),) * like.nout
    if isinstance(loop, bytes):
        loop = loop.decode()
        if "->" not in loop:
            raise ValueError(f"{like.__name__}: a signature has an arrow: {loop!r}")
    if isinstance(loop, str) and "->" in loop:
        loop = tuple(loop.replace("->", ""))
        if not _CHARACTERS.issuperset(loop):
            raise ValueError(f"{like.__name__}: a signature of dtypes' characters, not {loop}")
    elif isinstance(loop, str) or (isinstance(loop, tuple) and len(loop) == 1):
        raise TypeError(
            f"{like.__name__}: a signature names all {like.nargs} operands; use `dtype`, or None "
            "for those that may be anything"
        )
    elif loop is not None and not isinstance(loop, tuple):
        raise TypeError("the signature object to ufunc must be a string or a tuple.")
    if isinstance(loop, tuple) and len(loop) != like.nargs:
        raise ValueError(f"{like.__name__}: a signature names all {like.nargs} operands: {loop}")
    return loop if loop is None else tuple(d if d is None else as_dtype(d) for d in loop)


def _call_signature(function: Callable[..., Any], like: np.ufunc) -> inspect.Signature:
    """The inputs of the function, then NumPy's options."""
    kinds = inspect.Parameter
    inputs = list(inspect.signature(function).parameters.values())
    given = [p.replace(kind=kinds.POSITIONAL_ONLY) for p in inputs[: like.nin]]
    options: list[tuple[str, Any]] = [("casting", "same_kind"), ("order", "K"), ("dtype", None)]
    options += [("subok", True), ("signature", None)]
    if like.signature is None:
        options.insert(0, ("where", True))
    else:
        options = [("axes", None), ("axis", None), ("keepdims", False), *options]
    out = None if like.nout == 1 else (None,) * like.nout
    return inspect.Signature(
        [
            *given,
            kinds("out", kinds.POSITIONAL_OR_KEYWORD, default=out),
            *(kinds(name, kinds.KEYWORD_ONLY, default=value) for name, value in options),
        ]
    )
