"""NumPy's words for every library of the survey, their operands, and calls that end.

`prepare(peer, program, device)` gives a call of the program on the peer's own arrays that has its
results when it returns. Namespaces are plain modules of functions, so that compilers read through
them; where a library has a word of NumPy's, it is the library's own function.
"""

from __future__ import annotations

import importlib
import time
import types
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.survey_programs import Operand, Program

    Call = Callable[[], Any]

US = "infinitensor"
MOST_COMPILING_S = 30.0
"""How long is waited for kernels that a thread compiles."""
PEERS = {
    "cpu": ("numpy", "torch", "torch.compile", "jax"),
    "cuda": ("torch", "torch.compile", "cupy", "jax"),
}


def environment(peer: str, device: str) -> dict[str, str]:
    """Variables of a library's process. JAX takes a GPU wherever it finds one, unless told."""
    if peer != "jax":
        return {}
    platforms = {"JAX_PLATFORMS": "cpu"} if device == "cpu" else {}
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_ENABLE_X64": "1", **platforms}


# Namespaces ---------------------------------------------------------------------------------------


def namespace(module: Any, **own: Callable[..., Any]) -> Any:
    """The functions of a library, with some of our spelling."""
    made = types.ModuleType(f"{module.__name__}_spelled")
    made.__dict__.update({k: v for k, v in vars(module).items() if not k.startswith("__")})
    made.__dict__.update(own)
    return made


def of_numpy(np: Any) -> Any:
    """NumPy itself, or a library with its names."""

    def add_at(x: Any, index: Any, values: Any) -> Any:
        made = x.copy()
        np.add.at(made, index, values)
        return made

    def histogram(x: Any, n: int, low: float, high: float) -> Any:
        return np.histogram(x, n, (low, high))[0]

    def bincount(x: Any, n: int, weights: Any = None) -> Any:
        return np.bincount(x, weights, n)

    names = ("exp", "sum", "amax", "argmax", "where", "fft", "linalg", "sort", "einsum", "any")
    every = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")}
    assert all(name in every for name in names)
    made = types.ModuleType(f"{np.__name__}_spelled")
    made.__dict__.update(every)
    made.__dict__.update(
        add_at=add_at,
        histogram=histogram,
        bincount=bincount,
        take_along=lambda x, index: np.take_along_axis(x, index, 1),
    )
    made.__dict__.setdefault("permute_dims", np.transpose)
    return made


def of_cupy() -> Any:
    import cupy

    def add_at(x: Any, index: Any, values: Any) -> Any:
        made = x.copy()
        cupy.add.at(made, index, values)
        return made

    made = of_numpy(cupy)
    made.add_at = add_at
    return made


def of_jax() -> Any:
    import jax.numpy as jnp

    def histogram(x: Any, n: int, low: float, high: float) -> Any:
        return jnp.histogram(x, n, (low, high))[0]

    return namespace(
        jnp,
        amax=jnp.max,
        amin=jnp.min,
        permute_dims=jnp.transpose,
        add_at=lambda x, index, values: x.at[index].add(values),
        take_along=lambda x, index: jnp.take_along_axis(x, index, 1),
        histogram=histogram,
        bincount=lambda x, n, weights=None: jnp.bincount(x, weights, length=n),
    )


def of_torch() -> Any:
    import torch

    def over(fold: Callable[..., Any], whole: Callable[..., Any]) -> Callable[..., Any]:
        def folded(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
            return whole(x) if axis is None else fold(x, axis, keepdim=keepdims)

        return folded

    def var(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return torch.var(x, axis, correction=0, keepdim=keepdims)

    def std(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return torch.std(x, axis, correction=0, keepdim=keepdims)

    def median(x: Any, axis: Any = None) -> Any:
        """The mean of the middle two: torch's own gives the lower one."""
        middle = x.shape[axis] // 2
        if x.shape[axis] % 2:
            return torch.kthvalue(x, middle + 1, axis).values
        return (
            torch.kthvalue(x, middle, axis).values + torch.kthvalue(x, middle + 1, axis).values
        ) / 2

    def add_at(x: Any, index: Any, values: Any) -> Any:
        return torch.index_add(x, 0, index, values)

    def bincount(x: Any, n: int, weights: Any = None) -> Any:
        return torch.bincount(x, weights, n)

    return namespace(
        torch,
        sum=over(torch.sum, torch.sum),
        mean=over(torch.mean, torch.mean),
        amax=over(torch.amax, torch.amax),
        amin=over(torch.amin, torch.amin),
        any=over(torch.any, torch.any),
        all=over(torch.all, torch.all),
        var=var,
        std=std,
        median=median,
        sort=lambda x, axis=-1: torch.sort(x, axis).values,
        argsort=lambda x, axis=-1: torch.argsort(x, axis),
        quantile=lambda x, q, axis: torch.quantile(x, q, axis),
        flip=lambda x, axis: torch.flip(x, (axis,)),
        permute_dims=torch.permute,
        add_at=add_at,
        take_along=lambda x, index: torch.gather(x, 1, index),
        histogram=lambda x, n, low, high: torch.histc(x, n, low, high),
        bincount=bincount,
        roll=lambda x, shift, axis: torch.roll(x, shift, axis),
        concatenate=torch.cat,
    )


# Operands -----------------------------------------------------------------------------------------


def host_arrays(operands: tuple[Operand, ...]) -> list[Any]:
    """NumPy's, always the same; bfloat16 as its 16 bits' type of `ml_dtypes`."""
    rng = np.random.default_rng(0)
    return [_host_array(rng, operand) for operand in operands]


def _host_array(rng: Any, operand: Operand) -> Any:
    if operand.values == "integers":
        return rng.integers(0, min(operand.high, 256 if operand.dtype == "uint8" else 1 << 62),
                            operand.shape).astype(operand.dtype)  # fmt: skip
    dtype = {"complex64": "complex64", "float64": "float64"}.get(operand.dtype, "float32")
    real = "float64" if dtype == "float64" else "float32"
    if operand.values == "unit":
        made = rng.random(operand.shape, dtype=real)
    elif operand.values == "positive":
        made = rng.random(operand.shape, dtype=real) + np.dtype(real).type(0.5)
    else:
        made = rng.standard_normal(operand.shape, dtype=real)
    if dtype == "complex64":
        return (made + 1j * rng.standard_normal(operand.shape, dtype=real)).astype("complex64")
    if operand.dtype == "bfloat16":
        import ml_dtypes

        return made.astype(ml_dtypes.bfloat16)
    return made.astype(operand.dtype)


def torch_tensors(operands: tuple[Operand, ...], device: str) -> list[Any]:
    """torch's on a device: on a GPU they are made there."""
    import torch

    if device == "cpu":
        return [_as_torch(array) for array in host_arrays(operands)]
    generator = torch.Generator(device).manual_seed(0)
    return [_device_tensor(operand, generator, device) for operand in operands]


def _as_torch(array: Any) -> Any:
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def _device_tensor(operand: Operand, generator: Any, device: str) -> Any:
    import torch

    how = {"generator": generator, "device": device}
    if operand.values == "integers":
        high = min(operand.high, 256 if operand.dtype == "uint8" else 1 << 62)
        dtype = getattr(torch, operand.dtype)
        return torch.randint(0, high, operand.shape, **how).to(dtype)
    drawn = torch.randn if operand.values == "normal" else torch.rand
    dtype = getattr(torch, operand.dtype)
    exact = dtype if dtype in (torch.float64, torch.complex64) else torch.float32
    made = drawn(operand.shape, dtype=exact, **how)
    if operand.values == "positive":
        made.add_(0.5)
    return made.to(dtype)


# Calls --------------------------------------------------------------------------------------------


def prepare(peer: str, program: Program, device: str, compiled: dict[Any, Any]) -> Call:
    """A call of the program on the peer's own arrays; what is compiled is kept in `compiled`."""
    function = compiled.get(program)
    if function is None:
        function = compiled[program] = program.function()
        if peer == "torch.compile":
            function = compiled[program] = _compiled_by_torch(function)
        elif peer == "jax":
            function = compiled[program] = _compiled_by_jax(function)
    return CALLS[peer](function, program.operands, device)


def _compiled_by_torch(function: Callable[..., Any]) -> Any:
    torch = importlib.import_module("torch")
    spelled = of_torch()
    importlib.import_module("torch._dynamo").config.cache_size_limit = 1024
    made = torch.compile(lambda *arrays: function(spelled, *arrays), dynamic=False)
    return lambda xp, *arrays: made(*arrays)


def _compiled_by_jax(function: Callable[..., Any]) -> Any:
    jax = importlib.import_module("jax")
    spelled = of_jax()
    made = jax.jit(lambda *arrays: function(spelled, *arrays))
    eager: list[bool] = []

    def call(xp: Any, *arrays: Any) -> Any:
        if eager:
            return function(spelled, *arrays)
        try:
            return made(*arrays)
        except jax.errors.ConcretizationTypeError:  # shapes that depend on values
            eager.append(True)
            return function(spelled, *arrays)

    return call


_session: list[Any] = []
"""Ours, of all programs of a process."""


def with_us(function: Callable[..., Any], operands: tuple[Operand, ...], device: str) -> Call:
    import infinitensor as it

    if not _session:
        _session.append(it.init("cuda:0" if device == "cuda" else "cpu"))
    xp = of_numpy(it)
    given = torch_tensors(operands, device) if device == "cuda" else host_arrays(operands)
    ours = [it.asarray(x) for x in given]
    it.compute(*ours)
    until = time.monotonic() + MOST_COMPILING_S
    while it.stats()["kernels_compiling"] and time.monotonic() < until:
        time.sleep(0.01)  # others have compiled before they are measured, too

    def call() -> Any:
        made = function(xp, *ours)
        it.compute(*(made if isinstance(made, tuple) else (made,)))
        return made

    return call


def with_numpy(function: Callable[..., Any], operands: tuple[Operand, ...], device: str) -> Call:
    given = host_arrays(operands)
    spelled = of_numpy(np)
    return lambda: function(spelled, *given)


def with_torch(function: Callable[..., Any], operands: tuple[Operand, ...], device: str) -> Call:
    import torch

    torch.set_grad_enabled(False)
    given = torch_tensors(operands, device)
    spelled = of_torch()

    def call() -> Any:
        made = function(spelled, *given)
        if device == "cuda":
            torch.cuda.synchronize()
        return made

    return call


def with_cupy(function: Callable[..., Any], operands: tuple[Operand, ...], device: str) -> Call:
    import cupy

    given = [cupy.from_dlpack(x).copy() for x in torch_tensors(operands, device)]
    spelled = of_cupy()

    def call() -> Any:
        made = function(spelled, *given)
        cupy.cuda.get_current_stream().synchronize()
        return made

    return call


def with_jax(function: Callable[..., Any], operands: tuple[Operand, ...], device: str) -> Call:
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")  # else it is TF32
    if device == "cpu":
        given = [jax.numpy.array(x) for x in host_arrays(operands)]
    else:
        tensors = torch_tensors(operands, device)
        given = [jax.numpy.array(jax.dlpack.from_dlpack(x), copy=True) for x in tensors]
    return lambda: jax.block_until_ready(function(None, *given))


CALLS: dict[str, Callable[..., Call]] = {
    US: with_us,
    "numpy": with_numpy,
    "torch": with_torch,
    "torch.compile": with_torch,
    "cupy": with_cupy,
    "jax": with_jax,
}


# Values -------------------------------------------------------------------------------------------

MOST_COMPARED = 200_000
"""Elements of each result, taken at even steps."""


def digest(made: Any) -> float:
    """One number that says whether two libraries made the same: weighted by place, NaN as 0."""
    total = 0.0
    for part in made if isinstance(made, tuple) else (made,):
        flat = part.reshape(-1)
        flat = flat[:: max(1, flat.shape[0] // MOST_COMPARED)]
        host = _on_host(flat)
        values = np.nan_to_num(
            np.abs(host.astype("c16" if host.dtype.kind == "c" else "f8")), posinf=0
        )
        total += float(values @ np.linspace(1, 2, len(values)))
    return total


def _on_host(x: Any) -> Any:
    if type(x).__module__ == "torch":
        x = x.float() if "bfloat16" in str(x.dtype) else x
        return x.cpu().numpy()
    if type(x).__module__.startswith("cupy"):
        return x.get()
    return np.asarray(x)
