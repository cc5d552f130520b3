"""Some elements of an array in a file: every so many of an axis, or those that an index names.

Only they are read, and memory is taken only for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.storage.formats.stored_array import InFile, Points, check_box

if TYPE_CHECKING:
    from collections.abc import Hashable

    from infinitensor.ir.region import Box
    from infinitensor.storage.formats.stored_array import File

    Range = tuple[int, int, int]


class Picked(InFile):
    """Elements of a file as an array of their own; `Stored`.

    `points` are index arrays of one shape, none negative, over the axes `axes` of the file; they
    are the first axes here. Of each other axis there is a range of the file, in order:
    (first, end, step) with a step of at least 1.

    >>> import numpy as np, tempfile, os
    >>> from infinitensor.storage import NpyFile, Picked
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(12).reshape(4, 3))
    >>> picked = Picked(NpyFile(path), (0,), (np.array([3, 0]),), ((0, 3, 2),))
    >>> out = np.empty(picked.shape, int)
    >>> picked.read(((0, 2), (0, 2)), out)
    >>> out.tolist()
    [[9, 11], [0, 2]]
    """

    def __init__(
        self,
        stored: File,
        axes: tuple[int, ...],
        points: tuple[np.ndarray[Any, Any], ...],
        ranges: tuple[Range, ...],
    ) -> None:
        self.stored = stored
        self.axes = axes
        self.points = points
        self.ranges = ranges
        self._n_index = points[0].ndim if points else 0
        kept = tuple(len(range(*one)) for one in ranges)
        self.shape = (*(points[0].shape if points else ()), *kept)
        self.dtype = stored.dtype
        self.path = stored.path

    @property
    def key(self) -> Hashable:
        """The file's, and what is picked of it."""
        return (self.stored.key, self.axes, tuple(p.tobytes() for p in self.points), self.ranges)

    def read(self, box: Box, out: np.ndarray[Any, Any]) -> None:
        """Fill `out` with the values of a box."""
        check_box(box, self.shape, self.dtype, out, self.path)
        if not out.size:
            return
        n = self._n_index
        apart = tuple(step for _, _, step in self.ranges)
        kept = tuple(
            (first + lo * step, first + (hi - 1) * step + 1)
            for (first, _, step), (lo, hi) in zip(self.ranges, box[n:], strict=True)
        )
        if not self.axes:
            self.stored.read(kept, out, apart)
            return
        where = tuple(slice(lo, hi) for lo, hi in box[:n])
        named = tuple(points[where] for points in self.points)
        if not n:
            named, out, n = tuple(points.reshape(1) for points in named), out[None], 1
        for at in np.ndindex(named[0].shape[:-1]):  # lines along the last axis
            line = tuple(points[at] for points in named)
            self.stored.read_points(Points(self.axes, line, kept, apart), out[at])

    def __repr__(self) -> str:
        return f"Picked({self.stored!r}, shape={self.shape})"
