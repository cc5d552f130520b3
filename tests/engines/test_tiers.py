"""How much of the lower tiers is used unless the user says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import infinitensor as it
from infinitensor.engines import Room, tiers
from infinitensor.engines.tiers import LocalTiers

if TYPE_CHECKING:
    from pathlib import Path


def test_half_of_a_disk_may_be_used(tmp_path: Path) -> None:
    found = LocalTiers("cpu", Room(spill_dir=str(tmp_path)))
    assert 0 < found.disk_bytes <= tiers.free_bytes(str(tmp_path))


def test_a_folder_in_memory_is_used_only_if_the_user_says_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "is_memory", lambda folder: True)
    assert "is memory itself (tmpfs)" in LocalTiers("cpu", Room(spill_dir=str(tmp_path))).no_disk
    assert LocalTiers("cpu", Room(spill_dir=str(tmp_path))).disk_bytes == 0
    assert LocalTiers("cpu", Room(disk=1000, spill_dir=str(tmp_path))).disk_bytes == 1000


def test_what_does_not_fit_says_why_there_are_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "is_memory", lambda folder: True)
    text = r"it\.init\(disk='20GiB', spill_dir=\.\.\.\) \(off now: .* is memory itself \(tmpfs\)\)"
    with (
        it.init("cpu", memory="1MiB", spill_dir=str(tmp_path)),
        pytest.raises(it.MemoryBudgetError, match=text),
    ):
        (it.ones((3000, 1000)) + 1).numpy()
    with (
        it.init("cpu", memory="1MiB", disk=0),
        pytest.raises(it.MemoryBudgetError, match=r"spill_dir=\.\.\.\) \(now 0\)"),
    ):
        (it.ones((3000, 1000)) + 1).numpy()
    with pytest.raises(ValueError, match=r"disk=-1: write for example disk='20GiB', or 0"):
        it.init("cpu", disk=-1)
