"""Lines that make arrays from nothing, and views of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .generate import LEAST, NotTakenError

if TYPE_CHECKING:
    from .generate import Generator

DTYPES = ("f8", "f4", "i8", "i4", "f8", "f4", "i2", "u1", "b1", "f2", "c16", "u4", "i1")


def create(g: Generator) -> None:
    """An array of data, mostly of the program's shape and dtype."""
    is_first = len(g.names) < 2
    shape = g.main if is_first or g.one_in(2) else g.shape(LEAST, g.most)
    if not is_first and g.one_in(4):  # a row, a column, or a plane, to be broadcast
        shape = tuple(n if g.one_in(2) else 1 for n in shape[g.random.randrange(len(shape)) :])
    dtype = g.dtype if not g.names or g.one_in(2) else g.pick(DTYPES)
    n = int(np.prod(shape))
    how = g.random.randrange(9)
    if how < 5:
        g.add(f'xp.asarray(data({g.seed()}, {shape}, "{dtype}"))')
    elif how < 7:
        made = g.pick([f'xp.arange({n}, dtype="i8") % 23', f"xp.arange({n}) // 7 % 31"])
        g.add(f'({made}).astype("{dtype}").reshape({shape})')
    elif how == 7:
        g.add(f'xp.arange({min(n, 900_000)}, dtype="{g.pick(["i8", "f8", "i4"])}")')
    else:
        made = g.pick(["xp.zeros({}", "xp.ones({}", "xp.full({}, 3"])
        text = made.format(shape)
        g.add(f'{text}, dtype="{dtype}")')


def slice_text(g: Generator, n: int) -> str:
    """A slice of an axis that keeps most of it, mostly."""
    how = g.random.randrange(9)
    if how < 3 or n < 4:
        return ":"
    if how < 5:
        return g.pick(["1:", ":-1", "1:-1", "2:", ":-2"])
    if how == 5:
        return g.pick(["::2", "::-1", "1::3", "-2::-1", "::-2"])
    low = g.random.randrange(n // 2)
    high = g.random.randrange(low, n) + 1
    step = g.pick(["", "", ":2", ":3"])
    return f"{low}:{high}{step}"


def key_text(g: Generator, shape: tuple[int, ...], *, drops: bool = True) -> str:
    """A basic index of a shape."""
    k = g.random.randint(1, len(shape))
    is_last = g.one_in(9)
    items = []
    for n in shape[-k:] if is_last else shape[:k]:
        if drops and n and g.one_in(7):
            at = str(g.random.randrange(-n, n))
            items.append(f"np.array({at})" if g.one_in(4) else at)
        else:
            items.append(slice_text(g, n))
    if drops and g.one_in(9):
        items.insert(g.random.randrange(len(items) + 1), "None")
    if is_last:
        items.insert(0, "...")
    return ", ".join(items)


def sliced(g: Generator) -> None:
    """A basic index."""
    name, value = g.some()
    g.add(f"{name}[{key_text(g, value.shape)}]")


def transposed(g: Generator) -> None:
    """The same elements in another order of axes."""
    name, value = g.some(lambda v: v.ndim > 1)
    axes = list(range(value.ndim))
    g.random.shuffle(axes)
    a, b = axes[:2]
    texts = [
        f"{name}.T",
        f"{name}.transpose({tuple(axes)})",
        f"xp.swapaxes({name}, {a}, {b})",
        f"xp.moveaxis({name}, {a}, {b - value.ndim})",
        f"xp.flip({name}, {a})",
        f"xp.flip({name})",
    ]
    if value.shape[-2] == value.shape[-1] or g.one_in(5):
        texts.append(f"{name}.diagonal({g.pick([0, 1, -1])}, {a}, {b})")
    g.add(g.pick(texts))


def divided(g: Generator, n: int) -> tuple[int, ...]:
    """Lengths of axes with n elements together."""
    factors: list[int] = []
    left = n
    for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31):
        while left % prime == 0 and len(factors) < 24:
            factors.append(prime)
            left //= prime
    factors.append(left)
    sizes = [1] * g.pick([1, 2, 2, 3])
    for factor in factors:
        sizes[g.random.randrange(len(sizes))] *= factor
    return tuple(sizes)


def reshaped(g: Generator) -> None:
    """Another shape: a view, or a copy where NumPy makes one."""
    name, value = g.some(lambda v: v.size > 0)
    how = g.random.randrange(8)
    if how < 3:
        sizes = list(divided(g, value.size))
        for _ in range(g.pick([0, 1, 1, 2])):
            sizes.insert(g.random.randrange(len(sizes) + 1), 1)
        if g.one_in(2):
            sizes[g.random.randrange(len(sizes))] = -1
        g.add(f"{name}.reshape({', '.join(map(str, sizes))})")
        return
    axis = g.random.randrange(-value.ndim - 1, value.ndim + 1)
    texts = [
        f"{name}.reshape(-1, 1)",
        f"{name}.reshape({name}.shape[0], -1)",
        f"{name}.reshape((*{name}.shape, 1))",
        f"{name}.ravel()",
        f"{name}[..., None]",
        f"xp.expand_dims({name}, {axis})",
        f"{name}.squeeze()",
        f"xp.atleast_2d({name})",
    ]
    g.add(g.pick(texts))


def part(g: Generator) -> None:
    """The real or the imaginary part of complex values."""
    name, _ = g.some(lambda v: v.dtype.kind == "c")
    g.add(f"{name}.{g.pick(['real', 'imag'])}")


def broadcast(g: Generator) -> None:
    """Elements that are seen more than once."""
    name, value = g.some(lambda v: 0 < v.size <= 4000)
    other, like = g.some(lambda v: v.size >= LEAST)
    if any(a not in (1, b) for a, b in zip(value.shape[::-1], like.shape[::-1], strict=False)):
        raise NotTakenError
    g.add(f"xp.broadcast_to({name}, {other}.shape)")


def copied(g: Generator) -> None:
    """The same values in memory of their own, in another dtype maybe."""
    name, value = g.some()
    if g.one_in(2):
        g.add(g.pick([f"{name}.copy()", f"xp.array({name})", f"{name}.flatten()", f"+{name}"]))
        return
    dtype = g.pick(DTYPES)
    kind = np.dtype(dtype).kind
    if kind in "iub" and value.dtype.kind in "fc":
        g.used.clear()
        name, value = g.some(lambda v: v.dtype.kind == "f", exact=True)
        fits = kind in "ib" and np.dtype(dtype).itemsize != 2 and dtype != "i1"
        if not fits or not np.isfinite(value).all():
            raise NotTakenError
    g.add(f'{name}.astype("{dtype}")', rounds=dtype == "f2" and g.is_loose(name))
