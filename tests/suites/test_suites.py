"""The runners of other projects' tests: what they count, what they stand in for, what they list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.suites import shims, stand_in
from tests.suites.__main__ import main, outcomes
from tests.suites.expected import LISTS, Expected, judge, of_suite, read
from tests.suites.places import SUITES

import infinitensor as it

if TYPE_CHECKING:
    from pathlib import Path

LISTED = """
# Out of scope:
# strings.
a.py::test_*[S3]
*: TypeError: infinitensor holds no *

# Never.
b.py::test_gone
"""


def test_a_failure_is_expected_by_its_id_or_by_its_error_and_passes_are_never() -> None:
    results = {
        "a.py::test_x[S3]": ("failed", "ValueError: no"),
        "a.py::test_x[f8]": ("failed", "ValueError: no"),
        "a.py::test_y[f8]": ("failed", "TypeError: infinitensor holds no <U3 values"),
        "a.py::test_z[S3]": ("passed", ""),
        "a.py::test_skipped": ("skipped", "out of scope: cupy.cuda"),
    }
    verdict = judge(results, read(LISTED))
    assert verdict.counts == {"expected": 2, "failed": 1, "passed": 1, "skipped": 1}
    assert verdict.failed == {"a.py::test_x[f8]": "ValueError: no"}
    assert verdict.reasons == {"Out of scope: strings.": 2}
    assert verdict.stale == ["b.py::test_gone"]
    assert verdict.percent == 50


def test_brackets_in_a_pattern_are_themselves() -> None:
    assert Expected("t[a*]", "").fits("t[ab]", "")
    assert not Expected("t[a*]", "").fits("ta", "")


def test_a_pattern_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no reason is given for a\.py"):
        read("a.py::test")


@pytest.mark.parametrize("suite", sorted(path.stem for path in LISTS.glob("*.txt")))
def test_every_list_is_of_a_suite_and_every_pattern_has_a_reason(suite: str) -> None:
    assert suite in SUITES
    assert all(each.reason.endswith(".") for each in of_suite(suite))


def test_a_test_that_was_begun_and_never_ended_has_died(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    lines = [["a", "begun", ""], ["a", "passed", ""], ["b", "begun", ""]]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert outcomes(file, "m.py", -11) == {
        "a": ("passed", ""),
        "b": ("failed", "died: exit status -11"),
    }
    assert outcomes(tmp_path / "none", "m.py", -9)["m.py::"] == ("failed", "died: exit status -9")


def test_a_suite_that_is_not_there_is_skipped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INFINITENSOR_SUITE_CUPY", raising=False)
    assert main(["cupy"]) == 0
    assert "cupy: skipped, set INFINITENSOR_SUITE_CUPY" in capsys.readouterr().out


def test_a_stand_in_has_our_names_lacks_what_numpy_has_and_skips_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = stand_in.StandIn("cupy", {"given": 1}, it, np)
    assert stand.given == 1
    assert stand.add is it.add
    assert stand.linalg.norm is it.linalg.norm
    with pytest.raises(AttributeError, match="NumPy has"):
        _ = stand.busday_count
    kernel = stand.RawKernel("code")  # harmless while modules are collected
    monkeypatch.setattr(stand_in, "running", True)
    with pytest.raises(pytest.skip.Exception, match=r"out of scope: cupy\.RawKernel"):
        kernel(1)


def test_a_checkout_s_modules_run_with_our_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tests" / "integration"
    folder.mkdir(parents=True)
    (folder / "test_some.py").write_text(
        "import cupynumeric as num\n"
        "from cupynumeric.runtime import runtime\n"
        "def test_ours(): assert type(num.ones(3)).__module__.startswith('infinitensor')\n"
        "def test_wrong(): assert type(num.ones(3)).__module__ == 'numpy'\n"
        "def test_not_numpys(): assert num.ones(3)[0] == runtime.num_gpus\n"
        "def test_theirs(): num.local_task_array(num.ones(3))\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("INFINITENSOR_SUITE_CUPYNUMERIC", str(tmp_path))
    monkeypatch.setenv("INFINITENSOR_SUITE_NICE", "0")
    assert main(["cupynumeric", "--failed"]) == 1
    out = capsys.readouterr().out
    assert "FAILED tests/integration/test_some.py::test_wrong" in out
    assert "1 expected: NumPy in the place of this library fails it too." in out
    assert out.splitlines()[-1].split()[:5] == ["cupynumeric", "1", "1", "1", "1"]


def test_a_module_of_numpys_tests_gets_our_functions_and_keeps_its_types() -> None:
    module = type(np)("test_module")
    vars(module).update(np=np, linspace=np.linspace, assert_equal=np.testing.assert_equal)
    shims.ours_for_numpys(module)
    shims.running(False)
    assert isinstance(module.np.arange(3), np.ndarray)  # parameters of tests are NumPy's
    shims.running(True)
    assert module.np.float32 is np.float32
    assert not shims.Namespace.touched
    module.assert_equal(module.np.arange(3), [0, 1, 2])
    assert shims.Namespace.touched
    assert isinstance(module.linspace(0, 1, 3), it.Tensor)
    shims.running(False)
