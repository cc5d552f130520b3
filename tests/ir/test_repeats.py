"""Repeats in a list of steps: every turn of one reads what the turn before read, a turn later."""

from __future__ import annotations

from random import Random

import pytest

from infinitensor.ir.repeats import LEAST_SAVED, LEAST_TIMES, find_repeats


def turns(n: int, length: int, before: int = 0) -> tuple[list[int], list[list[int]]]:
    """A chain of so many turns behind steps that are all different."""
    kinds = [-1 - k for k in range(before)] + list(range(length)) * n
    return kinds, [[k - 1] if k else [] for k in range(len(kinds))]


def test_turns_are_found_with_what_they_hold() -> None:
    (found,) = find_repeats(*turns(10, 4, before=3))
    assert (found.first, found.length, found.times) == (3, 4, 10)
    assert found.lags == (0, 0, 0, 1)
    assert found.place(found.end - 1) == (3, 1)


def test_few_turns_are_left_as_they_are() -> None:
    assert find_repeats(*turns(LEAST_TIMES - 1, 60)) == []
    assert find_repeats(*turns(LEAST_SAVED, 1)) == []
    assert find_repeats([], []) == []
    assert find_repeats(list(range(200)), [[]] * 200) == []


def test_what_is_seen_in_the_middle_parts_a_repeat() -> None:
    kinds, reads = turns(40, 3, before=1)
    before, after = find_repeats(kinds, reads, seen=[1 + 3 * 20])
    assert before.end <= 1 + 3 * 20 + 3
    assert after.first >= before.end


def test_a_step_before_the_loop_may_be_read_in_every_turn_but_none_of_it() -> None:
    kinds, reads = turns(20, 2, before=2)
    fixed = [[*read, 0] if k > 2 else read for k, read in enumerate(reads)]
    (found,) = find_repeats(kinds, fixed)
    assert found.first in (2, 3)
    early = [[*read, 7] if k > 7 else read for k, read in enumerate(reads)]
    (found,) = find_repeats(kinds, early)
    assert found.first > 7


def test_turns_of_turns_before_are_held() -> None:
    n = 60
    (found,) = find_repeats([0] * n, [[k - 1, k - 3] if k > 2 else [] for k in range(n)])
    assert found.lags == (3,)


@pytest.mark.parametrize("seed", range(200))
def test_every_turn_reads_as_the_one_before_and_nothing_is_lost(seed: int) -> None:
    rng = Random(seed)
    kinds: list[int] = []
    reads: list[list[int]] = []
    for _ in range(rng.randint(1, 3)):
        body = [(rng.randrange(3), [rng.randint(1, 9) for _ in range(2)]) for _ in range(4)]
        for _ in range(rng.randint(1, 30)):
            for kind, back in body:
                reads.append([max(len(kinds) - b, 0) for b in back] if kinds else [0, 0][:0])
                kinds.append(kind)
        kinds.append(9)
        reads.append([rng.randrange(len(kinds) - 1)])
    seen = {rng.randrange(len(kinds)) for _ in range(rng.randint(0, 3))}
    end = 0
    for found in find_repeats(kinds, reads, seen):
        assert found.first >= end
        end = found.end
        for k in range(found.first + found.length, found.end):
            assert kinds[k] == kinds[k - found.length]
            for x, y in zip(reads[k], reads[k - found.length], strict=True):
                assert (x == y < found.first) or x == y + found.length
        outside = {x for k in range(found.end, len(kinds)) for x in reads[k]} | seen
        for k in outside & set(range(found.first, found.end)):
            at, ago = found.place(k)
            assert ago <= found.lags[at]
