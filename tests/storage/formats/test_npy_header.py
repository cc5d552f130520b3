"""Headers of .npy files: NumPy's, byte for byte, and nothing else is believed."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples
from tests.storage.boxes import KINDS

from infinitensor.dtypes import ALL, NUMPYS, bfloat16
from infinitensor.storage.formats.npy_header import (
    MAGIC,
    MOST_HEADER_BYTES,
    Header,
    NotNpyError,
    header_bytes,
    n_header_bytes,
    parse,
)

shapes = st.lists(st.integers(0, 20), max_size=5).map(tuple)


def parsed(head: bytes, n_value_bytes: int) -> Header:
    begin, n_bytes = n_header_bytes(head[:12])
    assert begin + n_bytes == len(head)
    return parse(head[begin:], len(head), len(head) + n_value_bytes)


def text_of(
    descr: str = "'<f4'", order: str = "False", shape: str = "(2, 3)", more: str = ""
) -> bytes:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, {more}}}".encode()


@given(shapes, st.sampled_from(NUMPYS))
@examples(30)
def test_written_header_is_numpys(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    file = io.BytesIO()
    np.save(file, np.broadcast_to(np.zeros((), dtype), shape))
    head = header_bytes(shape, dtype)
    assert file.getvalue()[: len(head)] == head


@given(shapes, st.sampled_from(ALL))
@examples(30)
def test_written_header_is_read_back(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    head = header_bytes(shape, dtype)
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    found = parsed(head, n_bytes)
    assert (found.shape, found.dtype, found.offset) == (shape, dtype, len(head))
    assert not found.fortran_order
    if n_bytes:
        with pytest.raises(ValueError, match="truncated: shape"):
            parsed(head, n_bytes - 1)


@given(shapes, st.sampled_from(KINDS), st.booleans(), st.sampled_from([(1, 0), (2, 0), (3, 0)]))
@examples(30)
def test_header_of_any_version_order_and_bytes_is_read(
    shape: tuple[int, ...], kind: str, fortran: bool, version: tuple[int, int]
) -> None:
    file = io.BytesIO()
    values = np.asarray(np.ones(shape, kind), order="F" if fortran else "C")
    np.lib.format.write_array(file, values, version)
    data = file.getvalue()
    found = parsed(data[: len(data) - values.nbytes], values.nbytes)
    assert (found.shape, found.kind) == (values.shape, values.dtype)
    assert found.dtype == values.dtype.newbyteorder("=")
    assert found.fortran_order == np.isfortran(values)


def test_start_that_is_no_npy_file_is_distinguished_from_one_that_is_broken() -> None:
    for start in (b"", MAGIC, b"PK\x03\x04" + bytes(8)):
        with pytest.raises(NotNpyError, match="does not begin as one"):
            n_header_bytes(start)
    with pytest.raises(ValueError, match=r"version 4\.0 of the \.npy format is not known"):
        n_header_bytes(MAGIC + b"\4\0" + bytes(4))
    with pytest.raises(ValueError, match=f"at most {MOST_HEADER_BYTES} are read"):
        n_header_bytes(MAGIC + b"\2\0" + (MOST_HEADER_BYTES + 1).to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[1, 2]", "no dictionary"),
        (b"{\xff}", "no text"),
        (b"{}", "does not name descr, fortran_order and shape"),
        (text_of(more="'x': 1"), "does not name descr, fortran_order and shape"),
        (text_of(more="'shape': (2,)"), "'shape' cannot be read"),
        (text_of(descr="(2,)"), "'descr' cannot be read"),
        (text_of(order="1"), "does not name descr"),
        (text_of(shape="(6)"), "is no tuple"),
        (text_of(shape="(,)"), "cannot be read"),
        (text_of(shape="(02,)"), "cannot be read"),
        (text_of(descr="'O'"), "holds no object"),
        (text_of(descr="'<f4,<f4'"), "is not one of a .npy file"),
        (text_of(descr="'<U3'"), "holds no <U3"),
        (text_of(shape="(9000000000000000000, 9)"), "larger than any array"),
        (text_of(shape="(" + "1," * 65 + ")"), "larger than any array"),
    ],
)
def test_text_outside_the_grammar_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text, 128, 1 << 62)


def test_empty_array_of_huge_axes_needs_no_bytes() -> None:
    found = parse(text_of(shape="(1000000000, 0, 1000000)"), 128, 128)
    assert found.shape == (1_000_000_000, 0, 1_000_000)


def test_lengths_of_python_2_and_two_bytes_without_a_name_are_read() -> None:
    found = parse(text_of("'<V2'", shape="(2L, 3L)"), 128, 140)
    assert (found.shape, found.dtype) == ((2, 3), bfloat16)
