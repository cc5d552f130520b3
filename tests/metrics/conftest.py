"""Sessions in which scores and distances are cut."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import pytest
from tests.metrics.sets import ALL, CUTS

import infinitensor as it

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=CUTS if ALL else [None], ids=str)
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session in which tensors are cut; without cuts, as users have it. In a sample one each."""
    devices, tile = request.param or CUTS[zlib.crc32(request.node.nodeid.encode()) % len(CUTS)]
    if tile:
        monkeypatch.setattr(it.config, "small_elements", 0)
        monkeypatch.setattr(it.config, "tile_elements", tile)
    with it.init(devices) as session:
        yield session
