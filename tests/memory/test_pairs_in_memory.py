"""Pairs of points that are more than memory holds: as many passes over them as parts of them have
room, the same bits, on one device and on several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.cluster.sets import ALL

import infinitensor as it
from infinitensor.api.record.late import call_op
from infinitensor.partition.pair_cuts import _parts

if TYPE_CHECKING:
    from pathlib import Path

D = 200
LIMIT = 2.0 * D
SIZES = {"float64": 2000, "float32": 4000}


def number(x: Any) -> Any:
    return it.asarray(np.arange(len(x)))


def sides(x: Any) -> tuple[Any, ...]:
    core = it.asarray(np.arange(len(x)) % 5 * 10.0)
    return (x, number(x), it.asarray(np.arange(len(x)) % 60), core) * 2


OPS: dict[str, Any] = {
    "top": lambda x: call_op("_pairs_top", x, number(x), x, 5),
    "count": lambda x: (call_op("_pairs_count", x, x, LIMIT, 7.0),),
    "weigh": lambda x: (call_op("_pairs_weigh", x, number(x) / 4, x, LIMIT),),
    "unite": lambda x: (
        call_op("_pairs_unite", x, number(x), x, number(x), LIMIT * 0.95, len(x), False),
    ),
    "least": lambda x: (call_op("_pairs_least", x, number(x), x, LIMIT),),
    "edge": lambda x: call_op("_pairs_edge", *sides(x), 60),
}


def made(name: str, x: Any) -> list[np.ndarray]:
    found = OPS[name](x)
    it.compute(*found)
    values = [one.numpy() for one in found]
    return [np.minimum(values[0], 7)] if name == "count" else values  # enough is any number above


def points(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    n = SIZES[dtype]
    return (rng.normal(size=(n, D)) + 0.1 * rng.integers(0, 3, (n, 1))).astype(dtype)


MOST = {2: 5, 4: 14}
"""Budget, as a part of the points -> how often these may be read. Scratch and results take much of
budgets that are as small as these; tiles in squares read up to 60 times."""


CASES = [("top", "float32"), ("unite", "float64"), ("edge", "float32")]
ALL_CASES = [(name, dtype) for name in OPS for dtype in SIZES]


@pytest.mark.parametrize(("name", "dtype"), ALL_CASES if ALL else CASES)
def test_a_pass_for_each_part_that_has_room(name: str, dtype: str, tmp_path: Path) -> None:
    x = points(dtype)
    with it.init("cpu"):
        wanted = made(name, it.asarray(x))
    np.save(tmp_path / "x.npy", x)
    for share, most in MOST.items():
        with it.init("cpu", memory=x.nbytes // share, disk="1GiB", spill_dir=str(tmp_path)):
            found = made(name, it.open(tmp_path / "x.npy"))
            stats: dict[str, Any] = it.stats()
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert max(stats["peak_bytes"].values()) <= x.nbytes // share
        assert stats["bytes_read"] <= most * x.nbytes


def test_more_neighbours_than_a_tile_has_points(tmp_path: Path) -> None:
    x = points("float64")
    np.save(tmp_path / "x.npy", x)
    with it.init("cpu"):
        wanted = call_op("_pairs_top", it.asarray(x), number(x), it.asarray(x), 70)[1].numpy()
    with it.init("cpu", memory=x.nbytes // 3, disk="1GiB", spill_dir=str(tmp_path)):
        many = it.open(tmp_path / "x.npy")
        found = call_op("_pairs_top", many, number(x), many, 70)[1].numpy()
    np.testing.assert_array_equal(found, wanted)


def test_several_devices_share_what_streams_by(tmp_path: Path) -> None:
    x = points("float32")
    np.save(tmp_path / "x.npy", x)
    for name in ("top", "edge"):
        with it.init("cpu"):
            wanted = made(name, it.asarray(x))
        with it.init("cpu*3", memory=x.nbytes // 2, disk="1GiB", spill_dir=str(tmp_path)):
            found = made(name, it.open(tmp_path / "x.npy"))
            assert it.stats()["bytes_read"] <= 8 * x.nbytes
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_few_points_are_compared_with_many_in_one_pass(tmp_path: Path) -> None:
    x = points("float64")
    np.save(tmp_path / "x.npy", x)
    few = x[:50] + 0.5
    far = ((few[:, None] - x) ** 2).sum(-1)
    with it.init("cpu", memory=x.nbytes // 2, disk="1GiB", spill_dir=str(tmp_path)):
        many = it.open(tmp_path / "x.npy")
        found = call_op("_pairs_top", many, number(x), it.asarray(few), 3)
        plan = it.explain(found[1])
        np.testing.assert_array_equal(found[1].numpy(), np.argsort(far, 1)[:, :3])
        assert it.stats()["bytes_read"] <= 1.01 * x.nbytes
    assert "'in turn'" in str(plan)


def test_tiles_are_read_in_parts_or_several_together() -> None:
    assert _parts((0, 8, 16, 20), 3) == (0, 3, 6, 8, 11, 14, 16, 18, 20)
    assert _parts((0, 2, 4, 6, 7), 5) == (0, 4, 7)
    assert _parts((0, 0), 5) == (0, 0)
