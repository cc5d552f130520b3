"""Functions over other ops record the same when they are called again, and none of their lines
runs; what looks at values, or at what it is given, does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fake_gpu import fake_gpu

import infinitensor as it
from infinitensor.api.known import known_programs
from infinitensor.api.known.known_programs import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 40)), RNG.normal(size=(30, 40))
AT = RNG.integers(-40, 40, (30, 3))


@pytest.fixture(params=["waiting", "in tiles", "on a GPU", "without C"])
def put(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """How an operand is given: waiting, in tiles, on a device."""
    if request.param in ("waiting", "in tiles"):
        monkeypatch.setattr(it.config, "small_elements", 0)
        with it.init("cpu"):
            yield (lambda x: it.asarray(x) * 1) if request.param == "waiting" else it.asarray
        return
    if request.param == "without C":
        monkeypatch.setattr(known_programs, "play", known_programs._play)
        monkeypatch.setattr(known_programs, "takes", known_programs._takes)
    with fake_gpu(), it.init("cuda:0"):
        yield on_device


def on_device(x: Any) -> Any:
    """A tensor whose values are on a device, however few they are."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(it.config, "small_elements", 0)
        return it.compute(it.asarray(x) * 1)


def remembered(session: Any, name: str) -> list[Steps]:
    """What is remembered of a function."""
    return [x for key, x in session.programs.items() if key[0] == name and type(x) is Steps]


CALLS: dict[str, Callable[..., Any]] = {
    "quantile": lambda xp, x, y: xp.quantile(x, 0.3, axis=1),
    "percentile": lambda xp, x, y: xp.percentile(x, [10, 50], axis=0),
    "median": lambda xp, x, y: xp.median(x, axis=1, keepdims=True),
    "sort": lambda xp, x, y: xp.sort(x, axis=0),
    "argsort": lambda xp, x, y: xp.argsort(y),
    "cumsum": lambda xp, x, y: xp.cumsum(x, axis=1),
    "concatenate": lambda xp, x, y: xp.concatenate([x, y], axis=1),
    "stack": lambda xp, x, y: xp.stack((x, y), axis=-1),
    "roll": lambda xp, x, y: xp.roll(x, 3, axis=0),
    "einsum": lambda xp, x, y: xp.einsum("ij,ik->jk", x, y),
    "histogram": lambda xp, x, y: xp.histogram(x, 7, (-2.0, 2.0))[0],
    "tensordot": lambda xp, x, y: xp.tensordot(x, y, axes=([1], [1])),
    "diff": lambda xp, x, y: xp.diff(x, axis=0),
}


@pytest.mark.parametrize("name", CALLS)
def test_other_values_of_the_same_kinds_have_their_own_results(
    name: str, put: Any, request: pytest.FixtureRequest
) -> None:
    call = CALLS[name]
    for k in range(6):
        x, y = X * (k + 1), Y - k
        made = call(it, put(x), put(y))
        np.testing.assert_allclose(made.numpy(), call(np, x, y), rtol=1e-9, atol=1e-9)
    if request.node.callspec.params["put"] != "in tiles":  # values of this memory: not remembered
        assert remembered(made._session, name), "the last calls run no line of the function"


def test_calls_are_known_in_c_by_what_they_are_in_python() -> None:
    """Equal keys, or none in both."""
    if known_programs.takes is known_programs._takes:
        pytest.skip("no compiler")
    with fake_gpu(), it.init("cuda:0"):
        x = on_device(X)
        deep: list[Any] = []
        deep.append((1, [2.5, "a", [deep[:], None]]))
        kinds: list[Any] = [
            x, x[2:, ::3], x.T, x[0], 3, True, -2.5, 0.0, -0.0, None, "linear", np.float32,
            np.dtype("i2"), it.bfloat16 if hasattr(it, "bfloat16") else None, (1, 2), [], [x, x.T],
            deep, float, np.nan, np.int64(3), np.ones(3), it.asarray(X[0]), 2j, slice(1), {1: 2},
            [1, np.ones(2)], x[1, 1], 1 << 80, b"a",
        ]  # fmt: skip
        for kind in kinds:
            found = []
            for takes in (known_programs.takes, known_programs._takes):
                key: list[Any] = []
                cells: list[Any] = []
                is_taken = takes((x, kind, 1.5), key, cells)
                found.append((is_taken, *((repr(key), cells) if is_taken else ())))
            assert found[0] == found[1], kind


def test_the_same_tensor_twice_is_another_call_than_two(put: Any) -> None:
    x, y = put(X), put(Y)
    for _ in range(4):
        np.testing.assert_array_equal(it.concatenate([x, x]).numpy(), np.concatenate([X, X]))
    for _ in range(4):
        np.testing.assert_array_equal(it.concatenate([x, y]).numpy(), np.concatenate([X, Y]))
        np.testing.assert_array_equal(it.concatenate([y, x]).numpy(), np.concatenate([Y, X]))


def test_equal_numbers_of_other_kinds_are_other_calls(put: Any) -> None:
    x = put(X)
    for q in (1, 1.0, True, 0, 0.0, -0.0, 1, 1.0) * 3:
        wanted = np.quantile(X, q if q is not True else 1, axis=1)
        np.testing.assert_array_equal(it.quantile(x, q, axis=1).numpy(), wanted)
    for axis in (0, False, 0, False) * 3:
        try:
            wanted = np.roll(X, 1, axis=axis)
        except TypeError:
            continue
        np.testing.assert_array_equal(it.roll(x, 1, axis=axis).numpy(), wanted)


def test_views_are_seen_as_they_are(put: Any) -> None:
    x = put(X)
    views: tuple[Any, ...] = (
        lambda x: x.T, lambda x: x[1:], lambda x: x[:-1], lambda x: x[::-2, 3:],
        lambda x: x.reshape(-1), lambda x: x.reshape(40, 30), lambda x: x[2],
    )  # fmt: skip
    for _ in range(4):
        for view in views:
            wanted = np.quantile(view(X), 0.25, axis=-1)
            made = it.quantile(view(x), 0.25, axis=-1)
            np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-12)
            assert made.reshape(-1).shape == wanted.reshape(-1).shape
            made = it.quantile(view(x), 0.25)
            np.testing.assert_allclose(made.numpy(), np.quantile(view(X), 0.25), rtol=1e-12)


def test_what_looks_at_values_runs_each_time(put: Any) -> None:
    for k in range(8):
        values = np.arange(50) % (k + 3)
        x = put(values)
        np.testing.assert_array_equal(it.unique(x).numpy(), np.unique(values))
        np.testing.assert_array_equal(it.bincount(x).numpy(), np.bincount(values))
        np.testing.assert_array_equal(it.histogram(x, 3)[1].numpy(), np.histogram(values, 3)[1])
        session = x._session
    assert not remembered(session, "unique")
    assert not remembered(session, "bincount")


def test_what_is_given_belongs_to_the_caller(put: Any) -> None:
    x = put(X)
    wanted, edges = np.histogram(X, 5, (-1.0, 1.0))
    for _ in range(5):
        counts, given = it.histogram(x, 5, (-1.0, 1.0))
        np.testing.assert_array_equal(counts.numpy(), wanted)
        np.testing.assert_array_equal(given.numpy(), edges)
        given[...] = 7.0
        counts += 3
        np.testing.assert_array_equal(it.sort(x, axis=1).numpy(), np.sort(X, axis=1))


def test_operands_are_not_used_up_and_changes_are_seen(put: Any) -> None:
    values = X.copy()
    x = put(X)
    for k in range(6):
        x[k] = 5.0 + k
        values[k] = 5.0 + k
        found = it.median(x, axis=0)
        kept = it.concatenate([x, x])
        np.testing.assert_array_equal(found.numpy(), np.median(values, axis=0))
        np.testing.assert_array_equal(kept.numpy(), np.concatenate([values, values]))
    np.testing.assert_array_equal(x.numpy(), values)


def test_entries_are_written_where_a_tensor_is_now(put: Any) -> None:
    x, at, more = put(X[:, 0].copy()), put(AT[:, 0] % 30), put(Y[:, 0])
    values = X[:, 0].copy()
    for k in range(8):
        if k % 3 == 2:
            kept = x * 1  # what was there before is still read
            wanted = values.copy()
        it.add.at(x, at, more)
        np.add.at(values, AT[:, 0] % 30, Y[:, 0])
        x[at] = more
        values[AT[:, 0] % 30] = Y[:, 0]
        if k % 2:
            np.testing.assert_array_equal(x.numpy(), values)
        if k % 3 == 2:
            np.testing.assert_array_equal(kept.numpy(), wanted)
    np.testing.assert_array_equal(x.numpy(), values)


def test_random_functions_draw_anew(put: Any) -> None:
    rng = it.random.default_rng(3)
    x = put(X)
    seen = [rng.permutation(x).numpy().tobytes() for _ in range(5)]
    assert len(set(seen)) == 5


def test_errors_are_raised_each_time(put: Any) -> None:
    x, at = put(X), put(AT)
    for _ in range(4):
        with pytest.raises(ValueError, match=r"Quantiles must be in the range \[0, 1\]"):
            it.quantile(x, 1.5)
        made = it.take_along_axis(x, at, 1).numpy()
        np.testing.assert_array_equal(made, np.take_along_axis(X, AT, 1))
    wrong = put(AT + 40)
    for _ in range(4):
        with pytest.raises(IndexError, match="out of bounds for axis 1 with size 40"):
            it.take_along_axis(x, wrong, 1).numpy()


def test_settings_are_asked_for_again(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = put(X.reshape(-1))
    for tiles in (0, 64, 0, 100, 64):
        monkeypatch.setattr(it.config, "tile_elements", tiles)
        for _ in range(3):
            np.testing.assert_allclose(it.quantile(x, 0.5).numpy(), np.quantile(X, 0.5))


def test_nothing_is_held_but_what_is_remembered() -> None:
    with fake_gpu(), it.init("cuda:0", memory="64MiB") as session:
        x = on_device(X)
        for _ in range(6):
            it.compute(it.quantile(x, 0.3, axis=1), it.concatenate([x, x], axis=1))
        assert remembered(session, "quantile")
        del x
        session.drain()
        assert not session.kept_versions()
    assert not session.programs
