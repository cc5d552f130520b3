"""docs/glossary.md has each word once, the code uses them, and nobody uses the others."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src" / "infinitensor"
LAST_TABLE = "## Words that are not used"

DIALECT = {
    "turned": "transposed, rotated, reversed",
    "lies": "is stored, is in",
    "lie": "are stored, are in",
    "lying": "layout, stored",
    "told": "given, known, reported",
    "tells": "says, reports",
    "at hand": "on the host",
    "at_hand": "on the host",
    "come again": "repeated",
    "comes again": "is repeated",
    "hasty": "changing shapes",
    "company": "beside",
    "from below": "from a lower tier",
    "from_below": "from a lower tier",
}
"""Words of a dialect of our own, and what to say."""
ALLOWED = {
    "docs/glossary.md": "names the words",
    "docs/decisions/0030-words.md": "shows sentences from before",
    "tests/docs/test_glossary.py": "looks for the words",
}
"""Files that may have them, and why."""
PARTICIPLE = re.compile(
    r"added|aligned|arranged|asked|begun|bounded|built|called|changed|"
    r"checked|chosen|compared|compiled|contracted|converted|copied|counted|"
    r"created|done|drawn|ended|filled|fitted|folded|found|gathered|generated|"
    r"given|gone|got|grouped|grown|guarded|held|joined|kept|known|listed|"
    r"loaded|locked|lowered|made|mapped|masked|merged|mixed|moved|named|"
    r"opened|padded|paired|parsed|parted|passed|patched|picked|placed|"
    r"planned|reduced|repeated|returned|scattered|searched|seen|selected|"
    r"settled|shifted|shown|solved|stacked|stepped|stored|streamed|summed|"
    r"taken|told|traced|trimmed|turned|updated|validated|walked|weighted|"
    r"written"
)
"""What no function is called alone: a verb says what it does, a noun what it returns."""


def texts() -> Iterator[tuple[str, str]]:
    """Every page, and every file of the library and its tests, with its path."""
    files = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.c"), *SOURCE.rglob("*.h")]
    files += (REPOSITORY / "tests").rglob("*.py")
    files += [*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md"]
    for file in sorted(files):
        yield file.relative_to(REPOSITORY).as_posix(), file.read_text(encoding="utf-8")


@cache
def glossary() -> tuple[str, ...]:
    """The words of all tables but the last."""
    page = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \|", page.partition(LAST_TABLE)[0], re.MULTILINE)
    return tuple(row for row in rows if row != "word")


@cache
def code() -> str:
    """The library and its tests, which have words of their own: strict runs, remote ones."""
    files = (file for part in (SOURCE, REPOSITORY / "tests") for file in part.rglob("*.py"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file != Path(__file__))


def is_in(word: str, text: str) -> bool:
    """Whether a text has a word, also as a part of a name; `_` and a blank are the same."""
    spelled = re.escape(word).replace(r"\ ", r"[\s_]+")
    return re.search(rf"(?<![a-zA-Z]){spelled}s?(?![a-zA-Z])", text, re.IGNORECASE) is not None


def faults(text: str) -> list[str]:
    """Lines of a text with a word of the dialect, and what to say."""
    return [
        f"{number}: {word} (say: {better}): {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), start=1)
        for word, better in DIALECT.items()
        if is_in(word, line)
    ]


def bare_participles(source: str) -> list[str]:
    """Functions and methods, but not properties, that a participle alone names."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        and PARTICIPLE.fullmatch(node.name.strip("_"))
        and not any(
            "property" in ast.unparse(one) or "setter" in ast.unparse(one)
            for one in node.decorator_list
        )
    ]


def test_a_word_is_in_the_glossary_once() -> None:
    assert len(glossary()) > 50
    assert sorted(glossary()) == sorted(set(glossary()))


@pytest.mark.parametrize("word", glossary())
def test_a_word_of_the_glossary_is_used_in_the_code(word: str) -> None:
    assert is_in(word, code())


def test_nobody_speaks_a_dialect() -> None:
    found = [
        f"{path}:{fault}" for path, text in texts() if path not in ALLOWED for fault in faults(text)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("path", ALLOWED)
def test_a_file_that_may_use_dialect_does(path: str) -> None:
    assert faults((REPOSITORY / path).read_text(encoding="utf-8")), "not needed any more"


def test_no_function_is_named_by_a_participle_alone() -> None:
    found = [
        f"{file.relative_to(SOURCE)}: {name}"
        for file in sorted(SOURCE.rglob("*.py"))
        for name in bare_participles(file.read_text(encoding="utf-8"))
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line", ["# as they lie", "def lying_borders():", "values at hand", "at_hand(x)", "it is told"]
)
def test_dialect_is_found(line: str) -> None:
    assert faults(line)


@pytest.mark.parametrize("line", ["relies on underlying memory", "believes", "hand it on", "total"])
def test_other_words_are_no_dialect(line: str) -> None:
    assert not faults(line)


def test_participles_are_found_but_for_properties() -> None:
    functions = "def made(x):\n pass\ndef make(x):\n pass\n"
    members = "class A(B):\n @property\n def kept(self):\n  pass\n"
    assert bare_participles(functions + members) == ["made"]
