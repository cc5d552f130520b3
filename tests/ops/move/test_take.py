"""The chapter of index arrays and masks: every case in pieces, on both kinds of kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fake_gpu import fake_gpu
from tests.ops.programs import Cut, check_cases, ops_of

import infinitensor as it
from infinitensor.dtypes import ALL

STEPS = [1, 2, 7, 1000]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ops_of("take") + ops_of("scatter"))
def test_pieces_give_the_value_of_the_whole(name: str, kind: str, step: int) -> None:
    for block in (2, 1024):
        check_cases(name, step, block, kind)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_is_read_and_written(dtype: Any, kind: str) -> None:
    x = np.arange(12).reshape(4, 3).astype(dtype)
    i, v = np.array([3, 0, 3]), np.ones((3, 3), dtype)
    mask = np.array([True, False, True, True])
    xp = Cut(2, 2, kind)
    written = x.copy()
    written[i] = v
    added = x.copy()
    np.add.at(added, i, v)
    for got, wanted in (
        (xp.take(x, i, 0), x[i]),
        (xp.take(x.T, i, 1), x.T[:, i]),
        (xp._masked(x, mask), x[mask]),
        (xp.take_along_axis(x, np.array([[2, 0]] * 4), 1), x[:, [2, 0]]),
        (xp._scatter(x, [i], v, (0,), 0, "set"), written),
        (xp.scatter_add(x, i, v), added),
    ):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("step", STEPS)
def test_of_equal_indices_the_last_one_wins(kind: str, step: int) -> None:
    i = np.array([2, 0, 2, 2, 0])
    got = Cut(step, 4, kind)._scatter(np.zeros(4), [i], np.arange(5.0), (0,), 0, "set")
    np.testing.assert_array_equal(got, [4, 0, 3, 0])


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("index", [[0, 5], [-6], [-1, 7]])
def test_an_index_out_of_range_raises_numpys_text_when_run(kind: str, index: list[int]) -> None:
    x, i = np.zeros((2, 5)), np.array(index)
    with pytest.raises(IndexError) as wanted:
        x[:, i]
    text = str(wanted.value)
    with pytest.raises(IndexError, match=text):
        Cut(3, 4, kind).take(x, i, 1)
    with pytest.raises(IndexError, match=text):
        Cut(3, 4, kind)._scatter(x, [i], np.zeros((2, len(i))), (1,), 1, "set")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.booleans(), max_size=40),
    st.integers(0, 3),
    st.sampled_from(STEPS),
    st.sampled_from([1, 2, 8, 64]),
)
def test_masks_of_any_pattern_select_and_find(bits: Any, width: int, step: int, block: int) -> None:
    mask = np.array(bits, bool)
    x = np.arange(len(bits) * width).reshape(len(bits), width)
    xp = Cut(step, block)
    np.testing.assert_array_equal(xp._masked(x, mask), x[mask])
    np.testing.assert_array_equal(xp.flatnonzero(mask), np.flatnonzero(mask))
    both = x % 3 == 0
    np.testing.assert_array_equal(xp._masked(x, both), x[both])
    for got, wanted in zip(xp.nonzero(both), both.nonzero(), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 3, 2)])
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_put_writes_flat_indices_in_place(shape: Any, mode: Any) -> None:
    x = np.arange(12.0).reshape(shape)
    wanted = x.copy()
    index = np.array([0, -1, 7] if mode == "raise" else [-30, -1, 40, 5])
    np.put(wanted, index, [8.0, 9.0], mode)
    Cut().run("put", (x, index, np.array([8.0, 9.0]), mode), {})
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("index", [12, -13])
def test_put_out_of_range_raises(index: int) -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        Cut().run("put", (np.zeros((3, 4)), np.array([index]), np.array([1.0])), {})


@pytest.mark.parametrize(
    ("name", "args", "error", "text"),
    [
        ("take", (np.ones(3), np.ones(2)), TypeError, "according to the rule 'safe'"),
        ("take", (np.ones(0), np.zeros(1, int)), IndexError, "non-empty take"),
        ("take", (np.ones(3), np.zeros(1, int), 1), np.exceptions.AxisError, "axis 1"),
        ("_masked", (np.ones(3), np.ones(2, bool)), IndexError, "size of axis is 3 but size"),
        ("_masked", (np.ones(3), np.ones((3, 1), bool)), IndexError, "too many indices"),
        (
            "take_along_axis",
            (np.ones((3, 4)), np.zeros((2, 4), int), 1),
            IndexError,
            "could not be broadcast together",
        ),
        (
            "scatter_add",
            (np.ones(3, int), np.zeros(1, int), np.array(1.5)),
            TypeError,
            "casting rule 'same_kind'",
        ),
        ("nonzero", (np.array(1),), ValueError, "0d arrays"),
        ("take_along_axis", (np.ones((2, 2)), np.zeros(2, int), 0), ValueError, "same number"),
        (
            "_scatter",
            (np.ones(3), [np.zeros(2, int)], np.ones(3), (0,), 0, "set"),
            ValueError,
            "could not be broadcast to indexing result",
        ),
    ],
)
def test_bad_arguments_raise_at_the_call(name: str, args: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        Cut().run(name, args, {})


def test_take_modes_are_checked() -> None:
    with pytest.raises(ValueError, match="clipmode must be one of"):
        Cut().run("take", (np.ones(3), np.array([1])), {"mode": "no"})


def test_entries_are_dealt_where_they_are_many() -> None:
    for n, dealt in ((40, True), (3, False)):
        xp = Cut()
        xp.scatter_add(np.zeros(40), np.arange(n), np.ones(n))
        assert ("_deal" in xp.called) == dealt


def test_a_write_by_index_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it.config, "small_elements", 0)
    x = it.asarray(np.zeros(40))
    it.compute(x)
    x[it.asarray([3, 1, 3])] = it.asarray([1.0, 2.0, 4.0])
    assert "_copy" not in x.explain()
    assert x[:4].tolist() == [0, 2, 0, 4]


@pytest.mark.parametrize("dtype", ["float64", "int32", "complex64", "bool"])
def test_writes_by_several_index_arrays_are_numpys(dtype: str) -> None:
    rng = np.random.default_rng(4)
    values = (rng.random((500, 300, 2)) * 9).astype(dtype)
    x = it.asarray(values)
    rows, columns = rng.integers(-500, 500, (40, 50)), rng.integers(-300, 300, (40, 50))
    single = (rng.random((40, 50, 2)) * 9).astype(dtype)
    order = np.argsort(values[:, :, 0].real, axis=0)
    ranks, ours = np.zeros((500, 300), np.int64), it.zeros((500, 300), dtype=np.int64)
    for target, xp in ((values, np), (x, it)):
        target[xp.asarray(rows), xp.asarray(columns)] = xp.asarray(single)
        target[xp.asarray(rows), xp.asarray(columns), 1] = xp.asarray(single[..., 0])
        target[xp.asarray(rows[:, :1]), xp.asarray(columns[:1])] = xp.asarray(single[:, :1])
    np.put_along_axis(ranks, order, np.arange(500)[:, None], axis=0)
    it.put_along_axis(ours, it.asarray(order), it.arange(500)[:, None], axis=0)
    assert np.array_equal(x.numpy(), values)
    assert np.array_equal(ours.numpy(), ranks)
    if dtype != "bool":
        np.add.at(values, (rows, columns), single)
        it.add.at(x, (it.asarray(rows), it.asarray(columns)), it.asarray(single))
        np.testing.assert_array_equal(x.numpy(), values)


def test_a_second_index_out_of_bounds_names_its_axis_and_writes_nothing() -> None:
    x = it.zeros((500, 300))
    rows, columns = np.arange(200), np.arange(200)
    columns[-1] = 300
    x[it.asarray(rows) + 0, it.asarray(columns) + 0] = 1.0
    with pytest.raises(IndexError, match="index 300 is out of bounds for axis 1 with size 300"):
        x.numpy()


@pytest.mark.gpu
def test_an_index_outside_is_found_where_nobody_waits_for_the_check() -> None:
    """The program is repeated; its check is looked at when the device is done."""
    import torch

    x, index = torch.arange(50_000.0, device="cuda"), torch.arange(20_000, device="cuda")
    with it.init("cuda:0"):
        ours, places = it.asarray(x), it.asarray(index)
        for k in range(8):
            places[5] = -k - 1
            expected = x.clone()[index]
            expected[5] = x[-k - 1]
            np.testing.assert_array_equal(it.compute(ours[places]).numpy(), expected.cpu().numpy())
        for wrong in (50_000, -50_001):
            places[7] = wrong
            found = ours[places]
            with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0"):
                it.compute(found)
        places[7] = 7
        it.compute(ours[places])


@pytest.mark.parametrize("dtype", ALL)
def test_reads_on_a_gpu_are_numpys(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any axes, in any order of the index, along an axis that is broadcast, and repeated."""
    pytest.importorskip("torch")
    monkeypatch.setattr(it.config, "small_elements", 0)
    x = np.arange(4 * 5 * 6).reshape(4, 5, 6).astype(dtype)
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 4, (7, 2)), rng.integers(-6, 6, (7, 2))
    every: Any = slice(None)
    with fake_gpu(), it.init("cuda:0", memory="64MiB"):
        base, first, last = it.compute(it.asarray(x), it.asarray(a), it.asarray(b))
        along = it.compute(it.asarray(b[:1, :1, None] % 5))
        for _ in range(3):
            for mine, theirs in (
                (base[first], x[a]),
                (base[:, :, last], x[:, :, b]),
                (base[first, :, last], x[a, :, b]),
                (base.transpose(2, 0, 1)[last, first], x.transpose(2, 0, 1)[b, a]),
                (base[every, first], x[every, a]),
                (it.take_along_axis(base, along, 1), np.take_along_axis(x, b[:1, :1, None] % 5, 1)),
            ):
                np.testing.assert_array_equal(it.compute(mine).numpy(), theirs)
