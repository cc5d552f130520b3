"""Kernels over tiles of points on a GPU: products by tensor cores decide most pairs.

`pairs` takes one tile of rows through tiles of columns. A tile whose box is too far is left out,
and so is one that has nothing to say (labels that are not smaller, points of the same group). The
others are multiplied, in three products of TF32 parts, and what is open after that is put on a
list: `apart` then compares it in float64 by direct differences, added in the order of the features.

**The bound** is that of `pairs_c`, with another product and with the middle of the box of the
rows' tile as centre: so lengths, and with them errors, are those of the neighbourhood. Let r and R
be lengths of a row and of a column from there, u = 2^-24, and t the squared radius, scaled alike. A
part in TF32 leaves at most 2^-10 of a number, its own rounding 2^-20, and the product of two rests
2^-20 more: the three products err by less than 4e-6 r R, and sums in float32, rounded towards zero,
by less than (d + 16) 2^-22 r R. Half of a squared length, the difference, the threshold and the
float64 side err by less than 4 u (r^2 + R^2 + t), as there. Numbers and products below 2^-126 may
be lost: less than 1e-37 for each feature, since no scaled difference is above 1.
"""

from __future__ import annotations

from typing import Any

from infinitensor.jit import Launch, Launches, triton_module

TILE = 128
"""Rows, and columns, of a tile."""
TILES_LOOKED_AT = 32
"""Tiles of columns whose boxes are looked at together."""
COUNT, LEAST, TOP, BOUND, EDGE = range(5)


_PAIRS = triton_module("""\
@triton.jit
def centred(x, i, there, middle, scale, low, d, PART: tl.constexpr):
    f = low + tl.arange(0, PART)
    here = there[:, None] & (f < d)[None, :]
    value = tl.load(x + i[:, None] * d + f[None, :], mask=here, other=0.0)
    c = tl.load(middle + f, mask=f < d, other=0.0)
    return tl.where(here, (value - c[None, :]) * scale, 0.0)


@triton.jit(do_not_specialize=["n", "n_tiles", "n_cols", "n_looks", "room", "split"])
def pairs(
    x, transposed, xlo, xhi, ylo, yhi, middles, rows, cols, facts, reach, state, label, mine, skip,
    xcore, ycore, best, tile_label, tile_core, list_i, list_j, cursor,
    n, m, d, n_tiles, n_cols, n_looks, room, split,
    MODE: tl.constexpr, ONCE: tl.constexpr, TILE: tl.constexpr, PART: tl.constexpr,
    BLOCK: tl.constexpr,
):
    pid = tl.program_id(0)
    which = tl.load(rows + pid // split).to(tl.int64)
    i = which * TILE + tl.arange(0, TILE)
    there = i < n
    scale, enough = tl.load(facts), tl.load(facts + 1)
    square = scale * scale
    middle = middles + which * d
    none = 2147483647
    half = tl.zeros((TILE,), tl.float64)
    for low in range(0, d, PART):
        a = centred(x, i, there, middle, scale, low, d, PART)
        half += tl.sum(a * a, 1)
    half = half * 0.5
    half32 = half.to(tl.float32)
    length = tl.sqrt(half32 * 2.0) * 1.0001
    unit = (d + 16) * 2.4e-7 + 4e-6
    if ONCE:
        point = centred(x, i, there, middle, scale, 0, d, PART).to(tl.float32)
    counted = tl.zeros((TILE,), tl.int32)
    if MODE >= 3:
        group = tl.load(mine + i, mask=there, other=-1)
        core = tl.load(xcore + i, mask=there, other=float("inf"))
        core32 = (core * square).to(tl.float32) * 1.000001
        t = tl.load(best + group, mask=there, other=0).to(tl.float64, bitcast=True)
        t = tl.where(there & (core <= t), t, -1.0)
        first_group = tl.min(tl.where(there, group, none), 0)
        last_group = tl.max(group, 0)
    else:
        t = tl.load(reach + i, mask=there, other=-1.0)
    if MODE == 1:
        least = tl.load(state + i, mask=there, other=0)
    passed = -1
    if MODE == 2:
        passed = tl.load(skip + which)
    start = (which * n_cols) // n_tiles
    if tl.max(t, 0) >= 0:
        for block in range(pid % split, tl.cdiv(n_looks, BLOCK), split):
            place = block * BLOCK + tl.arange(0, BLOCK)
            at = start + place
            at = tl.where(at >= n_cols, at - n_cols, at)
            tiles = tl.load(cols + at, mask=place < n_looks, other=0).to(tl.int64)
            most = tl.max(t, 0)
            looks = (place < n_looks) & (tiles != passed)
            if MODE == 1:
                worst = tl.max(tl.where(t >= 0, least, -1), 0)
                looks = looks & (tl.load(tile_label + tiles) < worst)
            if MODE >= 3:
                one = tl.load(tile_label + tiles)
                same = (one == first_group) & (one == last_group)
                looks = looks & (same == 0) & (tl.load(tile_core + tiles) <= most)
            gaps = tl.zeros((BLOCK,), tl.float64)
            if tl.max(looks.to(tl.int32), 0) > 0:
                for low in range(0, d, PART):
                    f = low + tl.arange(0, PART)
                    here = looks[:, None] & (f < d)[None, :]
                    corner = tiles[:, None] * d + f[None, :]
                    up = tl.load(ylo + corner, mask=here, other=0.0)
                    up = up - tl.load(xhi + which * d + f, mask=f < d, other=0.0)[None, :]
                    down = tl.load(xlo + which * d + f, mask=f < d, other=0.0)[None, :]
                    down = down - tl.load(yhi + corner, mask=here, other=0.0)
                    far = tl.where(here, tl.maximum(tl.maximum(up, down), 0.0), 0.0)
                    gaps += tl.sum(far * far, 1)
                looks = looks & (gaps * 0.999999 <= most)
            n_near = tl.sum(looks.to(tl.int32), 0)
            turn = tl.cumsum(looks.to(tl.int32), 0)
            for q in range(1, n_near + 1):
                now = looks & (turn == q)
                tile = tl.sum(tl.where(now, tiles, 0), 0)
                gap = tl.sum(tl.where(now, gaps, 0.0), 0)
                if gap * 0.999999 <= tl.max(t, 0):
                    j = tile * TILE + tl.arange(0, TILE)
                    inside = j < m
                    total = tl.zeros((TILE, TILE), tl.float32)
                    yhalf = tl.zeros((TILE,), tl.float64)
                    for low in range(0, d, PART):
                        f = low + tl.arange(0, PART)
                        here = (f < d)[:, None] & inside[None, :]
                        column = f[:, None].to(tl.int64) * m + j[None, :]
                        b = tl.load(transposed + column, mask=here, other=0.0)
                        c = tl.load(middle + f, mask=f < d, other=0.0)
                        b = tl.where(here, (b - c[:, None]) * scale, 0.0)
                        yhalf += tl.sum(b * b, 0)
                        if ONCE:
                            a32 = point
                        else:
                            a32 = centred(x, i, there, middle, scale, low, d, PART).to(tl.float32)
                        total += tl.dot(a32, b.to(tl.float32), input_precision="tf32x3")
                    yhalf32 = (yhalf * 0.5).to(tl.float32)
                    longest = tl.sqrt(tl.max(yhalf32, 0) * 2.0) * 1.0001
                    v = total - tl.where(inside, yhalf32, float("inf"))[None, :]
                    if MODE >= 3:
                        t = tl.load(best + group, mask=there, other=0).to(tl.float64, bitcast=True)
                        t = tl.where(there & (core <= t), t, -1.0)
                        ygroup = tl.load(label + j, mask=inside, other=-1)
                        ycore32 = tl.load(ycore + j, mask=inside, other=float("inf")) * square
                        other = (group[:, None] != ygroup[None, :]) & inside[None, :]
                    t32 = (t * square).to(tl.float32) * 1.0001
                    error = length * length + longest * longest
                    if MODE == 3:
                        error = unit * length * longest + 2.5e-7 * error
                        error = error * 1.01 + (d + 16) * 1e-37
                        w = (half32[:, None] - v + error[:, None]) * 2.0
                        w = tl.maximum(w, core32[:, None])
                        w = tl.maximum(w, (ycore32.to(tl.float32) * 1.000001)[None, :])
                        lightest = tl.min(tl.where(other, w, float("inf")), 1)
                        lightest = (lightest * 1.000001).to(tl.float64) / square
                        lighter = (t >= 0) & (lightest < t)
                        bits = lightest.to(tl.int64, bitcast=True)
                        tl.atomic_min(best + group, bits, mask=lighter, sem="relaxed")
                        t = tl.where(lighter, lightest, t)
                        t = tl.where(core <= t, t, -1.0)
                    else:
                        active = t >= 0
                        error = unit * length * longest + 2.5e-7 * (error + t32)
                        error = error * 1.01 + (d + 16) * 1e-37
                        base = (half - 0.5 * t * square).to(tl.float32)
                        maybe = v >= tl.where(active, base - error, float("inf"))[:, None]
                        if MODE == 2:
                            slot = tl.atomic_add(
                                state + i[:, None] + j[None, :] * 0, 1, mask=maybe, sem="relaxed"
                            )
                            to = list_j + i[:, None] * room + slot
                            value = (j[None, :] + i[:, None] * 0).to(tl.int32)
                            tl.store(to, value, mask=maybe & (slot < room))
                        else:
                            if MODE == 4:
                                fits = (ycore32.to(tl.float32) * 0.999999)[None, :] <= t32[:, None]
                                open_ = maybe & other & fits
                            else:
                                sure = v > tl.where(active, base + error, float("inf"))[:, None]
                                open_ = maybe & (sure == 0)
                                if MODE == 0:
                                    counted += tl.sum(sure.to(tl.int32), 1)
                                    t = tl.where(counted >= enough, -1.0, t)
                                else:
                                    named = tl.load(label + j, mask=inside, other=none)
                                    found = tl.min(tl.where(sure, named[None, :], none), 1)
                                    least = tl.minimum(least, found)
                                    open_ = open_ & (named[None, :] < least[:, None])
                            if tl.max(tl.max(open_.to(tl.int32), 1), 0) > 0:
                                same_place = (i[:, None] + j[None, :]) * 0
                                next_ = cursor + same_place
                                slot = tl.atomic_add(next_, 1, mask=open_, sem="relaxed")
                                stays = open_ & (slot < room)
                                first = (i[:, None] + same_place).to(tl.int32)
                                tl.store(list_i + slot, first, mask=stays)
                                second = (j[None, :] + same_place).to(tl.int32)
                                tl.store(list_j + slot, second, mask=stays)
        if MODE == 0:
            tl.atomic_add(state + i, counted, mask=there & (counted > 0), sem="relaxed")
        if MODE == 1:
            tl.atomic_min(state + i, least, mask=there, sem="relaxed")
""")

_APART = triton_module("""\
@triton.jit
def apart(x, y, a, b, out, n, d, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < n
    i = tl.load(a + at, mask=there, other=0).to(tl.int64)
    j = tl.load(b + at, mask=there, other=0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float64)
    for f in range(0, d):
        gap = tl.load(x + i * d + f, mask=there, other=0.0)
        gap = gap - tl.load(y + j * d + f, mask=there, other=0.0)
        total += gap * gap
    tl.store(out + at, total, mask=there)
""")

_MERGE = triton_module("""\
@triton.jit
def before(a, p, b, q):
    return ((a < b) | ((a == b) & (p < q))).to(tl.int32)


@triton.jit(do_not_specialize=["n", "room"])
def merge(
    x, y, yid, held, found, gaps, far, who, n, d, k, room,
    KNOWN: tl.constexpr, ROOM: tl.constexpr, PART: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    count = tl.minimum(tl.load(held + row), room)
    if count > 0:
        beyond = 4611686018427387904
        o = tl.arange(0, KNOWN)
        inside = o < k
        b = tl.load(far + row * k + o, mask=inside, other=float("inf"))
        kept = tl.load(who + row * k + o, mask=inside, other=-1)
        q = tl.where(kept < 0, beyond + o, kept)
        c = tl.arange(0, ROOM)
        has = c < count
        j = tl.load(found + row * room + c, mask=has, other=0).to(tl.int64)
        a = tl.zeros((ROOM,), tl.float64)
        for f in range(0, d):
            gap = tl.load(y + j * d + f, mask=has, other=0.0)
            gap = tl.load(x + row * d + f) - gap
            a += gap * gap
        p = tl.load(yid + j, mask=has, other=0)
        rank = tl.zeros((ROOM,), tl.int32)
        for low in range(0, k, PART):  # what is known already is not taken twice
            e = low + tl.arange(0, PART)
            known = tl.load(far + row * k + e, mask=e < k, other=float("inf"))
            name = tl.load(who + row * k + e, mask=e < k, other=-1)
            has = has & (tl.sum((p[:, None] == name[None, :]).to(tl.int32), 1) == 0)
            name = tl.where(name < 0, beyond + e, name)
            rank += tl.sum(before(known[None, :], name[None, :], a[:, None], p[:, None]), 1)
        tl.store(gaps + row * room + c, tl.where(has, a, float("nan")), mask=c < count)
        tl.debug_barrier()
        shift = o
        for low in range(0, count, PART):
            e = low + tl.arange(0, PART)
            there = e < count
            other = tl.load(gaps + row * room + e, mask=there, other=float("nan"))
            name = tl.load(found + row * room + e, mask=there, other=0).to(tl.int64)
            name = tl.load(yid + name, mask=there, other=0)
            rank += tl.sum(before(other[None, :], name[None, :], a[:, None], p[:, None]), 1)
            shift += tl.sum(before(other[None, :], name[None, :], b[:, None], q[:, None]), 1)
        tl.debug_barrier()
        tl.store(far + row * k + rank, a, mask=has & (rank < k))
        tl.store(who + row * k + rank, p, mask=has & (rank < k))
        tl.store(far + row * k + shift, b, mask=inside & (shift < k))
        tl.store(who + row * k + shift, kept, mask=inside & (shift < k))
""")


def power(n: int, least: int, most: int = 1 << 30) -> int:
    """The power of two in a span that holds n, or the largest there is."""
    return min(max(1 << (max(n, 1) - 1).bit_length(), least), most)


def _make_pairs(mode: int, n_rows: int, tile: int) -> Launches:
    def make(shape: tuple[int, ...], tiles: Any) -> Launch:
        part = power(shape[2], 16, 32)
        how = {"MODE": mode, "ONCE": int(shape[2] <= part), "TILE": tile, "PART": part}
        return Launch(_PAIRS, n_rows * shape[-1], shape, 8, 1, BLOCK=TILES_LOOKED_AT, **how)

    return Launches(make)


def _make_apart(shape: tuple[int, ...], tiles: Any) -> Launch:
    return Launch(_APART, -(-shape[0] // 256), shape, n_warps=4, BLOCK=256)


def _make_merge(shape: tuple[int, ...], tiles: Any) -> Launch:
    _, _, k, room = shape
    sizes = {"KNOWN": power(k, 16), "ROOM": power(room, 16), "PART": 16}
    return Launch(_MERGE, shape[0], shape, n_warps=min(max(room // 128, 1), 8), **sizes)


_pairs: dict[Any, Launches] = {}
_apart = Launches(_make_apart)
_merge = Launches(_make_merge)


def launch_pairs(mode: int, n_rows: int, split: int, numbers: Any, tiles: Any) -> None:
    """All tiles of columns for `n_rows` tiles of rows, `split` programs each."""
    key = (mode, n_rows, TILE)
    if key not in _pairs:
        if len(_pairs) > 64:
            _pairs.clear()
        _pairs[key] = _make_pairs(*key)
    _pairs[key].get((*numbers, split), tiles)(tiles)


def launch_apart(x: Any, y: Any, a: Any, b: Any, out: Any) -> None:
    """Squared distances of pairs (a, b) of rows of x and y, in float64."""
    if len(out):
        tiles = (x, y, a, b, out)
        _apart.get((len(out), x.shape[1]), tiles)(tiles)


def launch_merge(tiles: Any, numbers: tuple[int, int, int, int]) -> None:
    """The k nearest of each row, of those known and of those found."""
    _merge.get(numbers, tiles)(tiles)
