"""Who holds what: by tensor, by tier, with the line that made it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from tests.ir.sessions import local, strict

import infinitensor as it

if TYPE_CHECKING:
    from pathlib import Path


def test_every_tensor_is_listed_with_its_bytes_and_its_line_the_largest_first() -> None:
    with strict("cpu*2", 500) as session:
        small = it.asarray(np.ones((10, 10)))
        large = it.asarray(np.ones((100, 50))) * 2
        it.compute(large)
        found = it.memory()
        used = sum(ledger.used_bytes for ledger in local(session).ledgers)
    assert [held.shape for held in found.tensors] == [(100, 50), (10, 10)]
    assert found.tensors[0].op == "multiply"
    assert "test_memory_report.py:20" in found.tensors[0].site
    assert "test_memory_report.py:19" in found.tensors[1].site
    assert {tier for held in found.tensors for _, tier in held.bytes_by_tier} == {"device"}
    assert found.tensors[0].total_bytes >= large.nbytes
    assert sum(held.total_bytes for held in found.tensors) == used
    assert sum(found.used_bytes.values()) == used
    assert small.shape == (10, 10)


def test_spilled_tensors_are_on_disk_and_count_there() -> None:
    with strict("cpu", 500, 100_000, "64MiB") as session:
        kept = [it.full((100, 50), k) + 0.5 for k in range(5)]
        for tensor in kept:
            it.compute(tensor)
        found = it.memory()
        assert found.used_bytes["cpu:0", "disk"] == local(session).tiers.spilled_bytes > 0
        on_disk = sum(held.bytes_by_tier.get(("cpu:0", "disk"), 0) for held in found.tensors)
        assert on_disk == local(session).tiers.spilled_bytes
        assert found.budget_bytes == {("cpu:0", "device"): 100_000, ("cpu:0", "disk"): 64 << 20}
        assert "cpu:0 disk" in str(found)
        del kept, tensor
        assert it.memory().used_bytes["cpu:0", "disk"] == 0
        assert it.memory().tensors == ()


def test_a_file_is_no_memory_and_what_was_read_of_it_is_distinguished(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((400, 50))
    np.save(tmp_path / "x.npy", values)
    with strict("cpu", 500, 60_000, "64MiB"):
        x = it.open(tmp_path / "x.npy")
        (opened,) = it.memory().tensors
        assert opened.file == str(tmp_path / "x.npy")
        assert opened.total_bytes == opened.cached_bytes == 0
        for _ in range(2):
            it.compute(x.mean(axis=0))
        (read,) = [held for held in it.memory().tensors if held.file]
        assert 0 < read.cached_bytes <= 60_000
        assert read.bytes_by_tier["cpu:0", "device"] >= read.cached_bytes
        assert "of it read" in str(it.memory())


def test_it_is_plain_data_and_text_for_people() -> None:
    with strict("cpu", 500):
        tensors = [it.asarray(np.ones((20, k + 1))) for k in range(25)]
        found = it.memory()
    plain = json.loads(json.dumps(found.to_dict()))
    assert len(plain["tensors"]) == len(tensors)
    assert plain["tensors"][0]["shape"] == [20, 25]
    assert "and 5 more" in str(found)
    assert "20×25 float64" in str(found)
    assert found._repr_html_().startswith("<pre>")
