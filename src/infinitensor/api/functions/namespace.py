"""`xp` of programs over other ops: every function by its name, and what depends on the devices.

That is lengths of blocks, pieces and scratch, and the values that shapes depend on.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access import copies
from infinitensor.api.eager.changing_places import UNPLANNED_ELEMENTS
from infinitensor.api.evaluate.bound_program import FEW_ON_HOST
from infinitensor.api.functions.compute import compute
from infinitensor.api.record.late import is_tensor, late
from infinitensor.api.record.record import store_on_host, wait
from infinitensor.api.session.call_cache import cached_rule
from infinitensor.api.session.session import current_session
from infinitensor.api.session.version import Version, user_site
from infinitensor.api.small import host_values
from infinitensor.api.tensor.tensor import Tensor, fresh
from infinitensor.config import config
from infinitensor.ir.slab import slab_bytes
from infinitensor.ops import TABLE
from infinitensor.ops.table.numpy_kernels import scratch_rule
from infinitensor.partition.tile_shape import LEAF_ELEMENTS, floor_power

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable

    from infinitensor.ir.op import Spec

MUCH_OF_MEMORY = 4
"""The part of a memory up to which values are walked by one kernel: it can be stopped only at its
end, and nothing of them can be evicted meanwhile."""
LARGEST_PIECE = 1 << 24
"""Elements of a matrix that one task may factor while nothing else runs."""
BYTES_PER_KERNEL_ELEMENT = 128
"""Bytes for an element of a block while a kernel works on it: scratch, tiles, and others."""
MOST_PACKED = 1 << 23
"""Elements of which some are selected and packed before it is known whether they go back to where
they are from: of more, the pass that would not be needed then takes longer than its start."""
BYTES_PER_PIECE_ELEMENT = 48
"""Bytes for an element on a GPU, about, where an axis is one piece: less memory makes blocks."""


class Namespace:
    """Everything callable, internal ops too: what programs over other ops get as `xp`."""

    float32 = np.dtype(np.float32)
    float64 = np.dtype(np.float64)
    int64 = np.dtype(np.int64)
    bool = np.dtype(np.bool_)
    pi = np.pi
    newaxis = None

    def force(self, tensor: Tensor) -> np.ndarray:
        """Evaluate a small tensor because a shape depends on it; counted."""
        tensor._session.counts["forced_evaluations"] += 1
        return tensor.numpy()

    def mask_values(self, mask: Tensor) -> np.ndarray | None:
        """The values of a mask that waits, computed now because a shape depends on them.

        None where it is not then contiguous in this memory, and where it is so large that
        all workers should count it.
        """
        session = mask._session
        is_cut = not config.small_elements or config.tile_elements
        if is_cut or mask.size > UNPLANNED_ELEMENTS or not session.engine.mesh.is_one_memory:
            return None
        if mask._owner is not None or mask._version.node is None:
            return None
        session.counts["forced_evaluations"] += 1
        compute(mask)
        found = host_values.values_of(mask)
        return found if isinstance(found, np.ndarray) else None

    def packs(self, n: int) -> builtins.bool:
        """Whether what a mask of n elements selects is packed by the pass that counts it.

        On one GPU, where a second program takes longer than the pass, and in one piece.
        """
        mesh = current_session().engine.mesh
        is_one = mesh.kind == "cuda" and mesh.n_devices == 1
        return is_one and 0 < n <= MOST_PACKED and self.block(n) == n

    def first_of(self, line: Tensor, n: int) -> Tensor:
        """The first n elements of a computed line that nobody else has.

        They stay where they are, and take its memory over.
        """
        version, session = line._version, line._session
        values = host_values.values_of(line)
        if values is not None:
            return fresh(session, store_on_host(session, np.array(values[:n])))
        assert version.table is not None
        op, site = version.table.made
        made = Version(session, (n,), version.dtype)
        session.keep(made, version.table.first(n), op, site)
        return fresh(session, made)

    def settle(self, *tensors: Tensor) -> None:
        """Evaluate tensors, of any size, because shapes depend on them; counted."""
        current_session().counts["forced_evaluations"] += 1
        compute(*tensors)

    def beside(
        self, a: Any, make: Callable[..., Tensor], shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Tensor:
        """A constant, made where `a` is: on a GPU, if `a` is there, or each would be sent to it."""
        session = current_session()
        is_there = (
            session.engine.mesh.kind == "cuda" and is_tensor(a) and host_values.values_of(a) is None
        )
        if not is_there or not FEW_ON_HOST < prod(shape) <= config.small_elements:
            return make(shape, dtype)
        op = TABLE[make.__name__]
        call = cached_rule(op, (), shape, dtype)
        with session.guard():
            session.check_open()
            session.ways["recorded"] += 1
            return fresh(session, wait(session, op, call, (), (), (), user_site())[0])

    def constant(self, values: np.ndarray, near: Tensor) -> Tensor:
        """A tensor of few values, which later calls have too, where `near` is.

        On a GPU they are not sent to it each time. It must not be given out.
        """
        session = current_session()
        is_there = session.engine.mesh.kind == "cuda" and host_values.values_of(near) is None
        key = (is_there, values.dtype, values.shape, values.tobytes())
        found: Tensor | None = session.constants.get(key)
        if found is None:
            if is_there:
                found = fresh(session, copies.store_in_tiles(session, values))
            else:
                found = fresh(session, store_on_host(session, np.array(values)))
            session.add(session.constants, key, found)
        return found

    def tiered_bytes(self) -> int:
        """The memory of a device, where there is a lower tier and values can be seen; else 0."""
        mesh = current_session().engine.mesh
        can_evict = mesh.kind != "null" and mesh.disk_bytes + mesh.host_bytes > 0
        return mesh.devices[0].memory_bytes if can_evict else 0

    def n_concurrent(self) -> int:
        """Kernels that run at a time on a device even where memory is little."""
        return current_session().engine.mesh.n_least

    def n_hands(self, n_bytes: int) -> int:
        """Threads with which one kernel may walk values of so many bytes, which it reads and makes.

        0 where they are not contiguous, where they take much of memory, and where nothing is
        compiled: then they are walked tile by tile.
        """
        mesh = current_session().engine.mesh
        is_cut = config.tile_elements or not mesh.is_one_memory or mesh.kind == "null"
        is_much = n_bytes > mesh.devices[0].memory_bytes // MUCH_OF_MEMORY
        if is_cut or is_much or config.compile == "never" or not mesh.target.compiles:
            return 0
        return mesh.workers

    def device_kind(self) -> str:
        """The kind of the devices that own tiles."""
        return current_session().engine.mesh.kind

    def scratch_bytes(self, name: str, x: Spec, out: Spec | None = None, **params: Any) -> int:
        """Scratch bytes of an op's kernel, from one tile to another; like it, if not said."""
        rule = scratch_rule(TABLE[name], current_session().engine.mesh.target)
        return int(rule((x,), (x if out is None else out,), params))

    def block(self, n: int) -> int:
        """The canonical block length of an axis of n elements: a power of two in the tile bound.

        One GPU takes what it has in one piece, if that fits: there is nobody to share passes with.
        With very little memory blocks are so small that kernels over them still fit; counted.
        """
        session = current_session()
        mesh = session.engine.mesh
        is_in_pieces = mesh.kind == "cuda"
        if mesh.kind == "cuda" and mesh.n_devices == 1:
            most = mesh.devices[0].tile_elements
            is_in_pieces = BYTES_PER_PIECE_ELEMENT * n <= mesh.devices[0].memory_bytes
            if is_in_pieces and n <= min(config.tile_elements or most, most):
                return max(n, 1)
        leaf = LEAF_ELEMENTS[mesh.kind]
        longest = min(n, config.tile_elements or leaf, leaf)
        fitting = mesh.devices[0].memory_bytes // (BYTES_PER_KERNEL_ELEMENT * mesh.n_least)
        if fitting < longest and not is_in_pieces:
            session.counts["smaller_blocks"] += 1
            longest = fitting
        return floor_power(max(longest, 1))

    def is_one_piece(self, name: str, x: Spec) -> builtins.bool:
        """Whether a matrix is factored by an op in one piece, by a library with all cores.

        Never where there are several memories. Where it is memory that is too little for it, that
        is counted: blocks have other last bits. Tiles beside it can be evicted, if there is a
        lower tier: then all of the memory is for it, what it becomes and what that is made in,
        while nothing else runs.
        """
        session = current_session()
        mesh = session.engine.mesh
        if not mesh.is_one_memory or config.tile_elements or not config.inline_elements:
            return False
        need = 2 * int(slab_bytes(x.n_bytes)) + self.scratch_bytes(name, x)
        if not self.tiered_bytes():
            need = max(need, BYTES_PER_KERNEL_ELEMENT * x.n_elements)
        has_room = need <= mesh.devices[0].memory_bytes
        session.counts["smaller_blocks"] += x.n_elements <= LARGEST_PIECE and not has_room
        return x.n_elements <= LARGEST_PIECE and has_room

    def next_seed(self) -> np.int64:
        """The key of a random op."""
        return np.int64(current_session().next_seed())

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


namespace = late.namespace = Namespace()
