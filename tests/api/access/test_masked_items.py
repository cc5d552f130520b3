"""Values selected by a mask, changed and put back: no list of indices, and NumPy's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu

import infinitensor as it
from infinitensor.api.access import masked_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(params=["strict", "default"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    """In tiles of 7 on three devices; as set, with sizes that are not small."""
    before = (it.config.small_elements, it.config.tile_elements)
    try:
        strict = request.param == "strict"
        if strict:
            it.config.small_elements, it.config.tile_elements = 0, 7
        with it.init("cpu*3" if strict else "cpu"):
            yield request.param
    finally:
        it.config.small_elements, it.config.tile_elements = before


@pytest.fixture
def spreads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each value written by a mask was computed where it is."""
    found: list[bool] = []
    spread = masked_items.spread

    def noted(*args: Any) -> Any:
        found.append(spread(*args) is not None)
        return spread(*args)

    monkeypatch.setattr(masked_items, "spread", noted)
    return found


def arrays(mode: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    shape = (6, 7) if mode == "strict" else (300, 400)
    return rng.standard_normal(shape), rng.standard_normal(shape)


def both(program: Callable[..., Any], *given: np.ndarray) -> tuple[Any, Any]:
    """What a program leaves of its arguments and returns, NumPy's and ours."""
    plain = [a.copy() for a in given]
    tensors = [it.asarray(a) for a in given]
    theirs, ours = program(np, *plain), program(it, *tensors)
    return [*plain, theirs], [*(t.numpy() for t in tensors), ours.numpy()]


def same(program: Callable[..., Any], *given: np.ndarray) -> None:
    theirs, ours = both(program, *given)
    for a, b in zip(theirs, ours, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def of_one_mask(xp: Any, x: Any, y: Any) -> Any:
    mask = x > 0
    x[mask] = x[mask] ** 2 + y[mask]
    return mask


def of_the_same_mask_again(xp: Any, x: Any, y: Any) -> Any:
    x[abs(x) > 0.5] = 1.0 / x[abs(x) > 0.5] - y[abs(x) > 0.5]
    return x + 0


def in_place(xp: Any, x: Any, y: Any) -> Any:
    x[y > 0] *= 3
    x[y > 0] -= 1.5
    return x + 0


def of_part_of_them(xp: Any, x: Any, y: Any) -> Any:
    chosen = x[1:-1, ::-1]
    mask = y[1:-1] > 0
    chosen[mask] = xp.where(chosen[mask] > 1, 1.0, chosen[mask])
    return x + 0


def of_values_as_they_are(xp: Any, x: Any, y: Any) -> Any:
    mask = x < y
    x[mask] = y[mask]
    flipped = y[::-1]
    x[mask] = flipped[mask]
    return mask


def as_another_dtype(xp: Any, x: Any, y: Any) -> Any:
    counted = xp.zeros(x.shape, dtype=np.int32)
    mask = x > y
    counted[mask] = x[mask] * 10
    return counted


def with_a_mean(xp: Any, x: Any, y: Any) -> Any:
    mask = x > 0
    x[mask] = x[mask] * y.max()
    return x + 0


def of_rows(xp: Any, x: Any, y: Any) -> Any:
    mask = y[:, 0] > 0
    x[mask] = x[mask] * y[0] + x[mask][:, ::1]
    return mask


@pytest.mark.parametrize(
    "program",
    [of_one_mask, of_the_same_mask_again, in_place, of_part_of_them, of_values_as_they_are,
     as_another_dtype, with_a_mean, of_rows],
)  # fmt: skip
def test_what_was_selected_and_changed_is_computed_where_it_is(
    program: Callable[..., Any], mode: str, spreads: list[bool]
) -> None:
    same(program, *arrays(mode))
    assert spreads or (program is of_rows and mode == "default"), "rows are selected at once"
    assert all(spreads)


def sorted_first(xp: Any, x: Any, y: Any) -> Any:
    mask = x > 0
    x[mask] = xp.sort(x[mask])
    return x + 0


def the_other_way_round(xp: Any, x: Any, y: Any) -> Any:
    mask = x > 0
    x[mask] = x[mask][::-1]
    return x + 0


def with_a_list(xp: Any, x: Any, y: Any) -> Any:
    mask = x > 0
    n = int(mask.sum())
    x[mask] = x[mask] + xp.arange(n)
    return x + 0


def of_what_was_written_in_between(xp: Any, x: Any, y: Any) -> Any:
    chosen = x[x > 0] * 2
    x[0, 0] = -x[0, 0]
    x[1] = -x[1]
    n = int((x > 0).sum())
    x[x > 0] = xp.concatenate([chosen, chosen])[:n]
    return chosen


@pytest.mark.parametrize(
    "program", [sorted_first, the_other_way_round, with_a_list, of_what_was_written_in_between]
)
def test_other_values_are_dealt_out_as_before(
    program: Callable[..., Any], mode: str, spreads: list[bool]
) -> None:
    same(program, *arrays(mode))
    assert not any(spreads)


def test_a_mask_whose_operand_was_written_is_another_mask(mode: str, spreads: list[bool]) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        chosen = y[x > 0] * 2  # reads y, not x: x may be written where it is
        x[0] = -x[0]
        x[1] = -x[1]
        y[x > 0] = chosen
        return chosen

    x, y = arrays(mode)
    x[1] = -x[0]  # as many are positive as before
    same(program, x, y)
    assert spreads == [False]


def test_few_that_are_selected_are_gathered(mode: str, spreads: list[bool]) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        mask = x >= x.max() - 1e-3
        mask[0, :2] = True
        x[mask] = x[mask] * 2 + x[mask] * 3
        return mask

    x, y = (np.tile(a, (4, 1)) for a in arrays(mode))
    same(program, x, y)
    assert spreads == [False]


def test_integers_to_negative_powers_raise_only_where_they_are_selected(mode: str) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        mask = y >= 0
        x[mask] = x[mask] ** y[mask]
        return mask

    x, y = (np.round(a).astype(np.int64) for a in arrays(mode))
    same(program, x, y)


def test_none_selected_writes_nothing(mode: str) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        x[x > 100] = x[x > 100] * y[x > 100]
        return x + 0

    same(program, *arrays(mode))


def test_selections_of_nothing_and_by_one_truth_value_are_numpys(mode: str) -> None:
    a, b = arrays(mode)
    x, y = it.asarray(a), it.asarray(b)
    nothing = [x[:0][x[:0] > 0], x[x[0, 0] > 9], x[it.asarray(True)], x[x > 0], x[:0][x[:0] > 0]]
    wanted = [a[:0][a[:0] > 0], a[a[0, 0] > 9], a[np.asarray(True)], a[a > 0], a[:0][a[:0] > 0]]
    for ours, theirs in zip(nothing, wanted, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(ours.numpy(), theirs)
    np.testing.assert_array_equal((y[x > 0] * x[x > 0]).numpy(), b[a > 0] * a[a > 0])


def test_values_that_do_not_fit_raise_numpys_error(mode: str) -> None:
    x = it.asarray(arrays(mode)[0])
    with pytest.raises(ValueError, match="shape mismatch"):
        x[x > 0] = x[x > 0.5] * 2
    with pytest.raises(TypeError, match="0 or 1-dimensional input"):
        x[x > 0] = x * 2


def test_other_counts_need_no_other_plan() -> None:
    with it.init("cpu"):
        x, y = map(it.asarray, arrays("default"))
        for step in range(6):
            if step == 3:
                it.stats(reset=True)
            mask = x < 2 - 0.3 * step
            x[mask] = x[mask] ** 2 + y[mask]
        assert it.stats()["plan_misses"] == 0
        assert it.stats()["small_calls"] == 0


def test_one_mask_is_counted_once(mode: str) -> None:
    x, y = map(it.asarray, arrays(mode))
    it.stats(reset=True)
    mask = x > 0
    made = x[mask] * y[mask] + x[x > 0]
    x[mask] = made
    assert it.stats()["forced_evaluations"] == 1
    assert x.shape == mask.shape


ON_A_GPU = [of_one_mask, of_the_same_mask_again, in_place, of_part_of_them, of_values_as_they_are,
            as_another_dtype, with_a_mean]  # fmt: skip


@pytest.mark.parametrize("program", ON_A_GPU)
def test_what_a_gpu_has_packed_goes_back_to_where_it_is_from(
    program: Callable[..., Any], spreads: list[bool]
) -> None:
    with fake_gpu(), it.init("cuda:0"):
        same(program, *arrays("gpu"))
    assert spreads
    assert all(spreads)


def of_values_before_a_write(xp: Any, x: Any, y: Any) -> Any:
    mask = x > 0
    chosen = x[mask]
    x[...] = x * 2
    x[mask] = chosen + 1
    return mask


def of_another_mask_with_as_many(xp: Any, x: Any, y: Any) -> Any:
    x[x > 0] = x[x[::-1] > 0] + 1
    return x + 0


def of_a_part_of_what_was_selected(xp: Any, x: Any, y: Any) -> Any:
    chosen = x[x > 0]
    chosen[1:] = chosen[:-1] * 2
    x[x > 0] = chosen
    return chosen


@pytest.mark.parametrize(
    "program",
    [of_values_before_a_write, of_another_mask_with_as_many, of_a_part_of_what_was_selected],
)
def test_what_a_gpu_has_packed_is_put_in_place_where_it_is_something_else(
    program: Callable[..., Any], spreads: list[bool]
) -> None:
    with fake_gpu(), it.init("cuda:0"):
        same(program, *arrays("gpu"))
    assert not any(spreads)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 1.0])
@pytest.mark.parametrize("dtype", ["float64", "int16", "bool", "complex64", "uint32"])
def test_a_gpu_counts_and_fills_in_one_pass(dtype: str, share: float) -> None:
    rng = np.random.default_rng(11)
    a = (rng.standard_normal((300, 1000)) * 9).astype(dtype)
    where = rng.random(a.shape) < share
    with fake_gpu(), it.init("cuda:0"):
        x, mask = it.asarray(a), it.asarray(where)
        it.stats(reset=True)
        made = x[mask]
        assert it.stats()["evaluations"] == 1
        np.testing.assert_array_equal(made.numpy(), a[where], strict=True)
        np.testing.assert_array_equal((made + made).numpy(), (a + a)[where], strict=True)
        (places,) = it.nonzero(mask.reshape(-1))
        np.testing.assert_array_equal(places.numpy(), where.reshape(-1).nonzero()[0], strict=True)
        made[:2] = 1
        wanted = a[where]
        wanted[:2] = 1
        np.testing.assert_array_equal(made.numpy(), wanted, strict=True)
        np.testing.assert_array_equal(x.numpy(), a, strict=True)


def test_a_gpu_plans_masks_of_one_shape_once() -> None:
    rng = np.random.default_rng(12)
    with fake_gpu(), it.init("cuda:0"):
        for k in range(4):
            a = rng.standard_normal(100_000)
            x = it.asarray(a)
            it.stats(reset=True)
            made = x[x > k / 4]
            assert it.stats()["ways"].get("planned", 0) == (k == 0)
            np.testing.assert_array_equal(made.numpy(), a[a > k / 4])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", ["bool", "float64", "int16"])
def test_reductions_of_selected_rows_read_them_where_they_are(dtype: str, device: str) -> None:
    rng = np.random.default_rng(8)
    a = (rng.random((300, 3000)) * 2.2 - 0.4).astype(dtype)
    if dtype == "float64":
        a[7, 5] = a[90, 6] = np.nan
    for mask in (a[:, 3] > 0.7, np.arange(300) > 269, np.arange(300) % 90 > 1):
        with it.init(device):
            x = it.asarray(a)
            for name in ("any", "all", "max", "min"):
                for options in ({}, {"keepdims": True}):
                    made = getattr(x[it.asarray(mask)], name)(axis=0, **options)
                    # (on a GPU they are: its memory is not one that all tasks look into)
                    assert ("_mask_fold" in made.explain()) == (device == "cpu")
                    wanted = getattr(a[mask], name)(axis=0, **options)
                    np.testing.assert_array_equal(made.numpy(), wanted, strict=True)


@pytest.mark.parametrize("n", [2000, 5000])
@pytest.mark.parametrize("dtype", ["bool", "float32", "float64", "int16", "complex64"])
def test_rows_of_a_table_are_selected_at_once(n: int, dtype: str) -> None:
    """By a mask whose values are there: few of them are an array of NumPy's, more are stored."""
    a = (np.random.default_rng(n).random((n, 50)) * 3).astype(dtype)
    groups = np.arange(n) % 3
    with it.init("cpu"):
        x, labels = it.compute(it.asarray(a), it.asarray(groups))
        it.stats(reset=True)
        for mask in (groups == 1, groups > 5, groups < 5, groups != 2):
            found = x[it.asarray(mask)]
            np.testing.assert_array_equal(found.numpy(), a[mask], strict=True)
            back = it.asarray(a)
            back[it.asarray(mask)] = found + found
            wanted = a.copy()
            wanted[mask] = a[mask] + a[mask]
            np.testing.assert_array_equal(back.numpy(), wanted)
        found = x[labels == 1].mean(axis=0) if dtype == "float64" else x[labels == 1]
        assert found.shape[-1] == 50
        assert it.stats()["ways"]["read"] + it.stats()["ways"]["moved"] >= 5
        with pytest.raises(IndexError, match="boolean"):
            x[it.asarray(groups[:-1] == 1)]


def test_selected_rows_that_somebody_else_reads_are_stored() -> None:
    a = np.random.default_rng(9).random((300, 3000))
    with it.init("cpu"):
        x = it.asarray(a)
        rows = x[it.asarray(a[:, 0] > 0.5)]
        top = rows.max(axis=0)
        assert "_mask_fold" not in top.explain()
        np.testing.assert_array_equal(top.numpy(), a[a[:, 0] > 0.5].max(axis=0))
        np.testing.assert_array_equal(rows.numpy(), a[a[:, 0] > 0.5])
        # none selected, along rows, rounded sums: as they were
        none = x[it.asarray(a[:, 0] > 2)]
        assert not none.any(axis=0).numpy().any()
        with pytest.raises(ValueError, match="zero-size"):
            none.max(axis=0)
        few = x[it.asarray(a[:, 0] > 0.5)].max(axis=1)
        np.testing.assert_array_equal(few.numpy(), a[a[:, 0] > 0.5].max(axis=1))
        total = x[it.asarray(a[:, 0] > 0.5)].sum(axis=0)
        np.testing.assert_allclose(total.numpy(), a[a[:, 0] > 0.5].sum(axis=0))
