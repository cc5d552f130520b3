"""Where each suite is, and which of its modules say something about this library."""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Suite:
    """One project's tests. `taken` are globs under its root; `left` are texts in paths left out."""

    name: str
    taken: tuple[str, ...]
    left: tuple[str, ...] = ()
    holds: str = ""
    """A module is taken only where its text has this pattern."""
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    wheel: bool = False
    reference: bool = False
    """Whether a test that NumPy fails in our place says nothing: it is about the other project."""

    def root(self) -> Path | None:
        """The checkout that the environment names, or the installed package's site folder."""
        if self.wheel:
            spec = importlib.util.find_spec(self.name)
            return Path(spec.origin).parents[1] if spec and spec.origin else None
        given = os.environ.get(f"INFINITENSOR_SUITE_{self.name.upper()}")
        return Path(given).resolve() if given else None

    @property
    def missing(self) -> str:
        """What to do where it is not there."""
        name = self.name.upper()
        return "not installed" if self.wheel else f"set INFINITENSOR_SUITE_{name} to a checkout"

    def modules(self, root: Path) -> list[Path]:
        """The modules with tests, in order."""
        found = sorted({path for glob in self.taken for path in root.glob(glob)})
        kept = [path for path in found if not any(text in str(path) for text in self.left)]
        return [p for p in kept if not self.holds or re.search(self.holds, p.read_text("utf-8"))]


CUPY_PARTS = (
    *("core", "creation", "indexing", "logic", "manipulation", "math", "sorting", "statistics"),
    *("linalg", "fft", "padding", "binary", "functional", "lib", "misc", "polynomial"),
)
NUMPY_PARTS = {
    "_core": "einsum function_base getlimits half indexerrors indexing item_selection multiarray "
    "nep50_promotions numeric shape_base ufunc umath umath_complex",
    "lib": "arraypad arraysetops function_base histograms index_tricks nanfunctions packbits "
    "polynomial shape_base stride_tricks twodim_base type_check ufunclike",
    "linalg": "linalg",
    "fft": "pocketfft helper",
}

SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "cupynumeric",
            ("tests/integration/test_*.py",),
            reference=True,
            # streams of random numbers are our own
            left=("test_random", "test_randint"),
        ),
        Suite(
            "cupy",
            tuple(f"tests/cupy_tests/{part}_tests/**/test_*.py" for part in CUPY_PARTS),
            options=("-m", "not slow"),
            reference=True,
            # CuPy's kernels, fusion, memory and scalars of C
            left=(
                "fusion_tests",
                "test_raw",
                "test_elementwise.py",
                "test_userkernel",
                "test_function.py",
                "test_core.py",
                "test_internal.py",
                "test_carray",
                "test_cub_reduction",
                "test_scan.py",
                "test_gufuncs",
                "test_ndarray_cuda_array_interface",
                "test_ndarray_owndata",
                "test_cache.py",
                "test_callback",
                "test_memory",
                "test_optimize",
                "test_flags",
                "test_syncdetect",
            ),
        ),
        Suite(
            "numpy",
            tuple(
                f"numpy/{part}/tests/test_{name}.py"
                for part, names in NUMPY_PARTS.items()
                for name in names.split()
            ),
            options=("-k", "not incref_elide"),  # C that takes what it is given for an array
            wheel=True,
        ),
        Suite(
            "scipy",
            ("scipy/**/tests/test_*.py",),
            holds=r"def test\w*\(.*\bxp\b",
            environment={"SCIPY_ARRAY_API": "1"},
            options=("-k", "infinitensor"),
            wheel=True,
        ),
        Suite("xarray", ("xarray/tests/test_array_api.py",), wheel=True),
    )
}
