"""The command line of tools that write a page: write it, or say whether it is current."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def main(about: str | None, path: Path, page: Callable[[], str]) -> int:
    """Write a page; with --check only say, by the exit status too, that it is not current."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        path.write_text(page(), encoding="utf-8")
    elif path.read_text(encoding="utf-8") != page():
        print(f"docs/{path.name} is not current: run python tools/reference.py", file=sys.stderr)
        return 1
    return 0
