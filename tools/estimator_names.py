"""Write the table of estimators and scores in docs/clustering.md: whose code runs for each name.

python -m tools.estimator_names           # write the table
python -m tools.estimator_names --check   # say whether the committed table is current
"""

from __future__ import annotations

import importlib
from pathlib import Path

from tools.pages import main

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


if __name__ == "__main__":
    raise SystemExit(main(__doc__, PAGE, page))
