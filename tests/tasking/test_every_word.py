"""Every word, in each language and dtype that it has a text for, is what NumPy says."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.tasking.generated import ULPS
from tests.tasking.words import N, claimed, operands, steps_of

import infinitensor as it
from infinitensor import native
from infinitensor.ops.table.words import WORDS
from infinitensor.tasking.c.expressions import C_TYPES, Input
from infinitensor.tasking.c.numba_kernels import Jitted
from infinitensor.tasking.kernels.c_kernel import compiled_kernel
from infinitensor.tasking.triton.triton_division import Division
from infinitensor.tasking.triton.triton_launch import MapKernel
from infinitensor.tasking.triton.triton_source import TYPES, Group, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ops.table.words import Word

NUMBA_TYPES = ("bool", "int32", "float32", "float64")
"""Dtypes of the sample: each takes Numba seconds to compile all words for."""


def check(words: Sequence[Word], dtype: np.dtype[Any], outs: Sequence[Any], near: float) -> None:
    """Values against NumPy's; `near` units in the last place where a language has functions."""
    ins = operands(dtype)
    for word, out in zip(words, outs, strict=True):
        with np.errstate(all="ignore"):
            wanted = np.asarray(word.numpy(*ins[: word.n_args]))
        assert wanted.dtype == out.dtype, word.name
        if out.dtype.kind in "fc":  # of complex numbers a part may cancel: as good as the larger
            eps = float(np.finfo(out.dtype).eps)
            np.testing.assert_allclose(out, wanted, near * eps, 0, err_msg=word.name)
        else:
            np.testing.assert_array_equal(out, wanted, word.name)


def test_most_words_are_generated() -> None:
    single = np.dtype(np.float32)
    assert len(claimed("c", single)) > 50
    assert len(claimed("triton", single)) > 50
    assert len(claimed("numba", single)) > 50


@pytest.mark.skipif(native.compiler() is None, reason="no C compiler here")
@pytest.mark.parametrize("name", sorted(C_TYPES))
def test_in_c(name: str) -> None:
    dtype = np.dtype(name)
    words = claimed("c", dtype)
    assert words
    run = compiled_kernel(steps_of(words, dtype), (Input(dtype, False, False),) * 3, len(words))
    outs = [np.empty(N, word.result_dtype(dtype)) for word in words]
    run(operands(dtype), outs, (N,))
    for word, out in zip(words, outs, strict=True):
        is_exact = word.exact and not word.calls_block("f") and dtype.kind != "c"
        check([word], dtype, [out], 0 if is_exact else ULPS)


@pytest.mark.skipif(find_spec("numba") is None, reason="no Numba here")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in NUMBA_TYPES else pytest.mark.slow)
        for name in sorted(C_TYPES)
    ],
)
def test_in_numba(name: str) -> None:
    dtype = np.dtype(name)
    words = claimed("numba", dtype)
    assert words
    outs = [np.empty(N, word.result_dtype(dtype)) for word in words]
    run = Jitted(steps_of(words, dtype), (Input(dtype, False, False),) * 3, len(words))
    run(operands(dtype), outs, (N,))
    check(words, dtype, outs, ULPS)


@pytest.mark.parametrize("how", Division)
@pytest.mark.parametrize("name", sorted(TYPES))
def test_text_of_triton_is_python(name: str, how: Division) -> None:
    dtype = np.dtype(name)
    words = claimed("triton", dtype)
    assert words
    args = [(f"x{i}", dtype) for i in range(3)]
    for word, part in zip(words, steps_of(words, dtype), strict=True):
        writer = Writer(how)
        writer.step(part, args[: word.n_args])
        ast.parse("\n".join(writer.lines))


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(TYPES.keys() - {"bfloat16"}))  # compared with torch's bits
def test_in_triton(name: str) -> None:
    import torch

    dtype = np.dtype(name)
    words = claimed("triton", dtype)
    inputs = (Input(dtype, False, False),) * 3
    group = Group(steps_of(words, dtype), inputs, len(words))
    tiles = [torch.from_numpy(x).cuda() for x in operands(dtype)]
    made = [word.result_dtype(dtype).name for word in words]
    outs = [torch.empty(N, dtype=getattr(torch, each), device="cuda") for each in made]
    MapKernel(group)(tiles, outs, (N,))
    check(words, dtype, [out.cpu().numpy() for out in outs], ULPS)


@pytest.mark.parametrize("name", ["bool", "int32", "uint8", "float32", "complex64"])
def test_words_without_an_op_are_the_same_in_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ins = operands(np.dtype(name))
    for word in WORDS.values():
        if word.doc or word.name == "cast" or (word.name == "clip" and name == "complex64"):
            continue
        given = [torch.from_numpy(x.copy()) for x in ins[: word.n_args]]
        wanted = word.numpy(*ins[: word.n_args])
        np.testing.assert_array_equal(word.torch(*given).numpy(), wanted, word.name)


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_division_is_numpys_at_the_ends_and_where_doubles_end(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generated C divides integers of up to 52 bits as doubles."""
    monkeypatch.setattr(it.config, "compile", "always")
    info = np.iinfo(name)
    near = [0, 1, 2, 3, 7, 2**31, 2**52 - 1, 2**52, 2**52 + 1, 2**53, info.max - 1, info.max]
    ends = [v for v in {*near, *(-v for v in near), info.min} if info.min <= v <= info.max]
    rng = np.random.default_rng(0)
    some = rng.integers(info.min, info.max, (2, 5000), name, endpoint=True)
    x = np.concatenate([np.repeat(np.array(ends, name), len(ends)), some[0], some[0]])
    few = rng.integers(1, 100, 5000).astype(name)
    y = np.concatenate([np.tile(np.array(ends, name), len(ends)), some[1], few])
    calls: list[Callable[[Any, Any], Any]] = [lambda a, b: (a ^ b) // b, lambda a, b: (a ^ b) % b]
    with np.errstate(all="ignore"), it.init("cpu"):
        for call in calls:
            found = it.compute(call(it.asarray(x), it.asarray(y)))
            np.testing.assert_array_equal(found.numpy(), call(x, y))
