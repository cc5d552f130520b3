"""Values from outside: what other libraries' arrays are as NumPy's, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import infinitensor as it
from infinitensor.api.convert.foreign import (
    borrowed,
    checked_torch,
    holds_tensors,
    is_sparse,
    is_torch,
    to_host,
)


def test_kinds_of_objects_are_distinguished() -> None:
    kinds: list[tuple[Any, tuple[bool, bool, bool]]] = [
        (np.ones(2), (False, False, False)),
        (torch.ones(2), (True, False, False)),
        (sparse.eye_array(2), (False, True, False)),
        ([[1, it.ones(2)[0]], [2, 3]], (False, False, True)),
        ([[1, 2]], (False, False, False)),
    ]
    for obj, want in kinds:
        assert (is_torch(obj), is_sparse(obj), holds_tensors(obj)) == want


def test_an_array_is_taken_as_it_is_and_lists_with_tensors_are_joined() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert to_host(x) is x
    np.testing.assert_array_equal(to_host([it.asarray(x[0]), x[1]]), x)
    np.testing.assert_array_equal(to_host([[it.asarray(1.5), 2], [3, 4]]), [[1.5, 2], [3, 4]])


def test_torchs_lazy_conjugates_and_signs_are_made_up_for() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    np.testing.assert_array_equal(to_host(x.conj()), x.numpy().conj())
    np.testing.assert_array_equal(to_host(x.conj().imag), -x.numpy().imag)
    np.testing.assert_array_equal(
        to_host(torch.arange(6).reshape(2, 3).T), [[0, 3], [1, 4], [2, 5]]
    )


def test_what_has_no_dense_numbers_is_refused_with_a_remedy() -> None:
    with pytest.raises(TypeError, match="meta device"):
        checked_torch(torch.ones(2, device="meta"))
    with pytest.raises(RuntimeError, match=r"give x.detach\(\)"):
        checked_torch(torch.ones(2, requires_grad=True))
    with pytest.raises(TypeError, match=r"give x.to_dense\(\)"):
        checked_torch(torch.eye(2).to_sparse())
    for odd in (["a"], [None], np.array(["2020-01-01"], "M8[D]")):
        with pytest.raises(TypeError, match="holds numbers"):
            to_host(odd)


def test_borrowed_memory_is_shared_and_cannot_be_written() -> None:
    x = np.arange(5.0)
    seen = borrowed(x, x, x.dtype)
    x[0] = 9.0
    assert seen[0] == 9.0
    assert not seen.flags.writeable
    assert x.flags.writeable


def test_what_would_be_a_copy_is_not_borrowed() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for obj, values, dtype in [(x, x, "f4"), (x.T, x.T, "f8"), ([1.0], np.ones(1), "f8")]:
        with pytest.raises(ValueError, match="are a copy; leave copy= out"):
            borrowed(obj, values, np.dtype(dtype))
