"""The reference page is what the library is: current, complete, and with a text for every name."""

from __future__ import annotations

import re

import pytest
from tools.reference import (
    CONSTANTS,
    HELPER_KINDS,
    KINDS,
    PAGE,
    called_ops,
    cut_of,
    first_sentence,
    kind_of,
    names_on_the_page,
    page,
    public_functions,
    undocumented,
)

import infinitensor as it
from infinitensor.ops import TABLE


def test_the_committed_page_is_current() -> None:
    committed = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert committed == page(), "run python tools/reference.py and commit docs/reference.md"


def test_every_public_name_has_a_text() -> None:
    assert undocumented() == []


def test_every_public_name_is_on_the_page() -> None:
    text = page()
    missing = [
        name
        for name in sorted(names_on_the_page())
        if not re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)
    ]
    assert missing == []


def test_every_name_without_an_underscore_is_public_or_a_part_of_the_house() -> None:
    """What a user can see is on the page; the rest are folders, and what makes the page itself."""
    folders = {"analysis", "api", "devices", "dtypes", "engines", "ir", "memory", "ops"}
    folders |= {
        "fixed_c",
        "compiler_process",
        "jit",
        "interrupts",
        "lazy_torch",
        "native",
        "partition",
        "pipeline",
        "price",
        "redistribute",
        "runtime",
        "threads",
    }
    folders |= {"storage", "tasking", "cluster", "estimators", "metrics", "neighbors"}
    inner = {"annotations", "current_session"}
    seen = {name for name in vars(it) if not name.startswith("_")}
    assert seen - set(it.__all__) - set(CONSTANTS) - folders - inner == set()


@pytest.mark.parametrize("name", sorted(public_functions()))
def test_every_function_has_a_kind_that_the_page_explains(name: str) -> None:
    kinds = kind_of(name).replace("program: ", "").split(", ")
    for kind in kinds:
        known = kind in KINDS or kind in HELPER_KINDS.values()
        assert known, f"{name}: the page does not say what {kind!r} is"


def test_what_needs_an_operand_in_one_piece_is_said() -> None:
    whole = {name for name, op in TABLE.items() if op.whole}
    reached = {op for name in public_functions() for op in called_ops(name)}
    assert whole <= reached, f"no public function shows that it may run {whole - reached}"
    assert cut_of("linalg.solve") == "cut, whole at need"
    assert cut_of("add") == cut_of("sort") == "cut"


def test_the_first_sentence_is_cut_at_its_end() -> None:
    assert first_sentence("One\n  thing. Two things.\n\nMore.") == "One thing."
    assert first_sentence("x1 + x2.") == "x1 + x2."
    assert first_sentence(None) == ""
