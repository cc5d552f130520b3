"""Triton kernels by their source, compiled at their first launch, kept by Triton's own cache.

A first launch finds or compiles the kernel for the tiles it gets (what Triton looks at: dtypes,
alignment, strides of one); later ones of equal tiles go straight to the driver. Who has another way
to compute the same asks for a kernel (`Launch.ask`) and goes that way until it is compiled, by a
process of its own (`compiler_process.py`).
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import queue
import re
import sys
import threading
from functools import lru_cache
from itertools import count
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from infinitensor.compiler_process import CompilerProcess, Look, is_kept, load
from infinitensor.lazy_torch import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_kind = attrgetter("_infinitensor_kind")
_options: dict[str, Any] = {}


@lru_cache(maxsize=1)
def has_triton() -> bool:
    """Whether Triton is installed; it is not imported for that."""
    return importlib.util.find_spec("triton") is not None


def has_numba() -> bool:
    """Whether Numba is installed; it is not imported for that."""
    return importlib.util.find_spec("numba") is not None


def triton_module(*parts: str) -> str:
    """The source of a module of these kernels; `run` is the last of them."""
    source = "import triton\nimport triton.language as tl\n\n\n" + "".join(parts)
    *_, last = re.findall(r"^def (\w+)", source, re.MULTILINE)
    return f"{source}\n\nrun = {last}\n"


def options() -> dict[str, Any]:
    """How kernels are compiled by default: no contraction of products and sums, subnormals kept."""
    if not _options:
        from triton.backends.nvidia.compiler import CUDAOptions

        wanted = {"enable_fp_fusion": False, "enable_reflect_ftz": False}
        known = CUDAOptions.__dataclass_fields__
        _options.update({name: value for name, value in wanted.items() if name in known})
    return _options


def picker(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The elements at these places of a list: what every start of a kernel does several times.

    >>> picker([2, 0])("abc"), picker([1])("abc"), picker([])("abc")
    (('c', 'a'), ('b',), ())
    """
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[k] for k in places])


class Launch:
    """A kernel, its grid and the arguments that stay the same for equal tiles.

    `fused`: multiply and add may be one step.
    """

    __slots__ = (
        "_compiled",
        "_device",
        "_fixed",
        "_handles",
        "_start",
        "_stream",
        "constants",
        "grid",
        "how",
        "numbers",
        "source",
    )

    def __init__(
        self,
        source: str,
        n_programs: int,
        numbers: Sequence[int],
        n_warps: int = 4,
        n_stages: int = 0,
        fused: int = False,
        **constants: float,
    ) -> None:
        self.source = source
        self.how = {"num_warps": n_warps, **({"num_stages": n_stages} if n_stages else {})}
        if fused:
            self.how["enable_fp_fusion"] = True
        self.grid = (n_programs, 1, 1)
        self.numbers = tuple(numbers)
        self.constants = constants
        self._fixed = (*self.numbers, *constants.values())
        self._compiled: threading.Event | None = None
        self._start: Any = None
        self._stream: Any = None
        self._handles: tuple[Any, ...] = ()
        self._device = 0

    @property
    def is_ready(self) -> bool:
        """Whether it has been launched: from then on addresses will do for its arrays."""
        return self._start is not None

    @property
    def is_compiled(self) -> bool:
        """Whether a launch would not wait for the compiler."""
        return self._start is not None or (self._compiled is not None and self._compiled.is_set())

    def __call__(
        self, tiles: Sequence[Any], scalars: Sequence[Any] = (), n_programs: int = 0
    ) -> None:
        """Start it on the current stream, in another number of programs if one is given."""
        start = self._start
        if start is None:
            self._launch_first(tiles, scalars, n_programs)
            return
        pointers = [tile if type(tile) is int else tile.data_ptr() for tile in tiles]
        # what Triton's own launches do once they have found all this out, and looked for hooks
        start(
            n_programs or self.grid[0],
            1,
            1,
            self._stream(self._device),
            *self._handles,
            *pointers,
            *scalars,
            *self._fixed,
        )

    def ask(self, tiles: Sequence[Any], scalars: Sequence[Any] = ()) -> bool:
        """Whether a launch would not wait for the compiler; once asked, it is compiled beside.

        What fails there fails again, and is raised, where it is launched.
        """
        if self._start is None and self._compiled is None:
            self._compiled = threading.Event()
            looks = [Look(tile.dtype, tile.data_ptr() & 15) for tile in tiles]
            _compiler.put(self, looks, scalars, tiles[0].get_device())
        return self.is_compiled

    def compile(
        self, process: CompilerProcess, looks: Sequence[Look], scalars: Sequence[Any], device: int
    ) -> None:
        """Have it compiled, and load it; said to who asks, whatever comes of it."""
        import torch

        assert self._compiled is not None
        how = {**self.constants, **options(), **self.how}
        numbers = [*scalars, *self.numbers]
        try:
            major, minor = torch.cuda.get_device_capability(device)
            arrays = [(str(look.dtype), look.address) for look in looks]
            asked = {"source": self.source, "capability": 10 * major + minor, "arrays": arrays}
            asked |= {"numbers": numbers, "how": how}
            with _short_turn():
                kept = is_kept(asked)
            if not kept and not process.compile(asked):
                if process.is_stopped:
                    return
                _compiler.n_here += 1
            with _short_turn(), torch.cuda.device(device):
                made = load(self.source).warmup(*looks, *numbers, grid=self.grid, **how)
                if made is not None:
                    made.run  # noqa: B018  # asked for, Triton compiles what starts the kernel
        finally:
            self._compiled.set()

    def bound(self, numbers: Sequence[Any]) -> tuple[Any, int, tuple[Any, ...], tuple[Any, ...]]:
        """How it is started: the call, programs, what comes before its pointers, and after."""
        return self._start, self.grid[0], self._handles, (*numbers, *self._fixed)

    def _launch_first(self, tiles: Sequence[Any], scalars: Sequence[Any], n_programs: int) -> None:
        """Through Triton's front end, which finds or compiles the kernel."""
        grid = (n_programs, 1, 1) if n_programs else self.grid
        kernel = load(self.source)
        how = {**options(), **self.how}
        made = kernel[grid](*tiles, *scalars, *self.numbers, **self.constants, **how)
        if made is not None:  # the interpreter makes none
            self._stream = torch._C._cuda_getCurrentRawStream
            self._device = tiles[0].get_device()
            self._handles = (made.function, made.packed_metadata, None, None, None)
            self._start = made.run


TURN_S = 1e-4
"""Seconds for which a compiler keeps Python's lock from others that want it. Kernels are started in
between: each gives the lock away and would wait for it as long as Python lets a thread run (5 ms),
ten times as long as for a program."""
_loading = threading.Lock()


@contextlib.contextmanager
def _short_turn() -> Iterator[None]:
    """Use Triton, as the only one; threads give way to each other after a short time meanwhile."""
    with _loading:
        before = sys.getswitchinterval()
        sys.setswitchinterval(min(before, TURN_S))
        try:
            yield
        finally:
            sys.setswitchinterval(before)


MOST_COMPILERS = 4
CORES_OF_A_COMPILER = 4
"""Cores for each process that compiles: programs need the others."""


class _Compiler:
    """Threads, each with a process that compiles one kernel after another; programs go on."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._served: list[tuple[threading.Thread, CompilerProcess]] = []
        self._counting = threading.Lock()
        self.n_asked = self.n_done = 0
        self.n_here = 0
        """Kernels that no process compiled, but a thread here."""

    def put(self, launch: Launch, *how: Any) -> None:
        """Have a launch compiled."""
        with self._counting:
            self.n_asked += 1
            self._asked.put((launch, *how))
            most = min(max((os.cpu_count() or 1) // CORES_OF_A_COMPILER, 1), MOST_COMPILERS)
            if len(self._served) >= min(most, self.n_asked - self.n_done):
                return
            if not self._served:
                atexit.register(self.close)
            process = CompilerProcess()
            thread = threading.Thread(
                target=self._serve, args=(process,), name="compiler", daemon=True
            )
            self._served.append((thread, process))
            thread.start()

    def _serve(self, process: CompilerProcess) -> None:
        while (one := self._asked.get()) is not None:
            launch, *how = one
            with contextlib.suppress(Exception):  # who launches it raises it again
                launch.compile(process, *how)
            with self._counting:
                self.n_done += 1

    def close(self) -> None:
        """Compile no more. What is being loaded is waited for: it must not outlive Python."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._asked.get_nowait()
        for _, process in self._served:
            self._asked.put(None)
            process.stop()
        for thread, process in self._served:
            thread.join()
            process.close()


_compiler = _Compiler()


def n_compiling() -> int:
    """Kernels that are compiled, or will be, while programs go on without them."""
    return _compiler.n_asked - _compiler.n_done


def n_compiled_here() -> int:
    """Kernels that a thread compiled, with Python's lock, because no process did."""
    return _compiler.n_here


class OneLaunch(Protocol):
    """A task that is one launch: where, in what the task is given and makes, its arguments are."""

    arrays: Sequence[int]
    """Places of arrays among the given arguments."""
    numbers: Sequence[int]
    """Places of numbers among the given arguments."""
    outs: Sequence[int]
    """Places of its results among those of the task."""

    def launch_of(
        self, tiles: Sequence[Any], given: Sequence[Any], shape: tuple[int, ...]
    ) -> tuple[Launch, Sequence[Any]]:
        """The launch of arrays and outputs, and the numbers as it takes them."""


class Launches:
    """Launches by the signature of tiles; few, so that a loop over shapes keeps nothing."""

    def __init__(self, make: Callable[[tuple[int, ...], Sequence[Any]], Any]) -> None:
        self.make = make
        self.known: dict[Any, Any] = {}

    def get(self, shape: tuple[int, ...], tiles: Sequence[Any]) -> Any:
        """The launch of these tiles."""
        key = (shape, kinds_of(tiles))
        found = self.known.get(key)
        if found is None:
            if len(self.known) > 64:
                self.known.clear()
            found = self.known[key] = self.make(shape, tiles)
        return found


def kinds_of(tiles: Sequence[Any]) -> tuple[int, ...]:
    """The signature of tiles: launches differ where it does."""
    try:
        return tuple(map(_kind, tiles))
    except AttributeError:  # it is asked for the first time
        return tuple([_kind_of(tile) for tile in tiles])


_kinds: dict[Any, int] = {}
_next_kind = count()


def _kind_of(tile: Any) -> int:
    """A number for a tile's signature; asked of torch once, for that takes microseconds."""
    try:
        return tile._infinitensor_kind  # type: ignore[no-any-return]
    except AttributeError:
        kind = (tile.shape, tile.stride(), tile.dtype, tile.data_ptr() & 15, tile.get_device())
        if len(_kinds) > 4096:
            _kinds.clear()  # the same get other numbers then: their launches are made again
        found: int = _kinds.get(kind, -1)
        if found < 0:
            found = _kinds[kind] = next(_next_kind)
        tile._infinitensor_kind = found
        return found
