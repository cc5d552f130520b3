"""Counting on a GPU: how often each integer occurs, sums of weights, and the ends of the values, in
one pass and what adds up its parts.

Small integers, which are often few and then many times the same, are counted in registers: programs
that add to the same number in memory wait for each other. Weights are added up as integers: limbs
of 32 bits, each in a number of 64, so that sums are exact and rounded once. All is exact in any
order.
"""

from __future__ import annotations

from functools import lru_cache
from math import ldexp
from typing import Any, NamedTuple

from infinitensor.jit import Launch, Launches, has_triton, triton_module
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.compile_beside import can_start

LEAST_COUNTED_ELEMENTS = 1 << 12
"""Fewer are counted before a kernel would be compiled."""
COUNT_BLOCK_ELEMENTS = 2048
COUNT_PROGRAMS = 1024
"""Several for each multiprocessor; each adds up its counts once."""
SPREAD_COUNTS = 1 << 15
"""Places in memory over which additions of many values are spread."""
MOST_COPIES = 32
LOW_COUNTS = 256
"""Integers below it are counted in registers."""
SUM_COPIES = 16
"""Of the limbs of so many low integers, of which there are often many."""
SUM_PLACES = 1 << 19
"""Limbs that a line of any length may have, and how many for each of its values besides."""
SUM_PLACES_OF_VALUE = 16
FINISH_ELEMENTS = 256
"""That a program adds up at a time."""
MOST, LEAST = (1 << 63) - 1, -(1 << 63)
MOST_DIGIT = (1 << 32) - 1

_BEGIN = """\
    first = tl.program_id(0).to(tl.int64) * n_steps * BLOCK + tl.arange(0, BLOCK)
    few = tl.zeros((LOW,), tl.int32)
    n_others = tl.zeros((BLOCK,), tl.int32)
    counts += tl.program_id(0) % COPIES * n
"""
_ADD = """\
        is_low = (value >= 0) & (value < LOW)
        few += tl.histogram(tl.where(is_low, value, 0).to(tl.int32), LOW)
        n_others += tl.where(is_low, 0, 1)
        if HAS_MORE:
            one = tl.full((BLOCK,), 1, tl.int64)
            tl.atomic_add(counts + value, one, mask=(value >= LOW) & (value < n), sem="relaxed")
"""
_END = """\
    place = tl.arange(0, LOW)
    few -= tl.where(place == 0, tl.sum(n_others, 0), 0)
    is_seen = (few > 0) & (place < n)
    tl.atomic_add(counts + place, few.to(tl.int64), mask=is_seen, sem="relaxed")
"""
_ENDS = """\
    low = tl.full((BLOCK,), MOST, tl.int64)
    high = -low - 1
"""
_LOAD = """\
        at = first + step * BLOCK
        inside = at < n_values
        value = tl.load(x + at, mask=inside, other=-1)
        low = tl.minimum(low, tl.where(inside, value, MOST))
        high = tl.maximum(high, tl.where(inside, value, -MOST - 1))
"""
_STORE_ENDS = """\
    tl.store(parts + tl.program_id(0), tl.min(low, 0))
    tl.store(parts + tl.num_programs(0) + tl.program_id(0), tl.max(high, 0))
"""
_VALUES = f"""\
@triton.jit
def values_counted(
    x, counts, parts, n_values, n, n_steps,
    LOW: tl.constexpr, HAS_MORE: tl.constexpr, COPIES: tl.constexpr, MOST: tl.constexpr,
    BLOCK: tl.constexpr,
):
{_BEGIN}{_ENDS}\
    for step in range(n_steps):
{_LOAD}{_ADD}{_END}{_STORE_ENDS}"""
_BINS = f"""\
@triton.jit
def bins_counted(
    x, edges, counts, n_values, n, n_steps,
    LOW: tl.constexpr, HAS_MORE: tl.constexpr, COPIES: tl.constexpr, HALF: tl.constexpr,
    HALVES: tl.constexpr, BLOCK: tl.constexpr,
):
{_BEGIN}\
    begin, end = tl.load(edges), tl.load(edges + n)
    bins_of_one = n / (end - begin)
    for step in range(n_steps):
        at = first + step * BLOCK
        inside = at < n_values
        number = tl.load(x + at, mask=inside, other=0).to(tl.float64)
        is_within = inside & (number >= begin) & (number <= end)
        value = ((tl.where(is_within, number, begin) - begin) * bins_of_one).to(tl.int32)
        value = tl.minimum(tl.maximum(value, 0), n - 1)
        is_less = is_within & (number < tl.load(edges + value))
        is_more = is_within & (value < n - 1) & (number >= tl.load(edges + value + 1))
        value = value - is_less.to(tl.int32) + is_more.to(tl.int32)
        is_far = is_less & (number < tl.load(edges + value, mask=is_less, other=0))
        next_edge = tl.load(edges + value + 1, mask=is_more, other=0)
        is_far = is_far | (is_more & (value < n - 1) & (number >= next_edge))
        if tl.max(is_far.to(tl.int32), 0) > 0:
            value = value * 0
            for k in range(HALVES):
                above = value + (HALF >> k)
                edge = tl.load(edges + above, mask=above < n, other=0)
                value = tl.where((above < n) & (number >= edge), above, value)
        value = tl.where(is_within, value, -1)
{_ADD}{_END}"""
_WEIGHTS = f"""\
@triton.jit
def values_weighed(
    x, weights, sums, parts, n_values, n, n_low, n_places, n_steps,
    FIRST: tl.constexpr, LIMBS: tl.constexpr, COPIES: tl.constexpr, MOST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    first = tl.program_id(0).to(tl.int64) * n_steps * BLOCK + tl.arange(0, BLOCK)
    copy = tl.program_id(0) % COPIES
{_ENDS}\
    for step in range(n_steps):
{_LOAD}\
        is_counted = (value >= 0) & (value < n)
        place = tl.where(value < n_low, copy * n_low + value, (COPIES - 1) * n_low + value)
        weight = tl.load(weights + at, mask=inside, other=0)
        if LIMBS == 1:
            weight = weight.to(tl.int64)
            tl.atomic_add(sums + place, weight, mask=is_counted & (weight != 0), sem="relaxed")
        else:
            bits = weight.to(tl.float64).to(tl.int64, bitcast=True)
            power = (bits >> 52) & 2047
            digits = bits & ((1 << 52) - 1)
            is_finite = power < 2047
            is_plus = is_counted & (is_finite == 0) & ((bits > 0) | (digits != 0))
            is_minus = is_counted & (is_finite == 0) & ((bits < 0) | (digits != 0))
            is_counted = is_counted & is_finite
            digits = tl.where(power > 0, digits | (1 << 52), digits)
            power = tl.maximum(power - FIRST, 1) - 1
            shift = power & 31
            low_part = (digits & 0xFFFFFFFF) << shift
            high_part = (low_part >> 32) + ((digits >> 32) << shift)
            at_limb = (power >> 5) * n_places + place
            sign = tl.where(bits < 0, -1, 1).to(tl.int64)
            part = low_part & 0xFFFFFFFF
            tl.atomic_add(
                sums + at_limb, part * sign, mask=is_counted & (part != 0), sem="relaxed"
            )
            part = high_part & 0xFFFFFFFF
            tl.atomic_add(
                sums + at_limb + n_places, part * sign, mask=is_counted & (part != 0), sem="relaxed"
            )
            part = high_part >> 32
            tl.atomic_add(
                sums + at_limb + 2 * n_places, part * sign, mask=is_counted & (part != 0),
                sem="relaxed",
            )
            one = tl.full((BLOCK,), 1, tl.int64)
            beyond = sums + LIMBS * n_places + place
            tl.atomic_add(beyond, one, mask=is_plus, sem="relaxed")
            tl.atomic_add(beyond + n_places, one, mask=is_minus, sem="relaxed")
{_STORE_ENDS}"""
_FINISH = """\
@triton.jit
def finished(
    sums, parts, out, ends, n, n_low, n_places, n_parts,
    COPIES: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, MOST: tl.constexpr,
):
    here = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    copy = tl.arange(0, COPIES)[:, None]
    column = here[None, :]
    place = tl.where(column < n_low, copy * n_low + column, (COPIES - 1) * n_low + column)
    there = (column < n) & ((column < n_low) | (copy == 0))
{found}\
    tl.store(out + here, found, mask=here < n)
    if tl.program_id(0) == 0:
        low = tl.full((PARTS,), MOST, tl.int64)
        high = -low - 1
        for first in range(0, n_parts, PARTS):
            part = first + tl.arange(0, PARTS)
            low = tl.minimum(low, tl.load(parts + part, mask=part < n_parts, other=MOST))
            part += n_parts
            is_part = part < 2 * n_parts
            high = tl.maximum(high, tl.load(parts + part, mask=is_part, other=-MOST - 1))
        tl.store(ends, tl.min(low, 0))
        tl.store(ends + 1, tl.max(high, 0))
"""
_LIMB = "    {name} = tl.sum(tl.load(sums + ({k} * n_places + place), mask=there, other=0), 0)\n"


class Limbs(NamedTuple):
    """How weights of a dtype are written as integers."""

    first: int
    """The power, as float64 has it, of what the lowest bit stands for."""
    n_limbs: int

    @property
    def n_rows(self) -> int:
        """With those that count infinities, of either sign; NaN is both."""
        return self.n_limbs + 2 * (self.n_limbs > 1)

    @property
    def is_exact(self) -> bool:
        """Whether weights are small integers, which are added up as they are."""
        return self.n_limbs == 1


@lru_cache
def _limbs_of(dtype: Any) -> Limbs | None:
    """Limbs that hold any number of a dtype; the highest has what sums are more than that."""
    if dtype.is_complex:
        return None
    if dtype == torch.float64:
        return Limbs(0, 66)
    if dtype.is_floating_point:
        return Limbs(873, 11)
    return Limbs(1022, 5) if dtype in (torch.int64, torch.uint64) else Limbs(0, 1)


def limbs_for(weights: Any, n: int) -> Limbs | None:
    """The limbs that n sums of a line of weights are made in; None where there are few weights or
    too many sums for that."""
    limbs = _limbs_of(weights.dtype)
    if limbs is None or len(weights) < LEAST_COUNTED_ELEMENTS:
        return None
    fits = limbs.n_rows * n_places_of(n) <= SUM_PLACES + SUM_PLACES_OF_VALUE * len(weights)
    return limbs if fits else None


def n_places_of(n: int) -> int:
    """Places of n sums, with copies of some."""
    return (_copies_of(n) - 1) * min(n, LOW_COUNTS) + n


def most_sum_bytes(n: int, n_values: int) -> int:
    """Of the limbs of n sums of so many values, whatever their dtype."""
    if n_values < LEAST_COUNTED_ELEMENTS:
        return 0
    most = SUM_PLACES + SUM_PLACES_OF_VALUE * n_values
    return 8 * min(Limbs(0, 66).n_rows * n_places_of(n), most)


@lru_cache
def _finish_source(limbs: Limbs) -> str:
    """The kernel that adds up copies, and digits from the highest to the lowest: what is left of
    one is carried on, so that none of the others takes anything away from what has been rounded."""
    if limbs.is_exact:
        found = _LIMB.format(name="found", k=0) + "    found = found.to(out.dtype.element_ty)\n"
        return triton_module(_FINISH.replace("{found}", found))
    lines = [_LIMB.format(name="limb", k=limbs.n_limbs - 1), "    digit = limb\n"]
    lines += ["    found = tl.zeros((WIDTH,), tl.float64)\n"]
    for k in range(limbs.n_limbs - 1, -1, -1):
        if k:
            lines += [_LIMB.format(name="next_limb", k=k - 1)]
            lines += ["    digit += next_limb >> 32\n"]
        lines += [f"    found += digit.to(tl.float64) * {_power_of(32 * k + limbs.first - 1074)}\n"]
        lines += ["    digit = next_limb & 0xFFFFFFFF\n"] * bool(k)
    for name, k in (("plus", limbs.n_limbs), ("minus", limbs.n_limbs + 1)):
        lines += [_LIMB.format(name=name, k=k)]
    infinity = _float64(2047 << 52)
    lines += [f"    found = tl.where(plus > 0, {infinity}, found)\n"]
    lines += [f"    found = tl.where(minus > 0, tl.where(plus > 0, {infinity} * 0, -{infinity}), "]
    return triton_module(_FINISH.replace("{found}", "".join([*lines, "found)\n"])))


def _power_of(power: int) -> str:
    """Two to a power, as float64, subnormal ones too."""
    return _float64((power + 1023) << 52 if power >= -1022 else 1 << (power + 1074))


def _float64(bits: int) -> str:
    return f"tl.full((WIDTH,), {bits}, tl.int64).to(tl.float64, bitcast=True)"


def _steps_of(n_values: int) -> tuple[int, int]:
    """(programs, blocks of each)."""
    n_steps = -(-n_values // (COUNT_BLOCK_ELEMENTS * COUNT_PROGRAMS))
    return -(-n_values // (COUNT_BLOCK_ELEMENTS * n_steps)), n_steps


def _low_of(n: int) -> dict[str, int]:
    """How many integers are counted in registers, and whether there are others."""
    low = min(max(1 << (n - 1).bit_length(), 32), LOW_COUNTS)
    return {"LOW": low, "HAS_MORE": int(n > low)}


def _values_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_values, n = shape
    n_programs, n_steps = _steps_of(n_values)
    constants = {**_low_of(n), "COPIES": len(tiles[1]), "MOST": MOST, "BLOCK": COUNT_BLOCK_ELEMENTS}
    return Launch(triton_module(_VALUES), n_programs, (*shape, n_steps), **constants)


def _bins_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_programs, n_steps = _steps_of(shape[0])
    n_halves = max((shape[1] - 1).bit_length(), 1)
    constants = {**_low_of(shape[1]), "COPIES": len(tiles[2]), "HALF": 1 << (n_halves - 1)}
    constants |= {"HALVES": n_halves, "BLOCK": COUNT_BLOCK_ELEMENTS}
    return Launch(triton_module(_BINS), n_programs, (*shape, n_steps), **constants)


def _weights_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_values, n, n_low, n_places = shape
    n_programs, n_steps = _steps_of(n_values)
    limbs = _limbs_of(tiles[1].dtype)
    assert limbs is not None
    constants = {"FIRST": limbs.first, "LIMBS": limbs.n_limbs, "COPIES": _copies_of(n)}
    constants |= {"MOST": MOST, "BLOCK": COUNT_BLOCK_ELEMENTS}
    numbers = (n_values, n, n_low, n_places, n_steps)
    return Launch(triton_module(_WEIGHTS), n_programs, numbers, **constants)


def _finish_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n, n_low, n_places, n_parts, copies, *limbs = shape
    width = FINISH_ELEMENTS // copies
    constants = {"COPIES": copies, "WIDTH": width, "PARTS": 1024, "MOST": MOST}
    n_programs = max(-(-n // width), 1)
    source = _finish_source(Limbs(*limbs))
    return Launch(source, n_programs, (n, n_low, n_places, n_parts), **constants)


_count, _bin, _weigh = Launches(_values_launch), Launches(_bins_launch), Launches(_weights_launch)
_finish = Launches(_finish_launch)


def count_values(x: Any, n: int) -> tuple[Any, Any] | None:
    """How often each of 0 .. n - 1 occurs in a line of int64, and its smallest and largest value.

    None, and nothing done, without Triton, until the kernels are compiled, and for few values.
    """
    if x.dtype != torch.int64 or not _can_read(x):
        return None
    counts = _zeros(x, n)
    parts = torch.empty((2, _steps_of(len(x))[0]), dtype=torch.int64, device=x.device)
    launch = _count.get((len(x), n), tiles := (x, counts, parts))
    return _finished(launch, tiles, n, n, len(counts), Limbs(0, 1))


def weigh_values(x: Any, weights: Any, n: int, limbs: Limbs) -> tuple[Any, Any] | None:
    """The sum of the weights, as float64, of each of 0 .. n - 1 in a line of int64, and its ends.

    Sums of limbs are exact but for one rounding in the end, or of integers of more than 32 bits,
    which are float64 first. None, and nothing done, as above.
    """
    if x.dtype != torch.int64 or not (_can_read(x) and _can_read(weights)):
        return None
    copies, n_low, n_places = _copies_of(n), min(n, LOW_COUNTS), n_places_of(n)
    sums = torch.zeros((limbs.n_rows, n_places), dtype=torch.int64, device=x.device)
    parts = torch.empty((2, _steps_of(len(x))[0]), dtype=torch.int64, device=x.device)
    launch = _weigh.get((len(x), n, n_low, n_places), tiles := (x, weights, sums, parts))
    return _finished(launch, tiles, n, n_low, copies, limbs)


def weigh_eagerly(x: Any, weights: Any, n: int, limbs: Limbs) -> Any:
    """The same sums, of the same bits, by torch."""
    place = torch.where((x >= 0) & (x < n), x, n)
    if limbs.is_exact:
        sums = torch.zeros(n + 1, dtype=torch.int64, device=x.device)
        return sums.index_add_(0, place, weights.to(torch.int64))[:n].to(torch.float64)
    sums = torch.zeros((limbs.n_rows, n + 1), dtype=torch.int64, device=x.device)
    line = sums.view(-1)
    bits = weights.to(torch.float64).view(torch.int64)
    digits, power = bits & ((1 << 52) - 1), (bits >> 52) & 2047
    is_beyond = power == 2047
    for row, is_one in enumerate((bits > 0, bits < 0), limbs.n_limbs):
        is_counted = is_beyond & (is_one | (digits != 0))
        line.index_add_(0, place + row * (n + 1), is_counted.to(torch.int64))
    digits = torch.where(power > 0, digits | (1 << 52), digits).masked_fill_(is_beyond, 0)
    power = (power - limbs.first).clamp_(1).sub_(1).masked_fill_(is_beyond, 0)
    shift, place = power & 31, place + (power >> 5) * (n + 1)
    low_part = (digits & MOST_DIGIT) << shift
    high_part = (low_part >> 32) + ((digits >> 32) << shift)
    for row, part in enumerate((low_part & MOST_DIGIT, high_part & MOST_DIGIT, high_part >> 32)):
        line.index_add_(0, place + row * (n + 1), torch.where(bits < 0, -part, part))
    limb, (plus, minus) = sums[: limbs.n_limbs, :n], sums[limbs.n_limbs :, :n]
    digit = torch.cat((limb[:-1] & MOST_DIGIT, limb[-1:]))
    digit[1:] += limb[:-1] >> 32
    found = torch.zeros_like(plus, dtype=torch.float64)
    for k, wide in reversed([*enumerate(digit.to(torch.float64))]):
        found += wide * ldexp(1.0, 32 * k + limbs.first - 1074)
    found = torch.where(plus > 0, torch.inf, found)
    return torch.where(minus > 0, torch.where(plus > 0, torch.nan, -torch.inf), found)


def _finished(
    launch: Launch, tiles: Any, n: int, n_low: int, copies: int, limbs: Limbs
) -> tuple[Any, Any] | None:
    """What a launch has counted, in its last two tiles, added up."""
    *_, sums, parts = tiles
    dtype = torch.int64 if len(tiles) == 3 else torch.float64
    out = torch.empty(n, dtype=dtype, device=sums.device)
    ends = torch.empty(2, dtype=torch.int64, device=sums.device)
    last = (sums, parts, out, ends)
    n_places = sums.numel() // limbs.n_rows
    finish = _finish.get((n, n_low, n_places, parts.shape[1], copies, *limbs), last)
    are_ready = [can_start(launch, tiles), can_start(finish, last)]  # both are asked for
    if not all(are_ready):
        return None
    launch(tiles)
    finish(last)
    return out, ends


def count_bins(x: Any, edges: Any) -> Any:
    """How many values of a line are in each bin between edges of float64, the last of which has its
    right edge too. None, and nothing done, as above.

    Bins are mostly of one width: a value's is then computed, and looked for only beside it.
    """
    if x.is_complex() or not (_can_read(x) and edges.is_contiguous()):
        return None
    n = len(edges) - 1
    counts = _zeros(x, n)
    tiles = (x, edges, counts)
    launch = _bin.get((x.numel(), n), tiles)
    if not can_start(launch, tiles):
        return None
    launch(tiles)
    return counts.sum(0) if len(counts) > 1 else counts[0]


def _zeros(x: Any, n: int) -> Any:
    """What values are counted in: copies of it, by programs, where there are few counts of many
    values, which would be added to all the time."""
    n_copies = SPREAD_COUNTS // max(n, 1) if len(x) >= SPREAD_COUNTS else 1
    n_copies = min(1 << max(n_copies.bit_length() - 1, 0), MOST_COPIES)
    return torch.zeros((n_copies, n), dtype=torch.int64, device=x.device)


def _copies_of(n: int) -> int:
    """Copies of the limbs of low integers; of many integers few are those."""
    return SUM_COPIES if n <= SPREAD_COUNTS else 1


def _can_read(x: Any) -> bool:
    fits = x.is_cuda and x.is_contiguous() and x.numel() >= LEAST_COUNTED_ELEMENTS
    return bool(fits and has_triton())
