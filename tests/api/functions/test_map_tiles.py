"""`map_tiles`: a user's function of tiles as an op, the same under every cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it

X = np.arange(60.0).reshape(12, 5)
CUTS = [("cpu", 1 << 20), ("cpu*3", 7), ("cpu*2", 1)]


@pytest.mark.parametrize(("devices", "tile"), CUTS)
def test_rows_columns_and_pairs_are_numpys_in_every_cut(devices: str, tile: int) -> None:
    with strict(devices, tile):
        x = it.asarray(X)
        rows = it.map_tiles(lambda t: t.sum(1), x, form="nd->n")
        total = it.map_tiles(lambda t: t.sum(0), x, form="nd->d", combine="sum")
        pairs = it.map_tiles(
            lambda a, b: (a[:, None] - b[None]).max(-1), x, x[:3], form="nd,kd->nk"
        )
        np.testing.assert_array_equal(rows.numpy(), X.sum(1))
        np.testing.assert_array_equal(total.numpy(), X.sum(0))
        np.testing.assert_array_equal(pairs.numpy(), (X[:, None] - X[:3]).max(-1))


@pytest.mark.parametrize(("devices", "tile"), CUTS)
def test_several_outputs_new_sizes_halos_and_regions(devices: str, tile: int) -> None:
    def counted(t: Any, region: Any) -> Any:
        ((lo, hi),) = region[0]
        return np.arange(lo, hi)

    with strict(devices, tile):
        x = it.asarray(X)
        least, most = it.map_tiles(lambda t: (t.min(1), t.max(1)), x, form="nd->n;n")
        wide = it.map_tiles(lambda t: np.repeat(t[:, :1], 3, 1), x, form="nd->nk", sizes={"k": 3})
        places = it.map_tiles(counted, x, form="nd->n", dtype="i8", with_region=True)
        np.testing.assert_array_equal(least.numpy(), X.min(1))
        np.testing.assert_array_equal(most.numpy(), X.max(1))
        np.testing.assert_array_equal(wide.numpy(), np.repeat(X[:, :1], 3, 1))
        np.testing.assert_array_equal(places.numpy(), np.arange(12))


def test_equal_calls_are_planned_once_and_others_again() -> None:
    def doubled(t: Any) -> Any:
        return t * 2

    with strict("cpu", 7):
        x = it.asarray(X)
        for _ in range(3):
            it.map_tiles(doubled, x, form="nd->nd", halo=None).numpy()
        assert it.stats()["plan_misses"] == 1
        it.map_tiles(doubled, x, form="nd->nd", dtype="f4").numpy()
        assert it.stats()["plan_misses"] == 2


def test_arrays_and_numbers_become_tensors_and_a_generator_is_a_loop() -> None:
    def halved(tile: Any) -> Any:
        while tile.max() > 1:
            tile = tile / 2
            yield
        return tile

    found = it.map_tiles(halved, X[:1], form="nd->nd").numpy()
    np.testing.assert_array_equal(found, X[:1] / 4)
    assert it.map_tiles(lambda t: t, np.empty((0, 5)), form="nd->nd").shape == (0, 5)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"form": "n->n"}, "gives input 0 1 axes"),
        ({"form": "nd->nz"}, "z"),
        ({"form": "nd->n", "combine": "median"}, "median"),
    ],
)
def test_forms_that_do_not_fit_are_explained_at_the_call(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        it.map_tiles(lambda t: t, X, **options)
