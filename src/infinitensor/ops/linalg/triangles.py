"""Common parts of the chapters on linear algebra: dtypes, checks, tiles as torch tensors.

A stack of matrices is cut over the axes in front; a matrix of it is one piece. An op that needs one
matrix in one piece is entered twice by `stacked_op`: `_name_batch` for stacks and `_name_whole`.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager, nullcontext
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.config import config
from infinitensor.dtypes import HALVES, complex64, complex128, float32, float64, to_torch
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.lazy_torch import torch
from infinitensor.native import address
from infinitensor.ops.backend import blas
from infinitensor.ops.backend.torch_bridge import tensor_of
from infinitensor.ops.table.registry import op, program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LinAlgError = np.linalg.LinAlgError


def linalg_dtype(*dtypes: Any) -> np.dtype[Any]:
    """NumPy's rule: single precision where every operand has it, else double."""
    for dtype in dtypes:
        if np.dtype(dtype) in HALVES:
            raise TypeError(f"array type {np.dtype(dtype)} is unsupported in linalg")
    single = all(np.dtype(dtype) in (float32, complex64) for dtype in dtypes)
    if any(np.dtype(dtype).kind == "c" for dtype in dtypes):
        return complex64 if single else complex128
    return float32 if single else float64


def real_of(dtype: Any) -> np.dtype[Any]:
    """The dtype of the parts of a number."""
    return np.zeros((), dtype).real.dtype


def complex_of(dtype: Any) -> np.dtype[Any]:
    """The complex dtype of the same precision."""
    return np.result_type(linalg_dtype(dtype), complex64)


def check_matrix(a: Any, *, square: bool = False) -> None:
    """Refuse, as NumPy does, what is no stack of (square) matrices."""
    ndim = len(a.shape)
    if ndim < 2:
        raise LinAlgError(f"{ndim}-dimensional array given. Array must be at least two-dimensional")
    if square and a.shape[-1] != a.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")


def is_one(a: Any) -> bool:
    """Whether there is one matrix and nothing to cut."""
    return all(n == 1 for n in a.shape[:-2])


def adjoint(xp: Any, a: Any) -> Any:
    """The conjugate transpose of the last two axes."""
    return (xp.conj(a) if np.dtype(a.dtype).kind == "c" else a).mT


def block_fits(xp: Any, n: int) -> bool:
    """Whether n elements are at most what a canonical block holds."""
    return bool(xp.block(2 * n) >= n)


# --- tiles ------------------------------------------------------------------------------------


def tensors(xp: Any, out: Any, *tiles: Any) -> tuple[Any, ...]:
    """The output's memory and the inputs in its dtype, as torch tensors on either device."""
    if xp is np:
        return (torch.from_numpy(out), *(tensor_of(tile, out.dtype) for tile in tiles))
    return (out, *(tile.to(out.dtype) for tile in tiles))


def source_of(xp: Any, tile: Any) -> Any:
    """A tile as a torch tensor in the dtype that it is factored in."""
    dtype = linalg_dtype(str(tile.dtype).removeprefix("torch."))
    return tensor_of(tile, dtype) if xp is np else tile.to(to_torch(dtype))


def fill(xp: Any, outs: Any, found: Any) -> None:
    """Copy torch results, one or several, into the output tiles."""
    if not isinstance(outs, tuple):
        outs, found = (outs,), (found,)
    for out, result in zip(outs, found, strict=True):
        tensors(xp, out)[0].copy_(result)


MOST_NUMPYS = 256
"""The longer side of a matrix up to which NumPy factors it: torch takes a third to all of the time,
and seconds to be imported first."""
FEW_NUMPYS = 1 << 14
"""Elements up to which NumPy factors a longer one too, such as a fit's: torch takes no less."""


def is_numpys(*shapes: Sequence[int], most: int = MOST_NUMPYS) -> bool:
    """Whether a matrix and its factors, by their last two axes, are small enough for NumPy."""
    return all(
        [max(shape[-2:], default=1) <= most or prod(shape[-2:]) <= FEW_NUMPYS for shape in shapes]
    )


def by_numpy(xp: Any, name: str, a: Any, out: Any, most: int = MOST_NUMPYS, **options: Any) -> bool:
    """Whether NumPy's `linalg.name` of one small matrix has been put into `out`: by the shapes of
    it and its factors alone, so that bits are the same on every run."""
    outs = out if isinstance(out, tuple) else (out,)
    if xp is not np or a.ndim != 2 or not is_numpys(*(x.shape for x in (a, *outs)), most=most):
        return False
    ours = blas.find_library() if config.compile != "never" else None
    matrix = np.asarray(a, linalg_dtype(a.dtype))
    with nullcontext() if ours is None else blas.of_this_thread(ours), np.errstate(all="ignore"):
        found = getattr(np.linalg, name)(matrix, **options)
    parts = zip(out, found, strict=True) if isinstance(out, tuple) else ((out, found),)
    for into, result in parts:
        into[...] = result
    return True


@contextmanager
def converging(text: str) -> Iterator[None]:
    """Turn torch's failure to converge into NumPy's error with NumPy's text."""
    linalg: Any = torch.linalg
    try:
        yield
    except linalg.LinAlgError as error:
        raise LinAlgError(text) from error


def solve_one(a: Any, b: Any, out: Any) -> bool:
    """out = x with a x = b for one matrix, by the library of `blas`, without torch; False, and
    nothing done, where there is none or this is not for it. `LinAlgError` for a singular one."""
    code = blas.CODES.get(out.dtype)
    if (
        code is None
        or not out.size
        or out.size != prod(out.shape[-2:])
        or a.shape[-1] >= blas.MOST_BLAS_COUNT
    ):
        return False
    ours = blas.find_library() if config.compile != "never" else None
    library = blas.beside()
    if ours is None or library is None:
        return False
    matrix, right = (
        np.array(tile.reshape(tile.shape[-2:]), out.dtype, order="F") for tile in (a, b)
    )
    n, k, info = (library.integer(i) for i in (*right.shape, 0))
    pivots = np.empty(len(matrix), library.integer)
    with blas.of_this_thread(ours):
        library.function(f"{blas.LETTERS[code]}gesv_")(
            ctypes.byref(n), ctypes.byref(k), _pointer(matrix), ctypes.byref(n), _pointer(pivots),
            _pointer(right), ctypes.byref(n), ctypes.byref(info),
        )  # fmt: skip
    if info.value:
        raise LinAlgError("Singular matrix")
    out[...] = right.reshape(out.shape)
    return True


def _pointer(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(address(array))


def matrix_scratch(
    ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any], most: int = MOST_NUMPYS
) -> int:
    """Inputs cast and copied to LAPACK's order, results in its order, and its work space; of what
    NumPy factors (`by_numpy`) its own copies too, which NumPy 2.5 has more of than 2.4."""
    numbers = 2 * sum(spec.n_elements for spec in (*ins, *outs))
    longest = max(max(spec.shape, default=1) for spec in (*ins, *outs))
    if is_numpys(*(spec.shape for spec in (*ins, *outs)), most=most):
        numbers *= 2
    widest = max(spec.dtype.itemsize for spec in outs)
    return int(widest) * (numbers + 130 * longest)


MATRIX: dict[str, Any] = {"scratch_bytes": matrix_scratch}


# --- entries ----------------------------------------------------------------------------------

linalg = partial(program, space="linalg")
"""Decorator: a program becomes a function of `linalg`."""


def matrix_call(
    a: Spec, source: str, *outs: tuple[str, Any], new: dict[str, int] | None = None, **params: Any
) -> Call:
    """A call on uncut matrices: a letter for each of their axes, the axes in front are cut.

    `outs` gives the letters and the dtype of each output, `new` the sizes of axes that only they
    have.
    """
    batch, n_lead = a.shape[:-2], a.ndim - 2
    lead = tuple(range(n_lead))
    sizes = {**dict(zip(source, a.shape[-2:], strict=True)), **(new or {})}
    number = {letter: n_lead + i for i, letter in enumerate(sizes)}
    labels = tuple((*lead, *(number[c] for c in letters)) for letters, _ in outs)
    form = AxisForm(
        (*batch, *sizes.values()),
        ((*lead, *(number[c] for c in source)),),
        labels,
        frozenset(number.values()),
    )
    specs = (Spec((*batch, *(sizes[c] for c in letters)), dtype) for letters, dtype in outs)
    return call(form, *specs, **params)


def stacked_op(
    cases: Callable[..., Any], **entry: Any
) -> Callable[[Callable[..., Call]], Callable[..., Call]]:
    """Decorator: the rule `_name` becomes `_name_batch` (cut over the stack) and `_name_whole`.

    `cases(*batch)` gives the cases of a stack of this shape; NumPy's `linalg.name` is the oracle.
    """

    def enter(rule: Callable[..., Call]) -> Callable[..., Call]:
        name = rule.__name__
        numpys = {"oracle": getattr(np.linalg, name.lstrip("_"), None)}
        entry.update({**MATRIX, **numpys, **entry})
        op("mapped", name=f"{name}_batch", cases=cases(3), **entry)(rule)
        op("mapped", name=f"{name}_whole", cases=cases(), whole=True, **entry)(rule)
        return rule

    return enter


# --- matrices for tests -----------------------------------------------------------------------


def positive_definite(rng: Any, *shape: int) -> np.ndarray[Any, Any]:
    """A random matrix, or several, with eigenvalues well above zero."""
    a = rng.standard_normal(shape)
    return np.asarray(a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1]))


def squares(*batch: int) -> Callable[..., list[Any]]:
    """Cases: general square matrices."""

    def cases(rng: Any) -> list[Any]:
        a = rng.standard_normal((*batch, 4, 4))
        return [
            ((a,), {}),
            ((a.astype("f4"),), {}),
            (((10 * a).astype("i4"),), {}),
            ((a + 1j * np.swapaxes(a, -1, -2),), {}),
            ((np.zeros((*batch, 0, 0)),), {}),
        ]

    return cases


def one_and_many(rng: Any) -> list[Any]:
    """Cases: one square matrix, and two."""
    return [*squares()(rng), *squares(2)(rng)]
