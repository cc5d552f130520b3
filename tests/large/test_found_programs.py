"""Programs that random ones were reduced to when they failed."""

from __future__ import annotations

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
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", FOUND)
def test_found_programs_give_what_numpy_gives(name: str, setting: str) -> None:
    lines = [Line(text, text.split(" = ")[0]) for text in FOUND[name].splitlines()]
    made = [Line(x.text, x.makes if x.makes.isidentifier() else "") for x in lines]
    made[-1] = Line(made[-1].text, made[-1].makes, compares=True)
    outcome = played(Program(tuple(made), frozenset(), rounds=2), setting)
    assert outcome.kind == "same", outcome.said
