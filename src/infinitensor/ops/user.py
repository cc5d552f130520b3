"""A user's function as an op: the form says how its arrays are cut, the function does a tile."""

from __future__ import annotations

import itertools
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import as_dtype, can_cast, result_type
from infinitensor.ir.op import AxisForm, Call, Combine, Op, Spec
from infinitensor.ops.forms.reduction import COMBINES
from infinitensor.ops.table.numpy_kernels import stepwise
from infinitensor.ops.table.words import EAGER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from infinitensor.ir.op import At


def map_tiles_op(
    fn: Callable[..., Any],
    specs: Sequence[Spec],
    form: str,
    combine: str | None = None,
    dtype: Any = None,
    sizes: Mapping[str, int] | None = None,
    halo: Mapping[str, tuple[int, int]] | None = None,
    with_region: bool = False,
    scratch_bytes: int = 0,
) -> tuple[Op, Call]:
    """The op and the call for `fn` over tensors of these specs.

    `form` names the axes: "nd,kd->nk", several outputs "nd,kd->nk;n". A label that only inputs have
    is cut if `combine` says how two partial results become one (each output alike), else it stays
    whole. A label that only outputs have takes its size from `sizes` and stays whole, and so does
    one that some outputs have and others lack.
    """
    inputs, outputs = _parse(form, len(specs))
    extent = _extents(form, inputs, outputs, specs, dict(sizes or {}))
    number = {name: i for i, name in enumerate(extent)}
    given = {name for labels in inputs for name in labels}
    made = {name for labels in outputs for name in labels}
    contracted = given - made
    if combine is not None and combine not in COMBINES:
        raise ValueError(f"map_tiles: combine={combine!r} is none of {sorted(COMBINES)}")
    merged = combine is not None and bool(contracted)
    # A label that one output has and another lacks would be combined in one and kept in the other.
    uneven = {name for name in made if any(name not in labels for labels in outputs)}
    whole = (made - given) | uneven | (set() if merged else contracted)
    axes = AxisForm(
        tuple(extent.values()),
        tuple(tuple(number[name] for name in labels) for labels in inputs),
        tuple(tuple(number[name] for name in labels) for labels in outputs),
        frozenset(number[name] for name in whole),
        _halo(form, inputs, dict(halo or {}), contracted if merged else set()),
    )
    dtypes = _dtypes(form, dtype, len(outputs), specs)
    outs = tuple(
        Spec(tuple(extent[name] for name in labels), kind)
        for labels, kind in zip(outputs, dtypes, strict=True)
    )
    if isgeneratorfunction(fn):
        fn = stepwise(fn)
    entry: dict[str, Any] = {
        "located": with_region,
        "scratch_bytes": lambda ins, outs, params: scratch_bytes + sum(o.n_bytes for o in outs),
    }
    arrays = tuple(f"x{i}" for i in range(len(specs)))
    doc = f"A user's function over {form}."
    if merged:
        assert combine is not None
        kernel: Callable[..., Any] = _partial_kernel(fn, form, outputs, dtypes, with_region)
        # A leaf of a tile has no region of its own, so a function that asks for it gets no leaves.
        exact = with_region or combine in ("min", "max", "any", "all")
        rule = Combine(combine, _each(combine), exact)
        made_op = Op(
            "map_tiles", "reduction", _no_rule, arrays, doc, kernel=kernel, combine=rule, **entry
        )
    else:
        kernel = _tile_kernel(fn, form, with_region)
        made_op = Op("map_tiles", "mapped", _no_rule, arrays, doc, kernel=kernel, **entry)
    return made_op, Call(axes, outs)


def _no_rule(*specs: Spec) -> Call:
    raise TypeError("a map_tiles op is made with its call")


def _parse(form: str, n_inputs: int) -> tuple[list[str], list[str]]:
    left, arrow, right = form.replace(" ", "").partition("->")
    inputs, outputs = left.split(",") if left or n_inputs else [], right.split(";")
    if not arrow or not all(part.isalpha() or not part for part in (*inputs, *outputs)):
        raise ValueError(f"map_tiles: form {form!r} does not read as 'nd,kd->nk;n'")
    if len(inputs) != n_inputs:
        raise ValueError(
            f"map_tiles: form {form!r} names {len(inputs)} inputs, {n_inputs} are given"
        )
    for labels in (*inputs, *outputs):
        if len(set(labels)) != len(labels):
            raise ValueError(f"map_tiles: form {form!r} repeats a label within {labels!r}")
    return inputs, outputs


def _extents(
    form: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    specs: Sequence[Spec],
    sizes: dict[str, int],
) -> dict[str, int]:
    extent: dict[str, int] = {}
    for i, (labels, spec) in enumerate(zip(inputs, specs, strict=True)):
        if len(labels) != spec.ndim:
            raise ValueError(
                f"map_tiles: {form!r} gives input {i} {len(labels)} axes, it has {spec.shape}"
            )
        for name, n in zip(labels, spec.shape, strict=True):
            if extent.setdefault(name, n) != n:
                raise ValueError(
                    f"map_tiles: label {name!r} of {form!r} has size {extent[name]} in one input "
                    f"and {n} in input {i}"
                )
    for name in itertools.chain.from_iterable(outputs):
        if name not in extent:
            if name not in sizes:
                raise ValueError(
                    f"map_tiles: give the size of label {name!r} of {form!r} in sizes="
                )
            extent[name] = int(sizes[name])
    return extent


def _halo(
    form: str, inputs: Sequence[str], halo: dict[str, tuple[int, int]], merged: set[str]
) -> tuple[tuple[tuple[int, int], ...], ...]:
    known = {name for labels in inputs for name in labels}
    for name, widths in halo.items():
        if name not in known or name in merged:
            raise ValueError(f"map_tiles: halo of {name!r}: no input of {form!r} keeps that label")
        if min(widths) < 0:
            raise ValueError(f"map_tiles: halo of {name!r} is {widths}; give (before, after)")
    if not halo:
        return ()
    return tuple(
        tuple((int(w[0]), int(w[1])) for w in (halo.get(name, (0, 0)) for name in labels))
        for labels in inputs
    )


def _dtypes(form: str, dtype: Any, n: int, specs: Sequence[Spec]) -> tuple[np.dtype[Any], ...]:
    if isinstance(dtype, tuple | list):
        if len(dtype) != n:
            raise ValueError(f"map_tiles: {form!r} has {n} outputs, dtype= names {len(dtype)}")
        return tuple(as_dtype(d) for d in dtype)
    if dtype is None:
        kinds = [spec.dtype for spec in specs]
        return (result_type(*kinds) if kinds else np.dtype(float),) * n
    return (as_dtype(dtype),) * n


def _results(fn: Callable[..., Any], form: str, n: int, tiles: Any, region: Any) -> tuple[Any, ...]:
    given = [_read_only(tile) for tile in tiles]
    before = _changes(given)
    result = fn(*given) if region is None else fn(*given, region=region)
    if _changes(given) != before:
        raise ValueError(
            f"map_tiles: the function of {form!r} wrote to a tile that it was given, which is the "
            "tensor's own: its values are gone. Take tile.clone() before you write"
        )
    results = result if isinstance(result, tuple | list) else (result,)
    if len(results) != n:
        raise ValueError(
            f"map_tiles: {form!r} has {n} outputs, the function returned {len(results)}"
        )
    return tuple(results)


def _read_only(tile: Any) -> Any:
    """A tile as the function sees it: it is the tensor's own memory."""
    if not isinstance(tile, np.ndarray):
        return tile  # torch has no such arrays: a write is seen afterwards
    seen = tile.view()
    seen.flags.writeable = False
    return seen


def _changes(tiles: Sequence[Any]) -> list[int]:
    """How often torch's tensors were written to."""
    return [tile._version for tile in tiles if not isinstance(tile, np.ndarray)]


def _check_result(
    xp: Any, form: str, i: int, result: Any, shape: tuple[int, ...], dtype: Any
) -> Any:
    array = np.asarray(result) if xp is np else xp.as_tensor(result)
    if tuple(array.shape) != shape:
        raise ValueError(
            f"map_tiles: output {i} of {form!r} has shape {tuple(array.shape)} "
            f"for a tile of {shape}"
        )
    fits = (
        can_cast(array.dtype, dtype, "same_kind") if xp is np else xp.can_cast(array.dtype, dtype)
    )
    if not fits:
        raise TypeError(
            f"map_tiles: output {i} of {form!r} is {array.dtype}, which is no {dtype}; set dtype="
        )
    return array


def _tile_kernel(fn: Callable[..., Any], form: str, with_region: bool) -> Callable[..., None]:
    def kernel(xp: Any, *tiles: Any, out: Any, at: At | None = None) -> None:
        outs = out if isinstance(out, tuple) else (out,)
        region = at.outputs if at is not None and with_region else None
        for i, (result, target) in enumerate(
            zip(_results(fn, form, len(outs), tiles, region), outs, strict=True)
        ):
            target[...] = _check_result(xp, form, i, result, tuple(target.shape), target.dtype)

    return kernel


def _partial_kernel(
    fn: Callable[..., Any],
    form: str,
    outputs: Sequence[str],
    dtypes: Sequence[np.dtype[Any]],
    with_region: bool,
) -> Callable[..., tuple[Any, ...]]:
    from infinitensor.dtypes import to_torch

    inputs = form.replace(" ", "").partition("->")[0].split(",")

    def kernel(xp: Any, *tiles: Any, axes: Any, at: At | None = None) -> tuple[Any, ...]:
        extent = {
            name: n
            for labels, tile in zip(inputs, tiles, strict=True)
            for name, n in zip(labels, tile.shape, strict=True)
        }
        region = at.outputs if at is not None and with_region else None
        parts = []
        for i, result in enumerate(_results(fn, form, len(outputs), tiles, region)):
            kind = dtypes[i] if xp is np else to_torch(dtypes[i])
            given = tuple(result.shape)
            shape = tuple(extent.get(name, n) for name, n in zip(outputs[i], given, strict=False))
            array = _check_result(xp, form, i, result, shape, kind)
            parts.append(array.astype(kind, copy=False) if xp is np else array.to(kind))
        return tuple(parts)

    return kernel


def _each(combine: str) -> Callable[..., tuple[Any, ...]]:
    word = COMBINES[combine]

    def merge(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        apply = EAGER["cpu" if xp is np else "cuda"][word]
        return tuple(apply(x, y) for x, y in zip(a, b, strict=True))

    return merge
