"""Libraries that run one program: their arrays, their compilers, and the settings of their
processes.

A `Case` is a program written once in NumPy's words, with its operands; where a library spells it
otherwise, it has its own line. `setup` makes of it what the harness asks for. Operands are in
memory, results stay where they are made.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    Maker = Callable[[Any], list[Any]]  # of operands, by a generator of random numbers
    Using = tuple[Any, list[Any], Callable[[Any], Any]]  # a namespace, arrays, how a call ends

US = "infinitensor"
CORES = str(len(os.sched_getaffinity(0)))
_THREADS = {name: CORES for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
PEERS: dict[str, dict[str, str]] = {
    US: {},
    "numpy": _THREADS,
    "torch": _THREADS,
    "torch.compile": _THREADS,
    "jax": {"JAX_PLATFORMS": "cpu"},
    "dask": {"OPENBLAS_NUM_THREADS": "1"},  # as its documentation asks for: threads are its own
}
CHUNK = 1 << 20
"""Elements of a chunk of Dask's at least: its own choice, 128 MiB, would often be one chunk."""
N_CHUNKS = 32
"""Of a larger array: tasks are then long enough for what each costs Dask."""

Xp = Any  # a namespace: infinitensor, numpy, torch, jax.numpy or dask.array


# Operands -----------------------------------------------------------------------------------------


def normal(*shape: int, dtype: str = "f4") -> Maker:
    return lambda rng: [rng.standard_normal(shape, dtype=dtype)]


def uniform(*shape: int, dtype: str = "f4") -> Maker:
    """Between 0.5 and 1.5."""
    return lambda rng: [rng.random(shape, dtype=dtype) + np.dtype(dtype).type(0.5)]


def integers(high: int, n: int) -> Maker:
    return lambda rng: [rng.integers(0, high, n)]


def rising(n: int) -> Maker:
    return lambda rng: [np.sort(rng.standard_normal(n))]


def many(*makers: Maker) -> Maker:
    return lambda rng: [array for maker in makers for array in maker(rng)]


def no_operands(rng: Any) -> list[Any]:
    return []


# Programs -----------------------------------------------------------------------------------------


class Case:
    """One row: how operands are made, the program, and other libraries' own spelling of it.

    A library whose own line is None has no such op, or (torch.compile) the same one as its other
    form. `times`: the program is one step and takes that many, each from what the one before gave.
    """

    def __init__(
        self,
        operands: Maker,
        program: Callable[..., Any],
        *,
        times: int = 1,
        writes: bool = False,
        by_value: bool = False,
        random: bool = False,
        **own: Any,
    ) -> None:
        self.operands = operands
        self.program = program
        self.times = times
        self.writes = writes  # its first operand becomes its result: JAX may have it
        self.by_value = by_value  # the shape of its result is not known before: JAX compiles none
        self.random = random  # each library draws its own numbers
        self.own = own

    def program_of(self, peer: str) -> Callable[..., Any] | None:
        names = ("torch_compile", "torch") if peer == "torch.compile" else (peer,)
        program = next((self.own[name] for name in names if name in self.own), self.program)
        made: Callable[..., Any] | None = program
        return made


def cases(rows: dict[str, Case]) -> list[dict[str, Any]]:
    """What the harness knows of them: their names, and whom to measure."""
    return [
        {"name": name, "peers": [peer for peer in PEERS if row.program_of(peer) is not None]}
        for name, row in rows.items()
    ]


def op(operands: Maker, program: Callable[..., Any], **how: Any) -> Case:
    """A case of one library routine: torch.compile calls the one that torch calls."""
    return Case(operands, program, **{"torch_compile": None, **how})


def written(xp: Xp, x: Any, where: Any, values: Any) -> Any:
    """x with values at a place, in place where the library has that."""
    if xp.__name__ == "jax.numpy":
        return x.at[where].set(values)
    x[where] = values
    return x


def steps(program: Callable[..., Any], times: int) -> Callable[..., Any]:
    def run(xp: Xp, x: Any) -> Any:
        for _ in range(times):
            x = program(xp, x)
        return x

    return program if times == 1 else run


# What the harness asks for ------------------------------------------------------------------------


def setup(
    case: Case, peer: str, device: str = "cpu"
) -> tuple[Callable[[], None], Callable[[], float]]:
    """The operands in the peer's own arrays; one call runs the program to its end."""
    program = case.program_of(peer)
    assert program is not None, f"{peer} has nothing of its own for this"
    arrays = case.operands(np.random.default_rng(0))
    xp, operands, finish = LIBRARIES[peer](arrays, device)
    if peer == "torch.compile":
        program = _compiled_by_torch(program)
    elif peer == "jax" and not case.by_value:
        program = _compiled_by_jax(program, case.writes)
    program = steps(program, case.times)
    last: list[Any] = []

    def run() -> None:
        last.clear()
        result = finish(program(xp, *operands))
        if peer == "jax" and case.writes:  # what was given away is what came back
            operands[0] = result
        last.append(result)

    def check() -> float:
        result = last[0]
        parts = result if isinstance(result, tuple | list) else (result,)
        arrays = [np.abs(_on_host(part)).astype("f8").ravel() for part in parts]
        if case.random:  # other numbers of the same distribution
            return float(np.mean(arrays[0]) + np.std(arrays[0]))
        weight = [np.linspace(1, 2, len(array)) for array in arrays]
        return float(sum(a @ w for a, w in zip(arrays, weight, strict=True)))

    return run, check


def _on_host(part: Any) -> Any:
    return np.asarray(part.cpu() if type(part).__module__ == "torch" else part)


def _compiled_by_torch(program: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    compiled = torch.compile(lambda *arrays: program(torch, *arrays))
    return lambda xp, *arrays: compiled(*arrays)


def _compiled_by_jax(program: Callable[..., Any], writes: bool) -> Callable[..., Any]:
    import jax

    donated = (0,) if writes else ()
    compiled = jax.jit(lambda *arrays: program(jax.numpy, *arrays), donate_argnums=donated)
    return lambda xp, *arrays: compiled(*arrays)


def with_numpy(arrays: list[Any], device: str) -> Using:
    return np, arrays, lambda result: result


def with_torch(arrays: list[Any], device: str) -> Using:
    import torch

    torch.set_grad_enabled(False)

    def finish(result: Any) -> Any:
        if device == "cuda":
            torch.cuda.synchronize()
        named = isinstance(result, tuple) and hasattr(result, "values")
        return result.values if named else result

    return torch, [torch.from_numpy(array).to(device) for array in arrays], finish


def with_jax(arrays: list[Any], device: str) -> Using:
    jax: Any = import_module("jax")  # typed in part, where it is installed
    jax.config.update("jax_enable_x64", any(array.itemsize == 8 for array in arrays))
    return jax.numpy, [jax.numpy.array(array) for array in arrays], jax.block_until_ready


def with_dask(arrays: list[Any], device: str) -> Using:
    import dask
    import dask.array as da

    dask.config.set(scheduler="threads", num_workers=int(CORES))

    def chunked(array: Any) -> Any:
        """In chunks of whole rows."""
        elements = max(CHUNK, array.size // N_CHUNKS)
        rows = max(elements * len(array) // max(array.size, 1), 1)
        return da.from_array(array, chunks=(rows, *array.shape[1:]))

    def finish(result: Any) -> Any:
        made = dask.compute(*(result if isinstance(result, tuple | list) else (result,)))
        return made if len(made) > 1 else made[0]

    return da, [chunked(array) for array in arrays], finish


def with_us(arrays: list[Any], device: str) -> Using:
    import infinitensor as it

    it.init(devices=device)
    tensors = [it.asarray(array) for array in arrays]
    it.compute(*tensors)

    def finish(result: Any) -> Any:
        it.compute(*(result if isinstance(result, tuple | list) else (result,)))
        return result

    return it, tensors, finish


LIBRARIES: dict[str, Callable[[list[Any], str], Using]] = {
    US: with_us,
    "numpy": with_numpy,
    "torch": with_torch,
    "torch.compile": with_torch,
    "jax": with_jax,
    "dask": with_dask,
}
