"""Triton kernels without a GPU or Triton: their text runs on NumPy, one program after another.

A pointer is memory and places in it; what a kernel does to blocks, NumPy does to arrays. That shows
what a kernel computes and where it writes, not whether the compiler takes it or how fast it is.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infinitensor.jit import Launch
from infinitensor.ops.backend.compile_beside import can_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class OutOfResources(Exception):
    """What Triton raises where a GPU has no room for a kernel."""


class Block(np.ndarray):
    """Values of a program, with Triton's cast."""

    def to(self, dtype: Any, bitcast: bool = False) -> Block:
        return block(self.view(dtype) if bitcast else self.astype(dtype))

    def __mod__(self, other: Any) -> Any:
        """As in C: of the sign of what is divided."""
        return block(np.fmod(self, other))

    def __floordiv__(self, other: Any) -> Any:
        """As in C: towards zero."""
        return block(np.floor_divide(self - np.fmod(self, other), other))


def block(values: Any, dtype: Any = None) -> Block:
    return np.asarray(values, dtype).view(Block)


@dataclass(frozen=True)
class Pointer:
    """Places in the memory of a tensor."""

    memory: np.ndarray
    at: Any = 0

    def __add__(self, step: Any) -> Pointer:
        return Pointer(self.memory, self.at + step)

    def __sub__(self, step: Any) -> Pointer:
        return Pointer(self.memory, self.at - step)

    def __getitem__(self, key: Any) -> Pointer:
        return Pointer(self.memory, self.at[key])

    @property
    def dtype(self) -> Any:
        return SimpleNamespace(element_ty=self.memory.dtype)

    def chosen(self, mask: Any, values: Any = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which elements a mask lets through, their places, and their values."""
        at, mask, values = np.broadcast_arrays(self.at, True if mask is None else mask, values)
        places = at[mask]
        assert ((places >= 0) & (places < self.memory.size)).all(), "outside of a tensor"
        return mask, places, values[mask]


def load(pointer: Pointer, mask: Any = None, other: Any = 0) -> Block:
    chosen, places, _ = pointer.chosen(mask)
    made = np.full(chosen.shape, other, pointer.memory.dtype)
    made[chosen] = pointer.memory[places]
    return block(made)


def store(pointer: Pointer, values: Any, mask: Any = None) -> None:
    _, places, chosen = pointer.chosen(mask, values)
    pointer.memory[places] = chosen


def atomic_add(pointer: Pointer, values: Any, mask: Any = None, sem: str = "") -> Block:
    """What was there before each addition, one after another."""
    chosen, places, added = pointer.chosen(mask, values)
    before = np.zeros(chosen.shape, pointer.memory.dtype)
    found = []
    for place, value in zip(places.tolist(), added.tolist(), strict=True):
        found.append(pointer.memory[place])
        pointer.memory[place] += value
    before[chosen] = found
    return block(before)


def atomic_min(pointer: Pointer, values: Any, mask: Any = None, sem: str = "") -> None:
    _, places, chosen = pointer.chosen(mask, values)
    np.minimum.at(pointer.memory, places, chosen)


def atomic_max(pointer: Pointer, values: Any, mask: Any = None, sem: str = "") -> None:
    _, places, chosen = pointer.chosen(mask, values)
    np.maximum.at(pointer.memory, places, chosen)


def _keeping_dtype(function: Callable[..., Any]) -> Callable[..., Block]:
    """Sums of int32 are int32, as they are on a GPU."""
    return lambda values, axis: block(function(values, axis), np.asarray(values).dtype)


def reduce(values: Any, axis: int, merge: Callable[..., Any]) -> Any:
    """Slices of one or several blocks merged one after another."""
    blocks = values if isinstance(values, tuple) else (values,)
    slices = [
        [block(np.take(one, k, axis)) for one in blocks] for k in range(blocks[0].shape[axis])
    ]
    made = slices[0]
    for following in slices[1:]:
        found = merge(*made, *following)
        made = list(found) if isinstance(found, tuple) else [found]
    return tuple(made) if isinstance(values, tuple) else made[0]


def language(n_programs: int) -> SimpleNamespace:
    """`triton.language` as so many programs see it; which of them is set before each."""
    kinds = [f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)]
    kinds.remove("float8")
    return SimpleNamespace(
        **{kind: np.dtype(kind) for kind in kinds},
        int1=np.dtype(bool),
        constexpr=None,
        num_programs=lambda axis: n_programs,
        arange=lambda low, high: block(np.arange(low, high)),
        zeros=lambda shape, dtype: block(np.zeros(shape, dtype)),
        full=lambda shape, value, dtype: block(np.full(shape, value, dtype)),
        cdiv=lambda n, m: (n + m - 1) // m,
        load=load,
        store=store,
        atomic_add=atomic_add,
        atomic_min=atomic_min,
        atomic_max=atomic_max,
        histogram=lambda values, n: block(np.bincount(values, minlength=n), np.int32),
        where=lambda *given: block(np.where(*given)),
        maximum=lambda a, b, propagate_nan=None: np.maximum(a, b),
        minimum=lambda a, b, propagate_nan=None: np.minimum(a, b),
        PropagateNan=SimpleNamespace(ALL=None),
        sqrt=np.sqrt,
        sqrt_rn=np.sqrt,
        div_rn=np.divide,
        abs=np.abs,
        cast=lambda x, dtype: block(x).to(dtype),
        reshape=np.reshape,
        join=lambda a, b: block(np.stack(np.broadcast_arrays(a, b), -1)),
        broadcast_to=lambda x, shape: block(np.broadcast_to(x, shape)),
        reduce=reduce,
        range=lambda first, end, step, loop_unroll_factor: range(first, end, step),
        sum=_keeping_dtype(np.sum),
        cumsum=_keeping_dtype(np.cumsum),
        sort=lambda values, axis: block(np.sort(values, axis)),
        min=_keeping_dtype(np.min),
        max=_keeping_dtype(np.max),
        argmin=lambda values, axis: block(np.argmin(values, axis)),
        dot=lambda a, b, input_precision: a @ b,
        max_contiguous=lambda x, lengths: x,
        debug_barrier=lambda: None,
    )


def _jit(function: Any = None, **how: Any) -> Any:
    return (lambda given: given) if function is None else function


_SCALARS = {"fp32": np.float32, "fp64": np.float64, "i64": np.int64, "u64": np.uint64}
_LIBDEVICE = SimpleNamespace(exp=np.exp, log=np.log, rcp_rn=np.reciprocal, tanh=np.tanh)


def _pointer(tile: Any) -> Pointer:
    """The memory of a torch tensor: its own, or all that its strides walk over."""
    if tile.is_contiguous():
        return Pointer(tile.numpy().reshape(-1))
    n = tile.untyped_storage().nbytes() // tile.element_size()
    return Pointer(tile.as_strided((n,), (1,), 0).numpy(), tile.storage_offset())


def run_launch(launch: Launch, tiles: Any, scalars: Any, n_programs: int) -> None:
    """Every program of a kernel, one after another."""
    tl = language(n_programs)
    names: dict[str, Any] = {"triton": SimpleNamespace(jit=_jit), "tl": tl, "libdevice": _LIBDEVICE}
    lines = launch.source.splitlines()
    text = "\n".join(line for line in lines if not line.startswith(("import", "from")))
    exec(compile(text, "<kernel>", "exec", dont_inherit=True), names)  # types are strings there
    run = names["run"]
    types = [_SCALARS[kind] for kind in run.__annotations__.values() if kind in _SCALARS]
    given = [make(x) for make, x in zip(types, scalars, strict=True)] if types else scalars
    arguments = [*map(_pointer, tiles), *map(block, given), *launch.numbers]
    with np.errstate(all="ignore"):
        for program in range(n_programs):
            tl.program_id = lambda axis, program=program: block(program)
            run(*arguments, **launch.constants)


@contextmanager
def triton_in_numpy(*modules: ModuleType) -> Iterator[list[Launch]]:
    """Launches run here; to these modules Triton is there, and tensors say they are on a GPU."""
    import torch

    launches = []

    def launch(self: Launch, tiles: Any, scalars: Any = (), n_programs: int = 0) -> None:
        launches.append(self)
        run_launch(self, tiles, scalars, n_programs or self.grid[0])

    errors = ModuleType("triton.runtime.errors")
    errors.__dict__["OutOfResources"] = OutOfResources
    with pytest.MonkeyPatch.context() as patched:
        for name in ("triton", "triton.runtime"):
            patched.setitem(sys.modules, name, ModuleType(name))
        patched.setitem(sys.modules, errors.__name__, errors)
        patched.setattr(Launch, "__call__", launch)
        if modules:
            patched.setattr(torch.Tensor, "is_cuda", True, raising=False)
        for module in modules:
            patched.setattr(module, "has_triton", lambda: True)
            if getattr(module, "can_start", None) is can_start:  # else a test says what is there
                patched.setattr(module, "can_start", lambda *given: True)
        yield launches
