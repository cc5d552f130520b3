"""Write the table of estimators and scores in docs/clustering.md: whose code runs for each name.

python tools/estimator_names.py           # write the table
python tools/estimator_names.py --check   # say whether the committed table is current
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "clustering.md"
MODULES = ("cluster", "neighbors", "metrics")
START, END = "<!-- names: written by tools/estimator_names.py -->", "<!-- end of names -->"


def names() -> dict[str, dict[str, bool]]:
    """{module: {name: whether our own code runs}}."""
    from infinitensor.estimators.fallback import FALLBACKS

    return {
        module: {
            name: f"infinitensor.{module}.{name}" not in FALLBACKS
            for name in importlib.import_module(f"infinitensor.{module}").__all__
        }
        for module in MODULES
    }


def table() -> str:
    """The rows, one for each module and whose code it is."""
    lines = ["| module | runs here | scikit-learn's code, counted as `sklearn_fallbacks` |"]
    lines.append("|---|---|---|")
    for module, found in names().items():
        ours, theirs = (
            ", ".join(f"`{name}`" for name, is_ours in found.items() if is_ours is wanted) or "–"
            for wanted in (True, False)
        )
        lines.append(f"| `infinitensor.{module}` | {ours} | {theirs} |")
    return "\n".join(lines)


def page() -> str:
    """The page with a current table."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(START)
    return f"{head}{START}\n\n{table()}\n\n{END}{rest.partition(END)[2]}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args(argv)
    if not args.check:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        print("docs/clustering.md is not current: run python tools/reference.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
