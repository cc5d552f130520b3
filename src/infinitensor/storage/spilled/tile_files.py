"""Tiles of one tensor in several files, as one stored array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.ir.region import overlap, relative, tile_box, tiles_over
from infinitensor.storage.formats.stored_array import InFile, check_box

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np

    from infinitensor.ir.region import Box, Cuts
    from infinitensor.storage.formats.stored_array import Part


class Joined(InFile):
    """Parts of files side by side, cut as `cuts` say; `Stored`.

    A tensor was evicted in tiles of its own. What reads it in other ones (a product, by columns)
    reads boxes of this, and those may stay in memory.

    >>> import numpy as np, tempfile
    >>> from infinitensor.storage import Part, Spill
    >>> spill = Spill([tempfile.mkdtemp()])
    >>> rows = [Part(spill.write(np.full((2, 3), k))) for k in range(2)]
    >>> out = np.empty((3, 1), int)
    >>> Joined(((0, 2, 4), (0, 3)), rows).read(((1, 4), (1, 2)), out)
    >>> out.tolist()
    [[0], [1], [1]]
    >>> del rows
    >>> spill.close()
    """

    def __init__(self, cuts: Cuts, parts: Sequence[Part]) -> None:
        self.cuts = cuts
        self.parts = tuple(parts)
        self.shape = tuple(borders[-1] for borders in cuts)
        self.dtype = self.parts[0].dtype

    @property
    def key(self) -> Hashable:
        """The keys of its parts."""
        return (self.cuts, tuple((part.stored.key, part.box) for part in self.parts))

    def read(self, box: Box, out: np.ndarray[Any, Any]) -> None:
        """Fill `out` with the values of a box, part by part."""
        check_box(box, self.shape, self.dtype, out, repr(self))
        for index in tiles_over(self.cuts, box):
            tile = tile_box(self.cuts, index)
            common = overlap(tile, box)
            assert common is not None
            self.parts[index][relative(common, tile)].read_into(out[relative(common, box)])

    def __repr__(self) -> str:
        return f"Joined({len(self.parts)} parts, shape={self.shape}, dtype={self.dtype})"
