"""Versions, nodes and places: what waits, who reads it, and which line of the user's made it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.session import version as versions
from infinitensor.api.session.version import Version, user_site
from infinitensor.errors import SessionClosedError


def test_a_site_is_the_line_of_the_user_and_not_ours() -> None:
    site = user_site()
    assert "test_version.py:" in str(site)
    with strict("cpu"):
        made = it.asarray(np.arange(3.0)) + 1  # this line
        node = made._version.node
        assert node is not None
        assert "test_version.py:" in str(node.site)
        line = int(str(node.site).rpartition(":")[2].split()[0])
        with open(__file__) as here:
            assert "# this line" in here.read().splitlines()[line - 1]


def test_a_version_waits_until_it_is_computed_and_counts_who_shows_and_reads_it() -> None:
    with strict("cpu") as session:
        x = it.asarray(np.arange(9.0))
        made = x + 1
        version = made._version
        assert version.is_waiting
        assert (version.live, version.readers) == (1, 0)
        later = made * 2
        assert version.readers == 1
        it.compute(later)
        session.drain()
        assert not version.is_waiting
        assert version.readers == 0


def test_a_write_makes_the_next_version_and_leaves_the_last() -> None:
    with strict("cpu"):
        x = it.asarray(np.arange(9.0))
        before, kept = x._version, x + 0
        x[2:4] = -1.0
        assert x._version is not before
        np.testing.assert_array_equal(kept.numpy(), np.arange(9.0))
        np.testing.assert_array_equal(x.numpy()[:5], [0, 1, -1, -1, 4])


def test_a_version_that_goes_hands_its_node_to_the_session() -> None:
    with strict("cpu") as session:
        x = it.asarray(np.arange(9.0))
        made = x + 1
        session.drain()
        del made
        assert len(session.graveyard) + len(session.dropped) >= 1
        session.drain()
        assert x._version.readers == 0


def test_a_version_without_values_has_no_place() -> None:
    with strict("cpu") as session:
        version = Version(session, (2, 3), np.dtype("f4"))
        assert not version.is_waiting
        assert (version.host, version.table) == (None, None)
        assert (version.live, version.readers, version.exported) == (0, 0, 0)


def test_tensors_of_the_parent_process_are_refused_in_a_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with strict("cpu"):
        x = it.asarray(np.arange(3.0)) + 1
        monkeypatch.setattr(versions, "generation", versions.generation)
        versions.generation[0] += 1
        try:
            with pytest.raises(SessionClosedError, match="belongs to the parent process"):
                x.numpy()
        finally:
            versions.generation[0] -= 1
        np.testing.assert_array_equal(x.numpy(), [1, 2, 3])
