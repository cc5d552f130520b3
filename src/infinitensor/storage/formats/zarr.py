"""Zarr arrays (versions 2 and 3) in local folders, through the zarr package, imported when needed.

What the package would do with a forged file is decided here first: metadata is short, names only
codecs that are known to do nothing but code, and only arrays that can exist.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import stat
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import as_dtype, bfloat16, held_as
from infinitensor.ir.region import Box, pick_in_tile
from infinitensor.storage.file_io.syscalls import open_file, read_at, report_call, sync_path
from infinitensor.storage.file_io.temporary import Unfinished, discard, new_folder, put_folder
from infinitensor.storage.formats.chunk_size import COMPRESSORS, unpacks_beyond
from infinitensor.storage.formats.npy import changed_file_error
from infinitensor.storage.formats.stored_array import InFile, check_box

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from infinitensor.storage.formats.stored_array import Points

METADATA = ("zarr.json", ".zarray")
MOST_METADATA_BYTES = 256 << 10
MOST_AXES = 64
MOST_BYTES = (1 << 63) - 1
MOST_CHUNK_BYTES = 2 << 30
_NAMES = """
adler32 bitround blosc bytes bz2 crc32 crc32c delta endian fixedscaleoffset fletcher32 gzip
jenkins_lookup3 lz4 lzma packbits quantize shuffle sharding_indexed transpose zlib zstd
"""
CODECS = frozenset(_NAMES.split())
"""Not among them: pickle, which runs what a file says."""
MOST_WIDER = 16
"""How much wider an element may be where it is compressed: int8 kept as complex128."""
FREE_BYTES = 64 << 10
"""Bytes that any chunk may unpack to."""


def package() -> ModuleType:
    """The zarr package, or an ImportError that says how to get it."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError(
            "Zarr arrays need the zarr package: pip install 'infinitensor[io]'"
        ) from error
    return zarr


def is_array(path: str) -> bool:
    """Whether a folder holds a Zarr array, as far as its metadata says."""
    try:
        check_metadata(_metadata(path))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    return True


class ZarrFile(InFile):
    """A Zarr array in a folder; a chunk is read and decoded at a time.

    A chunk that is not there holds the fill value, as Zarr says. A chunk or the metadata that is
    written after the array was opened is noticed by its time, and `read` raises OSError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        zarr = package()
        self.path = os.path.abspath(path)
        self._opened_ns = time.time_ns()
        self._stamp = self._stamp_now()
        try:
            self._codec = check_metadata(_metadata(self.path))
            store = zarr.storage.LocalStore(self.path, read_only=True)
            self._array = zarr.open_array(store, mode="r")
            self.dtype = held_as(self._array.dtype)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # whatever the package makes of a file that is none
            raise ValueError(f"{self.path}: no Zarr array we can read: {error}") from error
        self.shape = tuple(self._array.shape)
        self.chunks: tuple[int, ...] = tuple(self._array.shards or self._array.chunks)
        self.key = (self.path, *self._stamp)
        if math.prod(self.chunks) * self.dtype.itemsize > MOST_CHUNK_BYTES:
            raise ValueError(f"{self.path}: chunks {self.chunks} are larger than any we read")

    def _stamp_now(self) -> tuple[int, int, int]:
        for name in METADATA:
            try:
                found = os.stat(os.path.join(self.path, name))
            except (FileNotFoundError, NotADirectoryError):
                continue
            return (found.st_size, found.st_mtime_ns, found.st_ino)
        raise FileNotFoundError(f"{self.path}: no Zarr array: it has no zarr.json or .zarray")

    def read(
        self, box: Box, out: np.ndarray[Any, Any], steps: tuple[int, ...] | None = None
    ) -> None:
        """Fill `out` with the values of a box, or of each axis of it with every so many."""
        check_box(box, self.shape, self.dtype, out, self.path, steps)
        if not out.size:
            return
        if self._stamp_now() != self._stamp:
            raise changed_file_error(self.path, "its metadata is another")
        apart = (1,) * len(box) if steps is None else steps
        for index, spot, part in _picked_chunks(box, apart, self.chunks):
            name = self._array.metadata.encode_chunk_key(index)
            self._unchanged(name)  # nothing is read of what cannot be read safely
            there: Any = (..., *spot)
            self._read_chunk(name, part, out[there])
            self._unchanged(name)

    def read_points(self, wanted: Points, out: np.ndarray[Any, Any]) -> None:
        """Fill each `out[i]` with what is wanted at the i-th point."""
        axes, points, _, _ = wanted
        at = np.stack([p // self.chunks[a] for a, p in zip(axes, points, strict=True)])
        chunks, group = np.unique(at, axis=1, return_inverse=True)
        for k in range(chunks.shape[1]):
            here = np.flatnonzero(group.reshape(-1) == k)
            self._read_some(wanted._replace(points=tuple(p[here] for p in points)), here, out)

    def _read_some(
        self, wanted: Points, here: np.ndarray[Any, Any], out: np.ndarray[Any, Any]
    ) -> None:
        """Fill `out[here]`, of points that are in one chunk along their axes."""
        axes, points, box, steps = wanted
        others = [axis for axis in range(len(self.shape)) if axis not in axes]
        lengths = tuple(self.chunks[axis] for axis in others)
        hull = [slice(int(p.min()), int(p.max()) + 1, 1) for p in points]
        for _, there, kept in _picked_chunks(box, steps, lengths):
            parts = dict(zip((*axes, *others), (*hull, *kept), strict=True))
            slices = [parts[axis] for axis in range(len(self.shape))]
            held = np.empty([len(range(p.start, p.stop, p.step)) for p in slices], self.dtype)
            part = tuple((p.start, p.stop) for p in slices)
            self.read(part, held, tuple(p.step for p in slices))
            front = np.moveaxis(held, axes, range(len(axes)))
            spots = tuple(p - one.start for p, one in zip(points, hull, strict=True))
            spot: Any = (here, *there)
            out[spot] = front[spots]

    def _read_chunk(self, name: str, part: tuple[slice, ...], out: np.ndarray[Any, Any]) -> None:
        report_call("read", self.path, 0, out.nbytes)
        full, n_bytes = os.path.join(self.path, name), math.prod(self.chunks) * self.dtype.itemsize
        if self._codec and os.path.exists(full):
            most_bytes = MOST_WIDER * n_bytes + FREE_BYTES
            if unpacks_beyond(full, self._codec, most_bytes):
                raise ValueError(
                    f"{self.path}: chunk {name} unpacks to more than {most_bytes} bytes, "
                    f"but chunks of the array have {n_bytes}"
                )
        try:
            out[...] = self._array[part]
        except (OSError, MemoryError):
            raise
        except Exception as error:  # whatever a codec makes of bytes that are none of its own
            box = tuple((one.start, one.stop) for one in part)
            raise ValueError(f"{self.path}: box {box} cannot be decoded: {error}") from error

    def _unchanged(self, name: str) -> None:
        """A chunk is a plain file, and not younger than this object."""
        try:
            found = os.stat(os.path.join(self.path, name))
        except FileNotFoundError:
            return
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{self.path}: chunk {name} is no regular file")
        if found.st_mtime_ns > self._opened_ns:
            raise changed_file_error(self.path, f"chunk {name} was written")

    def __repr__(self) -> str:
        return f"ZarrFile({self.path!r}, shape={self.shape}, dtype={self.dtype})"


def _picked_chunks(
    box: Box, steps: tuple[int, ...], lengths: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """Chunks that a box with steps takes something of: which, where it goes, what of the array."""
    grid = [range(lo // n, -(-hi // n)) for (lo, hi), n in zip(box, lengths, strict=True)]
    for index in itertools.product(*grid):
        whole = tuple((i * n, (i + 1) * n) for i, n in zip(index, lengths, strict=True))
        found = pick_in_tile(box, steps, whole)
        if found is not None:
            yield index, *found


def _metadata(path: str) -> Any:
    """The metadata as JSON, if it and what the package reads beside it is short."""
    for name in (*METADATA, ".zattrs"):
        full = os.path.join(path, name)
        found = os.stat(full) if os.path.exists(full) else None
        if found and (found.st_size > MOST_METADATA_BYTES or not stat.S_ISREG(found.st_mode)):
            raise ValueError(f"{name} is no file of at most {MOST_METADATA_BYTES} bytes")
    full = os.path.join(path, METADATA[not os.path.exists(os.path.join(path, METADATA[0]))])
    file = open_file(full, os.O_RDONLY)
    try:
        text = bytearray(MOST_METADATA_BYTES)
        n_bytes = read_at(file, full, 0, memoryview(text))
    finally:
        os.close(file)
    try:
        return json.loads(bytes(text[:n_bytes]))
    except RecursionError:
        raise ValueError("metadata that is nested too deep") from None


def check_metadata(metadata: Any) -> str:
    """The name of the codec that compresses chunks, "" where none does (or one in shards).

    Raises ValueError for an array that cannot be, or that names an unknown codec.
    """
    metadata = metadata if isinstance(metadata, dict) else {}
    if metadata.get("node_type", "array") != "array":
        raise ValueError("a group; name one of its arrays")
    shape = _lengths(metadata.get("shape"), "shape")
    grid = metadata.get("chunk_grid")
    if isinstance(grid, dict) and isinstance(grid.get("configuration"), dict):
        grid = grid["configuration"].get("chunk_shape")
    chunks = _lengths(metadata.get("chunks") if grid is None else grid, "chunks")
    if len(chunks) != len(shape) or not all(chunks):
        raise ValueError(f"chunks {chunks} of an array of shape {shape}")
    if math.prod(n for n in shape if n) > MOST_BYTES // 16:
        raise ValueError(f"shape {shape} is larger than any array")
    codecs = [metadata.get("compressor"), metadata.get("filters"), metadata.get("codecs")]
    _check_codecs(codecs)
    names = [
        _codec_name(one) for part in codecs for one in (part if isinstance(part, list) else [part])
    ]
    packed = [name for name in names if name in COMPRESSORS]
    if len(packed) > 1:
        raise ValueError(f"chunks are compressed {len(packed)} times ({', '.join(packed)})")
    return packed[0] if packed else ""


def _lengths(value: Any, what: str) -> tuple[int, ...]:
    good = isinstance(value, list) and len(value) <= MOST_AXES
    if not good or not all(type(n) is int and 0 <= n <= MOST_BYTES for n in value):
        raise ValueError(f"{what} {str(value)[:80]} cannot be read")
    return tuple(value)


def _check_codecs(codec: Any) -> None:
    """Codecs, and the codecs within them."""
    if isinstance(codec, list):
        for one in codec:
            _check_codecs(one)
    elif isinstance(codec, dict):
        name = _codec_name(codec)
        if name not in CODECS:
            raise ValueError(f"codec {name[:80]!r} is not one we let decode files")
        settings = codec.get("configuration")
        if isinstance(settings, dict):
            _check_codecs([settings.get("codecs"), settings.get("index_codecs")])
    elif codec is not None and codec not in CODECS:
        raise ValueError(f"codec {str(codec)[:80]!r} is not one we let decode files")


def _codec_name(codec: Any) -> str:
    if isinstance(codec, dict):
        codec = codec.get("id", codec.get("name"))
    return str(codec).removeprefix("numcodecs.")


class ZarrWriter(Unfinished):
    """A Zarr array that appears under its name whole, when `commit` is called, or not at all.

    Boxes are put from any thread and cover whole chunks. As for `NpyWriter`, leaving a `with` block
    commits, an exception in it removes what was written, and an older array keeps its name until
    then. What stands under the name and is no Zarr array is never replaced.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        chunks: tuple[int, ...],
        *,
        version: int = 3,
    ) -> None:
        zarr = package()
        self.path = os.path.realpath(path)
        self.shape = shape
        self.dtype = as_dtype(dtype)
        self.chunks = tuple(max(1, min(n, length)) for n, length in zip(chunks, shape, strict=True))
        if self.dtype == bfloat16:
            raise TypeError("Zarr has no bfloat16; save x.astype('float32'), or a .npy file")
        self._check_target()
        self._made, self._file = new_folder(self.path)
        self._discard = weakref.finalize(self, discard, self._made, self._file, os.getpid())
        try:
            self._array = zarr.create_array(
                zarr.storage.LocalStore(self._made),
                shape=shape,
                dtype=self.dtype,
                chunks=self.chunks,
                zarr_format=version,
                config={"write_empty_chunks": True},
            )
        except BaseException:
            self.abort()
            raise

    def _check_target(self) -> None:
        if os.path.lexists(self.path) and not is_array(self.path):
            raise FileExistsError(f"{self.path} is no Zarr array, and is not replaced by one")

    def put(self, box: Box, values: np.ndarray[Any, Any]) -> None:
        """Write the values of a box that covers whole chunks."""
        check_box(box, self.shape, self.dtype, values, self.path)
        for (lo, hi), n, length in zip(box, self.chunks, self.shape, strict=True):
            if lo % n or (hi % n and hi != length):
                raise ValueError(f"{self.path}: box {box} cuts chunks of shape {self.chunks}")
        report_call("write", self._made, 0, values.nbytes)
        if values.size:
            self._array[tuple(slice(lo, hi) for lo, hi in box)] = values

    def _finish(self) -> None:
        for folder, _, names in os.walk(self._made):
            for name in (*names, ""):
                sync_path(os.path.join(folder, name))
        self._check_target()
        put_folder(self._made, self.path)
