"""Csr: a sparse matrix in rows, for products with dense tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from infinitensor.api.record.late import call_op
from infinitensor.api.record.record import record
from infinitensor.api.session.session import current_session
from infinitensor.api.tensor.tensor import Tensor, fresh, from_values
from infinitensor.dtypes import as_dtype, held_as
from infinitensor.ir.op import Spec
from infinitensor.ops import TABLE
from infinitensor.ops.linalg.csr_matmul import Rows

if TYPE_CHECKING:
    from infinitensor.ir.op import Call

TAKES = "a Csr takes @, sum, toarray, row slices, and * and / with a number; x.toarray() is dense"


class Csr:
    """A sparse matrix: its entries are two tensors, row after row; the starts of rows are known.

    Made by `it.csr` or by `it.asarray` of a SciPy matrix. Products are cut over rows and devices.

    >>> import infinitensor as it, scipy.sparse
    >>> a = it.csr(scipy.sparse.eye_array(3, format="csr") * 2)
    >>> (a @ it.arange(3.0)).tolist()
    [0.0, 2.0, 4.0]
    """

    __array_ufunc__ = None

    def __init__(self, data: Tensor, indices: Tensor, rows: Rows) -> None:
        self.data = data
        """The entries, row after row."""
        self.indices = indices
        """The column of each entry."""
        self._rows = rows
        self._calls: dict[Any, Call] = {}
        self._transpose: Csr | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (self._rows.n_rows, self._rows.n_columns)

    @property
    def ndim(self) -> int:
        """Two: a Csr is a matrix."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an entry."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """Entries that are stored."""
        return self.data.size

    @property
    def indptr(self) -> np.ndarray:
        """Where each row's entries start, on the host."""
        return self._rows.starts.copy()

    def _call_op(self, name: str, *operands: Tensor) -> Tensor:
        """An op of `csr_matmul.py` on the entries; its call is kept, so that its plan is found."""
        op = TABLE[name]
        refs = [t._ref() for t in (self.data, self.indices, *operands)]
        specs = tuple(Spec(ref.shape, ref.dtype) for ref in refs)
        key = (name, specs)
        if key not in self._calls:
            self._calls[key] = op.rule(*specs, self._rows)
        session = self.data._session
        with session.guard():
            return fresh(session, record(session, op, self._calls[key], refs)[0])

    def __matmul__(self, other: Any) -> Tensor:
        if isinstance(other, Csr):
            raise TypeError(f"a sparse matrix times a sparse one is not here: {TAKES}")
        return self._call_op("_csr_matmul", call_op("asarray", other))

    def __rmatmul__(self, other: Any) -> Tensor:
        dense: Tensor = call_op("asarray", other)
        return (self.T @ dense.T).T

    def toarray(self) -> Tensor:
        """The matrix with its zeros, as a tensor."""
        return self._call_op("_csr_dense")

    @property
    def T(self) -> Csr:
        """The transpose: the entries sorted by column, once."""
        if self._transpose is None:
            n_rows, n_columns = self.shape
            order = call_op("argsort", self.indices)
            columns = call_op("take", self.indices, order)
            row = np.repeat(np.arange(n_rows), np.diff(self._rows.starts))
            ends = call_op("searchsorted", columns, np.arange(n_columns + 1))
            starts = call_op("force", ends)
            indices = call_op("take", from_values(self.data._session, row), order)
            made = Csr(call_op("take", self.data, order), indices, Rows(starts, n_rows))
            made._transpose = self
            self._transpose = made
        return self._transpose

    def sum(self, axis: int | None = None) -> Tensor:
        """The sum of all entries, of each column (axis 0) or of each row (axis 1)."""
        if axis is None:
            return self.data.sum()
        if axis not in (-2, -1, 0, 1):
            raise np.exceptions.AxisError(axis, 2)
        wide = np.sum(np.empty(0, self.dtype)).dtype
        matrix = self.astype(wide) if axis % 2 else self.T.astype(wide)
        ones: Tensor = call_op("ones", matrix.shape[1], wide)
        return matrix @ ones

    def astype(self, dtype: Any) -> Csr:
        """The same matrix with entries of another dtype."""
        return self._with(self.data.astype(as_dtype(dtype)))

    def _with(self, data: Tensor) -> Csr:
        return Csr(data, self.indices, self._rows)

    def __mul__(self, other: Any) -> Csr:
        return self._with(self.data * _number("*", other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Csr:
        return self._with(self.data / _number("/", other))

    def __neg__(self) -> Csr:
        return self._with(-self.data)

    def __getitem__(self, index: Any) -> Csr:
        if not isinstance(index, slice) or index.step not in (None, 1):
            raise TypeError(f"a Csr is indexed by a slice of rows, not by {index!r}: {TAKES}")
        lo, hi, _ = index.indices(self.shape[0])
        hi = max(hi, lo)
        first, end = self._rows.entries(lo, hi)
        rows = Rows(self._rows.within(lo, hi), self.shape[1])
        return Csr(self.data[first:end], self.indices[first:end], rows)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<Csr of shape {self.shape} with {self.nnz} entries of {self.dtype}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise TypeError(f"a Csr is no array: {TAKES}")

    def _refused(self, *_: Any) -> NoReturn:
        raise TypeError(TAKES)

    _ref = __add__ = __radd__ = __sub__ = __rsub__ = __pow__ = __rtruediv__ = _refused
    __iter__ = __bool__ = _refused


def _number(sign: str, value: Any) -> Any:
    if np.ndim(value) or not isinstance(value, int | float | complex | np.generic | Tensor):
        raise TypeError(f"Csr {sign} {type(value).__name__} of shape {np.shape(value)}: {TAKES}")
    return value


def csr(matrix: Any, shape: tuple[int, int] | None = None) -> Csr:
    """A sparse matrix from SciPy's, or from `(data, indices, indptr)` and a shape.

    >>> import infinitensor as it
    >>> it.csr(([1.0, 2.0], [1, 0], [0, 1, 2]), shape=(2, 2)).toarray().tolist()
    [[0.0, 1.0], [2.0, 0.0]]
    """
    from scipy.sparse import csr_array

    if isinstance(matrix, tuple):
        if shape is None:
            raise TypeError("csr((data, indices, indptr), shape=...): give the shape")
        matrix = csr_array(tuple(np.asarray(part) for part in matrix), shape=shape)
    if getattr(matrix, "ndim", 2) != 2:
        raise ValueError(f"csr: a matrix has two axes, this has shape {matrix.shape}")
    made = csr_array(matrix)
    made.sum_duplicates()
    session = current_session()
    data = from_values(session, np.array(made.data, dtype=held_as(made.dtype)))
    indices = from_values(session, made.indices.astype(np.int64))
    return Csr(data, indices, Rows(made.indptr, made.shape[1]))
