"""A fixed order, for comparison: what a schedule made before the run would do.

Each lane starts its tasks in the order of the program and waits for the next one, even while others
are ready; and what is loaded is loaded one step ahead: when the task that is computed before it in
that order runs. (`config.fixed_order`; without it any ready task may run.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infinitensor.ir.tasks import COMPUTE, LOAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

N_LANES = 3


class FixedOrder:
    """Which task each lane starts next. Tasks are known by their places in the order."""

    def __init__(self, places: Iterable[int], lane_of: Callable[[int], int]) -> None:
        self._queues: tuple[list[int], ...] = tuple([] for _ in range(N_LANES))
        self._computed_before: dict[int, int] = {}
        for place in places:
            lane = lane_of(place)
            if lane == LOAD:
                self._computed_before[place] = len(self._queues[COMPUTE])
            self._queues[lane].append(place)
        self._n_started = [0] * N_LANES

    def next(self, lane: int, n_computing: int | None = None) -> int:
        """The next of a lane; -1 if that has to wait for its turn, or there is none.

        `n_computing`: how many computed tasks run or are done, where that is not all that were
        started.
        """
        queue, at = self._queues[lane], self._n_started[lane]
        if at == len(queue):
            return -1
        place = queue[at]
        begun = self._n_started[COMPUTE] if n_computing is None else n_computing
        return -1 if self._computed_before.get(place, 0) > begun else place

    def start(self, lane: int) -> None:
        """The next of a lane is started."""
        self._n_started[lane] += 1

    def take_back(self, lane: int) -> None:
        """The last that a lane started was not run."""
        self._n_started[lane] -= 1
