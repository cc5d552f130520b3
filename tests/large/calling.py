"""Lines that bind what functions make: elementwise, reductions, scans, sorts, moves, products."""

from __future__ import annotations

from itertools import zip_longest
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .generate import NotTakenError
from .writing import mask_text, number

if TYPE_CHECKING:
    from .generate import Generator

EXACT = ("negative", "abs", "square", "sqrt", "positive", "conj")
STEPPED = ("floor", "ceil", "trunc", "rint", "sign", "isnan", "isfinite", "signbit", "logical_not")
SMOOTH = ("exp", "sin", "cos", "tanh", "log1p", "arctan", "expm1", "exp2", "arcsinh")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "fmax", "fmin")
COMPARED = ("less", "greater_equal", "equal", "not_equal", "logical_and", "logical_xor")
OPERATORS = ("+", "-", "*", "<", ">=", "==", "/")


def unary(g: Generator) -> None:
    """A function of each element."""
    name, value = g.some()
    how = g.random.randrange(5)
    if how < 3:
        word = g.pick(EXACT)
        inner = f"xp.abs({name})" if word == "sqrt" else name
        g.add(f"xp.{word}({inner})", rounds=value.dtype.kind == "c" or value.dtype == "f2")
    elif how == 3 and value.dtype.kind != "c":
        g.used.clear()
        name, _ = g.some(lambda v: v.dtype.kind != "c", exact=True)
        g.add(f"xp.{g.pick(STEPPED)}({name})")
    else:
        inner = f"-xp.abs({name})" if value.dtype.kind == "f" else f"xp.clip({name}.real, -3, 3)"
        word = g.pick(SMOOTH)
        g.add(f"xp.{word}({inner if word != 'log1p' else f'xp.abs({name})'})", rounds=True)


def other_for(g: Generator, value: Any, *, exact: bool = False) -> str:
    """A number, or an array that broadcasts with a value, or a part of one."""
    if g.one_in(3):
        return number(g, value.dtype)

    def suits(v: Any) -> bool:
        pairs = list(zip_longest(v.shape[::-1], value.shape[::-1], fillvalue=1))
        fits = all(a == b or 1 in (a, b) for a, b in pairs)
        return fits and prod(max(pair) for pair in pairs) <= 2 * g.most

    if g.one_in(6):
        return scalar(g, exact=exact)
    name, _ = g.some(suits, exact=exact)
    return name


def scalar(g: Generator, *, exact: bool = False) -> str:
    """A result that NumPy gives as a scalar."""
    names = [
        name
        for name, value in g.names.items()
        if not value.ndim and not (exact and g.is_loose(name))
    ]
    name = g.pick(names)
    g.used.append(name)
    return name


def binary(g: Generator) -> None:
    """A function of two arrays, or of an array and a number; maybe in another dtype or into one."""
    name, value = g.some()
    how = g.random.randrange(6)
    if how == 0:
        word, exact = g.pick(COMPARED), True
    else:
        word, exact = g.pick(BINARY), False
    if exact and g.is_loose(name):
        raise NotTakenError
    other = other_for(g, value, exact=exact)
    rounds = value.dtype.kind == "c" or any(g.names[n].dtype.kind == "c" for n in g.used)
    if how < 3:
        more = ""
        if not exact and g.one_in(4):
            more = f', dtype="{g.pick(["f8", "f4", "i8", "i4"])}"'
        g.add(f"xp.{word}({name}, {other}{more})", rounds=rounds)
    elif how == 3:
        operator = g.pick(OPERATORS)
        if operator in ("<", ">=", "==") and (g.is_loose(name) or any(map(g.is_loose, g.used))):
            raise NotTakenError
        if operator == "/":
            other = str(g.pick([2, 3, 0.5, 7]))
        left, right = (name, other) if g.one_in(2) or operator == "/" else (other, name)
        g.add(f"{left} {operator} {right}", rounds=rounds)
    elif how == 4:
        words = (
            ("arctan2", "hypot", "logaddexp") if value.dtype.kind == "f" else ("gcd", "bitwise_and")
        )
        g.add(f"xp.{g.pick(words)}({name}, {other})", rounds=value.dtype.kind == "f")
    else:
        if g.is_loose(name):
            raise NotTakenError
        g.add(f"xp.{g.pick(['floor_divide', 'remainder', 'fmod'])}({name}, {g.pick([2, 3, 5])})")


def chosen(g: Generator) -> None:
    """where, clip and their kin."""
    name, value = g.some(lambda v: v.dtype.kind != "c")
    mask = mask_text(g, f"{name}.shape", value.shape)
    other = other_for(g, value)
    texts = [
        f"xp.where({mask}, {name}, {other})",
        f"xp.where({mask}, {other}, {name})",
        f"xp.clip({name}, {g.pick([-1, 0, 1])}, {g.pick([1, 2, 3])})",
        f"{name}[{mask}]",
        f"{name}[{mask}] + {number(g, value.dtype)}",
        f"xp.nan_to_num({name})",
        f"xp.select([{mask}], [{name}], {number(g, value.dtype)})",
    ]
    g.add(g.pick(texts))


def axis_text(g: Generator, value: Any, *, several: bool = True) -> str:
    """An axis, several, or all."""
    how = g.random.randrange(6)
    if how == 0:
        return "None"
    if several and how == 1 and value.ndim > 1:
        return str(tuple(g.random.sample(range(value.ndim), g.random.randint(1, value.ndim))))
    return str(g.random.randrange(-value.ndim, value.ndim))


def reduced(g: Generator) -> None:
    """A reduction, with keepdims, dtype, where, or into an array."""
    name, value = g.some(lambda v: v.size > 0)
    is_float = value.dtype.kind in "fc"
    ordered = ["max", "min", "any", "all", "count_nonzero", "argmax", "argmin", "ptp"]
    summed = ["sum", "mean", "nansum", "std", "var", "sum", "mean"]
    word = g.pick(ordered if g.one_in(2) else summed)
    if value.dtype.kind == "c" and word not in ("sum", "mean"):
        raise NotTakenError
    if value.dtype == "f2" and word not in ("max", "min", "any", "all"):
        raise NotTakenError  # NumPy's own sums of halves depend on their strides
    if word in ("any", "all", "count_nonzero", "argmax", "argmin") and g.is_loose(name):
        raise NotTakenError
    axis = axis_text(g, value, several=word not in ("argmax", "argmin"))
    more = ", keepdims=True" if g.one_in(3) and word != "ptp" else ""
    if word in ("sum", "max", "min", "mean", "any") and g.one_in(4):
        mask = mask_text(g, f"{name}.shape", value.shape)
        more += f", where={mask}" + (", initial=0" if word in ("max", "min") else "")
    if word in ("sum", "mean") and g.one_in(4) and value.dtype.kind != "c":
        dtypes = ["f8", "f4"] if is_float or word == "mean" else ["i8", "f8", "i4"]
        more += f', dtype="{g.pick(dtypes)}"'
    called = f"xp.{word}({name}, axis={axis}{more})"
    if g.one_in(4) and "where" not in more and word not in ("ptp", "count_nonzero"):
        called = f"{name}.{word}(axis={axis}{more})"
    if word == "max" and g.one_in(3):
        called = f"xp.maximum.reduce({name}, axis={axis})"
    g.add(called, rounds=word in summed and (is_float or word in ("mean", "std", "var")))


def reduced_into(g: Generator) -> None:
    """A reduction into an array that is there."""
    name, value = g.some(lambda v: v.ndim > 1 and v.size > 0 and v.dtype.kind in "fi")
    axis = g.random.randrange(value.ndim)
    rest = (*value.shape[:axis], *value.shape[axis + 1 :])
    into, _ = g.some(
        lambda v: isinstance(v, np.ndarray) and v.dtype == value.dtype and v.shape == rest
    )
    word = g.pick(["max", "min", "sum"] if value.dtype.itemsize >= 4 else ["max", "min"])
    is_rounded = word == "sum" and value.dtype.kind == "f"
    g.change(into, f"xp.{word}({name}, axis={axis}, out={into})", rounds=is_rounded)


def scanned(g: Generator) -> None:
    """Running values and differences along an axis."""
    name, value = g.some(lambda v: v.dtype.kind != "c" and v.dtype != "f2")
    axis = g.random.randrange(-value.ndim, value.ndim)
    word = g.pick(["cumsum", "maximum.accumulate", "diff", "cumsum", "minimum.accumulate"])
    if word == "diff" and value.dtype.kind == "b" and g.one_in(2):
        raise NotTakenError
    if word in ("cumsum", "diff") and value.dtype == "f4" and g.is_loose(name):
        raise NotTakenError  # rounding adds up along a line, and is all that is left of differences
    is_rounded = word == "cumsum" and value.dtype.kind == "f"
    g.add(f"xp.{word}({name}, axis={axis})", rounds=is_rounded)


def ordered(g: Generator) -> None:
    """Sorted values, and places that are found by comparing."""
    name, value = g.some(lambda v: v.dtype.kind != "c" and v.size > 0, exact=True)
    axis = g.random.randrange(-value.ndim, value.ndim)
    texts = [
        f"xp.sort({name}, axis={axis})",
        f"xp.sort({name}, axis=None)",
        f'xp.argsort({name}, axis={axis}, kind="stable")',
        f"xp.nonzero({name})[{g.random.randrange(value.ndim)}]",
        f"xp.flatnonzero({name} > 1)",
        f"xp.unique({name})",
        f"xp.argwhere({name} > 2)",
        f"xp.searchsorted(xp.arange(-5, 9), {name})",
        f"xp.median({name}, axis={axis})",
        f"xp.isin({name}, [1, 2])",
        f"xp.take_along_axis({name}, xp.argsort({name}, axis={axis}, kind='stable'), axis={axis})",
    ]
    if value.dtype.kind in "u" or value.dtype == "i8":
        texts.append(f"xp.bincount(xp.abs({name}).ravel() % 50)")
    g.add(g.pick(texts), rounds=False)


def moved(g: Generator) -> None:
    """Values in other places."""
    name, value = g.some(lambda v: v.size > 0)
    axis = g.random.randrange(-value.ndim, value.ndim)
    n = value.shape[axis]
    other, _ = g.some(lambda v: v.shape == value.shape)
    texts = [
        f"xp.roll({name}, {g.pick([1, -3, 1000])}, {axis})",
        f"xp.roll({name}, 5)",
        f"xp.concatenate([{name}, {other}], axis={axis})",
        f"xp.concatenate([{name}, {other}], axis=None)",
        f"xp.stack([{name}, {other}], axis={axis})",
        f"xp.take({name}, index({g.seed()}, {g.pick([7, 900])}, {n}), axis={axis})",
        f"{name}[index({g.seed()}, {g.pick([7, 900])}, {name}.shape[0])]",
        f"xp.pad({name}, {g.pick([1, 2])})",
        f"xp.repeat({name}, 2, axis={axis})",
        f"xp.compress(mask({g.seed()}, {n}), {name}, axis={axis})",
        f"xp.rot90(xp.atleast_2d({name}))",
        f"xp.tril(xp.atleast_2d({name}), 3)",
        f"xp.triu(xp.atleast_2d({name}), -2)",
        f"xp.append({name}, {other})",
        f"xp.hstack([{name}, {other}])",
        f"xp.array_split({name}, 3, axis={axis})[1]",
        f"xp.delete({name}, {g.random.randrange(n)}, axis={axis})",
        f"xp.insert({name}, {g.random.randrange(n)}, 1, axis={axis})",
    ]
    g.add(g.pick(texts))


def multiplied(g: Generator) -> None:
    """Products of matrices, of rows with vectors, sums of products."""
    name, value = g.some(lambda v: v.ndim >= 2 and v.dtype.kind in "fi" and v.dtype != "f2")
    if value.dtype.itemsize < 4 or 0 in value.shape:
        raise NotTakenError
    n, m = value.shape[-2:]
    k = g.pick([1, 2, 5, 16])
    dtype = value.dtype.str[1:]
    if value.size * k > 8_000_000:
        raise NotTakenError
    texts = [
        f'{name} @ data({7 * g.seed() + 1}, ({m}, {k}), "{dtype}")',
        f'{name} @ data({7 * g.seed() + 1}, {m}, "{dtype}")',
        f'xp.einsum("...ij,...ij->...i", {name}, {name})',
        f"xp.tensordot({name}, {name}, {value.ndim})",
        f"xp.vdot({name}, {name})",
    ]
    if value.ndim == 2 and n * n * m < 30_000_000:
        texts.append(f"{name} @ {name}.T")
    if value.ndim == 2 and m * n * m < 30_000_000:
        texts.append(f"{name}.T @ {name}")
    g.add(g.pick(texts), rounds=value.dtype.kind == "f")


def looked_at(g: Generator) -> None:
    """A value is computed, or looked at by Python."""
    name, value = g.some(lambda v: v.size > 0)
    if g.one_in(2):
        g.say(f"xp is np or xp.compute({name})")
        return
    at = ", ".join(str(g.random.randrange(-n, n)) for n in value.shape)
    g.say(g.pick([f"{name}[{at}].item()", f"repr({name})", f"len({name})", f"{name}[{at}] == 1"]))


def read_element(g: Generator) -> None:
    """One element: NumPy's scalar, and a value that later writes leave alone."""
    name, value = g.some(lambda v: v.size > 0)
    at = ", ".join(str(g.random.randrange(-n, n)) for n in value.shape)
    if not g.scalars:
        at = f"{at}, None"
    g.add(f"{name}[{at}]")


def scalar_changed(g: Generator) -> None:
    """A scalar under two names, of which one is changed in place."""
    if not g.scalars:
        raise NotTakenError
    name = g.new_name()
    other = scalar(g)
    operator = g.pick(["+=", "-=", "*=", "/="])
    by = g.pick(["1", "2", "0.5", "3"])
    before = g.names[other]
    g.run(f"{name} = {other}; {other} {operator} {by}")
    value, changed = g.space[name], g.space[other]
    if not isinstance(changed, np.generic) or changed.dtype.kind not in "iufcb":
        g.space[other] = before
        raise NotTakenError
    g.names[name], g.names[other] = value, changed
    if g.loose & {other} or g.is_loose(other):
        g.loose |= {name, other}
    g.say(f"{name} = {other}; {other} {operator} {by}")


def cast_loop(g: Generator) -> None:
    """Several steps over slices, as programs write them."""
    name, value = g.some(lambda v: isinstance(v, np.ndarray) and v.flags.writeable and v.ndim > 0)
    n = value.shape[0]
    if n < 8 or value.dtype.kind not in "if" or value.dtype.itemsize < 4:
        raise NotTakenError
    step = max(n // 4, 1)
    body = g.pick(
        [
            f"{name}[i:i + {step}] += 1",
            f"{name}[i:i + {step}] = {name}[i:i + {step}] * 2 - 1",
            f"{name}[i] = i % 5",
            f"{name}[i:i + {step}][{name}[i:i + {step}] > 2] = 0",
        ]
    )
    if g.is_loose(name) and ">" in body:
        raise NotTakenError
    g.change(name, f"for i in range(0, {n}, {step}): {body}")
