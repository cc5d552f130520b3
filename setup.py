"""Builds C that is the same for every program (docs/decisions/0024-built-extensions.md).

Where there is no compiler, or no headers of Python, the package is installed without it.
"""

import runpy
from pathlib import Path

import numpy as np
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = "src/infinitensor"
OF_ALL = ("built_from.h", "fixed_c.py")
fixed_c = runpy.run_path(f"{SOURCE}/fixed_c.py")


def write_if_new(path: Path, text: str) -> None:
    """Write a file that is made; one that has the text stays as old as what was built of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def extension(file: str) -> Extension:
    """A C file of the package, beside which its module or library will stand."""
    path = f"{SOURCE}/{file}.c"
    if file in fixed_c["LOOPS"]:  # one file for several dtypes: each has its own, with what it is
        path = f"build/loops/{file}.c"
        write_if_new(Path(path), fixed_c["source_of"](file))
    return Extension(
        fixed_c["name_of"](file),
        [path],
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


class BuildC(build_ext):
    """Names libraries, which Python does not import, so that it never finds them as modules."""

    def get_ext_filename(self, fullname: str) -> str:
        """The file of a module or library, from the folder that it is asked for in."""
        *folders, last = fullname.split(".")
        for file in (*fixed_c["LIBRARIES"], *fixed_c["LOOPS"]):
            if last == fixed_c["name_of"](file).rpartition(".")[2]:
                return "/".join((*folders, fixed_c["built_name"](file)))
        return str(super().get_ext_filename(fullname))


FILES = (*fixed_c["MODULES"], *fixed_c["LIBRARIES"], *fixed_c["LOOPS"])
setup(ext_modules=[extension(file) for file in FILES], cmdclass={"build_ext": BuildC})
