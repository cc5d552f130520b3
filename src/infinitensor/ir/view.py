"""Views: (offset, shape, strides) over the logical C-order base, and what they touch.

The base of a tensor is always thought of in C order, whatever its tiles look like, so a view's
strides never leak from a kernel's result. A view in which each axis walks along one base axis is
*structured*: its regions are boxes with steps. Any other view (diagonal, merged axes) is read by
the `_strided` op and written by flat index.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from infinitensor.ir.region import Box


@lru_cache(maxsize=4096)
def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a C-order array of this shape."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


class View(NamedTuple):
    """Elements of a base: `offset + sum(index * strides)` in C order; `part` of complex ones.

    A tuple: made at every slice, and looked up at every use.
    """

    base_shape: tuple[int, ...]
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]
    part: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether this is the base itself, axis for axis."""
        return (
            self.shape == self.base_shape
            and self.strides == c_strides(self.shape)
            and not self.part
        )

    @property
    def is_reshape(self) -> bool:
        """Whether this is every element of the base in its order, in whatever shape."""
        own = zip(self.shape, self.strides, c_strides(self.shape), strict=True)
        return (
            prod(self.shape) == prod(self.base_shape)
            and not (self.offset or self.part)
            and all(n == 1 or stride == wanted for n, stride, wanted in own)
        )

    def reversed(self) -> View:
        """With its axes in the opposite order."""
        return View(self.base_shape, self.shape[::-1], self.offset, self.strides[::-1], self.part)

    @property
    def is_broadcast(self) -> bool:
        """Whether several indices name one element; such a view is read-only."""
        return 0 in self.strides and any(
            s == 0 and n > 1 for n, s in zip(self.shape, self.strides, strict=True)
        )


@lru_cache(maxsize=4096)
def whole_view(shape: tuple[int, ...]) -> View:
    """The view that is its base."""
    return View(shape, shape, 0, c_strides(shape))


@dataclass(frozen=True, slots=True)
class Access:
    """A structured view: where each view axis walks.

    `axes[v]` is (base axis, start, step), or None for an axis that stays at one element (size 1, or
    broadcast). `fixed[b]` is the coordinate on a base axis that no view axis walks, else -1.
    """

    axes: tuple[tuple[int, int, int] | None, ...]
    fixed: tuple[int, ...]
    part: str = ""

    @property
    def keeps_lines(self) -> bool:
        """Whether the view is made of lines of the base: one axis walks its last one by single
        steps, and none walks backwards."""
        walked = [axis for axis in self.axes if axis is not None]
        return (
            not self.part
            and len(walked) == len(self.axes)
            and all(step > 0 for _, _, step in walked)
            and any(base == len(self.fixed) - 1 and step == 1 for base, _, step in walked)
        )

    @property
    def is_across(self) -> bool:
        """Whether the last axis that it walks is not the last of those of its base."""
        walked = [axis[0] for axis in self.axes if axis]
        return len(walked) > 1 and walked[-1] != max(walked)

    def is_all(self, base: tuple[int, ...], shape: tuple[int, ...]) -> bool:
        """Whether a view of a shape is its base as it is, but for axes of size one."""
        axes = zip(self.axes, shape, strict=True)
        walked = [(axis, n) for axis, n in axes if axis is not None or n > 1]
        return not self.part and walked == [((a, 0, 1), n) for a, n in enumerate(base) if n > 1]

    def base_region(self, box: Box) -> tuple[tuple[int, int, int], ...]:
        """The base elements a box of the view names: (first, end, step) per base axis."""
        region = [(at, at + 1, 1) for at in self.fixed]
        for axis, (lo, hi) in zip(self.axes, box, strict=True):
            if axis is not None:
                base, start, step = axis
                ends = (start + step * lo, start + step * (hi - 1))
                region[base] = (min(ends), max(ends) + 1, abs(step))
        return tuple(region)

    def base_box(self, box: Box) -> Box:
        """The hull of `base_region`."""
        return tuple((lo, hi) for lo, hi, _ in self.base_region(box))

    def view_box(self, tile: Box, shape: tuple[int, ...]) -> Box:
        """The box of the view (of this shape) that falls into a base tile; maybe an empty one."""
        box = []
        for walked, n in zip(self.axes, shape, strict=True):
            lo, hi = 0, n
            if walked is not None:
                base, start, step = walked
                first, end = tile[base]
                if step > 0:
                    lo, hi = -(-(first - start) // step), -(-(end - start) // step)
                else:
                    lo, hi = (start - end) // -step + 1, (start - first) // -step + 1
            lo = min(max(lo, 0), n)
            box.append((lo, max(min(hi, n), lo)))
        return tuple(box)


@lru_cache(maxsize=4096)
def of_picked(access: Access, shape: tuple[int, ...]) -> Access:
    """How a view of this shape sees what it picks of its base: one by one, maybe backwards."""
    axes = tuple(
        axis and (axis[0], 0 if axis[2] > 0 else n - 1, 1 if axis[2] > 0 else -1)
        for axis, n in zip(access.axes, shape, strict=True)
    )
    return Access(axes, tuple(min(at, 0) for at in access.fixed), access.part)


@lru_cache(maxsize=65536)
def structure(view: View) -> Access | None:
    """The view's axis map, or None if it has none.

    >>> structure(View((4, 6), (3, 4), 23, (-1, -6))).axes
    ((1, 5, -1), (0, 3, -1))
    >>> structure(View((4, 4), (4,), 0, (5,))) is None     # a diagonal
    True
    """
    base_strides = c_strides(view.base_shape)
    if prod(view.shape) == 0:
        return Access((None,) * len(view.shape), (0,) * len(view.base_shape), view.part)
    coords = [
        (view.offset // stride) % n for stride, n in zip(base_strides, view.base_shape, strict=True)
    ]
    fixed = list(coords)
    axes: list[tuple[int, int, int] | None] = []
    for n, stride in zip(view.shape, view.strides, strict=True):
        if n == 1 or stride == 0:
            axes.append(None)
            continue
        for base, base_stride in enumerate(base_strides):
            step, rest = divmod(stride, base_stride)
            last = coords[base] + step * (n - 1)
            if view.base_shape[base] > 1 and not rest and 0 <= last < view.base_shape[base]:
                break
        else:
            return None
        if fixed[base] < 0:
            return None
        fixed[base] = -1
        axes.append((base, coords[base], step))
    return Access(tuple(axes), tuple(fixed), view.part)


def in_other_shape(view: View) -> View | None:
    """The same elements as a structured view of the base in another shape; None if it is none.

    >>> in_other_shape(View((7700,), (34, 75), 1, (231, 1))).base_shape   # x.reshape(100, 77)[::3]
    (100, 77, 1)
    """
    left = prod(view.base_shape)
    lengths = []
    walked = (gcd(s, left) for n, s in zip(view.shape, view.strides, strict=True) if n > 1)
    for step in sorted({*walked}, reverse=True):
        if left % step:
            return None
        lengths.append(left // step)
        left = step
    seen = view._replace(base_shape=(*lengths, left))
    return None if structure(seen) is None else seen


KEPT_VIEWS = 64
"""Views that a torch array keeps of itself."""


class Look:
    """A box of a view, seen in any array that holds `origin` of its base: worked out once.

    Looks take no copy, but for a negative step on torch, which is a flip.
    """

    __slots__ = ("_box", "_expand", "_fixed", "_index", "_part", "_perm", "_spread", "_walks")

    def __init__(self, access: Access, box: Box, origin: Box) -> None:
        self._box = box
        self._part = access.part
        self._index: tuple[Any, ...] | None = None
        if any(hi <= lo for lo, hi in box):
            return
        starts = [lo for lo, _ in origin]
        self._fixed = [(b, at - starts[b]) for b, at in enumerate(access.fixed) if at >= 0]
        index: list[Any] = [at - lo for at, lo in zip(access.fixed, starts, strict=True)]
        order = []
        self._walks: list[tuple[int, int, int, int]] = []
        """Per axis (base axis or -1, first, step, length), as torch sees it."""
        for axis, (lo, hi) in zip(access.axes, box, strict=True):
            if axis is None:
                self._walks.append((-1, 0, 0, hi - lo))
                continue
            base, start, step = axis
            first = start + step * lo - starts[base]
            last = start + step * (hi - 1) - starts[base]
            order.append(base)
            self._walks.append((base, first, step, hi - lo))
            end = last + 1 if step > 0 else last - 1
            index[base] = slice(first, end if end >= 0 else None, step)
        self._index = tuple(index)
        walked = sorted(order)
        perm = [walked.index(base) for base in order]
        self._perm = perm if perm != sorted(perm) else None
        self._expand: tuple[Any, ...] | None = None
        self._spread: tuple[int, ...] | None = None
        if len(order) < len(access.axes):
            self._expand = tuple(slice(None) if axis else None for axis in access.axes)
            lengths = tuple(hi - lo for lo, hi in box)
            if any(axis is None and n != 1 for axis, n in zip(access.axes, lengths, strict=True)):
                self._spread = lengths

    def __call__(self, array: Any) -> Any:
        """The view of an array."""
        if self._index is None:
            picked = empty_like(array, self._box)
        elif not hasattr(array, "__array_interface__"):
            picked = self._of_torch(array)
        else:
            picked = array[self._index] if self._index else array
            if self._perm is not None:
                picked = picked.transpose(self._perm)
            if self._expand is not None:
                picked = picked[self._expand]
                if self._spread is not None:
                    picked = broadcast(picked, self._spread)
        if self._part:
            picked = picked.real if self._part == "real" else picked.imag
        return picked

    def _of_torch(self, array: Any) -> Any:
        """By one call of torch, whose views take long, and a flip where an axis is walked back.

        An array keeps its views: it is asked for them again when a program runs again.
        """
        try:
            kept = array._infinitensor_views
        except AttributeError:
            kept = array._infinitensor_views = {}
        picked = kept.get(self)
        if picked is not None:
            return picked
        own = array.stride()
        offset = array.storage_offset()
        for base, at in self._fixed:
            offset += at * own[base]
        lengths, strides, flips = [], [], []
        for axis, (base, first, step, n) in enumerate(self._walks):
            lengths.append(n)
            if base < 0:
                strides.append(int(n == 1))
                continue
            if step < 0:
                flips.append(axis)
                first, step = first + step * (n - 1), -step
            offset += first * own[base]
            strides.append(step * own[base])
        picked = array.as_strided(lengths, strides, offset)
        if flips:
            return picked.flip(flips)
        if len(kept) >= KEPT_VIEWS:
            kept.clear()
        kept[self] = picked
        return picked


def take(array: Any, access: Access, box: Box, origin: Box) -> Any:
    """The part of a base tile that a box of the view names, with the view's axes.

    `origin` is where the tile is in the base.
    """
    return Look(access, box, origin)(array)


def empty_like(array: Any, box: Box) -> Any:
    """An array of no elements with a box's shape: of any tile, for none holds it."""
    if not hasattr(array, "reshape"):  # in a file, which is not read for nothing
        import numpy as np

        array = np.empty(0, array.dtype)
    return array.reshape(-1)[:0].reshape(tuple(hi - lo for lo, hi in box))


def broadcast(array: Any, shape: tuple[int, ...]) -> Any:
    """A read-only broadcast of a NumPy or torch array."""
    if hasattr(array, "__array_interface__"):
        import numpy as np

        return np.broadcast_to(array, shape)
    return array.expand(shape)
