"""Lines that change arrays in place: by slices, masks and indices, from themselves and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .creating import key_text
from .generate import NotTakenError

if TYPE_CHECKING:
    from .generate import Generator


def number(g: Generator, dtype: np.dtype[Any]) -> str:
    """A Python number that an array of a dtype takes."""
    if dtype.kind == "b":
        return g.pick(["True", "False"])
    if dtype.kind in "iu":
        return str(g.pick([0, 1, 2, 3, 7]))
    return str(g.pick([0, 1, 0.5, -1.5, 2.25, 3]))


def target(g: Generator) -> tuple[str, np.ndarray]:
    """An array that may be written."""
    return g.some(lambda v: isinstance(v, np.ndarray) and v.flags.writeable and v.size > 0)


def fits(value: Any, into: np.dtype[Any]) -> bool:
    """Whether a cast is defined for all values that lines have."""
    return np.can_cast(value.dtype, into, "same_kind") or (
        into.kind == "i" and into.itemsize >= 4 and value.dtype.kind in "iufb"
    )


def value_for(g: Generator, text: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """What is written to `text`, which has a shape: a number, data, or an array that broadcasts."""
    how = g.random.randrange(5)
    if how == 0:
        return number(g, dtype)
    if how == 1:
        kind = g.pick([dtype.str[1:], "i1" if dtype.kind in "if" else dtype.str[1:]])
        made = f'data({7 * g.seed() + 1}, {text}.shape, "{kind}")'
        return g.pick([made, f"xp.asarray({made})"])
    if how == 2 and len(shape) > 1:
        rest = f"{text}.shape[{g.random.randrange(1, len(shape))}:]"
        return f'data({7 * g.seed() + 1}, {rest}, "{dtype.str[1:]}")'

    def suits(v: Any) -> bool:
        ends = shape[len(shape) - v.ndim :] if v.ndim <= len(shape) else None
        return (
            ends is not None
            and fits(v, dtype)
            and all(a in (1, b) for a, b in zip(v.shape, ends, strict=True))
        )

    exact = dtype.kind not in "fc"
    name, value = g.some(suits, exact=exact)
    if exact and value.dtype.kind == "f" and not np.isfinite(value).all():
        raise NotTakenError
    return name


def assigned(g: Generator) -> None:
    """A basic index is written."""
    name, value = target(g)
    key = key_text(g, value.shape)
    seen = eval(f"v[{key}]", {"v": value, "np": np})
    if not seen.size:
        raise NotTakenError
    g.change(name, f"{name}[{key}] = {value_for(g, f'{name}[{key}]', seen.shape, value.dtype)}")


def overlapping(g: Generator) -> None:
    """A part is written from other parts of the same array."""
    name, value = target(g)
    axis = g.pick([axis for axis, n in enumerate(value.shape) if n > 4])
    lead = ":, " * axis
    half = " * 0.5" if value.dtype.kind == "f" else ""
    plus = "|" if value.dtype.kind == "b" else "+"
    smoothed = f"{name}[{lead}1:-1] = ({name}[{lead}:-2] {plus} {name}[{lead}2:]){half}"
    texts = [
        f"{name}[{lead}1:] = {name}[{lead}:-1]",
        f"{name}[{lead}:-1] = {name}[{lead}1:]",
        smoothed,
        f"for _ in range(4): {smoothed}",
        f"{name}[{lead}::-1] = {name}[{lead}:]",
        f"{name}[{lead}2:] = {name}[{lead}:-2] {plus} {name}[{lead}1:-1]",
        f"{name}[...] = xp.flip({name}, {axis})",
        f"{name}[...] = xp.roll({name}, 3, {axis})",
    ]
    if value.ndim > 1 and value.shape[0] == value.shape[1]:
        texts.append(f"{name}[...] = xp.swapaxes({name}, 0, 1)")
    g.change(name, g.pick(texts))


def mask_text(g: Generator, text: str, shape: tuple[int, ...]) -> str:
    """A mask of a shape."""
    share = g.pick(["", "", ", 0.02", ", 0.98"])
    made = f"mask({g.seed()}, {text}{share})"
    how = g.random.randrange(4)
    if how == 0:
        return made
    if how < 3:
        return f"xp.asarray({made})"
    before = len(g.used)
    name, value = g.some(lambda v: v.shape == shape, exact=True)
    del g.used[before:]
    if value.dtype.kind == "b":
        return g.pick([name, f"~{name}"])
    if value.dtype.kind == "c":
        return f"({name}.real > 0.25)"
    return f"({name} > {g.pick([0, 1, 2])})"


def masked(g: Generator) -> None:
    """What a mask selects is written: from a number, from itself, from a list of values."""
    name, value = target(g)
    n_axes = g.random.randint(1, value.ndim)
    mask = mask_text(g, f"{name}.shape[:{n_axes}]", value.shape[:n_axes])
    add = "|=" if value.dtype.kind == "b" else g.pick(["+=", "*=", "-="])
    texts = [
        f"{name}[{mask}] = {number(g, value.dtype)}",
        f"{name}[{mask}] {add} {number(g, value.dtype)}",
        f'{name}[{mask}] = data(8, {name}[{mask}].shape, "{value.dtype.str[1:]}")',
        f"xp.copyto({name}, {number(g, value.dtype)}, where={mask})",
        f"xp.putmask({name}, {mask}, {number(g, value.dtype)})",
        f"m = {mask}; {name}[m] = {name}[m] {add[0]} {number(g, value.dtype)}",
        f"m = {mask}; {name}[m] = -{name}[m]",
    ]
    g.change(name, g.pick(texts))


def indexed(g: Generator) -> None:
    """What index arrays name is written; places that come twice have their last value."""
    name, value = target(g)
    axis = g.random.randrange(value.ndim)
    n = g.pick([5, 300, 5000, 70_000])
    n_written = n * value.size // value.shape[axis]
    if n_written > 2_000_000:
        raise NotTakenError
    lead = ":, " * axis
    made = f"index({g.seed()}, {n}, {name}.shape[{axis}])"
    made = g.pick([made, f"xp.asarray({made})"])
    more = ""
    if axis + 1 < value.ndim and g.one_in(3):
        more = f", index({g.seed()}, {n}, {name}.shape[{axis + 1}])"
    key = f"{lead}{made}{more}"
    dtype = value.dtype.str[1:]
    texts = [
        f"{name}[{key}] = {number(g, value.dtype)}",
        f'{name}[{key}] = data(8, {name}[{key}].shape, "{dtype}")',
        f'{name}[{key}] = xp.asarray(data(9, {name}[{key}].shape, "{dtype}"))',
    ]
    if value.dtype.kind != "b" and n_written < 100_000:
        texts += [
            f"{name}[{key}] += {number(g, value.dtype)}",
            f"xp.add.at({name}, ({key},), {number(g, value.dtype)})",
            f"xp.maximum.at({name}, ({key},), {number(g, value.dtype)})",
        ]
    if value.ndim == 1:
        texts.append(f"xp.put({name}, {made}, {number(g, value.dtype)})")
    g.change(name, g.pick(texts))


def in_place(g: Generator) -> None:
    """An operator changes all of an array, or a part of it."""
    name, value = target(g)
    key = "" if g.one_in(2) else f"[{key_text(g, value.shape, drops=False)}]"
    seen = eval(f"v{key}", {"v": value})
    if not seen.size:
        raise NotTakenError
    kind = value.dtype.kind
    if kind == "b":
        operator = g.pick(["|", "&", "^"])
    elif kind in "iu":
        operator = g.pick(["+", "-", "*", "|", "&", "^", "//", "%"])
    else:
        operator = g.pick(["+", "-", "*", "+", "-"])
    if operator in "//%":
        g.change(name, f"{name}{key} {operator}= {g.pick([2, 3, 7])}")
        return
    by = value_for(g, f"{name}{key}", seen.shape, value.dtype)
    g.change(name, f"{name}{key} {operator}= {by}")


def stored(g: Generator) -> None:
    """The result of a ufunc goes to an array, everywhere or where a mask says."""
    name, value = target(g)
    other, _ = g.some(lambda v: v.dtype == value.dtype and v.shape == value.shape)
    third, _ = g.some(
        lambda v: v.dtype == value.dtype and v.shape in (value.shape, value.shape[1:])
    )
    where = ""
    if g.one_in(2):
        n_axes = g.random.randint(1, value.ndim) if g.one_in(4) else 0
        mask = mask_text(g, f"{name}.shape[{n_axes}:]", value.shape[n_axes:])
        where = f", where={mask}"
    if value.dtype.kind == "b":
        call = g.pick([f"logical_or({other}, {third}", f"logical_not({other}"])
    else:
        binary = [f"{word}({other}, {third}" for word in ("add", "subtract", "maximum", "minimum")]
        call = g.pick([*binary, f"negative({other}", f"multiply({other}, {number(g, value.dtype)}"])
        if value.dtype.kind == "f":
            call = g.pick([call, call, f"sqrt(xp.abs({other})", f"divide({other}, 2"])
    g.change(name, f"xp.{call}, out={name}{where})")


def sorted_in_place(g: Generator) -> None:
    """Sorted, filled, or set along its diagonal or by flat places."""
    name, value = target(g)
    how = g.random.randrange(4)
    if how == 0:
        if value.dtype.kind == "c":
            raise NotTakenError
        g.change(name, f"{name}.sort(axis={g.random.randrange(value.ndim)})")
    elif how == 1:
        g.change(name, f"{name}.fill({number(g, value.dtype)})")
    elif how == 2 and value.ndim == 2:
        g.change(name, f"xp.fill_diagonal({name}, {number(g, value.dtype)})")
    else:
        key = g.pick(["1:", "::3", f"index({g.seed()}, 900, {name}.size)", ":70000"])
        g.change(name, f"{name}.flat[{key}] = {number(g, value.dtype)}")
