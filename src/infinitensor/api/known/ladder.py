"""The order in which calls ask for a way to run: operators, ufuncs, functions and methods alike.

1. `numpy`: NumPy's own function, if operands and result are small and on the host;
2. `changing_shapes`: a ufunc of host values, at a place whose shapes change;
3. a call known before: its `kernel` at once if it is small, else it is `recorded_again`.

Where none applies, the function asks the op for its rule and records (`record`). C asks for 1 and 3
before an operator, a ufunc or a function (here 1 alone) comes to Python; what it does not know is
not looked up again (`Quick.unknown`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.known import changing_shapes
from infinitensor.api.small import small_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.known.known_calls import Quick

looked_up: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Functions that look their calls up: what each does with one that was looked up before."""


def ladder(
    like: Callable[..., Any] | None,
    fits: Callable[..., bool] | None,
    quick: Quick | None,
    record: Callable[..., Any],
) -> Callable[..., Any]:
    """A function that asks the ways in order, and `record` where none applies.

    `like` is NumPy's function (None: there is none with the same bits), of which `fits` says
    whether arguments have a small result; `quick` are the calls that are known.
    """
    record = record if quick is None else looked_up.get(record, record)
    changing = like if isinstance(like, np.ufunc) and like.nout == 1 else None

    def far(*args: Any, **options: Any) -> Any:
        made = None if changing is None else changing_shapes.call_ufunc(changing, args)
        if made is None and quick is not None:
            made = quick.call_again(args, options)
        return record(*args, **options) if made is None else made

    if like is None:
        return far

    def near(*args: Any, **options: Any) -> Any:
        made = small_calls.call_numpy(like, fits, args, options)
        return far(*args, **options) if made is None else made

    return small_calls.begin_in_c(like, fits, near, far)
