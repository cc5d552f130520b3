"""Loops with float16 for processors that convert it, but compute floats: some elements at a time.

Such conversions are of several elements, and compilers do not find them in a loop over single ones:
there a rounding is a dozen steps of arithmetic. So each line of a loop becomes one over `AT_ONCE`
elements, in arrays that compilers keep in registers, and what is rounded, read or written as
float16 is converted for all of them (`halves.h`). The bits are those of the loop one by one.

What is left of a line is computed in the same way, in arrays of that length: element by element a
row of 15 would take as long as one of 300.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

AT_ONCE = "HALVES_AT_ONCE"
"""How many, in C: as many as there are lanes of sums."""
_CONVERSION = re.compile(r"\b(read|rounded|written)_float16\(")
_DECLARATION = re.compile(r"const (\w+) (\w+) = (.*);")


def converts(lines: Sequence[str]) -> bool:
    """Whether float16 is converted in the lines of a loop."""
    return any(_CONVERSION.search(line) for line in lines)


class _Lanes:
    """The lines of a loop while they are made ones over several elements."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """What has a value for each element, and the array it is in."""
        self.exact: dict[str, str] = {}
        """Arrays of what was rounded, by those of what became of it: to write rounds, too."""
        self.lines: list[str] = []

    def array(self, kind: str, text: str) -> str:
        """A new array of a C type, with the values of an expression."""
        name = f"l{len(self.lines)}"
        self.lines.append(f"{kind} {name}[{AT_ONCE}]; {self.each(f'{name}[w] = {text};')}")
        return name

    def each(self, line: str) -> str:
        """A loop over the elements."""
        known = re.sub(r"\b[a-z]\w*\b(?!\()", lambda found: self.of(found[0]), line)
        return f"EACH_HALF {known.replace('[i]', '[i + w]')}"

    def of(self, name: str) -> str:
        return f"{self.names[name]}[w]" if name in self.names else name

    def add(self, line: str) -> None:
        """A declaration, or something stored."""
        found = _DECLARATION.fullmatch(line)
        if found:
            kind, name, text = found.groups()
            text = self.without_conversions(text)
            self.names[name] = self.names.get(text) or self.array(kind, text)
            return
        place, is_stored, text = line.partition(" = written_float16(")
        if is_stored:
            made = self.without_conversions(text.removesuffix(");"))
            array = self.names.get(made) or self.array("float", made)
            array = self.exact.get(array, array)
            self.lines.append(f"write_halves({array}, {place.removesuffix('[i]')} + i);")
        else:
            self.lines.append(self.each(self.without_conversions(line)))

    def without_conversions(self, text: str) -> str:
        """An expression without conversions; those in it are arrays before, the innermost first."""
        while found := list(_CONVERSION.finditer(text)):
            start, end = found[-1].start(), _closing(text, found[-1].end())
            inner = text[found[-1].end() : end]
            if found[-1][1] == "read":
                name = f"l{len(self.lines)}"
                given = f"{inner.removesuffix('[i]')} + i"
                self.lines.append(f"float {name}[{AT_ONCE}]; read_halves({given}, {name});")
            else:
                exact = self.names.get(inner) or self.array("float", inner)
                name = f"l{len(self.lines)}"
                self.lines.append(f"float {name}[{AT_ONCE}]; round_halves({exact}, {name});")
                self.exact[name] = exact
            self.names[name] = name
            text = text[:start] + name + text[end + 1 :]
        return text


def _closing(text: str, at: int) -> int:
    """Where the parenthesis closes that was open before a place."""
    depth = 1
    for k in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[k], 0)
        if not depth:
            return k
    raise AssertionError(f"{text} has a parenthesis that is open")


def lines_of_lanes(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a loop over `i`, each declaration or assignment one line, for the elements from
    `i` on."""
    lanes = _Lanes()
    for line in lines:
        lanes.add(line)
    yield from lanes.lines


def rest_of_lanes(lines: Sequence[str], kinds: dict[str, str]) -> Iterator[str]:
    """The lines of lanes for fewer elements, from `i` to `m`, with copies of what `kinds` name: the
    C types of the elements that pointers are to."""
    text = "\n".join(lines)
    names = [name for name in kinds if re.search(rf"\b{name}\b", text)]
    if names:
        yield "const size_t rest = (size_t)(m - i);"
    for name in names:
        text = re.sub(rf"\b{name} \+ i\b", f"rest_{name}", text)
        text = re.sub(rf"\b{name}\[i \+ w\]", f"rest_{name}[w]", text)
        yield f"{kinds[name]} rest_{name}[{AT_ONCE}] = {{0}};"
        if name[0] != "o":
            yield f"memcpy(rest_{name}, {name} + i, rest * sizeof *{name});"
    yield from text.split("\n")
    for name in names:
        if name[0] != "v":
            yield f"memcpy({name} + i, rest_{name}, rest * sizeof *{name});"
