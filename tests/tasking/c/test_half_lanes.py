"""Loops over several halves at a time have the bits of NumPy, for every length and every half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor import native
from infinitensor.tasking.c.half_lanes import converts, lines_of_lanes

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
with_compiler = pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")


def made(lines: list[str]) -> str:
    return " ".join(lines_of_lanes(lines))


def test_only_loops_that_convert_float16_are_over_several() -> None:
    assert converts(["const half x0 = read_float16(v0[i]);"])
    assert converts(["o0[i] = written_float16(s1);"])
    assert not converts(["const float x0 = read_bfloat16(v0[i]);", "o0[i] = x0;"])


def test_what_is_rounded_inside_an_expression_is_an_array_before_it() -> None:
    text = made(["const half s0 = rounded_float16(1 / rounded_float16(b1 + 1));"])
    inner, outer = text.index("= b1 + 1;"), text.index("= 1 / l")
    assert inner < text.index("round_halves") < outer < text.rindex("round_halves")


def test_writing_rounds_so_nothing_is_rounded_before() -> None:
    text = made(["const half s0 = rounded_float16(b1 + 1);", "o0[i] = written_float16(s0);"])
    assert "write_halves(l0, o0 + i);" in text


def test_elements_of_other_types_are_taken_one_after_another() -> None:
    text = made(["const double x1 = v1[i];", "o0[i] = x1 * 2;"])
    assert text == (
        "double l0[HALVES_AT_ONCE]; EACH_HALF l0[w] = v1[i + w]; EACH_HALF o0[i + w] = l0[w] * 2;"
    )


def steps(np_: Any, x: Any, y: Any) -> list[Any]:
    quotient = y / (np_.abs(x) + 1)
    chosen = np_.where(x > y, -x, quotient * 0.5)
    return [
        chosen,
        np_.floor(np_.sqrt(np_.abs(x)) - quotient),
        np_.maximum(chosen, y) * np_.sign(x),
        x < chosen,
        (x * y).astype(np.float32) * 3 + y,
        np_.isfinite(x + x),
    ]


def reduced(np_: Any, x: Any, y: Any) -> list[Any]:
    made = np_.abs(x) * 0.5 + y
    return [made, made.max(0), made.min(1), made.max()]


@pytest.mark.sampled(5)
@with_compiler
@pytest.mark.filterwarnings("ignore:::numpy")
@pytest.mark.parametrize("program", [steps, reduced])
@pytest.mark.parametrize("shape", [(1, 1), (1, 15), (5, 16), (3, 17), (2, 1023), (1, 2050), None])
def test_generated_code_has_numpys_bits(
    program: Callable[..., list[Any]],
    shape: tuple[int, int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(it.config, "compile", "always")
    monkeypatch.setattr(it.config, "small_elements", 0)
    rng = np.random.default_rng(0)
    x = EVERY.reshape(256, 256) if shape is None else rng.permutation(EVERY)[: shape[0] * shape[1]]
    x = x.reshape(shape or (256, 256))
    y = rng.permutation(EVERY)[: x.size].reshape(x.shape)
    with it.init("cpu"), np.errstate(all="ignore"):
        got = program(it, it.asarray(x), it.asarray(y))
        it.compute(*got)
        for mine, wanted in zip(got, program(np, x, y), strict=True):
            assert mine.dtype == wanted.dtype
            np.testing.assert_array_equal(mine.numpy(), wanted)
            signs = np.signbit(mine.numpy()) == np.signbit(wanted)
            assert np.all(signs | np.isnan(wanted))


@with_compiler
@pytest.mark.parametrize("axis", [0, 1, None])
def test_sums_of_halves_have_the_bits_of_steps(
    axis: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generated or step by step, in one order."""
    x = np.random.default_rng(1).standard_normal((70, 2500)).astype(np.float16)
    found = []
    monkeypatch.setattr(it.config, "small_elements", 0)
    for how in ("always", "never"):
        monkeypatch.setattr(it.config, "compile", how)
        with it.init("cpu"):
            a = it.asarray(x)
            t = it.abs(a * 3) + a
            made = (t.sum(axis), t.mean(axis), t.var(axis))
            it.compute(*made)
            found.append([one.numpy() for one in made])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@with_compiler
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "shape", [(70, 45), (3, 2500), (1, 7), (19, 1025), (5, 33, 16), (2, 40, 3), (4, 0), (33, 1)]
)
def test_columns_of_halves_have_the_bits_of_steps(
    shape: tuple[int, ...], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are reduced a few at a time: alone and together, with steps between, with NaN."""
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    if x.size:
        x[..., 0] = 0.0
        x[-1, ..., -1] = np.nan
    found = []
    monkeypatch.setattr(it.config, "small_elements", 0)
    for how in ("always", "never"):
        monkeypatch.setattr(it.config, "compile", how)
        with it.init("cpu"):
            a = it.asarray(x).astype(kind)
            some = (a, a[::2], it.flip(a, -1), a[..., ::2])
            made = [f(b, axis=-2) for b in some for f in (it.sum, it.max, it.min, it.var)]
            it.compute(*made[:4])
            found.append([one.astype("float32").numpy() for one in made])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.all((np.signbit(one) == np.signbit(other)) | np.isnan(one))
