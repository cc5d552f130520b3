"""Golden plans: a refactor changes none of them.

`INFINITENSOR_UPDATE_PLANS=1 pytest tests/plans` writes them anew; look at the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.ir.sessions import strict

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
UPDATE = os.environ.get("INFINITENSOR_UPDATE_PLANS") == "1"


def zeros(*shape: int) -> Any:
    return it.zeros(shape)


def standardise() -> Any:
    x = it.random.normal(size=(2000, 300))
    return (x - it.mean(x, axis=0)) / it.std(x, axis=0)


def rows_in_a_loop() -> Any:
    a, c = zeros(60, 50) + 1, zeros(60, 50)
    for k in range(20):
        c[k] = a[k] * 2
    return c


def stencil() -> Any:
    g = zeros(200, 200) + 1
    for _ in range(2):
        g[1:-1, 1:-1] = (g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:]) * 0.25
    return g


def softmax() -> Any:
    x = it.random.uniform(size=(400, 500))
    e = it.exp(x - it.max(x, axis=1, keepdims=True))
    return e / it.sum(e, axis=1, keepdims=True)


def nearest_center() -> Any:
    x, c = it.random.normal(size=(3000, 64)), it.random.normal(size=(50, 64))
    return it.argmin(it.sum(c * c, axis=1) - 2 * (x @ c.T), axis=1)


def gram() -> Any:
    x = it.random.normal(size=(3000, 100))
    return x.T @ x


def columns_then_mask() -> Any:
    x = it.random.normal(size=(500, 80))
    x[:, ::2] = 0
    x[x > 1] = 1
    return x


PROGRAMS: dict[str, Callable[[], Any]] = {
    "chain": lambda: it.sqrt(it.ones((700, 500)) * 2 + 1),
    "sum": lambda: it.sum(it.ones((700, 500)) * 2, axis=0),
    "standardise": standardise,
    "matmul": lambda: it.ones((600, 400)) @ it.ones((400, 500)),
    "gram": gram,
    "nearest_center": nearest_center,
    "softmax": softmax,
    "rows_in_a_loop": rows_in_a_loop,
    "stencil": stencil,
    "columns_then_mask": columns_then_mask,
    "sort_and_cumsum": lambda: it.cumsum(it.sort(it.random.normal(size=(90_000,)))),
    "transposed": lambda: it.random.normal(size=(300, 400)).T.reshape((400, 300))[::-1] + 1,
    "slice_of_much": lambda: (it.ones((100_000, 100)) * 3)[5000:5003] + 1,
}


def text_of(program: Callable[[], Any], devices: str, tile_elements: int) -> str:
    """The plan as text, without the lines of the program."""
    with strict(devices, tile_elements, memory="1GiB"):
        text = str(it.plan(program()))
    lines = [re.sub(r" *\S+\.py:\d+$", "", line).rstrip() for line in text.splitlines()]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_plan_is_the_one_on_record(name: str) -> None:
    found = ""
    for devices, tile_elements in (("null*1", 0), ("null*3", 20_000)):
        found += f"# {devices}, tile_elements={tile_elements}\n"
        found += text_of(PROGRAMS[name], devices, tile_elements)
    path = HERE / f"{name}.txt"
    if UPDATE:
        path.write_text(found)
    assert found == path.read_text(), f"INFINITENSOR_UPDATE_PLANS=1 rewrites {path.name}"


def test_every_plan_on_record_has_a_program() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(PROGRAMS)


@pytest.mark.parametrize("name", ["stencil", "nearest_center"])
def test_a_plan_is_the_same_every_time(name: str) -> None:
    assert text_of(PROGRAMS[name], "null*3", 500) == text_of(PROGRAMS[name], "null*3", 500)
