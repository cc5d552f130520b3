"""Searches over all pairs of two tiles of points on a GPU: what `pairs_c` does in C.

`Pairs` holds two sets of points in tiles with boxes. Each search runs one kernel over tiles of rows
and of columns (`pairs_triton`) and compares in float64 what that leaves open. A list that is too
short is not made longer: the search is done again in halves, down to one tile by one tile, which
always fits.
"""

from __future__ import annotations

from math import frexp
from typing import Any

from infinitensor.jit import has_triton
from infinitensor.ops.points import pairs_numpy
from infinitensor.ops.points import pairs_triton as kernels
from infinitensor.ops.points.pairs_c import MOST_FEATURES

Array = Any

OPEN = 1 << 22
"""Pairs on a list of those that are compared in float64."""
FULL_GPU_PROGRAMS = 1056
"""Programs that fill a GPU: with fewer tiles of rows, several share the columns of one."""
LISTED = 1 << 25
"""Columns on the lists of all rows whose nearest are looked for together."""
NONE = 2**31 - 1
"""No label, above all of them."""
NEIGHBOURS = 8
"""Tiles next to a tile, in storage order, that are looked at before the others."""
MOST_NEAREST = 512
"""The nearest that are looked for here; more of them are looked for in words."""


def searches(xp: Any, x: Array, y: Array) -> Pairs | None:
    """The pairs of two sets of points on a GPU; None where no kernel and no bound is for them."""
    (n, d), m = x.shape, y.shape[0]
    launches = has_triton() and (x.is_cuda or not kernels_need_a_gpu())
    if not (launches and n and m and 0 < d <= MOST_FEATURES and max(n, m) < NONE):
        return None
    made = Pairs(xp, x, y)
    return made if made.is_sound else None


def scratch_of(n: int, m: int, d: int, k: int) -> int:
    """Bytes that a search among n rows and m columns allocates, beside what its results take."""
    points = 8 * (n + m) * (3 * d + 8) + 48 * (n + m) // kernels.TILE * d
    opened = 256 * min(n * m, OPEN)
    rows = min(n, max(rows_at_once(k), kernels.TILE))
    nearest = rows * (12 * room_for(k) + 64 * k + 64) if k else 0
    return points + opened + nearest


def room_for(k: int) -> int:
    """Columns on the list of a row whose k nearest are looked for: at least a tile."""
    return kernels.power(4 * k, kernels.TILE)


def rows_at_once(k: int) -> int:
    """Rows whose k nearest are looked for together."""
    return LISTED // room_for(k)


def kernels_need_a_gpu() -> bool:
    """Whether Triton compiles its kernels; its interpreter runs them on the host."""
    import triton

    return not triton.knobs.runtime.interpret


class Side:
    """Points in tiles with boxes."""

    def __init__(self, xp: Any, x: Array) -> None:
        self.x = pairs_numpy.as_float64(xp, x).contiguous()
        n, d = self.x.shape
        size = kernels.TILE
        self.n, self.n_tiles = n, -(-n // size)
        self.lo = xp.empty((self.n_tiles, d), dtype=xp.float64, device=x.device)
        self.hi = xp.empty_like(self.lo)
        full = n // size
        by_tile = self.x[: full * size].view(full, size, d)
        if full:
            xp.amin(by_tile, 1, out=self.lo[:full])
            xp.amax(by_tile, 1, out=self.hi[:full])
        if full < self.n_tiles:
            self.lo[full:] = self.x[full * size :].amin(0)
            self.hi[full:] = self.x[full * size :].amax(0)
        self.tiles = xp.arange(self.n_tiles, dtype=xp.int32, device=x.device)

    def by_tile(self, xp: Any, values: Array, filling: Any) -> Array:
        """Values of points, tile by tile."""
        padded = xp.full(
            (self.n_tiles * kernels.TILE,), filling, dtype=values.dtype, device=values.device
        )
        padded[: self.n] = values
        return padded.view(self.n_tiles, kernels.TILE)


class Pairs:
    """Two sets of points, rows and columns, and searches over their pairs."""

    def __init__(self, xp: Any, x: Array, y: Array) -> None:
        self.xp = xp
        self.rows = Side(xp, x)
        same = x.data_ptr() == y.data_ptr() and x.shape == y.shape and x.dtype == y.dtype
        same = same and x.stride() == y.stride()  # a square matrix and its transpose differ in it
        self.cols = self.rows if same else Side(xp, y)
        self.d = x.shape[1]
        lo = xp.minimum(self.rows.lo.amin(0), self.cols.lo.amin(0))
        hi = xp.maximum(self.rows.hi.amax(0), self.cols.hi.amax(0))
        width, self.widest = xp.stack([(hi - lo).amax(), ((hi - lo) ** 2).sum()]).tolist()
        self.is_sound = 2.0**-400 < width < 2.0**400
        self.scale = 2.0 ** -frexp(width)[1] if self.is_sound else 1.0
        self.device = x.device
        self.transposed = self.cols.x.t().contiguous() if self.is_sound else None
        self.middles = self.rows.lo * 0.5 + self.rows.hi * 0.5
        self.facts = xp.full((2,), self.scale, dtype=xp.float64, device=x.device)
        self.nothing = xp.zeros(1, dtype=xp.int32, device=x.device)
        self.nothing64 = xp.zeros(1, dtype=xp.float64, device=x.device)

    def swap_sides(self) -> Pairs:
        """The columns as rows, the rows as columns."""
        made = Pairs.__new__(Pairs)
        made.__dict__.update(self.__dict__)
        made.rows, made.cols = self.cols, self.rows
        made.transposed = made.cols.x.t().contiguous()
        made.middles = made.rows.lo * 0.5 + made.rows.hi * 0.5
        return made

    def full(self, value: Any, dtype: str, shape: Any = None) -> Array:
        """An array of one value, for each row if no shape is given."""
        shape = (self.rows.n,) if shape is None else shape
        return self.xp.full(shape, value, dtype=getattr(self.xp, dtype), device=self.device)

    def run(
        self, mode: int, rows: Array, cols: Array, n_looks: int, room: int, **given: Array
    ) -> None:
        """One kernel over tiles of rows and of columns."""
        split = min(max(FULL_GPU_PROGRAMS // len(rows), 1), -(-n_looks // kernels.TILES_LOOKED_AT))
        facts = given.get("facts", self.facts)
        none, none64 = self.nothing, self.nothing64
        names = ("reach", "state", "label", "mine", "skip", "xcore", "ycore", "best")
        more = ("tile_label", "tile_core", "list_i", "list_j", "cursor")
        wide = ("reach", "xcore", "ycore", "tile_core")
        arrays = [given.get(name, none64 if name in wide else none) for name in (*names, *more)]
        sides = (
            self.rows.x,
            self.transposed,
            self.rows.lo,
            self.rows.hi,
            self.cols.lo,
            self.cols.hi,
        )
        tiles = (*sides, self.middles, rows, cols, facts, *arrays)
        numbers = (self.rows.n, self.cols.n, self.d, self.rows.n_tiles, len(cols), n_looks, room)
        kernels.launch_pairs(mode, len(rows), split, numbers, tiles)

    def limit_of(self, limit: float) -> float:
        """A squared radius that is no larger than need be: it holds all points just as well."""
        return float(min(limit, 4 * self.widest))

    def run_listed(
        self, mode: int, rows: Array, cols: Array, again: Any, take: Any, **given: Array
    ) -> None:
        """Run a kernel and hand what it leaves open to `take`; in halves if that is too much.

        `again` undoes what the kernel did where it has to run again.
        """
        xp = self.xp
        room = min(OPEN, self.rows.n * self.cols.n)
        cursor = self.full(0, "int64", (1,))
        lists = [xp.empty(room, dtype=xp.int32, device=self.device) for _ in range(2)]
        works = [(rows, cols)]
        while works:
            rows, cols = works.pop()
            cursor.zero_()
            self.run(
                mode,
                rows,
                cols,
                len(cols),
                room,
                list_i=lists[0],
                list_j=lists[1],
                cursor=cursor,
                **given,
            )
            n_open = int(cursor)
            if n_open <= room:
                i, j = lists[0][:n_open], lists[1][:n_open]
                far = xp.empty(n_open, dtype=xp.float64, device=self.device)
                kernels.launch_apart(self.rows.x, self.cols.x, i, j, far)
                take(i.long(), j.long(), far)
                continue
            again()
            if len(rows) >= len(cols):
                works += [(half, cols) for half in rows.chunk(2)]
            else:
                works += [(rows, half) for half in cols.chunk(2)]

    # --- searches -----------------------------------------------------------------------------

    def count(self, limit: float, enough: float) -> Array:
        """How many columns are within the squared radius of each row; of `enough` any number."""
        limit = self.limit_of(limit)
        total, now = self.full(0, "int32"), self.full(0, "int32")
        reach = self.full(limit, "float64")
        facts = self.full(self.scale, "float64", (2,))  # a copy from the host would be waited for
        facts[1] = enough

        def take(i: Array, j: Array, far: Array) -> None:
            now.index_add_(0, i, (far <= limit).int())
            total.add_(now)
            now.zero_()
            if enough < float("inf"):
                reach.masked_fill_(total >= enough, -1.0)

        given = {"reach": reach, "state": now, "facts": facts}
        self.run_listed(kernels.COUNT, self.rows.tiles, self.cols.tiles, now.zero_, take, **given)
        return total.double()

    def least(self, label: Array, known: Array, reach: Array, near_only: bool = False) -> Array:
        """Into `known` (int32) the smallest label of columns within `reach` of each row."""
        xp = self.xp
        smallest = self.cols.by_tile(xp, label, NONE).amin(1).contiguous()
        given = {"reach": reach, "state": known, "label": label, "tile_label": smallest}

        def take(i: Array, j: Array, far: Array) -> None:
            found = xp.where(far <= reach[i], label[j], NONE)
            known.scatter_reduce_(0, i, found, "amin")

        if near_only:
            n_looks = min(NEIGHBOURS, self.cols.n_tiles)
            cursor = self.full(0, "int64", (1,))  # what is open is left to the whole search
            given |= {"cursor": cursor, "list_i": self.nothing, "list_j": self.nothing}
            self.run(kernels.LEAST, self.rows.tiles, self.cols.tiles, n_looks, 0, **given)
            return known
        # labels only fall: what is done twice is done
        self.run_listed(
            kernels.LEAST, self.rows.tiles, self.cols.tiles, lambda: None, take, **given
        )
        return known

    def least_label(self, label: Array, limit: float, none: int) -> Array:
        """The smallest label of the columns within the squared radius of each row, or `none`."""
        xp = self.xp
        names, rank = xp.unique(label, return_inverse=True)
        reach = self.full(self.limit_of(limit), "float64")
        found = self.least(rank.int(), self.full(NONE, "int32"), reach)
        return xp.where(found == NONE, none, names[found.clamp(max=len(names) - 1)])

    def united(self, xid: Array, yid: Array, limit: float, n: int) -> Array:
        """The forest of n nodes with an edge for each pair within the radius."""
        xp = self.xp
        limit = self.limit_of(limit)
        parent = xp.arange(n, dtype=xp.int32, device=self.device)
        alike = self.rows is self.cols and bool(xp.equal(xid, yid))
        ways = [(self, xid, yid)] + ([] if alike else [(self.swap_sides(), yid, xid)])
        near_only = True
        while True:
            before = parent.clone()
            for pairs, mine, theirs in ways:
                is_node = mine >= 0
                label = xp.where(theirs >= 0, parent[theirs.clamp(min=0)], NONE)
                own = xp.where(is_node, parent[mine.clamp(min=0)], NONE)
                reach = xp.where(is_node, limit, -1.0)
                known = pairs.least(label, own.clone(), reach, near_only)
                lower = is_node & (known < own)
                hooks = own[lower].long(), known[lower]
                parent.scatter_reduce_(0, hooks[0], hooks[1], "amin")
                parent = pairs_numpy.pointed(xp, parent)
            if not near_only and bool(xp.equal(parent, before)):
                return parent.long()
            near_only = near_only and not bool(xp.equal(parent, before))

    def nearest(self, yid: Array, k: int) -> tuple[Array, Array]:
        """The k nearest columns of each row: squared distances and numbers, sorted by both."""
        far = self.full(float("inf"), "float64", (self.rows.n, k))
        who = self.full(-1, "int64", (self.rows.n, k))
        step = max(rows_at_once(k) // kernels.TILE, 1)
        for first in range(0, self.rows.n_tiles, step):
            part = _Nearest(self, yid, k, first, min(first + step, self.rows.n_tiles))
            at = slice(first * kernels.TILE, first * kernels.TILE + part.pairs.rows.n)
            far[at], who[at] = part.nearest_found()
        return far, who

    def lightest(
        self, points_x: tuple[Array, Array, Array], points_y: tuple[Array, Array, Array], n: int
    ) -> tuple[Array, Array, Array]:
        """Of each of n groups its lightest edge to another: see `pairwords.lightest_edges`."""
        xp = self.xp
        (xid, xgroup, xcore), (yid, ygroup, ycore) = points_x, points_y
        rows, cols = self.rows.tiles, self.cols.tiles
        label, mine = ygroup.int(), xgroup.int()
        by_tile = self.cols.by_tile(xp, label, -1)
        if self.cols.n % kernels.TILE:  # padding is of the group of the last point
            by_tile[-1, self.cols.n % kernels.TILE :] = label[-1]
        lo, hi = by_tile.amin(1), by_tile.amax(1)
        best = self.full(float("inf"), "float64", (n,)).view(xp.int64)
        given = {
            "label": label,
            "mine": mine,
            "xcore": xcore.double().contiguous(),
            "ycore": ycore.double().contiguous(),
            "best": best,
            "tile_label": xp.where(lo == hi, lo, -1),
            "tile_core": self.cols.by_tile(xp, ycore.double(), float("inf")).amin(1).contiguous(),
        }
        near = min(NEIGHBOURS, self.cols.n_tiles)
        self.run(kernels.BOUND, rows, cols, near, 0, **given)
        self.run(kernels.BOUND, rows, cols, len(cols), 0, **given)
        weigh = self.full(float("inf"), "float64", (n,))
        ends = self.full(2**62, "int64", (n, 2))

        def take(i: Array, j: Array, far: Array) -> None:
            nonlocal weigh, ends
            w = xp.maximum(xp.maximum(far, xcore[i]), ycore[j])
            a, b = xid[i], yid[j]
            edges = (xgroup[i], w, xp.minimum(a, b), xp.maximum(a, b))
            weigh, ends = pairs_numpy.lighter_of(xp, *edges, weigh, ends)

        self.run_listed(kernels.EDGE, rows, cols, lambda: None, take, **given)
        return weigh, ends[:, 0], ends[:, 1]


class _Nearest:
    """The nearest of some tiles of rows: columns within reach are put on a list of each row.

    The first columns are those of the nearest tile. They say how far to look among a few of the
    other tiles, those how far to look among more.
    """

    def __init__(self, whole: Pairs, yid: Array, k: int, first: int, end: int) -> None:
        xp = whole.xp
        self.k, self.yid = k, yid.long().contiguous()
        self.pairs = pairs = Pairs.__new__(Pairs)
        pairs.__dict__.update(whole.__dict__)
        pairs.rows = side = Side.__new__(Side)
        side.__dict__.update(whole.rows.__dict__)
        size = kernels.TILE
        side.x = whole.rows.x[first * size : end * size]
        side.n, side.n_tiles = len(side.x), end - first
        side.lo, side.hi = whole.rows.lo[first:end], whole.rows.hi[first:end]
        side.tiles = whole.rows.tiles[: end - first]
        pairs.middles = whole.middles[first:end]
        self.room = room_for(k)
        alike = whole.rows is whole.cols
        own = whole.rows.tiles[first:end].clone() if alike else self._nearest_tiles()
        self.skip = own.int()
        n = side.n
        self.held = pairs.full(0, "int32")
        self.lists = xp.empty((n, self.room), dtype=xp.int32, device=pairs.device)
        self.gaps = xp.empty((n, self.room), dtype=xp.float64, device=pairs.device)
        self.far = pairs.full(float("inf"), "float64", (n, k))
        self.who = pairs.full(-1, "int64", (n, k))

    def _nearest_tiles(self) -> Array:
        """The tile of columns whose middle is nearest to that of each tile of rows."""
        xp, pairs = self.pairs.xp, self.pairs
        middles = (pairs.cols.lo * 0.5 + pairs.cols.hi * 0.5) * pairs.scale
        mine = pairs.middles * pairs.scale
        step = max((1 << 22) // len(middles), 1)
        found = [xp.cdist(part, middles).argmin(1) for part in mine.split(step)]
        return xp.cat(found)

    def nearest_found(self) -> tuple[Array, Array]:
        """Squared distances and numbers, sorted by both."""
        xp, pairs, size = self.pairs.xp, self.pairs, kernels.TILE
        start = (self.skip.repeat_interleave(size)[: pairs.rows.n] * size)[:, None]
        self.lists[:, :size] = start + xp.arange(size, dtype=xp.int32, device=pairs.device)
        self.held[:] = (pairs.cols.n - start[:, 0]).clamp(max=size)
        self._merge()
        place = xp.arange(pairs.cols.n_tiles, device=pairs.device)
        left = pairs.cols.tiles
        steps = (64, 16, 4, 1) if self.k <= 32 else (64, 32, 16, 8, 4, 2, 1)
        for step in steps:
            chosen = place % step == 0
            if bool(chosen.any()):
                self._look(left[chosen], pairs.full(True, "bool"))
            left, place = left[~chosen], place[~chosen]
        return self.far, self.who

    def _look(self, cols: Array, active: Array, is_first: bool = True) -> None:
        """Take some tiles of columns into the nearest of the rows that are active."""
        xp, pairs = self.pairs.xp, self.pairs
        reach = xp.where(active, self.far[:, -1].clamp(max=4 * pairs.widest), -1.0)
        self.held.zero_()
        given = {"reach": reach, "state": self.held, "list_j": self.lists, "skip": self.skip}
        pairs.run(kernels.TOP, pairs.rows.tiles, cols, len(cols), self.room, **given)
        over = self.held > self.room
        any_over = bool(over.any())
        self._merge()
        if any_over and is_first:  # those that had room say how far to look
            self._look(cols, over, False)
        elif any_over:  # many as far away as the last one: one tile is never too much
            for half in cols.chunk(2):
                self._look(half, over)

    def _merge(self) -> None:
        pairs = self.pairs
        tiles = (pairs.rows.x, pairs.cols.x, self.yid, self.held, self.lists, self.gaps)
        numbers = (pairs.rows.n, pairs.d, self.k, self.room)
        kernels.launch_merge((*tiles, self.far, self.who), numbers)
