"""Running a program in both worlds and comparing all live values; making what fails small."""

from __future__ import annotations

import random
import re
import time
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .disturbing import disturbed
from .program import ROUNDED, Line, Program, helpers

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "one": {"devices": "cpu"},
    "three": {"devices": "cpu*3"},
    "8MiB": {"devices": "cpu", "memory": "8MiB"},
    "24MiB": {"devices": "cpu", "memory": "24MiB"},
    "three-16MiB": {"devices": "cpu*3", "memory": "16MiB"},
}
MOST_ELEMENTS = {"8MiB": 160_000, "24MiB": 500_000, "three-16MiB": 400_000}
"""Elements of what a program is made from, where memory is short; more than fits comes of them."""


@dataclass(frozen=True)
class Outcome:
    """What became of a program: "same", "differs", "raises", "refused", "not NumPy's", and by the
    caller "died", "hangs" or "slow"."""

    kind: str
    said: str = ""
    seconds: float = 0.0
    """Of all processors; a loaded machine makes nothing slow."""
    numpys: float = 0.0

    @property
    def fails(self) -> bool:
        """Whether it is one to look at; a budget that says it is too small is not."""
        return self.kind not in ("same", "refused", "not NumPy's")


def without_disturbance(setting: str) -> str:
    """A setting without what comes between: "8MiB" of "8MiB+faults"."""
    return setting.partition("+")[0]


def opening(setting: str) -> str:
    """The call that opens a session of a setting."""
    options = SETTINGS[without_disturbance(setting)]
    given = ", ".join(f"{key}={value!r}" for key, value in options.items())
    return f"it.init({given})"


class _NumPyRefusesError(Exception):
    """A line has no meaning: lines that it needs were left out."""


def played(program: Program, setting: str) -> Outcome:
    """Run a program in a session of a setting, beside NumPy.

    With "+interrupts" or "+faults" behind the setting, signals or errors come between.
    """
    import infinitensor as it

    begin = time.process_time()
    numpys = [0.0]
    try:
        with it.init(**SETTINGS[without_disturbance(setting)]):
            found = _rounds(program, it, numpys, setting.partition("+")[2])
    except _NumPyRefusesError as error:
        return Outcome("not NumPy's", str(error))
    except it.MemoryBudgetError as error:
        return Outcome("refused", str(error))
    except Exception as error:  # whatever it is, it is what is looked for
        notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
        return Outcome("raises", f"{type(error).__name__}: {error}{notes}")
    return replace(found, seconds=time.process_time() - begin - numpys[0], numpys=numpys[0])


def _rounds(program: Program, it: Any, numpys: list[float], disturbance: str) -> Outcome:
    rng = random.Random(str(program))
    codes = [compile(line.text, f"<line {k}>", "exec") for k, line in enumerate(program.lines, 1)]
    for k in range(program.rounds):
        said = _round(program, codes, it, numpys, disturbance, rng)
        if said:
            return Outcome("differs", said if not k else f"{said} (round {k + 1})")
    return Outcome("same")


def _round(
    program: Program,
    codes: list[Any],
    it: Any,
    numpys: list[float],
    disturbance: str,
    rng: random.Random,
) -> str:
    theirs, ours = {**helpers, "xp": np}, {**helpers, "xp": it}
    made: list[str] = []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line, code in zip(program.lines, codes, strict=True):
            begin = time.process_time()
            try:
                exec(code, theirs)
            except Exception as error:
                raise _NumPyRefusesError(f"{line.text}: {error}") from error
            finally:
                numpys[0] += time.process_time() - begin
            try:
                exec(code, ours)
            except Exception as error:
                error.add_note(f"[in: {line.text}]")
                raise
            made += [line.makes] if line.makes else []
            if line.compares:
                live = [ours[name] for name in made if name in ours]
                tensors = [value for value in live if isinstance(value, it.Tensor)]
                if disturbance and tensors:
                    disturbed(disturbance, rng, partial(it.compute, *tensors))
                for name in made:
                    if name in theirs:
                        said = difference(theirs[name], ours[name], name in program.loose)
                        if said:
                            return f"{name} {said} [after: {line.text}]"
    return ""


def difference(theirs: Any, ours: Any, is_loose: bool) -> str:
    """How our value is not NumPy's; empty if it is."""
    expected, got = np.asarray(theirs), np.asarray(ours)
    if expected.shape != got.shape or expected.dtype != got.dtype:
        return f"is {got.shape} {got.dtype}, not {expected.shape} {expected.dtype}"
    has_nan = expected.dtype.kind in "fc"
    if np.array_equal(expected, got, equal_nan=has_nan):
        return ""
    if is_loose:
        width = expected.dtype.itemsize // (2 if expected.dtype.kind == "c" else 1)
        relative, absolute = ROUNDED[f"f{width}"]
        largest = np.max(np.abs(expected), initial=1, where=np.isfinite(expected))
        if np.allclose(got, expected, relative, absolute * float(largest), equal_nan=True):
            return ""
    wrong = expected != got
    if has_nan:
        wrong &= ~(np.isnan(expected) & np.isnan(got))
    at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
    return (
        f"differs in {np.count_nonzero(wrong)} of {wrong.size} elements: "
        f"{got[at]!r}, not {expected[at]!r} at {at}"
    )


# --- reduction --------------------------------------------------------------------------------


def reduced(program: Program, fails: Callable[[Program], bool], most_s: float = 120.0) -> Program:
    """The smallest program that is found to fail still: fewer rounds and lines, then sizes."""
    end = time.monotonic() + most_s
    if program.rounds > 1 and fails(replace(program, rounds=1)):
        program = replace(program, rounds=1)
    program = _fewer_lines(program, fails, end)
    program = _fewer_compared(program, fails)
    program = _smaller(program, fails, end)
    return _fewer_lines(program, fails, end)


def _fewer_lines(program: Program, fails: Callable[[Program], bool], end: float) -> Program:
    n = max(len(program.lines) // 2, 1)
    while n:
        at = len(program.lines)
        while at > 0 and time.monotonic() < end:
            at -= n
            lines = program.lines[: max(at, 0)] + program.lines[at + n :]
            fewer = replace(program, lines=_last_compares(lines))
            if lines and fails(fewer):
                program = fewer
        n //= 2
    return program


def _last_compares(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    return (*lines[:-1], replace(lines[-1], compares=True)) if lines else lines


def _fewer_compared(program: Program, fails: Callable[[Program], bool]) -> Program:
    lines = tuple(replace(line, compares=False) for line in program.lines[:-1])
    fewer = replace(program, lines=(*lines, program.lines[-1]))
    return fewer if fails(fewer) else program


def _smaller(program: Program, fails: Callable[[Program], bool], end: float) -> Program:
    """With numbers of more than one digit halved, all over the program, while it fails."""
    sizes = {int(n) for line in program.lines for n in re.findall(r"\b\d{2,}\b", line.text)}
    for size in sorted(sizes, reverse=True):
        while size > 3 and time.monotonic() < end:
            less = max(size // 2, 1)
            lines = tuple(
                replace(line, text=re.sub(rf"\b{size}\b", str(less), line.text))
                for line in program.lines
            )
            smaller = replace(program, lines=lines)
            if not fails(smaller):
                break
            program, size = smaller, less
    return program
