"""Inputs: what a user gives, as points that kernels can read, checked as scikit-learn checks them.

Host arrays, tables and sparse matrices go through scikit-learn's own validation. Tensors, files and
arrays on a GPU are checked where they are: their shape and dtype by the same code on an array
without values, their values by a reduction over tiles. Nothing is copied to the host.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.validation import validate_data

import infinitensor as it
from infinitensor.api.convert.foreign import is_torch, to_host
from infinitensor.dtypes import bfloat16, kind_of
from infinitensor.lazy_torch import torch

FLOATS = (np.float64, np.float32)


@dataclass(frozen=True, slots=True)
class Points:
    """n points of d numbers each, borrowed from the user for the length of a call."""

    n: int
    d: int
    dtype: np.dtype[Any]
    dense: it.Tensor | None
    """The points as a tensor; None if they are sparse."""
    host: np.ndarray | None = None
    """The same values on the host, without a copy, if they are stored there."""
    sparse: Any = None
    """The points as a CSR matrix of SciPy (or what `accept_sparse` allows), if they are sparse."""

    @property
    def tensor(self) -> it.Tensor:
        """The points as a tensor; they must be dense."""
        assert self.dense is not None, "these points are sparse"
        return self.dense


def points(X: Any, estimator: Any = None, *, reset: bool = True, **checks: Any) -> Points:
    """A user's `X`, checked with scikit-learn's rules, errors and texts.

    `X` is an array (NumPy, torch, CuPy), a table (pandas, Polars, Arrow), a sparse matrix (SciPy,
    `it.Csr`), a tensor, or the path of a file that `it.open` opens. `estimator` gets
    `n_features_in_` and `feature_names_in_` if `reset`, and is held to them if not; a function
    gives its name or nothing. `checks` are those of `sklearn.utils.check_array`.

    >>> points(np.ones((3, 2), np.float32)).dtype
    dtype('float32')
    """
    checks = {"dtype": list(FLOATS), **checks}
    tensor = _elsewhere(X)
    if tensor is not None:
        return _stream(tensor, estimator, reset, checks)
    values = _native(_validate(_plain(X), estimator, reset, checks))
    n, d = values.shape
    if scipy.sparse.issparse(values):
        return Points(n, d, values.dtype, None, sparse=values)
    return Points(n, d, values.dtype, borrow(values), host=values)


def borrow(values: np.ndarray) -> it.Tensor:
    """A tensor over an array's own memory if it is in C or Fortran order, else over a copy.

    The array must not change while the tensor is used.
    """
    values = _native(values)
    if values.flags.f_contiguous and not values.flags.c_contiguous:
        return it.asarray(values.T, copy=False).T
    return it.asarray(np.ascontiguousarray(values), copy=False)


def _native(values: Any) -> Any:
    """Values that tensors have: in the byte order of this machine, long doubles as float64."""
    dtype = values.dtype.newbyteorder("=")
    dtype = np.dtype(np.float64) if dtype == np.longdouble else dtype
    return values if values.dtype == dtype else values.astype(dtype)


def open_if_elsewhere(X: Any) -> Any:
    """A tensor for what is not on the host (a file, an array on a GPU); the rest as it is."""
    tensor = _elsewhere(X)
    return X if tensor is None else tensor


def as_result(tensor: it.Tensor) -> Any:
    """A result as long as the points: a NumPy array, or lazy where `config.lazy_results` asks."""
    return tensor if it.config.lazy_results else tensor.numpy()


def on_host(value: Any, *, may_be_path: bool = False) -> Any:
    """A host array that scikit-learn can read, of a tensor, a file or an array on a GPU.

    Everything else as it is.
    """
    if isinstance(value, str | os.PathLike) and not may_be_path:
        return value
    tensor = _elsewhere(value)
    return _plain(value) if tensor is None else tensor.numpy()


def _elsewhere(X: Any) -> it.Tensor | None:
    """A tensor of what is not on the host: tensors, files, arrays on a GPU. None if it is."""
    if isinstance(X, it.Tensor):
        return X
    if isinstance(X, str | os.PathLike):
        return it.open(X)
    if is_torch(X):
        return it.asarray(X) if X.is_cuda else None
    if hasattr(X, "__cuda_array_interface__"):
        return it.asarray(torch.as_tensor(X))
    return None


def _plain(X: Any) -> Any:
    """The points as scikit-learn's validation takes them."""
    if isinstance(X, it.Csr):
        few = max(X.nnz, *X.shape) < 2**31  # scikit-learn's own kernels take such indices only
        kind = np.int32 if few else np.int64
        where = (X.indices.numpy().astype(kind), X.indptr.astype(kind))
        return scipy.sparse.csr_array((X.data.numpy(), *where), shape=X.shape)
    if is_torch(X):
        values = to_host(X)
        return values.astype(np.float32) if values.dtype == bfloat16 else values
    return X


def _validate(X: Any, estimator: Any, reset: bool, checks: dict[str, Any]) -> Any:
    if estimator is None or isinstance(estimator, str):
        return check_array(X, estimator=estimator, input_name="X", **checks)
    return validate_data(estimator, X, reset=reset, **checks)


def _stream(tensor: it.Tensor, estimator: Any, reset: bool, checks: dict[str, Any]) -> Points:
    """Points that stay where they are."""
    wanted = tensor.dtype if checks["dtype"] in (None, "numeric") else checks["dtype"]
    kinds = [np.dtype(one) for one in (wanted if isinstance(wanted, list | tuple) else [wanted])]
    dtype = tensor.dtype if tensor.dtype in kinds or kind_of(tensor.dtype) == "c" else kinds[0]
    stand_in = np.broadcast_to(np.zeros((), dtype), tensor.shape)
    rules = {k: v for k, v in checks.items() if k not in ("order", "copy", "dtype")}
    finite = rules.pop("ensure_all_finite", True)
    _validate(stand_in, estimator, reset, {**rules, "dtype": None, "ensure_all_finite": False})
    given = tensor if tensor.dtype == dtype else tensor.astype(dtype)
    if finite is not False and kind_of(tensor.dtype) == "f":
        _check_finite(tensor, given.dtype, estimator, allow_nan=finite == "allow-nan")
    n, d = given.shape
    return Points(n, d, given.dtype, given)


def _check_finite(tensor: it.Tensor, dtype: Any, estimator: Any, *, allow_nan: bool) -> None:
    """scikit-learn's error for values that are not finite, found by reductions over tiles."""
    if bool(it.isfinite(tensor).all()):
        return
    found = [np.inf] if bool(it.isinf(tensor).any()) else []
    found += [np.nan] if bool(it.isnan(tensor).any()) else []
    name = estimator if isinstance(estimator, str) else type(estimator).__name__
    assert_all_finite(
        np.array(found, dtype),
        allow_nan=allow_nan,
        estimator_name=None if estimator is None else name,
        input_name="X",
    )
