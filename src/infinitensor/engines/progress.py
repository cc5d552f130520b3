"""How far a run is, on a terminal: tasks, seconds, bytes per second of each lane, memory in use."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from infinitensor.errors import gib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.devices import Ledger
    from infinitensor.engines.tiers import LocalTiers
    from infinitensor.runtime import Run

PATIENCE_S = 0.5
"""A run that takes less shows nothing."""
WIDTH = 24


class Progress:
    """Called now and then while a run is on; `close` takes away what it has shown.

    A bar of rich's where that is installed, else a line. Nothing where stderr is no terminal.
    """

    def __init__(self, run: Run, ledgers: Sequence[Ledger], tiers: LocalTiers) -> None:
        self._run = run
        self._ledgers = ledgers
        self._tiers = tiers
        self._started = time.perf_counter()
        self._is_shown = sys.stderr.isatty()
        self._bar: Any = None
        self._n_written = 0

    def __call__(self) -> None:
        if not self._is_shown or time.perf_counter() - self._started < PATIENCE_S:
            return
        if self._bar is None:
            self._bar = _rich_bar(self._run.n_tasks) or self
        if self._bar is self:
            self._write_line()
        else:
            bar, task = self._bar
            bar.update(task, completed=self._run.n_done, description=self.text())
            bar.refresh()

    def text(self) -> str:
        """What is shown beside the bar."""
        run, taken = self._run, time.perf_counter() - self._started
        parts = [f"{run.n_done}/{run.n_tasks} tasks", f"{taken:.1f} s"]
        for name, n_bytes in (("loaded", run.loaded_bytes), ("evicted", run.evicted_bytes)):
            if n_bytes:
                parts.append(f"{name} {gib(int(n_bytes / taken))}/s")
        for name, used, budget in (
            ("memory", *_sums(self._ledgers)),
            ("host", *_sums([self._tiers.host])),
            ("disk", self._tiers.spilled_bytes, self._tiers.disk_bytes),
        ):
            if used:
                parts.append(f"{name} {gib(used)} of {gib(budget)}")
        return "  ".join(parts)

    def _write_line(self) -> None:
        bar = "█" * int(WIDTH * self._run.n_done / self._run.n_tasks)
        line = f"  {bar:·<{WIDTH}} {self.text()}"
        sys.stderr.write("\r" + line.ljust(self._n_written))
        sys.stderr.flush()
        self._n_written = len(line)

    def close(self) -> None:
        """The terminal is as before."""
        if self._bar is self:
            sys.stderr.write("\r" + " " * self._n_written + "\r")
            sys.stderr.flush()
        elif self._bar is not None:
            self._bar[0].stop()
        self._bar = None


def _sums(ledgers: Sequence[Ledger]) -> tuple[int, int]:
    used = sum(ledger.used_bytes for ledger in ledgers)
    return used, sum(ledger.budget_bytes for ledger in ledgers)


def _rich_bar(n_tasks: int) -> tuple[Any, Any] | None:
    """A bar that is drawn when we say so, without a thread; None without rich."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress
    except ImportError:
        return None
    bar = RichProgress(
        BarColumn(WIDTH),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.start()
    return bar, bar.add_task("", total=n_tasks)
