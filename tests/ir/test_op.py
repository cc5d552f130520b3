"""Ops: what their axis forms say of shapes, cuts and work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infinitensor.ir.op import AxisForm, Op, Spec, call, n_points, no_scratch

from .budget import examples


def op(**given: Any) -> Op:
    return Op("name", "mapped", rule=lambda *specs: call(FORM), arrays=("x",), doc="", **given)


FORM = AxisForm((4, 5, 6), ((0, 1), (1, 2)), ((0, 2),))


@given(st.lists(st.integers(0, 5), max_size=4), st.sampled_from(["?", "f2", "i4", "c16"]))
@examples(60)
def test_spec_is_as_large_as_the_array(shape: list[int], dtype: str) -> None:
    array = np.empty(shape, dtype)
    spec = Spec(array.shape, array.dtype)
    assert (spec.ndim, spec.n_elements, spec.n_bytes) == (array.ndim, array.size, array.nbytes)


@pytest.mark.parametrize(
    ("form", "contracted"),
    [
        (FORM, (1,)),
        (AxisForm((4, 5), ((0, 1),), ((0, 1),)), ()),
        (AxisForm((4, 5), ((0, 1),), ((None, None),)), (0, 1)),
        (AxisForm((4, 5), ((0, 1),), ((0,), (1,))), ()),
        (AxisForm((), ((),), ((),)), ()),
    ],
)
def test_labels_that_no_output_has_are_contracted(
    form: AxisForm, contracted: tuple[int, ...]
) -> None:
    assert form.contracted == contracted


def test_call_is_a_key_of_its_parameters() -> None:
    spec = Spec((4, 6), np.dtype("f4"))
    one, same = call(FORM, spec, axis=1, keep=True), call(FORM, spec, axis=1, keep=True)
    assert one == same
    assert hash(one) == hash(same)
    assert dict(one.params) == {"axis": 1, "keep": True}
    assert one != call(FORM, spec, axis=0, keep=True)


def test_device_has_its_own_kernel_or_the_common_one() -> None:
    def common() -> None: ...
    def own() -> None: ...

    made = op(kernel=common, kernels={"cuda": own})
    assert (made.kernel_for("cuda"), made.kernel_for("cpu")) == (own, common)
    with pytest.raises(AssertionError, match="name"):
        op(kernels={"cuda": own}).kernel_for("cpu")
    assert made.scratch_bytes is no_scratch
    assert no_scratch([], [], {}) == 0


def test_work_grows_with_all_labels_and_of_pairs_with_those_of_inputs() -> None:
    assert n_points(op(), call(FORM)) == 4 * 5 * 6
    nearest = AxisForm((4, 5, 6, 3), ((0, 1), (2, 1)), ((0, 3),))  # 3 of each are only results
    assert n_points(op(), call(nearest)) == 4 * 5 * 6 * 3
    assert n_points(op(pairs=True), call(nearest)) == 4 * 5 * 6


def test_work_of_a_reduction_is_what_it_looks_at() -> None:
    bins = AxisForm((1000, 65, 64), ((0,), (1,)), ((2,),), frozenset((1, 2)))
    made = Op("name", "reduction", rule=lambda *specs: call(bins), arrays=("x", "y"), doc="")
    assert n_points(made, call(bins)) == 1000
