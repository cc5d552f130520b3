"""Generators: streams of their own, NumPy's names, orders and choices."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

import infinitensor as it
from infinitensor.api.functions.random import OLD


def numbers(rng: Any) -> list[float]:
    return [float(rng.random()), *rng.normal(size=3).tolist(), float(rng.gamma(2.0))]


def test_equal_seeds_and_calls_give_equal_numbers_in_any_session() -> None:
    wanted = numbers(it.random.default_rng(5))
    with it.init("cpu*3"):
        assert numbers(it.random.default_rng(5)) == wanted
    assert numbers(it.random.default_rng(6)) != wanted


def test_a_generator_and_the_session_do_not_disturb_each_other() -> None:
    it.random.seed(1)
    first = it.random.rand(3).tolist()
    it.random.seed(1)
    numbers(it.random.default_rng(5))
    assert it.random.rand(3).tolist() == first


def test_seeds_may_be_what_numpy_takes() -> None:
    for seed in (0, 2**80, [1, 2], np.array([3, 4]), np.random.SeedSequence(9), None):
        assert it.random.default_rng(seed).random(2).shape == (2,)
    wrapped = it.random.default_rng(np.random.PCG64(3))
    assert isinstance(wrapped, it.random.Generator)
    assert it.random.default_rng(wrapped) is wrapped
    assert numbers(it.random.default_rng([7])) != numbers(it.random.default_rng([7, 0, 1]))
    with pytest.raises(ValueError, match="non-negative"):
        it.random.default_rng(-1)
    with pytest.raises(TypeError, match="SeedSequence expects int"):
        it.random.default_rng(1.5)
    with pytest.raises(ValueError, match="Seed must be between 0 and"):
        it.random.RandomState(-1)


def test_children_are_unrelated_and_reproducible() -> None:
    one, other = it.random.default_rng(5).spawn(2)
    again, _ = it.random.default_rng(5).spawn(2)
    assert numbers(one) == numbers(again)
    assert numbers(other) != numbers(again)


def test_states_are_taken_and_set() -> None:
    rng = it.random.default_rng(5)
    state = rng.bit_generator.state
    wanted = numbers(rng)
    rng.bit_generator.state = state
    assert numbers(rng) == wanted
    old = it.random.RandomState(5)
    before = old.get_state()
    wanted = old.rand(3).tolist()
    old.set_state(before)
    assert old.rand(3).tolist() == wanted
    it.random.seed(3)
    here = it.random.get_state()
    wanted = it.random.rand(3).tolist()
    it.random.set_state(here)
    assert it.random.rand(3).tolist() == wanted


def test_copies_and_pickles_go_on_from_the_same_point() -> None:
    rng = it.random.default_rng(5)
    rng.random()
    others = [copy.deepcopy(rng), pickle.loads(pickle.dumps(rng))]
    wanted = numbers(rng)
    assert [numbers(other) for other in others] == [wanted, wanted]


def test_results_can_be_written_into_an_array() -> None:
    out = it.zeros((2, 3))
    assert it.random.default_rng(1).random(out=out) is out
    assert (out.numpy() > 0).all()
    with pytest.raises(ValueError, match=r"size must match out.shape"):
        it.random.default_rng(1).standard_normal(4, out=out)


def test_every_name_of_numpys_generator_is_there() -> None:
    theirs = {name for name in dir(np.random.Generator) if not name.startswith("_")}
    assert theirs - set(dir(it.random.Generator)) == {"bit_generator"}
    assert set(np.random.__all__) <= set(dir(it.random))
    assert set(OLD) <= set(dir(it.random.RandomState))


@pytest.mark.parametrize("name", ["gamma", "integers", "choice", "multinomial", "zipf", "normal"])
def test_parameters_have_numpys_names_and_order(name: str) -> None:
    text = getattr(np.random.Generator, name).__doc__.strip().split("\n")[0]
    theirs = [part.partition("=")[0].strip(" )") for part in text.partition("(")[2].split(",")]
    ours = list(inspect.signature(getattr(it.random.Generator, name)).parameters)[1:]
    assert ours[: len(theirs)] == theirs


# --- orders and choices -----------------------------------------------------------------------


def test_shuffling_is_in_place_and_keeps_everything() -> None:
    rng = it.random.default_rng(2)
    x, plain, items = it.arange(30).reshape(10, 3), np.arange(10), list(range(10))
    view = x[2:7]
    rng.shuffle(view)
    assert sorted(map(tuple, x.tolist())) == [tuple(r) for r in np.arange(30).reshape(10, 3)]
    assert x[:2].tolist() == [[0, 1, 2], [3, 4, 5]]
    rng.shuffle(plain)
    rng.shuffle(items)
    assert sorted(plain) == sorted(items) == list(range(10))
    with pytest.raises(TypeError, match="a tensor, an array or a list is shuffled"):
        rng.shuffle((1, 2))


def test_permuted_lines_have_orders_of_their_own() -> None:
    x = np.tile(np.arange(50), (4, 1))
    got = it.random.default_rng(2).permuted(it.asarray(x), axis=1).numpy()
    np.testing.assert_array_equal(np.sort(got, axis=1), x)
    assert len({tuple(line) for line in got}) == 4
    every = it.random.default_rng(2).permuted(x).numpy()
    assert Counter(every.ravel().tolist()) == Counter(x.ravel().tolist())


def test_choices_follow_their_probabilities() -> None:
    p = np.array([0.1, 0.0, 0.6, 0.3])
    x = it.random.default_rng(3).choice(4, 20_000, p=p).numpy()
    counts = np.bincount(x, minlength=4)
    assert counts[1] == 0
    assert stats.chisquare(counts[p > 0], p[p > 0] * len(x)).pvalue > 1e-3


def test_without_replacement_the_first_follows_and_none_comes_twice() -> None:
    p = np.array([0.5, 0.3, 0.2])
    rng = it.random.default_rng(4)
    drawn = np.array([rng.choice(3, 2, replace=False, p=p).numpy() for _ in range(600)])
    assert (drawn[:, 0] != drawn[:, 1]).all()
    pairs = Counter(map(tuple, drawn.tolist()))
    wanted = {(i, j): p[i] * p[j] / (1 - p[i]) for i in range(3) for j in range(3) if i != j}
    assert stats.chisquare([pairs[k] for k in wanted], [600 * q for q in wanted.values()])[1] > 1e-3


def test_choices_of_rows_and_columns() -> None:
    x = it.arange(12).reshape(3, 4)
    rng = it.random.default_rng(5)
    assert rng.choice(x, (2, 5)).shape == (2, 5, 4)
    assert rng.choice(x, 2, axis=1, replace=False).shape == (3, 2)
    assert rng.choice([7, 8]).shape == ()
    assert rng.choice(0, 0).shape == (0,)


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((0,), {}, "a must be a positive integer unless no samples are taken"),
        ((2.5,), {}, "a must be a sequence or an integer"),
        ((3, 5, False), {}, "larger sample than population"),
        ((3, 2), {"p": [0.5, 0.2, 0.2]}, "do not sum to 1"),
        ((3, 2), {"p": [0.5, 0.5]}, "must have same size"),
        ((3, 2), {"p": [-0.5, 0.5, 1]}, "not non-negative"),
        ((3, 3, False), {"p": [0, 0.5, 0.5]}, "Fewer non-zero entries in p than size"),
    ],
)
def test_impossible_choices_are_refused(args: Any, kwargs: Any, text: str) -> None:
    for rng in (np.random.default_rng(0), it.random.default_rng(0)):
        with pytest.raises(ValueError, match=text):
            rng.choice(*args, **kwargs)


def test_integers_of_several_ranges() -> None:
    low, high = np.array([0, -5, 2**62]), np.array([3, 5, 2**63 - 1])
    x = it.random.default_rng(6).integers(low, high, size=(2000, 3)).numpy()
    assert ((x >= low) & (x < high)).all()
    assert set(x[:, 0].tolist()) == {0, 1, 2}
    with pytest.raises(ValueError, match="low >= high"):
        it.random.default_rng(6).integers([1, 5], [3, 5])


def test_old_names_draw_from_the_session() -> None:
    it.random.seed(8)
    assert it.random.rand(2, 3).shape == it.random.randn(2, 3).shape == (2, 3)
    faces = it.random.randint(1, 7, size=500).numpy()
    assert (faces.min(), faces.max()) == (1, 6)
    assert it.random.random_integers(2, size=200).numpy().max() == 2
    assert len(it.random.bytes(13)) == 13
    it.random.seed([1, 2])
    it.random.seed()
