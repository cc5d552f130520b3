"""Random programs on arrays beyond the small path: views, writes and calls of every kind.

NumPy runs each line as it is made: a line that it refuses, or whose values leave what is exact, is
not taken. What a line may be is in `creating.py`, `writing.py` and `calling.py`.
"""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .program import Line, Program, helpers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
LEAST = 65_537
"""Elements of a large array at least: more than are computed at once."""
MOST = 2_000_000
LARGEST = 1e6
"""Values beyond which lines are not taken: sums stay exact, and casts to integers defined."""
MOST_LIVE = 9


class NotTakenError(Exception):
    """There is no such line here."""


class Generator:
    """A program that grows, and NumPy's values of its names."""

    def __init__(self, seed: int, most: int = MOST, scalars: bool = False) -> None:
        self.random = random.Random(seed)
        self.most = most
        self.scalars = scalars
        """Whether what NumPy gives as a scalar is changed in place, and so bound to a new value."""
        self.names: dict[str, Any] = {}
        self.lines: list[Line] = []
        self.loose_roots: set[int] = set()
        self.loose: set[str] = set()
        self.n_made = 0
        self.used: list[str] = []
        self.space = {**helpers, "xp": np}
        self.main = self.shape(LEAST, most)
        self.dtype = self.random.choice(["f8", "f4", "f8", "i8", "i4"])

    # -- choices

    def pick(self, options: Sequence[T]) -> T:
        """One of some."""
        if not options:
            raise NotTakenError
        return self.random.choice(options)

    def one_in(self, n: int) -> bool:
        """True once in n times."""
        return self.random.randrange(n) == 0

    def seed(self) -> int:
        """A seed for values of the program."""
        return self.random.randrange(1000)

    def shape(self, least: int, most: int) -> tuple[int, ...]:
        """A shape of so many elements: odd, at the borders of tiles, with axes of length one."""
        if self.one_in(4):
            n = self.pick([1 << 17, 1 << 18, 1 << 19, 3 << 16, 100_000, 1 << 16])
            n += self.pick([-1, 0, 1, 7])
        else:
            n = int(least * (most / least) ** (self.random.random() ** 2))
        n = min(max(n, least), most)
        ndim = self.pick([1, 2, 2, 2, 3, 3, 4])
        sizes: list[int] = []
        left = n
        for _ in range(ndim - 1):
            top = min(left, 3000)
            sizes.append(int(top ** self.random.random()) or 1)
            left = max(left // sizes[-1], 1)
        sizes.append(left)
        while np.prod(sizes) < least:
            sizes[-1] += 1
        self.random.shuffle(sizes)
        if self.one_in(3):
            sizes.insert(self.random.randrange(len(sizes) + 1), 1)
        return tuple(sizes)

    def new_name(self) -> str:
        """A name that nothing has."""
        self.n_made += 1
        return f"x{self.n_made}"

    def is_loose(self, name: str) -> bool:
        """Whether values are known only to rounding."""
        return name in self.loose or root(self.names[name]) in self.loose_roots

    def some(
        self, wanted: Callable[[Any], bool] = lambda _: True, *, exact: bool = False
    ) -> tuple[str, Any]:
        """A name, and NumPy's value of it; late and large ones more often."""
        found = [
            name
            for name, value in self.names.items()
            if value.ndim and wanted(value) and not (exact and self.is_loose(name))
        ]
        large = [name for name in found if self.names[name].size >= LEAST // 8]
        if large and not self.one_in(6):
            found = large
        if not found:
            raise NotTakenError
        at = max(self.random.randrange(len(found)), self.random.randrange(len(found)))
        self.used.append(found[at])
        return found[at], self.names[found[at]]

    # -- lines

    def run(self, text: str) -> None:
        """Let NumPy run a line; what it refuses is not taken."""
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("error")
                exec(text, self.space)
        except Exception as error:
            raise NotTakenError(str(error)) from error

    def add(self, expression: str, *, rounds: bool = False) -> None:
        """A line that binds a new name; `rounds`: to values that are known only to rounding."""
        name = self.new_name()
        self.run(f"{name} = {expression}")
        value = self.space.pop(name)
        if not isinstance(value, np.ndarray | np.generic) or value.size > 2 * self.most:
            raise NotTakenError
        check_values(value)
        text = f"{name} = {expression}"
        if not value.flags.c_contiguous and root(value) not in map(root, self.names.values()):
            text = f"{name} = ({expression}).copy()"  # ours are in C order
            value = value.copy()
        is_loose = rounds or any(map(self.is_loose, self.used))
        if is_loose and value.dtype.kind not in "fc":
            raise NotTakenError
        self.space[name] = self.names[name] = value
        if is_loose:
            self.loose_roots.add(root(value))
            self.loose.add(name)
        self.lines.append(Line(text, name))

    def change(self, name: str, text: str, *, rounds: bool = False) -> None:
        """A line that writes to a name."""
        value = self.names[name]
        if not value.flags.writeable:
            raise NotTakenError
        before = value.copy()
        is_loose = rounds or any(map(self.is_loose, self.used))
        try:
            if is_loose and value.dtype.kind not in "fc":
                raise NotTakenError
            self.run(text)
            if self.space[name] is not value:  # Python bound the name anew
                raise NotTakenError
            check_values(value)
        except NotTakenError:
            value[...] = before
            self.space[name] = value
            raise
        if is_loose:
            self.loose_roots.add(root(value))
        self.lines.append(Line(text))

    def say(self, text: str) -> None:
        """A line that changes nothing."""
        self.lines.append(Line(text))

    def drop(self) -> None:
        """Forget a name; its views live on."""
        if len(self.names) < 3:
            raise NotTakenError
        name = self.pick(list(self.names))
        self.note_loose()
        del self.names[name], self.space[name]
        self.say(f"del {name}")

    def note_loose(self) -> None:
        """Names whose memory has come to hold rounded values."""
        self.loose |= {name for name in self.names if self.is_loose(name)}

    def compare(self) -> None:
        """Compare all live values after the last line."""
        if self.lines:
            last = self.lines[-1]
            self.lines[-1] = Line(last.text, last.makes, compares=True)

    def program(self, kinds: Sequence[tuple[int, Callable[[Generator], None]]]) -> Program:
        """A program of lines of some kinds, each as often as its weight says."""
        n_lines = self.random.randint(6, 18)
        each = self.pick([2, 3, 5, 99])
        weights = [weight for weight, _ in kinds]
        creating = kinds[0][1]
        for _ in range(2):
            self.attempt(creating)
        for _ in range(12 * n_lines):
            if len(self.lines) >= n_lines:
                break
            before = len(self.lines)
            if len(self.names) > MOST_LIVE:
                self.attempt(Generator.drop)
            self.attempt(self.random.choices(kinds, weights)[0][1])
            if len(self.lines) > before and len(self.lines) % each == 0:
                self.compare()
        self.compare()
        self.note_loose()
        return Program(tuple(self.lines), frozenset(self.loose), self.pick([1, 1, 2, 3]))

    def attempt(self, kind: Callable[[Generator], None]) -> None:
        """Add a line of a kind, if there is one."""
        self.used.clear()
        try:
            kind(self)
        except NotTakenError:
            return


def root(value: Any) -> int:
    """Whose memory a value is in."""
    while isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
        value = value.base
    return id(value)


def check_values(value: Any) -> None:
    """Not taken where numbers are large or infinite; short integers wrap, as they are to."""
    kind, width = value.dtype.kind, value.dtype.itemsize
    if kind not in "iufcb" or width > 16:
        raise NotTakenError
    if kind == "b" or (kind in "iu" and width < 4) or not value.size:
        return
    sizes = np.abs(value) if kind == "c" else value
    low, high = np.fmin.reduce(sizes, axis=None), np.fmax.reduce(sizes, axis=None)
    if float(high) > LARGEST or float(low) < -LARGEST:
        raise NotTakenError
