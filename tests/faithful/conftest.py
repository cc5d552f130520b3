"""Sessions of every kind that a faithful library must be faithful in."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Settings:
    """Thresholds and devices of a session."""

    small_elements: int
    tile_elements: int
    devices: str
    inline_elements: int | None = None
    max_recorded_nodes: int | None = None


SETTINGS: dict[str, Settings | None] = {
    "tiles-of-7-on-3": Settings(0, 7, "cpu*3"),
    "tiles-of-1-on-2": Settings(0, 1, "cpu*2", inline_elements=0),
    "one-tile-on-1": Settings(0, 1 << 20, "cpu"),
    "small-path-mixed-in": Settings(64, 7, "cpu*3"),
    "evaluates-by-itself": Settings(0, 7, "cpu*2", max_recorded_nodes=3),
    "default": None,
}


@contextmanager
def session(settings: Settings | None) -> Iterator[None]:
    """The library with these settings, or as it comes."""
    import infinitensor as it

    if settings is None:
        yield
        return
    wanted = {field: value for field, value in asdict(settings).items() if value is not None}
    devices = wanted.pop("devices")
    before = {field: getattr(it.config, field) for field in wanted}
    for field, value in wanted.items():
        setattr(it.config, field, value)
    try:
        with it.init(devices=devices):
            yield
    finally:
        for field, value in before.items():
            setattr(it.config, field, value)


@pytest.fixture(scope="module", params=SETTINGS)
def settings_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A session of each kind in turn."""
    with session(SETTINGS[request.param]):
        yield request.param


@pytest.fixture(scope="module", params=["tiles-of-7-on-3", "default"])
def strict_or_default(request: pytest.FixtureRequest) -> Iterator[str]:
    """A strict session, in which nothing takes the small path, and the default one."""
    with session(SETTINGS[request.param]):
        yield request.param
