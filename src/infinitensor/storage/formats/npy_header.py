"""The header of a .npy file, by a grammar of our own: nothing in it is evaluated or trusted.

Every number is checked against the size of the file before anything is allocated for it.
"""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from infinitensor.dtypes import bfloat16, held_as

MAGIC = b"\x93NUMPY"
MOST_HEADER_BYTES = 16 << 10
"""NumPy writes 64 to 192 bytes for what we hold."""
MOST_AXES = 64
MOST_BYTES = (1 << 63) - 1
ENTRY = re.compile(
    r"\s*(?P<quote>['\"])(?P<name>descr|fortran_order|shape)(?P=quote)\s*:\s*"
    r"(?:(?P<mark>['\"])(?P<text>[^'\"]{0,64})(?P=mark)|(?P<flag>True|False)"
    r"|\((?P<shape>[0-9L,\s]*)\))\s*(?P<comma>,?)"
)
LENGTH = re.compile(r"\s*(0|[1-9][0-9]{0,18})L?\s*")


@dataclass(frozen=True, slots=True)
class Header:
    """The values of a .npy file and their offset; `kind` is the dtype with its byte order."""

    shape: tuple[int, ...]
    kind: np.dtype[Any]
    fortran_order: bool
    offset: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return held_as(self.kind)


class NotNpyError(ValueError):
    """A file is no .npy file at all, rather than a broken one."""


def n_header_bytes(start: bytes) -> tuple[int, int]:
    """Where the text begins and how long it is, from the first 12 bytes of a file."""
    if len(start) < 10 or start[:6] != MAGIC:
        raise NotNpyError("no .npy file: it does not begin as one")
    if start[6] not in (1, 2, 3) or start[7] != 0:
        raise ValueError(f"version {start[6]}.{start[7]} of the .npy format is not known")
    begin = 10 if start[6] == 1 else 12
    n_bytes = int.from_bytes(start[8:begin], "little")
    if len(start) < begin or n_bytes > MOST_HEADER_BYTES:
        raise ValueError(f"a header of {n_bytes} bytes; at most {MOST_HEADER_BYTES} are read")
    return begin, n_bytes


def parse(text: bytes, offset: int, n_file_bytes: int) -> Header:
    """The header that `text` says, for a file of `n_file_bytes` whose values begin at `offset`."""
    entries = _entries(text)
    kind = _kind(entries["descr"])
    shape = _shape(entries["shape"])
    n_bytes = math.prod(n for n in shape if n) * kind.itemsize
    if len(shape) > MOST_AXES or n_bytes > MOST_BYTES:
        raise ValueError(f"shape {entries['shape'][:80]!r} is larger than any array")
    needed = offset + (n_bytes if all(shape) else 0)
    if needed > n_file_bytes:
        raise ValueError(
            f"truncated: shape {shape} of {kind} ends at byte {needed}, the file has {n_file_bytes}"
        )
    return Header(shape, kind, entries["fortran_order"] == "True", offset)


def _entries(text: bytes) -> dict[str, str]:
    """The three entries as text."""
    try:
        line = text.decode("ascii").strip()
    except UnicodeDecodeError:
        raise ValueError("the header is no text") from None
    if not (line.startswith("{") and line.endswith("}")):
        raise ValueError("the header is no dictionary")
    entries: dict[str, str] = {}
    at, end, more = 1, len(line) - 1, True
    while more and (found := ENTRY.match(line, at, end)):
        group = {"descr": "text", "fortran_order": "flag", "shape": "shape"}[found["name"]]
        if found[group] is None or found["name"] in entries:
            raise ValueError(f"the header's {found['name']!r} cannot be read")
        entries[found["name"]] = found[group]
        at, more = found.end(), bool(found["comma"])
    if len(entries) != 3 or line[at:end].strip():
        raise ValueError("the header does not name descr, fortran_order and shape of plain values")
    return entries


def _kind(text: str) -> np.dtype[Any]:
    kind: np.dtype[Any]
    if re.fullmatch(r"[<>=|]?V2", text):
        kind = bfloat16
        return kind  # as which NumPy's format writes it
    if not re.fullmatch(r"[<>=|]?[?a-zA-Z][0-9]{0,4}", text):
        raise ValueError(f"dtype {text!r} is not one of a .npy file")
    try:
        kind = np.dtype(text)
        held_as(kind)
    except TypeError as error:
        raise ValueError(f"dtype {text!r}: {error}") from None
    return kind


def _shape(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not parts[-1].strip():
        parts.pop()
    elif len(parts) == 1:
        raise ValueError(f"shape ({text[:80]}) is no tuple")
    lengths = [LENGTH.fullmatch(part) for part in parts]
    if not all(lengths):
        raise ValueError(f"shape ({text[:80]}) cannot be read")
    return tuple(int(length[1]) for length in lengths if length)


def header_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """The header of a file with these values in C order, byte for byte as NumPy writes it."""
    descr = "<V2" if dtype == bfloat16 else np.lib.format.dtype_to_descr(dtype)
    file = io.BytesIO()
    entries = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, entries)
    return file.getvalue()
