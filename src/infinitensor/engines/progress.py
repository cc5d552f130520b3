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
LOG_S = 10.0
"""Between two lines that stay."""
WIDTH = 24


class Progress:
    """Called now and then while a run is on; `close` takes away what it has shown.

    A bar of rich's on a terminal where that is installed, else a line, in a notebook too; where
    stderr is neither, a line now and then.
    """

    def __init__(self, run: Run, ledgers: Sequence[Ledger], tiers: LocalTiers) -> None:
        self._run = run
        self._ledgers = ledgers
        self._tiers = tiers
        self._started = time.perf_counter()
        self._shown_at = self._started
        self._stays = not (sys.stderr.isatty() or "ipykernel" in sys.modules)
        """Whether lines that are written stay: in a log, not on a terminal or in a notebook."""
        self._bar: Any = None
        self._n_written = 0

    def __call__(self) -> None:
        now = time.perf_counter()
        if now - self._shown_at < (LOG_S if self._stays else PATIENCE_S / 5):
            return
        if now - self._started < PATIENCE_S:
            return
        self._shown_at = now
        if self._bar is None:
            on_terminal = sys.stderr.isatty()
            self._bar = (_rich_bar(self._run.status.n_tasks) if on_terminal else None) or self
        if self._bar is self:
            self._write_line()
        else:
            bar, task = self._bar
            bar.update(task, completed=self._run.status.n_done, description=self.text())
            bar.refresh()

    def text(self) -> str:
        """The text beside the bar."""
        status, taken = self._run.status, time.perf_counter() - self._started
        n_done, n_tasks = status.n_done, status.n_tasks
        left = taken / max(n_done, 1) * (n_tasks - n_done)
        parts = [f"{n_done}/{n_tasks} tasks", f"{taken:.1f} s, about {left:.0f} s left"]
        parts.append(_op_of(self._run))
        for name in ("loaded", "evicted"):
            n_bytes = status.counts.get(f"bytes_{name}", 0)
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
        bar = "█" * int(WIDTH * self._run.status.n_done / self._run.status.n_tasks)
        line = f"  {bar:·<{WIDTH}} {self.text()}"
        sys.stderr.write(f"{line}\n" if self._stays else "\r" + line.ljust(self._n_written))
        sys.stderr.flush()
        self._n_written = len(line)

    def close(self) -> None:
        """The terminal is as before."""
        if self._bar is self and not self._stays:
            sys.stderr.write("\r" + " " * self._n_written + "\r")
            sys.stderr.flush()
        elif self._bar is not None and self._bar is not self:
            self._bar[0].stop()
        self._bar = None


def _op_of(run: Run) -> str:
    """The op whose turn it is, about: tasks run ahead of each other."""
    order, at = run.program.order, min(run.status.n_done, run.status.n_tasks - 1)
    return run.program.graph.family_of(at if order is None else int(order[at]))[0].op


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
