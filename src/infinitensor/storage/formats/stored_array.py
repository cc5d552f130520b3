"""Arrays in files: the methods all of them have, and a box of one as a lazy array."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from infinitensor.ir.region import Box, box_shape, box_size, whole_box

if TYPE_CHECKING:
    from collections.abc import Hashable
    from types import EllipsisType

    Steps = tuple[int, ...]


class Stored(Protocol):
    """An array in a file.

    `read` may be called from several threads at once; it lets go of Python's lock while it reads,
    and holds at most about 1 MiB of its own beside `out` (a compressed format: one chunk).
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def n_bytes(self) -> int: ...

    @property
    def key(self) -> Hashable:
        """Equal only where the values are equal: the file's path, size, time and inode."""

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The tiles that the file itself is cut into; None: its values are in C order."""

    def shift(self, box: Box) -> int:
        """How far behind the start of a page memory best begins that a box is read into."""

    def read(self, box: Box, out: np.ndarray[Any, Any]) -> None:
        """Fill `out`, of any strides and the shape of the box, with the values of the box."""


class Points(NamedTuple):
    """Points of some axes, and the box of the other axes that is wanted at each: of each of them
    every so many."""

    axes: tuple[int, ...]
    points: tuple[np.ndarray[Any, Any], ...]
    box: Box
    steps: Steps


class File(Stored, Protocol):
    """An array in a file of the user's, of which elements that are apart can be read."""

    path: str

    def read(self, box: Box, out: np.ndarray[Any, Any], steps: Steps | None = None) -> None:
        """The same, or of each axis of the box every so many, from its first on."""

    def read_points(self, wanted: Points, out: np.ndarray[Any, Any]) -> None:
        """Fill each `out[i]` with what is wanted at the i-th point."""


class InFile:
    """What `Stored` says of most arrays in files: values in C order, read to wherever they go."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None = None

    @property
    def n_bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def shift(self, box: Box) -> int:
        """How far behind the start of a page memory best begins that a box is read into."""
        return 0


class Part:
    """A box of a stored array, read when `read_into` is called.

    >>> import numpy as np, tempfile, os
    >>> from infinitensor.storage import NpyFile, Part
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(12.0).reshape(3, 4))
    >>> part = Part(NpyFile(path))[1:, 2:]
    >>> out = np.empty(part.shape)
    >>> part.read_into(out)
    >>> out.tolist()
    [[6.0, 7.0], [10.0, 11.0]]
    """

    __slots__ = ("box", "shape", "stored")

    def __init__(self, stored: Stored, box: Box | None = None) -> None:
        self.stored = stored
        self.box = whole_box(stored.shape) if box is None else box
        self.shape = box_shape(self.box)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.stored.dtype

    @property
    def ndim(self) -> int:
        return len(self.box)

    @property
    def size(self) -> int:
        return box_size(self.box)

    @property
    def nbytes(self) -> int:
        return self.size * self.stored.dtype.itemsize

    n_bytes = nbytes

    def __getitem__(self, index: Any) -> Part:
        """The part that slices of step 1 take; an Ellipsis stands for the axes not named."""
        parts: tuple[slice | EllipsisType, ...] = index if isinstance(index, tuple) else (index,)
        if Ellipsis in parts:
            at = parts.index(Ellipsis)
            rest = len(self.box) - (len(parts) - 1)
            parts = (*parts[:at], *(slice(None),) * rest, *parts[at + 1 :])
        box = list(self.box)
        for axis, (part, (lo, hi)) in enumerate(zip(parts, self.box, strict=False)):
            if not isinstance(part, slice) or part.step not in (None, 1):
                raise TypeError(f"a part of a file is taken by slices of step 1, not {part!r}")
            start, stop, _ = part.indices(hi - lo)
            box[axis] = (lo + start, lo + max(start, stop))
        if len(parts) > len(box):
            raise IndexError(f"{len(parts)} indices for {len(box)} axes")
        return Part(self.stored, tuple(box))

    def read_apart(self, out: np.ndarray[Any, Any], where: tuple[slice, ...]) -> None:
        """Fill `out` with the values that slices with steps take; of a file nothing else is read.

        What was spilled is checked as it is read, and so is read whole.
        """
        steps = tuple(one.step for one in where)
        if hasattr(self.stored, "read_points"):
            at = zip(where, self.box, strict=True)
            box = tuple((lo + one.start, lo + one.stop) for one, (lo, _) in at)
            file: Any = self.stored
            file.read(box, out, steps)
            return
        part = self[tuple(slice(one.start, one.stop) for one in where)]
        held = np.empty(part.shape, part.dtype)
        part.read_into(held)
        out[...] = held[tuple(slice(None, None, step) for step in steps)]

    @property
    def shift(self) -> int:
        """How far behind the start of a page memory best begins that this is read into."""
        return self.stored.shift(self.box)

    def read_into(self, out: np.ndarray[Any, Any]) -> None:
        """Fill `out`, which has this part's shape, with its values."""
        self.stored.read(self.box, out)

    def __repr__(self) -> str:
        return f"Part({self.stored!r}, {self.box})"


def check_box(
    box: Box,
    shape: tuple[int, ...],
    dtype: Any,
    values: np.ndarray[Any, Any],
    what: str,
    steps: Steps | None = None,
) -> None:
    """Check that the box is within the array, and that the memory has its shape and dtype."""
    inside = len(box) == len(shape) and all(
        0 <= lo <= hi <= n for (lo, hi), n in zip(box, shape, strict=True)
    )
    if not inside:
        raise ValueError(f"{what}: no box {box} in an array of shape {shape}")
    lengths = box_shape(box)
    if steps is not None:
        lengths = tuple(-(-n // step) for n, step in zip(lengths, steps, strict=True))
    if values.shape != lengths or values.dtype != dtype:
        raise ValueError(
            f"{what}: box {box} of {dtype} does not fit memory of shape {values.shape}, "
            f"{values.dtype}"
        )
