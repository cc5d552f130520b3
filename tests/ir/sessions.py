"""Strict sessions for tests: everything is recorded, planned and cut, and settings are put back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import infinitensor as it
from infinitensor.api.evaluate.bound_program import Bound
from infinitensor.api.evaluate.demand import fit_bound
from infinitensor.engines import LocalEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infinitensor.pipeline import Prepared


@contextmanager
def strict(
    devices: str,
    tile_elements: int = 7,
    memory: str | int | None = None,
    disk: str | int = 0,
    host: str | int = 0,
    **given: Any,
) -> Iterator[it.Session]:
    """A session in which no op is too small to be planned; two workers, whatever the machine.

    What does not fit is refused, unless there is a disk.
    """
    before = {field.name: getattr(it.config, field.name) for field in fields(it.config)}
    engine = given.pop("engine", "local")
    wanted = {"small_elements": 0, "tile_elements": tile_elements, "workers": 2, **given}
    for name, value in wanted.items():
        setattr(it.config, name, value)
    try:
        with it.init(devices, memory=memory, engine=engine, host_memory=host, disk=disk) as session:
            yield session
    finally:
        for name, value in before.items():
            setattr(it.config, name, value)


def local(session: it.Session) -> LocalEngine:
    """The engine of a session in this process, with its devices, ledgers and tiers."""
    engine = behind(session.engine)
    assert isinstance(engine, LocalEngine)
    return engine


def behind(wrapped: Any) -> Any:
    """The local engine, or run, that one of `tests/engines/test_engine.py` passes calls on to."""
    return getattr(wrapped, "inner", wrapped)


def prepared(session: it.Session, *tensors: Any) -> Prepared:
    """What every stage says of some waiting tensors; nothing runs."""
    with session.guard():
        session.drain()
        return fit_bound(Bound(session, [tensor._version for tensor in tensors]).detail())[1]
