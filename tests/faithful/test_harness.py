"""The random programs themselves: right about NumPy, of every kind, and able to find faults."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import get_args

import pytest

from .generate import (
    BINARY,
    CONTRACTIONS,
    MOVES,
    N_ERRORS,
    REDUCTIONS,
    UNARY,
    program_of,
)
from .program import (
    DTYPES,
    OBSERVATIONS,
    VIEWS,
    Assign,
    Call,
    Copy,
    Create,
    IndexArray,
    InPlace,
    InPlaceAt,
    Literal,
    NumPyScalar,
    Observe,
    Operate,
    Program,
    Scalar,
    Slice,
    Step,
    Var,
    View,
    Whole,
)
from .shim import FAULTS, Shim
from .worlds import (
    IN_PLACE,
    NUMPY_ERRORS,
    OPERATORS,
    Mismatch,
    Oracle,
    check,
    failure,
    minimised,
    public_type,
    replay,
)

SEEDS = range(1500)
# The shim is NumPy, which warns of NaN and empty means; the library does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@cache
def programs() -> list[Program]:
    return [program_of(seed) for seed in SEEDS]


def traits(step: Step) -> set[str]:
    """What is special about a step, as words."""
    found = {type(step).__name__}
    match step:
        case View(_, _, how):
            found.add(f"view {how}")
        case Call(_, function, _, _):
            found.add(f"call {function}")
        case Observe(_, how):
            found.add(f"observe {how}")
        case Copy(_, _, how):
            found.add(f"copy {how}")
        case InPlace(_, op):
            found.add(f"in place {op}")
        case Operate(_, op, left, _):
            found |= {f"operate {op}", f"left {type(left).__name__}"}
        case Create(_, literal):
            found |= {f"dtype {literal.dtype}", f"ndim {len(literal.shape)}"}
            found |= {f"size {size}" for size in literal.shape}
    key = getattr(step, "key", None)
    if isinstance(step, View) and step.how == "index":
        key = step.args
    found |= key_traits(key) if isinstance(key, tuple) else set()
    if isinstance(step, Assign | InPlaceAt):
        found |= {f"write {trait}" for trait in key_traits(step.key)}
        found.add(f"write {type(step.value).__name__}")
    return found


def key_traits(key: tuple[object, ...]) -> set[str]:
    found = set()
    for item in key:
        match item:
            case Slice(_, _, step):
                found.add("slice backwards" if (step or 1) < 0 else "slice")
            case Whole(text):
                found.add(text)
            case IndexArray(_, _, is_mask):
                found.add("mask" if is_mask else "index array")
            case Var():
                found.add("variable as key")
            case _:
                found.add("integer")
    return found


def test_numpy_against_numpy_never_parts() -> None:
    for program in programs():
        replay(program, Shim())


def test_last_bits_of_rounded_results_are_not_a_fault() -> None:
    for program in programs():
        replay(program, Shim(noise=True))


def test_the_generator_reaches_every_kind_of_step() -> None:
    seen = Counter(trait for program in programs() for s in program.steps for trait in traits(s))
    contractions = {f"operate {f}" if f == "@" else f"call {f}" for f in CONTRACTIONS}
    keys = {
        "slice", "slice backwards", "None", "...", "mask", "index array", "variable as key",
        "integer",
    }  # fmt: skip
    wanted = (
        {kind.__name__ for kind in get_args(Step)}
        | {f"view {how}" for how in VIEWS}
        | {f"call {function}" for function in (*UNARY, *BINARY, *REDUCTIONS, *MOVES)}
        | contractions
        | {f"observe {how}" for how in OBSERVATIONS}
        | {f"copy {how}" for how in ("method", "array", "copy", "deepcopy", "pickle", "astype")}
        | {f"in place {op}" for op in IN_PLACE}
        | {f"operate {op}" for op in OPERATORS}
        | {f"left {kind.__name__}" for kind in (Var, Scalar, NumPyScalar, Literal)}
        | {f"write {kind.__name__}" for kind in (Var, Scalar, NumPyScalar, Literal)}
        | {f"dtype {dtype}" for dtype in DTYPES}
        | {f"ndim {ndim}" for ndim in range(4)}
        | {f"size {size}" for size in (0, 1, 2, 9)}
        | keys
        | {f"write {key}" for key in keys}
    )
    assert wanted - set(seen) == set()


def test_the_generator_reaches_every_kind_of_error() -> None:
    seen: Counter[str] = Counter()
    for program in programs():
        oracle = Oracle()
        n_errors = 0
        for step in program.steps:
            try:
                oracle.run(step)
            except NUMPY_ERRORS as error:
                n_errors += 1
                seen[f"{type(step).__name__} {public_type(error).__name__}"] += 1
        assert n_errors <= N_ERRORS
    assert {
        "Assign ValueError", "Assign IndexError", "Assign OverflowError", "InPlace TypeError",
        "InPlace OverflowError", "Operate OverflowError", "Operate TypeError", "View IndexError",
        "View ValueError", "Gather IndexError", "InPlace ValueError", "Observe TypeError",
        "Observe ValueError", "Call TypeError", "Call ValueError", "Fill OverflowError",
    } - set(seen) == set()  # fmt: skip


def test_writes_are_seen_through_other_names_often() -> None:
    """Aliasing is what the programs are for: most write to memory that another name sees."""
    n_shared = 0
    for program in programs()[:300]:
        oracle = Oracle()
        shared = False
        for step in program.steps:
            try:
                oracle.run(step)
            except NUMPY_ERRORS:
                continue
            target = getattr(step, "target", None)
            if target in oracle.values:
                group = oracle.group[target]
                shared |= sum(other == group for other in oracle.group.values()) > 1
        n_shared += shared
    assert n_shared > 130


@pytest.mark.parametrize("fault", FAULTS)
def test_the_programs_find_the_fault(fault: str) -> None:
    def replay_all() -> None:
        for program in programs():
            replay(program, Shim(fault))

    with pytest.raises(Mismatch, match=r"in\n"):
        replay_all()


def test_a_failing_program_is_cut_to_its_smallest() -> None:
    program = Program(
        (
            Create("a", Literal("int64", (4,))),
            Create("b", Literal("int64", (4,), 1)),
            View("c", "a", "index", (Slice(1, None, None),)),
            Call("d", "sum", (Var("b"),)),
            Assign("c", (0,), Scalar(77)),
        )
    )
    fault = Shim("slices are copies")
    found = failure(program, fault)
    assert found is not None
    assert len(minimised(found, fault).program.steps) == 3
    with pytest.raises(Mismatch, match=r"a is .*\n.*in\na = xp.asarray\(.*\)\nc = a\[1:\]"):
        check(program, fault)


def test_a_program_prints_as_source_that_runs() -> None:
    for program in programs()[:100]:
        compile(str(program), "program", "exec")
