"""Programs that random ones were reduced to when they failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .program import Line, Program
from .replay import SETTINGS, played

FOUND = {
    "stencils through a reshape in little memory": """\
x1 = xp.arange(95548, dtype="f8")
x2 = x1.reshape(2, 47774, -1, 1)
for _ in range(4): x2[:, 1:-1] = (x2[:, :-2] + x2[:, 2:]) * 0.5
x3 = (xp.arange(77000.0) % 9).reshape(1000, 77)[::3, 1:-1]
x3 -= 2.25
x4 = xp.asarray(data(3, 90000, "c16"))
x4.reshape(30, 3000)[::-2, 5:].real[...] = 7
""",
    "picked along lines in little memory": """\
x1 = xp.asarray(data(559, (1037, 2, 57), "i8"))
x2 = xp.take_along_axis(x1, xp.argsort(x1, axis=0, kind="stable"), axis=0)
x3 = xp.roll(x2, 5)
x2[..., :, None, ::-1] = data(1842, x2[..., :, None, ::-1].shape, "i8")
""",
    "a value for a mask is one element, many times": """\
x1 = xp.ones((7723, 83), dtype="f8")
xp.putmask(x1, mask(147, x1.shape, 0.98), 4)
x2 = xp.resize(xp.arange(3), (1000, 70))
x3 = xp.tile(xp.arange(2), (3, 50001))
""",
    "running sums of columns, then a stencil": """\
x1 = xp.asarray(data(1, (64, 5134), "f4"))
x2 = xp.cumsum(x1, axis=0)
for _ in range(4): x2[1:-1] = (x2[:-2] + x2[2:]) * 0.5
""",
    "a mask through a reshape that ends in an axis of length one": """\
x1 = xp.arange(66619).reshape(2149, 31, 1)
x1[mask(3, 2149)] = 9
x2 = (xp.arange(448788) * 2).reshape(12, -1)
x2.reshape(-1, 1)[mask(4, (448788, 1))] = 9
x3 = xp.arange(170925.0).reshape(129, -1, 1)[:100]
xp.sqrt(xp.abs(x3), out=x3, where=mask(5, x3.shape))
""",
    "a view that was looked at, evicted, and written": """\
x1 = (xp.arange(75972) // 3 % 3).astype("i4").reshape((1, 75972))
x2 = (xp.arange(75972) // 3 % 3).astype("i4").reshape((1, 75972))
x2[:, 2:30117:2] &= data(3, x2[:, 2:30117:2].shape[1:], "i4")  # compared
x2[:, xp.asarray(index(3, 2, x2.shape[1]))] = 1
""",
    "a view that was looked at, evicted, and read": """\
x1 = xp.full((149, 1, 614), 3, dtype="f8")
x2 = xp.arange(91486, dtype="i4")
x5 = xp.argsort(x2, axis=-1, kind="stable")  # compared
x7 = xp.moveaxis(x1, 0, -2)
x10 = x5[2:31576]
x11 = xp.unique(x7)  # compared
x13 = xp.negative(x10)
""",
    "what is read again from a disk is written": """\
x1 = xp.asarray(data(729, (160000,), "f4"))
x2 = (xp.arange(160000) // 3 % 3).astype("f4").reshape((160000,))
x3 = xp.sum(x1, axis=-1)
x2.flat[1:] = 0.5  # compared
x1[xp.asarray(mask(2, 160000, 0.49))] = data(2, x1[xp.asarray(mask(2, 160000, 0.49))].shape, "f4")
""",
    "a cast of values on a disk, written to half of a tensor": """\
x2 = (xp.arange(127599) // 3 % 3).astype("i4").reshape((127599,))
x3 = xp.negative(x2)
x3[..., 3:85187] = xp.asarray(data(2, x3[..., 3:85187].shape, "i1"))
""",
    "an empty part of values on a disk": """\
x2 = xp.asarray(data(2, (2664, 1, 60), "f8"))
x3 = xp.expand_dims(x2, 0)
x5 = xp.nansum(x2, axis=(1, 2, 0))
x2[:, index(2, 5, x2.shape[1])] = xp.asarray(data(9, x2[:, index(2, 5, x2.shape[1])].shape, "f8"))
x6 = xp.diff(x3, axis=-2)
""",
    "rows of what was read back from a disk are written": """\
x1 = xp.asarray(data(3, (349, 346), "i8"))
x2 = xp.asarray(data(3, (349, 346), "i8"))
x3 = xp.floor_divide(x1, 2)  # compared
x4 = xp.cumsum(x2, axis=-1)
x5 = x4.reshape(-1, 1)
x5 %= 3  # compared
for i in range(0, 349, 2): x2[i] = i % 2  # compared
x4[:, xp.asarray(index(2, 5000, x4.shape[1]))] = data(8, (349, 5000), "i8")
""",
    "a part of what was read back from a disk is transposed": """\
x2 = xp.asarray(data(2, (1, 140, 13, 10, 7), "i1"))
x3 = xp.arange(73531, dtype="f8")  # compared
x4 = x2[:, 2, :-2, 1:-1]
x6 = xp.concatenate([x2, x2], axis=-3)  # compared
x4[...] = xp.flip(x4, 3)
x7 = xp.arange(127400, dtype="i4")  # compared
x7[:] |= 3
""",
    "a donated tensor is evicted, brought back and written": """\
x2 = xp.asarray(data(14, (97, 1, 14, 90), "i4"))
x2[xp.asarray(mask(4, x2.shape))] = data(8, x2[xp.asarray(mask(4, x2.shape))].shape, "i4")
""",
    "one matrix for many, in pieces that are apart": """\
x1 = xp.zeros((9, 884, 9, 2), dtype="f4")
x2 = (xp.rot90(x1) @ data(2, (2, 5), "f4")).copy()
""",
}
COMPARED = "  # compared"


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", FOUND)
def test_found_programs_give_what_numpy_gives(name: str, setting: str) -> None:
    made = []
    for text in FOUND[name].splitlines():
        makes = text.split(" = ")[0]
        makes = makes if makes.isidentifier() else ""
        made.append(Line(text.removesuffix(COMPARED), makes, text.endswith(COMPARED)))
    made[-1] = replace(made[-1], compares=True)
    outcome = played(Program(tuple(made), frozenset(), rounds=3), setting)
    assert outcome.kind == "same", outcome.said
