"""C, compiled once for each source, kept between processes, called without Python's lock.

A source takes about 0.1 s to compile; its library is found again by its hash in a folder that only
its owner may write to.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import threading
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.fixed_c import (
    AT_IMPORT,
    MODULES,
    PORTABLE_FLAGS,
    NotBuiltError,
    find_built,
    name_of,
    source_of,
)
from infinitensor.interrupts import without_interrupts

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

FLAGS = ("-march=native", *PORTABLE_FLAGS)
LIMIT_S = 60.0
"""How long a compiler may take: one that hangs must not hang an import or a call. What we compile
takes 0.1 to 3 s, and ten times that where cores are busy. One that hung is not asked again."""
SANITIZERS = {
    "address": ("-DIS_CHECKED", "-fsanitize=address", "-fno-omit-frame-pointer", "-g"),
    "undefined": (
        "-DIS_CHECKED",
        "-fsanitize=undefined",
        "-fno-sanitize=alignment",
        "-fno-sanitize-recover",
        "-g",
    ),
    "thread": ("-DIS_CHECKED", "-fsanitize=thread", "-g"),
    "warnings": ("-Wall", "-Wextra", "-Werror"),
}
"""The values of `INFINITENSOR_SANITIZE`, with commas between: all C of ours is compiled so, into
folders of its own; what does not compile is an error. (Rows of NumPy's arrays may begin anywhere:
loops read them in place.)"""


def sanitizers() -> tuple[str, ...]:
    """The checks that C is compiled with: none, unless the environment says so."""
    names = tuple(filter(None, os.environ.get("INFINITENSOR_SANITIZE", "").split(",")))
    for name in names:
        if name not in SANITIZERS:
            known = ", ".join(SANITIZERS)
            raise ValueError(f"INFINITENSOR_SANITIZE={name!r} is none of {known}")
    return names


IS_CHECKED = not {"warnings"}.issuperset(sanitizers())
"""Then every tile has memory of its own, of just its size, which is given back when it is gone: the
checks know what the system's allocator gives, and nothing of blocks that are used again."""


def flags() -> tuple[str, ...]:
    """The compiler's flags. Checked, products are contracted too: they round as a BLAS does."""
    more = [flag for name in sanitizers() for flag in SANITIZERS[name]]
    return (*FLAGS, *(["-O1", "-fexpensive-optimizations"] if IS_CHECKED else []), *more)


class CompilerError(Exception):
    """There is no compiler, or it does not take what was generated."""


def _where(array: np.ndarray) -> int:
    """The address of an array's first element, as NumPy says it."""
    return int(array.__array_interface__["data"][0])


_pointer = ctypes.c_void_p.from_address
_HEAD = object.__basicsize__
"""Behind what every Python object begins with, an array has this pointer: five times as fast."""
_probe = np.zeros(1)
_is_there = sys.implementation.name == "cpython" and _pointer(id(_probe) + _HEAD).value == _where(
    _probe
)


def address(array: np.ndarray) -> int:
    """The address of an array's first element."""
    if _is_there:
        return _pointer(id(array) + _HEAD).value or 0
    return _where(array)


_lock = threading.Lock()
_loaded: dict[str, ctypes.CDLL] = {}
missed = [0]
"""Calls in this process that went over the words of NumPy or torch for want of a compiler, of a
kernel that is for what they are given, or of opt_einsum; sessions count by it."""


_begun: dict[str, Future[Path]] = {}
"""Files and sources that are being compiled, until they are asked for."""
os.register_at_fork(after_in_child=_begun.clear)
not_compiled: dict[str, str] = {}
"""C files of ours that this process goes without, and why: what they do is done in Python."""
not_prebuilt: dict[str, str] = {}
"""C files of ours that this process did not find as they were built with the package, and why: they
are compiled, or taken from the cache."""
NO_COMPILER = "no C compiler"
_hung: set[str] = set()
"""Compilers that did not end."""


def compiler() -> str | None:
    """The C compiler of this machine, if it has one."""
    return _find_compiler(os.environ.get("CC", "cc"), os.environ.get("PATH"))


@cache
def _find_compiler(name: str, path: str | None) -> str | None:
    return shutil.which(name, path=path) or shutil.which("gcc", path=path)


def cache_folder() -> Path:
    """The folder of compiled libraries; made for the user alone.

    Below `XDG_CACHE_HOME`, else `~/.cache`. Where neither can be used: a folder of the user in the
    one for temporary files; and where others have its name, one that goes with this process.
    """
    try:
        return _own_folder(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"))
    except (OSError, RuntimeError):  # no home, or one that cannot be written, or by others too
        pass
    try:
        return _own_folder(Path(tempfile.gettempdir()) / f"infinitensor-{os.getuid()}")
    except OSError:
        return _process_folder(os.getpid())


def _own_folder(base: Path) -> Path:
    """A folder that only this user may write to; OSError where there is none."""
    folder = base / "infinitensor" / "-".join(("kernels", *sanitizers()))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in (folder, folder.parent):  # nobody else can have put another in its place
        found = one.lstat()
        others = stat.S_IMODE(found.st_mode) & 0o022
        if found.st_uid != os.getuid() or others or not stat.S_ISDIR(found.st_mode):
            raise OSError(f"{one} can be written to by others")
    if not os.access(folder, os.W_OK):
        raise OSError(f"{folder} cannot be written to")
    return folder


@cache
def _process_folder(process: int) -> Path:
    """A folder of this process, gone when it ends; a forked child makes one of its own."""
    folder = Path(tempfile.mkdtemp(prefix="infinitensor-"))

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def warn_once() -> None:
    """Say, the first time, that C could not be compiled, or that nothing can be."""
    reasons = [*not_compiled.values(), *([NO_COMPILER] if compiler() is None else [])]
    if not reasons or _warned:
        return
    _warned.append(True)
    why = reasons[0].splitlines()[0][:200]
    warnings.warn(
        f"infinitensor could not compile its C files ({why}): many calls take several times as "
        "long. Install a C compiler (gcc or clang; CC names another) and Python's headers "
        "(python3-dev). it.stats()['not_compiled'] says more",
        RuntimeWarning,
        stacklevel=4,
    )


_warned: list[bool] = []


def library(source: str) -> ctypes.CDLL:
    """The functions of a source, from memory, from the folder, or from the compiler."""
    found = _loaded.get(source)
    if found is not None:
        return found
    begun = _begun.get(source)
    try:
        built = None if begun is None else begun.result()
    finally:
        _begun.pop(source, None)
    with _lock:
        if source not in _loaded:
            _loaded[source] = _load(built or _build(source, flags()))
        return _loaded[source]


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:  # a folder whose files may not be run
        raise CompilerError(f"cannot load what was compiled: {error}") from error


def begin(source: str) -> None:
    """Start to compile a source that was not compiled before, while Python goes on."""
    if source in _begun or is_built(source) or compiler() is None:
        return
    # a thread that a Ctrl-C cuts off from its pool is waited for, always, when the process ends
    with without_interrupts(), _lock:
        if source not in _begun:
            _begun[source] = _compiling().submit(_build, source, flags())


@cache
def _compiling() -> ThreadPoolExecutor:
    """Threads that wait for compilers, as many as there are cores."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(len(os.sched_getaffinity(0)), "compile")


os.register_at_fork(after_in_child=_compiling.cache_clear)


def is_loaded(source: str) -> bool:
    """Whether this process has a source compiled."""
    return source in _loaded


def is_compiled(source: str) -> bool:
    """Whether no compiler has to be waited for, as far as this process has asked for one."""
    begun = _begun.get(source)
    return source in _loaded or (begun is not None and begun.done())


def is_compiling(source: str) -> bool:
    """Whether a compiler is at work on a source, or will be, while Python goes on."""
    begun = _begun.get(source)
    return begun is not None and not begun.done()


def n_begun() -> int:
    """Sources that compilers are at work on, or will be, while Python goes on."""
    return sum(not begun.done() for begun in list(_begun.values()))


def is_built(source: str) -> bool:
    """Whether a source was compiled before, by this process or another."""
    if source in _loaded:
        return True
    try:
        return compiler() is not None and _place(source, flags(), cache_folder()).exists()
    except OSError:
        return False


def begin_extensions() -> None:
    """Start to compile what an import loads, and was not built with the package, nor before.

    All of them at once, while Python goes on.
    """
    files = [file for file in AT_IMPORT if _prebuilt(file) is None]
    if not files or compiler() is None:
        return
    modules = {file: _of_module(file) for file in files if file in MODULES}
    libraries = {source: (source, flags()) for source in map(source_of, {*files} - {*modules})}
    try:
        folder = cache_folder()
    except OSError:
        return
    made = modules | libraries
    missing = {name: given for name, given in made.items() if not _place(*given, folder).exists()}
    if missing:
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(len(missing))
        _begun.update({name: pool.submit(_build, *given) for name, given in missing.items()})
        pool.shutdown(wait=False)


def fixed_library(file: str) -> ctypes.CDLL:
    """The functions of a C file that is the same for every program.

    Built with the package, else compiled before or now; `CompilerError` where that cannot be done.
    """
    built = _prebuilt(file)
    if built is not None:
        try:
            return _load(built)
        except CompilerError as error:
            not_prebuilt[_c_file(file)] = str(error)
    return library(source_of(file))


def library_meanwhile(source: str, file: str) -> ctypes.CDLL | None:
    """What was built of a source with the package, while a compiler makes the one for this machine.

    Also where there is no compiler; None once it is made, and where nothing was built.
    """
    if source in _loaded or is_compiled(source):
        return None
    if not is_compiling(source):
        if is_built(source) or built_library(file) is None:
            return None
        begin(source)
    return built_library(file)


@cache
def built_library(file: str) -> ctypes.CDLL | None:
    """What was built of a C file with the package; None where that cannot be used."""
    built = _prebuilt(file)
    try:
        return None if built is None else _load(built)
    except CompilerError as error:
        not_prebuilt[_c_file(file)] = str(error)
        return None


def _prebuilt(file: str) -> Path | None:
    """The file built of a C file with the package; None, with a reason, where it cannot be used.

    Not under checks, which must be compiled in.
    """
    if sanitizers():
        return None
    try:
        return find_built(file)
    except NotBuiltError as error:
        not_prebuilt[_c_file(file)] = str(error)
        return None


@cache
def _of_module(file: str) -> tuple[str, tuple[str, ...]]:
    """The source of an extension module, and the flags to compile it with."""
    folders = (sysconfig.get_path("include"), np.get_include())
    given = (*flags(), *(f"-I{folder}" for folder in folders))
    return f"// {sys.version} {np.__version__}\n{source_of(file)}", given


def extension(file: str) -> Any:
    """The extension module of a C file: built with the package, else compiled before or now.

    None without a compiler or the headers of Python and NumPy; `not_compiled` says why.
    """
    built = _prebuilt(file)
    if built is not None:
        try:
            return _loaded_module(file, built)
        except (ImportError, RuntimeError) as error:  # as NumPy refuses what is for another NumPy
            not_prebuilt[_c_file(file)] = str(error)
    begun = _begun.pop(file, None)
    try:
        built = _build(*_of_module(file)) if begun is None else begun.result()
        return _loaded_module(file, built)
    except (CompilerError, ImportError) as error:
        not_compiled[_c_file(file)] = str(error)
        return None


def _c_file(file: str) -> str:
    """The name of a C file, which no other has."""
    return f"{file.rpartition('/')[2]}.c"


def _loaded_module(file: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name_of(file), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _build(source: str, flags: tuple[str, ...]) -> Path:
    """The library of a source, from the folder or from the compiler."""
    cc = compiler()
    if cc is None:
        raise CompilerError(NO_COMPILER)
    try:
        path = _place(source, flags, cache_folder())
        if not path.exists():
            _compile(source, (cc, *flags), path)
    except OSError as error:
        raise CompilerError(f"nothing can be compiled: {error}") from error
    return path


def _compile(source: str, command: tuple[str, ...], path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        (Path(work) / "kernel.c").write_text(source)
        files = ("-shared", "-fPIC", "-o", "kernel.so", "kernel.c", "-lm")
        code, said = _run_compiler([*command, *files], work)
        if code and sanitizers():
            raise RuntimeError(f"{command[0]} failed: {said[-2000:]}{source}")
        if code:
            raise CompilerError(f"{command[0]} failed: {said[-2000:]}")
        os.replace(Path(work) / "kernel.so", path)


def _run_compiler(command: list[str], folder: str) -> tuple[int, str]:
    """Run a compiler: how it ended, and what it said."""
    cc = command[0]
    if cc in _hung:
        raise CompilerError(f"{cc} did not end before")
    environment = dict(os.environ)
    if sanitizers():  # of ours, not of the compiler
        environment.pop("LD_PRELOAD", None)
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as running:
        try:
            said = running.communicate(timeout=LIMIT_S)[1]
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # also what it started
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            _hung.add(cc)
            raise CompilerError(f"{cc} has not ended after {LIMIT_S:.0f} s") from None
    return running.returncode, said


def _place(source: str, flags: tuple[str, ...], folder: Path) -> Path:
    """The path of a source's library."""
    text = "\n".join((source, compiler() or "", *flags, _machine()))
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.so"


@cache
def _machine() -> str:
    """The facts that -march=native depends on: a shared home must not mix machines."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line for line in file if line.startswith(("flags", "Features", "model name"))]
        return "".join(sorted(set(lines)))
    except OSError:
        return os.uname().machine
