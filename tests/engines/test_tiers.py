"""How much of the lower tiers is used unless the user says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infinitensor.engines import Room, tiers
from infinitensor.engines.tiers import LocalTiers

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_half_of_a_disk_may_be_used(tmp_path: Path) -> None:
    found = LocalTiers("cpu", Room(spill_dir=str(tmp_path)))
    assert 0 < found.disk_bytes <= tiers.free_bytes(str(tmp_path))


def test_a_folder_in_memory_is_used_only_if_the_user_says_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "is_memory", lambda folder: True)
    assert LocalTiers("cpu", Room(spill_dir=str(tmp_path))).disk_bytes == 0
    assert LocalTiers("cpu", Room(disk=1000, spill_dir=str(tmp_path))).disk_bytes == 1000
