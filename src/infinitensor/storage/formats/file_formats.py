"""Formats of files by name: which one a path means, and what opens and writes it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from infinitensor.storage.formats.npy import NpyFile, NpyWriter
from infinitensor.storage.formats.npy_header import NotNpyError
from infinitensor.storage.formats.zarr import ZarrFile, ZarrWriter

if TYPE_CHECKING:
    import numpy as np

    from infinitensor.ir.region import Box
    from infinitensor.storage.formats.stored_array import Stored

FORMATS = ("npy", "zarr")


class Writer(Protocol):
    """An array that appears under its name whole, when it is committed, or not at all."""

    def put(self, box: Box, values: np.ndarray[Any, Any]) -> None:
        """Write the values of a box; from any thread."""

    def __enter__(self) -> Writer: ...

    def __exit__(self, kind: object, error: object, trace: object) -> None: ...


def format_of(path: str | os.PathLike[str], name: str | None = None) -> str:
    """The format a user names, or else the path does; "npy" where neither does.

    >>> format_of("x.zarr"), format_of("x"), format_of("x", "zarr")
    ('zarr', 'npy', 'zarr')
    """
    if name is None:
        return "zarr" if os.fspath(path).rstrip(os.sep).endswith(".zarr") else "npy"
    if name not in FORMATS:
        raise ValueError(f"no format {name!r}; formats are {', '.join(FORMATS)}")
    return name


def open_stored(
    path: str | os.PathLike[str], format: str | None = None, key: str | None = None
) -> Stored:
    """The array in a file; `key` is its path in a Zarr group."""
    if format_of(path, format) == "zarr" or (format is None and os.path.isdir(path)):
        return ZarrFile(_within(path, key) if key else path)
    if key is not None:
        raise ValueError(f"key={key!r}: a .npy file holds one array")
    try:
        return NpyFile(path)
    except NotNpyError as error:
        raise ValueError(f"{error}. {_remedy(os.fspath(path))}") from None


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


def _within(path: str | os.PathLike[str], key: str) -> str:
    """The folder of an array in a group; a key that leads out of the group is an error."""
    parts = key.split("/")
    if os.path.isabs(key) or os.pardir in parts or os.sep in key.replace("/", ""):
        raise ValueError(f"key={key!r} leads out of the Zarr group {os.fspath(path)!r}")
    return os.path.join(path, *parts)


def open_writer(
    path: str | os.PathLike[str],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    format: str,
    chunks: tuple[int, ...],
) -> Writer:
    """A writer that takes boxes of whole chunks."""
    if format == "zarr":
        return ZarrWriter(path, shape, dtype, chunks)
    return NpyWriter(path, shape, dtype)
