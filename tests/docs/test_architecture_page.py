"""docs/architecture.md names every file and folder of the library, and no other."""

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
SUFFIXES = (".py", ".pyi", ".c", ".h")
ROOMS = ("api", "ops", "tasking", "runtime", "storage")
"""The parts whose folders have rooms."""
FREE = {"ops": {"forms", "table", "backend"}}
"""Rooms that all others of a part may import, as the text above its table says."""


@cache
def page() -> str:
    return (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")


def names() -> list[str]:
    """What the page writes as code: names of files, paths, folders."""
    return re.findall(r"`([^`\n]+)`", page())


def files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*") if path.suffix in SUFFIXES)


def test_every_file_is_on_the_page() -> None:
    named = {Path(name).name for name in names()}
    missing = [str(file.relative_to(SOURCE)) for file in files() if file.name not in named]
    assert not missing, f"docs/architecture.md does not name {missing}"


def test_every_folder_is_on_the_page() -> None:
    """As `folder/`, or in a heading `### part: …`."""
    named = {name.rstrip("/") for name in names() if name.endswith("/")}
    named |= set(re.findall(r"^### (\w+):", page(), re.M))
    folders = {file.parent for file in files()} - {SOURCE}
    missing = [str(folder.relative_to(SOURCE)) for folder in folders if folder.name not in named]
    assert not missing, f"docs/architecture.md does not name {sorted(missing)}"


def test_every_named_file_is_there() -> None:
    known = {file.name for file in files()}
    wrong = [
        name
        for name in names()
        if name.endswith(SUFFIXES) and name.strip(".") == name
        if not ((SOURCE / name).exists() or (REPOSITORY / name).exists() or name in known)
    ]
    assert not wrong, f"docs/architecture.md names what is not there: {wrong}"


def test_names_of_c_files_are_unique() -> None:
    found = [file.name for file in files() if file.suffix in (".c", ".h")]
    twice = sorted({name for name in found if found.count(name) > 1})
    assert not twice, f"files of one name in several folders: {twice}"


def room_of(module: str, part: str) -> str | None:
    """The room of a module of a part; None if it is in none, or in another part."""
    head = f"infinitensor.{part}."
    name = module.removeprefix(head).split(".")[0]
    return name if module.startswith(head) and (SOURCE / part / name).is_dir() else None


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports when it is imported: not in functions, not for types."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def allowed(part: str) -> dict[str, set[str]]:
    """What the page says that each room may import, beside itself."""
    section = page().split(f"\n### {part}:")[1].split("\n### ")[0]
    rows = dict(re.findall(r"^\| \*\*`(\w+)/`\*\* \| (.*) \|$", section, re.M))
    order = list(rows)
    found = {}
    for place, (room, text) in enumerate(rows.items()):
        tail = re.split(r"(?:[Mm]ay import|[Ii]mports)", text)[-1]
        after = set(order[place + 1 :])
        named = set(re.findall(r"`(\w+)`", tail)) & set(order)
        is_any = "all" in tail.split() or (tail == text and part not in FREE)
        found[room] = {room} | (after if is_any else named) | (FREE.get(part, set()) & after)
    return found


@pytest.mark.parametrize("part", ROOMS)
def test_rooms_import_what_the_page_says(part: str) -> None:
    faults = [
        f"{file.relative_to(SOURCE)} imports {module}"
        for room, rooms in allowed(part).items()
        for file in (SOURCE / part / room).glob("*.py")
        for module in imported(file)
        if (reached := room_of(module, part)) is not None and reached not in rooms
    ]
    assert not faults, "\n" + "\n".join(faults)


@pytest.mark.parametrize("part", ROOMS)
def test_every_room_has_a_row(part: str) -> None:
    rooms = {path.parent.name for path in (SOURCE / part).glob("*/__init__.py")}
    assert allowed(part).keys() == rooms
