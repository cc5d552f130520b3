"""Lines of host arrays sorted by NumPy's own sort in one call of C, on all cores:
`sorted_lines.c`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infinitensor.config import config
from infinitensor.native import extension
from infinitensor.threads import share_address

if TYPE_CHECKING:
    import numpy as np


def sort(x: np.ndarray, axis: int, out: np.ndarray, n_threads: int, run: int = 0) -> bool:
    """Whether the lines of x along an axis were sorted into `out`, which may be x.

    Or, with a run, each part of so many elements of the one line.

    Not without the C file, and not of arrays that are not in C order, not of one dtype or not of
    integers and floats of up to eight bytes.
    """
    return False


def _in_c() -> None:
    global sort
    module = None if config.compile == "never" else extension("ops/sorting/sorted_lines")
    if module is None:
        return
    module.use(share_address())
    sort = module.sort


_in_c()
