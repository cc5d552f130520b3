"""Generators: random numbers with a seed and a stream of their own, beside the session's.

A number depends on the seed, on how many draws came before and on its index in the tensor; never on
tiles, devices or sessions.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.functions.namespace import namespace
from infinitensor.api.session.session import current_session
from infinitensor.ops import TABLE
from infinitensor.ops.table.checks import is_on_host

if TYPE_CHECKING:
    from collections.abc import Callable

MASK = 2**64 - 1


class BitGenerator:
    """Where the keys of random draws come from: a counter, hashed with a seed.

    NumPy's names (`PCG64`, `Philox`, `MT19937` …) all mean this one; it gives other numbers than
    NumPy's.

    >>> import infinitensor as it
    >>> it.random.Generator(it.random.PCG64(7)).random(2).shape
    (2,)
    """

    def __init__(self, seed: Any = None) -> None:
        if isinstance(seed, np.random.BitGenerator):
            seed = int(seed.random_raw())
        given = isinstance(seed, np.random.SeedSequence)
        self.seed_seq = seed if given else np.random.SeedSequence(seed)
        self._key = int(self.seed_seq.generate_state(1, np.uint64)[0])
        self._stream = 0

    def next_seed(self) -> int:
        """The key of the next draw."""
        self._stream += 1
        mixed = (self._key + self._stream * 0xD1B54A32D192ED03) & MASK
        mixed = ((mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93) & MASK
        return (mixed ^ (mixed >> 32)) >> 1

    @property
    def state(self) -> dict[str, Any]:
        """The key and how many draws there were; may be set to go back."""
        return {"bit_generator": "BitGenerator", "key": self._key, "stream": self._stream}

    @state.setter
    def state(self, value: dict[str, Any]) -> None:
        self._key, self._stream = int(value["key"]), int(value["stream"])

    def spawn(self, n_children: int) -> list[BitGenerator]:
        """Others whose numbers have nothing to do with these."""
        return [BitGenerator(child) for child in self.seed_seq.spawn(n_children)]


class _Drawing:
    """The namespace of programs, with the keys of another source."""

    def __init__(self, source: BitGenerator) -> None:
        self._source = source

    def next_seed(self) -> np.int64:
        return np.int64(self._source.next_seed())

    def __getattr__(self, name: str) -> Any:
        return getattr(namespace, name)


class Generator:
    """NumPy's `random.Generator`: distributions as methods, drawn from a stream of its own.

    Made by `random.default_rng(seed)`. Equal seeds and equal calls give equal numbers, whatever the
    tiles and devices; they are not NumPy's numbers.

    >>> import infinitensor as it
    >>> first, second = it.random.default_rng(5), it.random.default_rng(5)
    >>> bool((first.normal(size=3) == second.normal(size=3)).all())
    True
    """

    def __init__(self, bit_generator: Any) -> None:
        made = isinstance(bit_generator, BitGenerator)
        self.bit_generator = bit_generator if made else BitGenerator(bit_generator)

    if TYPE_CHECKING:  # the methods made from the table

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def spawn(self, n_children: int) -> list[Generator]:
        """Generators whose numbers have nothing to do with this one's."""
        return [Generator(child) for child in self.bit_generator.spawn(n_children)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(infinitensor)"


class RandomState(Generator):
    """NumPy's older `random.RandomState`, with the same numbers as a `Generator` here.

    >>> import infinitensor as it
    >>> it.random.RandomState(3).randn(2, 2).shape
    (2, 2)
    """

    def __init__(self, seed: Any = None) -> None:
        if isinstance(seed, int | np.integer) and not 0 <= seed < 2**32:
            raise ValueError("Seed must be between 0 and 2**32 - 1")
        super().__init__(seed)

    def seed(self, seed: Any = None) -> None:
        """Start anew from another seed."""
        self.bit_generator = BitGenerator(seed)

    def get_state(self, legacy: bool = True) -> dict[str, Any]:
        """The state that `set_state` takes to go back to this point."""
        return self.bit_generator.state

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to where a state was taken."""
        self.bit_generator.state = state


def default_rng(seed: Any = None) -> Generator:
    """A `Generator` from a seed: an integer, several, a SeedSequence, or nothing for a fresh one.

    >>> import infinitensor as it
    >>> it.random.default_rng(0).integers(6, size=3).shape
    (3,)
    """
    return seed if isinstance(seed, Generator) else Generator(seed)


def seed(seed: Any = None) -> None:
    """Start the random streams of this session anew: the same calls give the same numbers."""
    session = current_session()
    if not isinstance(seed, int | np.integer):
        seed = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    session.seed = int(seed)
    session.stream = 0


def get_state(legacy: bool = True) -> dict[str, Any]:
    """The session's seed and how many draws there were; `set_state` goes back to them."""
    session = current_session()
    return {"bit_generator": "session", "key": session.seed, "stream": session.stream}


def set_state(state: dict[str, Any]) -> None:
    """Go back to where `get_state` was called."""
    session = current_session()
    session.seed, session.stream = int(state["key"]), int(state["stream"])


# --- methods from the table -------------------------------------------------------------------

OLD = ("rand", "randn", "randint", "random_integers", "random_sample", "ranf", "sample")
"""Functions that only `RandomState` has."""


def _method(name: str) -> Callable[..., Any]:
    """A random program as a method that draws from the generator's stream."""
    op = TABLE[f"random.{name}"]
    signature = inspect.signature(op.rule)
    rule: Callable[..., Any] = op.rule

    def method(self: Generator, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = public.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        with current_session().guard():
            return rule(_Drawing(self.bit_generator), *bound.args[1:], **bound.kwargs)

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    public = signature.replace(parameters=[first, *list(signature.parameters.values())[1:]])
    method.__signature__ = public  # type: ignore[attr-defined]
    method.__name__ = name
    method.__qualname__ = f"Generator.{name}"
    method.__doc__ = op.doc.split("\n\n>>>")[0]
    return method


def _checked_uniform(draw: Callable[..., Any]) -> Callable[..., Any]:
    """`uniform` of a `Generator` refuses an empty range, which the older interface turns round."""

    @wraps(draw)
    def uniform(self: Generator, low: Any = 0.0, high: Any = 1.0, *args: Any, **kwargs: Any) -> Any:
        if is_on_host(low) and is_on_host(high) and np.any(np.less(high, low)):
            raise ValueError("high - low < 0")
        return draw(self, low, high, *args, **kwargs)

    return uniform


def _equip() -> None:
    for op in TABLE:
        if op.startswith("random."):
            name = op.removeprefix("random.")
            setattr(RandomState if name in OLD else Generator, name, _method(name))
    plain: Any = _method("uniform")
    setattr(RandomState, "uniform", plain)  # noqa: B010 - methods are made, mypy knows none
    setattr(Generator, "uniform", _checked_uniform(plain))  # noqa: B010


_equip()

MEMBERS: dict[str, Any] = {
    "random.BitGenerator": BitGenerator,
    "random.Generator": Generator,
    "random.RandomState": RandomState,
    "random.SeedSequence": np.random.SeedSequence,
    **{
        f"random.{name}": BitGenerator
        for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
    },
    "random.default_rng": default_rng,
    "random.get_state": get_state,
    "random.seed": seed,
    "random.set_state": set_state,
}
"""Names of `infinitensor.random` besides the functions of the table."""
