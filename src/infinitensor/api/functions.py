"""The public functions: made from the op table, with those that only change views written here."""

from __future__ import annotations

import functools
import inspect
import operator
from math import prod
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from infinitensor.api import copying, hasty, indexing, inplace, near, views
from infinitensor.api.binding import binder, forwarder
from infinitensor.api.csr import csr
from infinitensor.api.evaluate import evaluate
from infinitensor.api.export import CPU
from infinitensor.api.foreign import (
    borrowed,
    checked_torch,
    holds_tensors,
    is_sparse,
    is_torch,
    to_host,
)
from infinitensor.api.helpers import FUNCTIONS
from infinitensor.api.options import numpys, with_options
from infinitensor.api.quick import Quick, fill
from infinitensor.api.record import Ref, record, stored
from infinitensor.api.rule import cached_rule
from infinitensor.api.session import current_session
from infinitensor.api.standard import (
    MADE_ON_A_DEVICE,
    MAX_AXES,
    QUESTIONS,
    check_device,
    with_device,
)
from infinitensor.api.tensor import Tensor, fresh, from_values, session_of
from infinitensor.api.ufunc import ufunc
from infinitensor.api.unplanned import LITTLE
from infinitensor.config import config
from infinitensor.dtypes import as_dtype, bfloat16, float32, kind_of, result_type
from infinitensor.ir.op import Spec
from infinitensor.native import compiler
from infinitensor.ops import TABLE
from infinitensor.ops.scalar import Arg, Term
from infinitensor.ops.user import map_tiles_op
from infinitensor.ops.words import WORDS
from infinitensor.partition.tiles import LEAF_ELEMENTS, floor_power

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable

    from infinitensor.api.session import Session
    from infinitensor.api.version import Version
    from infinitensor.ir.op import Call, Op

COMPARISONS = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))


NO_OPTIONS: dict[str, Any] = {}
MUCH_OF_MEMORY = 4
"""The part of a memory up to which values are walked by one kernel: it can be stopped only at its
end, and nothing of them can be evicted meanwhile."""
LARGEST_PIECE = 1 << 24
"""Elements of a matrix that one task may factor while nothing else runs."""
BLOCK_BYTES = 128
"""What an element of a block may take while a kernel works on it: scratch, tiles, and others."""
PIECE_BYTES = 48
"""What an element takes on a GPU, about, where an axis is one piece: less memory makes blocks."""
LOOKED_AT = COMPARISONS | {"_where"}
"""Ops that look at the value of a Python integer: it may be beyond the dtype, if that counts."""


class Namespace:
    """Everything callable, internal ops too: what programs over other ops get as `xp`."""

    float32 = np.dtype(np.float32)
    float64 = np.dtype(np.float64)
    int64 = np.dtype(np.int64)
    bool = np.dtype(np.bool_)
    pi = np.pi
    newaxis = None

    def force(self, tensor: Tensor) -> np.ndarray:
        """Evaluate a small tensor because a shape depends on it; counted."""
        tensor._session.counts["forced_evaluations"] += 1
        return tensor.numpy()

    def settled(self, mask: Tensor) -> np.ndarray | None:
        """The values of a mask that waits, computed now because a shape depends on them.

        None where it does not then lie in one piece in this memory, and where it is so large that
        all workers should count it.
        """
        session = mask._session
        is_cut = not config.small_elements or config.tile_elements
        if is_cut or mask.size > LITTLE or not session.engine.mesh.is_one_memory:
            return None
        if mask._owner is not None or mask._version.node is None:
            return None
        session.counts["forced_evaluations"] += 1
        compute(mask)
        found = near.seen(mask)
        return found if isinstance(found, np.ndarray) else None

    def settle(self, *tensors: Tensor) -> None:
        """Evaluate tensors, of any size, because shapes depend on them; counted."""
        current_session().counts["forced_evaluations"] += 1
        compute(*tensors)

    def tiered_bytes(self) -> int:
        """The memory of a device, where there is a lower tier and values can be seen; else 0."""
        mesh = current_session().engine.mesh
        can_evict = mesh.kind != "null" and mesh.disk_bytes + mesh.host_bytes > 0
        return mesh.devices[0].memory_bytes if can_evict else 0

    def n_concurrent(self) -> int:
        """Kernels that may run at a time on a device."""
        return current_session().engine.mesh.n_concurrent

    def n_hands(self, n_bytes: int) -> int:
        """Threads with which one kernel may walk values of so many bytes, which it reads and makes.

        0 where they do not lie in one piece, where they take much of memory, and where nothing is
        compiled: then they are walked tile by tile.
        """
        mesh = current_session().engine.mesh
        is_cut = config.tile_elements or not mesh.is_one_memory or mesh.kind == "null"
        is_much = n_bytes > mesh.devices[0].memory_bytes // MUCH_OF_MEMORY
        if is_cut or is_much or config.compile == "never" or compiler() is None:
            return 0
        return mesh.workers

    def device_kind(self) -> str:
        """Of what kind the devices are, on which tiles lie."""
        return current_session().engine.mesh.kind

    def scratch_bytes(self, name: str, x: Spec) -> int:
        """What the kernel of an op works in, from one tile to another of the same shape."""
        op = TABLE[name]
        rule = op.scratches.get(self.device_kind(), op.scratch_bytes)
        return int(rule((x,), (x,), {}))

    def block(self, n: int) -> int:
        """The canonical block length of an axis of n elements: a power of two in the tile bound.

        One GPU takes what it has in one piece, if that fits: there is nobody to share passes with.
        With very little memory blocks are so small that kernels over them still fit; counted.
        """
        session = current_session()
        mesh = session.engine.mesh
        is_in_pieces = mesh.kind == "cuda"
        if mesh.kind == "cuda" and mesh.n_devices == 1:
            most = mesh.devices[0].tile_elements
            is_in_pieces = PIECE_BYTES * n <= mesh.devices[0].memory_bytes
            if is_in_pieces and n <= min(config.tile_elements or most, most):
                return max(n, 1)
        leaf = LEAF_ELEMENTS[mesh.kind]
        longest = min(n, config.tile_elements or leaf, leaf)
        fitting = mesh.devices[0].memory_bytes // (BLOCK_BYTES * mesh.n_concurrent)
        if fitting < longest and not is_in_pieces:
            session.counts["smaller_blocks"] += 1
            longest = fitting
        return floor_power(max(longest, 1))

    def is_one_piece(self, n_elements: int) -> builtins.bool:
        """Whether a matrix is factored in one piece, by a library with all cores.

        Never where there are several memories. Where it is memory that is too little for it, that
        is counted: blocks have other last bits.
        """
        session = current_session()
        mesh = session.engine.mesh
        if not mesh.is_one_memory or config.tile_elements or not config.inline_elements:
            return False
        has_room = n_elements <= mesh.devices[0].memory_bytes // BLOCK_BYTES
        session.counts["smaller_blocks"] += n_elements <= LARGEST_PIECE and not has_room
        return n_elements <= LARGEST_PIECE and has_room

    def next_seed(self) -> np.int64:
        """The key of a random op."""
        return np.int64(current_session().next_seed())

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


namespace = Namespace()


# --- operands ---------------------------------------------------------------------------------


def asarray(
    obj: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    copy: bool | None = None,
    order: str | None = None,
) -> Tensor:
    """A tensor with the values of an array, a nested list, a scalar, a column or a table.

    Arrays are those of NumPy, torch and whatever NumPy understands; columns and tables those of
    pandas, Arrow and Polars. A sparse matrix of SciPy becomes a `Csr`.

    The values are copied: later changes of `obj` do not reach the tensor, nor the other way round.
    With `copy=False` they are read where they are, and must not change from then on.

    >>> import infinitensor as it
    >>> it.asarray([[1, 2], [3, 4]]).sum().item()
    10
    """
    check_device(device)
    if isinstance(obj, Tensor):
        if dtype is not None and as_dtype(dtype) != obj.dtype:
            return obj.astype(dtype)
        return copying.copied(obj) if copy else obj
    if isinstance(obj, np.ma.MaskedArray):
        raise TypeError(
            "a masked array has values that are not there: fill it first, for example "
            "it.asarray(a.filled(0))"
        )
    session = current_session()
    if copy is not False and is_torch(obj) and obj.is_cuda and session.engine.mesh.kind == "cuda":
        made = fresh(session, copying.scattered(session, checked_torch(obj)))
        return made if dtype is None else made.astype(dtype, copy=False)
    if is_sparse(obj):
        return cast("Tensor", csr(obj) if dtype is None else csr(obj).astype(dtype))
    values = to_host(obj)
    wanted = as_dtype(values.dtype if dtype is None else dtype)
    if (
        dtype is not None
        and kind_of(values.dtype) in "iufcb"
        and values.size
        and not hasattr(obj, "dtype")
    ):
        values = np.array(obj if not holds_tensors(obj) else values, dtype=wanted)
    if copy is False:
        return fresh(session, stored(session, borrowed(obj, values, wanted)))
    return from_values(session, np.array(values, dtype=wanted, order="C"))


def array(obj: Any, dtype: Any = None, *, copy: bool | None = True, ndmin: int = 0) -> Tensor:
    """A new tensor with the values of an array, a nested list, a scalar or a tensor."""
    made = asarray(obj, dtype, copy=copy)
    if made.ndim < ndmin:
        made = made.reshape((1,) * (ndmin - made.ndim) + made.shape)
    return made


def operand(session: Session, value: Any) -> tuple[Any, Spec]:
    """What recording takes for a value, and its spec: tensors, Python scalars (weak), NumPy's."""
    if isinstance(value, Tensor):
        return value._ref(), Spec(value.shape, value.dtype)
    kind = type(value)
    if kind is int or kind is float or kind is complex:
        return value, Spec((), np.result_type(kind), kind)
    if kind is bool:
        return np.bool_(value), Spec((), np.dtype(np.bool_))
    if isinstance(value, np.generic):
        return value, Spec((), as_dtype(value.dtype))
    tensor = asarray(value)
    return tensor._ref(), Spec(tensor.shape, tensor.dtype)


# --- functions from the table -----------------------------------------------------------------


_bound: dict[Any, Any] = {}
_ufuncs: dict[np.ufunc, ufunc] = {}
"""Names of one ufunc are one object, as in NumPy."""
Made = TypeVar("Made")


def bound_call(op: Op | None, key: Any, rule: Callable[[], Made]) -> Made:
    """The call of an op for given specs: made once, so that equal calls are one object."""
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
    elif op.kind == "elementwise":
        made = _elementwise_function(op)
    else:
        made = _op_function(op)
    like = numpys(op.name)
    if isinstance(like, np.ufunc):
        tree = op.expression
        is_numpys = (
            isinstance(tree, Term)
            and all(isinstance(arg, Arg) for arg in tree.args)
            and WORDS["cpu"].get(tree.word) is like
        )
        return _ufuncs.setdefault(like, ufunc(made, like, op.doc, is_numpys))
    if op.wide:
        made = _in_float32(made)
    made = _locked(made)
    made.__name__ = made.__qualname__ = op.name.rsplit(".", 1)[-1]
    made.__doc__ = op.doc
    made.__module__ = "infinitensor"
    return made


def _in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of bfloat16 values by way of float32; its result is rounded once."""

    def widened(*args: Any, **kwargs: Any) -> Any:
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

    widened.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return widened


def _wide(value: Any) -> Any:
    if isinstance(value, np.dtype):
        return float32 if value == bfloat16 else value
    return value.astype(float32) if getattr(value, "dtype", None) == bfloat16 else value


def _rounded(value: Any) -> Any:
    return value.astype(bfloat16) if getattr(value, "dtype", None) == float32 else value


def _locked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under the session's lock.

    Between looking at an operand and recording that it is read, no other thread may use it up.
    """
    quick: Quick | None = getattr(function, "quick", None)

    def locked(*args: Any, **kwargs: Any) -> Any:
        made = None if quick is None else quick.made(args, kwargs)
        if made is not None:
            return made
        with session_of((*args, *kwargs.values())).guard():
            return function(*args, **kwargs)

    locked.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    locked.quick = quick  # type: ignore[attr-defined]
    return locked


def _elementwise_function(op: Op) -> Callable[..., Any]:
    n_args = len(op.arrays)
    names = op.arrays
    quick = Quick(op)

    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            args = _by_name(op, names, args, kwargs)
        if len(args) != n_args:
            raise TypeError(
                f"{op.name}() takes {n_args} arguments ({', '.join(names)}), got {len(args)}"
            )
        session = session_of(args)
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
        return fresh(session, record(session, op, call, operands)[0])

    function.__signature__ = inspect.signature(op.rule)  # type: ignore[attr-defined]
    function.quick = quick  # type: ignore[attr-defined]
    return function


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
        positional = {name: given.pop(name) for name in positional_only}
        key = (op.name, tuple(positional.items()), tuple(given.items()))
        call = bound_call(op, key, lambda: op.rule(*positional.values(), **given))
        if op.kind == "update":
            versions = [updated(session, op, call, operands)]
        else:
            if call.loop:
                operands = [
                    o if isinstance(o, Ref) else _typed(o, d)
                    for o, d in zip(operands, call.loop, strict=True)
                ]
            quick.learn(args, kwargs, call)
            versions = record(session, op, call, operands)
        made = [fresh(session, version) for version in versions]
        return made[0] if len(made) == 1 else tuple(made)

    function.__signature__ = signature  # type: ignore[attr-defined]
    function.quick = quick  # type: ignore[attr-defined]
    return function


def updated(session: Session, op: Op, call: Call, operands: list[Any]) -> Version:
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
        from infinitensor.api.record import host_view
        from infinitensor.ir.op import At
        from infinitensor.ir.region import whole_box

        ins = [host_view(o) for o in rest]
        boxes = (whole_box(base.shape), *(whole_box(x.shape) for x in ins))
        kernel = op.kernel_for("cpu")
        kernel(np, *ins, out=base.version.host, at=At(boxes[:1], boxes), **dict(call.params))
        return base.version
    return record(session, op, call, [base, *rest])[0]


def _program_function(op: Op) -> Callable[..., Any]:
    signature = inspect.signature(op.rule)
    public = signature.replace(parameters=list(signature.parameters.values())[1:])
    array_names = {name.lstrip("*"): name.startswith("*") for name in op.arrays}
    converters: dict[str, Callable[[Any], Any]] = {
        name: _asarrays
        if many or public.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        else _asarray_if_any
        for name, many in array_names.items()
    }
    function = forwarder(op.name, public, op.rule, namespace, converters)
    function.__signature__ = public  # type: ignore[attr-defined]
    return function


def _asarrays(values: Any) -> Any:
    return None if values is None else tuple([asarray(one) for one in values])


def _asarray_if_any(value: Any) -> Any:
    return value if value is None else asarray(value)


# --- functions that change views --------------------------------------------------------------


def _view_function(change: Callable[..., Any]) -> Callable[..., Any]:
    """A function over the view of its first argument, by what NumPy does to strides."""

    def function(x: Any, /, *args: Any, **kwargs: Any) -> Tensor:
        tensor = asarray(x)
        found = None if kwargs else near.viewed(tensor, change, *args)
        if found is not None:
            return found
        return tensor._seen_as(views.through(tensor._whole(), lambda g: change(g, *args, **kwargs)))

    _, *rest = inspect.signature(change).parameters.values()
    first = inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)
    function.__signature__ = inspect.Signature([first, *rest])  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = change.__name__
    function.__doc__ = (
        f"As `numpy.{change.__name__}`; a view: it costs nothing, and writes reach the original."
    )
    return function


def sliding_window_view(
    x: Any, /, window_shape: int | tuple[int, ...], axis: Any = None, *, writeable: bool = False
) -> Tensor:
    """Every window of a shape, as new last axes: a view, read-only unless `writeable`.

    >>> import infinitensor as it
    >>> it.lib.stride_tricks.sliding_window_view(it.arange(4), 3).tolist()
    [[0, 1, 2], [1, 2, 3]]
    """
    tensor = asarray(x)
    view = views.through(tensor._whole(), lambda g: _windows(g, window_shape, axis))
    seen = tensor._seen_as(view)
    seen._frozen = seen._frozen or not writeable
    return seen


def _windows(x: np.ndarray, shape: Any, axis: Any) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x, shape, axis)


def _permuted(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return np.transpose(x, axes)


def broadcast_to(x: Any, /, shape: Any) -> Tensor:
    """A read-only view in which size-1 axes are repeated to fill a shape.

    >>> import infinitensor as it
    >>> it.broadcast_to(it.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    tensor = asarray(x)
    wanted = (shape,) if isinstance(shape, int) else tuple(operator.index(n) for n in shape)
    check_shape("broadcast_to", wanted, tensor.dtype)
    seen = tensor._seen_as(views.through(tensor._whole(), lambda g: np.broadcast_to(g, wanted)))
    seen._frozen = True
    return seen


def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Views of all arrays with one shape."""
    tensors = [asarray(a) for a in arrays]
    shape = np.broadcast_shapes(*(t.shape for t in tensors))
    return tuple(broadcast_to(t, shape) for t in tensors)


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """Another shape; a view where NumPy would give one.

    >>> import infinitensor as it
    >>> it.reshape(it.arange(4), (2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    wanted = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    return asarray(x).reshape(wanted, copy=copy)


def ravel(x: Any, /) -> Tensor:
    """One axis; a view where NumPy would give one."""
    return asarray(x).ravel()


def copy(x: Any, /) -> Tensor:
    """A tensor of its own with the same values."""
    return copying.copied(asarray(x))


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The values as another dtype."""
    check_device(device)
    return asarray(x).astype(dtype, copy=copy)


def expand_dims(x: Any, /, axis: Any = 0) -> Tensor:
    """New axes of length one; a view."""
    tensor = asarray(x)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    normal = normalize_axis_tuple(axes, tensor.ndim + len(axes))
    rest = iter(tensor.shape)
    shape = tuple(1 if i in normal else next(rest) for i in range(tensor.ndim + len(axes)))
    return tensor.reshape(shape)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor with the values of any array that speaks DLPack.

    They are copied into tiles; with `copy=False` memory of the host is read where it is, and must
    not change from then on.

    >>> import infinitensor as it
    >>> it.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    if isinstance(x, Tensor) or is_torch(x):
        return asarray(x, device=device, copy=copy)
    kind, _ = x.__dlpack_device__()
    if kind != CPU or str(getattr(x, "dtype", "")).endswith("bfloat16"):  # unknown to NumPy
        import torch

        return asarray(torch.utils.dlpack.from_dlpack(x), device=device, copy=copy)
    return asarray(np.from_dlpack(x), device=device, copy=copy)


def compute(*tensors: Any) -> Any:
    """Compute tensors together, now. Returns them; errors are raised here.

    >>> import infinitensor as it
    >>> a, b = it.compute(it.ones(3).sum(), it.ones(4).sum())
    >>> float(a) + float(b)
    7.0
    """
    if len(tensors) == 1 and type(tensors[0]) is Tensor:
        evaluate(tensors[0]._session, [tensors[0]._version])
        return tensors[0]
    given = [t for t in tensors if isinstance(t, Tensor)]
    by_session: dict[int, list[Tensor]] = {}
    for tensor in given:
        by_session.setdefault(id(tensor._session), []).append(tensor)
    for group in by_session.values():
        evaluate(group[0]._session, [t._version for t in group])
    return tensors[0] if len(tensors) == 1 else tensors


def map_tiles(
    fn: Callable[..., Any],
    *tensors: Any,
    form: str,
    combine: str | None = None,
    dtype: Any = None,
    sizes: Any = None,
    halo: Any = None,
    with_region: bool = False,
    scratch_bytes: int = 0,
) -> Any:
    """A pure function of tiles as an op: NumPy arrays in and out on CPUs, torch tensors on GPUs.

    `form` names the axes, as in "nd,kd->nk"; several outputs are written "nd->n;d". Labels that
    only inputs have are cut if `combine` ("sum", "min", "max" ...) says how partial results merge,
    and stay whole otherwise. `sizes` gives labels that only outputs have, `halo` widens what a tile
    reads: {"n": (1, 1)}. With `with_region` the function gets `region=`, the boxes it makes.

    A generator function is a loop: it yields between its steps and returns its result. Ctrl-C, or
    an error elsewhere, is heard between two steps; the task starts anew at the next need.

    >>> import infinitensor as it
    >>> x = it.arange(6.0).reshape(3, 2)
    >>> it.map_tiles(lambda tile: tile.sum(1), x, form="nd->n").tolist()
    [1.0, 5.0, 9.0]
    >>> def halved(tile):
    ...     while tile.max() > 1:
    ...         tile = tile / 2
    ...         yield
    ...     return tile
    >>> it.map_tiles(halved, x, form="nd->nd").tolist()
    [[0.0, 0.125], [0.25, 0.375], [0.5, 0.625]]
    """
    made = [asarray(t) for t in tensors]
    session = session_of(made)
    specs = tuple(Spec(t.shape, t.dtype) for t in made)

    def rule() -> Any:
        return map_tiles_op(
            fn, specs, form, combine, dtype, sizes, halo, with_region, scratch_bytes
        )

    settings = (combine, str(dtype), _frozen(sizes), _frozen(halo), with_region, scratch_bytes)
    op, call = bound_call(None, ("map_tiles", fn, specs, form, settings), rule)
    versions = record(session, op, call, [t._ref() for t in made])
    outs = [fresh(session, version) for version in versions]
    return outs[0] if len(outs) == 1 else tuple(outs)


def _frozen(mapping: Any) -> Any:
    return (
        None
        if mapping is None
        else tuple(sorted((k, tuple(np.atleast_1d(v))) for k, v in mapping.items()))
    )


MEMBERS: dict[str, Any] = {"linalg.LinAlgError": np.linalg.LinAlgError}
"""What submodules have besides the functions of the table."""

VIEWS: dict[str, Callable[..., Any]] = {
    function.__name__: _view_function(function)
    for function in (
        np.transpose,
        np.matrix_transpose,
        np.moveaxis,
        np.swapaxes,
        np.rollaxis,
        np.flip,
        np.fliplr,
        np.flipud,
        np.rot90,
        np.squeeze,
        np.diagonal,
    )
}
VIEWS["permute_dims"] = _view_function(_permuted)
VIEWS["lib.stride_tricks.sliding_window_view"] = sliding_window_view
HELPERS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        array,
        asarray,
        astype,
        broadcast_arrays,
        broadcast_to,
        compute,
        copy,
        csr,
        expand_dims,
        from_dlpack,
        map_tiles,
        ravel,
        reshape,
    )
}


def fill_namespace() -> dict[str, Callable[..., Any]]:
    """Every function by its full name; the internal ones too are put on `namespace`."""
    found: dict[str, Callable[..., Any]] = {}
    for name, op in TABLE.items():
        found[name] = public_function(op)
    for name in INDEXED:
        found[name] = _index_checked(found[name])
    for name in MADE_ON_A_DEVICE:
        found[name] = with_device(found[name])
    found = {
        name: function if isinstance(function, ufunc) else with_options(name, function)
        for name, function in found.items()
    }
    for name, (like, fits) in near.NUMPYS_OWN.items():
        if not isinstance(found[name], ufunc):
            found[name] = _numpys_first(found[name], like, fits)
    for name, like in near.CREATIONS.items():
        found[name] = _numpys_creation(found[name], like)
    for name, join in near.JOINS.items():
        found[name] = _small_first(found[name], functools.partial(near.joined, join))
    for name, (like, size) in near.COUNTED.items():
        found[name] = _small_first(found[name], _counted(like, size))
    found.update(VIEWS)
    found.update(HELPERS)
    found.update(QUESTIONS)
    found.update({n: f for n, f in FUNCTIONS.items() if n not in found})
    for name, function in found.items():
        if not hasattr(Namespace, name):  # `xp.block(n)` is the length of a block, not np.block
            setattr(namespace, name.replace(".", "_"), function)
        head, _, tail = name.partition(".")
        if tail:
            if head not in namespace.__dict__:
                setattr(namespace, head, _Sub())
            setattr(getattr(namespace, head), tail, function)
    return found


INDEXED = ("take", "take_along_axis", "put")
"""Functions of an array and indices, in this order, whose indices are checked at the call."""


def _index_checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with indices that are known on the host checked at the call."""
    signature = inspect.signature(function)

    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)
        given.apply_defaults()
        first, index = list(given.arguments.values())[:2]
        if not isinstance(index, Tensor) and given.arguments.get("mode", "raise") == "raise":
            shape = first.shape if isinstance(first, Tensor) else np.shape(first)
            axis = given.arguments.get("axis")
            along = index if axis is not None or not np.ndim(index) else np.reshape(index, -1)
            if axis is None:
                indexing.check_range(np.asarray(along), prod(shape), 0)
            elif -len(shape) <= axis < len(shape):
                at = axis % len(shape)
                beside = shape[:at] if function.__name__ == "take" else shape[:at] + shape[at + 1 :]
                if 0 not in beside:  # else nothing is taken, and NumPy looks at no index
                    indexing.check_range(np.asarray(along), shape[at], at)
        return function(*args, **kwargs)

    return _named_as(function, checked)


def _numpys_first(
    function: Callable[..., Any], like: Callable[..., Any], fits: Callable[..., bool] | None
) -> Callable[..., Any]:
    """The function; NumPy's on small tensors, and a call known before without its options."""
    quick: Quick | None = getattr(function, "quick", None)

    def first(*args: Any, **kwargs: Any) -> Any:
        made = near.called(like, fits, args, kwargs)
        if made is None and quick is not None:
            made = quick.made(args, kwargs)
        return function(*args, **kwargs) if made is None else made

    return _named_as(function, first)


def _numpys_creation(function: Callable[..., Any], like: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a shape and a dtype; NumPy's of small ones."""

    def first(*args: Any, **kwargs: Any) -> Any:
        made = near.created(current_session(), like, *args, **kwargs) if args else None
        return function(*args, **kwargs) if made is None else made

    return _named_as(function, first)


def _counted(like: Callable[..., Any], size: Callable[..., int]) -> Callable[[Any, Any], Any]:
    return lambda args, kwargs: near.counted(like, size, current_session(), args, kwargs)


def _small_first(
    function: Callable[..., Any], small: Callable[[Any, Any], Tensor | None]
) -> Callable[..., Any]:
    """The function; of what is small another that takes its arguments, or answers None."""

    def first(*args: Any, **kwargs: Any) -> Any:
        made = small(args, kwargs)
        return function(*args, **kwargs) if made is None else made

    return _named_as(function, first)


def _named_as(function: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    """Another function under the name of one."""
    other.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(other, name, getattr(function, name))
    return other


class _Sub:
    """A submodule of the namespace."""


PUBLIC = {name: function for name, function in fill_namespace().items() if not name.startswith("_")}
PUBLIC = {n: f for n, f in PUBLIC.items() if not n.rpartition(".")[2].startswith("_")}


# --- operators and methods --------------------------------------------------------------------

_BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "matmul": "matmul",
}
_COMPARE = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "bitwise_not"}


def _equip() -> None:
    """Give Tensor its operators and methods."""
    for short, name in _BINARY.items():
        function = getattr(namespace, name)
        setattr(Tensor, f"__{short}__", _forward(function, short))
        setattr(Tensor, f"__r{short}__", _reflected(function, short))
        setattr(Tensor, f"__i{short}__", _inplace(name, short))
    for short, name in _COMPARE.items():
        setattr(Tensor, f"__{short}__", _forward(getattr(namespace, name), short))
    for short, name in _UNARY.items():
        function = getattr(namespace, name)
        setattr(Tensor, f"__{short}__", lambda self, function=function: function(self))
    power = getattr(namespace, "power")  # noqa: B009 - set by name
    operators: Any = Tensor
    operators.__pow__ = lambda self, other: _power(power, self, other)
    operators.__divmod__ = lambda self, other: (self // other, self % other)
    operators.__rdivmod__ = lambda self, other: (other // self, other % self)
    for name, op in TABLE.items():
        if op.method and name not in Tensor.__dict__:
            setattr(Tensor, name, _method(getattr(namespace, name)))


def _power(power: Callable[..., Any], base: Tensor, exponent: Any) -> Any:
    """As NumPy's operator: a square or a root where the exponent says so."""
    kind = type(exponent)
    if (kind is int or (kind is float and kind_of(base.dtype) in "fc")) and exponent == 2:
        return namespace.square(base)
    if kind is float and kind_of(base.dtype) in "fc" and exponent == 0.5:
        return namespace.sqrt(base)
    return power(base, exponent) if _known(exponent) else NotImplemented


def _known(other: Any) -> bool:
    return isinstance(
        other, Tensor | np.ndarray | np.generic | bool | int | float | complex | list | tuple
    )


def _forward(function: Callable[..., Any], short: str) -> Callable[..., Any]:
    if isinstance(function, ufunc) and function._quick is not None:
        return _operator(function, function._quick, short)

    def method(self: Tensor, other: Any) -> Any:
        return function(self, other) if _known(other) else NotImplemented

    method.__doc__ = function.__doc__
    return method


def _operator(function: ufunc, quick: Quick, short: str) -> Callable[..., Any]:
    """An operator by the shortest ways first: NumPy on what is small, a call known before."""
    operated, known, is_numpys = near.operated, quick.of_two, function._is_numpys
    like: Callable[..., Any] | None = None
    if is_numpys:
        like = getattr(operator, f"__{short}__")
    elif short == "matmul":
        like, operated = function._like, near.multiplied

    def method(self: Tensor, other: Any) -> Any:
        made = None if like is None else operated(like, self, other)
        if made is None and is_numpys:
            made = hasty.made(function._like, (self, other))
        if made is None:
            made = known(self, other)
        if made is None:
            return function(self, other) if _known(other) else NotImplemented
        return made

    method.__doc__ = function.__doc__
    return method


def _reflected(function: Callable[..., Any], short: str) -> Callable[..., Any]:
    like = None
    if isinstance(function, ufunc) and function._is_numpys:
        like = function._like if short == "pow" else getattr(operator, f"__{short}__")

    def method(self: Tensor, other: Any) -> Any:
        made = None if like is None else near.operated(like, other, self)
        if made is None:
            return function(other, self) if _known(other) else NotImplemented
        return made

    return method


def _inplace(name: str, short: str) -> Callable[..., Any]:
    like = None if name == "matmul" else getattr(np, name)
    by: Any = like if short == "pow" else getattr(operator, f"__{short}__")

    def method(self: Tensor, other: Any) -> Any:
        made = None if like is None else near.changed(self, like, by, other)
        if made is not None:
            return made
        return inplace.in_place(self, name, other) if _known(other) else NotImplemented

    return method


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(function, FunctionType):
        return function  # it binds by itself

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = function.__name__
    method.__doc__ = function.__doc__
    return method


_equip()

_quicks = [getattr(namespace, _BINARY[short])._quick for short in (*near.IN_C, "matmul")]
_quicks += [getattr(namespace, _COMPARE[short])._quick for short in near.COMPARED]
near.in_c(Tensor, tuple(None if quick is None else quick.of_two for quick in _quicks), fill)
