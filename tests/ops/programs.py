"""Programs and their ops over NumPy arrays: `table_xp` with a block length and with updates."""

from __future__ import annotations

import inspect
from dataclasses import replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.ops.reference import legal_cuts
from tests.ops.table_xp import TORCH_DEVICE, TableXp, bind, run, spec_of

from infinitensor.api.functions.options import numpys
from infinitensor.dtypes import from_numpy, to_numpy
from infinitensor.ir.op import At
from infinitensor.ops.table.numpy_kernels import lower
from infinitensor.ops.table.registry import TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import Call, Op, Spec


def ops_of(chapter: str) -> list[str]:
    """Names of the ops that a chapter file enters."""
    found = [name for name, op in TABLE.items() if op.rule.__module__.endswith(f".{chapter}")]
    assert found, f"no op is entered by {chapter}.py"
    return found


def run_update(op: Op, call: Call, arrays: Sequence[Any], step: int, kind: str) -> Any:
    """An update of a copy of its first input, tile by tile."""
    assert op.need is not None
    result = np.array(arrays[0])
    specs = tuple(spec_of(a) for a in arrays)
    for box in product(*(tuple(pairwise(axis)) for axis in legal_cuts(op, call, step))):
        boxes = op.need(box, specs, **dict(call.params))
        where = tuple(slice(lo, hi) for lo, hi in box)
        ins = [_part(a, b, kind) for a, b in zip(arrays, boxes, strict=True)]
        out = _part(result, box, kind)
        lower(op, call, kind)(ins[1:], [out], At((box,), boxes))
        result[where] = out if kind == "cpu" else to_numpy(out.cpu())
    return result


def _part(array: Any, box: Any, kind: str) -> Any:
    if box is None:
        return None
    part = np.array(np.asarray(array)[tuple(slice(lo, hi) for lo, hi in box)])
    return from_numpy(part).to(TORCH_DEVICE) if kind == "cuda" else part


class Cut(TableXp):
    """The namespace that a program computes with: every op in pieces, axes in blocks of `block`."""

    def __init__(self, step: int = 3, block: int = 4, kind: str = "cpu") -> None:
        super().__init__(step, kind)
        self._block = block
        self.called: list[str] = []

    def is_one_piece(self, name: str, x: Spec) -> bool:
        return False

    def block(self, n: int) -> int:
        return self._block

    def n_hands(self, n_bytes: int) -> int:
        """Lines are walked tile by tile."""
        return 0

    def __getattr__(self, name: str) -> Any:
        if (dotted := name.replace("_", ".", 1)) in TABLE:
            name = dotted  # xp.linalg_qr is linalg.qr
        if name not in TABLE:
            return getattr(np, name)
        return lambda *args, **kwargs: self.run(name, args, kwargs)

    def run(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """An op or a program by its name in the table."""
        op = TABLE[name]
        self.called.append(name)
        if op.kind == "program":
            return op.rule(self, *args, **kwargs)
        call, arrays = bind(op, args, kwargs)
        if op.kind == "update":
            return run_update(op, call, arrays, self.step, self.device)
        if op.need is not None:
            arrays = [np.asarray(a) for a in arrays]
        outs = run(op, call, arrays, self.step, self.device)
        for out, spec in zip(outs, call.outs, strict=True):
            assert (out.shape, out.dtype) == (spec.shape, spec.dtype), name
        return outs[0] if len(outs) == 1 else outs


def tensors_in(
    op: Op, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as a program gets them: array parameters are arrays."""
    if op.kind != "program":
        return list(args), kwargs
    names = list(inspect.signature(op.rule).parameters)[1:]
    given = [np.asarray(a) if n in op.arrays else a for n, a in zip(names, args, strict=False)]
    more = {k: np.asarray(v) if k in op.arrays and v is not None else v for k, v in kwargs.items()}
    return given, more


def assert_same(op: Op, got: Any, wanted: Any) -> None:
    """Values, dtypes and structure of a result."""
    if op.compared is not None:
        got, wanted, op = op.compared(got), op.compared(wanted), replace(op, compared=None)
    if isinstance(wanted, tuple | list):
        assert isinstance(got, tuple | list)
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            assert_same(op, one, other)
        return
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if op.same == "equal":
        np.testing.assert_array_equal(got, wanted)
    else:
        single = wanted.dtype in (np.float32, np.complex64, np.float16)
        np.testing.assert_allclose(got, wanted, *((2e-4, 1e-4) if single else (1e-9, 1e-9)))


def check_cases(name: str, step: int, block: int = 4, kind: str = "cpu") -> None:
    """Every case of an op, run in pieces, gives what its oracle gives."""
    op = TABLE[name]
    assert op.cases is not None
    oracle = op.oracle or numpys(op.name)
    for args, kwargs in op.cases(np.random.default_rng(0)):
        with np.errstate(all="ignore"):
            given, more = tensors_in(op, args, kwargs)
            got = Cut(step, block, kind).run(name, given, more)
            assert_same(op, got, oracle(*args, **kwargs))
