"""Devices: memory and arrays of one place where kernels run."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import sys
import weakref
from collections import defaultdict
from functools import cached_property
from itertools import count
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from infinitensor.devices import gpu_driver
from infinitensor.devices.gpu_download import FRESH_BYTES, fetch, fresh
from infinitensor.devices.gpu_driver import Recorded
from infinitensor.dtypes import from_numpy, to_numpy, to_torch
from infinitensor.native import IS_CHECKED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SMALL_BYTES = 1 << 14
"""Smaller blocks come from NumPy: pages of their own would take longer than a small kernel."""
HUGE_BYTES = 1 << 21
"""Blocks from here on ask for huge pages: writing fresh memory is bound by page faults."""
HUGE_PAGE = 1 << 21
SHIFTED_BYTES = 1 << 18
"""Blocks from here on have a page more, which nobody touches unless what they hold is read from a
file straight into them: that begins within a page as it does in the file."""

FEW_READ_BYTES = 1 << 14
"""Of a GPU, which the driver reads without the copy that torch makes on its way."""
STAGED_BYTES = 1 << 24
"""Of a part of a tile on a GPU that is put together there before it is copied to the host."""
REFUSALS = ("[CUDA]: out of memory", "CUDA error: out of memory", "ALLOC_FAILED", "std::bad_alloc")
"""Error texts of Triton, the driver, CUDA's libraries and Thrust where no memory is left."""
CONTROL_GROUPS = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current"),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""Folders that limit this process, with the files of their limit and of what is used."""


class Device(Protocol):
    """The methods of a device that the runtime calls.

    What is said here is right where kernels run at once: work is done when it is started.
    """

    kind: str
    name: str

    def allocate(self, n_bytes: int) -> Any:
        """A block of memory."""

    def release(self) -> None:
        """Hand cached memory back to the system."""
        return

    def watch(self, block: Any) -> Callable[[], bool]:
        """A question that keeps nothing alive: have the block and all arrays of it gone?"""

    def array(
        self, block: Any, shape: tuple[int, ...], dtype: np.dtype[Any], shift: int = 0
    ) -> Any:
        """An array at the start of a block; on a CPU so many bytes behind it, up to a page."""

    def to_host(self, array: Any, where: tuple[slice, ...] = ()) -> np.ndarray:
        """The values, or those of a part, as a NumPy array (on a CPU: the same memory)."""

    def from_host(self, array: Any, values: Any) -> None:
        """Write values (NumPy's; on a GPU torch's too) into an array."""

    def running(self, lane: int = 0) -> Any:
        """Context in which kernels of this device, or copies of another lane, are started."""
        return contextlib.nullcontext()

    def stream(self) -> int | None:
        """The stream that kernels of this device run on, for those that take it as a number; None
        where they have to be started in the context of `running`."""
        return None

    def mark(self, lane: int) -> Any:
        """An event that is over when all that was started in a lane is done."""
        return None

    def wait(self, lane: int, event: Any) -> None:
        """Let work that is started in a lane from now on wait for an event."""
        return

    def shares_streams(self, other: Any) -> bool:
        """Whether what is started in a lane here and there runs in the order it was started."""
        return True

    def record(
        self, work: Callable[[], None], most_own_bytes: int | None = None
    ) -> Callable[[], None] | None:
        """A call that starts again what `work` starts here; None where that cannot be had, or where
        it would hold more memory of its own than that."""
        return None

    def play(self, start: Callable[[], None]) -> None:
        """Start what was recorded."""
        start()

    def synchronize(self) -> None:
        """Wait until everything started here is done."""
        return

    def free_bytes(self) -> int:
        """Memory that is free now."""

    def is_refusal(self, error: BaseException) -> bool:
        """Whether a kernel raised an error because it got no memory of the device. (The host's is
        promised to all, and a process that takes more than there is is ended.)"""
        return False


class CpuDevice(Device):
    """Host memory and cores. Tiles are NumPy arrays over blocks that torch allocated."""

    kind = "cpu"

    def __init__(self, number: int) -> None:
        self.name = f"cpu:{number}"

    def allocate(self, n_bytes: int) -> Any:
        """Bytes; a large block has pages of its own."""
        if n_bytes < SMALL_BYTES or IS_CHECKED or not hasattr(mmap, "MAP_PRIVATE"):
            return np.empty(n_bytes, np.uint8)
        is_huge = n_bytes >= HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE")
        # the system begins a block at a huge page only if it ends at one
        spare = HUGE_PAGE if is_huge else mmap.PAGESIZE if n_bytes >= SHIFTED_BYTES else 0
        pages = mmap.mmap(-1, n_bytes + spare, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if is_huge:
            with contextlib.suppress(OSError):  # a system without them
                pages.madvise(mmap.MADV_HUGEPAGE, 0, n_bytes)
        return np.frombuffer(pages, np.uint8)

    def watch(self, block: Any) -> Callable[[], bool]:
        """Every view of a NumPy array holds the array."""
        seen = weakref.ref(block)
        return lambda: seen() is None

    def array(
        self, block: Any, shape: tuple[int, ...], dtype: np.dtype[Any], shift: int = 0
    ) -> Any:
        """A view of the block; where that has no page to spare, from its start."""
        if shift and prod(shape) * dtype.itemsize + shift > block.size:
            shift = 0
        return np.ndarray(shape, dtype, block, shift)

    def to_host(self, array: Any, where: tuple[slice, ...] = ()) -> np.ndarray:
        """The array itself, or a part of it."""
        return np.asarray(array[where] if where else array)

    def from_host(self, array: Any, values: Any) -> None:
        """Copy."""
        array[...] = values

    def free_bytes(self) -> int:
        """Bytes of memory that the machine, or this process's control group, has left."""
        return host_free_bytes()


class CudaDevice(Device):
    """A GPU, or a part of one with its own budget (virtual devices share it and its stream)."""

    kind = "cuda"

    def __init__(self, number: int, gpu: int) -> None:
        n_gpus = n_gpus_for(f"cuda:{gpu}")
        if gpu >= n_gpus:
            raise ValueError(f"'cuda:{gpu}': GPUs here are 'cuda:0' to 'cuda:{n_gpus - 1}'")
        self.name = f"cuda:{gpu}" if number == 0 else f"cuda:{gpu}#{number}"
        self.gpu = self._torch.device("cuda", gpu)
        self._stream = _stream_of(gpu)

    @cached_property
    def _own_stream(self) -> tuple[int, int, int]:
        """Our stream as torch's C names it."""
        stream = self._stream
        return stream.stream_id, stream.device_index, stream.device_type

    @cached_property
    def _torch(self) -> Any:
        """torch, which takes seconds to import: not before there is a GPU to use."""
        import torch

        return torch

    def allocate(self, n_bytes: int) -> Any:
        """A block from torch's allocator."""
        with self.running():
            return self._torch.empty(n_bytes, dtype=self._torch.uint8, device=self.gpu)

    def release(self) -> None:
        """Empty torch's cache."""
        self._torch.cuda.empty_cache()

    def watch(self, block: Any) -> Callable[[], bool]:
        """Views of a torch tensor share its storage."""
        from torch.multiprocessing import reductions

        weak: Any = reductions.StorageWeakRef
        seen = weak(block.untyped_storage())
        return lambda: bool(seen.expired())

    def array(
        self, block: Any, shape: tuple[int, ...], dtype: np.dtype[Any], shift: int = 0
    ) -> Any:
        """A view of the block; the one before, if it is asked for again (views take torch long)."""
        before = getattr(block, "_infinitensor", None)
        if before is not None and before[0] == shape and (before[1] is dtype or before[1] == dtype):
            return before[2]
        n_bytes = prod(shape) * dtype.itemsize
        made = block[:n_bytes].view(to_torch(dtype)).reshape(shape)
        block._infinitensor = (shape, dtype, made)
        return made

    def to_host(self, array: Any, where: tuple[slice, ...] = ()) -> np.ndarray:
        """A copy on the host; an array that is not contiguous is copied a part at a time."""
        self.synchronize()
        array = array[where] if where else array
        if array.nbytes < FRESH_BYTES:
            if 0 < array.nbytes <= FEW_READ_BYTES and array.is_contiguous():
                few = self._torch.empty(array.shape, dtype=array.dtype)
                if gpu_driver.read(few.data_ptr(), array.data_ptr(), array.nbytes):
                    return to_numpy(few)
            return to_numpy(array.cpu())
        out = fresh(array)
        step = len(array)
        if not array.is_contiguous():
            step = max(STAGED_BYTES * len(array) // array.nbytes, 1)
        for lo in range(0, len(array), step):
            fetch(array[lo : lo + step], out[lo : lo + step], self._stream)
        return to_numpy(out)

    def from_host(self, array: Any, values: Any) -> None:
        """Copy to the GPU, in order with its kernels; from a GPU after what makes the values."""
        if not isinstance(values, np.ndarray | np.generic):
            self._stream.wait_stream(self._torch.cuda.current_stream(values.device))
            with self._torch.cuda.stream(self._stream):
                array.copy_(values)
            self._stream.synchronize()  # then the user may change or drop them
            return
        with self.running():
            array.copy_(from_numpy(np.asarray(values, order="C")).reshape(tuple(array.shape)))

    def running(self, lane: int = 0) -> Any:
        """Kernels start on our own stream; nothing to do within a context that is already."""
        if lane:
            return self._torch.cuda.stream(_stream_of(self.gpu.index, lane))
        if self._torch._C._cuda_getDevice() != self.gpu.index:
            return self._torch.cuda.stream(self._stream)
        if self._torch._C._cuda_getCurrentRawStream(self.gpu.index) == self._stream.cuda_stream:
            return _ALREADY
        return _Switched(self._stream)

    def stream(self) -> int | None:
        """Our own, if its GPU is the current one."""
        if self._torch._C._cuda_getDevice() != self.gpu.index:
            return None
        return int(self._stream.cuda_stream)

    def mark(self, lane: int) -> Any:
        """An event that is over when all that was started in a lane is done."""
        return _stream_of(self.gpu.index, lane).record_event()

    def wait(self, lane: int, event: Any) -> None:
        """Let work that is started in a lane from now on wait for an event."""
        _stream_of(self.gpu.index, lane).wait_event(event)

    def shares_streams(self, other: Any) -> bool:
        """Virtual devices share those of their GPU."""
        return bool(self.gpu == other.gpu)

    def record(
        self, work: Callable[[], None], most_own_bytes: int | None = None
    ) -> Callable[[], None] | None:
        """A call that starts again what `work` starts on our stream; None where it cannot be.

        While it is recorded nothing runs. (A kernel that waits for the GPU cannot be recorded.)
        Recordings run one after another, and what they make for themselves is in one piece of
        memory; in one of its own where a number of bytes is given, and None where it is more.
        """
        torch = self._torch
        graph, gpu = torch.cuda.CUDAGraph(), self.gpu.index
        is_apart = most_own_bytes is not None
        before = torch.cuda.memory_reserved(gpu) if is_apart else 0
        pool = None if is_apart else _pools.get(gpu)
        if pool is None or not pool.graphs:  # torch takes the memory away after the last graph
            pool = Pool(torch.cuda.graph_pool_handle(), weakref.WeakSet())
        with self.running():
            try:
                graph.capture_begin(pool=pool.handle, capture_error_mode="thread_local")
                try:
                    work()
                finally:
                    graph.capture_end()
            except (RuntimeError, AssertionError):
                # torch's own random numbers stay in what was to be recorded, but for a copy of them
                own = torch.cuda.default_generators[gpu]
                own.graphsafe_set_state(own.clone_state())
                return None
        stream = int(self._stream.cuda_stream)
        if most_own_bytes is None:
            pool.graphs.add(graph)
            _pools[gpu] = pool
            return Recorded(graph, stream)
        own_bytes = max(torch.cuda.memory_reserved(gpu) - before, 0)
        if own_bytes > most_own_bytes:
            graph.reset()
            return None
        return Recorded(graph, stream, own_bytes)

    def play(self, start: Callable[[], None]) -> None:
        """Start what was recorded, on our stream. (As in the context of `running`, of which there
        would be one for every evaluation.)"""
        if isinstance(start, Recorded) and start.launch():
            return
        own, c = self._own_stream, self._torch._C
        gpu = own[1]
        if c._cuda_getDevice() != gpu:
            with self.running():
                start()
            return
        before = c._cuda_getCurrentStream(gpu)
        if before[0] == own[0]:
            start()
            return
        c._cuda_setStream(*own)
        try:
            start()
        finally:
            c._cuda_setStream(*before)

    def synchronize(self) -> None:
        """Wait for our streams."""
        if gpu_driver.wait(_handles.get(self.gpu.index, ())):
            return
        for (gpu, _), stream in _streams.items():
            if gpu == self.gpu.index:
                stream.synchronize()

    def free_bytes(self) -> int:
        """Bytes free by the driver and cached by torch; no more than torch may take."""
        free, total = self._torch.cuda.mem_get_info(self.gpu)
        reserved = self._torch.cuda.memory_reserved(self.gpu)
        part = getattr(self._torch.cuda.memory, "get_per_process_memory_fraction", lambda _: 1.0)
        free = min(free, max(int(part(self.gpu) * total) - reserved, 0))
        return int(free + reserved - self._torch.cuda.memory_allocated(self.gpu))

    def is_refusal(self, error: BaseException) -> bool:
        """torch's error, or that of a library which takes memory itself."""
        is_torch = isinstance(error, self._torch.OutOfMemoryError)
        return is_torch or any(text in str(error) for text in REFUSALS)


class NullDevice(Device):
    """Everything but the arithmetic: plans run, bytes are counted, values do not exist."""

    kind = "null"

    def __init__(self, number: int) -> None:
        self.name = f"null:{number}"

    def allocate(self, n_bytes: int) -> Any:
        """No memory."""
        return None

    def watch(self, block: Any) -> Callable[[], bool]:
        """There is nothing to look at."""
        return lambda: True

    def array(
        self, block: Any, shape: tuple[int, ...], dtype: np.dtype[Any], shift: int = 0
    ) -> Any:
        """No array."""
        return None

    def to_host(self, array: Any, where: tuple[slice, ...] = ()) -> np.ndarray:
        """There are no values to give."""
        raise ValueError("the null device runs plans without arithmetic: it holds no values")

    def from_host(self, array: Any, values: Any) -> None:
        """Values are dropped."""

    def free_bytes(self) -> int:
        """As much as anyone could want."""
        return 1 << 50


_ALREADY = contextlib.nullcontext()


class _Switched:
    """The current stream of the current GPU is another one: `torch.cuda.stream` in a tenth of the
    time, because it makes no objects."""

    __slots__ = ("before", "stream")

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.before: Any = None

    def __enter__(self) -> None:
        import torch

        stream = self.stream
        self.before = torch._C._cuda_getCurrentStream(stream.device_index)
        torch._C._cuda_setStream(stream.stream_id, stream.device_index, stream.device_type)

    def __exit__(self, *_: object) -> None:
        import torch

        torch._C._cuda_setStream(*self.before)


class Pool(NamedTuple):
    """The memory of recordings of a GPU, and those that live."""

    handle: Any
    graphs: weakref.WeakSet[Any]


_pools: dict[int, Pool] = {}
_streams: dict[tuple[int, int], Any] = {}
_handles: dict[int, tuple[int, ...]] = {}
"""Those of each GPU, as the driver names them."""


def _stream_of(gpu: int, lane: int = 0) -> Any:
    """Our stream of a lane on a GPU: what runs on it runs in the order it was started."""
    found = _streams.get((gpu, lane))
    if found is None:
        import torch

        make: Any = torch.cuda.Stream
        found = _streams[gpu, lane] = make(device=gpu)
        _handles[gpu] = (*_handles.get(gpu, ()), int(found.cuda_stream))
    return found


def host_free_bytes() -> int:
    """Host memory this process may still take: the machine's, or its control group's if less.

    >>> host_free_bytes() > 0
    True
    """
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        found = re.search(r"MemAvailable:\s+(\d+)", meminfo.read_text())
        if found:
            free = int(found.group(1)) * 1024
    for group, limit_file, used_file in CONTROL_GROUPS:
        try:
            limit = int((group / limit_file).read_text())
            used = int((group / used_file).read_text()) - _reclaimable_bytes(group)
        except (OSError, ValueError):
            continue
        free = min(free, max(limit - used, 0))
    return free


def _reclaimable_bytes(group: Path) -> int:
    """Pages of files that a control group counts as used, but would give up first."""
    try:
        text = (group / "memory.stat").read_text()
    except OSError:
        return 0
    found = re.search(r"^(?:total_)?inactive_file (\d+)", text, re.M)
    return int(found.group(1)) if found else 0


def _may_have_gpus() -> bool:
    """Whether torch is worth asking for GPUs: to import it takes seconds."""
    drivers = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # NVIDIA's, AMD's, Windows' for Linux
    return sys.platform != "linux" or any(map(os.path.exists, drivers))


def n_gpus_for(asked: str) -> int:
    """How many GPUs torch can use; none is an error that says why."""
    import torch

    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not n_gpus:
        why = "torch finds no GPU here: see nvidia-smi"
        if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
            why = "this build of torch has no CUDA: install one that has"
        raise ValueError(f"{asked!r}: there is no GPU to use ({why}); write 'cpu', or leave it out")
    return n_gpus


def parse_devices(text: str | Iterable[str] | None) -> list[tuple[str, int]]:
    """(kind, gpu) of each device that a text or list of texts names.

    >>> parse_devices("cpu*2"), parse_devices(["null", "null"])
    ([('cpu', 0), ('cpu', 0)], [('null', 0), ('null', 0)])
    """
    if text is None or text == "":
        if not _may_have_gpus():
            return [("cpu", 0)]
        import torch

        n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [("cuda", gpu) for gpu in range(n_gpus)] or [("cpu", 0)]
    parts = text.split(",") if isinstance(text, str) else list(text)
    found: list[tuple[str, int]] = []
    for part in parts:
        match = re.fullmatch(r"\s*(cpu|cuda|null)(?::(\d+))?(?:\*(\d+))?\s*", part)
        if match is None:
            raise ValueError(
                f"{part!r} names no device; write 'cpu', 'cuda', 'cuda:1', 'cpu*4' or 'cuda:0*4'"
            )
        kind, gpu, times = match.group(1), match.group(2), int(match.group(3) or 1)
        if times < 1:
            raise ValueError(f"{part!r} asks for no device at all")
        if kind == "cuda" and gpu is None:
            found += [("cuda", g) for g in range(n_gpus_for(part))] * times
        else:
            found += [(kind, int(gpu or 0))] * times
    if len({kind for kind, _ in found}) != 1:
        raise ValueError(f"{text!r}: devices of one session are of one kind")
    return found


def open_devices(text: str | Iterable[str] | None) -> list[Device]:
    """The devices a text names."""
    of_gpus: defaultdict[int, count[int]] = defaultdict(count)
    return [
        CudaDevice(next(of_gpus[gpu]), gpu)
        if kind == "cuda"
        else (CpuDevice if kind == "cpu" else NullDevice)(number)
        for number, (kind, gpu) in enumerate(parse_devices(text))
    ]
