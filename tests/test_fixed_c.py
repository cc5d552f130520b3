"""C that is built when the package is installed: used as it is, unless its sources have changed."""

from __future__ import annotations

import os
import pkgutil
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.made_once import made_once
from tests.reliability import child
from tools.check_wheel import WheelError, check_contents, check_import, machine_of

from infinitensor import fixed_c, native

ROOT = child.SOURCE.parent
FILES = (*fixed_c.MODULES, *fixed_c.LIBRARIES, *fixed_c.LOOPS)
SCRIPT = """
import warnings
warnings.simplefilter("ignore")  # where there is no compiler
from infinitensor.api.session import lock
x = it.arange(2000.0)
assert float((x[1:] + 1)[2]) == 4.0
stats = it.stats()
reply(lock=lock.Lock.__name__, **{name: stats[name] for name in ("not_prebuilt", "not_compiled")})
"""


def build(folder: Path, **environment: str) -> list[str]:
    """What setuptools builds in a copy of the source, as an editable install does."""
    pytest.importorskip("setuptools")
    source = child.fresh_source(folder)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    line = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--parallel", "2"]
    done = subprocess.run(
        line,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [str(path.relative_to(source)) for path in source.rglob("*.so")]


def used(folder: Path, cache: Path, **environment: str) -> dict[str, Any]:
    """What a process of its own says that imports the copy."""
    own = {"PYTHONPATH": str(folder / "src"), "XDG_CACHE_HOME": str(cache)}
    return child.run(SCRIPT, limit_s=60.0, **own, **environment)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with what was built; warnings were errors."""
    if native.compiler() is None:
        pytest.skip("no C compiler here")

    def make(folder: Path) -> None:
        assert len(build(folder, CFLAGS="-Werror")) == len(FILES)

    return made_once(tmp_path_factory, "built", make)


def test_an_import_compiles_nothing_where_all_was_built(built: Path, tmp_path: Path) -> None:
    report = used(built, tmp_path / "cache", CC="/bin/false")
    assert report == {"lock": "Lock", "not_prebuilt": {}, "not_compiled": {}}
    assert not (tmp_path / "cache").exists()


LIBRARIES = """
from infinitensor import fixed_c, native
from infinitensor.storage.file_io import checksum
names = [native.fixed_library(file)._name for file in fixed_c.LIBRARIES]
names += [native.built_library(file)._name for file in fixed_c.LOOPS]
reply(names=names, sum=checksum.crc32c(b"123456789"), way=checksum._implementation().__name__)
"""


def test_libraries_are_those_that_were_built(built: Path, tmp_path: Path) -> None:
    own = {"PYTHONPATH": str(built / "src"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    report = child.run(LIBRARIES, limit_s=60.0, CC="/bin/false", **own)
    assert all(name.startswith(str(built)) for name in report["names"])
    assert (report["sum"], report["way"]) == (0xE3069283, "blocks")
    assert not (tmp_path / "cache").exists()


def test_who_asks_for_no_compiler_gets_nothing_that_was_built(built: Path, tmp_path: Path) -> None:
    report = used(built, tmp_path, INFINITENSOR_COMPILE="never")
    assert report == {"lock": "RLock", "not_prebuilt": {}, "not_compiled": {}}


def test_what_was_built_from_other_sources_is_compiled_again(built: Path, tmp_path: Path) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(built, folder)
    header = folder / "src/infinitensor/api/known/known_calls.h"
    header.write_text(header.read_text("utf-8") + "/* changed */\n", "utf-8")
    cache = tmp_path / "cache"
    report = used(folder, cache)
    why = "built from other sources: install the package again"
    assert report["not_prebuilt"] == {"known_calls.c": why}
    assert report["not_compiled"] == {}
    assert len([*cache.rglob("*.so")]) == 1


def test_what_cannot_be_loaded_is_compiled_again(built: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(built, folder)
    (module,) = (folder / "src/infinitensor/api/session").glob("_lock*.so")
    module.write_text(f"no library {fixed_c.digest_of('api/session/lock')}")
    report = used(folder, tmp_path / "cache")
    assert "_lock" in report["not_prebuilt"]["lock.c"]
    assert (report["lock"], report["not_compiled"]) == ("Lock", {})


def test_an_install_without_a_compiler_builds_nothing_and_works(tmp_path: Path) -> None:
    assert build(tmp_path, CC="/bin/false") == []
    report = used(tmp_path, tmp_path, CC="none", PATH="")
    assert set(report["not_prebuilt"].values()) == {"not built when the package was installed"}
    assert set(report["not_compiled"].values()) == {"no C compiler"}


def test_every_module_in_c_is_built() -> None:
    files = [path for path in fixed_c.PACKAGE.rglob("*.c") if "PyInit_" in path.read_text("utf-8")]
    names = {path.relative_to(fixed_c.PACKAGE).with_suffix("").as_posix() for path in files}
    assert names == set(fixed_c.MODULES)
    for file in fixed_c.MODULES:
        stem = fixed_c.name_of(file).rpartition(".")[2]
        assert f"PyInit_{stem}(void)" in fixed_c.source_of(file)


def test_python_finds_no_library_as_a_module(built: Path) -> None:
    for file in FILES:
        *folders, _ = file.split("/")
        folder = built.joinpath("src", "infinitensor", *folders)
        assert (folder / fixed_c.built_name(file)).exists()
        names = {module.name for module in pkgutil.iter_modules([str(folder)])}
        is_module = fixed_c.name_of(file).rpartition(".")[2] in names
        assert is_module == (file in fixed_c.MODULES)
        assert not any("." in name or not name.isidentifier() for name in names)


@pytest.fixture(scope="module")
def wheel(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the copy."""
    folder = tmp_path_factory.mktemp("wheel") / "copy"
    shutil.copytree(built, folder)
    line = [sys.executable, "setup.py", "-q", "bdist_wheel"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = (folder / "dist").glob("*.whl")
    return made


def test_a_wheel_holds_all_that_is_built_and_imports_without_compiling(wheel: Path) -> None:
    assert len(check_contents(wheel)) == len(FILES)
    assert machine_of(wheel) == os.uname().machine
    check_import(wheel)


def changed_wheel(wheel: Path, folder: Path, changes: dict[str, bytes | None]) -> Path:
    """A wheel with other contents; None: without that file."""
    made = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            data = changes.get(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return made


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("infinitensor/threads.c.so", None, "threads.c is not built"),
        ("infinitensor/threads.c.so", b"", "threads.c was built from other sources"),
        ("infinitensor/threads.c", b"/* changed */", "threads.c was built from other sources"),
    ],
)
def test_a_wheel_that_lacks_something_is_refused(
    name: str, data: bytes | None, why: str, wheel: Path, tmp_path: Path
) -> None:
    with pytest.raises(WheelError, match=why):
        check_contents(changed_wheel(wheel, tmp_path, {name: data}))


COMPILERS = {"x86_64": ("x86_64-linux-gnu-gcc", "cc"), "aarch64": ("aarch64-linux-gnu-gcc",)}


def compiler_for(machine: str) -> str:
    """A compiler for a kind of machine."""
    names = [name for name in COMPILERS[machine] if shutil.which(name)]
    if not names or (names[0] == "cc" and os.uname().machine != machine):
        pytest.skip(f"no compiler for {machine} here")
    return names[0]


@pytest.mark.parametrize("machine", COMPILERS)
@pytest.mark.parametrize("file", [*fixed_c.MODULES, *fixed_c.LIBRARIES])
def test_c_compiles_for_every_kind_of_machine(file: str, machine: str) -> None:
    folders = (str(fixed_c.PACKAGE), sysconfig.get_path("include"), np.get_include())
    if file in fixed_c.MODULES and not Path(folders[1], "Python.h").exists():
        pytest.skip("no headers of Python here")
    line = [compiler_for(machine), *fixed_c.flags_of(file, machine), "-fPIC", "-fsyntax-only"]
    line += [*native.SANITIZERS["warnings"], *(f"-I{folder}" for folder in folders)]
    path = str(fixed_c.PACKAGE / f"{file}.c")
    done = subprocess.run([*line, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("machine", COMPILERS)
def test_libraries_work_on_every_kind_of_machine(machine: str, tmp_path: Path) -> None:
    emulator = [] if machine == os.uname().machine else [f"qemu-{machine}"]
    if emulator and not shutil.which(emulator[0]):
        pytest.skip(f"no {emulator[0]} here")
    libraries = [file for file in fixed_c.LIBRARIES if file != "runtime/native/c_program"]
    flags = {flag: None for file in libraries for flag in fixed_c.flags_of(file, machine)}
    line = [compiler_for(machine), *flags, *native.SANITIZERS["warnings"], "-static"]
    line += [f"-I{fixed_c.PACKAGE}", str(ROOT / "tests/fixed_c_check.c")]
    line += [str(fixed_c.PACKAGE / f"{file}.c") for file in libraries]
    made = str(tmp_path / "check")
    done = subprocess.run(
        [*line, "-o", made, "-lpthread"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    done = subprocess.run([*emulator, made], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "1 1 1 1\n"  # threads, programs, checksums, reads


def test_a_wheel_is_for_every_machine_of_its_kind() -> None:
    """Or asks the processor first: `has_instruction` of crc32c.c, `is_able` of others."""
    special = [file for file in FILES if any(f.startswith("-m") for f in fixed_c.flags_of(file))]
    products = {f"ops/backend/{stem}" for stem in ("blas_i4", "blas_i8", "narrow_products")}
    assert set(special) <= {"storage/file_io/crc32c", "ops/table/functions"} | products
