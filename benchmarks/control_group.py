"""A control group of the kernel: what a process may take of memory, enforced from outside.

The kernel gives pages of files back before it refuses anything, and ends the process if what it has
of its own is more than the limit. So a process that comes to its end never had more.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path("/sys/fs/cgroup")
VARIABLE = "INFINITENSOR_BENCH_GROUP"
"""How a child hears of the group that it is to join."""


@dataclass(frozen=True, slots=True)
class Group:
    """A control group of either version, by its folder."""

    path: Path

    @property
    def _is_second(self) -> bool:
        return (self.path / "memory.max").exists()

    def join(self) -> None:
        """Put this process into it: what it takes from now on is counted there."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def limit(self, n_bytes: int) -> None:
        """No more than so many bytes from now on, with none swapped out."""
        if self._is_second:
            self._write("memory.max", n_bytes)
            self._write("memory.swap.max", 0)
            return
        self._write("memory.memsw.limit_in_bytes", -1)  # never less than the other
        self._write("memory.limit_in_bytes", n_bytes)
        self._write("memory.memsw.limit_in_bytes", n_bytes)

    def lift(self) -> None:
        """No limit from now on."""
        if self._is_second:
            self._write("memory.max", "max")
            return
        self._write("memory.memsw.limit_in_bytes", -1)
        self._write("memory.limit_in_bytes", -1)

    def _write(self, name: str, value: int | str) -> None:
        file = self.path / name
        if file.exists():  # where the kernel counts swap
            file.write_text(str(value))

    def own_bytes(self) -> int:
        """Bytes that its processes have now and that are in no file."""
        key = "anon" if self._is_second else "rss"
        lines = (self.path / "memory.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)[key])

    def peak_bytes(self) -> int:
        """The most that was counted, pages of files included; 0: this kernel does not say."""
        name = "memory.peak" if self._is_second else "memory.max_usage_in_bytes"
        try:
            return int((self.path / name).read_text())
        except OSError:
            return 0


@contextmanager
def control_group() -> Iterator[Group | None]:
    """A group without a limit; None where we may make none. It is empty when the context ends."""
    parent = ROOT / "memory" if (ROOT / "memory").is_dir() else ROOT
    path = parent / f"infinitensor-{os.getpid()}"
    try:
        path.mkdir()
    except OSError:
        yield None
        return
    try:
        group = Group(path)
        yield group if (path / "memory.stat").exists() else None
    finally:
        path.rmdir()


def given_group() -> Group | None:
    """The group that whoever started this process made for it."""
    path = os.environ.get(VARIABLE)
    return Group(Path(path)) if path else None
