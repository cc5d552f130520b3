"""Where tiles lie: by device, tier and version."""

from __future__ import annotations

import pytest

from infinitensor.runtime.directory import DEVICE, DISK, HOST_TIER, Directory, Place


def test_a_slot_that_is_used_again_forgets_the_tile_before() -> None:
    directory = Directory(n_tiles=3, n_slots=1)
    directory.enter(0, 0, "first")
    assert directory.is_home(0, 0)
    directory.enter(2, 0, "second")
    assert directory.values(2) == "second"
    assert not directory.is_home(0, 0)
    with pytest.raises(KeyError, match="0"):
        directory.values(0)


def test_a_write_makes_a_new_version_and_older_copies_are_never_found() -> None:
    directory = Directory(n_tiles=1, n_slots=1)
    directory.enter(0, 0, "values")
    directory.copied(0, device=0, tier=HOST_TIER, values="clean copy")
    assert directory.copy(0, 0, HOST_TIER) == "clean copy"
    assert directory.places(0, device=0) == [Place(0, 0, DEVICE, 0), Place(0, 0, HOST_TIER, 0)]
    directory.written(0)
    assert directory.copy(0, 0, HOST_TIER) is None
    assert directory.places(0, device=0) == [Place(0, 0, DEVICE, 1)]


def test_a_lost_tile_is_found_in_a_lower_tier_only() -> None:
    directory = Directory(n_tiles=1, n_slots=1)
    directory.enter(0, 0, "values")
    directory.copied(0, device=0, tier=DISK, values="spilled")
    directory.lose(0)
    assert not directory.is_home(0, 0)
    assert directory.places(0, device=0) == [Place(0, 0, DISK, 0)]
    directory.found(0)
    assert directory.is_home(0, 0)
