"""Short lines sorted on a GPU, or their order found, in registers.

Values are sorted as integers whose order is theirs, NaN last. The shortest lines are in one thread
each, which exchanges pairs of their elements as a network says; of longer ones a program has
several, and elements that fill a line up to a power of two are as large, so that they stay behind.
An order is that of values with their places behind them, so that no two are equal. The libraries'
sorts move every element once for each of its digits, and torch's its index too.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from infinitensor.jit import Launch, Launches, has_triton, triton_module
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.compile_beside import can_start

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_LINE_ELEMENTS = 512
"""Longer lines are torch's: it is as fast there."""
MOST_THREAD_ELEMENTS = 32
"""Elements of a line up to which a thread has all of it: more are too many registers, and programs
that the compiler takes seconds for."""
MOST_PAIRED_ELEMENTS = 24
"""The same for an order of values of 64 bits, whose places are beside them: of 32, the compiler
takes four times as long."""
LEAST_SORTED_ELEMENTS = 1 << 8
"""Fewer are sorted before a kernel would be compiled."""
PROGRAM_ELEMENTS = 1024
"""With twice as many, 300 in a line take 1.7 times as long."""
SORT_WARPS = 8
"""With four, they take 1.3 times as long."""
NETWORK_LINES = 128
"""Lines of a program that has each in one thread."""
PLACE_BITS = 16
"""What a place in a line takes behind a value."""

_KEYS = """\
@triton.jit
def key_of(
    x, BITS: tl.constexpr, INFINITY: tl.constexpr, FLIPPED: tl.constexpr, ORDER: tl.constexpr
):
    key = x.to(tl.int64) if BITS == 64 else x.to(tl.int32)
    MOST: tl.constexpr = (1 << (BITS - 1)) - 1
    if INFINITY > 0:
        if ORDER:
            key = tl.where(key == -MOST - 1, 0, key)
        is_nan = (key & MOST) > INFINITY
        key = tl.where(is_nan, MOST, tl.where(key < 0, key ^ MOST, key))
    return key ^ FLIPPED


@triton.jit
def value_of(key, BITS: tl.constexpr, INFINITY: tl.constexpr, FLIPPED: tl.constexpr):
    key = key ^ FLIPPED
    if INFINITY > 0:
        key = tl.where(key < 0, key ^ ((1 << (BITS - 1)) - 1), key)
    return key


@triton.jit
def placed(key, place, BITS: tl.constexpr):
    wide = key.to(tl.int64) if BITS == 32 else key
    return (wide << {place_bits}) | place


"""

_CONSTANTS = """\
    BITS: tl.constexpr, INFINITY: tl.constexpr, FLIPPED: tl.constexpr, ORDER: tl.constexpr,
    LINES: tl.constexpr, BLOCK: tl.constexpr,
):
"""

_SHORT = """\
    line = tl.program_id(0).to(tl.int64) * LINES + tl.arange(0, LINES)[:, None]
    place = tl.arange(0, BLOCK)[None, :]
    outer, lane = line // inner, line % inner
    inside = (line < n_lines) & (place < n)
    at = (outer * n + place) * inner + lane
    keys = key_of(tl.load(x + at, mask=inside, other=0), BITS, INFINITY, FLIPPED, ORDER)
    if ORDER:
        keys = placed(keys, place, BITS)
        MOST: tl.constexpr = (1 << (63 if BITS == 32 else 31)) - 1
        made = tl.sort(tl.where(inside, keys, MOST), 1) & {places}
    else:
        MOST: tl.constexpr = (1 << (BITS - 1)) - 1
        made = value_of(tl.sort(tl.where(inside, keys, MOST), 1), BITS, INFINITY, FLIPPED)
    made = made.to(out.dtype.element_ty)
"""


@lru_cache
def _source(n_ranks: int) -> str:
    """The kernel that stores so many ranks of each line; 0: all of it."""
    if not n_ranks:
        stores = ["    tl.store(out + at, made, mask=inside)\n"]
    else:
        stores = [
            f"    tl.store(out + (outer * {n_ranks} + {k}) * inner + lane + place * 0, made, "
            f"mask=inside & (place == rank{k}))\n"
            for k in range(n_ranks)
        ]
    ranks = "".join(f", rank{k}" for k in range(n_ranks))
    head = f"@triton.jit\ndef lines_sorted(\n    x, out, n_lines, n, inner{ranks},\n{_CONSTANTS}"
    return _module(head, _SHORT.format(places=(1 << PLACE_BITS) - 1), *stores)


def _module(*parts: str) -> str:
    return triton_module(_KEYS.format(place_bits=PLACE_BITS), *parts)


def exchanges(n: int) -> Iterator[tuple[int, int]]:
    """The places that are compared, one pair after another, to sort n elements (Batcher's merge
    exchange; Knuth, volume 3, algorithm 5.2.2M).

    >>> list(exchanges(3))
    [(0, 2), (0, 1), (1, 2)]
    """
    top = 1 << max((n - 1).bit_length() - 1, 0)
    step = top
    while step:
        apart, at, which = step, top, 0
        while True:
            yield from ((k, k + apart) for k in range(n - apart) if k & step == which)
            if at == step:
                break
            apart, at, which = at - step, at // 2, step
        step //= 2


@lru_cache
def _network_source(n: int, ranks: tuple[int, ...], pairs: bool, order: bool, across: bool) -> str:
    """The kernel that has a line of n elements in each thread.

    `pairs`: places are beside the values, not in the same word. `order`: places are stored.
    `across`: elements of a line are not side by side.
    """
    lines = ["line = tl.program_id(0).to(tl.int64) * LINES + tl.arange(0, LINES)[:, None]"]
    lines += ["there = line < n_lines"]
    if across:
        lines += ["outer, lane = line // inner, line % inner", f"at = outer * {n} * inner + lane"]
    else:
        lines += [f"at = line * {n}"]
    step = " * inner" * across
    for k in range(n):
        lines += [f"k{k} = tl.load(x + (at + {k}{step}), mask=there, other=0)"]
        lines += [f"k{k} = key_of(k{k}, BITS, INFINITY, FLIPPED, ORDER)"]
        if pairs:
            lines += [f"p{k} = tl.full((LINES, 1), {k}, tl.int32)"]
        elif order:
            lines += [f"k{k} = placed(k{k}, {k}, BITS)"]
    for a, b in exchanges(n):
        if not pairs:
            lines += [f"k{a}, k{b} = tl.minimum(k{a}, k{b}), tl.maximum(k{a}, k{b})"]
            continue
        lines += [f"turn = (k{a} > k{b}) | ((k{a} == k{b}) & (p{a} > p{b}))"]
        lines += [
            f"{x}{a}, {x}{b} = tl.where(turn, {x}{b}, {x}{a}), tl.where(turn, {x}{a}, {x}{b})"
            for x in "kp"
        ]
    found = ranks or tuple(range(n))
    for k in sorted(set(found)):
        if order:
            made = f"p{k}" if pairs else f"(k{k} & {(1 << PLACE_BITS) - 1}).to(tl.int32)"
        else:
            made = f"value_of(k{k}, BITS, INFINITY, FLIPPED)"
        lines += [f"m{k} = {made}"]
    kind = "out.dtype.element_ty"
    if across:
        lines += [f"into = outer * {len(found)} * inner + lane"]
        lines += [
            f"tl.store(out + (into + {at} * inner), m{k}.to({kind}), mask=there)"
            for at, k in enumerate(found)
        ]
    else:
        block = 1 << (len(found) - 1).bit_length()
        filled = [f"m{found[min(k, len(found) - 1)]}" for k in range(block)]
        made = _side_by_side(filled, lines)
        lines += [f"place = tl.arange(0, {block})[None, :]"]
        lines += [f"inside = there & (place < {len(found)})"]
        lines += [f"tl.store(out + (line * {len(found)} + place), {made}.to({kind}), mask=inside)"]
    head = f"@triton.jit\ndef lines_exchanged(\n    x, out, n_lines, inner,\n{_CONSTANTS}"
    return _module(head, *(f"    {line}\n" for line in lines))


def _side_by_side(columns: Sequence[str], lines: list[str]) -> str:
    """The name of a block of columns, whose lines go to memory side by side."""
    if len(columns) == 1:
        return columns[0]
    even, odd = (_side_by_side(columns[first::2], lines) for first in (0, 1))
    name = f"j{len(lines)}"
    lines.append(f"{name} = tl.reshape(tl.join({even}, {odd}), (LINES, {len(columns)}))")
    return name


def _launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_lines, n, inner, infinity, flipped, order, *ranks = shape
    bits = 8 * tiles[0].element_size()
    how = {"BITS": bits, "INFINITY": infinity, "FLIPPED": flipped, "ORDER": order}
    if n <= MOST_THREAD_ELEMENTS:
        pairs = bool(order) and bits == 64
        source = _network_source(n, tuple(ranks), pairs, bool(order), inner > 1)
        n_programs, sizes = -(-n_lines // NETWORK_LINES), (n_lines, inner)
        return Launch(source, n_programs, sizes, **how, LINES=NETWORK_LINES, BLOCK=1)
    block = 1 << (n - 1).bit_length()
    n_at_a_time = max(PROGRAM_ELEMENTS // block, 1)
    n_programs = -(-n_lines // n_at_a_time)
    how |= {"LINES": n_at_a_time, "BLOCK": block}
    numbers = (n_lines, n, inner, *ranks)
    return Launch(_source(len(ranks)), n_programs, numbers, n_warps=SORT_WARPS, **how)


_sort = Launches(_launch)


@lru_cache
def order_of(dtype: Any) -> tuple[int, int]:
    """The bits of infinity, of a float, and those that are flipped in an unsigned integer."""
    bits = 8 * dtype.itemsize
    if dtype.is_floating_point:
        return int(torch.tensor(torch.inf, dtype=dtype).view(getattr(torch, f"int{bits}"))), 0
    return 0, 0 if dtype.is_signed or dtype == torch.bool else -(1 << (bits - 1))


def sort_short_lines(x: Any, out: Any, axis: int, ranks: tuple[int, ...] = ()) -> bool:
    """Lines along an axis sorted into `out`, or what has some ranks in each of them.

    False, and nothing done, without Triton, until the kernel is compiled, for long lines, few
    elements, complex numbers, and what is not contiguous.
    """
    return _start(x, out, axis, ranks, order=False)


def argsort_short_lines(x: Any, out: Any, axis: int) -> bool:
    """The stable order of lines along an axis into `out`; False, and nothing done, as for
    `sort_short_lines`, and for elements of 64 bits in lines that are not a thread's."""
    is_wide = x.element_size() == 8 and x.shape[axis] > MOST_PAIRED_ELEMENTS
    return not is_wide and _start(x, out, axis, (), order=True)


def _start(x: Any, out: Any, axis: int, ranks: tuple[int, ...], order: bool) -> bool:
    n = x.shape[axis]
    fits = n <= MOST_LINE_ELEMENTS and x.numel() >= LEAST_SORTED_ELEMENTS and not x.is_complex()
    if not (fits and x.is_cuda and x.is_contiguous() and out.is_contiguous() and has_triton()):
        return False
    whole = getattr(torch, f"int{8 * x.element_size()}")
    tiles = (x.view(whole), out if order else out.view(whole))
    kind = (x.numel() // n, n, prod(x.shape[axis:][1:]), *order_of(x.dtype), int(order), *ranks)
    launch = _sort.get(kind, tiles)
    if not can_start(launch, tiles):
        return False
    launch(tiles)
    return True
