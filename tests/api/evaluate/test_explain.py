"""What a plan says of itself as plain data, and what a tensor says of its device."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.native import compiler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_plan_is_plain_data() -> None:
    with it.init("cpu*2"):
        x = it.asarray(np.ones((400, 1000)))
        found = json.loads(json.dumps(it.plan((x + 1).sum(0)).to_dict()))
    assert found["n_tasks"] > 0
    assert found["dependence"]["n_nodes"] == len(found["steps"])
    assert all("test_explain.py" in step["site"] for step in found["steps"])


def test_a_tensor_stays_on_the_devices_of_its_session() -> None:
    with it.init("cpu"):
        x = it.ones(3)
        assert x.to_device(x.device) is x
        with pytest.raises(ValueError, match="runs on 'cpu'"):
            x.to_device("cuda")


def test_a_plan_says_what_goes_between_tiers_and_what_stays(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((400, 50))
    np.save(tmp_path / "x.npy", values)
    with strict("cpu", 500, 60_000, "64MiB"):
        x = it.open(tmp_path / "x.npy")
        plan = it.plan((x - x.mean(axis=0)).std(axis=0))
        assert plan.evicted_bytes == 0
        assert plan.loaded_bytes >= values.nbytes
        assert plan.order
        assert ("cpu:0", "disk") not in plan.peak_bytes
        assert any("disk" in move for move in plan.moves)
        it.compute((x - x.mean(axis=0)).std(axis=0))
        assert 0.9 * plan.loaded_bytes < it.stats()["bytes_loaded"] <= plan.loaded_bytes
        plan = it.plan(x.mean(axis=0))
        ((tensor, n_bytes),) = plan.stays.items()
        assert tensor.startswith("open at ")
        assert "test_explain.py" in tensor
        assert 0 < n_bytes < 60_000
        assert "stays" in str(plan)
        it.compute(x.mean(axis=0))
        again = it.plan(x.mean(axis=0))
        assert again.stays[tensor] >= n_bytes
        assert again.loaded_bytes < plan.loaded_bytes
        assert json.loads(json.dumps(plan.to_dict()))["stays"] == plan.stays


def test_a_plan_says_the_peak_on_disk() -> None:
    with strict("cpu", 1024, 104_576, "64MiB", inline_elements=0):
        x = it.asarray(np.random.default_rng(0).normal(size=(64, 64)))
        y = it.tanh(x @ x.T)
        z = y @ x
        w = it.exp(z / 64 - y)
        asked = [w @ y, (w * z).sum(axis=0), w - y]
        plan = it.plan(*asked)
        assert plan.peak_bytes["cpu:0", "device"] <= 104_576
        assert 0 < plan.peak_bytes["cpu:0", "disk"] <= plan.evicted_bytes
        assert "evicted" in str(plan)
        assert plan.est_seconds > 0
        it.compute(*asked)
        assert it.stats()["bytes_evicted"] >= plan.evicted_bytes


def test_a_plan_says_what_runs_without_generated_code_and_what_in_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(it.config, "compile", "always")
    monkeypatch.setattr(it.config, "small_elements", 0)
    with it.init("cpu"):
        x = it.asarray(np.arange(1, 20))
        plan = it.plan(it.gcd(x, 6) * 2 + 1)
        (step,) = plan.eager
        assert "test_explain.py" in step
        assert f"no generated code: {step}" in str(plan)
        assert plan.to_dict()["eager"] == [step]
        assert it.plan(x * 2 + 1).eager == ()
        matrix = it.asarray(np.eye(3))
        assert "in one piece" in str(it.plan(it.linalg.eigvals(matrix + 0j)))
        assert "in one piece" not in str(it.plan(x * 2 + 1))


def test_a_plan_says_what_is_one_pass_over_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it.config, "compile", "always")
    monkeypatch.setattr(it.config, "small_elements", 0)
    if compiler() is None:
        pytest.skip("no C compiler here")
    with it.init("cpu"):
        x, c = it.asarray(np.ones((1000, 8))), it.asarray(np.ones((8, 4)))
        near = x @ c
        plan = it.plan(near.sum(0) * 2)
        assert [step["swept"] for step in plan.to_dict()["steps"]] == [True, True, False]
        assert str(plan).count("in one pass over rows") == 2
        assert "in one pass" not in str(it.plan(near))
        odd = it.gcd((x * 2).astype(int), 6)  # C has no kernel for it: each is a step of its own
        assert "in one pass" not in str(it.plan(odd @ c))


def test_long_plan_says_where_all_steps_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it.config, "small_elements", 0)
    tensors = [it.cumsum(it.ones(9) * k) for k in range(50)]
    planned = it.plan(*tensors)
    assert len(planned.steps) > 40
    assert f"{len(planned.steps) - 40} more steps: it.plan(...).steps has them all" in str(planned)


def test_names_for_users_are_all_that_is_listed_and_suggested() -> None:
    names = dir(it)
    assert {"sum", "linalg", "random", "cluster", "pi", "Tensor", "r_", "float32"} <= set(names)
    assert not {"analysis", "ir", "jit", "api", "runtime", "native", "ops"} & set(names)
    assert all(hasattr(it, name) for name in names)
    with pytest.raises(
        AttributeError, match="infinitensor has no 'argmin_'; the nearest are argmin"
    ):
        getattr(it, "argmin_")  # noqa: B009
    with pytest.raises(AttributeError, match=r"a Tensor has no 'computed'(?!.*_)"):
        getattr(it.ones(3), "computed")  # noqa: B009


def way_and_count(call: Callable[[], it.Tensor]) -> tuple[str, dict[str, int]]:
    """The way that a plan says, and the ways that the evaluation takes."""
    made = call()
    plan = it.plan(made)
    it.stats(reset=True)
    it.compute(made)
    return plan.way, {name: n for name, n in it.stats()["ways"].items() if n}


def test_a_plan_says_which_way_the_calls_will_run() -> None:
    with it.init("cpu"):
        x = it.asarray(np.ones(123_458))

        def program() -> it.Tensor:
            return it.exp(x) * 2.5

        assert way_and_count(program) == ("planned", {"planned": 1})
        assert way_and_count(program) == ("repeated", {"repeated": 1})
        plan = it.plan(program())
        assert "way: repeated: 2 calls run together by a plan that has run before" in str(plan)
        assert (plan.to_dict()["way"], plan.to_dict()["n_calls"]) == ("repeated", 2)
        assert it.plan(it.asarray([1.0]) + 1).way == ""


def test_a_plan_says_that_calls_run_without_one_where_shapes_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(it.config, "compile", "auto")
    monkeypatch.setattr("infinitensor.api.evaluate.evaluate.all_shapes_change", lambda nodes: True)
    with it.init("cpu"):
        x = it.asarray(np.ones(123_459))
        found = way_and_count(lambda: it.exp(x) * 2.5)
        assert found == ("unplanned", {"unplanned": 2})
        assert "2 calls run one after another without a plan" in str(it.plan(it.exp(x) * 3.5))
