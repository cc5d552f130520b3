"""Calls of many elements that run at once use NumPy's own loops on all cores."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest

import infinitensor as it
from infinitensor.api.eager import numpy_loops
from infinitensor.dtypes import bfloat16
from infinitensor.ops.table.functions import has_functions

in_c = pytest.mark.skipif(not hasattr(numpy_loops.into, "__self__"), reason="needs a C compiler")
N = 3 * numpy_loops.LEAST_SHARED_ELEMENTS


def values(rng: Any, dtype: Any, shape: Any = N) -> np.ndarray:
    made: np.ndarray = rng.integers(1, 100, shape).astype(dtype)
    if np.dtype(dtype).kind in "fc":
        made = (made / 64).astype(dtype)
    return made


@in_c
@pytest.mark.parametrize("dtype", ["?", "i1", "i4", "i8", "u8", "f4", "f8", "c8", "c16"])
def test_every_ufunc_has_numpys_bits(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = values(rng, dtype), values(rng, dtype)
    n_done = 0
    with np.errstate(all="ignore"):
        for ufunc in (np.add, np.subtract, np.multiply, np.divide, np.less, np.equal, np.maximum,
                      np.floor_divide, np.right_shift, np.bitwise_xor, np.exp, np.sqrt,
                      np.absolute, np.negative, np.logical_not, np.power):  # fmt: skip
            ins = (a, b)[: ufunc.nin]
            made = numpy_loops.compute(ufunc, *ins)
            if made is None:
                continue
            wanted = ufunc(*ins)
            np.testing.assert_array_equal(made, wanted, strict=True)
            out = np.empty_like(wanted)
            assert numpy_loops.into(ufunc, out, *ins)
            assert out.tobytes() == wanted.tobytes()
            n_done += 1
    assert n_done >= 4


@in_c
@pytest.mark.parametrize("dtype", ["i1", "i8", "f4", "f8", "c16"])
@pytest.mark.parametrize("width", [2, 7, 20, 256, 257])
def test_short_rows_have_numpys_bits(dtype: str, width: int) -> None:
    rng = np.random.default_rng(0)
    a = values(rng, dtype, (N // width, width))
    for b in (values(rng, dtype, (width,)), values(rng, dtype, (N // width, 1)), a[:, ::-1]):
        for ufunc in (np.add, np.multiply, np.equal):
            wanted, out = ufunc(a, b), np.empty_like(a, dtype=ufunc(a[:1], b[:1]).dtype)
            if numpy_loops.into(ufunc, out, a, b):
                assert out.tobytes() == wanted.tobytes()


HALF_UFUNCS = (
    np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.less, np.less_equal,
    np.greater, np.greater_equal, np.equal, np.not_equal, np.negative, np.absolute, np.square,
    np.sqrt, np.reciprocal, np.floor, np.ceil, np.trunc, np.rint, np.sign, np.isnan, np.isinf,
    np.isfinite,
)  # fmt: skip


def bits(x: np.ndarray) -> np.ndarray:
    """The bits of what is no NaN."""
    return x if x.dtype == bool else np.where(np.isnan(x.astype("f4")), 0x7FFF, x.view(np.uint16))


@in_c
@pytest.mark.skipif(not has_functions(), reason="halves are NumPy's here")
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), bfloat16])
@pytest.mark.parametrize("ufunc", HALF_UFUNCS)
def test_every_half_has_numpys_bits(ufunc: np.ufunc, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    odd = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 6e-8, 65504], "f4").astype(dtype)
    x = np.concatenate([np.repeat(odd, 9), every])
    y = np.concatenate([np.tile(odd, 9), rng.permutation(every)])
    with np.errstate(all="ignore"):
        for pair in ((x, y), (x[::-3], y[::3]), (x, y[5:6]), (x[:17], y[:17])):
            ins = pair[: ufunc.nin]
            wanted, made = ufunc(*ins), numpy_loops.compute(ufunc, *ins)
            assert made is not None
            assert made.dtype == wanted.dtype
            np.testing.assert_array_equal(bits(made), bits(wanted))


@in_c
def test_views_broadcasts_and_numbers_are_walked_as_numpy_does() -> None:
    rng = np.random.default_rng(1)
    x = rng.random((90, 70, 60))
    for a, b in (
        (x, x[0]),
        (x[:, :, ::2], x[:, :1, :30]),
        (x[::-1], 2.5),
        (x.transpose(2, 0, 1), np.float64(3)),
        (x[:, ::-2], x[:, ::2]),
        (x[:, None, :, 3], x[None, :, :, 5]),
        (x, 7),
    ):
        made = numpy_loops.compute(np.subtract, a, b)
        assert made is not None
        np.testing.assert_array_equal(made, a - b, strict=True)
        assert made.flags.c_contiguous
    out = np.zeros((60, 70, 90)).T
    assert numpy_loops.into(np.multiply, out, x, x)
    np.testing.assert_array_equal(out, x * x)


@in_c
def test_what_numpy_has_to_look_at_is_left_to_it() -> None:
    rng = np.random.default_rng(2)
    x = rng.random(N)
    n = rng.integers(0, 9, N)
    assert numpy_loops.compute(np.add, x, n) is None  # one is cast
    assert numpy_loops.compute(np.add, x.astype("f4"), 1e39) is None  # overflows
    assert numpy_loops.compute(np.power, n, n) is None  # may raise
    assert numpy_loops.compute(np.add, n.astype("i1"), 1000) is None  # does not fit
    assert numpy_loops.compute(np.add, x, x[:7]) is None  # does not broadcast
    assert numpy_loops.compute(np.matmul, x, x) is None
    assert not numpy_loops.into(np.add, x[1:], x[:-1], 1.0)  # overlaps
    assert not numpy_loops.into(np.add, np.empty(N, "f4"), x, x)
    assert not numpy_loops.into(np.add, np.broadcast_to(x, (2, N)), x, x)
    assert not numpy_loops.into(None, np.empty(N, "f4"), x)
    assert numpy_loops.into(np.add, x, x, x)  # the very same elements are none
    np.testing.assert_array_equal(x, np.random.default_rng(2).random(N) * 2)


@in_c
@pytest.mark.parametrize("dtype", ["?", "i2", "f4", "f8", "c16"])
def test_copies_go_between_any_strides(dtype: str) -> None:
    x = values(np.random.default_rng(3), dtype, (300, 200))
    out = np.zeros((300, 400), dtype)
    assert numpy_loops.into(None, out[:, ::2], x[::-1])
    np.testing.assert_array_equal(out[:, ::2], x[::-1])
    assert not out[:, 1::2].any()


@in_c
@pytest.mark.parametrize("dtype", ["?", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99, 1.0])
def test_masks_choose_as_numpys_do(dtype: str, share: float) -> None:
    rng = np.random.default_rng(7)
    for n in (1, 7, 4 * numpy_loops.LEAST_SHARED_ELEMENTS + 3):
        mask, x = rng.random(n) < share, values(rng, dtype, (n, 3))
        assert numpy_loops.count(mask) == np.count_nonzero(mask)
        for given in (x[:, 1].copy(), x, x[:, 1], x[::-1, 2]):
            out = np.full((int(mask.sum()), *given.shape[1:]), 0, dtype)
            assert numpy_loops.choose(mask, given, out)
            np.testing.assert_array_equal(out, given[mask])
        if n > 1:
            assert not numpy_loops.choose(
                mask, x[:, 1:], np.empty((mask.sum(), 2), dtype)
            )  # strides
        assert not numpy_loops.choose(mask, x, np.empty((n + 1, 3), dtype))
    assert numpy_loops.count(np.ones(9, "u1")) == -1
    assert numpy_loops.count(np.ones((8, 8), bool)[:, ::2]) == -1


@in_c
@pytest.mark.parametrize("dtype", ["?", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 1.0])
def test_masks_put_as_numpys_do(dtype: str, share: float) -> None:
    rng = np.random.default_rng(9)
    for n in (1, 7, 4 * numpy_loops.LEAST_SHARED_ELEMENTS + 3):
        mask, x = rng.random(n) < share, values(rng, dtype, (n, 3))
        count = int(mask.sum())
        for column in (np.s_[:, 1], np.s_[::-1, 2]):
            for value in (values(rng, dtype, count), np.asarray(values(rng, dtype, ()))):
                mine, wanted = x.copy(), x.copy()
                assert numpy_loops.put(mask, mine[column], value)
                wanted[column][mask] = value
                np.testing.assert_array_equal(mine, wanted)
        vector = x[:, 0].copy()
        assert numpy_loops.put(mask, vector, x[:, 0][mask])
        assert not numpy_loops.put(mask, vector, values(rng, dtype, count + 1))
        assert not numpy_loops.put(mask, vector, vector[: count or 1])  # overlaps
        assert not numpy_loops.put(mask, x, values(rng, dtype, count))  # rows
        assert not numpy_loops.put(mask, vector, np.ones((), "u1"))
        frozen = vector.copy()
        frozen.flags.writeable = False
        assert not numpy_loops.put(mask, frozen, np.asarray(values(rng, dtype, ())))
        np.testing.assert_array_equal(vector, x[:, 0])


@in_c
def test_threads_and_children_call_at_the_same_time() -> None:
    x = np.random.default_rng(4).random(N)
    wanted, wrong = np.sqrt(x), []

    def call() -> None:
        for _ in range(50):
            made = numpy_loops.compute(np.sqrt, x)
            if made is None or made.tobytes() != wanted.tobytes():
                wrong.append(made)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    child = os.fork()
    if not child:
        made = numpy_loops.compute(np.sqrt, x)
        os._exit(0 if made is not None and made.tobytes() == wanted.tobytes() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_medium_calls_of_tensors_are_numpys() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random((200, 200)), rng.random((200, 200)) + 1j
    with it.init("cpu"):
        x, y = it.asarray(a), it.asarray(b)
        np.testing.assert_array_equal((x * x - 0.5).numpy(), a * a - 0.5)
        np.testing.assert_array_equal((x < y.real).numpy(), a < b.real)
        np.testing.assert_array_equal(it.sqrt(x).numpy(), np.sqrt(a))
        np.testing.assert_array_equal((x * y).numpy(), a * b)
        x += x
        x[:, :100] = x[:, 100:]
        a += a
        a[:, :100] = a[:, 100:]
        y *= 2
        np.testing.assert_array_equal(x.numpy(), a)
        np.testing.assert_array_equal(y.numpy(), b * 2)
        assert it.stats()["tasks"] == 0


@pytest.mark.parametrize("n", [10, 300, 30_000])
def test_masks_over_small_tensors_select_as_numpys_do(n: int) -> None:
    rng = np.random.default_rng(8)
    a, where = rng.random((n, 2)), rng.random(n) < 0.4
    with it.init("cpu"):
        x, mask = it.asarray(a), it.asarray(where)
        for mine, wanted in (
            (x[mask], a[where]),
            (x[:, 1][mask], a[:, 1][where]),
            ((x[:, 0] * 2)[mask], (a[:, 0] * 2)[where]),
            (x[x > 0.5], a[a > 0.5]),
            (x[it.asarray(np.zeros(n, bool))], a[:0]),
            (x[it.asarray(a > 2)], a[a > 2]),
        ):
            np.testing.assert_array_equal(mine.numpy(), wanted, strict=True)
        with pytest.raises(IndexError, match="boolean index did not match"):
            x[it.asarray(np.ones(n + 1, bool))]


@pytest.mark.parametrize("n", [10, 300, 30_000])
def test_masks_write_into_columns_as_numpys_do(n: int) -> None:
    rng = np.random.default_rng(8)
    a, where = rng.random((n, 3)), rng.random(n) < 0.4
    rest = rng.random(int(where.sum()))
    with it.init("cpu"):
        x, mask, values = it.asarray(a), it.asarray(where), it.asarray(rest)
        np.testing.assert_array_equal(x[mask, 1].numpy(), a[where, 1], strict=True)
        for t, m, v in ((x, mask, values), (a, where, rest)):
            t[m, 1] = v
            t[m, -1] += 2 * v
            t[:, 0][m] = 0.25
            t[m] *= 2
        np.testing.assert_array_equal(x.numpy(), a)
        with pytest.raises(IndexError, match="out of bounds"):
            x[mask, 3] = 1.0
        with pytest.raises(ValueError, match="shape mismatch"):
            x[mask, 1] = values[:-1]
        np.testing.assert_array_equal(x.numpy(), a)


def test_calls_at_places_of_changing_shapes_are_numpys() -> None:
    def eliminate(np: Any, a: Any) -> Any:
        for k in range(12):
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :]) / 400
        return a

    a = np.random.default_rng(6).random((400, 400))
    with it.init("cpu"):
        for _ in range(3):
            mine = eliminate(it, it.asarray(a)).numpy()
        np.testing.assert_array_equal(mine, eliminate(np, a.copy()))


HALVES = (np.add, np.subtract, np.multiply, np.divide, np.less, np.less_equal, np.greater,
          np.greater_equal, np.equal, np.not_equal)  # fmt: skip


@in_c
@pytest.mark.parametrize("ufunc", HALVES, ids=lambda ufunc: ufunc.__name__)
def test_halves_have_numpys_bits(ufunc: np.ufunc) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    x, y = (np.random.default_rng(k).permutation(every).view(np.float16) for k in (1, 2))
    y[::7] = x[::7]
    pairs: list[tuple[Any, Any]] = [(x, y), (x[:2000], y[:2000]), (x, 0.3), (np.float16(-7), y)]
    pairs += [(x[::3], y[::3]), (x[::-1], y), (x.reshape(256, 256).T, y.reshape(256, 256))]
    pairs += [(x.reshape(256, 256), y[:256]), (x.reshape(256, 256), y[:256, None])]
    n_done = 0
    for a, b in pairs:
        made = numpy_loops.compute(ufunc, a, b)
        if made is None:
            continue
        n_done += 1
        with np.errstate(all="ignore"):
            wanted = ufunc(a, b)
            are_nan = np.isnan(made) & np.isnan(wanted)
        bits = f"u{wanted.itemsize}"
        is_same = made.view(bits) == np.ascontiguousarray(wanted).view(bits)
        assert (is_same | are_nan).all()
    assert n_done >= 7


@in_c
def test_small_calls_of_halves_are_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it.config, "small_elements", 65_536)
    values = (np.random.default_rng(0).normal(size=(40, 60)) * 50).astype(np.float16)
    x = it.asarray(values)
    found = [x * x, x + 1, 2.5 * x, x / 3, x > 0.5, x.T - x.T, x[:, ::2] * x[:, 1::2], -x]
    wanted = [values * values, values + 1, 2.5 * values, values / 3, values > 0.5]
    wanted += [values.T - values.T, values[:, ::2] * values[:, 1::2], -values]
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs, strict=True)
    changed, kept = x.copy(), values.copy()
    changed *= 1.5
    kept *= 1.5
    changed += x
    kept += values
    np.testing.assert_array_equal(changed.numpy(), kept, strict=True)


@in_c
@pytest.mark.skipif(not has_functions(), reason="integers are NumPy's here")
@pytest.mark.parametrize("ufunc", [np.remainder, np.floor_divide])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_that_one_number_divides_have_numpys_values(ufunc: np.ufunc, dtype: str) -> None:
    rng = np.random.default_rng(3)
    ends = np.iinfo(dtype)
    near = rng.integers(max(ends.min, -1000), min(ends.max, 1000), 2000)
    odd = np.array([ends.min, ends.min + 1, ends.max, ends.max - 1, 0, 1, ends.max // 2], dtype)
    divisors = {1, 2, 7, 100, 127, ends.max, ends.max - 1, ends.min, 0, -1, -2, -7, -128, 1 << 40}
    for x in (near.astype(dtype), np.concatenate([near.astype(dtype), np.tile(odd, 10)])):
        for y in (np.array([d], dtype) for d in divisors if ends.min <= d <= ends.max):
            for a in (x, x[::-2], x[:15], x[:17], x[:0]):
                with np.errstate(all="ignore"):
                    wanted = ufunc(a, y)
                    made = numpy_loops.compute(ufunc, a, y)
                if made is not None:
                    np.testing.assert_array_equal(made, wanted, strict=True)
            changed = x.copy()
            if numpy_loops.into(ufunc, changed, changed, y):
                with np.errstate(all="ignore"):
                    np.testing.assert_array_equal(changed, ufunc(x, y))


@in_c
@pytest.mark.skipif(not has_functions(), reason="signs are NumPy's here")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_signs_have_numpys_bits(dtype: str) -> None:
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -1e-40, 3.0]
    x = np.concatenate([odd, np.random.default_rng(4).standard_normal(1000)]).astype(dtype)
    for a in (x, x[::-2], x[:17]):
        made = numpy_loops.compute(np.sign, a)
        assert made is not None
        assert made.tobytes() == np.sign(a).tobytes()
    for a in (x[:1], x[:0]):
        np.testing.assert_array_equal(it.sign(it.asarray(a)).numpy(), np.sign(a))
