"""Formats of files by name: which one a path means, and what opens and writes it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from infinitensor.storage.formats.npy import NpyFile, NpyWriter
from infinitensor.storage.formats.npy_header import NotNpyError
from infinitensor.storage.formats.zarr import ZarrFile, ZarrWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from infinitensor.ir.region import Box
    from infinitensor.storage.formats.stored_array import File

    Path = str | os.PathLike[str]


class Writer(Protocol):
    """An array that appears under its name whole, when it is committed, or not at all."""

    def put(self, box: Box, values: np.ndarray[Any, Any]) -> None:
        """Write the values of a box; from any thread."""

    def __enter__(self) -> Writer: ...

    def __exit__(self, kind: object, error: object, trace: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file: what opens an array in it, and what writes one."""

    ending: str
    """How paths end that mean it."""
    open: Callable[[Path, str | None], File]
    """From a path and the name of an array in it."""
    writer: Callable[[Path, tuple[int, ...], np.dtype[Any], tuple[int, ...]], Writer]
    """From a path, a shape, a dtype and the lengths of the boxes that will be put."""
    has_chunks: bool = False
    """Whether it is cut into chunks; a folder that is opened is of such a format."""


def _open_npy(path: Path, key: str | None) -> NpyFile:
    if key is not None:
        raise ValueError(f"key={key!r}: a .npy file holds one array")
    try:
        return NpyFile(path)
    except NotNpyError as error:
        raise ValueError(f"{error}. {_remedy(os.fspath(path))}") from None


FORMATS = {
    "npy": Format(".npy", _open_npy, lambda path, shape, dtype, _: NpyWriter(path, shape, dtype)),
    "zarr": Format(
        ".zarr",
        lambda path, key: ZarrFile(_within(path, key) if key else path),
        ZarrWriter,
        has_chunks=True,
    ),
}
"""By the name that `format=` takes. A path that ends as none of them means the first."""


def format_of(path: Path, name: str | None = None) -> Format:
    """The format a user names, or else the path does.

    >>> format_of("x.zarr").ending, format_of("x").ending, format_of("x", "zarr").ending
    ('.zarr', '.npy', '.zarr')
    """
    if name is not None:
        if name not in FORMATS:
            raise ValueError(f"no format {name!r}; formats are {', '.join(FORMATS)}")
        return FORMATS[name]
    first, *others = FORMATS.values()
    text = os.fspath(path).rstrip(os.sep)
    return next((one for one in others if text.endswith(one.ending)), first)


def open_stored(path: Path, format: str | None = None, key: str | None = None) -> File:
    """The array in a file; `key` is its path in a group of arrays."""
    found = format_of(path, format)
    if format is None and not found.has_chunks and os.path.isdir(path):
        found = next(one for one in FORMATS.values() if one.has_chunks)
    return found.open(path, key)


REMEDIES = {
    ".npz": "take one of its arrays with it.load(path)[name]",
    ".csv .tsv .txt": "read text with it.loadtxt(path, delimiter=','), or tables with "
    "it.asarray(pandas.read_csv(path))",
    ".parquet .feather .arrow .orc": "give the table, it.asarray(pandas.read_parquet(path))",
    ".h5 .hdf5 .hdf .nc .mat": "give the dataset, it.asarray(h5py.File(path)[name][...])",
    ".tif .tiff .png .jpg .jpeg .bmp": "give the image, it.asarray(PIL.Image.open(path))",
    ".safetensors": "give the tensor, it.asarray(safetensors.numpy.load_file(path)[name])",
    ".raw .bin .dat": "give the map, it.asarray(numpy.memmap(path, dtype, 'r', offset, shape)): it "
    "is read tile by tile too",
}


def _remedy(path: str) -> str:
    """The remedy for a file that `it.open` does not read."""
    end = os.path.splitext(path)[1].lower()
    found = [text for ends, text in REMEDIES.items() if end and end in ends.split()]
    advice = found[0] if found else "give its values to it.asarray"
    return (
        f"it.open reads .npy files and Zarr arrays; {advice}, and it.save it as .npy or .zarr to "
        "read it tile by tile"
    )


def _within(path: Path, key: str) -> str:
    """The folder of an array in a group; a key that leads out of the group is an error."""
    parts = key.split("/")
    if os.path.isabs(key) or os.pardir in parts or os.sep in key.replace("/", ""):
        raise ValueError(f"key={key!r} leads out of the Zarr group {os.fspath(path)!r}")
    return os.path.join(path, *parts)
