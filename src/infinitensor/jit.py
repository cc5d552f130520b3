"""Triton kernels by their source, compiled at their first launch, kept by Triton's own cache.

A first launch finds or compiles the kernel for the tiles it gets (what Triton looks at: dtypes,
alignment, strides of one); later ones of equal tiles go straight to the driver.
"""

from __future__ import annotations

import hashlib
import importlib.util
import linecache
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_lock = threading.Lock()
_loaded: dict[str, Any] = {}
_options: dict[str, Any] = {}


@lru_cache(maxsize=1)
def has_triton() -> bool:
    """Whether Triton is installed; it is not imported for that."""
    return importlib.util.find_spec("triton") is not None


def load(source: str) -> Any:
    """The kernel `run` of a source. Triton reads the text of a function back: it finds it here."""
    with _lock:
        if source not in _loaded:
            name = f"infinitensor_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
            path = f"<{name}>"
            linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
            made: dict[str, Any] = {"__name__": name}
            exec(compile(source, path, "exec"), made)
            _loaded[source] = made["run"]
        return _loaded[source]


def options() -> dict[str, Any]:
    """How kernels are compiled: multiply and add are not contracted, subnormals are kept."""
    if not _options:
        from triton.backends.nvidia.compiler import CUDAOptions

        wanted = {"enable_fp_fusion": False, "enable_reflect_ftz": False}
        known = CUDAOptions.__dataclass_fields__
        _options.update({name: value for name, value in wanted.items() if name in known})
    return _options


class Launch:
    """A kernel, its grid and the arguments that stay the same for equal tiles."""

    __slots__ = ("constants", "grid", "n_warps", "numbers", "run", "source")

    def __init__(
        self,
        source: str,
        n_programs: int,
        numbers: Sequence[int],
        n_warps: int = 4,
        **constants: int,
    ) -> None:
        self.source = source
        self.n_warps = n_warps
        self.grid = (n_programs, 1, 1)
        self.numbers = tuple(numbers)
        self.constants = constants
        self.run: Any = None

    def __call__(self, tiles: Sequence[Any], scalars: Sequence[Any] = ()) -> None:
        """Start it on the current stream."""
        if self.run is not None:
            pointers = [tile.data_ptr() for tile in tiles]
            self.run(*pointers, *scalars, *self.numbers, *self.constants.values())
            return
        kernel = load(self.source)
        how = {**options(), "num_warps": self.n_warps}
        made = kernel[self.grid](*tiles, *scalars, *self.numbers, **self.constants, **how)
        if made is not None:  # the interpreter makes none
            self.run = made[self.grid]


class Launches:
    """Launches by what tells tiles apart; few, so that a loop over shapes keeps nothing."""

    def __init__(self, make: Callable[[tuple[int, ...], Sequence[Any]], Any]) -> None:
        self.make = make
        self.known: dict[Any, Any] = {}

    def get(self, shape: tuple[int, ...], tiles: Sequence[Any]) -> Any:
        """The launch of these tiles."""
        key = (
            shape,
            *[(t.shape, t.stride(), t.dtype, t.data_ptr() & 15, t.get_device()) for t in tiles],
        )
        found = self.known.get(key)
        if found is None:
            if len(self.known) > 64:
                self.known.clear()
            found = self.known[key] = self.make(shape, tiles)
        return found
