"""Columns and tables of pandas, Arrow and Polars as NumPy arrays. None of them is imported here."""

from __future__ import annotations

from typing import Any

import numpy as np

LIBRARIES = ("pandas", "polars", "pyarrow")


def is_frame(obj: Any) -> bool:
    """Whether an object is a column or a table of one of the libraries."""
    return type(obj).__module__.partition(".")[0] in LIBRARIES and (
        hasattr(obj, "to_numpy") or hasattr(obj, "column_names")
    )


def frame_values(obj: Any) -> np.ndarray:
    """The numbers of a column, or of a table as one column beside the other.

    A missing value is NaN among floating-point numbers; among others it is a TypeError that names
    the column, as is a column that holds no numbers.
    """
    columns = _columns(obj)
    if columns is None:
        return _column(obj, getattr(obj, "name", None))
    found = [_column(column, name) for name, column in columns]
    if not found:
        return np.empty((len(obj), 0))
    return np.stack(found, axis=1, dtype=np.result_type(*found), casting="unsafe")


def _columns(obj: Any) -> list[tuple[Any, Any]] | None:
    """(name, column) of each column of a table; None if this is a column itself."""
    library = type(obj).__module__.partition(".")[0]
    if library == "pandas" and obj.ndim == 2:
        return [(name, obj.iloc[:, i]) for i, name in enumerate(obj.columns)]
    if library == "polars" and hasattr(obj, "get_columns"):
        return [(column.name, column) for column in obj.get_columns()]
    if library == "pyarrow" and hasattr(obj, "column_names"):
        return list(zip(obj.column_names, obj.columns, strict=True))
    return None


def _column(column: Any, name: Any) -> np.ndarray:
    library = type(column).__module__.partition(".")[0]
    said = "a column" if name is None else f"column {name!r}"
    dtype, n_missing = {"pandas": _pandas, "polars": _polars, "pyarrow": _arrow}[library](column)
    if dtype is None:
        kind = getattr(column, "dtype", None) or getattr(column, "type", None)
        raise TypeError(
            f"infinitensor holds numbers: {said} of {library} has dtype {kind}; convert or drop it "
            "first"
        )
    if n_missing and dtype.kind != "f":
        raise TypeError(
            f"{said} of {library} has {n_missing} missing values, which {dtype} cannot hold; fill "
            "them, or convert the column to floating-point numbers first"
        )
    if library == "pandas" and n_missing:
        return np.asarray(column.to_numpy(dtype=dtype, na_value=np.nan))
    values = column.to_numpy(zero_copy_only=False) if library == "pyarrow" else column.to_numpy()
    return np.asarray(values).astype(dtype, copy=False)


def _pandas(column: Any) -> tuple[np.dtype[Any] | None, int]:
    """The NumPy dtype of the numbers of a column (None: it has none), and how many are missing."""
    kind = getattr(column.dtype, "numpy_dtype", getattr(column.dtype, "subtype", column.dtype))
    dtype = kind if isinstance(kind, np.dtype) and kind.kind in "biufc" else None
    return dtype, int(column.isna().sum()) if dtype is not None and dtype.kind != "c" else 0


def _polars(column: Any) -> tuple[np.dtype[Any] | None, int]:
    kind = column.dtype
    plain = kind.is_integer() or kind.is_float() or str(kind) == "Boolean"
    return np.dtype(str(kind).lower().replace("boolean", "bool")) if plain else None, (
        column.null_count()
    )


def _arrow(column: Any) -> tuple[np.dtype[Any] | None, int]:
    try:
        dtype = np.dtype(column.type.to_pandas_dtype())
    except NotImplementedError:
        return None, 0
    return dtype if dtype.kind in "biuf" else None, column.null_count
