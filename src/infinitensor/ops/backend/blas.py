"""Products of two matrices by a BLAS that is here anyway, called without torch and its price.

A call by torch takes 15 to 30 us before it multiplies, with Python's lock; this takes 3, and from C
(`runtime/native`) nothing. Whoever multiplies matrices on a CPU comes here, so the bits are those
of one function. The library is the OpenBLAS beside torch, else the one that NumPy or SciPy bring:
products by these are counted. There is none (`find_library()` is None) where these have none in a
file of its own, or `blas.c` was not built and there is no compiler: then torch multiplies.

On processors of Intel shapes that were multiplied so often that it pays are left to MKL, from
torch's file, where it gives them the same bits (`blas.c`); nobody waits until that is loaded.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.config import config
from infinitensor.dtypes import bfloat16, float16, float32
from infinitensor.events import lane
from infinitensor.fixed_c import source_of
from infinitensor.ir.call_tables import BY_ITSELF, Calls, Form, InC
from infinitensor.native import (
    CompilerError,
    address,
    built_library,
    fixed_library,
    library,
    sanitizers,
)
from infinitensor.ops.backend.mkl import is_of_intel, mkl_file
from infinitensor.ops.backend.torch_loading import is_loading
from infinitensor.threads import n_sharing, number_address, share_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infinitensor.ir.call_tables import Operands

CODES = {np.dtype(name): code for code, name in enumerate(("f4", "f8", "c8", "c16"))}
"""The dtypes that it multiplies."""
AS_FLOATS = {float32: 0, float16: 1, bfloat16: 2}
"""Those that are multiplied as float32, together or alone, and the result rounded once."""
LETTERS = "sdcz"
MOST_BLAS_COUNT = 1 << 31
"""The largest size that the library takes."""


class Library(NamedTuple):
    """A BLAS with LAPACK; its names are the usual ones with something before and after them."""

    handle: Any
    before: str
    after: str
    is_borrowed: bool
    """Whether it is not torch's."""

    def function(self, name: str) -> Any:
        """By its usual name; `AttributeError` where there is none."""
        return getattr(self.handle, self.before + name + self.after)

    @property
    def integer(self) -> type[ctypes.c_int | ctypes.c_int64]:
        """The integers that it counts with."""
        config = self.function("openblas_get_config")
        config.restype = ctypes.c_char_p
        return ctypes.c_int64 if b"USE64BITINT" in config() else ctypes.c_int

    def threads(self) -> tuple[Any, Any, int]:
        """Functions that get and set how many cores it uses; whether of the calling thread."""
        if self.function("openblas_get_parallel")() == OPENMP:
            return self.handle.omp_get_max_threads, self.handle.omp_set_num_threads, 1
        words = (f"openblas_{word}_num_threads" for word in ("get", "set"))
        return *(self.function(word) for word in words), 0


OPENMP = 2
"""The answer of `openblas_get_parallel` of a library over OpenMP."""


def _files() -> Iterator[tuple[Path, bool]]:
    """Paths where an OpenBLAS may be, torch's first; whether it is another's."""
    for folder in ("torch/lib", "numpy.libs", "scipy.libs"):
        package = folder[:5]
        spec = find_spec(package)  # torch takes a second to import, and is not needed for this
        site = Path((spec and spec.origin) or "").parent.parent
        for path in sorted((site / folder).glob("lib*openblas*")):
            yield path, package != "torch"


@cache
def beside() -> Library | None:
    """The library to multiply with, or None."""
    for path, is_borrowed in _files():
        for before, after in (("", ""), ("scipy_", ""), ("scipy_", "64_")):
            try:
                found = Library(ctypes.CDLL(str(path)), before, after, is_borrowed)
                if (
                    all(found.function(name) for name in ("cblas_dgemm", "dgesv_"))
                    and found.integer
                ):
                    return found
            except (AttributeError, OSError):
                continue
    return None


@cache
def find_library() -> Any:
    """The functions of `blas.c` over the library, or None."""
    blas = beside()
    if blas is None:
        return None
    try:
        names = [f"cblas_{c}{op}" for c in LETTERS for op in ("gemm", "gemv", "syrk")]
        given = [ctypes.cast(blas.function(name), ctypes.c_void_p) for name in names]
        get, put, is_of_threads = blas.threads()
        file = f"ops/backend/blas_i{ctypes.sizeof(blas.integer)}"
        ours = fixed_library(file)
        if not ours.is_able():
            ours = library(source_of(file))  # for this very machine
    except (AttributeError, OSError, CompilerError):
        return None
    threads = [ctypes.cast(function, ctypes.c_void_p) for function in (get, put)]
    ours.use(
        (ctypes.c_void_p * len(given))(*given),
        *threads,
        ctypes.c_int64(is_of_threads),
        ctypes.c_void_p(share_address()),
        ctypes.c_void_p(number_address()),
    )
    for function in (ours.enter, ours.leave, ours.end_trying, ours.go_on_trying):
        function.argtypes, function.restype = [], None
    _offer_narrow(ours)
    _offer_mkl(ours)
    for function in (ours.made, ours.made_by_mkl, ours.cores):
        function.argtypes, function.restype = [], ctypes.c_int64
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    ours.stack.argtypes, ours.stack.restype = [pointer, pointer, number], None
    return ours


def _offer_narrow(ours: Any) -> None:
    """Let products with a short side be made by ours, where that was built for this processor."""
    file = "ops/backend/narrow_products"  # too large to be compiled while somebody waits
    built = fixed_library(file) if sanitizers() else built_library(file)
    if built is not None and built.is_able():
        functions = (built.is_narrow, built.multiply_narrow)
        given = (ctypes.cast(function, ctypes.c_void_p) for function in functions)
        ours.use_narrow(*given, ctypes.c_int64(built.most_vectors()))


def _offer_mkl(ours: Any) -> None:
    """Let `blas.c` load MKL, where there is one for this processor and it pays."""
    path = mkl_file() if is_of_intel() else None
    if path is None:
        return
    ours.held = ctypes.create_string_buffer(bytes(path))
    ours.use_mkl(ours.held)
    atexit.register(ours.end_trying)
    go_on = ours.go_on_trying
    os.register_at_fork(before=ours.end_trying, after_in_parent=go_on, after_in_child=go_on)


def n_by_mkl() -> int:
    """The products that MKL made, in this process."""
    if not find_library.cache_info().currsize:
        return 0
    ours = find_library()
    return 0 if ours is None else int(ours.made_by_mkl())


def n_borrowed() -> int:
    """The products that a library of NumPy or SciPy made, in this process."""
    if not find_library.cache_info().currsize:
        return 0  # nobody multiplied
    ours, blas = find_library(), beside()
    return int(ours.made()) if ours is not None and blas is not None and blas.is_borrowed else 0


@contextmanager
def of_this_thread(ours: Any) -> Iterator[None]:
    """Around a call of the library: it has one core if this thread is a worker."""
    if not lane.is_worker:
        yield
        return
    ours.enter()
    try:
        yield
    finally:
        ours.leave()


def is_suited(rows: int, columns: int, steps: Sequence[int], size: int) -> bool:
    """Whether the library takes a matrix with these steps, in bytes, without a copy."""
    row, column = steps
    if max(rows, columns, abs(row) // size, abs(column) // size) >= MOST_BLAS_COUNT:
        return False
    if columns == 1 or column == size:
        has_rows = rows == 1 or (row >= columns * size and row % size == 0)
        if has_rows:
            return True
    return (rows == 1 or row == size) and (
        columns == 1 or (column >= rows * size and column % size == 0)
    )


def multiply(x: Any, y: Any, out: Any) -> bool:
    """out = x @ y for matrices, or stacks of as many, of one dtype, or all of `AS_FLOATS`; False,
    and nothing done, where that is not for it."""
    how = _how(_storage_of(x), _storage_of(y), _storage_of(out))
    ours = None if how is None or config.compile == "never" else find_library()
    if ours is None:
        return False
    if how is COPIED:
        x, y = _copy_operands(x, y)
        how = _how(_storage_of(x), _storage_of(y), _storage_of(out))
    n = 1 if lane.is_worker else n_sharing()
    ours.stack(how, (ctypes.c_void_p * 3)(address(x), address(y), address(out)), n)
    return True


COPIED = (ctypes.c_int64 * 0)()
"""What is to be done where the library does not take an operand as it is stored."""
ONE = (1, 0, 0, 0)
"""A matrix as a stack: how many there are, and the bytes between them."""
Storage = tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...]]
"""The dtype, shape and strides of an array."""


def _storage_of(array: Any) -> Storage:
    return array.dtype, array.shape, array.strides


@lru_cache(4096)
def _how(x: Storage, y: Storage, out: Storage) -> Any:
    """What `blas.c` needs to know of arrays that are stored so; None where it does not multiply
    them."""
    dtypes = (x[0], y[0], out[0])
    (rows, k), columns = x[1][-2:], y[1][-1]
    if not is_multiplied(*dtypes) or not _is_written(*out) or 0 in (*x[1], *y[1]):
        return None
    if max(rows, k, columns) >= MOST_BLAS_COUNT:
        return None
    if not (_is_taken(*x) and _is_taken(*y)):
        return COPIED
    n = ONE if len(out[1]) == 2 else (out[1][0], x[2][0], y[2][0], out[2][0])
    steps = (*x[2][-2:], *y[2][-2:], out[2][-2])
    how = (CODES.get(out[0], 0), rows, columns, k, *steps, *n, *_kinds(dtypes))
    return (ctypes.c_int64 * len(how))(*how)


def _kinds(dtypes: Sequence[np.dtype[Any]]) -> tuple[int, ...]:
    return tuple(AS_FLOATS.get(dtype, 0) for dtype in dtypes)


def is_multiplied(x: np.dtype[Any], y: np.dtype[Any], out: np.dtype[Any]) -> bool:
    """Whether the library multiplies these dtypes."""
    if x == y == out and x in CODES:
        return True
    return x in AS_FLOATS and y in AS_FLOATS and out in AS_FLOATS


def _is_taken(dtype: np.dtype[Any], shape: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    """Whether an operand is multiplied as it is stored; halves become floats anyhow."""
    rows, columns = shape[-2:]
    return dtype not in CODES or is_suited(rows, columns, steps[-2:], dtype.itemsize)


def _copy_operands(x: Any, y: Any) -> tuple[Any, Any]:
    """The operands as the library takes them."""
    is_transposed = (
        x.ndim == 2 and x.shape == y.shape[::-1]
        and x.strides == y.strides[::-1] and address(x) == address(y)
    )  # fmt: skip
    if not _is_taken(x.dtype, x.shape, x.strides):
        x = np.ascontiguousarray(x)
    if is_transposed:
        return x, x.T
    return x, y if _is_taken(y.dtype, y.shape, y.strides) else np.ascontiguousarray(y)


def _is_written(dtype: np.dtype[Any], shape: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    """Whether the library writes into rows that are stored so."""
    (rows, columns), step, size = shape[-2:], steps[-2], dtype.itemsize
    if rows > 1 and (step < columns * size or step % size or step // size >= MOST_BLAS_COUNT):
        return False
    return columns == 1 or bool(steps[-1] == size)


class Axes(NamedTuple):
    """Which axes of the operands and of the result are the stack of matrices, and the rows and
    columns of each; None where there is none."""

    x: tuple[int | None, ...]
    y: tuple[int | None, ...]
    out: tuple[int | None, ...]


class Multiplied(InC):
    """The C of a family of products of matrices and vectors, or of stacks of them."""

    def __init__(self, dtypes: tuple[np.dtype[Any], ...], axes: Axes) -> None:
        self._dtypes = dtypes
        self._axes = axes
        self.together = self  # there is one for each dtype

    def is_due(self, n_tasks: int) -> bool:
        """Where there is a library; but nobody waits here for torch, while that is loaded."""
        return not is_loading() and find_library() is not None

    def calls(self, asked: Operands) -> Calls:
        """One call a task; `CompilerError` where the library does not take such strides."""
        ours = find_library()
        if ours is None:
            raise CompilerError("no library to multiply with")
        (x, y), (out,) = asked.ins, asked.outs
        rows, columns = (_along(out.shapes, axis, 1) for axis in self._axes.out[1:])
        steps = [
            [_along(np.where(one.shapes == 1, 0, one.strides), axis, 0) for axis in axes]
            for one, axes in zip((x, y, out), self._axes, strict=True)
        ]
        code = np.full(len(rows), CODES.get(self._dtypes[2], 0))
        inner = steps[0][1:] + steps[1][1:] + steps[2][1:2]
        n = _along(out.shapes, self._axes.out[0], 1)
        table = np.stack(
            [code, rows, columns, _along(x.shapes, self._axes.x[2], 1), *inner, n,
             *(one[0] for one in steps)], axis=1,
        )  # fmt: skip
        each, kind = np.unique(table, axis=0, return_inverse=True)
        return Calls.one_each(kind, [self._form(ours, how) for how in each.tolist()], (x, y, out))

    def _form(self, ours: Any, how: list[int]) -> Form:
        """The call of products that are stored alike."""
        _, m, columns, inner, *steps = how
        x, y, out = self._dtypes
        last = out.itemsize if columns > 1 else 0
        if not (
            (x not in CODES or is_suited(m, inner, steps[:2], x.itemsize))
            and (y not in CODES or is_suited(inner, columns, steps[2:4], y.itemsize))
            and (m == 1 or steps[4] >= columns * last)
        ):
            raise CompilerError("a matrix whose rows and columns are in pieces")
        how = [*how, *_kinds(self._dtypes)]
        held = (ctypes.c_int64 * len(how))(*how)
        function = ctypes.cast(ours.task, ctypes.c_void_p).value or 0
        return Form((function, 1, 0, 0, ctypes.addressof(held), 0, 0, 0), 3, 0, held, BY_ITSELF)


def _along(lengths: np.ndarray, axis: int | None, missing: int) -> np.ndarray:
    """Lengths or steps of an axis, for each task; of one that is not there a number."""
    return np.full(len(lengths), missing) if axis is None else lengths[:, axis]


@cache
def multiplied(dtypes: tuple[np.dtype[Any], ...], axes: Axes) -> Multiplied:
    """The C of products of dtypes: families of it are of one kind."""
    return Multiplied(dtypes, axes)
