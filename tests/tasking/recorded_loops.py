"""Groups as loops of a user's program leave them, turn by turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input
from infinitensor.tasking.triton.triton_source import Group

if TYPE_CHECKING:
    from random import Random

WORDS = ("add", "subtract", "multiply", "maximum", "minimum")


def recorded_loop(
    rng: Random, dtype: np.dtype[Any], n_turns: int, changing: bool = False, words: Any = None
) -> tuple[Group, list[Any]]:
    """A loop over some variables, with what is done before and behind it, and its operands.

    A step reads variables of this or earlier turns, arrays, what was made before the loop, and
    numbers; `changing`: these are others in each turn. Some steps in the middle may be stored.
    """
    parts: list[GroupStep] = []
    inputs = [Input(dtype, False, False)] * rng.randint(1, 3)
    given: list[Any] = [None] * len(inputs)
    outs: list[int] = []

    def number(value: float) -> tuple[str, int]:
        inputs.append(Input(dtype, True, False))
        given.append(dtype.type(value))
        return "in", len(inputs) - 1

    def step(word: str, *sources: tuple[str, int]) -> tuple[str, int]:
        tree = Term(word, tuple(Arg(k) for k in range(len(sources))))
        parts.append(GroupStep(tree, (dtype,) * len(sources), sources, dtype, -1))
        return "step", len(parts) - 1

    def store(k: int) -> None:
        if k not in outs:
            outs.append(k)

    arrays = [("in", k) for k in range(len(inputs))]
    before = [step("add", rng.choice(arrays), rng.choice(arrays)) for _ in range(rng.randint(0, 3))]
    states: list[list[tuple[str, int]]] = [
        [rng.choice([*arrays, *before])] for _ in range(rng.randint(1, 3))
    ]
    body: list[tuple[Any, ...]] = []
    for _ in range(rng.randint(len(states), 6)):
        kinds = ("state", "state", "state", "older", "made", "array", "number", "before")
        body.append(
            (rng.choice(words or WORDS), *((rng.choice(kinds), rng.random()) for _ in range(2)))
        )
    target = [rng.randrange(len(body)) for _ in states]
    in_the_middle = rng.choice((-1, -1, rng.randrange(n_turns)))
    for turn in range(n_turns):
        made: list[tuple[str, int]] = []

        def chosen(kind: str, at: float, turn: int = turn, made: Any = made) -> tuple[str, int]:
            if kind == "number":
                return number(1 + int(3 * at) + (turn % 5 if changing else 0))
            of: list[tuple[str, int]] = {
                "state": [state[-1] for state in states],
                "older": [state[max(len(state) - 3, 0)] for state in states],
                "made": made,
                "array": arrays,
                "before": before,
            }[kind] or arrays
            return of[int(at * len(of))]

        for word, *read in body:
            made.append(step(word, *(chosen(*one) for one in read)))
        for state, k in zip(states, target, strict=True):
            state.append(made[k])
        if turn == in_the_middle:
            store(made[-1][1])
    last = [state[-1] for state in states]
    behind = step(
        rng.choice(words or WORDS), rng.choice(last), rng.choice([*last, *before, *arrays])
    )
    store(behind[1])
    if rng.random() < 0.5:
        store(rng.choice(last)[1])
    stored = {k: at for at, k in enumerate(outs)}
    every = tuple(
        GroupStep(p.tree, p.loop, p.sources, p.dtype, stored.get(k, -1))
        for k, p in enumerate(parts)
    )
    return Group(every, tuple(inputs), len(outs)), given


def computed(group: Group, given: list[Any], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What its steps make, by NumPy, one after another."""
    inputs = iter(arrays)
    values = [x if x is not None else next(inputs) for x in given]
    made: list[np.ndarray] = []
    with np.errstate(all="ignore"):
        for part in group.parts:
            read = [values[at] if where == "in" else made[at] for where, at in part.sources]
            made.append(getattr(np, part.tree.word)(*read).astype(part.dtype))
    stored = {part.stored: k for k, part in enumerate(group.parts) if part.stored >= 0}
    return [made[stored[j]] for j in range(group.n_outs)]
