"""What a plan says of itself as plain data, and what a tensor says of its device."""

from __future__ import annotations

import json

import numpy as np
import pytest

import infinitensor as it


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
