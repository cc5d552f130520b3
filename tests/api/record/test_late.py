"""Functions that higher files enter: found by name, internal ones too."""

from __future__ import annotations

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.record.late import call_op, function_named, is_tensor, late, new_tensor
from infinitensor.ops import TABLE


def test_every_op_of_the_table_can_be_called_by_its_name() -> None:
    missing = [name for name in TABLE if "." not in name and not callable(function_named(name))]
    assert missing == []


def test_a_call_by_name_is_the_call() -> None:
    x = it.asarray(np.arange(4.0))
    np.testing.assert_array_equal(call_op("sum", x).numpy(), 6.0)
    np.testing.assert_array_equal(call_op("sum", x, axis=0, keepdims=True).numpy(), [6.0])
    with pytest.raises(AttributeError, match="no_such_op"):
        call_op("no_such_op", x)


def test_tensors_are_distinguished_from_arrays() -> None:
    assert is_tensor(it.asarray([1.0]))
    assert not is_tensor(np.array([1.0]))
    assert not is_tensor(1.0)


def test_a_new_tensor_shows_a_version_in_the_session_of_another() -> None:
    with it.init("cpu"):
        x = it.asarray(np.arange(100_000.0))
        made = new_tensor(x, (x + 1)._version)
        assert made is not x
        assert made._session is x._session
        assert float(made[3]) == 4.0


def test_public_functions_are_those_of_the_package() -> None:
    for name in ("sum", "sort", "asarray", "compute"):
        assert late.public[name] is getattr(it, name)
