"""What the documents show is run: python blocks of the Markdown files, examples of the docstrings.

Nothing is skipped: a block in an unknown language, a block marked as not to be run, a module that
cannot be imported and an example with `+SKIP` are failures.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infinitensor import fixed_c

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in REPOSITORY.glob(pattern)
)
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```", re.M | re.S
)
OTHER_LANGUAGES = {"text", "mermaid", "sh", "make", "toml", "markdown"}
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.fixture(autouse=True)
def folder_of_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What examples leave in temporary folders goes with the test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


# --- Markdown ---------------------------------------------------------------------------------


def blocks_of(document: Path) -> list[tuple[str, int, str]]:
    """(language, first line, text) of each fenced block."""
    text = document.read_text(encoding="utf-8")
    return [
        (fence["language"].strip(), text.count("\n", 0, fence.start("body")) + 1, fence["body"])
        for fence in FENCE.finditer(text)
    ]


def python_program(document: Path) -> str:
    """The python blocks one after the other, each on the lines where it stands in the document."""
    lines: list[str] = []
    for language, first_line, body in blocks_of(document):
        if language == "python":
            lines += [""] * (first_line - 1 - len(lines))
            lines += body.splitlines()
    return "\n".join(lines) + "\n"


RUNNABLE = [path for path in DOCUMENTS if python_program(path).strip()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_block_names_a_language_we_know(document: Path) -> None:
    unknown = [
        f"line {line}: '{language}'"
        for language, line, _ in blocks_of(document)
        if language != "python" and language not in OTHER_LANGUAGES
    ]
    assert not unknown, f"{name_of(document)}: {unknown}"


def test_readme_shows_a_program() -> None:
    assert REPOSITORY / "README.md" in RUNNABLE


@pytest.mark.local
@pytest.mark.parametrize("document", RUNNABLE, ids=name_of)
def test_python_blocks_run(document: Path, tmp_path: Path) -> None:
    """In a fresh interpreter: a document shares no state with another one, nor with the tests."""
    text = python_program(document)
    if ".zarr" in text:
        pytest.importorskip("zarr")
    program = f"exec(compile({text!r}, {name_of(document)!r}, 'exec'))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "INFINITENSOR_PROGRESS": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- docstrings -------------------------------------------------------------------------------


def module_names() -> list[str]:
    """Every module of the library, found by name without importing more than packages."""
    package = importlib.import_module("infinitensor")

    def fail(name: str) -> None:
        raise ImportError(f"cannot import {name}")

    found = pkgutil.walk_packages(package.__path__, "infinitensor.", onerror=fail)
    names = (m.name for m in found if not m.name.endswith(".__main__"))
    libraries = {
        fixed_c.name_of(file) for file in (*fixed_c.LIBRARIES, *fixed_c.LOOPS)
    }  # C alone: no modules
    return ["infinitensor", *(name for name in names if name not in libraries)]


def examples_of_module(module: Any) -> Iterator[doctest.DocTest]:
    """The examples of what is defined in a module."""
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        if test.examples:
            yield test


def examples_of_public_names(module: Any) -> Iterator[doctest.DocTest]:
    """The examples of public functions and methods that are made, not written, in a module."""
    parser = doctest.DocTestParser()
    for name in sorted(getattr(module, "__all__", dir(module))):
        value = getattr(module, name)
        members = {name: value}
        if inspect.isclass(value):
            members |= {f"{name}.{key}": member for key, member in vars(value).items()}
        for key, member in members.items():
            text = getattr(member, "__doc__", None)
            if not key.startswith("_") and isinstance(text, str) and ">>>" in text:
                full_name = f"{module.__name__}.{key}"
                yield parser.get_doctest(text, dict(vars(module)), full_name, None, None)


def failures_of(tests: Iterator[doctest.DocTest]) -> tuple[int, list[str]]:
    """How many examples ran, and the reports of those that failed."""
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    reports: list[str] = []
    n_run = 0
    for test in tests:
        test.globs |= {"it": importlib.import_module("infinitensor"), "np": np}
        for example in test.examples:
            if doctest.SKIP in example.options:
                reports.append(f"{test.name}: an example is marked +SKIP")
        n_run += len(test.examples)
        runner.run(test, out=reports.append)
    return n_run, reports


@pytest.mark.local
@pytest.mark.parametrize("name", module_names())
def test_examples_in_docstrings_give_what_they_show(name: str) -> None:
    _, reports = failures_of(examples_of_module(importlib.import_module(name)))
    assert not reports, "\n".join(reports)


@pytest.mark.local
def test_examples_of_the_public_names_give_what_they_show() -> None:
    n_run, reports = failures_of(examples_of_public_names(importlib.import_module("infinitensor")))
    assert not reports, "\n".join(reports)
    assert n_run > 0, "no public name shows an example"
