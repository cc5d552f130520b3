"""Searches over all pairs of two tiles of points on a CPU: leaf by leaf, or by products.

A `Search` names what is looked for (`count`, `top`, `unite`, `least`, `fill`, `edge`: the modes of
`pairs.c`) and holds its state. With few features leaves of points are compared at once in float64.
With more, products of leaves in float32 decide most pairs, and only the rest are compared.

**The bound.** Let c be the centre and s a power of two, a = fl((x - c) s), b = fl((y - c) s) in
float64, r >= |a|, R >= |b|, u = 2^-24, h = |b|^2 / 2, and t the squared radius times s^2. A pair is
within if |a - b|^2 <= t, that is if q = a.b - h >= (|a|^2 - t) / 2. What is computed is
v = fl32(g - fl32(h)), with g the product of a and b rounded to float32.

- Rounding a and b changes a.b by at most (2u + u^2) r R. The sum of d products, in any order and
  with or without fused steps, errs by at most d u / (1 - d u) (1 + u)^2 r R, which is at most
  (1.1 d + 1) u r R for d <= 2^20.
- Rounding h errs by u R^2 / 2, the last subtraction by u (|g| + h)(1 + u) <= 1.1 u (r R + R^2 / 2).

In all |v - q| <= (1.1 d + 5) u r R + 1.1 u R^2. Against that stand E = (1.1 d + 8) u r R
+ 2 u (r^2 + R^2 + t) and a constant for what underflows: coordinates are at most 1 after scaling,
and d products below 2^-149 lose less than 1e-36. What E has beyond the first bound, 2 u r^2 + 0.9 u
R^2 + 2 u t, covers the float64 side: x - c, the lengths and the direct sum err by at most (d + 8)
2^-53 of r^2 + R^2 + t each, which is below u (r^2 + R^2 + t) for d <= 2^20. The two thresholds
(|a|^2 - t) / 2 -+ E are rounded outwards to float32. So v above the upper one is within in float64
too, v below the lower one is not, and what is between, or is no number, is compared in float64.
t is part of E: without it a radius far above the data would cancel against lengths. Where a float32
overflows, thresholds become infinite and everything is compared; so it is with more features, and
with points whose squares leave the normal range of float64.
"""

from __future__ import annotations

import ctypes
from math import frexp, inf
from typing import Any

import numpy as np

from infinitensor.ops.backend.c_loops import loop

FEW_FEATURES = 7
"""Features up to which leaves are compared in float64: products are slower there."""
MOST_FEATURES = 1 << 20
"""Features up to which the bound of a product holds."""

Array = Any


class _Search(ctypes.Structure):
    _fields_ = [
        ("x", ctypes.c_void_p),
        ("y", ctypes.c_void_p),
        ("x32", ctypes.c_void_p),
        ("y32", ctypes.c_void_p),
        ("xid", ctypes.c_void_p),
        ("yid", ctypes.c_void_p),
        ("n", ctypes.c_int64),
        ("m", ctypes.c_int64),
        ("d", ctypes.c_int64),
        ("limit", ctypes.c_double),
        ("in_float", ctypes.c_int64),
        ("centre", ctypes.c_void_p),
        ("scale", ctypes.c_double),
        ("unit", ctypes.c_double),
        ("asked", ctypes.c_int64),
        ("own", ctypes.c_int64),
        ("weight", ctypes.c_void_p),
        ("sum", ctypes.c_void_p),
        ("enough", ctypes.c_double),
        ("k", ctypes.c_int64),
        ("far", ctypes.c_void_p),
        ("who", ctypes.c_void_p),
        ("held", ctypes.c_void_p),
        ("parent", ctypes.c_void_p),
        ("label", ctypes.c_void_p),
        ("least", ctypes.c_void_p),
        ("place", ctypes.c_void_p),
        ("found", ctypes.c_void_p),
        ("apart", ctypes.c_void_p),
        ("xgroup", ctypes.c_void_p),
        ("ygroup", ctypes.c_void_p),
        ("xcore", ctypes.c_void_p),
        ("ycore", ctypes.c_void_p),
        ("weigh", ctypes.c_void_p),
        ("from_", ctypes.c_void_p),
        ("to", ctypes.c_void_p),
    ]


def is_compiled() -> bool:
    """Whether searches run in C here."""
    return loop("pairs", "flatten") is not None


def is_plain(tile: Array) -> bool:
    """Whether a search reads rows in place, without a copy."""
    return tile.dtype.char in "df" and bool(tile.flags.c_contiguous)


def rows64(tile: Array) -> Array:
    """A tile as rows of float64, one after the other."""
    return np.ascontiguousarray(tile, dtype=np.float64)


COPIED_NUMBERS = 1 << 16
"""Numbers of x that are copied at a time, where they have to be."""
OF_X = ("sum", "far", "who", "held", "least", "place", "xid", "xgroup", "xcore")
"""State that has an entry for each row of x."""


def rows_at_once(d: int) -> int:
    """Rows of x that are copied at a time: enough that leaves of y are made for many of them."""
    return max(COPIED_NUMBERS // max(d, 1), 256)


class Search:
    """One search over the pairs of two tiles of points; state arrays are given by name.

    Rows are read in place, in float64 or float32; others are copied, those of x some at a time.
    """

    def __init__(self, mode: str, x: Array, y: Array, limit: float = inf, **state: Any) -> None:
        self.mode = mode
        self.x, self.y = x, y if is_plain(y) else rows64(y)
        self.limit = float(limit)
        self.state = state

    @property
    def d(self) -> int:
        """Features."""
        return int(self.x.shape[1])

    def run(self) -> int:
        """Search all pairs; how many were compared in float64 after a product left them open."""
        if not len(self.x) or not len(self.y):
            return 0
        if is_plain(self.x):
            return self._run(self.x, self.state)
        asked, step = 0, rows_at_once(self.d)
        for lo in range(0, len(self.x), step):
            rows = slice(lo, lo + step)
            state = {k: v[rows] if k in OF_X else v for k, v in self.state.items()}
            asked += self._run(rows64(self.x[rows]), state)
        return asked

    def _run(self, x: Array, state: dict[str, Any]) -> int:
        given = dict(state)
        for name, rows in (("x", x), ("y", self.y)):
            given[name if rows.dtype == np.float64 else f"{name}32"] = rows
        if self.d > FEW_FEATURES:
            given |= self._products(x)
        made = _Search(n=len(x), m=len(self.y), d=self.d, limit=self.limit)
        for name, value in given.items():
            if isinstance(value, np.ndarray):
                assert value.flags.c_contiguous
                value = value.__array_interface__["data"][0]
            setattr(made, name, value)
        find = loop("pairs", f"search_{self.mode}")
        assert find is not None
        asked = find(ctypes.addressof(made))
        if asked < 0:
            raise MemoryError("no memory for the leaves of a search")
        return asked

    def _products(self, x: Array) -> dict[str, Any]:
        """Centre and scale; no bound holds where they, or features, are beyond it."""
        with np.errstate(over="ignore", invalid="ignore"):
            centre = self.y.mean(0, dtype=np.float64)
            far = max(_farthest(x, centre), _farthest(self.y, centre))
        sound = 2.0**-400 < far < 2.0**400 and self.d <= MOST_FEATURES
        scale = 2.0 ** -frexp(far)[1] if sound else 1.0
        unit = (1.1 * self.d + 8) * 2.0**-24 if sound else inf
        return {"in_float": 1, "centre": centre, "scale": scale, "unit": unit}


def _farthest(x: Array, centre: Array) -> float:
    lo, hi = x.min(0).astype(np.float64), x.max(0).astype(np.float64)
    return float(np.max(np.maximum(np.abs(lo - centre), np.abs(hi - centre))))


def scratch_of(m: int, d: int, is_narrow: bool = False) -> int:
    """Bytes that a search among m points allocates: their leaves (`fill_leaves` in pairs.c), and
    where points are float32 a leaf of wide ones."""
    leaves = -(-m // 32) + 1
    columns = 4 * 32 * leaves * (d + 1) if d > FEW_FEATURES else 8 * 32 * leaves * d
    wide = 8 * 33 * d if is_narrow else 0
    return columns + wide + 16 * (leaves + leaves // 32 + 2) * d + 40 * leaves + 64 * d + 8192
