"""NumPy's files: .npy by memory map, .npz and text through the host. Nothing is ever unpickled."""

from __future__ import annotations

import inspect
import os
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from infinitensor.api.access import copies
from infinitensor.api.convert import saving
from infinitensor.api.record.late import call_op
from infinitensor.api.session.array_api import check_like
from infinitensor.api.session.session import current_session
from infinitensor.api.session.signatures import signed_as
from infinitensor.api.tensor.tensor import Tensor, fresh, from_values
from infinitensor.dtypes import as_dtype, bfloat16, held_as, read_as
from infinitensor.storage import open_stored


def _read(values: np.ndarray) -> Tensor:
    """A tensor with the values of a file."""
    session = current_session()
    session.counts["bytes_read"] += values.nbytes
    if values.dtype == "V2":
        values = values.view(bfloat16)  # as which NumPy's format writes it
    plain = np.asarray(values, held_as(values.dtype), order="C")
    if isinstance(values, np.memmap) and plain.size <= 65536:
        plain = np.array(plain)  # small values stay on the host: not in the file's memory
    return from_values(session, plain)


class Archive(Mapping[str, Tensor]):
    """The arrays of a .npz file by their names, each read when it is asked for."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.files: list[str] = list(file.files)

    def __getitem__(self, name: str) -> Tensor:
        return _read(self._file[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def load(
    file: Any,
    mmap_mode: Any = None,
    allow_pickle: bool = False,
    fix_imports: bool = True,
    encoding: Any = "ASCII",
    *,
    max_header_size: int = 10000,
) -> Any:
    """The tensor of a .npy file, or the tensors of a .npz file by their names.

    A .npy file that is named by its path is read through a memory map, into tiles; with a
    `mmap_mode` it is opened as by `it.open`, and read when it is needed. Pickled objects are
    refused.

    >>> import infinitensor as it, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> it.save(path, it.arange(3))
    >>> it.load(path).tolist()
    [0, 1, 2]
    """
    if allow_pickle:
        raise ValueError("load: pickled objects run code when they are read; they are refused")
    if mmap_mode not in (None, "r", "c"):
        raise ValueError(f"load: mmap_mode={mmap_mode!r}: a tensor is not written to its file")
    by_path = isinstance(file, str | os.PathLike)
    if by_path and mmap_mode is not None and not zipfile.is_zipfile(file):
        return open(file)
    mode: Any = "r" if by_path else None
    found: Any = np.load(file, mode, encoding=encoding, max_header_size=max_header_size)
    return _read(found) if isinstance(found, np.ndarray) else Archive(found)


def open(path: Any, *, key: Any = None, dtype: Any = None, format: Any = None) -> Tensor:
    """A tensor over an array in a file, which is read when and where it is needed: lazy.

    The file may be larger than every memory here: what an evaluation touches of it is read tile by
    tile while others are computed, and let go of. It must not change while the tensor is used (that
    it did is an error). Writing to the tensor never writes to the file.

    `format` is "npy" or "zarr"; left out, a folder or a path that ends in .zarr is a Zarr array.
    `key` names an array in a Zarr group.

    >>> import infinitensor as it, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> it.save(path, it.arange(6.0).reshape(2, 3))
    >>> x = it.open(path)
    >>> x.shape, float(x.sum())
    ((2, 3), 15.0)
    """
    session = current_session()
    tensor = fresh(session, copies.of_file(session, open_stored(path, format, key)))
    return tensor if dtype is None else tensor.astype(as_dtype(dtype))


def save(
    file: Any, arr: Any, allow_pickle: bool = True, *, format: Any = None, chunks: Any = None
) -> None:
    """Write a tensor to a .npy file, or to a Zarr array.

    To a path it is written block by block, and gets its name when all of it is on the disk: a file
    that had the name stays whole until then, whatever happens. `format` is "npy" or "zarr"; left
    out, a path that ends in .zarr says so. `chunks` are the lengths of a Zarr array's chunks.

    >>> import infinitensor as it, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> it.save(path, it.arange(3) * 2)
    >>> it.load(path).tolist()
    [0, 2, 4]
    """
    x: Tensor = call_op("asarray", arr)
    if isinstance(file, str | os.PathLike):
        saving.write(file, x, format, chunks)
        return
    if format not in (None, "npy") or chunks is not None:
        raise ValueError("save: what is no path is written as .npy")
    np.save(file, x.numpy(), allow_pickle=False)
    x._session.counts["bytes_written"] += x.nbytes


def _saved(write: Any, file: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    tensors = [call_op("asarray", one) for one in (*args, *named.values())]
    values = [tensor.numpy() for tensor in tensors]
    for tensor in tensors:
        tensor._session.counts["bytes_written"] += tensor.nbytes
    write(file, *values[: len(args)], **dict(zip(named, values[len(args) :], strict=True)))


def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several tensors to a .npz file, by name or as arr_0, arr_1 ..."""
    _saved(np.savez, file, args, kwds)


def savez_compressed(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """As `savez`, compressed."""
    _saved(np.savez_compressed, file, args, kwds)


@signed_as(np.loadtxt)
def loadtxt(*args: Any, **options: Any) -> Any:
    """A tensor of the numbers in a text file; the options of `numpy.loadtxt`.

    >>> import infinitensor as it
    >>> it.loadtxt(["1 2", "3 4"]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _parse_text(np.loadtxt, args, options)


@signed_as(np.genfromtxt)
def genfromtxt(*args: Any, **options: Any) -> Any:
    """As `loadtxt`, with missing values; the options of `numpy.genfromtxt`."""
    return _parse_text(np.genfromtxt, args, options)


def _parse_text(parse: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The values that NumPy reads of a text, as tensors."""
    given = inspect.signature(parse).bind(*args, **options)
    check_like(given.arguments.pop("like", None))
    given.arguments["dtype"] = held_as(given.arguments.get("dtype", float))
    made = parse(*given.args, **given.kwargs)
    return tuple(map(_read, made)) if given.arguments.get("unpack") else _read(made)


@signed_as(np.savetxt)
def savetxt(*args: Any, **options: Any) -> None:
    """Write a tensor of one or two axes as text; the options of `numpy.savetxt`."""
    given = inspect.signature(np.savetxt).bind(*args, **options)
    x = call_op("asarray", given.arguments["X"])
    given.arguments["X"] = x.numpy()
    np.savetxt(*given.args, **given.kwargs)
    x._session.counts["bytes_written"] += x.nbytes


def fromfile(
    file: Any,
    dtype: Any = None,
    count: int = -1,
    sep: str = "",
    offset: int = 0,
    *,
    like: Any = None,
) -> Any:
    """A tensor of the numbers in a binary or text file that holds nothing else."""
    check_like(like)
    kind = held_as(dtype) if sep else read_as(dtype)
    return _read(np.fromfile(file, kind, count, sep, offset))
