"""Every mode of `pad` with its options, as NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.api.modes import assert_alike, mode  # noqa: F401 - a fixture

import infinitensor as it

pytestmark = pytest.mark.usefixtures("mode")
RNG = np.random.default_rng(5)
ARRAYS: dict[str, Any] = {
    "float64": RNG.normal(size=(3, 4)),
    "int64": RNG.integers(-99, 99, 5),
    "uint8": RNG.integers(0, 99, (2, 1, 3)).astype(np.uint8),
    "bool": RNG.random((3, 3)) < 0.5,
    "float32": RNG.normal(size=(3, 4)).astype(np.float32),
    "complex": RNG.normal(size=3) + 1j,
    "empty": np.zeros((0, 3)),
    "0-d": np.asarray(3.0),
}
WIDTHS: list[Any] = [1, (2, 3), 11, 0, {0: 2}, {-1: (1, 0)}, 1.5, -1, (1, 2, 3)]
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "constant": [{}, {"constant_values": 3}, {"constant_values": (1, 2.5)}],
    "edge": [{}, {"stat_length": 2}],
    "empty": [],
    # -4.0 as uint8 is another number on every processor
    "linear_ramp": [{}, {"end_values": (5, 4)}, {"end_values": 2.5}],
    "maximum": [{}, {"stat_length": 2}, {"stat_length": 0}],
    "minimum": [{"stat_length": (1, 2)}, {"stat_length": -1}],
    "mean": [{}, {"stat_length": 2}],
    "median": [{}, {"stat_length": (1, 3)}],
    "reflect": [{}, {"reflect_type": "odd"}],
    "symmetric": [{}, {"reflect_type": "odd"}],
    "wrap": [{}],
    "unknown": [{}],
}


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("name", ARRAYS)
def test_every_mode_is_numpys(name: str, kind: str) -> None:
    for width in WIDTHS if name == "float64" else WIDTHS[:3]:
        for options in OPTIONS[kind]:
            assert_alike(
                lambda xp, x, width, **more: xp.pad(x, width, kind, **more),
                ARRAYS[name],
                width=width,
                **options,
            )


def test_a_function_writes_the_border_of_every_line() -> None:
    def write(line: Any, width: tuple[int, int], axis: int, options: dict[str, Any]) -> None:
        line[: width[0]] = options.get("value", axis)
        if width[1]:
            line[-width[1] :] = line[width[0]]

    for width in (1, ((2, 1), (0, 3))):
        assert_alike(lambda xp, x, w: xp.pad(x, w, write), ARRAYS["float64"], w=width)
        assert_alike(lambda xp, x, w: xp.pad(x, w, write, value=7), ARRAYS["float64"], w=width)


def test_an_empty_border_has_the_shape_and_what_is_inside() -> None:
    made = it.pad(it.arange(3), (1, 2), "empty")
    assert made.shape == (6,)
    assert made[1:4].tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["linear_ramp", "mean", "maximum", "symmetric"])
def test_large_arrays_get_their_borders(kind: str) -> None:
    x = RNG.normal(size=(257, 301) if it.config.tile_elements != 7 else (9, 11))
    np.testing.assert_allclose(it.pad(it.asarray(x), 9, kind), np.pad(x, 9, kind))  # type: ignore[call-overload]
