"""Forged files are refused in time and memory, and nothing in a file is ever run."""

from __future__ import annotations

import ast
import contextlib
import gc
import json
import os
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.reliability.sampling import WHOLE, logged_rng, time_limit

from infinitensor.storage import NpyFile, ZarrFile

zarr = pytest.importorskip("zarr")

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[2] / "src" / "infinitensor"
N_EXAMPLES = 8000 if os.environ.get("INFINITENSOR_TEST_ALL") == "1" else 400
"""About a minute of both tests together, or four seconds."""
MOST_BYTES = 16 << 20
MOST_S = 0.1 * 5  # the bar is 100 ms; machines are shared

# --- S1 ---------------------------------------------------------------------------------------

FORBIDDEN = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
CALLS = {"eval", "exec", "compile", "__import__", "literal_eval"}


def faults(source: str) -> list[str]:
    """Imports and calls that could run what a file says."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [n.name for n in names if n.name.partition(".")[0] in FORBIDDEN]
            case ast.ImportFrom(module=str(module)):
                found += [module] if module.partition(".")[0] in FORBIDDEN else []
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                found.append(name)
            case ast.Call(func=ast.Attribute(attr=name)) if name in {"literal_eval"}:
                found.append(name)
            case ast.keyword(arg="allow_pickle", value=value):
                if not (isinstance(value, ast.Constant) and value.value is False):
                    found.append("allow_pickle")
            case ast.keyword(arg="weights_only", value=ast.Constant(value=False)):
                found.append("weights_only")
    return found


def test_no_file_code_can_run_what_a_file_says() -> None:
    files = [*(SOURCE / "storage").rglob("*.py"), SOURCE / "api" / "convert" / "files.py"]
    assert len(files) > 8
    assert {str(file): faults(file.read_text()) for file in files} == {str(f): [] for f in files}


def test_such_code_is_seen() -> None:
    source = "import pickle\nfrom marshal import loads\neval('1')\nnp.load(f, allow_pickle=True)\n"
    source += "torch.load(f, weights_only=False)\nast.literal_eval(x)\n"
    wanted = ["pickle", "marshal", "eval", "allow_pickle", "weights_only", "literal_eval"]
    assert sorted(faults(source)) == sorted(wanted)


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {self.marker}",))


def test_pickled_objects_are_refused_and_never_run(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    values = np.empty(1, object)
    values[0] = Payload(marker)
    np.save(tmp_path / "x.npy", values, allow_pickle=True)
    with pytest.raises(ValueError, match="holds no object values"):
        NpyFile(tmp_path / "x.npy")
    (tmp_path / "y.npy").write_bytes(values.dumps())
    with pytest.raises(ValueError, match=r"no \.npy file"):
        NpyFile(tmp_path / "y.npy")
    assert not marker.exists()


# --- S2 ---------------------------------------------------------------------------------------


def npy(text: bytes, *, version: int = 1, n_text: int | None = None, n_values: int = 64) -> bytes:
    n_bytes = len(text) if n_text is None else n_text
    width = 2 if version == 1 else 4
    head = b"\x93NUMPY" + bytes([version, 0]) + (n_bytes).to_bytes(width, "little")
    return head + text + bytes(n_values)


def header(shape: str, descr: str = "'<f8'", order: str = "False") -> bytes:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()


FORGED = {
    "header of 4 GiB": npy(b"", version=2, n_text=2**32 - 1),
    "header longer than the file": npy(b"{", n_text=16_000),
    "header of a megabyte": npy(b" " * 2**20, version=2),
    "huge shape": npy(header("(1152921504606846976,)")),
    "product overflows": npy(header("(4294967296, 4294967296, 4294967296)")),
    "product overflows to zero": npy(header("(4611686018427387904, 4)", "'<f8'")),
    "empty and overflows": npy(header("(0, 4611686018427387904, 4611686018427387904)")),
    "negative": npy(header("(-8,)")),
    "number of many digits": npy(header(f"({'9' * 5000},)")),
    "many axes": npy(header(f"({'1, ' * 65})")),
    "many numbers": npy(header(f"({'1,' * 7000})")),
    "more than the file": npy(header("(9,)")),
    "no tuple": npy(header("(8)")),
    "hole in the tuple": npy(header("(2,,4)")),
    "list": npy(header("[8]")),
    "float": npy(header("(8.0,)")),
    "true": npy(header("(True,)")),
    "expression": npy(header("(2**3,)")),
    "call": npy(header("(__import__('os').system('true'),)")),
    "nested": npy(b"{'descr': " + b"(" * 15_000),
    "structured": npy(header("(2,)", "[('a', '<f4')]")),
    "objects": npy(header("(2,)", "'|O'")),
    "text": npy(header("(2,)", "'<U4'")),
    "times": npy(header("(2,)", "'<M8[s]'")),
    "long double": npy(header("(2,)", "'<f16'")),
    "unknown dtype": npy(header("(2,)", "'<q9'")),
    "dtype with a comma": npy(header("(2,)", "'f4,f4'")),
    "empty dtype": npy(header("(2,)", "''")),
    "order is a number": npy(header("(2,)", order="0")),
    "key twice": npy(b"{'shape': (2,), 'shape': (2,), 'fortran_order': False, 'descr': '<f8'}"),
    "key missing": npy(b"{'shape': (2,), 'descr': '<f8'}"),
    "key too many": npy(header("(2,)")[:-2] + b"'x': '', }"),
    "comma missing": npy(b"{'shape': (2,) 'fortran_order': False, 'descr': '<f8'}"),
    "more behind": npy(b"{'shape': (2,), 'fortran_order': False, 'descr': '<f8' junk}"),
    "not ascii": npy(header("(2,)", "'é'")),
    "version 4": npy(header("(2,)"), version=4),
    "no magic": b"NUMPY" * 20,
    "zip": b"PK\x03\x04" + bytes(100),
    "empty file": b"",
}


def refused(path: Path, kind: type[NpyFile | ZarrFile]) -> None:
    gc.freeze()  # what other tests left would be looked through, many lists later
    tracemalloc.start()
    began = time.perf_counter()
    with pytest.raises(ValueError, match=str(path)):
        kind(path)
    took_s = time.perf_counter() - began
    gc.unfreeze()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes <= MOST_BYTES
    assert took_s <= MOST_S


@pytest.mark.unaudited
@pytest.mark.parametrize("name", FORGED)
def test_forged_header_is_refused_at_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(FORGED[name])
    refused(path, NpyFile)


@pytest.mark.unaudited
@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 50_000,
        "[[],[],[],[],[],[],[],[],[],[]," * 8000,
        '"' + "x" * 260_000,
    ],
    ids=["lists", "dictionaries", "many lists", "long text"],
)
def test_forged_metadata_is_refused_at_once(tmp_path: Path, text: str) -> None:
    zarr.create_array(tmp_path / "warm.zarr", shape=(2,), dtype="f8")
    ZarrFile(tmp_path / "warm.zarr")  # the package is imported
    path = tmp_path / "x.zarr"
    path.mkdir()
    (path / "zarr.json").write_text(text)
    refused(path, ZarrFile)


# --- S6 ---------------------------------------------------------------------------------------

GOOD = npy(header("(2, 4)"))
TEXTS = st.text(
    st.sampled_from("{}()[]'\", :descrfotanhpTuF<>|=?V0123456789L\n-.\x00é"), max_size=80
)


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """A file with bytes changed, cut out or put in."""
    data = bytearray(good)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 8))] = draw(
            st.binary(max_size=8) | TEXTS.map(lambda text: text.encode())
        )
    return bytes(data)


def fuzzed(n_examples: int) -> settings:
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=n_examples, deadline=None, suppress_health_check=checks)


@fuzzed(N_EXAMPLES)
@given(data=damaged(GOOD) | TEXTS.map(lambda text: npy(text.encode())) | st.binary(max_size=300))
def test_any_bytes_are_an_array_or_a_value_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with only_value_errors(path):
        check_npy(path, data)


@contextlib.contextmanager
def only_value_errors(path: Path) -> Iterator[None]:
    """What is raised, if anything is, is a ValueError that names the file."""
    try:
        yield
    except ValueError as error:
        named = str(path) in str(error)
        if not named:
            raise


def check_npy(path: Path, data: bytes) -> None:
    file = NpyFile(path)
    assert file.n_bytes <= len(data)
    out = np.empty(file.shape, file.dtype)
    file.read(tuple((0, n) for n in file.shape), out)
    np.testing.assert_array_equal(out, reference(path, file).reshape(out.shape))


def reference(path: Path, file: NpyFile) -> np.ndarray[Any, Any]:
    """What NumPy reads, where it knows the dtype."""
    try:
        values: np.ndarray[Any, Any] = np.load(path).view(file.dtype)
    except (ValueError, EOFError, SyntaxError):  # it is stricter about padding
        out = np.empty(file.shape, file.dtype)
        file.read(tuple((0, n) for n in file.shape), out)
        return out
    return values


@time_limit(60)
def test_damaged_headers_for_a_minute_raise_value_errors_in_little_memory(tmp_path: Path) -> None:
    """The bar: 60 s of them (2 in a sample), resident memory grows by less than 256 MB."""
    rng = logged_rng("damaged headers")
    path, before, n_read, n_refused = tmp_path / "x.npy", peak_bytes(), 0, 0
    end = time.monotonic() + (60 if WHOLE else 2)
    while time.monotonic() < end:
        data = bytearray(GOOD)
        for at in rng.integers(0, len(data), int(rng.integers(0, 5))):
            data[at : at + int(rng.integers(0, 4))] = rng.bytes(int(rng.integers(0, 4)))
        path.write_bytes(data)
        n_refused += 1
        with only_value_errors(path):
            check_npy(path, bytes(data))
            n_read += 1
            n_refused -= 1
    print(f"{n_read} read, {n_refused} refused")
    assert n_read > 0
    assert n_refused > 0
    assert peak_bytes() - before < 256 << 20


def peak_bytes() -> int:
    """The resident peak of this process."""
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)


@fuzzed(N_EXAMPLES // 4)
@given(data=st.data(), version=st.sampled_from([2, 3]))
def test_any_metadata_is_an_array_or_a_value_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, version: Any
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "x.zarr"
    theirs = zarr.create_array(path, shape=(4,), chunks=(2,), dtype="f8", zarr_format=version)
    theirs[...] = 1
    name = path / ("zarr.json" if version == 3 else ".zarray")
    metadata = json.loads(name.read_text())
    keys = data.draw(st.lists(st.sampled_from(sorted(metadata)), min_size=1, max_size=2))
    for key in keys:
        metadata[key] = data.draw(JSON)
    name.write_text(json.dumps(metadata))
    with only_value_errors(path):
        file = ZarrFile(path)
        if file.n_bytes < 1 << 20:
            file.read(tuple((0, n) for n in file.shape), np.empty(file.shape, file.dtype))
