"""All pairs of the levels of some factors in few rows, made greedily and by seed."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def pairwise_rows(factors: Mapping[str, Sequence[Any]], seed: int) -> Iterator[dict[str, Any]]:
    """Rows that name a level of each factor, until every pair of levels has been in one.

    The first rows cover the most pairs, so that a prefix is a good sample.

    >>> rows = list(pairwise_rows({"a": [1, 2, 3], "b": "xy", "c": [True, False]}, 0))
    >>> len(rows), len({(row["a"], row["b"]) for row in rows})
    (6, 6)
    """
    rng = Random(seed)
    names = list(factors)
    levels = [list(factors[name]) for name in names]
    left = {
        (i, a, j, b)
        for i, j in combinations(range(len(names)), 2)
        for a in range(len(levels[i]))
        for b in range(len(levels[j]))
    }
    order = sorted(left)
    rng.shuffle(order)
    if len(names) < 2:
        yield from (
            {name: level} for name, some in zip(names, levels, strict=True) for level in some
        )
        return
    while left:
        while order[-1] not in left:
            order.pop()
        i, a, j, b = order[-1]
        chosen = {i: a, j: b}
        rest = [k for k in range(len(names)) if k not in chosen]
        rng.shuffle(rest)
        for k in rest:
            tries = list(range(len(levels[k])))
            rng.shuffle(tries)
            chosen[k] = max(
                tries, key=lambda c: sum(_pair(k, c, m, d) in left for m, d in chosen.items())
            )
        left.difference_update(
            _pair(k, chosen[k], m, chosen[m]) for k, m in combinations(range(len(names)), 2)
        )
        yield {name: levels[k][chosen[k]] for k, name in enumerate(names)}


def _pair(i: int, a: int, j: int, b: int) -> tuple[int, int, int, int]:
    return (i, a, j, b) if i < j else (j, b, i, a)
