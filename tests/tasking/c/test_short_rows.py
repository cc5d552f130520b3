"""Short rows, many at once: NumPy's values whatever the rows are beside, and in any strides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import infinitensor as it
from infinitensor import native
from infinitensor.dtypes import bfloat16
from infinitensor.ops.forms.fold_order import SHORT_ROW_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.usefixtures("always"),
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(native.compiler() is None, reason="no C compiler here"),
]

REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda xp, x: x.sum(-1),
    "mean": lambda xp, x: x.mean(-1, keepdims=True),
    "max": lambda xp, x: x.max(-1),
    "min": lambda xp, x: x.min(-1, keepdims=True),
    "argmin": lambda xp, x: x.argmin(-1),
    "argmax": lambda xp, x: x.argmax(-1),
    "std": lambda xp, x: x.std(-1),
    "var": lambda xp, x: x.var(-1, ddof=1),
    "any": lambda xp, x: (x > 1).any(-1),
    "all": lambda xp, x: (x > -1).all(-1),
    "count": lambda xp, x: xp.count_nonzero(x > 0, axis=-1),
}


def near(got: Any, wanted: Any) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if wanted.dtype.kind in "fc":
        eps = float(np.finfo(wanted.dtype).eps)
        np.testing.assert_allclose(got, wanted, 64 * eps, 1000 * eps)  # sums may cancel
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "n", [2, 3, 4, 7, 8, 15, 16, 17, 33, SHORT_ROW_ELEMENTS - 1, SHORT_ROW_ELEMENTS]
)
@pytest.mark.parametrize("kind", ["f4", "f8", "i2", "i8"])
def test_every_reduction_of_rows(n: int, kind: str) -> None:
    x = (np.random.default_rng(n).standard_normal((700, n)) * 9).astype(kind)
    with it.init("cpu"):
        t = it.asarray(x)
        for reduce in REDUCTIONS.values():
            near(reduce(it, t).numpy(), reduce(np, x))
            near(reduce(it, t * 2 + 1).numpy(), reduce(np, x * 2 + 1))
        assert it.stats()["eager_fallbacks"] == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("n", [2, 5, 16, 40])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_nan_is_found_first_and_wins(n: int, kind: Any) -> None:
    rng = np.random.default_rng(n)
    x = rng.integers(-3, 3, (3000, n)).astype(kind)  # many are equal: the first is the place
    x[rng.random(x.shape) < 0.2] = np.nan
    x[rng.random(x.shape) < 0.1] = -np.inf
    with it.init("cpu"), np.errstate(all="ignore"):
        t = it.asarray(x)
        for name in ("argmin", "argmax", "min", "max"):
            np.testing.assert_array_equal(getattr(t, name)(1).numpy(), getattr(x, name)(1))
            doubled = getattr(t * 2 + 1, name)(1)
            np.testing.assert_array_equal(doubled.numpy(), getattr(x * 2 + 1, name)(1))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("n", [2, 3, 8, 15, 16, 20])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_columns_of_a_table_that_is_read_in_parts(n: int, kind: Any) -> None:
    x = (np.random.default_rng(n).standard_normal((5000, n)) * 9).astype(kind)
    places = np.random.default_rng(1).integers(0, 5000, 40)
    if kind is not np.int32:
        x[places, places % n] = np.nan
    with it.init("cpu"), np.errstate(all="ignore"):
        t = it.asarray(x)
        for name in ("argmin", "argmax", "min", "max"):
            wanted = getattr(x * 2 + 1, name)(0)
            np.testing.assert_array_equal(getattr(t * 2 + 1, name)(0).numpy(), wanted)
            np.testing.assert_array_equal(getattr(t, name)(0).numpy(), getattr(x, name)(0))
        x, t = np.nan_to_num(x), it.nan_to_num(t)
        for name in ("sum", "mean", "std", "var"):
            exact = getattr((x.astype(np.float64) * 2 + 1), name)(0)
            got = getattr(t * 2 + 1, name)(0).numpy()
            np.testing.assert_allclose(got, exact, 2e-6, 5e-3)
        np.testing.assert_array_equal((t > 20).any(0).numpy(), (x > 20).any(0))


@pytest.mark.parametrize("shape", [(64, 64), (63, 65), (129, 300), (40, 3), (2, 65, 128)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int16", "uint8", "complex64"])
def test_parts_of_long_rows_are_read_and_written_where_they_are(
    shape: tuple[int, ...], dtype: str, always: None
) -> None:
    """Beside rows that are transposed: whole ones, those that are the same for all, one value for
    each, and those that go backwards."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 9, shape).astype(dtype)
    y = rng.integers(0, 9, shape[::-1]).astype(dtype)
    with it.init("cpu"):
        s, t = it.asarray(x), it.asarray(y)
        for ours, theirs in (
            (s.T + t * t, x.T + y * y),
            (it.flip(s.T, 0) * t - t, np.flip(x.T, 0) * y - y),
            (s.T * t[..., :1] + t[:1], x.T * y[..., :1] + y[:1]),
            (s.T * t[..., ::-1] + t, x.T * y[..., ::-1] + y),
        ):
            np.testing.assert_array_equal(ours.numpy(), theirs, strict=True)
        a, b = s.T * t, s.T + t
        it.compute(a, b)
        np.testing.assert_array_equal(a.numpy(), x.T * y)
        np.testing.assert_array_equal(b.numpy(), x.T + y)


@pytest.mark.parametrize("shape", [(70, 90), (300, 1100), (5, 4000), (3, 50, 200)])
def test_transposed_operands(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).standard_normal(shape)
    with it.init("cpu"):
        t = it.asarray(x)
        near((t.T + 1).numpy(), x.T + 1)
        near((t.T * 2 + t.T).numpy(), x.T * 2 + x.T)
        last = x.T[..., :1]
        near((it.exp(-abs(t.T)) * it.asarray(last) + 1).numpy(), np.exp(-abs(x.T)) * last + 1)
        near((it.exp(t.T) * 2).max(0).numpy(), (np.exp(x.T) * 2).max(0))
        near(it.sqrt(abs(t)).swapaxes(0, 1)[::2].numpy(), np.sqrt(abs(x)).swapaxes(0, 1)[::2])


@pytest.mark.parametrize("n", [3, 40, 500])
@pytest.mark.parametrize("devices", ["cpu", "cpu*2"])
def test_rows_are_reduced_by_calls_of_c(
    n: int, devices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", 100 * n)
    x = (np.random.default_rng(n).standard_normal((60, 50, n)) * 9).astype(np.float32)
    x[3, 4, n // 2] = np.nan

    def program(xp: Any, x: Any) -> list[Any]:
        far = x * 2 + 1
        return [
            far.sum(-1),
            x.argmax(-1),
            (x + 3).argmin(-1, keepdims=True),
            x.min(-1, keepdims=True),
            (far > 0).any(-1),
            xp.count_nonzero(far < 1, axis=-1),
            far,  # stored beside what is reduced
        ]

    with it.init(devices):
        t = it.asarray(x)
        for _ in range(3):
            got = program(it, t)
            it.stats(reset=True)
            it.compute(*got)
            found = it.stats()
            for mine, wanted in zip(got, program(np, x), strict=True):
                assert mine.dtype == wanted.dtype
                np.testing.assert_allclose(mine.numpy(), wanted, 1e-5, 1e-3)
    assert found["tasks_in_c"] >= found["tasks"] // 2


def test_rows_of_several_lengths_in_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it.config, "tile_elements", 100)
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((300, n)) for n in (5, 9, 5, 30, 70, 71)]
    with it.init("cpu"):
        given = [it.asarray(x) for x in tables]
        for _ in range(3):
            got = [both for t in given for both in ((t * 2 + 1).sum(1), t.argmin(1), t.std(1))]
            it.stats(reset=True)
            it.compute(*got)
            for k, x in enumerate(tables):
                near(got[3 * k].numpy(), (x * 2 + 1).sum(1))
                near(got[3 * k + 1].numpy(), x.argmin(1))
                near(got[3 * k + 2].numpy(), x.std(1))
        assert it.stats()["tasks_in_c"] > 0


VIEWS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda x: x,
    "every second row": lambda x: x[::2],
    "backwards": lambda x: x[::-1, ::-1],
    "some columns": lambda x: x[:, 1:],
    "the same row": lambda x: x[:1],
    "one column": lambda x: x[:, :1],
}


@settings(deadline=None)  # it compiles
@given(
    n=st.integers(2, 70),
    rows=st.integers(1, 400),
    views=st.lists(st.sampled_from(sorted(VIEWS)), min_size=2, max_size=3),
    kind=st.sampled_from(["f4", "f8", "i4", "c16", "bool"]),
    transposed=st.booleans(),
    tile=st.sampled_from([0, 0, 50, 333]),
)
def test_operands_are_stored_as_they_like(
    n: int, rows: int, views: list[str], kind: str, transposed: bool, tile: int
) -> None:
    rng = np.random.default_rng(0)
    base = [(rng.standard_normal((2 * rows, n + 1)) * 5).astype(kind) for _ in views]
    if transposed:
        base[0] = np.ascontiguousarray(base[0].T).T
    before = it.config.tile_elements
    it.config.tile_elements = tile
    try:
        with it.init("cpu*2" if tile else "cpu"):
            seen = [(x, it.asarray(x)) for x in base]
            operands = []
            for (x, t), name in zip(seen, views, strict=True):
                view = VIEWS[name]
                both = view(x), view(t)
                if both[0].shape[0] > rows:
                    both = both[0][:rows], both[1][:rows]
                if both[0].shape[1] > n:
                    both = both[0][:, :n], both[1][:, :n]
                operands.append(both)

            def chain(xp: Any, xs: list[Any]) -> list[Any]:
                made = xp.where(xs[0] == xs[0], xs[0], 0)
                for x in xs[1:]:
                    made = made + x * (made != 0)
                return [made, xs[0] + xs[1], (xs[0] == xs[-1]).any(-1)]

            got = chain(it, [mine for _, mine in operands])
            for mine, wanted in zip(got, chain(np, [x for x, _ in operands]), strict=True):
                near(mine.numpy(), wanted)
    finally:
        it.config.tile_elements = before


def test_more_axes_and_written_views() -> None:
    x = np.random.default_rng(2).standard_normal((11, 40, 3)).astype(np.float32)
    scale = np.asarray([0.5, 2, 3], np.float32)
    with it.init("cpu"):
        t, s = it.asarray(x.copy()), it.asarray(scale)
        wanted = x.copy()
        t[:, ::2] = t[:, ::2] * s - t[:, 1::2].mean(-1, keepdims=True)
        wanted[:, ::2] = wanted[:, ::2] * scale - wanted[:, 1::2].mean(-1, keepdims=True)
        near(t.numpy(), wanted)
        near((t.transpose(1, 2, 0) * 2 + 1).numpy(), wanted.transpose(1, 2, 0) * 2 + 1)
        near((t.transpose(2, 0, 1) + 1).numpy(), wanted.transpose(2, 0, 1) + 1)


@pytest.mark.parametrize("devices", ["cpu", "cpu*3"])
@pytest.mark.parametrize("n", [3, 24])
def test_the_same_bits_at_every_tile_size(devices: str, n: int) -> None:
    x = np.random.default_rng(4).standard_normal((9000, n)).astype(np.float32)
    found = set()
    before = it.config.tile_elements
    try:
        for elements in (1 << 12, 1 << 14, 0):
            it.config.tile_elements = elements
            with it.init(devices):
                t = it.asarray(x)
                made = [(t * t).sum(1), t.std(1), it.exp(t - t.max(1, keepdims=True)).sum(1)]
                it.compute(*made)
                found.add(b"".join(each.numpy().tobytes() for each in made))
    finally:
        it.config.tile_elements = before
    assert len(found) == 1


@pytest.mark.sampled(10)
@pytest.mark.parametrize("tile_elements", [512, 1 << 20])
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), bfloat16, np.dtype(np.float32)], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_rows_have_the_bits_of_their_steps(name: str, dtype: Any, tile_elements: int) -> None:
    """With ties, infinities and NaNs; short and long rows; in Python's tasks, and in C's again."""
    it.config.tile_elements = tile_elements
    rng = np.random.default_rng(11)
    for shape in ((700, 2), (400, 7), (90, 61), (300, 100), (9, 700), (3, 40, 12)):
        values = rng.integers(-20, 20, shape).astype("f4") / 8
        for special in (None, np.inf, np.nan):
            if special is not None:
                values[rng.random(shape) < 0.01] = special
            found = []
            for how in ("never", "always"):
                it.config.compile, it.config.small_elements = how, 0
                with it.init("cpu"), np.errstate(all="ignore"):
                    x = it.asarray(values).astype(dtype)
                    for _ in range(1 if how == "never" else 2):
                        found.append(REDUCTIONS[name](it, x).numpy())
                        found.append(REDUCTIONS[name](it, x * 2).numpy())
            for by_steps, generated in zip(found[:2] * 2, found[2:], strict=True):
                assert generated.dtype == by_steps.dtype
                np.testing.assert_array_equal(generated.astype("f8"), by_steps.astype("f8"))


OVER_ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda xp, x: xp.sum(x * 0.5 + 1, axis=-2),
    "mean": lambda xp, x: xp.mean(x * x, axis=-2, keepdims=True),
    "max": lambda xp, x: xp.max(x * 2 - 1, axis=-2),
    "min": lambda xp, x: xp.min(abs(x) + 1, axis=-2),
    "var": lambda xp, x: xp.var(x * 0.5, axis=-2),
    "std": lambda xp, x: xp.std(x - 1, axis=-2, ddof=1),
    "any": lambda xp, x: xp.any(x * 2 > 2, axis=-2),
    "count": lambda xp, x: xp.count_nonzero(x - 1 > 0, axis=-2),
    "centred": lambda xp, x: xp.sum(abs(x - xp.max(x, axis=-2, keepdims=True)), axis=-2),
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("tile_elements", [512, 1 << 20])
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), bfloat16, np.dtype(np.float32)], ids=str)
@pytest.mark.parametrize("name", OVER_ROWS)
def test_short_rows_added_up_have_the_bits_of_their_steps(
    name: str, dtype: Any, tile_elements: int
) -> None:
    """As stored, backwards and transposed: rows are then lined up in blocks."""
    it.config.tile_elements = tile_elements
    rng = np.random.default_rng(12)
    for shape in ((700, 16), (400, 27), (90, 61), (3, 40, 20), (1, 30), (2, 3, 63)):
        values = rng.integers(-20, 20, shape).astype("f4") / 8
        values[rng.random(shape) < 0.01] = np.nan
        found = []
        for how in ("never", "always"):
            it.config.compile, it.config.small_elements = how, 0
            with it.init("cpu"), np.errstate(all="ignore"):
                x = it.asarray(values).astype(dtype)
                transposed = it.asarray(np.swapaxes(values, 0, -1).copy()).astype(dtype)
                found.append(
                    [
                        OVER_ROWS[name](it, seen).numpy().astype("f8")
                        for seen in (x, x[..., ::-1, :], it.swapaxes(transposed, 0, -1))
                    ]
                )
        for by_steps, generated in zip(*found, strict=True):
            np.testing.assert_array_equal(generated, by_steps)
