"""Columns and tables of pandas, Arrow and Polars become tensors; what cannot names its column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitensor as it

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("strict_or_default")]

NAN = float("nan")
COLUMNS: dict[str, tuple[Any, Any]] = {
    "a pandas Series": (lambda: pd.Series([1, 2, 3]), np.array([1, 2, 3])),
    "a pandas Series of float32": (
        lambda: pd.Series([1.5, NAN], dtype="f4"),
        np.array([1.5, NAN], "f4"),
    ),
    "a nullable Series": (lambda: pd.Series([1, 2], dtype="Int16"), np.array([1, 2], "i2")),
    "a nullable Series with a gap": (
        lambda: pd.Series([1.5, None], dtype="Float32"),
        np.array([1.5, NAN], "f4"),
    ),
    "nullable booleans": (
        lambda: pd.Series([True, False], dtype="boolean"),
        np.array([True, False]),
    ),
    "a Series over Arrow": (
        lambda: pd.Series([1, 2], dtype="uint8[pyarrow]"),
        np.array([1, 2], "u1"),
    ),
    "a sparse Series": (lambda: pd.Series(pd.arrays.SparseArray([0, 0, 5])), np.array([0, 0, 5])),
    "a DataFrame": (
        lambda: pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}),
        np.array([[1, 0.5], [2, 1.5]]),
    ),
    "a DataFrame of integers": (
        lambda: pd.DataFrame({"a": [1, 2], "b": [True, False]}),
        np.array([[1, 1], [2, 0]]),
    ),
    "a DataFrame without columns": (lambda: pd.DataFrame(index=[1, 2]), np.empty((2, 0))),
    "a pandas Index": (lambda: pd.Index([3, 4]), np.array([3, 4])),
    "an Arrow array": (lambda: pa.array([1, 2], pa.int32()), np.array([1, 2], "i4")),
    "an Arrow array with a gap": (lambda: pa.array([1.0, None]), np.array([1, NAN])),
    "Arrow booleans": (lambda: pa.array([True, False]), np.array([True, False])),
    "a chunked array": (lambda: pa.chunked_array([[1], [2, 3]]), np.array([1, 2, 3])),
    "an Arrow table": (lambda: pa.table({"a": [1, 2], "b": [3, 4]}), np.array([[1, 3], [2, 4]])),
    "a record batch": (lambda: pa.record_batch({"a": [1.5]}), np.array([[1.5]])),
    "a Polars Series": (lambda: pl.Series("a", [1, 2], dtype=pl.UInt16), np.array([1, 2], "u2")),
    "a Polars Series with a gap": (lambda: pl.Series("a", [1.5, None]), np.array([1.5, NAN])),
    "Polars booleans": (lambda: pl.Series("a", [True, False]), np.array([True, False])),
    "a Polars DataFrame": (
        lambda: pl.DataFrame({"a": [1, 2], "b": [1.5, 2.5]}),
        np.array([[1, 1.5], [2, 2.5]]),
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_numbers_come_in(name: str) -> None:
    make, expected = COLUMNS[name]
    found = it.asarray(make())
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_a_dtype_can_be_asked_for() -> None:
    found = it.asarray(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), dtype=it.float32)
    assert found.dtype == np.float32
    assert found.tolist() == [[1, 3], [2, 4]]


REFUSED: dict[str, tuple[Any, str]] = {
    "texts of pandas": (
        lambda: pd.DataFrame({"x": [1], "name": ["a"]}),
        r"column 'name' of pandas has dtype \w+; convert",
    ),
    "dates of pandas": (
        lambda: pd.Series(pd.to_datetime(["2026-01-01"]), name="day"),
        r"column 'day' of pandas has dtype datetime",
    ),
    "categories of pandas": (
        lambda: pd.DataFrame({"c": pd.Categorical(["a"])}),
        "column 'c' of pandas has dtype category",
    ),
    "a gap of pandas": (
        lambda: pd.DataFrame({"n": pd.Series([1, None], dtype="Int64")}),
        "column 'n' of pandas has 1 missing values, which int64",
    ),
    "texts of Arrow": (lambda: pa.table({"s": ["a"]}), "column 's' of pyarrow has dtype string"),
    "a gap of Arrow": (
        lambda: pa.table({"n": pa.array([1, None])}),
        "column 'n' of pyarrow has 1 missing values",
    ),
    "lists of Arrow": (lambda: pa.array([[1], [2]]), "a column of pyarrow has dtype list"),
    "texts of Polars": (
        lambda: pl.DataFrame({"s": ["a"]}),
        "column 's' of polars has dtype String",
    ),
    "a gap of Polars": (
        lambda: pl.Series("n", [True, None]),
        "column 'n' of polars has 1 missing values, which bool",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_number_names_its_column(name: str) -> None:
    make, text = REFUSED[name]
    with pytest.raises(TypeError, match=text):
        it.asarray(make())


def test_a_tensor_becomes_a_column_again() -> None:
    x = it.asarray(pd.Series([1.0, 2.0])) * 2
    assert pd.Series(x.numpy()).tolist() == pl.Series(x.numpy()).to_list() == [2.0, 4.0]
    assert pa.array(np.from_dlpack(x)).to_pylist() == [2.0, 4.0]
