"""The op table: a name is taken once, rules keep their text, broadcasting is NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.table import registry
from infinitensor.ops.table.registry import (
    TABLE,
    Array,
    broadcast_form,
    elementwise,
    op,
    program,
    resolve_loop,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A copy of the table that may be added to."""
    copy = dict(TABLE)
    monkeypatch.setattr(registry, "TABLE", copy)
    return copy


def test_a_name_is_taken_once(table: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="op 'add' is in the table already"):
        registry.add(table["add"])


def test_a_rule_becomes_an_op_with_its_text_and_arrays(table: dict[str, Any]) -> None:
    @op("mapped", cost=3.0)
    def _halves(x: Spec, y: Spec, axis: int) -> Call:
        """What it does."""
        return call(broadcast_form((x, y), x.shape), x)

    made: Any = _halves
    assert table["_halves"] is made
    assert (made.doc, made.arrays, made.cost) == ("What it does.", ("x", "y"), 3.0)
    assert not made.method


def test_a_rule_takes_one_tensor_or_none_or_a_sequence_of_them(table: dict[str, Any]) -> None:
    @op("mapped", name="_first _second")
    def rule(x: Spec, others: Sequence[Spec], weights: Spec | None = None) -> Call:
        return call(broadcast_form((x,), x.shape), x)

    assert table["_first"] is rule
    assert table["_second"].arrays == ("x", "*others", "weights")


def test_a_programs_tensors_are_annotated_as_arrays(table: dict[str, Any]) -> None:
    @program()
    def _both(xp: Any, first: Array, others: Sequence[Array], n: int) -> Any:
        return xp.add(first, others[n])

    assert table["_both"].arrays == ("first", "*others")


def test_a_program_of_a_methods_name_is_a_method_too(table: dict[str, Any]) -> None:
    table.pop("ravel", None)
    made: Any = program("x", name="ravel")(lambda xp, x: x.reshape(-1))
    assert made.kind == "program"
    assert made.method
    assert not program("x", name="linalg.ravel")(lambda xp, x: x).method


@pytest.mark.parametrize(
    "shapes", [((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((1,), (1,)), ((2, 0), (1, 1))]
)
def test_axes_of_size_one_and_missing_ones_have_no_label(shapes: Any) -> None:
    shape = np.broadcast_shapes(*shapes)
    form = broadcast_form([Spec(s, np.dtype("f8")) for s in shapes], shape)
    assert form.outputs == (tuple(range(len(shape))),)
    for labels, own in zip(form.inputs, shapes, strict=True):
        assert len(labels) == len(own)
        for axis, (label, n) in enumerate(zip(labels, own, strict=True)):
            if label is None:
                assert n == 1
            else:
                assert label == len(shape) - len(own) + axis
                assert shape[label] == n


@pytest.mark.parametrize("first", ["?", "i1", "u8", "f2", "f4", "c8"])
@pytest.mark.parametrize("second", [np.dtype("i8"), np.dtype("f4"), int, float, complex])
def test_loops_are_those_of_numpys_ufunc(first: str, second: Any) -> None:
    x = np.ones(2, first)
    y: Any = np.ones(2, second) if isinstance(second, np.dtype) else second(1)
    spec = (
        Spec((2,), second) if isinstance(second, np.dtype) else Spec((), np.dtype(second), second)
    )
    for ufunc in (np.add, np.true_divide, np.less):
        loop = resolve_loop(ufunc, (Spec((2,), x.dtype), spec))
        assert len(loop) == 3
        assert loop[-1] == ufunc(x, y).dtype


def test_an_elementwise_op_is_one_line(table: dict[str, Any]) -> None:
    made: Any = elementwise("_norm", lambda e, x, y: e.hypot(x, y), "Length.", dtype=np.hypot)
    found = made.rule(Spec((3, 1), np.dtype("f4")), Spec((4,), np.dtype("f4")))
    assert found.outs == (Spec((3, 4), np.dtype("f4")),)
    with pytest.raises(ValueError, match=r"_norm: operands could not be broadcast.*\(3,\) \(4,\)"):
        made.rule(Spec((3,), np.dtype("f4")), Spec((4,), np.dtype("f4")))
