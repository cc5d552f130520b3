"""Few elements of a large file are all that is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


zarr = pytest.importorskip("zarr")


VALUES = np.arange(360.0).reshape(18, 20)


@pytest.fixture(params=["strict", "large tiles"], autouse=True)
def tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "strict":
        monkeypatch.setattr(it.config, "small_elements", 0)
        monkeypatch.setattr(it.config, "tile_elements", 7)


ROWS = 300_000


FEW: dict[str, Callable[[Any], Any]] = {
    "steps": lambda x: x[::100_000],
    "steps, computed": lambda x: x[::-99_999].mean(0),
    "rows": lambda x: x[[1, 299_999, -5]],
    "take": lambda x: np.take(x, [7, 123_456], axis=0),
    "elements": lambda x: x[np.array([5, 250_000, -1]), 3],
    "drawn": lambda x: it.random.default_rng(3).choice(x, 5) if isinstance(x, it.Tensor) else None,
    "shown": lambda x: np.fromstring(str(x[::299_999]).replace("[", "").replace("]", ""), sep=" "),
}


@pytest.mark.parametrize("name", FEW)
def test_few_elements_of_a_large_file_are_all_that_is_read(tmp_path: Path, name: str) -> None:
    values = np.arange(ROWS * 10.0).reshape(ROWS, 10)
    np.save(tmp_path / "x.npy", values)
    before = it.config.tile_elements
    it.config.tile_elements = 0
    try:
        with it.init("cpu", memory="4MiB", disk=0):
            found = np.asarray(FEW[name](it.open(tmp_path / "x.npy")))
            counts = it.stats()
    finally:
        it.config.tile_elements = before
    wanted = FEW[name](values)
    if wanted is None:
        wanted = values[(found[:, 0] / 10).astype(int)]
    np.testing.assert_allclose(found, wanted)
    assert counts["bytes_read"] <= 1000
    assert counts["peak_bytes"]["cpu:0", "device"] < 1 << 20


def test_index_beyond_a_file_is_numpys_error(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    with pytest.raises(IndexError, match="index 18 is out of bounds for axis 0 with size 18"):
        it.open(tmp_path / "x.npy")[[1, 18]].numpy()
    late = it.asarray([1, 18]) + 0
    with pytest.raises(IndexError, match="index 18 is out of bounds for axis 0 with size 18"):
        it.open(tmp_path / "x.npy")[late].numpy()
