"""Waves: the steps of a stencil in an order that finds its tiles in cache.

A loop that renews a large tensor makes a pass over memory at every step. Its tasks need not wait
for the whole step before, only for their neighbours: tile t of a step for the tiles around t of the
one before. So several steps can go over the tensor together, each a tile or two behind the one
before, and find what they read in the processor's cache. What may run is as before a matter of what
a task waits for; waves only say who comes first.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from infinitensor.config import config
from infinitensor.ir.tasks import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infinitensor.ir.tasks import Family, Program

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
CACHE_SHARE = 0.5
"""Of the last cache that waves count on: others use it too."""
MOST_STEPS = 16
"""In one wave: beyond it what the ends of a tensor cost is as good as gone."""


@cache
def last_cache() -> int:
    """Bytes of the last cache of this processor; 0: the system does not say."""
    sizes = [0]
    for size in CACHES.glob("index*/size"):
        found = re.fullmatch(r"(\d+)([KM])", size.read_text().strip())
        if found:
            sizes.append(int(found[1]) << {"K": 10, "M": 20}[found[2]])
    return max(sizes)


class Waves(NamedTuple):
    """An order of all tasks that run, and which of them go in waves."""

    order: np.ndarray
    members: np.ndarray


def find_waves(program: Program, n_workers: int) -> Waves | None:
    """Waves of steps that so many workers find in cache; None: nothing comes of it."""
    n_bytes = last_cache() if config.cache_bytes < 0 else config.cache_bytes
    room = int(CACHE_SHARE * n_bytes)
    found = [_in_waves(program, steps, n_workers, room) for steps in _chains(program)]
    chains = [tasks for tasks in found if tasks is not None]
    if not chains:
        return None
    order = np.arange(program.graph.n_tasks)
    for tasks in chains:
        order[tasks.min() : tasks.max() + 1] = tasks
    members = np.concatenate(chains)
    needed = program.needed
    return Waves(order[needed[order]].astype(np.int64), members[needed[members]])


def _chains(program: Program) -> Iterator[Sequence[Family]]:
    """Families one after another of as many tasks, at least one of which is a step."""
    chain: list[Family] = []
    for family in program.graph.families:
        fits = family.lane == COMPUTE and family.n > 1 and bool(family.writes)
        fits &= bool(program.needed[family.span].any())
        if chain and not (fits and family.n == chain[0].n):
            if _has_steps(chain):
                yield chain
            chain = []
        if fits:
            chain.append(family)
    if _has_steps(chain):
        yield chain


def _has_steps(chain: Sequence[Family]) -> bool:
    return len(chain) > 1 and any(family.renews for family in chain)


def _in_waves(
    program: Program, steps: Sequence[Family], n_workers: int, room: int
) -> np.ndarray | None:
    """The tasks of some steps, the first of whose waves come first; None if it would not pay."""
    n, first = steps[0].n, steps[0].first
    reaches = _reaches(program, first, n, len(steps))
    tile = _bytes_of(program, steps)
    if reaches is None or n * tile <= room:
        return None  # it is in cache anyway
    block = np.zeros(len(steps), np.int64)
    behind = np.zeros(len(steps), np.int64)
    begun = 0
    for k in range(1, len(steps)):
        before = reaches[reaches[:, 1] == k]
        before = before[before[:, 0] >= begun]
        lag = int((behind[before[:, 0]] + before[:, 2]).max(initial=behind[k - 1]))
        if k - begun == MOST_STEPS or (lag + n_workers) * tile > room:
            begun, lag = k, 0
            block[k] = block[k - 1] + 1
        else:
            block[k] = block[k - 1]
        behind[k] = lag
    if block[-1] + 1 == len(steps):
        return None  # each alone
    step, place = np.divmod(np.arange(n * len(steps)), n)
    return first + np.lexsort((step, place + behind[step], block[step]))


def _reaches(program: Program, first: int, n: int, n_steps: int) -> np.ndarray | None:
    """(step, later step, how many tiles further a task of the one reaches that one of the other
    waits for), of all that wait for each other; None if some do within a step."""
    last = first + n * n_steps
    borders = program.borders[first : last + 1]
    targets = program.after[borders[0] : borders[-1]].astype(np.int64)
    sources = np.repeat(np.arange(first, last), np.diff(borders))
    inside = targets < last
    one, at = np.divmod(sources[inside] - first, n)
    other, there = np.divmod(targets[inside] - first, n)
    if (one >= other).any():
        return None
    pairs, which = np.unique(one * n_steps + other, return_inverse=True)
    reach = np.full(len(pairs), -n, np.int64)
    np.maximum.at(reach, which, at - there)
    return np.stack([pairs // n_steps, pairs % n_steps, np.maximum(reach, 0)], axis=1)


def _bytes_of(program: Program, steps: Sequence[Family]) -> int:
    """Bytes that a step touches for a tile of it, at most: a tile of each tensor."""
    most = 0
    for family in steps:
        i = int(program.needed[family.span].argmax())
        touched = [int(writes[i]) for writes in family.writes]
        own = max(int(program.slot_bytes[program.slots[tile]]) for tile in touched)
        touched += [tile for column in family.reads for tile in column.touched_by(i)]
        touched += family.many_of(i)
        sets = {program.graph.set_with(tile).first for tile in touched}
        most = max(most, own * len(sets))
    return most
