"""Write docs/coverage.md: which of NumPy's public names are here, and which are cut over devices.

python -m tools.coverage_table           # write the page (tools/reference.py does it too)
python -m tools.coverage_table --check   # say whether the committed page is current

Counted are the names in `__all__` of numpy, numpy.linalg, numpy.fft and numpy.random that are no
modules, and the public members of numpy.ndarray, of the NumPy that this project is tested with.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from tools.pages import main
from tools.reference import cut_of, kind_of, row, table

import infinitensor as it
from infinitensor.api.functions.all_functions import PUBLIC
from infinitensor.ops import TABLE

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coverage.md"
SPACES: dict[str, tuple[Any, Any]] = {
    "numpy": (np, it),
    "numpy.linalg": (np.linalg, it.linalg),
    "numpy.fft": (np.fft, it.fft),
    "numpy.random": (np.random, it.random),
    "numpy.ndarray": (np.ndarray, it.Tensor),
}
STATES = ("cut", "whole at need", "whole", "on the host", "no work", "missing")
HOST_KINDS = ("file", "text", "user's function")
HOST_NAMES = ("dump", "dumps", "item", "ndenumerate", "nditer", "tobytes", "tofile", "tolist")
CUT_NAMES = (
    "byteswap", "c_", "copyto", "fill", "fill_diagonal", "flatten", "getfield", "mgrid", "ogrid",
    "r_",
)  # fmt: skip
"""Names that are in no table but run ops of it."""

ABSENT = object()
OTHERS = {"cuPyNumeric": (616, 412, 363), "Heat": (460, 218, None)}
"""Names counted, present, and running on several devices, as their own documentation counts."""

REASONS = {
    "dates and durations are not held": """busday_count busday_offset busdaycalendar datetime64
        datetime_as_string datetime_data is_busday isnat timedelta64""",
    "texts, records and objects are not held": """bytes_ character flexible fromregex genfromtxt
        object_ recarray record str_ void frompyfunc""",
    "no device computes with long doubles": """clongdouble complex256 float128 longdouble
        clongfloat complex512 float96""",
    "the matrix class and poly1d are NumPy's old interfaces": "asmatrix bmat matrix poly1d",
    "about NumPy's own build, buffers or printing": """get_include getbufsize info setbufsize
        show_config show_runtime test geterrcall seterrcall sctypeDict typecodes ScalarType
        get_printoptions printoptions set_printoptions array2string array_repr array_str
        format_float_positional format_float_scientific little_endian""",
    "texts of single Python integers: NumPy's own do": "base_repr binary_repr",
    "a name that NumPy itself gives up": "row_stack",
    "walks an array's memory, which a tensor does not have in one piece": """base ctypes
        data flags flatiter memmap nditer nested_iters setfield setflags strides ufunc""",
    "a tensor keeps its size; the functions of these names make others": "resize",
    "a generator's bits are NumPy's own: here a number depends on seed, stream and index":
        """BitGenerator MT19937 PCG64 PCG64DXSM Philox RandomState SFC64 SeedSequence bytes
        get_state set_state""",
}  # fmt: skip
"""Why a name is missing on purpose; any other missing name is simply not written yet."""

TEXTS = {
    "cut": "the work is divided into tiles and over devices",
    "whole at need": "cut, but some shapes or arguments need an operand in one piece",
    "whole": "an operand is needed in one piece (counted by `stats`)",
    "on the host": "values leave the tiles: files, texts, numbers and calls of Python",
    "no work": "a view, a question about shapes or dtypes, a constant, a setting",
    "missing": "an AttributeError that names the nearest",
}


def names_of(space: Any) -> list[str]:
    """NumPy's public names of a namespace or class."""
    listed = getattr(space, "__all__", None) or dir(space)
    return sorted(
        name
        for name in listed
        if not name.startswith("_") and not isinstance(getattr(space, name), ModuleType)
    )


def state_of(space: str, name: str) -> str:
    """One of `STATES`."""
    ours = getattr(SPACES[space][1], name, ABSENT)
    if ours is ABSENT or isinstance(ours, ModuleType):
        return "missing"
    if (getattr(ours, "__doc__", None) or "").startswith("Refused"):
        return "missing"
    full = name if space in ("numpy", "numpy.ndarray") else f"{space.partition('.')[2]}.{name}"
    if name in HOST_NAMES or (full in PUBLIC and kind_of(full) in HOST_KINDS):
        return "on the host"
    if name in CUT_NAMES:
        return "cut"
    if full not in PUBLIC:
        return "no work"
    cut = cut_of(full)
    return cut.removeprefix("cut, ") if full in TABLE else "cut" if cut else "no work"


def reason_of(name: str) -> str:
    """Why a name is missing."""
    found = [reason for reason, names in REASONS.items() if name in names.split()]
    return found[0] if found else "not written yet"


def states() -> dict[str, dict[str, str]]:
    """{namespace: {name: state}}."""
    return {
        space: {name: state_of(space, name) for name in names_of(theirs)}
        for space, (theirs, _) in SPACES.items()
    }


def page() -> str:
    """The whole table."""
    found = states()
    lines = [
        "# NumPy's names",
        "",
        "<!-- Written by tools/coverage_table.py; do not edit. -->",
        "",
        f"The public names of NumPy {np.__version__.rpartition('.')[0]}, one by one.",
        "",
        *table("library", "names counted", "present", "on several devices"),
    ]
    total = Counter(state for names in found.values() for state in names.values())
    n_names = total.total()
    n_present = n_names - total["missing"]
    n_cut = total["cut"] + total["no work"]
    shown = [f"**{n_names}**", f"**{n_present}**", f"**{n_cut}**"]
    lines.append(row("**InfiniTensor**", *shown))
    lines += [row(name, *(str(n or "–") for n in counts)) for name, counts in OTHERS.items()]
    lines += [
        "",
        "Each library counts by its own list; ours has NumPy's array methods too. On several",
        "devices are those that are cut, and those that compute nothing.",
        "",
    ]
    lines += table("namespace", "names", "present", *STATES)
    for space, names in found.items():
        count = Counter(names.values())
        present = len(names) - count["missing"]
        lines.append(
            row(f"`{space}`", *map(str, (len(names), present, *(count[s] for s in STATES))))
        )
    lines += ["", *(f"*{state}*: {text}.  " for state, text in TEXTS.items()), ""]
    for space, names in found.items():
        lines += [f"## {space}", ""]
        for state in STATES[:-1]:
            mine = [f"`{name}`" for name, one in names.items() if one == state]
            if mine:
                lines += [f"**{state}** ({len(mine)}): {', '.join(mine)}", ""]
        missing = [name for name, one in names.items() if one == "missing"]
        if missing:
            lines += [f"**missing** ({len(missing)})", "", *table("why", "names")]
            for reason in sorted({reason_of(name) for name in missing}):
                these = [f"`{name}`" for name in missing if reason_of(name) == reason]
                lines.append(row(reason, ", ".join(these)))
            lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main(__doc__, PAGE, page))
