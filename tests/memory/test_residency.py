"""What stays of data larger than memory: programs that run again read only what cannot stay."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor import events
from infinitensor.memory import places
from infinitensor.runtime.state.step import TILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from infinitensor.ir.region import Box
    from infinitensor.runtime import Run

N_ROWS, N_COLUMNS, K = 64_000, 32, 4
DATA_BYTES = 4 * N_ROWS * N_COLUMNS
TILE_BYTES = 4 << 15
FOR_COMPUTING = 24 * TILE_BYTES
N_ITERATIONS = 20


def lru_loads(asked: Iterable[Any], capacity: int) -> int:
    """How many of the things asked for in turn are loaded, if those used last are kept."""
    held: OrderedDict[Any, None] = OrderedDict()
    n_loads = 0
    for one in asked:
        if one in held:
            held.move_to_end(one)
            continue
        n_loads += 1
        held[one] = None
        if len(held) > capacity:
            held.popitem(last=False)
    return n_loads


def test_least_recently_used_loads_all_of_a_scan_that_is_one_too_long() -> None:
    assert lru_loads([*range(5)] * 3, 5) == 5
    assert lru_loads([*range(5)] * 3, 4) == 15


def tiles_asked(run: Run, shape: tuple[int, ...]) -> list[Box]:
    """The tiles of the leaf of this shape that a run touches, in the order of its program."""
    wanted = {
        tiles.leaf
        for tiles in run.program.graph.tiles
        if tiles.leaf >= 0 and tuple(tiles.boxes[:, :, 1].max(axis=0).tolist()) == shape
    }
    found = []
    order = run.program.order
    for task in order.tolist() if order is not None else ():
        step = run.steps[task]
        for tile in (*step.many, *(read.tile for read in step.reads if read.how == TILE)):
            if run.program.graph.set_with(tile).leaf in wanted:
                found.append(run.program.graph.box_of(tile))
    return found


def window_bytes(run: Run, shape: tuple[int, ...]) -> int:
    """Bytes of a column of the leaf of this shape that a run reads as a leaf of its own."""
    ends = [tiles.boxes[:, :, 1].max(axis=0).tolist() for tiles in run.program.graph.tiles
            if tiles.leaf >= 0]  # fmt: skip
    return sum(4 * shape[0] for end in ends if end == [shape[0], 1])


def by_one_hot_products(x: Any, c: Any) -> Any:
    labels = ((c * c).sum(axis=1) - 2 * (x @ c.T)).argmin(axis=1)
    hot = (labels[:, None] == np.arange(K)).astype(np.float32)
    return (hot.T @ x) / hot.sum(axis=0)[:, None]


def by_masks(x: Any, c: Any) -> Any:
    labels = ((c * c).sum(axis=1) - 2 * (x @ c.T)).argmin(axis=1)
    sums = [np.where((labels == k)[:, None], x, 0).sum(axis=0) for k in range(K)]
    counts = [(labels == k).sum() for k in range(K)]
    return np.stack([s / n for s, n in zip(sums, counts, strict=True)]).astype(np.float32)


def by_bincount(x: Any, c: Any) -> Any:
    labels = ((c * c).sum(axis=1) - 2 * (x @ c.T)).argmin(axis=1)
    counts = np.bincount(labels, minlength=K)
    sums = [np.bincount(labels, weights=x[:, j], minlength=K) for j in range(N_COLUMNS)]
    return (np.stack(sums, axis=1) / counts[:, None]).astype(np.float32)


held: dict[str, Any] = {}


def with_names_and_inertia(x: Any, c: Any) -> Any:
    """Two evaluations an iteration; everything on the way is held until the next one."""
    held["distances"] = (c * c).sum(axis=1) - 2 * (x @ c.T)
    held["labels"] = held["distances"].argmin(axis=1)
    held["hot"] = (held["labels"][:, None] == np.arange(K)).astype(np.float32)
    held["inertia"] = float(held["distances"].min(axis=1).sum())
    return (held["hot"].T @ x) / held["hot"].sum(axis=0)[:, None]


@pytest.fixture(name="file", scope="module")
def _file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("data") / "x.npy"
    rng = np.random.default_rng(0)
    near = rng.integers(0, K, N_ROWS)
    values = rng.random((N_ROWS, N_COLUMNS), dtype=np.float32) + near[:, None] / 4
    np.save(path, values.astype(np.float32))
    return path


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(it.config, "tile_elements", TILE_BYTES // 4)
    yield
    held.clear()


def iterate(step: Callable[[Any, Any], Any], x: Any, c: Any, n: int) -> Any:
    for _ in range(n):
        before, c = c, step(x, c)
        np.allclose(before, c)
    return c


@pytest.mark.parametrize("source", ["file", "memory"])
@pytest.mark.parametrize(
    ("step", "n_tiles", "share"),
    [
        (by_one_hot_products, 12, 0.55),
        (by_masks, 17, 0.55),
        pytest.param(by_bincount, 24, 0.85, marks=pytest.mark.slow),  # columns are read alone
        (with_names_and_inertia, 17, 0.55),
    ],
)
def test_k_means_over_twice_the_room_for_data_loads_less_than_lru_loads(
    step: Callable[[Any, Any], Any],
    n_tiles: int,
    share: float,
    source: str,
    file: Path,
    tmp_path: Path,
) -> None:
    """`n_tiles` is what an iteration takes beside the data: scratch, results, tiles on the way."""
    values = np.load(file)
    start = values[:K].copy()
    asked: list[Box] = []
    of_windows = [0]

    def note(run: Run) -> None:
        asked.extend(tiles_asked(run, values.shape))
        of_windows[0] += window_bytes(run, values.shape)

    memory = DATA_BYTES // 2 + n_tiles * TILE_BYTES
    with it.init("cpu", memory=memory, disk="64MiB", spill_dir=str(tmp_path)):
        x = it.open(file) if source == "file" else it.asarray(values)
        it.stats(reset=True)
        with events.on("run_end", note):
            found = iterate(step, x, it.asarray(start), N_ITERATIONS)
        stats = it.stats()
        assert max(stats["peak_bytes"].values()) <= memory
        by_lru = lru_loads(asked, DATA_BYTES // 2 // TILE_BYTES) * TILE_BYTES
        assert by_lru >= N_ITERATIONS * DATA_BYTES  # a scan over twice as much hits nothing
        assert stats["bytes_loaded"] <= share * (by_lru + of_windows[0])
        np.testing.assert_allclose(
            found.numpy(), iterate(step, values, start, N_ITERATIONS), rtol=1e-3
        )


def test_a_program_reads_what_does_not_stay_and_the_next_one_too(file: Path) -> None:
    """Two programs in turns over one file keep the same tiles, from the first time on."""
    values = np.load(file)
    weights = np.ones((N_COLUMNS, 2), np.float32)
    with it.init("cpu", memory=DATA_BYTES // 2 + FOR_COMPUTING, disk="64MiB"):
        x = it.open(file)
        read = []
        for _ in range(4):
            for value in (x.sum(axis=0), (x @ weights).max(axis=0)):
                it.stats(reset=True)
                value.numpy()
                read.append(it.stats()["bytes_read"])
    assert read[0] == DATA_BYTES
    assert max(read[1:]) <= 0.55 * DATA_BYTES
    assert len(set(read[2:])) == 1
    assert values.nbytes == DATA_BYTES


def test_a_program_that_needs_more_room_gives_back_only_what_it_needs(file: Path) -> None:
    with it.init("cpu", memory=DATA_BYTES // 2 + FOR_COMPUTING, disk="64MiB"):
        x = it.open(file)
        for _ in range(2):
            x.sum(axis=0).numpy()
        stayed = it.memory().tensors[0].cached_bytes
        doubled = it.compute(x[: N_ROWS // 4] * 2)
        left = it.memory().tensors
        kept = max(held.cached_bytes for held in left)
        assert doubled.shape == (N_ROWS // 4, N_COLUMNS)
        assert 0 < kept < stayed


@pytest.mark.parametrize("n", [1, 2, 7, 64, 100, 1000])
def test_the_first_tiles_to_stay_are_spread_over_all(n: int) -> None:
    order = np.argsort(places(n))
    assert sorted(order.tolist()) == list(range(n))
    for m in {2, n // 3, n // 2} - {0, 1}:
        if m < n:
            gaps = np.diff(np.sort(order[:m]), append=n + order[:m].min())
            assert gaps.max() <= 3 * n / m


def test_what_is_held_but_not_asked_for_is_made_again_once_and_then_kept(file: Path) -> None:
    """A value that takes much of the memory is kept when a second evaluation reads it."""
    values = np.load(file)
    weights = np.ones((N_COLUMNS, 6), np.float32)
    with it.init("cpu", memory=DATA_BYTES // 2 + FOR_COMPUTING, disk="64MiB"):
        x = it.open(file)
        y = x @ weights
        read = []
        for _ in range(4):
            it.stats(reset=True)
            total = float(y.sum())
            read.append(it.stats()["bytes_read"])
        assert read[0] == DATA_BYTES
        assert 0 < read[1] < DATA_BYTES
        assert read[2:] == [0, 0]
        np.testing.assert_allclose(total, (values @ weights).sum(dtype=np.float64), rtol=1e-4)


def by_selection(x: Any, c: Any) -> Any:
    labels = ((c * c).sum(axis=1) - 2 * (x @ c.T)).argmin(axis=1)
    return np.stack([x[labels == k].mean(axis=0) for k in range(K)]).astype(np.float32)


@pytest.mark.parametrize("source", ["file", "memory"])
def test_means_of_selected_rows_read_one_pass_an_evaluation(
    source: str, file: Path, tmp_path: Path
) -> None:
    """The rows of a cluster are in all tiles; they are not brought together."""
    values = np.load(file)
    start, found = values[:K].copy(), []
    wanted = by_selection(values, by_selection(values, start))
    for memory in (4 * DATA_BYTES, DATA_BYTES // 2, DATA_BYTES // 4):
        with it.init("cpu", memory=memory, disk="64MiB", spill_dir=str(tmp_path)):
            x = it.open(file) if source == "file" else it.asarray(values)
            c: Any = it.asarray(start)
            for _ in range(2):
                it.stats(reset=True)
                c = it.compute(by_selection(x, c))
                stats = it.stats()
                assert stats["evaluations"] == 2  # of the labels, and of what is made with them
                assert stats["bytes_loaded"] <= 2 * DATA_BYTES
                assert max(stats["peak_bytes"].values()) <= memory
            found.append(np.asarray(c).copy())
            del x, c
    for one in found:
        np.testing.assert_allclose(one, wanted, rtol=1e-4)
    if source == "file":
        assert len({one.tobytes() for one in found}) == 1, "a file is cut alike in every budget"


def test_a_selection_that_is_kept_or_read_twice_is_made(file: Path) -> None:
    values = np.load(file)
    with it.init("cpu", memory=DATA_BYTES // 2 + FOR_COMPUTING, disk="64MiB"):
        x = it.open(file)
        rows = x[it.asarray(values[:, 0] > 1.2)]
        wanted = values[values[:, 0] > 1.2]
        total, most, every = it.compute(rows.sum(axis=0), rows.max(axis=0), rows.sum())
        np.testing.assert_allclose(total, wanted.sum(axis=0), rtol=1e-4)
        np.testing.assert_array_equal(most, wanted.max(axis=0))
        np.testing.assert_allclose(every, wanted.sum(dtype=np.float64), rtol=1e-4)
        np.testing.assert_array_equal(rows.numpy(), wanted)
        alone = (2 * x[1:, 3:5] - 1)[it.asarray(values[1:, 0] > 1.2)].sum(axis=(0, 1))
        seen = (2 * values[1:, 3:5] - 1)[values[1:, 0] > 1.2]
        np.testing.assert_allclose(float(alone), seen.sum(dtype=np.float64), rtol=1e-4)
        kept = x[it.asarray(values[:, 0] > 1.2)].mean(axis=0, keepdims=True)
        np.testing.assert_allclose(kept.numpy(), wanted.mean(axis=0, keepdims=True), rtol=1e-4)
        del x, rows, total, most, every, alone, kept


@pytest.mark.parametrize("n_tiles", [8, 16])
def test_a_file_that_fits_beside_what_is_made_of_it_is_read_once(file: Path, n_tiles: int) -> None:
    with it.init("cpu", memory=DATA_BYTES + n_tiles * TILE_BYTES, disk="64MiB"):
        x = it.open(file)
        c = iterate(by_one_hot_products, x, x[:K].numpy(), 4)
        assert it.stats()["bytes_loaded"] <= DATA_BYTES + TILE_BYTES
        del x, c


def test_less_is_left_free_to_read_into_where_tiles_are_much_of_the_room(file: Path) -> None:
    """Of a quarter of the data at least as much stays as there is room for, less a few tiles."""
    memory = DATA_BYTES // 4 + 8 * TILE_BYTES
    with it.init("cpu", memory=memory, disk="64MiB"):
        x = it.open(file)
        for _ in range(3):
            it.stats(reset=True)
            it.compute(x.sum(axis=0))
        assert it.stats()["bytes_loaded"] <= DATA_BYTES - memory + 8 * TILE_BYTES
        del x


def test_what_is_read_twice_counts_once_among_what_stays(file: Path) -> None:
    with it.init("cpu", memory=DATA_BYTES + FOR_COMPUTING, disk="64MiB"):
        x = it.open(file)
        mean = x.mean(axis=0)
        spread = ((x - mean) ** 2).sum(axis=0)
        it.compute(mean, spread)  # between its two passes all of the file is at work
        assert it.stats(reset=True)["bytes_loaded"] == DATA_BYTES
        it.compute(abs(x - 1).sum(axis=0))
        assert it.stats()["bytes_loaded"] == 0
