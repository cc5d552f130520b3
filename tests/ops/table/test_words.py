"""Each word means the same in NumPy and in torch, for every dtype and the values that bite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ops.table_xp import WHOLE, TableXp

import infinitensor as it
from infinitensor.dtypes import NUMPYS
from infinitensor.ops import TABLE
from infinitensor.ops.table.words import EAGER, WORDS

if TYPE_CHECKING:
    from infinitensor.ir.op import Op

TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "complex64": 1e-4}
ELEMENTWISE = sorted(
    name for name, op in TABLE.items() if op.kind == "elementwise" and not name.startswith("_")
)
# torch and NumPy disagree on complex numbers with infinite parts here, and on the cast of inf; in
# expm1 we follow the Array API standard, which NumPy does not.
FINITE_ONLY = {"power", "pow", "float_power", "log2", "cosh", "sinh", "expm1"}


def biting(dtype: np.dtype[Any], finite: bool) -> Any:
    """Zeros, borders, signs, halves, infinities, NaN."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = [0, 1, 2, 3, 7, 8, 13, 63, info.max, info.min, info.max - 1, info.min + 1]
        return np.array([*values, *((-3, -1) if dtype.kind == "i" else (9, 64))], dtype)
    real = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 1e-3, 7.0, -7.0, 100.0, 0.3]
    real += [] if finite else [np.inf, -np.inf, np.nan]
    if dtype.kind == "f":
        return np.array(real, dtype)
    numbers = [complex(x, 0) for x in real] + [1 + 2j, 1 - 2j, 2 + 1j, -1 + 0.5j]
    numbers += [] if finite else [complex(np.nan, 1), complex(1, np.nan), complex(0, np.inf)]
    return np.array(numbers, dtype)


def operands(op: Op, dtypes: tuple[np.dtype[Any], ...]) -> tuple[Any, ...]:
    finite = op.name in FINITE_ONLY and any(d.kind == "c" for d in dtypes)
    if len(dtypes) == 1:
        x = biting(dtypes[0], finite)
        return (x[x != 0] if op.name == "reciprocal" and x.dtype.kind in "iub" else x,)
    grid = np.meshgrid(*(biting(d, finite) for d in dtypes))
    x, y = (np.ascontiguousarray(g.ravel()) for g in grid)
    if finite:
        small = (np.abs(x.astype(complex)) < 10) & (np.abs(y.astype(complex)) < 10)
        return x[small & (x != 0)], y[small & (x != 0)]
    if op.name in ("power", "pow") and all(d.kind in "iub" for d in dtypes):
        return x[y >= 0], y[y >= 0]
    return x, y


def outcome(function: Any, *args: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return function(*args)
    except TypeError:
        return TypeError


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_elementwise_op_is_numpys_for_every_dtype(name: str, device: str) -> None:
    op = TABLE[name]
    n = len(op.arrays)
    for dtypes in [(a,) for a in NUMPYS] if n == 1 else [(a, b) for a in NUMPYS for b in NUMPYS]:
        args = operands(op, dtypes)
        want = outcome(op.oracle or getattr(np, name), *args)
        got = outcome(lambda *xs: TableXp(WHOLE, device).call(name, *xs), *args)
        if want is TypeError or got is TypeError:
            assert want is got, dtypes
            continue
        assert got.dtype == want.dtype, dtypes
        kind = "c" if any(np.dtype(dtype).kind == "c" for dtype in dtypes) else "f"
        is_function = any(WORDS[word].calls_block(kind) for word in op.expression.words())
        if device == "cpu" and is_function and want.dtype.kind in "fc":
            np.testing.assert_allclose(got, want, 4 * np.finfo(want.dtype).eps, err_msg=str(dtypes))
        elif device == "cpu" or want.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want, str(dtypes))
        else:
            tolerance = TOLERANCE.get(want.dtype.name, 1e-10)
            np.testing.assert_allclose(got, want, tolerance, tolerance, err_msg=str(dtypes))


def test_both_vocabularies_have_the_same_words() -> None:
    assert set(EAGER["cpu"]) == set(EAGER["cuda"])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_integers_to_negative_powers_raise(device: str) -> None:
    with pytest.raises(ValueError, match="negative integer powers"):
        TableXp(WHOLE, device).call("power", np.array([2, 3]), np.array([1, -1]))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (40_000,), (3, 20_000), (700, 30), (2, 3, 9)])
@pytest.mark.parametrize("dtype", ["f4", "i1", "f8", "c16", "?"])
def test_where_chooses_whatever_the_shapes_and_strides(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.integers(0, 9, shape).astype(dtype) for _ in range(2))
    mask = rng.integers(0, 2, shape) > 0
    number = np.dtype(dtype).type(1)
    for given in ((mask, x, y), (mask, x, number), (True, x, y), (mask.T, x.T, y.T)):
        wanted = np.where(*given)
        out = np.empty(wanted.shape[::-1], dtype).T
        assert EAGER["cpu"]["where"](*given, out=out) is out
        np.testing.assert_array_equal(out, wanted)


def test_where_may_write_over_its_branches() -> None:
    mask = np.array([True, False, True])
    for which in (0, 1):
        x, y = np.array([1.0, 2.0, 3.0]), np.array([7.0, 8.0, 9.0])
        want = np.where(mask, x, y)
        out = (x, y)[which]
        EAGER["cpu"]["where"](mask, x, y, out=out)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_expm1_has_limits_where_numpy_has_nan(device: str, dtype: Any) -> None:
    """C99's exp(x) - 1, as the Array API standard wants it."""
    inf, nan = np.inf, np.nan
    x = [complex(inf, 0), complex(-inf, inf), complex(inf, inf), complex(-inf, nan)]
    want = [complex(inf, 0), complex(-1, 0), complex(inf, nan), complex(-1, 0)]
    got = TableXp(WHOLE, device).call("expm1", np.array([*x, complex(nan, 0)], dtype))
    np.testing.assert_array_equal(got, np.array([*want, complex(nan, 0)], dtype))
    zero = TableXp(WHOLE, device).call("expm1", np.array([complex(-0.0, 0.0)], dtype))
    assert not np.signbit(zero.real)


def _spread(dtype: str, rng: np.random.Generator) -> Any:
    """Many values of all sizes, as a tensor on a GPU."""
    import torch

    n = 100_000
    values: Any
    if dtype.startswith("f") or dtype == "bfloat16":
        values = rng.standard_normal(n) * 10 ** rng.uniform(-6, 6, n)
        values[: n // 2] = rng.standard_normal(n // 2)
        values[:8] = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2]
    else:
        values = rng.integers(0, 100, n)
    return torch.from_numpy(values).to(getattr(torch, dtype)).cuda()


_BITS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "uint8"])
@pytest.mark.parametrize(
    "name", sorted(name for name, word in WORDS.items() if word.names and word.triton)
)
def test_generated_code_has_the_bits_of_torch_where_the_word_says_so(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a program would have other bits once its kernel is compiled."""
    import torch

    word = WORDS[name]
    if not word.as_torch:
        pytest.skip("it is said to differ")
    rng = np.random.default_rng(0)
    found = []
    with it.init("cuda:0"):
        given = [it.asarray(_spread(dtype, rng)) for _ in range(word.n_args)]
        if word.chooses:
            given[0] = it.compute(given[0] > 0)
        for how in ("never", "always"):
            monkeypatch.setattr(it.config, "compile", how)
            try:
                made = getattr(it, word.names[0])(
                    *[x | x if x.dtype == bool else x * 1 for x in given]
                )
            except TypeError:
                pytest.skip("not for this dtype")
            found.append(it.compute(made).torch().clone())
    steps, generated = (x.view(getattr(torch, _BITS[x.element_size()])) for x in found)
    is_nan = found[0] != found[0]
    assert bool(((steps == generated) | is_nan).all())
    assert bool((is_nan == (found[1] != found[1])).all())
