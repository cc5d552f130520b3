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
COUNT_BLOCK_ELEMENTS = 1024
"""With twice as many, 128 bins take 1.15 times as long."""
COUNT_PROGRAMS = 2048
"""Several for each multiprocessor; each adds up its counts once."""
SPREAD_COUNTS = 1 << 15
MOST_SPREAD_COUNTS = 1 << 18
VALUES_OF_COUNT = 8
"""Places in memory over which additions of many values are spread: one for so many values, between
these limits. Additions to one line of memory take turns: 2.2 million values below 624 took 68 us in
8 copies of 4,096 counts."""
MOST_COPIES = 64
LOW_COUNTS = 256
"""Integers below it are counted in registers; of 1000, memory takes 0.75 of the time."""
LOW_SUMS = 1024
"""Integers below it, of which there are often many, have several copies of their sums: programs
that add to the same line of memory take turns, about 15 ns each. (Values that are all 300: with 256
here 0.77 ms for a million, with 1024 0.08.)"""
SUM_PLACES = 1 << 21
"""Limbs that copies may have, and sums of a line of any length."""
SUM_PLACES_OF_VALUE = 16
"""More limbs that sums may have for each value."""
VALUES_OF_COPY = 1 << 12
"""For fewer a copy takes longer than it saves."""
FINISH_ELEMENTS = 128
"""That a program adds up."""
FOLD_ELEMENTS = 512
FINISH_LOADS = 4096
"""Counts of all copies that a program of it loads at a time."""
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
    HALVES: tl.constexpr, EDGES: tl.constexpr, SLACK: tl.constexpr, BLOCK: tl.constexpr,
):
{_BEGIN}\
    begin, end = tl.load(edges), tl.load(edges + n)
    bins_of_one = n / (end - begin)
    slack = tl.zeros((EDGES,), tl.float64)
    for lowest in range(0, n, EDGES):
        k = lowest + tl.arange(0, EDGES)
        edge = tl.load(edges + k, mask=k < n, other=0)
        away = tl.abs((edge - begin) * bins_of_one - k.to(tl.float64))
        slack = tl.maximum(slack, tl.where((k >= n) | (away < 1), tl.where(k < n, away, 0), 1))
    slack = 2 * tl.max(slack, 0) + n * SLACK
    for step in range(n_steps):
        at = first + step * BLOCK
        inside = at < n_values
        number = tl.load(x + at, mask=inside, other=0).to(tl.float64)
        is_within = inside & (number >= begin) & (number <= end)
        scaled = (tl.where(is_within, number, begin) - begin) * bins_of_one
        value = tl.minimum(tl.maximum(scaled.to(tl.int32), 0), n - 1)
        beyond = scaled - value.to(tl.float64)
        is_clear = (beyond > slack) & (beyond < 1 - slack)
        is_near = is_within & (is_clear == 0)
        is_less = is_near & (number < tl.load(edges + value, mask=is_near, other=0))
        next_edge = tl.load(edges + value + 1, mask=is_near, other=0)
        is_more = is_near & (value < n - 1) & (number >= next_edge)
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
    FIRST: tl.constexpr, LIMBS: tl.constexpr, BITS: tl.constexpr, COPIES: tl.constexpr,
    MOST: tl.constexpr, BLOCK: tl.constexpr,
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
            sign = tl.where(bits < 0, -1, 1).to(tl.int64)
            if BITS == 8:
                at_limb = (power >> 3) * n_places + place
                part = (digits >> 29) << (power & 7)
                is_counted = is_counted & (part != 0)
                tl.atomic_add(sums + at_limb, part * sign, mask=is_counted, sem="relaxed")
            else:
                at_limb = (power >> 5) * n_places + place
                shift = power & 31
                low_part = (digits & 0xFFFFFFFF) << shift
                high_part = (low_part >> 32) + ((digits >> 32) << shift)
                part = low_part & 0xFFFFFFFF
                is_part = is_counted & (part != 0)
                tl.atomic_add(sums + at_limb, part * sign, mask=is_part, sem="relaxed")
                at_limb += n_places
                part = high_part & 0xFFFFFFFF
                is_part = is_counted & (part != 0)
                tl.atomic_add(sums + at_limb, part * sign, mask=is_part, sem="relaxed")
                at_limb += n_places
                part = high_part >> 32
                is_part = is_counted & (part != 0)
                tl.atomic_add(sums + at_limb, part * sign, mask=is_part, sem="relaxed")
            one = tl.full((BLOCK,), 1, tl.int64)
            beyond = sums + LIMBS * n_places + place
            tl.atomic_add(beyond, one, mask=is_plus, sem="relaxed")
            tl.atomic_add(beyond + n_places, one, mask=is_minus, sem="relaxed")
{_STORE_ENDS}"""
_FOLD = """\
@triton.jit
def folded(sums, n_rows, n_low, n_places, COPIES: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n_rows * n_low
    place = at // n_low * n_places + at % n_low
    total = tl.zeros((BLOCK,), tl.int64)
    for copy in range(COPIES):
        total += tl.load(sums + (place + copy * n_low), mask=inside, other=0)
    tl.store(sums + place, total, mask=inside)
"""
_FINISH = """\
@triton.jit
def finished(
    sums, parts, out, ends, n, n_low, n_places, n_parts,
    COPIES: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, MOST: tl.constexpr,
):
    here = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    there = here < n
    place = tl.where(here < n_low, here, (COPIES - 1) * n_low + here)
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
_ALL_COPIES = """\
    copy = tl.arange(0, COPIES)[:, None]
    is_copy = there[None, :] & ((here < n_low)[None, :] | (copy == 0))
    found = tl.sum(tl.load(sums + (place[None, :] + copy * n_low), mask=is_copy, other=0), 0)
    found = found.to(out.dtype.element_ty)
"""
_LIMB = "    limb{k} = tl.load(sums + ({k} * n_places + place), mask=there, other=0)\n"
_CARRY = "    limb{above} += limb{k} >> {bits}\n    limb{k} &= {most}\n"
_DIGIT = "    found += limb{k}.to(tl.float64) * {power}\n"


class Limbs(NamedTuple):
    """How weights of a dtype are written as integers."""

    first: int
    """The power, as float64 has it, of what comes before the lowest place."""
    n_limbs: int
    bits: int
    """From one limb to the next. Of 8, a weight that float32 can hold is in one limb, else of 32
    in up to three."""

    @property
    def n_rows(self) -> int:
        """With those that count infinities, of either sign; NaN is both."""
        return self.n_limbs + 2 * (self.n_limbs > 1)

    @property
    def lowest(self) -> int:
        """The power of two of the lowest place."""
        return self.first - (1045 if self.bits == 8 else 1074)

    @property
    def is_exact(self) -> bool:
        """Whether weights are small integers, which are added up as they are."""
        return self.n_limbs == 1


INTEGERS = Limbs(0, 1, 0)
MOST_ROWS = 68
"""Of limbs of any dtype."""


@lru_cache
def _limbs_of(dtype: Any) -> Limbs | None:
    """Limbs that hold any number of a dtype; the highest has what sums are more than that."""
    if dtype.is_complex:
        return None
    if dtype == torch.float64:
        return Limbs(0, 66, 32)
    if dtype == torch.float16:
        return Limbs(998, 5, 8)
    if dtype.is_floating_point:
        return Limbs(873, 35, 8)
    return Limbs(1022, 5, 32) if dtype in (torch.int64, torch.uint64) else INTEGERS


def limbs_for(weights: Any, n: int) -> Limbs | None:
    """The limbs that n sums of a line of weights are made in; None where there are few weights or
    too many sums for that."""
    limbs = _limbs_of(weights.dtype)
    if limbs is None or len(weights) < LEAST_COUNTED_ELEMENTS:
        return None
    fits = limbs.n_rows * n <= SUM_PLACES + SUM_PLACES_OF_VALUE * len(weights)
    return limbs if fits else None


def _copies_of(n_rows: int, n: int, n_values: int) -> int:
    """Copies of the limbs of low integers."""
    most = SUM_PLACES // max(n_rows * min(n, LOW_SUMS), 1)
    most = max(min(most, n_values // VALUES_OF_COPY, MOST_COPIES), 1)
    return 1 << (most.bit_length() - 1)


def most_sum_bytes(n: int, n_values: int) -> int:
    """Of the limbs of n sums of so many values, whatever their dtype."""
    if n_values < LEAST_COUNTED_ELEMENTS:
        return 0
    copies = min(MOST_COPIES, n_values // VALUES_OF_COPY) * MOST_ROWS * min(n, LOW_SUMS)
    sums = min(MOST_ROWS * n, SUM_PLACES + SUM_PLACES_OF_VALUE * n_values)
    return 8 * (min(copies, SUM_PLACES) + sums)


@lru_cache
def _finish_source(limbs: Limbs) -> str:
    """The kernel that adds up copies of counts, or makes numbers of limbs: all but the highest are
    positive once what is more than a digit is carried, and are added from the highest down, so that
    nothing is taken away from what has been rounded."""
    if limbs.is_exact:
        return triton_module(_FINISH.replace("{found}", _ALL_COPIES))
    lines = [_LIMB.format(k=k) for k in range(limbs.n_rows)]
    how = {"bits": limbs.bits, "most": (1 << limbs.bits) - 1}
    lines += [_CARRY.format(k=k, above=k + 1, **how) for k in range(limbs.n_limbs - 1)]
    lines += ["    found = tl.zeros((WIDTH,), tl.float64)\n"]
    for k in range(limbs.n_limbs - 1, -1, -1):
        lines += [_DIGIT.format(k=k, power=_power_of(limbs.bits * k + limbs.lowest))]
    plus, minus, infinity = limbs.n_limbs, limbs.n_limbs + 1, _float64(2047 << 52)
    lines += [f"    found = tl.where(limb{plus} > 0, {infinity}, found)\n"]
    lines += [f"    beyond = tl.where(limb{plus} > 0, {infinity} * 0, -{infinity})\n"]
    lines += [f"    found = tl.where(limb{minus} > 0, beyond, found)\n"]
    return triton_module(_FINISH.replace("{found}", "".join(lines)))


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
    constants |= {"HALVES": n_halves, "EDGES": 256, "BLOCK": COUNT_BLOCK_ELEMENTS}
    source, numbers = triton_module(_BINS), (*shape, n_steps)
    return Launch(source, n_programs, numbers, SLACK=2.0**-48, **constants)


def _weights_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_values, n, n_low, n_places, copies = shape
    n_programs, n_steps = _steps_of(n_values)
    limbs = _limbs_of(tiles[1].dtype)
    assert limbs is not None
    constants = {"FIRST": limbs.first, "LIMBS": limbs.n_limbs, "BITS": limbs.bits}
    constants |= {"COPIES": copies, "MOST": MOST, "BLOCK": COUNT_BLOCK_ELEMENTS}
    numbers = (n_values, n, n_low, n_places, n_steps)
    return Launch(triton_module(_WEIGHTS), n_programs, numbers, **constants)


def _fold_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n_rows, n_low, n_places, copies = shape
    n_programs = -(-n_rows * n_low // FOLD_ELEMENTS)
    constants = {"COPIES": copies, "BLOCK": FOLD_ELEMENTS}
    return Launch(triton_module(_FOLD), n_programs, (n_rows, n_low, n_places), **constants)


def _finish_launch(shape: tuple[int, ...], tiles: Any) -> Launch:
    n, n_low, n_places, n_parts, copies, *limbs = shape
    width = min(FINISH_ELEMENTS, FINISH_LOADS // copies)
    constants = {"COPIES": copies, "WIDTH": width, "PARTS": 1024, "MOST": MOST}
    n_programs = max(-(-n // width), 1)
    source = _finish_source(Limbs(*limbs))
    return Launch(source, n_programs, (n, n_low, n_places, n_parts), **constants)


_count, _bin, _weigh = Launches(_values_launch), Launches(_bins_launch), Launches(_weights_launch)
_fold, _finish = Launches(_fold_launch), Launches(_finish_launch)


def count_values(x: Any, n: int) -> tuple[Any, Any] | None:
    """How often each of 0 .. n - 1 occurs in a line of int64, and its smallest and largest value.

    None, and nothing done, without Triton, until the kernels are compiled, and for few values.
    """
    if x.dtype != torch.int64 or not _can_read(x):
        return None
    counts = _zeros(x, n)
    parts = torch.empty((2, _steps_of(len(x))[0]), dtype=torch.int64, device=x.device)
    launch = _count.get((len(x), n), tiles := (x, counts, parts))
    return _finished(launch, tiles, n, n, len(counts), INTEGERS)


def weigh_values(x: Any, weights: Any, n: int, limbs: Limbs) -> tuple[Any, Any] | None:
    """The sum of the weights, as float64, of each of 0 .. n - 1 in a line of int64, and its ends.

    Sums of limbs are exact but for one rounding in the end, or of integers of more than 32 bits,
    which are float64 first. None, and nothing done, as above.
    """
    if x.dtype != torch.int64 or not (_can_read(x) and _can_read(weights)):
        return None
    n_low, copies = min(n, LOW_SUMS), _copies_of(limbs.n_rows, n, len(x))
    n_places = (copies - 1) * n_low + n
    sums = torch.zeros((limbs.n_rows, n_places), dtype=torch.int64, device=x.device)
    parts = torch.empty((2, _steps_of(len(x))[0]), dtype=torch.int64, device=x.device)
    launch = _weigh.get((len(x), n, n_low, n_places, copies), tiles := (x, weights, sums, parts))
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
    place = place + torch.div(power, limbs.bits, rounding_mode="floor") * (n + 1)
    if limbs.bits == 8:
        parts = [(digits >> 29) << (power & 7)]
    else:
        low_part = (digits & MOST_DIGIT) << (power & 31)
        high_part = (low_part >> 32) + ((digits >> 32) << (power & 31))
        parts = [low_part & MOST_DIGIT, high_part & MOST_DIGIT, high_part >> 32]
    for row, part in enumerate(parts):
        line.index_add_(0, place + row * (n + 1), torch.where(bits < 0, -part, part))
    limb, (plus, minus) = sums[: limbs.n_limbs, :n], sums[limbs.n_limbs :, :n]
    for k in range(limbs.n_limbs - 1):
        limb[k + 1] += limb[k] >> limbs.bits
    limb[:-1] &= (1 << limbs.bits) - 1
    found = torch.zeros_like(plus, dtype=torch.float64)
    for k, digit in reversed([*enumerate(limb.to(torch.float64))]):
        found += digit * ldexp(1.0, limbs.bits * k + limbs.lowest)
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
    launches = [(launch, tiles), (finish, last)]
    if copies > 1 and n and not limbs.is_exact:
        launches.insert(1, (_fold.get((limbs.n_rows, n_low, n_places, copies), (sums,)), (sums,)))
    if not all([can_start(*one) for one in launches]):  # all are asked for
        return None
    for start, given in launches:
        start(given)
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
    n_places = min(max(len(x) // VALUES_OF_COUNT, SPREAD_COUNTS), MOST_SPREAD_COUNTS)
    n_copies = n_places // max(n, 1) if len(x) >= SPREAD_COUNTS else 1
    n_copies = min(1 << max(n_copies.bit_length() - 1, 0), MOST_COPIES)
    return torch.zeros((n_copies, n), dtype=torch.int64, device=x.device)


def _can_read(x: Any) -> bool:
    fits = x.is_cuda and x.is_contiguous() and x.numel() >= LEAST_COUNTED_ELEMENTS
    return bool(fits and has_triton())
