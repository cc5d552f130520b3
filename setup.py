"""Builds C that is the same for every program (docs/decisions/0024-built-extensions.md).

Where there is no compiler, or no headers of Python, the package is installed without it.
"""

import runpy

import numpy as np
from setuptools import Extension, setup

SOURCE = "src/infinitensor"
OF_ALL = ("built_from.h", "fixed_c.py")
fixed_c = runpy.run_path(f"{SOURCE}/fixed_c.py")


def extension(file: str) -> Extension:
    """A C file of the package, beside which its module or library will stand."""
    return Extension(
        fixed_c["name_of"](file),
        [f"{SOURCE}/{file}.c"],
        depends=[f"{SOURCE}/{name}" for name in (*fixed_c["included"](file), *OF_ALL)],
        include_dirs=[SOURCE, np.get_include()],
        define_macros=[("BUILT_FROM", f'"{fixed_c["digest_of"](file)}"')],
        extra_compile_args=[
            *fixed_c["flags_of"](file),
            *("-g0", "-Wall", "-Wextra", "-include", f"{SOURCE}/built_from.h"),
        ],
        libraries=["m"],
        optional=True,
    )


FILES = (*fixed_c["MODULES"], *fixed_c["LIBRARIES"])
setup(ext_modules=[extension(file) for file in FILES])
