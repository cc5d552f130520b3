"""NumPy's functions on tensors: ours of the same name runs, or an error says what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.tensor.numpy_protocols import array_ufunc, counterpart, counterparts

X = np.arange(1.0, 13.0).reshape(3, 4)
CALLS: list[Any] = [
    lambda x: np.add(x, 1),
    lambda x: np.hypot(X, x),
    lambda x: np.add.reduce(x, axis=0),
    lambda x: np.multiply.accumulate(x, axis=1),
    lambda x: np.subtract.outer(x, np.arange(2)),
    lambda x: np.concatenate([x, X]),
    lambda x: np.linalg.qr(x).R.shape,
    lambda x: np.fft.rfft(x),
    lambda x: np.quantile(x, 0.3, axis=0),
    lambda x: np.where(x > 5, x, 0),
    lambda x: np.divmod(x, 5)[1],
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_numpys_function_of_a_tensor_is_a_tensor_with_its_values(call: Any) -> None:
    want, found = call(X), call(it.asarray(X))
    assert isinstance(found, it.Tensor) or isinstance(want, tuple)
    np.testing.assert_allclose(np.asarray(found), np.asarray(want), 1e-12)


def test_a_function_is_found_by_itself_and_by_its_other_names() -> None:
    assert counterpart(np.sort, "np.sort") is it.sort
    assert counterpart(np.absolute, "np.abs") is counterpart(np.abs, "np.abs")
    assert counterparts() is counterparts()


def test_results_are_written_where_they_are_asked_for() -> None:
    x: Any = it.asarray(X)
    out: Any = it.zeros((3, 4))
    given = np.zeros((3, 4))
    assert np.sqrt(x, out=out) is out
    np.testing.assert_array_equal(out.numpy(), np.sqrt(X))
    found: Any = np.sqrt(x, out=given)
    assert found is given
    np.testing.assert_array_equal(given, np.sqrt(X))


def test_what_has_no_counterpart_says_what_to_do() -> None:
    with pytest.raises(TypeError, match="not copied to the host behind your back"):
        counterpart(len, "np.len")
    with pytest.raises(TypeError, match="a ufunc, its method and operands"):
        array_ufunc(len, "__call__", (it.ones(2),), {})  # type: ignore[arg-type]
