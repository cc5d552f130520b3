"""What is worth compiling, by its work, and what has the bits of steps then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.analysis.graphs import leaf, recorded_graph
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor import native
from infinitensor.ir.mesh import Target, Tools
from infinitensor.tasking.kernels import choose_kernel, worth_compiling
from infinitensor.tasking.kernels.worth_compiling import (
    HALF_WORK,
    has_same_bits,
    have_bits_of_steps,
    reads_across,
    work_by_steps,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from infinitensor.ir.graph import Node

needs_compiler = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")
as_it_is_used = pytest.mark.skipif(
    bool(native.sanitizers()), reason="under checks all is compiled, and what does not is an error"
)


def nodes_of(program: Callable[[Any], Any]) -> tuple[Node, ...]:
    """The nodes of a program of a matrix, as they were recorded."""
    with strict("cpu") as session:
        return recorded_graph(session, program(leaf(6, 7))).nodes


def test_halves_count_for_more_while_they_go_step_by_step() -> None:
    single = nodes_of(lambda x: x * 2 + 1)
    halves = nodes_of(lambda x: x.astype("float16") * 2 + 1)[1:]
    assert work_by_steps(halves) == HALF_WORK * work_by_steps(single)


def test_rows_of_a_transposed_operand_are_read_across() -> None:
    assert any(map(reads_across, nodes_of(lambda x: x.T + 1)))
    assert not any(map(reads_across, nodes_of(lambda x: x[:3] + 1)))


BITS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "arithmetic": (lambda x: x * 2 + 1, True),
    "made of one number": (lambda x: it.ones((6, 7)) + x, True),
    "a reduction": (lambda x: (x * 2).sum(axis=1), True),
    "a function": (lambda x: it.exp(x), False),
    "a sorted row": (lambda x: it.sort(x), False),
}


@pytest.mark.parametrize("name", BITS)
def test_generated_c_has_the_bits_of_steps_where_it_is_the_same_code(name: str) -> None:
    program, has = BITS[name]
    target = Target("cpu", Tools(has_compiler=True, has_functions=False))
    assert has_same_bits(nodes_of(program), target) == has


ROUNDED: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "steps as torch's": (lambda x: x * 2 + 1, False),
    "truth in any order": (lambda x: (x > 2).any(axis=1), False),
    "functions": (lambda x: it.hypot(x, 1.0), True),
    "sums": (lambda x: x.sum(axis=1), True),
}


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("is_much", [False, True])
def test_rounded_work_of_a_gpu_has_the_bits_of_steps_while_it_is_little(
    name: str, is_much: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, is_rounded = ROUNDED[name]
    nodes = nodes_of(program)
    monkeypatch.setattr(worth_compiling, "COMPILED_ELEMENTS", 1 if is_much else 1 << 23)
    assert have_bits_of_steps(nodes) == (not (is_much and is_rounded))


@needs_compiler
def test_work_that_shrinks_at_each_step_is_compiled_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr(worth_compiling, "COMPILED_ELEMENTS", 1 << 19)
    monkeypatch.setattr(
        "infinitensor.api.evaluate.unplanned.UNPLANNED_ELEMENTS", 0
    )  # all is planned
    values = np.random.default_rng(3).normal(size=(400, 400))
    x, y = it.asarray(values), values.copy()
    for k in range(12):
        x[:, k:] -= 2 * (x[:, k:] * 0.25)
        y[:, k:] -= 2 * (y[:, k:] * 0.25)
    assert x.numpy().tobytes() == y.tobytes()
    assert len(native._loaded) == 3  # and one that copies, and one that calls both


@needs_compiler
@as_it_is_used
@pytest.mark.parametrize(
    ("chain", "is_compiled"),
    [
        (lambda xp, x: x * x + 1.0, False),
        (lambda xp, x: xp.exp(x) + 1.0, True),
        (lambda xp, x: x * (x + 1j) + 1j, True),
        (lambda xp, x: abs(x + 1j) + 1.0, True),
    ],
    ids=["sums", "function", "complex", "absolute"],
)
def test_steps_count_by_their_work_when_compiling_is_weighed(
    chain: Any, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worth_compiling, "COMPILED_ELEMENTS", 600_000)
    monkeypatch.setattr(
        "infinitensor.api.evaluate.unplanned.UNPLANNED_ELEMENTS", 0
    )  # all is planned
    worth: list[bool] = []
    weighed = worth_compiling.is_worth_compiling

    def noted(*args: Any) -> bool:
        worth.append(weighed(*args))
        return worth[-1]

    monkeypatch.setattr(choose_kernel, "is_worth_compiling", noted)
    values = np.random.default_rng(3).normal(size=100_000)
    np.testing.assert_allclose(chain(it, it.asarray(values)).numpy(), chain(np, values), rtol=1e-13)
    assert worth == [is_compiled]
