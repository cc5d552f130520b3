"""Where tiles are, and in which version."""

from __future__ import annotations

import pytest

from infinitensor.runtime.state.directory import Directory


def test_a_slot_that_is_used_again_forgets_the_tile_before() -> None:
    directory = Directory(n_tiles=3, n_slots=1)
    directory.enter(0, 0, "first")
    assert directory.is_home(0, 0)
    directory.enter(2, 0, "second")
    assert directory.values(2) == "second"
    assert not directory.is_home(0, 0)
    with pytest.raises(KeyError, match="0"):
        directory.values(0)


def test_a_write_makes_a_new_version() -> None:
    directory = Directory(n_tiles=2, n_slots=2)
    directory.enter(0, 0, "values")
    directory.versions[0] += 1
    assert directory.versions[0] == 1
    assert directory.versions[1] == 0
    assert directory.values(0) == "values"


def test_a_lost_tile_is_not_at_home_until_it_is_found() -> None:
    directory = Directory(n_tiles=1, n_slots=1)
    directory.enter(0, 0, "values")
    directory.lost.add(0)
    assert not directory.is_home(0, 0)
    directory.lost.discard(0)
    assert directory.is_home(0, 0)
