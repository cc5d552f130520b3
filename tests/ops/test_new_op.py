"""An op added in one line in one file is a public, documented, partitioned and tested function."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import infinitensor

REPOSITORY = Path(__file__).resolve().parents[2]
LINE = (
    'elementwise("cube_root_sum", lambda e, x, y: e.cbrt(x + y), "The cube root of x + y.",'
    " dtype=np.hypot,"
    " oracle=lambda x, y: np.cbrt(np.add(x, y, dtype=np.hypot(x, y).dtype)))\n"
)


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package in which one chapter has one line more."""
    folder = tmp_path_factory.mktemp("changed")
    source = Path(infinitensor.__file__).parent
    shutil.copytree(source, folder / "infinitensor", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "infinitensor" / "ops" / "elementwise" / "elementwise.py").open("a") as chapter:
        chapter.write(LINE)
    return folder


def run(folder: Path, *arguments: str) -> str:
    """What Python prints with the copy in place of the package."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


USE = """
import inspect
import numpy as np
import infinitensor as it
from pathlib import Path

assert Path(it.__file__).parent.parent == Path({folder!r}), it.__file__
assert it.cube_root_sum.__doc__ == "The cube root of x + y."
assert str(inspect.signature(it.cube_root_sum)) == "(x, y)"
assert "cube_root_sum" in it.__all__

it.config.small_elements, it.config.tile_elements = 0, 7
with it.init("cpu*3"):
    x, y = np.arange(13.0).reshape(13, 1), np.arange(-5.0, 6.0)
    made = it.cube_root_sum(it.asarray(x), it.asarray(y))
    planned = it.plan(made)
    assert made.shape == (13, 11)
    np.testing.assert_allclose(made.numpy(), np.cbrt(x + y), rtol=1e-15)
    assert set(made.layout.owners) == {{0, 1, 2}}, made.layout
    assert made.layout.n_tiles >= 20, made.layout
    assert it.stats()["tasks"] >= 20
    assert it.cube_root_sum(it.asarray(np.float32([1, 7])), 1).dtype == np.float32
    total = it.cube_root_sum(it.asarray(x) * 2, it.asarray(y)).sum(0)
    np.testing.assert_allclose(total.numpy(), np.cbrt(x * 2 + y).sum(0))
    try:
        it.cube_root_sum(it.asarray([1j]), 2)
    except TypeError as error:
        assert "hypot" in str(error) or "cube_root_sum" in str(error), error
    else:
        raise AssertionError("complex numbers have no such root")
print("used")
"""


def test_one_line_makes_a_public_documented_partitioned_function(changed: Path) -> None:
    assert run(changed, "-c", USE.format(folder=str(changed))) == "used\n"


def test_the_table_driven_tests_pick_it_up(changed: Path) -> None:
    suite = "tests/ops/test_every_op.py"
    output = run(
        changed, "-m", "pytest", suite, "-k", "cube_root_sum", "-v", "-p", "no:cacheprovider"
    )
    for devices in ("cpu", "cpu*2", "cpu*3", "cpu*4"):
        case = f"test_in_tiles_and_on_devices_an_op_is_numpys[{devices}-cube_root_sum] PASSED"
        assert case in output, output
    assert "test_something_to_test_follows_from_every_line[cube_root_sum] PASSED" in output, output


def test_a_name_is_taken_once(changed: Path) -> None:
    chapter = "from infinitensor.ops.elementwise.elementwise import *"
    output = run(
        changed,
        "-c",
        f"import infinitensor; {chapter}; import numpy as np\n"
        "from infinitensor.ops.table.registry import elementwise\n"
        f"try:\n    {LINE.strip()}\nexcept ValueError as error:\n    print(error)",
    )
    assert "'cube_root_sum' is in the table already" in output


# --- a new word -------------------------------------------------------------------------------

ENTRY = """
def _sinc1(x, out=None):
    is_zero = np.equal(x, 0)
    made = np.where(is_zero, 1, np.sin(x) / np.where(is_zero, 1, x))
    return np.positive(made, out=out)


word(
    "sinc1",
    "sin(x) / x; 1 at 0.",
    ufunc=np.sin,
    numpy=_sinc1,
    c={"f": "({x} == 0 ? 1 : sin{f}({x}) / {x})"},
    triton={"f": "tl.where({x} == 0, 1.0, libdevice.sin({x}) / {x})"},
    numba="(np.sin({x}) / {x} if {x} != 0 else 1.0)",
    exact=False,
    entry={"same": "close"},
)

"""
USE_WORD = """
import numpy as np
import infinitensor as it
from infinitensor import native
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.triton.triton_source import Writer

assert it.sinc1.__doc__ == "sin(x) / x; 1 at 0."
it.config.small_elements, it.config.compile = 0, "always"
x = np.linspace(-4, 4, 101)
with it.init("cpu"):
    made = (it.sinc1(it.asarray(x)) * 2 + 1).numpy()
    np.testing.assert_allclose(made, 2 * np.sinc(x / np.pi) + 1, 1e-12)
    assert it.stats()["eager_fallbacks"] == 0 or native.compiler() is None
    assert it.sinc1(it.asarray(np.float32([0]))).dtype == np.float32
writer = Writer()
writer.term(Term("sinc1", (Arg(0),)), [("x0", np.dtype(np.float32))])
assert writer.lines == ["t0 = tl.where(x0 == 0, 1.0, libdevice.sin(x0) / x0)"]
print("used")
"""


def test_one_entry_makes_a_word_and_its_op_in_every_language(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("word")
    source = Path(infinitensor.__file__).parent
    shutil.copytree(source, folder / "infinitensor", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "infinitensor" / "ops" / "table" / "words.py"
    before, mark, after = file.read_text().partition("EAGER: dict")
    file.write_text(before + ENTRY + mark + after)
    assert run(folder, "-c", USE_WORD) == "used\n"
