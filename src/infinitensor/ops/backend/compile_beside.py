"""Kernels of a GPU that are compiled beside what computes the same without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.events import lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.jit import Launch


def can_start(launch: Launch, tiles: Sequence[Any], numbers: Sequence[Any] = ()) -> bool:
    """Whether a launch can be started and waits for no compiler; once asked, a thread compiles,
    but not for what runs for the first time."""
    if launch.is_ready:
        return True
    if lane.is_first:
        return launch.is_compiled
    is_compiled = launch.ask(tiles, numbers)
    if lane.noted is None:
        return is_compiled
    # kernels are recorded: nothing is loaded meanwhile; who starts them again asks for it
    lane.noted.append((_Asked(launch), 0))
    return False


class _Asked:
    """What is left until a launch is compiled (`events.Left`)."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def is_done(self) -> bool:
        """Whether it is compiled."""
        return self._launch.is_compiled

    def spend(self, work: int) -> None:
        """Nothing that is done brings it nearer."""
