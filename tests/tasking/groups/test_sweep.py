"""Products, searches and sums over the same rows are one pass: NumPy's values, nothing stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import infinitensor as it
from infinitensor import native

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.usefixtures("always"),
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(native.compiler() is None, reason="no C compiler here"),
]

RNG = np.random.default_rng(5)


def kmeans_step(xp: Any, x: Any, centers: Any) -> tuple[Any, ...]:
    distances = (x * x).sum(1)[:, None] - 2 * x @ centers.T + (centers * centers).sum(1)
    labels = distances.argmin(1)
    members = labels[:, None] == xp.arange(len(centers))
    return members.T @ x, members.sum(0, dtype=x.dtype), labels, distances.min(1)


def soft_step(xp: Any, x: Any, centers: Any) -> tuple[Any, ...]:
    """Every row belongs to every center, by how near it is."""
    near = x @ centers.T
    near = xp.exp(near - near.max(axis=1, keepdims=True))
    shares = near / near.sum(axis=1, keepdims=True)
    return shares.T @ x, shares.sum(0), shares.mean(0), shares


def scatter(xp: Any, x: Any, centers: Any) -> tuple[Any, ...]:
    away = x - centers[0]
    return away.T @ away, away.mean(0)


def two_layers(xp: Any, x: Any, centers: Any) -> tuple[Any, ...]:
    hidden = xp.maximum(x @ centers.T + 0.5, 0)
    return hidden @ centers, hidden.sum(0)


def gradient(xp: Any, x: Any, centers: Any) -> tuple[Any, ...]:
    """Of a logistic regression, on both sides of a vector."""
    at = 1 / (1 + xp.exp(x @ centers[0] * -0.05))
    wrong = at - (x[:, 0] > 0)
    return x.T @ wrong, wrong @ x, (x * (at * (1 - at))[:, None]).T @ x, at


def power_step(xp: Any, x: Any, centers: Any) -> tuple[Any, ...]:
    return (x.T @ (x @ centers[0]),)


PROGRAMS: list[Callable[[Any, Any, Any], tuple[Any, ...]]] = [
    kmeans_step, soft_step, scatter, two_layers, gradient, power_step,
]  # fmt: skip
SHAPES = [(300, 16, 8), (1000, 3, 2), (4097, 7, 5), (2500, 15, 17), (700, 2, 30)]


def data(shape: tuple[int, int, int], kind: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows around centers that are far apart, so that rounding decides nothing."""
    n, d, k = shape
    centers = RNG.integers(-8, 9, (k, d)) + np.arange(k)[:, None]
    x = centers[RNG.integers(0, k, n)] + RNG.standard_normal((n, d)) / 16
    return x.astype(kind), (centers / 4).astype(kind)


def compare(got: tuple[Any, ...], wanted: tuple[Any, ...], kind: Any) -> None:
    near = 200 * float(np.finfo(kind).eps)
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        scale = float(np.abs(theirs).max()) + 1
        np.testing.assert_allclose(mine.numpy(), theirs, near, near * scale)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_values_are_numpys_in_one_task_a_piece(
    program: Callable[..., tuple[Any, ...]], shape: tuple[int, int, int], kind: Any
) -> None:
    x, centers = data(shape, kind)
    with it.init("cpu"):
        t, c = it.asarray(x), it.asarray(centers)
        norms = (c * c).sum(1)  # made before, so that only what is over rows is counted
        it.compute(t, c, norms)
        it.stats(reset=True)
        got = program(it, t, c)
        it.compute(*got)
        found = it.stats()
        compare(got, program(np, x, centers), kind)
        assert found["eager_fallbacks"] == 0
        assert found["tasks"] <= 3  # the sweep, squares of centers, their numbers


@pytest.mark.sampled(10)
@pytest.mark.parametrize("devices", ["cpu", "cpu*3"])
@pytest.mark.parametrize("elements", [1, 40, 500, 4096, 1 << 15])
@pytest.mark.parametrize("program", PROGRAMS)
def test_any_tile_will_do(
    program: Callable[..., tuple[Any, ...]],
    elements: int,
    devices: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", elements)
    x, centers = data((3000 if elements > 100 else 300, 16, 8), np.float64)
    with it.init(devices):
        got = program(it, it.asarray(x), it.asarray(centers))
        it.compute(*got)
        compare(got, program(np, x, centers), np.float64)


def test_sums_over_rows_have_the_same_bits_at_every_tile_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = RNG.standard_normal((100_000, 8)).astype(np.float32)
    c = RNG.standard_normal((8, 5)).astype(np.float32)
    found: dict[str, set[bytes]] = {"sum": set(), "mean": set(), "alone": set()}
    for elements, devices in ((1 << 17, "cpu"), (1 << 18, "cpu*3"), (1 << 19, "cpu*2"), (0, "cpu")):
        monkeypatch.setattr(it.config, "tile_elements", elements)
        with it.init(devices):
            made = it.maximum(it.asarray(x) @ it.asarray(c), 0)
            total, mean = made.sum(0), made.mean(0)
            it.compute(total, mean)
            found["sum"].add(total.numpy().tobytes())
            found["mean"].add(mean.numpy().tobytes())
            stored = it.maximum(it.asarray(x) @ it.asarray(c), 0)
            it.compute(stored)
            found["alone"].add(stored.sum(0).numpy().tobytes())
    assert len(found["sum"]) == len(found["mean"]) == 1
    assert found["alone"] == found["sum"]


def test_tables_between_take_no_memory() -> None:
    x, centers = data((600_000, 16, 8), np.float32)
    with it.init("cpu"):
        t, c = it.asarray(x), it.asarray(centers)
        it.compute(t, c)
        held = it.stats(reset=True)["peak_bytes"]
        sums, counts = kmeans_step(it, t, c)[:2]
        it.compute(sums, counts)
        more = max(it.stats()["peak_bytes"].values()) - max(held.values())
    assert more < x.nbytes / 4  # 2 * x alone is all of it


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x[5:, 1:],
        lambda x: x[:, ::2],
        lambda x: x[:, ::-1],
    ],
    ids=[
        "every second row",
        "rows backwards",
        "a part",
        "every second column",
        "columns backwards",
    ],
)
def test_rows_may_be_stored_apart(view: Callable[[Any], Any]) -> None:
    x, centers = data((2000, 12, 6), np.float64)
    for given_ in (x, np.asfortranarray(x)):
        with it.init("cpu"):
            c = np.ascontiguousarray(centers[:, : view(x).shape[1]])
            got = kmeans_step(it, view(it.asarray(given_)), it.asarray(c))
            it.compute(*got)
            compare(got, kmeans_step(np, view(given_), c), np.float64)


@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.uint16, np.int32, np.float32])
def test_operands_of_other_dtypes_are_cast_as_numpy_does(kind: Any) -> None:
    x = RNG.standard_normal((900, 5))
    c = RNG.integers(0, 2, (5, 4)).astype(kind)
    with it.init("cpu"):
        t = it.asarray(x)
        made = t * 2
        marked = (made > 0.3).astype(it.asarray(c).dtype)
        got = (made @ it.asarray(c), marked.T @ made, marked.T @ t, marked.sum(0, dtype=np.float64))
        it.compute(*got)
        made_ = x * 2
        marked_ = (made_ > 0.3).astype(kind)
        wanted = (made_ @ c, marked_.T @ made_, marked_.T @ x, marked_.sum(0, dtype=np.float64))
        compare(got, wanted, np.float64)


def test_what_is_read_otherwise_ends_a_sweep() -> None:
    x, centers = data((1200, 6, 4), np.float64)

    def program(xp: Any, t: Any, c: Any) -> tuple[Any, ...]:
        near = t @ c.T
        shifted = near[1:] - near[:-1]  # other rows
        total = near.sum(0)
        apart = near - total  # what a sum over all rows became
        ranks = xp.argsort(near[:, 0])
        picked = near * ranks[:, None]
        along = near[: len(c)].T @ near[: len(c)]
        return shifted, apart, apart.T @ t, picked.sum(0), along, near.T @ near, near.max(0)

    with it.init("cpu"):
        got = program(it, it.asarray(x), it.asarray(centers))
        it.compute(*got)
        compare(got, program(np, x, centers), np.float64)


def test_rows_that_are_written_to_are_read_before() -> None:
    x, centers = data((800, 6, 4), np.float64)
    with it.init("cpu"):
        t, a = it.asarray(x), x.copy()
        near = t @ it.asarray(centers).T
        total = near.sum(0)
        t[:, 1:] = 0
        again = (t @ it.asarray(centers).T).sum(0)
        near_ = a @ centers.T
        a[:, 1:] = 0
        it.compute(total, again, near)
        compare((near, total), (near_, near_.sum(0)), np.float64)
        compare((t, again), (a, (a @ centers.T).sum(0)), np.float64)


def test_nan_and_infinity_are_where_numpy_has_them() -> None:
    x, centers = data((600, 6, 4), np.float64)
    x[3, 4], x[50, 2], x[70, 3] = np.nan, np.inf, -np.inf
    with it.init("cpu"), np.errstate(invalid="ignore"):
        for program in PROGRAMS:
            got = program(it, it.asarray(x), it.asarray(centers))
            it.compute(*got)
            compare_with_nan(got, program(np, x, centers))


def compare_with_nan(got: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, 1e-10, 1e-10)


def test_a_reduction_that_c_has_no_loop_for_leaves_groups_apart() -> None:
    x, centers = data((500, 6, 4), np.float64)
    with it.init("cpu"):
        t, c = it.asarray(x), it.asarray(centers)
        got = ((t @ c.T).prod(1), t.prod(1)[:, None] * (t @ c.T), t - t.prod(1, keepdims=True))
        it.compute(*got)
        near = x @ centers.T
        wanted = (near.prod(1), x.prod(1)[:, None] * near, x - x.prod(1, keepdims=True))
        compare(got, wanted, np.float64)


def test_many_tables_in_little_memory_are_done_apart(tmp_path: Path) -> None:
    n, columns = 30_000, 8
    tables = [RNG.standard_normal((n, columns)) for _ in range(12)]
    for k, table in enumerate(tables):
        np.save(tmp_path / f"{k}.npy", table)
    with it.init("cpu", memory="6MiB"):
        read = [it.load(tmp_path / f"{k}.npy", mmap_mode="r") for k in range(len(tables))]
        c = it.asarray(np.eye(columns))
        made = [it.maximum(t @ c, 0) for t in read]
        got = tuple(y.T @ made[0] for y in made)
        it.compute(*got)
        wanted_ = [np.maximum(table, 0) for table in tables]
        compare(got, tuple(y.T @ wanted_[0] for y in wanted_), np.float64)


def test_a_compiler_that_fails_leaves_groups_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(source: str) -> Any:
        raise native.CompilerError("cc failed")

    x, centers = data((3000, 6, 4), np.float64)
    for elements in (0, 4096):
        monkeypatch.setattr(it.config, "tile_elements", elements)
        with it.init("cpu"), monkeypatch.context() as patched:
            patched.setattr("infinitensor.tasking.kernels.c_kernel.library", fails)
            for program in PROGRAMS:
                got = program(it, it.asarray(x), it.asarray(centers))
                with pytest.warns(RuntimeWarning, match="cc failed; the group runs step by step"):
                    it.compute(*got)
                compare(got, program(np, x, centers), np.float64)


def test_a_table_larger_than_memory_is_read_once_a_step(tmp_path: Path) -> None:
    x, centers = data((400_000, 16, 8), np.float32)
    np.save(tmp_path / "x.npy", x)
    with it.init("cpu", memory="12MiB"):
        t, c = it.load(tmp_path / "x.npy", mmap_mode="r"), it.asarray(centers)
        got = kmeans_step(it, t, c)[:2]
        it.compute(*got)
        compare(got, kmeans_step(np, x, centers)[:2], np.float32)


class Program:
    """A random program over rows, for NumPy and for us."""

    def __init__(self, draw: Any) -> None:
        self.d = draw(st.integers(1, 9))
        kinds = st.sampled_from(["scale", "column", "times", "vector", "norm", "mark", "kept"])
        self.steps = draw(st.lists(st.tuples(kinds, st.integers(1, 6)), min_size=1, max_size=6))
        self.ends = draw(
            st.lists(st.sampled_from(["sum", "mean", "cross", "own", "rows"]), min_size=1)
        )

    def __call__(self, xp: Any, x: Any) -> list[Any]:
        y, made = x, []
        for word, k in self.steps:
            width = y.shape[1]
            if word == "scale":
                y = y * 0.5 + xp.asarray(np.arange(width) / 8.0)
            elif word == "column":
                y = y - y.mean(axis=1, keepdims=True)
            elif word == "times":
                y = y @ xp.asarray(np.arange(width * k).reshape(width, k) % 5 - 2.0)
            elif word == "vector":
                y = y + (y @ xp.asarray(np.arange(width) % 3 - 1.0))[:, None]
            elif word == "norm":
                y = y / (1 + xp.abs(y).max(axis=1))[:, None]
            elif word == "mark":
                y = (y.argmin(axis=1)[:, None] == xp.arange(k)) * 1.5
            else:
                made.append(y)
        for word in self.ends:
            if word in ("sum", "mean"):
                made.append(getattr(y, word)(axis=0))
            elif word == "rows":
                made.append(y.sum(axis=1))
            elif word == "left":
                made.append(y[:, 0] @ x if y is x else y.max(axis=1) @ x)
            elif word == "right":
                made.append(x.T @ y.min(axis=1))
            else:
                made.append(y.T @ (x if word == "cross" else y))
        return made


@st.composite
def programs(draw: Any) -> Program:
    return Program(draw)


@settings(max_examples=40, deadline=None)
@given(
    programs(),
    st.integers(256, 900),
    st.sampled_from([0, 64, 1000]),
    st.sampled_from(["cpu", "cpu*2"]),
)
def test_random_programs_over_rows(program: Program, n: int, elements: int, devices: str) -> None:
    # sums of a few such numbers have no rounding: places of equal ones are the same everywhere
    x = np.random.default_rng(n).integers(-8, 9, (n, program.d)) / 4.0
    before = it.config.tile_elements
    it.config.tile_elements = elements
    try:
        with it.init(devices):
            got = program(it, it.asarray(x))
            it.compute(*got)
            for mine, theirs in zip(got, program(np, x), strict=True):
                np.testing.assert_allclose(
                    mine.numpy(), theirs, 1e-9, 1e-9 * (1 + np.abs(theirs).max())
                )
    finally:
        it.config.tile_elements = before
