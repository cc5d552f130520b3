"""What the NumPy kernels of the moving chapters allocate, measured, is within what they declare."""

from __future__ import annotations

import importlib.util
import tracemalloc
from typing import Any

import numpy as np
import pytest
from tests.ops.table_xp import bind

from infinitensor import jit, native
from infinitensor.devices import find_tools
from infinitensor.ir.mesh import Target, Tools
from infinitensor.ir.op import At, Spec
from infinitensor.ir.region import box_shape, whole_box
from infinitensor.ops.backend import c_loops
from infinitensor.ops.table.numpy_kernels import lower, scratch_bytes
from infinitensor.ops.table.registry import TABLE

N = 60_000
SLACK = 20_000  # Python's own objects, and what NumPy keeps for iterating


def _large(rng: Any) -> dict[str, list[Any]]:
    x = rng.standard_normal((300, N // 300))
    line = x.reshape(-1)
    i = rng.integers(-N, N, N)
    mask = rng.random((300, N // 300)) < 0.9
    counts = tuple(int(mask[k : k + 100].sum()) for k in range(0, 300, 100))
    order = np.argsort(line[: N // 2])
    state = np.zeros((2, 2), np.int64)
    return {
        "_strided": [
            (x, (N // 300, 300), 0, (1, N // 300)),
            (x, (N // 2, 2), N - 1, (-2, -1)),
            (x.T, (N,), 0, (1,)),
            (x[:, ::-1], (298,), 0, (N // 300 + 1,)),
        ],
        "_copy": [(x.T,)],
        "_concatenate": [([x, x.astype("f4")], 1)],
        "_pad": [(x, 1.5, ((3, 4), (0, 9)))],
        "_tile": [(x, (2, 2))],
        "_repeat": [(x, 3, 1), (x.T, tuple(range(N // 300)), 0)],
        "_take": [
            (line, [i], (0,), 0),
            (x.T, [i[:500] % 200], (0,), 0),
            (x, [i % 300, i % 200], (0, 1), 0),
        ],
        "_take_along": [(x, i.reshape(300, -1) % 200, 1), (x.T, i.reshape(200, -1) % 200 - 100, 0)],
        "_mask_select": [(x, mask, counts, 100)],
        "_mask_fold": [
            (
                x,
                mask[:, 0],
                name,
                (("dtype", np.dtype(kind)),),
                Spec(x.shape[1:], np.dtype(kind)),
                n,
            )
            for n in (int(mask[:, 0].sum()),)
            for name, kind in (("any", bool), ("max", x.dtype))
        ],
        "_nonzero_fill": [(mask, counts, 100)],
        "_sort_axis": [(x, 0), (x, 1)],
        "_argsort_axis": [(x, 0), (x.astype("f4"), 1)],
        "_sort_runs": [(line, 0, 4096)],
        "_argsort_runs": [(line, 0, 4096)],
        "_merge_runs": [(np.sort(x, axis=1).reshape(-1), 0, N // 300)],
        "_merge_index_runs": [(line[: N // 2][order], order, 0, N // 2)],
        "_rotated_fft": [(x + 1j, "fft", N, "ortho"), (x.astype("c8"), "ifft", N, "forward")],
        "_unfolded": [((x + 1j)[:151], (x + 1j)[:151], 300, N // 2 + 1)],
        "_select_axis": [(x, (3, 40, N // 300 - 1)), (x.astype("c16"), (7,)), (x.T, (7,))],
        "_rank_digit": [(rng.integers(0, 9, (2, 1 << 13)), state, 0)],
        "_part_runs": [(line, line[:2], 4096), (line.astype("f2"), line[:1].astype("f2"), N)],
        "_join_parts": [(line, line[:2], 4096), (line.astype("f2"), line[:1].astype("f2"), N)],
        "_searchsorted": [(np.sort(line), x), (np.sort(line), x.astype("f4").T)],
        "_scan_axis": [(x, 0, "add", np.dtype("f8")), (x, 1, "multiply", np.dtype("c16"))],
        "_scan_lines": [
            (line, 0, 4096, 2),
            (line.astype("f4"), 0, 512, 1),
            (x, 1, 16, 1),
            (x, 0, 16, 1),
        ],
        "_scan_totals": [(line, 0, "add", np.dtype("f8"), 4096)],
        "_scan_from": [(line, line[:20], 0, "add", np.dtype("f8"), 4096)],
        "_reduceat": [
            (line, 0, "add", tuple(range(0, N, 50))),
            (x, 1, "maximum", (5, 90, 30)),
        ],
        "_deal": [(i, line, N, 10, 4096), (i, line.astype("c16"), N, 10, 4096)],
        "_scatter_dealt": [
            (line, (i % N).astype("u4"), line, 10, 4096, "set", line.dtype),
            (line, (i % N).astype("u4"), line.astype("f4"), 10, 4096, "add", line.dtype),
        ],
        "_scatter": [
            (line, [i], line, (0,), 0, "maximum", line.dtype),
            (line, [i], line, (0,), 0, "set"),
            (x, [i % 300], np.broadcast_to(1.0, (N, N // 300))[:300], (0,), 0, "add"),
        ],
    }


CASES = [
    pytest.param(name, k, id=f"{name}-{k}")
    for name, cases in _large(np.random.default_rng(0)).items()
    for k in range(len(cases))
]


@pytest.mark.parametrize(("name", "k"), CASES)
def test_measured_scratch_is_within_the_declared(name: str, k: int) -> None:
    args = _large(np.random.default_rng(0))[name][k]
    if name == "_scatter" and k == 2:
        args = (args[0], [args[1][0][:300]], *args[2:])
    op = TABLE[name]
    call, tensors = bind(op, args, {})
    outs = [np.empty(spec.shape, spec.dtype) for spec in call.outs]
    boxes: Any = tuple(whole_box(np.shape(t)) for t in tensors)
    if op.need is not None:
        specs = tuple(Spec(np.shape(t), np.asarray(t).dtype) for t in tensors)
        boxes = op.need(whole_box(call.outs[0].shape), specs, **dict(call.params))
    ins = [
        None if box is None else t[tuple(slice(*span) for span in box)] if box else t
        for t, box in zip(tensors, boxes, strict=True)
    ]
    tiles = tuple(
        Spec(box_shape(box or ()), np.asarray(t).dtype)
        for t, box in zip(tensors, boxes, strict=True)
    )
    at = At(tuple(whole_box(out.shape) for out in outs), boxes)
    if op.kind == "update":
        outs[0][...] = tensors[0]
        ins = ins[1:]
    run = lower(op, call, "cpu")
    run(ins, outs, at)  # caches and imports are not scratch
    tracemalloc.start()
    run(ins, outs, at)
    measured = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    here = Target("cpu", find_tools())
    assert measured <= scratch_bytes(op, call, tiles, call.outs, here) + SLACK


@pytest.mark.parametrize("tools", [Tools(), Tools(False, False, False)])
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_what_ops_declare_depends_on_the_mesh_and_not_on_this_machine(
    kind: str, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: Any) -> Any:
        raise AssertionError("scratch is declared by what is compiled here")

    monkeypatch.setattr(c_loops, "_function", asked)
    monkeypatch.setattr(native, "compiler", asked)
    monkeypatch.setattr(importlib.util, "find_spec", asked)
    jit.has_triton.cache_clear()
    for op in TABLE.values():
        for args, kwargs in op.cases(np.random.default_rng(0))[:3] if op.cases else ():
            if op.kind != "program":
                call, tensors = bind(op, args, kwargs)
                tiles = tuple(Spec(np.shape(t), np.asarray(t).dtype) for t in tensors)
                assert scratch_bytes(op, call, tiles, call.outs, Target(kind, tools)) >= 0
