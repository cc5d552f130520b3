"""The scalar vocabulary: elementwise ops are expressions over it, written once.

`trace` turns `lambda e, x, y: e.sqrt(x * x + y * y)` into a tree of terms. The eager NumPy form and
the eager torch form of a tree are made here; generated code reads the same tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Operand: TypeAlias = "Term | Arg | complex"


class _Arithmetic:
    """Operators on terms and arguments, so that expressions read as formulas."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Term:
        return Term("add", (self, other))  # type: ignore[arg-type]

    def __sub__(self, other: Operand) -> Term:
        return Term("subtract", (self, other))  # type: ignore[arg-type]

    def __rsub__(self, other: Operand) -> Term:
        return Term("subtract", (other, self))  # type: ignore[arg-type]

    def __mul__(self, other: Operand) -> Term:
        return Term("multiply", (self, other))  # type: ignore[arg-type]

    def __truediv__(self, other: Operand) -> Term:
        return Term("divide", (self, other))  # type: ignore[arg-type]

    def __neg__(self) -> Term:
        return Term("negative", (self,))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Arg(_Arithmetic):
    """The i-th operand."""

    index: int


@dataclass(frozen=True, slots=True)
class Term(_Arithmetic):
    """A vocabulary word applied to operands."""

    word: str
    args: tuple[Operand, ...]

    def words(self) -> frozenset[str]:
        """Every word in it.

        >>> sorted(trace(lambda e, x, y: e.sqrt(x * x + y * y), 2).words())
        ['add', 'multiply', 'sqrt']
        """
        inner = [arg.words() for arg in self.args if isinstance(arg, Term)]
        return frozenset((self.word,)).union(*inner)


class Vocabulary:
    """`e.hypot(x, y)` makes `Term("hypot", (x, y))`."""

    def __getattr__(self, word: str) -> Callable[..., Term]:
        return lambda *args: Term(word, args)


def trace(expression: Callable[..., Any], n_args: int) -> Term:
    """The expression's tree."""
    tree = expression(Vocabulary(), *(Arg(i) for i in range(n_args)))
    assert isinstance(tree, Term)
    return tree


def n_inner(tree: Operand) -> int:
    """Temporaries an eager evaluation of the tree makes: its inner terms."""
    if not isinstance(tree, Term):
        return 0
    return sum(n_inner(arg) + isinstance(arg, Term) for arg in tree.args)


def evaluate(
    tree: Operand, words: dict[str, Callable[..., Any]], args: tuple[Any, ...], out: Any
) -> Any:
    """Compute the tree eagerly with the functions of `words`; the root writes into `out`."""
    if isinstance(tree, Arg):
        return args[tree.index]
    if not isinstance(tree, Term):
        return tree
    operands = [evaluate(arg, words, args, None) for arg in tree.args]
    if out is None:
        return words[tree.word](*operands)
    return words[tree.word](*operands, out=out)
