"""Products of two matrices by a BLAS that is here anyway, called without torch and its price.

A call by torch takes 15 to 30 us before it multiplies, with Python's lock; this takes 3, and from C
(`runtime/native`) nothing. Whoever multiplies matrices on a CPU comes here, so the bits are those
of one function. The library is the OpenBLAS beside torch, else the one that NumPy or SciPy bring:
products by these are counted. There is none (`find_library()` is None) where these have none in a
file of its own, or there is no compiler: then torch multiplies.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.config import config
from infinitensor.events import lane
from infinitensor.ir.call_tables import Calls, Form, InC
from infinitensor.native import CompilerError, address, compiler, library
from infinitensor.ops.backend.torch_loading import is_loading
from infinitensor.threads import number_address, share_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infinitensor.ir.call_tables import Operands

CODES = {"float32": 0, "float64": 1, "complex64": 2, "complex128": 3}
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
    if blas is None or compiler() is None:
        return None
    try:
        names = [f"cblas_{c}{op}" for c in LETTERS for op in ("gemm", "gemv", "syrk")]
        given = [ctypes.cast(blas.function(name), ctypes.c_void_p) for name in names]
        get, put, is_of_threads = blas.threads()
        integer = "int64_t" if blas.integer is ctypes.c_int64 else "int"
        text = Path(__file__).with_name("blas.c").read_text("utf-8")
        ours = library(f"#include <stdint.h>\ntypedef {integer} Whole;\n{text}")
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
    ours.share.argtypes, ours.share.restype = [ctypes.c_int64], None
    for function in (ours.enter, ours.leave):
        function.argtypes, function.restype = [], None
    for function in (ours.made, ours.cores):
        function.argtypes, function.restype = [], ctypes.c_int64
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    for function in (ours.product, ours.product_of_worker):
        function.argtypes = [
            number, number, number, pointer, pointer, pointer, pointer, pointer, number,
        ]  # fmt: skip
        function.restype = None
    ours.stack.argtypes, ours.stack.restype = [pointer, pointer, number], None
    return ours


def n_borrowed() -> int:
    """The products that a library of NumPy or SciPy made, in this process."""
    if not find_library.cache_info().currsize:
        return 0  # nobody multiplied
    ours, blas = find_library(), beside()
    return int(ours.made()) if ours is not None and blas is not None and blas.is_borrowed else 0


@contextmanager
def one_core_each() -> Iterator[None]:
    """While several threads that are not torch's multiply, each has one core."""
    ours = find_library() if find_library.cache_info().currsize else None  # else nobody multiplies
    if ours is None:
        yield
        return
    ours.share(1)
    try:
        yield
    finally:
        ours.share(-1)


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
    """out = x @ y for matrices, or stacks of as many, of one dtype; False, and nothing done, where
    that is not for it."""
    code = CODES.get(x.dtype.name)
    if code is None or y.dtype != x.dtype or out.dtype != x.dtype or config.compile == "never":
        return False
    ours = find_library()
    if ours is None or not (x.size and y.size) or not _is_written(out, x.itemsize):
        return False
    x, y = _suited(x, y)
    rows, k = x.shape[-2:]
    steps = (*x.strides[-2:], *y.strides[-2:], out.strides[-2])
    how = [code, rows, y.shape[-1], k, *steps]
    arrays = (ctypes.c_void_p * 3)(address(x), address(y), address(out))
    if out.ndim > 2:
        how += [len(out), x.strides[0], y.strides[0], out.strides[0]]
        ours.stack((ctypes.c_int64 * 13)(*how), arrays, lane.is_worker)
        return True
    run = ours.product_of_worker if lane.is_worker else ours.product
    run(0, 0, 0, (ctypes.c_int64 * 9)(*how), arrays, None, None, None, 0)
    return True


def _suited(x: Any, y: Any) -> tuple[Any, Any]:
    """The operands as the library takes them; copies, where it would not."""
    size = x.itemsize
    (rows, k), columns = x.shape[-2:], y.shape[-1]
    is_transposed = (
        x.ndim == 2 and x.shape == y.shape[::-1]
        and x.strides == y.strides[::-1] and address(x) == address(y)
    )  # fmt: skip
    if not is_suited(rows, k, x.strides[-2:], size):
        x = np.ascontiguousarray(x)
    if is_transposed:
        y = x.T
    elif not is_suited(k, columns, y.strides[-2:], size):
        y = np.ascontiguousarray(y)
    return x, y


def _is_written(out: Any, size: int) -> bool:
    """Whether the library writes into rows with these strides."""
    rows, columns = out.shape[-2:]
    step = out.strides[-2]
    if rows > 1 and (step < columns * size or step % size or step // size >= MOST_BLAS_COUNT):
        return False
    return columns == 1 or bool(out.strides[-1] == size)


class Multiplied(InC):
    """The C of a family of products of two matrices, or of a matrix and a vector."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._code = CODES[dtype.name]
        self._size = dtype.itemsize
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
        n = len(x.bases)
        rows = x.shapes[:, 0] if x.shapes.shape[1] > 1 else np.ones(n, np.int64)
        columns = y.shapes[:, 1] if y.shapes.shape[1] > 1 else np.ones(n, np.int64)
        k = x.shapes[:, -1]
        row = x.strides[:, 0] if x.shapes.shape[1] > 1 else np.zeros(n, np.int64)
        column = y.strides[:, 1] if y.shapes.shape[1] > 1 else np.zeros(n, np.int64)
        step = out.strides[:, 0] if x.shapes.shape[1] > 1 else np.zeros(n, np.int64)
        table = np.stack(
            [np.full(n, self._code), rows, columns, k, row, x.strides[:, -1],
             y.strides[:, 0], column, step], axis=1,
        )  # fmt: skip
        each, kind = np.unique(table, axis=0, return_inverse=True)
        function = ctypes.cast(ours.product, ctypes.c_void_p).value or 0
        of = []
        for how in each.tolist():
            _, m, n_columns, inner, *steps = how
            last = self._size if n_columns > 1 else 0
            if not (
                is_suited(m, inner, steps[:2], self._size)
                and is_suited(inner, n_columns, steps[2:4], self._size)
                and (m == 1 or steps[4] >= n_columns * last)
            ):
                raise CompilerError("a matrix whose rows and columns are in pieces")
            held = (ctypes.c_int64 * 9)(*how)
            of.append(Form((function, 0, 0, 0, ctypes.addressof(held), 0, 0, 0), 3, 0, held))
        return Calls.one_each(kind, of, (x, y, out))


@cache
def multiplied(dtype: np.dtype[Any]) -> Multiplied:
    """The C of products in a dtype: families of it are of one kind."""
    return Multiplied(dtype)
