"""Fourier transforms on a CPU by MKL's, which torch's files for x86 have, called without torch.

torch makes a plan at each call, which takes several times as long as to use it; here plans are
kept. They are of one core, and blocks of lines are shared among the threads of C (`fft_lines.c`);
a long line is a matrix there, whose columns and rows are shared. What a block is depends on shapes
alone, and whether a line is cut on its length. NumPy makes the first transforms of a process, while
a thread loads the file (`is_numpys`). Where there is none (`find_library()` is None: on ARM, say),
torch and NumPy transform.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from infinitensor.dtypes import complex64, complex128, float32, float64
from infinitensor.events import lane
from infinitensor.native import NO_COMPILER, CompilerError, address, fixed_library
from infinitensor.ops.backend.mkl import begin_loading, find_mkl, mkl_file
from infinitensor.ops.backend.torch_loading import is_of_user
from infinitensor.ops.signal.long_fft import rows_for
from infinitensor.threads import number_address, share_address

SINGLE = {float32: True, complex64: True, float64: False, complex128: False}
"""The dtypes that it transforms: whether they are of single precision."""
INVERSE = ("ifft", "irfft")
COMPLEX_DOMAIN, REAL_DOMAIN = 32, 33
FORWARD_SCALE, BACKWARD_SCALE, N_TRANSFORMS, EVEN_STORAGE, PLACEMENT = 4, 5, 7, 10, 11
INPUT_STRIDES, OUTPUT_STRIDES, INPUT_DISTANCE, OUTPUT_DISTANCE, THREAD_LIMIT = 12, 13, 14, 15, 27
COMPLEX_COMPLEX, NOT_INPLACE = 39, 44
"""MKL's numbers for the settings of a plan."""
MIRROR_NONE, MIRROR_FORWARD, MIRROR_BACKWARD = range(3)
COMPLEX, FROM_REAL, TO_REAL = range(3)
"""Numbers of `fft_lines.c`."""
BLOCK_POINTS = 1 << 13
"""Points of a block of lines: they stay in a core's cache."""
SIDE_BY_SIDE = 16
"""Lines side by side are taken so many at a time, or more: those of a cache line."""
LONG_LINE_BYTES = 1 << 19
"""A contiguous line of so much, of real values if one side is real, is taken as a matrix, whose
columns and rows all threads transform."""
MOST_LINE_PLANS = 256
MOST_PLANNED_POINTS = 1 << 23
"""Points of all plans that are kept: a plan has tables as long as its line."""


class NoPlanError(RuntimeError):
    """MKL makes no plan for lines of a kind; the text has its reason."""


class Functions(NamedTuple):
    """What is called of MKL, and of `fft_lines.c`."""

    mkl: Any
    ours: Any


@cache
def find_library() -> Functions | None:
    """The functions, or None; the first call loads them."""
    try:
        mkl = find_mkl(waits=True)
        if mkl is None:
            return None
        for word in ("CommitDescriptor", "SetValue", "FreeDescriptor", "ComputeForward"):
            getattr(mkl, f"Dfti{word}").restype = ctypes.c_long
        mkl.DftiFreeDescriptor.argtypes = [ctypes.c_void_p]
        ours = fixed_library("ops/signal/fft_lines")
    except (AttributeError, OSError):
        return None  # a torch that was built without it
    except CompilerError as error:
        if NO_COMPILER not in str(error):
            warnings.warn(f"{error}; torch transforms", RuntimeWarning, stacklevel=4)
        return None
    ours.use(ctypes.c_void_p(share_address()), ctypes.c_void_p(number_address()))
    for function in (ours.transform_lines, ours.transform_long_lines):
        function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64]
        function.restype = ctypes.c_int64
    return Functions(mkl, ours)


FIRST_WORK = 1 << 26
"""Points of lines, times the logarithm of their length, that NumPy transforms in 0.1 to 0.2 s: as
long as a program may take before it waits for MKL. To load it takes 0.3 to 0.8 s."""
ROUGH = 8
"""How much longer NumPy takes where the length has a large prime factor."""


class First:
    """The first transforms of this process, which NumPy makes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.work = 0
        self.n_made = 0


first = First()


def is_numpys(n_points: int, n: int) -> bool:
    """Whether NumPy makes a transform of so many points in lines of n, for it is among the first of
    this process: MKL is loaded meanwhile.

    That depends on what was transformed before, never on when MKL is there: so do the last bits.
    """
    if first.work > FIRST_WORK or lane.is_worker or mkl_file() is None or is_of_user():
        return False
    begin_loading()
    with first.lock:
        first.work += n_points * n.bit_length() * (1 if is_smooth(n) else ROUGH)
        first.n_made += first.work <= FIRST_WORK
        return first.work <= FIRST_WORK


def is_smooth(n: int) -> bool:
    """Whether n has only the small prime factors that a transform is split by."""
    for prime in (2, 3, 5, 7, 11, 13):
        while n % prime == 0:
            n //= prime
    return n == 1


# --- plans ------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """How lines are stored: (n_planes, n_terms, n_lines) with terms before lines, or lines
    before terms where there is one plane and lines are contiguous."""

    n_planes: int
    n_lines: int
    is_contiguous: bool


class Lines(NamedTuple):
    """A kind of transform of arrays in C order."""

    word: str
    is_single: bool
    is_real: bool
    """Whether the operand of `fft` or `ifft` is."""
    n: int
    layout: Layout
    scale: float


class How(ctypes.Structure):
    """A plan of lines as `fft_lines.c` reads it."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("compute", "whole", "rest")),
        *(
            (name, ctypes.c_int64)
            for name in (
                *("n_planes", "n_blocks", "n_lines", "n_rest"),
                *("x_plane", "x_block", "out_plane", "out_block"),
                *("mirror", "n", "step", "line", "is_double"),
            )
        ),
    ]


class Split(ctypes.Structure):
    """A plan of long lines, as matrices, as `fft_lines.c` reads it."""

    _fields_ = [
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("compute", "columns", "last_columns", "rows", "last_rows"),
                *("starts", "steps"),
            )
        ),
        *(
            (name, ctypes.c_int64)
            for name in (
                *("n", "n_rows", "n_columns", "n_made", "n_terms", "row"),
                *("kind", "mirror", "is_double", "n_lines", "x_line", "out_line"),
            )
        ),
    ]


class Side(NamedTuple):
    """How lines that a plan transforms are stored on one side, in elements."""

    step: int
    """From one element of a line to the next."""
    distance: int
    """From one line to the next."""


class Plan:
    """The plans of MKL for a kind of transform, until nobody uses it."""

    def __init__(self, functions: Functions, lines: Lines) -> None:
        self._mkl = functions.mkl
        self._handles: list[ctypes.c_void_p] = []
        self._is_single = lines.is_single
        self.n = lines.n
        self.n_in = lines.n // 2 + 1 if lines.word == "irfft" else lines.n
        """Terms of a line that is read."""
        self._n_out = lines.n // 2 + 1 if lines.word == "rfft" else lines.n
        self._is_halved = lines.is_real or lines.word == "rfft"
        """Whether a real line is read."""
        self._is_real = self._is_halved or lines.word == "irfft"
        if lines.word == "irfft":
            self.gives = float32 if lines.is_single else float64
        else:
            self.gives = complex64 if lines.is_single else complex128
        real = 4 if lines.is_single else 8
        self._bytes_in = real * (1 if self._is_halved else 2)
        self._bytes_out = self.gives.itemsize
        self._mirror = MIRROR_NONE
        if lines.is_real:
            self._mirror = MIRROR_BACKWARD if lines.word == "ifft" else MIRROR_FORWARD
        n_rows = _rows_of_long(lines, lines.n * real * (1 if self._is_real else 2))
        self._how: How | Split
        if n_rows is None:
            self._call = functions.ours.transform_lines
            self._how = self._whole_lines(lines)
        else:
            self._call = functions.ours.transform_long_lines
            self._how = self._long_lines(lines, n_rows)
        self._address = ctypes.addressof(self._how)

    def __del__(self) -> None:
        for handle in self._handles:
            self._mkl.DftiFreeDescriptor(ctypes.byref(handle))

    def run(self, x: np.ndarray, out: np.ndarray) -> bool:
        """Transform; False if MKL cannot."""
        return not self._call(self._address, address(x), address(out), lane.is_worker)

    def _whole_lines(self, lines: Lines) -> How:
        n, layout, n_in, n_out = lines.n, lines.layout, self.n_in, self._n_out
        n_lines, along = layout.n_lines, layout.is_contiguous
        step = 1 if along else n_lines
        source, target = (Side(step, size if along else 1) for size in (n_in, n_out))
        least = 1 if along else SIDE_BY_SIDE
        each = min(n_lines, max(BLOCK_POINTS // n // least, 1) * least)
        n_blocks = -(-n_lines // each)
        n_rest = n_lines - (n_blocks - 1) * each
        whole, rest = self._blocks(n, self._is_real, lines.scale, source, target, each, n_rest)
        return How(
            *(self._compute(lines), whole, rest),
            *(layout.n_planes, n_blocks, each, n_rest),
            *(n_in * n_lines * self._bytes_in, each * source.distance * self._bytes_in),
            *(n_out * n_lines * self._bytes_out, each * target.distance * self._bytes_out),
            *(self._mirror, n, step, target.distance, not lines.is_single),
        )

    def _long_lines(self, lines: Lines, n_rows: int) -> Split:
        """Columns, then rows; the other way, if the result is real. Two real columns are one of
        complex values."""
        n, n_columns, side = lines.n, lines.n // n_rows, SIDE_BY_SIDE
        n_made = n_rows // 2 + 1 if self._is_real else n_rows
        row = -(-n_columns // side) * side + side // 2  # no power of two
        to_real = lines.word == "irfft"
        scale = (1.0, lines.scale)[:: -1 if to_real else 1]
        if self._is_real:
            apart = Side(side // 2, 1)
            columns = self._blocks(n_rows, False, scale[0], apart, apart, side // 2, side // 2)
        else:
            rest = (n_columns - 1) % side + 1
            given = (Side(n_columns, 1), Side(side, 1))
            columns = self._blocks(n_rows, False, scale[0], *given, side, rest)
        apart, rest = Side(1, row), (n_made - 1) % side + 1
        rows = self._blocks(n_columns, False, scale[1], apart, apart, side, rest)
        self._factors = _factors(lines, n_rows, n_made)
        return Split(
            *(self._compute(lines), *columns, *rows, *map(address, self._factors)),
            *(n, n_rows, n_columns, n_made, self.n_in if to_real else self._n_out, row),
            TO_REAL if to_real else FROM_REAL if self._is_real else COMPLEX,
            *(MIRROR_FORWARD if lines.word == "rfft" else self._mirror, not lines.is_single),
            *(lines.layout.n_lines, self.n_in * self._bytes_in, self._n_out * self._bytes_out),
        )

    def _compute(self, lines: Lines) -> Any:
        """MKL's function. Of real values the transforms both ways are made of the one forward."""
        is_backward = lines.word in INVERSE and not lines.is_real
        word = "Backward" if is_backward else "Forward"
        return ctypes.cast(getattr(self._mkl, f"DftiCompute{word}"), ctypes.c_void_p)

    def _blocks(
        self, n: int, is_real: bool, scale: float, source: Side, target: Side, each: int, rest: int
    ) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """MKL's plans of so many lines of n, and of those that are left over."""
        whole = self._descriptor(n, is_real, scale, source, target, each)
        if rest == each:
            return whole, whole
        return whole, self._descriptor(n, is_real, scale, source, target, rest)

    def _descriptor(
        self, n: int, is_real: bool, scale: float, source: Side, target: Side, n_lines: int
    ) -> ctypes.c_void_p:
        """MKL's plan of some lines, for one core."""
        mkl, handle, whole = self._mkl, ctypes.c_void_p(), ctypes.c_long
        make = getattr(mkl, f"DftiCreateDescriptor_{'s' if self._is_single else 'd'}_1d")
        failed = make(ctypes.byref(handle), REAL_DOMAIN if is_real else COMPLEX_DOMAIN, whole(n))
        if failed:
            raise NoPlanError(f"MKL makes no plan: {failed}")
        self._handles.append(handle)
        settings: list[tuple[int, Any]] = [
            (PLACEMENT, NOT_INPLACE),
            (FORWARD_SCALE, ctypes.c_double(scale)),
            (BACKWARD_SCALE, ctypes.c_double(scale)),
            (THREAD_LIMIT, whole(1)),
            (N_TRANSFORMS, whole(n_lines)),
            (INPUT_STRIDES, (whole * 2)(0, source.step)),
            (OUTPUT_STRIDES, (whole * 2)(0, target.step)),
            (INPUT_DISTANCE, whole(source.distance)),
            (OUTPUT_DISTANCE, whole(target.distance)),
        ]
        if is_real:
            settings.append((EVEN_STORAGE, COMPLEX_COMPLEX))
        failed = next((e for name, v in settings if (e := mkl.DftiSetValue(handle, name, v))), 0)
        failed = failed or mkl.DftiCommitDescriptor(handle)
        if failed:
            raise NoPlanError(f"MKL makes no plan: {failed}")
        return handle


def _rows_of_long(lines: Lines, line_bytes: int) -> int | None:
    """Rows of the matrix as which each of some lines is transformed; None: it is not cut."""
    if line_bytes < LONG_LINE_BYTES or not lines.layout.is_contiguous:
        return None
    return rows_for(lines.n)


def _factors(lines: Lines, n_rows: int, n_made: int) -> tuple[np.ndarray, np.ndarray]:
    """exp(2 pi i row * column / n) of the columns at which a block begins, and, real parts before
    imaginary ones, of those within."""
    sign = 1 if lines.word in INVERSE and not lines.is_real else -1
    dtype = complex64 if lines.is_single else complex128
    rows = np.arange(n_made)[:, None]

    def factors(column: np.ndarray) -> np.ndarray:
        angles = sign * 2 * np.pi / lines.n * (rows * column)
        made: np.ndarray = np.cos(angles) + 1j * np.sin(angles)
        return made.astype(dtype)

    steps = factors(np.arange(SIDE_BY_SIDE))
    starts = factors(np.arange(0, lines.n // n_rows, SIDE_BY_SIDE))
    return starts, np.stack([steps.real, steps.imag], 1)


_plans: dict[Any, Plan] = {}


def _plan(functions: Functions, key: Any) -> Plan:
    """The plan of a transform of an array; a new one, and then all others go, where they are
    many."""
    shape, dtype, word, axis, n, norm = key
    if (
        len(_plans) >= MOST_LINE_PLANS
        or n + sum(kept.n for kept in list(_plans.values())) > MOST_PLANNED_POINTS
    ):
        _plans.clear()  # who uses one has it
    n_before, n_lines = prod(shape[:axis]), prod(shape[axis + 1 :])
    layout = Layout(1, n_before, True) if n_lines == 1 else Layout(n_before, n_lines, False)
    is_real = word != "rfft" and dtype.kind == "f"
    made = Plan(functions, Lines(word, SINGLE[dtype], is_real, n, layout, _scale(word, n, norm)))
    _plans[key] = made
    return made


# --- transforms -------------------------------------------------------------------------------


def transform_lines(
    x: np.ndarray, out: np.ndarray, word: str, axis: int, n: int, norm: str
) -> bool:
    """Transform lines of a dtype that MKL knows, single precision in single; False, and nothing
    done, where it is not there."""
    functions = find_library()
    if functions is None:
        return False
    if not out.size:
        return True
    key = (x.shape, x.dtype, word, axis, n, norm)
    try:
        plan = _plans.get(key) or _plan(functions, key)
    except NoPlanError as error:
        warnings.warn(f"{error}; torch or NumPy transform", RuntimeWarning, stacklevel=2)
        return False
    if not (x.shape[axis] == plan.n_in and x.flags.c_contiguous):
        x = _fit_terms(x, axis, plan.n_in)
    is_fit = out.dtype == plan.gives and out.flags.c_contiguous
    made = out if is_fit else np.empty(out.shape, plan.gives)
    if not plan.run(x, made):
        raise RuntimeError("MKL has not transformed")
    if made is not out:
        out[...] = made
    return True


def _fit_terms(x: np.ndarray, axis: int, n: int) -> np.ndarray:
    """The array in C order, cut or padded with zeros to n terms along an axis."""
    length = x.shape[axis]
    ahead = (slice(None),) * axis
    if length >= n:
        return np.ascontiguousarray(x[(*ahead, slice(0, n))] if length > n else x)
    padded = np.zeros((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype)
    padded[(*ahead, slice(0, length))] = x
    return padded


def _scale(word: str, n: int, norm: str) -> float:
    """The factor of a transform by NumPy's word for it."""
    if norm == "ortho":
        return float(n**-0.5)
    return 1 / n if (norm == "backward") == (word in INVERSE) else 1.0
